r"""What features say of rows: a ridge regression of factors on features.

.. math:: \min_W \sum_y b_y ‖V_y - F_y W‖² + μ \bar b ‖W‖²

with the weights b of the rows and the mean :math:`\bar b` of those that are not zero. All columns
of W are found at once by conjugate gradients, preconditioned by the diagonal: :math:`F^T B F` is
never formed, and F may have a million columns. Where F has more columns than rows, the system has a
row for each row of F instead: with :math:`C = B^{1/2}`,

.. math:: W = F^T C \, (C F F^T C + μ \bar b)^{-1} \, C V.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from robirank._types import Floats32, Floats64
from robirank.data.sparse_rows import SparseRows

#: Steps after which the solution hardly changes any more.
ALL_STEPS = 16
_FOLDS = 5  # one row of so many is held out to choose μ
_CHUNK = 1 << 14  # rows in double precision at a time
_PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1)  # values of μ to choose from


class Design(Protocol):
    """The features F of rows, in memory or on a card; arrays are those of NumPy or PyTorch."""

    shape: tuple[int, int]

    def times(self, W: Any) -> Any:
        """F W."""

    def transposed_times(self, rows: Any) -> Any:
        """Fᵀ rows."""

    def squares(self, weights: Any) -> Any:
        """The diagonal of Fᵀ B F, a number for each feature."""

    def dots(self, a: Any, b: Any) -> Any:
        """The inner products of the columns of two matrices, in double precision."""

    def gram(self, rows: Any) -> Floats64:
        """The inner products of all columns of a matrix, in double precision."""

    def as_array(self, values: Any) -> Any:
        """Numbers as a float32 array where the features are."""


class HostDesign:
    """The features of rows in memory; the number of threads changes no bit of a product."""

    def __init__(self, features: SparseRows, num_threads: int = 0) -> None:
        self._features, self._num_threads = features, num_threads
        self.shape = features.matrix.shape

    def times(self, W: Floats32) -> Floats32:
        """F W."""
        return self._features.times(W, self._num_threads)

    def transposed_times(self, rows: Floats32) -> Floats32:
        """Fᵀ rows."""
        return self._features.transposed_times(rows, self._num_threads)

    def squares(self, weights: Floats32) -> Floats32:
        """The diagonal of Fᵀ B F."""
        return self._features.squares(weights)

    def dots(self, a: Floats32, b: Floats32) -> Floats64:
        """The inner products of the columns of two matrices."""
        return np.einsum("ij,ij->j", a, b, dtype=np.float64)

    def gram(self, rows: Floats32) -> Floats64:
        """The inner products of all columns of a matrix."""
        total = np.zeros((rows.shape[1],) * 2)
        for first in range(0, len(rows), _CHUNK):
            chunk = rows[first : first + _CHUNK].astype(np.float64)
            total += chunk.T @ chunk
        return total

    def as_array(self, values: Any) -> Floats32:
        """Numbers as float32 ones."""
        return np.asarray(values, np.float32)


def ridge(
    design: Design, weights: Any, rows: Any, penalty: float, *, steps: int = ALL_STEPS
) -> Any:
    """The weights W of features, a matrix of shape (n_features, factors).

    Parameters
    ----------
    design : Design
        The features of n rows.
    weights : float32 array of shape (n,)
        How much each row counts; a row of weight 0 does not.
    rows : float32 array of shape (n, factors)
    penalty : float
        μ.
    steps : int
        Of conjugate gradients. A few of them find what many rows say.

    Examples
    --------
    Two rows with the same feature: half of their sum, but for the penalty.

    >>> from scipy.sparse import csr_matrix
    >>> F = HostDesign(SparseRows(csr_matrix([[1.0], [1.0]], dtype=np.float32)))
    >>> V, ones = np.array([[1.0], [3.0]], np.float32), np.ones(2, np.float32)
    >>> ridge(F, ones, V, 1e-6).round(3).tolist(), ridge(F, ones, V, 2.0).tolist()
    ([[2.0]], [[1.0]])
    """
    added = penalty * float(weights.sum()) / max(1, int((weights > 0).sum()))
    if not added:
        return 0.0 * design.transposed_times(rows)
    n_rows, n_columns = design.shape
    b = weights[:, None]
    if n_columns <= n_rows:
        return _solve(
            design,
            lambda W: design.transposed_times(b * design.times(W)) + added * W,
            design.transposed_times(b * rows),
            diagonal=(design.squares(weights) + added)[:, None],
            steps=steps,
        )
    roots = b**0.5
    by_row = _solve(
        design,
        lambda x: roots * design.times(design.transposed_times(roots * x)) + added * x,
        roots * rows,
        diagonal=b + added,  # about, for rows of features have a length of about one
        steps=steps,
    )
    return design.transposed_times(roots * by_row)


def _solve(
    design: Design, times: Callable[[Any], Any], wanted: Any, *, diagonal: Any, steps: int
) -> Any:
    """The solution of a symmetric system, column by column, by so many conjugate gradients."""
    residual = wanted
    scaled = residual / diagonal
    solution, direction, length = 0.0 * scaled, scaled, design.dots(residual, scaled)
    first = length
    for _ in range(steps):
        along = times(direction)
        step = design.as_array(_ratio(length, design.dots(direction, along), first))
        solution = solution + step * direction
        residual = residual - step * along
        scaled = residual / diagonal
        before, length = length, design.dots(residual, scaled)
        direction = scaled + design.as_array(_ratio(length, before, first)) * direction
    return solution


def choose_penalty(design: Design, weights: Any, rows: Any) -> float:
    """The μ under which features say most of rows that were held out, a fifth of them."""
    fitted, held_out = folds(weights)

    def error(penalty: float) -> float:
        wrong = rows - design.times(ridge(design, fitted, rows, penalty))
        return float(design.dots(held_out[:, None] * wrong, wrong).sum())

    return min(_PENALTIES, key=error)


def folds(weights: Any) -> tuple[Any, Any]:
    """Weights in two parts: those of rows to regress on, and of each fifth row, held out."""
    held_out = 0.0 * weights
    held_out[::_FOLDS] = weights[::_FOLDS]
    return weights - held_out, held_out


def _ratio(a: Any, b: Any, first: Any) -> Any:
    """The quotients a / b; 0 where b is nothing beside what it was at first."""
    is_left = b > 1e-12 * first
    return is_left * a / (b + ~is_left)
