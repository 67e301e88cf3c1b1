"""Interactions in the form that solvers use: the items of each user and their weights, no ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robirank import _core
from robirank._callers import warn
from robirank._random import native_seed
from robirank._sparse import check_rows, offsets, places_of_rows, sound_csr
from robirank._threads import thread_count
from robirank.data.feature_rows import AlignedFeatures, FeatureRows
from robirank.errors import ArgumentError

Weighting = Literal["binary", "log", "count"]
SideName = Literal["users", "items"]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class UserItems:
    """The items of users, one user after the other: user x has ``items[indptr[x]:indptr[x + 1]]``.

    Items are positions, which rise within a user of a table that `as_user_items` read; a weight is
    None where all are one, and times are None where nobody knows them. ``disliked`` has what the
    same users took against. ``cut`` is the number of
    parts that the users are cut into already, and the seed of that cut. Outside ids are None where
    the table has none.
    """

    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    weight: NDArray[np.float32] | None
    n_items: int
    cut: tuple[int, int] | None = None
    user_ids: Any = None
    item_ids: Any = None
    user_features: FeatureRows | None = None
    item_features: FeatureRows | None = None
    times: NDArray[Any] | None = None
    disliked: UserItems | None = None

    @property
    def n_users(self) -> int:
        """The number of users, those without interactions included."""
        return len(self.indptr) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Users × items."""
        return self.n_users, self.n_items

    @property
    def n_interactions(self) -> int:
        """The number of interactions."""
        return len(self.items)

    @property
    def has_features(self) -> bool:
        """Whether something is known of users or of items."""
        return self.user_features is not None or self.item_features is not None

    def user_counts(self) -> NDArray[np.int64]:
        """The number of interactions of each user."""
        return np.diff(self.indptr)

    def item_counts(self) -> NDArray[np.int64]:
        """The number of interactions of each item."""
        return np.bincount(self.items, minlength=self.n_items)

    def rows(self, users: NDArray[Any]) -> UserItems:
        """The rows of the given users, in that order; their positions are 0, 1, 2, … there."""
        features = None if self.user_features is None else self.user_features.take(users)
        part = self._select(*places_of_rows(self.indptr, users), features)
        return part if self.disliked is None else replace(part, disliked=self.disliked.rows(users))

    def take(self, chosen: NDArray[np.bool_]) -> UserItems:
        """The same users with only the items that a mask marks."""
        filled = np.flatnonzero(self.user_counts())
        lengths = np.zeros(self.n_users, dtype=np.int64)
        if len(filled):
            lengths[filled] = np.add.reduceat(chosen, self.indptr[filled], dtype=np.int64)
        part = self._select(offsets(lengths), chosen, self.user_features)
        return part if self.disliked is None else replace(part, disliked=self.disliked)

    def sorted_by_item(self) -> UserItems:
        """The same interactions, with the items of each user in rising order."""
        user = np.repeat(np.arange(self.n_users), self.user_counts())
        return self._select(self.indptr, np.lexsort((self.items, user)), self.user_features)

    def from_user(self, first_user: int, n_items: int) -> UserItems:
        """The rows of the users from ``first_user`` on, with the first ``n_items`` items alone."""
        rows = self.rows(np.arange(first_user, self.n_users))
        return rows.of_items(np.arange(n_items))

    def of_items(self, items: NDArray[Any]) -> UserItems:
        """The same users with some of the items, which rise; their positions are 0, 1, 2, … there.

        Examples
        --------
        >>> table = UserItems(np.array([0, 2, 3]), np.array([4, 7, 1], np.int32), None, 8)
        >>> table.of_items(np.array([1, 7])).items
        array([1, 0], dtype=int32)
        """
        place = np.full(self.n_items, -1, np.int32)
        place[items] = np.arange(len(items), dtype=np.int32)
        part = self.take(place[self.items] >= 0)
        features = None if self.item_features is None else self.item_features.take(items)
        return replace(
            part,
            items=place[part.items],
            n_items=len(items),
            item_features=features,
            disliked=None if self.disliked is None else self.disliked.of_items(items),
        )

    def extended(self, n_users: int, n_items: int) -> UserItems:
        """The same interactions among more users and items, which come after the present ones."""
        indptr = np.concatenate([self.indptr, np.full(n_users - self.n_users, self.indptr[-1])])
        disliked = None if self.disliked is None else self.disliked.extended(n_users, n_items)
        return replace(self, indptr=indptr, n_items=n_items, disliked=disliked)

    def joined(self, other: UserItems) -> UserItems:
        """The interactions of both tables, without weights; the other may have fewer rows.

        Examples
        --------
        >>> table = UserItems(np.array([0, 1, 2]), np.array([4, 7], np.int32), None, 8)
        >>> table.joined(UserItems(np.array([0, 2]), np.array([1, 4], np.int32), None, 8)).items
        array([1, 4, 7], dtype=int32)
        """
        return self._combined(other, lambda first, second: first + second)

    def common(self, other: UserItems) -> UserItems:
        """The interactions that both tables have, without weights.

        Examples
        --------
        >>> table = UserItems(np.array([0, 2, 3]), np.array([1, 4, 7], np.int32), None, 8)
        >>> table.common(UserItems(np.array([0, 2, 2]), np.array([4, 7], np.int32), None, 8)).items
        array([4], dtype=int32)
        """
        return self._combined(other, lambda first, second: first.multiply(second))

    def _combined(self, other: UserItems, combine: Any) -> UserItems:
        n_users = max(self.n_users, other.n_users)
        both = [t.extended(n_users, max(self.n_items, other.n_items)) for t in (self, other)]
        ones = [replace(t, weight=np.ones(len(t.items), np.int8)).to_csr() for t in both]
        result = sparse.csr_matrix(combine(*ones))
        result.sort_indices()
        indptr, items = result.indptr.astype(np.int64), result.indices.astype(np.int32)
        return UserItems(indptr, items, None, result.shape[1])

    def with_features(
        self, user_features: AlignedFeatures | None, item_features: AlignedFeatures | None
    ) -> UserItems:
        """The same interactions with features, and with users and items known by them alone."""
        table = self
        if user_features is not None:
            rows, ids = user_features
            table = table.extended(len(rows), table.n_items)
            table = replace(table, user_features=rows, user_ids=ids, cut=None)
        if item_features is not None:
            rows, ids = item_features
            table = table.extended(table.n_users, len(rows))
            table = replace(table, item_features=rows, item_ids=ids)
        return table

    def of_users(
        self, users: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """The rows of the given users: where each row starts, the items and their weights."""
        indptr, where = places_of_rows(self.indptr, users)
        return indptr, self.items[where], self.weights_of(where)

    def without(self, other: UserItems) -> UserItems:
        """The interactions that are not in another table of the same users and items.

        Examples
        --------
        >>> table = UserItems(np.array([0, 2, 3]), np.array([1, 4, 7], np.int32), None, 8)
        >>> table.without(UserItems(np.array([0, 1, 1]), np.array([4], np.int32), None, 8)).items
        array([1, 7], dtype=int32)
        """
        keys, others = (
            np.repeat(np.arange(t.n_users), t.user_counts()) * self.n_items + t.items
            for t in (self, other)
        )
        return self.take(~np.isin(keys, others))

    def weighted(self, weighting: Weighting) -> UserItems:
        """The same rows with weights in place of counts; see `weights_of_counts`."""
        counts = np.ones(len(self.items), np.float32) if self.weight is None else self.weight
        return replace(self, weight=weights_of_counts(counts, weighting))

    def to_csr(self) -> Any:
        """The table as a CSR matrix of weights."""
        weights = np.ones(len(self.items), np.float32) if self.weight is None else self.weight
        return sparse.csr_matrix((weights, self.items, self.indptr), shape=self.shape)

    def weights_of(self, where: Any) -> NDArray[np.float64]:
        """The weights of the interactions that an index or a slice selects."""
        if self.weight is None:
            return np.ones(len(self.items[where]))
        return self.weight[where].astype(np.float64)

    def mean_weight(self) -> float:
        """The mean weight of an interaction."""
        if self.weight is None or not len(self.weight):
            return 1.0
        return float(self.weight.mean(dtype=np.float64))

    def _select(
        self, indptr: NDArray[np.int64], where: Any, user_features: FeatureRows | None
    ) -> UserItems:
        """Other rows, which know neither parts nor ids."""
        weight = None if self.weight is None else self.weight[where]
        return UserItems(
            indptr,
            self.items[where],
            weight,
            self.n_items,
            user_features=user_features,
            item_features=self.item_features,
            times=None if self.times is None else self.times[where],
        )


def check_table(
    indptr: NDArray[Any],
    items: NDArray[Any],
    counts: NDArray[Any] | None,
    shape: tuple[int, int],
) -> None:
    """Raise an error unless arrays are a table: items rise within users, counts are positive."""
    check_rows("the table", indptr, items, shape)
    if indptr[-1] != len(items):
        raise ValueError(f"indptr must end with {len(items)}, the number of interactions")
    rising = items[1:] > items[:-1]
    rising[indptr[(indptr > 0) & (indptr < len(items))] - 1] = True
    if not rising.all():
        raise ValueError("items must rise within each user; Interactions.from_arrays sorts them")
    if counts is not None and not ((counts > 0) & (counts < np.inf)).all():
        bad = counts[~((counts > 0) & (counts < np.inf))][0]
        raise ValueError(f"counts must be positive finite numbers; got {bad:g}")


def as_user_items(
    user_items: Any, weighting: Weighting = "binary", *, name: str = "user_items"
) -> UserItems:
    """Convert a table of interactions: a sparse users × items matrix, or `Interactions`.

    What is a `UserItems` already gets the weights alone.

    Stored zeros are no interactions; entries stored twice are added up. Counts become weights as
    ``weighting`` says: "binary" ignores them as the paper does, "log" takes log2(1 + count),
    "count" takes them as they are. Errors call the table by ``name``.
    """
    if isinstance(user_items, UserItems):
        return user_items.weighted(weighting)
    csr = _checked_csr(user_items, name)
    wrong = csr.data[~np.isfinite(csr.data) | (csr.data < 0)]
    if len(wrong):
        raise ArgumentError(name, f"holds {wrong[0]}; counts must be finite and not negative")
    csr = without_duplicates(csr)
    return UserItems(
        np.ascontiguousarray(csr.indptr, np.int64),
        np.ascontiguousarray(csr.indices, np.int32),
        weights_of_counts(csr.data, weighting),
        csr.shape[1],
        getattr(user_items, "cut", None),
        ids_of(user_items, "users"),
        ids_of(user_items, "items"),
        times=getattr(user_items, "timestamps", None),
    )


def rows_of(table: Any, users: NDArray[Any]) -> UserItems:
    """The rows of some users of `Interactions`, with their counts and times."""
    times = table.timestamps
    return UserItems(table.indptr, table.indices, table.counts, table.n_items, times=times).rows(
        users
    )


def ids_of(data: Any, side: SideName) -> Any:
    """The outside ids of a table's users or items, or of a model's; None where there are none."""
    singular = side.removesuffix("s")
    if hasattr(data, f"{singular}_ids_"):
        return getattr(data, f"{singular}_ids_")
    read = getattr(data, f"{singular}_ids", None)
    return read() if callable(read) else getattr(data, side, None)


def random_share(indptr: NDArray[np.int64], share: float, rng: np.random.Generator) -> Mask:
    """Mark a random share of each user's interactions, but never all of them."""
    lengths = np.diff(indptr)
    sizes = np.minimum(rounded_at_random(lengths * share, rng), np.maximum(lengths - 1, 0))
    return sample_items(indptr, sizes, rng)


def sample_items(
    indptr: NDArray[np.int64], sizes: NDArray[np.int64], rng: np.random.Generator
) -> Mask:
    """Mark so many random interactions of each user as ``sizes`` says."""
    chosen = _core.sample_rows(indptr, sizes, seed=native_seed(rng), num_threads=thread_count())
    return chosen.view(np.bool_)


def rounded_at_random(numbers: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """Numbers rounded up or down at random, so that they are right on average."""
    return np.floor(numbers + rng.random(len(numbers))).astype(np.int64)


def weights_of_counts(counts: NDArray[Any], weighting: Weighting) -> NDArray[np.float32] | None:
    """The weights of interactions with the given counts; None if all weights are 1."""
    if weighting == "log":
        return np.log2(1.0 + counts).astype(np.float32)
    if weighting == "count":
        return counts.astype(np.float32)
    if weighting != "binary":
        problem = f'must be "binary", "log" or "count"; got {weighting!r}'
        raise ArgumentError("weighting", problem)
    return None


def _checked_csr(user_items: Any, name: str) -> Any:
    from scipy import sparse

    matrix: Any = getattr(user_items, "matrix", user_items)
    is_sparse: bool = sparse.issparse(matrix)
    if not is_sparse:
        raise TypeError(
            f"{name} must be a sparse users × items matrix (scipy.sparse.csr_matrix) or "
            f"Interactions; got {type(user_items).__name__}"
        )
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ArgumentError(name, f"must have users and items; its shape is {matrix.shape}")
    if matrix.shape[1] > np.iinfo(np.int32).max:
        raise ArgumentError(name, f"has {matrix.shape[1]} items; at most 2^31 - 1 can be held")
    if matrix.dtype.kind not in "biuf":
        raise ArgumentError(name, f"must hold real numbers; its type is {matrix.dtype}")
    if matrix.format != "csr":  # the implicit package warns too
        warn(
            f"{name} is a {type(matrix).__name__}, which costs time and memory to convert; "
            "give a CSR matrix, such as tocsr() makes",
        )
    return as_csr(name, matrix)


def as_csr(name: str, matrix: Any) -> Any:
    """Check a sparse matrix and convert it to CSR, without adding up small integers."""
    return sound_csr(name, matrix if matrix.format == "csr" else _wide(matrix))


def without_duplicates(csr: Any) -> Any:
    """The matrix itself, or a copy with sorted items and without duplicates and zeros."""
    if csr.has_canonical_format and csr.data.all():
        return csr
    csr = _wide(csr).copy()
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return csr


def _wide(matrix: Any) -> Any:
    """Convert integers to float64: sums of duplicate entries could overflow small integers."""
    return matrix.astype(np.float64) if matrix.dtype.kind in "biu" else matrix
