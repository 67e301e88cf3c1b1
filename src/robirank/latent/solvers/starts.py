r"""Where factors begin: at random rows, or at the leading singular vectors of the table.

Around U = V = 0 the loss of users with ρ = log₂(1 + t) is linear in the scores, and the objective
bilinear in U and V: a direction grows where a singular value σ of

.. math:: M = A^{-1/2} (R - \bar R) B^{-1/2} / (2 \ln 2)

exceeds λ, fastest where σ is largest. R has ones where there is an interaction, the row of a user
in :math:`\bar R` is their mean over all items, and A and B are the row weights of the penalty. So
factors that begin at

.. math:: U = c A^{-1/2} L σ^{1/2}, \qquad V = c B^{-1/2} N σ^{1/2}

with the leading singular vectors L and N of M need no epochs to find these directions among random
ones. The vectors are found by subspace iteration from random ones, a dozen sparse products.

Weights of interactions are left out: those of a few that weigh a thousand times as much as others
would fill the leading vectors, and taste is in which items are taken. The first epochs bring them.

References
----------
Halko, Martinsson, Tropp: Finding structure with randomness. SIAM Review 53, 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from robirank._types import Floats32, Floats64, Ints64
from robirank.data.sparse_rows import SparseRows
from robirank.data.user_items import UserItems
from robirank.latent.factors.factors import ITEMS, USERS, Factors, Side, random_rows
from robirank.latent.solvers.design import design_of
from robirank.latent.solvers.problem import Problem
from robirank.losses import LN2

#: Makes the factors with which a solver begins.
Start = Callable[[Problem, UserItems], Factors]

_SCORE = 8.0  # the size of the scores of interactions at the start; twice it changes little
_SAMPLE = 1 << 12  # interactions by which it is told, about
_ITERATIONS, _SPARE = 4, 8  # of the subspace; its columns beyond the factors
_LEAST_STRENGTH = 1e-4  # of the whole of the table; with less, its rows hardly differ
_REST = 0.1  # the length of random rows in the columns beyond the rank of the table


def random_start(problem: Problem, interactions: UserItems) -> Factors:
    """Rows of length about one in random directions; zeros for users without interactions."""
    U = random_rows(problem.seed, USERS, interactions.n_users, problem.factors)
    U[interactions.user_counts() == 0] = 0.0
    V = random_rows(problem.seed, ITEMS, interactions.n_items, problem.factors)
    return _named(U, V, interactions)


def singular_start(problem: Problem, interactions: UserItems) -> Factors:
    """Rows along the leading singular vectors of the table; random ones where it has none.

    Rows without interactions are zeros.
    """
    found = _singular_rows(problem, interactions)
    if found is None:
        return random_start(problem, interactions)
    rank = found[0].shape[1]
    if rank == problem.factors:
        return _named(*found, interactions)
    start = random_start(problem, interactions)
    U, V = start.users.rows, start.items.rows
    for rows, leading in zip((U, V), found, strict=True):
        rows[:, :rank] = leading
        rows[:, rank:] *= _REST
    V[interactions.item_counts() == 0] = 0.0
    return start


def _singular_rows(problem: Problem, interactions: UserItems) -> tuple[Floats32, Floats32] | None:
    """The rows of U and V in the columns up to the rank; None where a table says nothing."""
    table = _Table(problem, interactions)
    found = _leading(table, problem.seed, problem.factors)
    if not found.strengths[0] > _LEAST_STRENGTH * table.norm:
        return None
    roots = np.sqrt(found.strengths)
    with np.errstate(divide="ignore", invalid="ignore"):
        to_users = np.where(found.strengths > 0, found.turn / roots, 0.0)
    U = table.roots[0][:, None] * table.on_host(found.image, to_users)
    V = table.roots[1][:, None] * table.on_host(found.basis, found.turn * roots)
    size = _size_of_scores(U, V, interactions)
    if not size > 0:
        return None
    scale = np.float32(np.sqrt(_SCORE / size))
    return scale * U, scale * V


def singular_values(problem: Problem, interactions: UserItems, count: int) -> Floats64:
    """The largest singular values of M, the largest first; a direction grows where one exceeds λ.

    There are ``count`` of them, or as many as the table has rows or columns. Weights of
    interactions count by their mean alone, as at the start of a fit.
    """
    table, penalty = _Table(problem, interactions), problem.penalty
    strengths = _leading(table, problem.seed, count).strengths
    scale = problem.mean_weight / np.sqrt(penalty.users.scale * penalty.items.scale)
    return strengths * (scale / (2.0 * LN2))


class _Leading(NamedTuple):
    """The leading singular vectors of a table: ``basis`` @ ``turn``, and ``image`` @ ``turn``."""

    basis: Any
    image: Any
    turn: Floats64
    strengths: Floats64


def _leading(table: _Table, seed: int, count: int) -> _Leading:
    """The leading ``count`` of them, by subspace iteration from random ones."""
    n_users, n_items = table.shape
    width = min(count + _SPARE, n_users, n_items)
    basis = table.orthonormal(random_rows(seed, ITEMS, n_items, width))
    for _ in range(_ITERATIONS):
        basis = table.orthonormal(table.transposed_times(table.times(basis)))
    image = table.times(basis)
    squares, turn = np.linalg.eigh(table.gram(image))
    rank = min(count, width)
    strengths = np.sqrt(np.maximum(squares[::-1][:rank], 0.0))
    return _Leading(basis, image, turn[:, ::-1][:, :rank], strengths)


class _Table:
    """The matrix M of a table, up to a number, as products with it, in memory or on a card.

    Attributes
    ----------
    shape : pair of int
    roots : pair of float32 arrays
        A^(-1/2) and B^(-1/2), up to a number each; 0 for rows without interactions.
    norm : float
        That of A^(-1/2) R B^(-1/2), the root of the sum of its squares.
    """

    def __init__(self, problem: Problem, interactions: UserItems) -> None:
        self.shape = interactions.shape
        counts = interactions.user_counts(), interactions.item_counts()
        a, b = self.roots = (
            _inverse_root(counts[0], problem.penalty.users.exponent),
            _inverse_root(counts[1], problem.penalty.items.exponent),
        )
        entries = np.repeat(a, counts[0]) * b[interactions.items]
        self.norm = float(np.linalg.norm(entries))
        rows = SparseRows(_matrix(entries, interactions))
        self._design = design_of(rows, problem)
        shares = counts[0].astype(np.float32) / np.float32(interactions.n_items)
        self._left = self._design.as_array(a * shares)[:, None]
        self._right = self._design.as_array(b)[:, None]

    def times(self, rows: Any) -> Any:
        """M rows."""
        return self._design.times(rows) - self._left * (self._right * rows).sum(0)

    def transposed_times(self, rows: Any) -> Any:
        """Mᵀ rows."""
        return self._design.transposed_times(rows) - self._right * (self._left * rows).sum(0)

    def orthonormal(self, rows: Any) -> Any:
        """A basis of the space of the columns: rows times the inverse root of their Gram matrix.

        What the columns have in common is lost twice as fast as by QR, which is why it is done
        twice.
        """
        rows = self._design.as_array(rows)
        for _ in range(2):
            squares, turn = np.linalg.eigh(self.gram(rows))
            squares = np.maximum(squares, 1e-12 * max(squares[-1], 1e-30))
            rows = rows @ self._design.as_array(turn / np.sqrt(squares))
        return rows

    def gram(self, rows: Any) -> Floats64:
        """The inner products of the columns."""
        return np.asarray(self._design.gram(rows))

    def on_host(self, rows: Any, turn: Floats64) -> Floats32:
        """Rows turned, in the memory of this process."""
        turned = rows @ self._design.as_array(turn)
        return np.asarray(turned if isinstance(turned, np.ndarray) else turned.cpu())


def _matrix(entries: Floats32, interactions: UserItems) -> Any:
    parts = entries, interactions.items, interactions.indptr
    return sparse.csr_matrix(parts, interactions.shape)


def _inverse_root(counts: Ints64, exponent: float) -> Floats32:
    n = np.maximum(counts, 1).astype(np.float64)
    return ((counts > 0) * n ** (-0.5 * exponent)).astype(np.float32)


def _size_of_scores(U: Floats32, V: Floats32, interactions: UserItems) -> float:
    """The root of the mean of (U_x · V_y)² over interactions, of many over every k-th one."""
    places = np.arange(0, interactions.n_interactions, 1 + interactions.n_interactions // _SAMPLE)
    users = np.searchsorted(interactions.indptr, places, side="right") - 1
    scores = np.einsum("ij,ij->i", U[users], V[interactions.items[places]])
    return float(np.sqrt(np.mean(scores.astype(np.float64) ** 2)))


def _named(U: Floats32, V: Floats32, interactions: UserItems) -> Factors:
    counts = interactions.item_counts().astype(np.int32)
    return Factors(Side(U), Side(V)).named(None, None, counts)
