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
from typing import Any

from robirank.latent.solvers.design import Design

#: Steps after which the solution hardly changes any more.
ALL_STEPS = 16
_FOLDS = 5  # one row of so many is held out to choose μ
_PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1)  # values of μ to choose from


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

    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> from robirank.data.sparse_rows import SparseRows
    >>> from robirank.latent.solvers.design import HostDesign
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
