"""Interactions as solvers want them: the items of each user, and their weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from robirank._callers import warn
from robirank._sparse import offsets, places_of_rows, sound_csr

Weighting = Literal["binary", "log", "count"]


@dataclass(frozen=True)
class SparseRows:
    """The items of users, one user after the other: x has ``items[indptr[x]:indptr[x + 1]]``.

    Attributes
    ----------
    indptr : ndarray of int64, shape (n_users + 1,)
    items : ndarray of int32
    weight : ndarray of float32, or None
        Weight or count of each item of a user; None where all are one.
    """

    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    weight: NDArray[np.float32] | None

    def user_counts(self) -> NDArray[np.int64]:
        """How many items each user has."""
        return np.diff(self.indptr)

    def rows(self, users: NDArray[Any]) -> Self:
        """The rows of some users, who are numbered anew, in the given order.

        Examples
        --------
        >>> table = SparseRows(np.array([0, 2, 2, 3]), np.array([4, 7, 1], np.int32), None)
        >>> table.rows(np.array([2, 0])).items
        array([1, 4, 7], dtype=int32)
        """
        return self._select(*places_of_rows(self.indptr, users))

    def take(self, chosen: NDArray[np.bool_]) -> Self:
        """The items that a mask marks, of the same users."""
        filled = np.flatnonzero(self.user_counts())
        lengths = np.zeros(len(self.indptr) - 1, dtype=np.int64)
        if len(filled):
            lengths[filled] = np.add.reduceat(chosen, self.indptr[filled], dtype=np.int64)
        return self._select(offsets(lengths), chosen)

    def weighted(self, weighting: Weighting) -> Self:
        """The same rows, with what their counts weigh in place of the counts."""
        counts = np.ones(len(self.items), np.float32) if self.weight is None else self.weight
        return replace(self, weight=weights_of_counts(counts, weighting))

    def _select(self, indptr: NDArray[np.int64], where: Any) -> Self:
        weight = None if self.weight is None else self.weight[where]
        return replace(self, indptr=indptr, items=self.items[where], weight=weight)


@dataclass(frozen=True)
class Records(SparseRows):
    """The observed pairs (x, y), user after user; items rise within a user.

    Attributes
    ----------
    indptr, items, weight
        As in `SparseRows`; the weight of a pair is v(W_xy).
    n_items : int
        Size of the catalogue; items without a record count.
    cut : (int, int) or None
        Into how many parts the users were cut beforehand, and the seed that decided how.
    """

    n_items: int
    cut: tuple[int, int] | None = None

    @property
    def n_users(self) -> int:
        """The number of users, those without a record included."""
        return len(self.indptr) - 1

    @property
    def n_records(self) -> int:
        """The number of observed pairs."""
        return len(self.items)

    def mean_weight(self) -> float:
        """The mean weight of a record."""
        if self.weight is None or not len(self.weight):
            return 1.0
        return float(self.weight.mean(dtype=np.float64))

    def item_counts(self) -> NDArray[np.int64]:
        """How many records each item has."""
        return np.bincount(self.items, minlength=self.n_items)

    def of_users(
        self, users: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Where the records of each of some users start, their items and their weights."""
        own = self.rows(users)
        return own.indptr, own.items, own.weights_of(slice(None))

    def matrix(self) -> Any:
        """The pairs as a CSR matrix of ones, users × items."""
        from scipy import sparse

        ones = np.ones(self.n_records, np.float32)
        shape = (self.n_users, self.n_items)
        return sparse.csr_matrix((ones, self.items, self.indptr), shape=shape)

    def _select(self, indptr: NDArray[np.int64], where: Any) -> Self:
        return replace(super()._select(indptr, where), cut=None)

    def part(self, first_user: int, n_items: int) -> Records:
        """The records of the users from one on, among the first items only."""
        own = self.rows(np.arange(first_user, self.n_users))
        return replace(own.take(own.items < n_items), n_items=n_items)

    def weights_of(self, where: Any) -> NDArray[np.float64]:
        """The weights of some records."""
        if self.weight is None:
            return np.ones(len(self.items[where]))
        return self.weight[where].astype(np.float64)


def as_records(
    user_items: Any, weighting: Weighting = "binary", *, name: str = "user_items"
) -> Records:
    """Read a table of interactions: a sparse users × items matrix, or `Interactions`.

    Stored zeros are no interactions; entries stored twice are added up. Counts become weights as
    ``weighting`` says: "binary" ignores them as the paper does, "log" takes log2(1 + count),
    "count" takes them as they are. Errors call the table by ``name``.
    """
    matrix = _as_csr(user_items, name)
    indptr, items, counts = _clean(matrix, name)
    weight = weights_of_counts(counts, weighting)
    return Records(indptr, items, weight, matrix.shape[1], getattr(user_items, "cut", None))


def weights_of_counts(counts: NDArray[Any], weighting: Weighting) -> NDArray[np.float32] | None:
    """What counts weigh: None where all weigh 1.

    Examples
    --------
    >>> weights_of_counts(np.array([1, 3]), "log")
    array([1., 2.], dtype=float32)
    """
    if weighting == "log":
        return np.log2(1.0 + counts).astype(np.float32)
    if weighting == "count":
        return counts.astype(np.float32)
    if weighting != "binary":
        raise ValueError(f'weighting must be "binary", "log" or "count"; got {weighting!r}')
    return None


def _as_csr(user_items: Any, name: str) -> Any:
    from scipy import sparse

    matrix: Any = getattr(user_items, "matrix", user_items)
    known: bool = sparse.issparse(matrix)
    if not known:
        raise TypeError(
            f"{name} must be a sparse users × items matrix (scipy.sparse.csr_matrix) or "
            f"Interactions; got {type(user_items).__name__}"
        )
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{name} must have users and items; its shape is {matrix.shape}")
    if matrix.shape[1] > np.iinfo(np.int32).max:
        raise ValueError(f"{name} has {matrix.shape[1]} items; at most 2^31 - 1 can be held")
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers; its type is {matrix.dtype}")
    if matrix.format != "csr":  # as implicit does
        warn(
            f"{name} is a {type(matrix).__name__}, which costs time and memory to convert; "
            "give a CSR matrix, such as tocsr() makes",
            UserWarning,
        )
    return sound_csr(name, matrix if matrix.format == "csr" else _wide(matrix))


def _wide(matrix: Any) -> Any:
    """Numbers that entries stored twice can be added up in: small integers would overflow."""
    return matrix.astype(np.float64) if matrix.dtype.kind in "biu" else matrix


def _clean(
    matrix: Any, name: str
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.floating]]:
    """Sorted items without duplicates and zeros; the caller's matrix is left as it is."""
    counts = matrix.data
    if not np.isfinite(counts).all() or (counts < 0).any():
        bad = counts[~np.isfinite(counts) | (counts < 0)][0]
        raise ValueError(f"{name} holds {bad}; counts must be finite and not negative")
    if not matrix.has_canonical_format or not counts.all():
        matrix = _wide(matrix).copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    return (
        np.ascontiguousarray(matrix.indptr, np.int64),
        np.ascontiguousarray(matrix.indices, np.int32),
        matrix.data,
    )
