"""Tables of interactions: which user took which item, with outside ids, counts and times."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from robirank import _core
from robirank._checks import check_count, check_length
from robirank._threads import thread_count
from robirank.data._columns import as_times, pick_columns
from robirank.data._encoder import Choice, Encoder, check_error_or_drop
from robirank.data.ids import Ids, Positions, column_like
from robirank.data.nearest import did_you_mean
from robirank.data.user_items import UserItems, as_csr, check_table, without_duplicates
from robirank.errors import ArgumentError, UnknownIdError

_CHUNK_ROWS = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)  # comparing arrays has no single answer
class Interactions:
    """Interactions of users with items, one row a user, as a CSR matrix with outside ids.

    Made by `from_frame`, `from_arrays`, `from_matrix` or `robirank.load_interactions`. What holds
    for all of them:

    - **Ids** may be anything hashable. Users and items have positions 0, 1, 2, … in the order of
      their first appearance, unless ids are given.
    - **Duplicates** are one interaction: counts add up, and the earliest time is kept.
    - **Missing** ids, counts or times (null, None, NaN, "") are an error that says how many there
      are; ``on_missing="drop"`` leaves such rows out.
    - **Counts** are positive and finite; anything else is an error.
    - **Users and items without interactions** exist only where ids are given.
    - **Unseen ids**, those not among given ids, are an error or are left out (``unseen``).

    Attributes
    ----------
    users, items : Ids
        Outside ids; `Ids.index` gives their positions.
    indptr : int64 array of shape (n_users + 1,)
        Where each user's interactions begin in `indices`.
    indices : int32 array of shape (n_interactions,)
        Positions of the items, rising within each user.
    counts : float32 array of shape (n_interactions,), or None
        How often, or how much; None if 1 throughout.
    timestamps : int64 or float64 array of shape (n_interactions,), or None
        When; dates are microseconds since 1970 (UTC).
    has_dates : bool
        Whether the timestamps are dates, and not numbers of an unknown unit.

    Examples
    --------
    >>> data = Interactions.from_arrays(["ann", "bob", "ann", "ann"], ["tea", "tea", "rum", "tea"])
    >>> data
    Interactions(2 users × 2 items, 3 interactions, density 75%)
    >>> data.matrix.toarray().tolist()
    [[2.0, 1.0], [1.0, 0.0]]
    >>> data.items[data.indices[data.indptr[0] : data.indptr[1]]].tolist()
    ['tea', 'rum']
    """

    users: Ids
    items: Ids
    indptr: NDArray[np.int64]
    indices: Positions
    counts: NDArray[np.float32] | None = None
    timestamps: NDArray[Any] | None = None
    has_dates: bool = False

    def __post_init__(self) -> None:
        counts = None if self.counts is None else np.ascontiguousarray(self.counts, np.float32)
        if counts is not None:
            check_length("counts", counts, len(self.indices), "interactions")
        # Before the conversion to int32, in which a number that is too large could look right.
        check_table(np.asarray(self.indptr), np.asarray(self.indices), counts, self.shape)
        self._set("indptr", np.ascontiguousarray(self.indptr, dtype=np.int64))
        self._set("indices", np.ascontiguousarray(self.indices, dtype=np.int32))
        self._set("counts", None if counts is None or (counts == 1).all() else counts)
        if self.timestamps is not None:
            times, dates = as_times(self.timestamps)
            check_length("timestamps", times.to_numpy(), len(self.indices), "interactions")
            if times.null_count():
                raise ArgumentError("timestamps", f"must not be missing; {times.null_count()} are")
            self._set("timestamps", times.to_numpy())
            self._set("has_dates", self.has_dates or dates)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def n_users(self) -> int:
        """The number of users, those without interactions included."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """The number of items, those without interactions included."""
        return len(self.items)

    @property
    def shape(self) -> tuple[int, int]:
        """Users × items."""
        return len(self.users), len(self.items)

    @property
    def n_interactions(self) -> int:
        """The number of pairs (user, item); a repeated interaction counts once."""
        return len(self.indices)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of items of each user."""
        return np.diff(self.indptr)

    @cached_property
    def matrix(self) -> sp.csr_matrix:
        """The counts as a float32 CSR matrix users × items; it shares memory with this object."""
        counts = self.counts
        if counts is None:
            counts = np.ones(len(self.indices), dtype=np.float32)
        matrix = sp.csr_matrix((counts, self.indices, self.indptr), shape=self.shape)
        matrix.has_canonical_format = True
        return matrix

    def __len__(self) -> int:
        return self.n_interactions

    def __repr__(self) -> str:
        cells = self.n_users * self.n_items
        density = f", density {100 * self.n_interactions / cells:.3g}%" if cells else ""
        return (
            f"Interactions({self.n_users:,} users × {self.n_items:,} items, "
            f"{self.n_interactions:,} interactions{density})"
        )

    def user_index(self, ids: Any) -> Any:
        """The positions of users, −1 for one that is not here; see `Ids.index`."""
        return self.users.index(ids)

    def item_index(self, ids: Any) -> Any:
        """The positions of items, −1 for one that is not here; see `Ids.index`."""
        return self.items.index(ids)

    def user_codes(self) -> Positions:
        """The position of the user of each interaction."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), self.lengths)

    def binarize(self) -> Interactions:
        """Forget the counts: each pair counts 1."""
        return replace(self, counts=None)

    def take(self, chosen: NDArray[np.bool_]) -> Interactions:
        """Keep the interactions that a mask marks; users and items stay as they are.

        Examples
        --------
        >>> data = Interactions.from_arrays([7, 7, 8], [1, 2, 1], counts=[5, 1, 2])
        >>> data.take(data.matrix.data > 1)
        Interactions(2 users × 2 items, 2 interactions, density 50%)
        """
        chosen = np.asarray(chosen)
        if chosen.dtype != bool or chosen.shape != self.indices.shape:
            raise ArgumentError(
                "chosen",
                f"must be a mask for {self.n_interactions} interactions; "
                f"got {chosen.dtype} of shape {chosen.shape}",
            )
        rows = UserItems(self.indptr, self.indices, self.counts, self.n_items).take(chosen)
        return replace(
            self,
            indptr=rows.indptr,
            indices=rows.items,
            counts=rows.weight,
            timestamps=None if self.timestamps is None else self.timestamps[chosen],
        )

    def filter(self, *, min_user: int = 1, min_item: int = 1) -> Interactions:
        """Leave out users and items with few interactions, repeatedly (the k-core).

        Leaving out users takes interactions from items, and the other way round, so this is
        repeated until every user has at least `min_user` items and every item at least `min_item`
        users. The ids of all others are left out too.

        Examples
        --------
        >>> data = Interactions.from_arrays(["a", "a", "b", "b", "c"], [1, 2, 1, 2, 3])
        >>> data.filter(min_item=2)
        Interactions(2 users × 2 items, 4 interactions, density 100%)
        """
        check_count("min_user", min_user)
        check_count("min_item", min_item)
        user, item = self.user_codes(), self.indices
        mask = np.ones(len(item), dtype=bool)
        n_before = -1
        while n_before != (n_before := int(np.count_nonzero(mask))):
            has_user = np.bincount(user[mask], minlength=self.n_users) >= min_user
            has_item = np.bincount(item[mask], minlength=self.n_items) >= min_item
            mask &= has_user[user] & has_item[item]
        users = self.users.take(np.flatnonzero(has_user))
        items = self.items.take(np.flatnonzero(has_item))
        return recoded(self, users, items, _new_positions(has_user), _new_positions(has_item))

    def align(self, other: Interactions, *, unseen: Choice = "error") -> Interactions:
        """Translate to the ids of another table, so that positions mean the same in both.

        Parameters
        ----------
        other : Interactions
            The table whose users and items to use.
        unseen : {"error", "drop"}
            What to do with interactions whose user or item is not in `other`.

        Examples
        --------
        >>> train = Interactions.from_arrays(["ann", "bob"], ["tea", "rum"])
        >>> test = Interactions.from_arrays(["bob", "eve"], ["tea", "rum"])
        >>> test.align(train, unseen="drop").matrix.toarray().tolist()
        [[0.0, 0.0], [1.0, 0.0]]
        """
        check_error_or_drop("unseen", unseen)
        user = other.users.index(column_like("users", self.users, other.users, "other"))
        item = other.items.index(column_like("items", self.items, other.items, "other"))
        unknown = (user[self.user_codes()] < 0) | (item[self.indices] < 0)
        if unseen != "drop" and unknown.any():
            first = int(unknown.argmax())
            x, y = self.user_codes()[first], self.indices[first]
            kind, id, ids = (
                ("user", self.users[x], other.users)
                if user[x] < 0
                else ("item", self.items[y], other.items)
            )
            raise UnknownIdError(
                f"{unknown.sum()} of {len(self)} interactions have a user or an item that other "
                f"does not have (the first is {kind} {id!r}{did_you_mean(ids.close_to(str(id)))}); "
                "unseen='drop' leaves them out",
                id,
                kind,
            )
        return recoded(self, other.users, other.items, user, item)

    def extend(
        self,
        rows: Any,
        user: str = "user",
        item: str = "item",
        count: str | None = None,
        time: str | None = None,
    ) -> Interactions:
        """Make a larger table: these interactions and new ones.

        Users and items of this table come first, at their positions; new ones follow in the order
        of their first appearance. So a model that was fitted to this table can go on with the
        larger one by ``partial_fit``. Repeated interactions are one: counts add up, and the
        earliest time is kept. Times must be of the same kind, dates or numbers, in both. This
        table stays as it is.

        Parameters
        ----------
        rows : Interactions, DataFrame or dict of arrays
            What is new.
        user, item, count, time : str, optional
            Columns of a DataFrame, as in `from_frame`.

        Examples
        --------
        >>> data = Interactions.from_arrays(["ann", "bob"], ["tea", "rum"])
        >>> grown = data.extend({"user": ["eve", "ann"], "item": ["tea", "gin"]})
        >>> list(grown.users), list(grown.items)
        (['ann', 'bob', 'eve'], ['tea', 'rum', 'gin'])
        >>> grown.matrix.toarray().tolist()
        [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
        """
        if not isinstance(rows, Interactions):
            rows = Interactions.from_frame(rows, user, item, count, time)
        if (self.timestamps is None) != (rows.timestamps is None):
            what = "no times" if self.timestamps is None else "times"
            raise ArgumentError("rows", f"must have {what}, as this table has {what}")
        if len(self) and len(rows) and self.has_dates != rows.has_dates:
            raise ArgumentError(
                "rows",
                f"must have times of the same kind: this table has {times_in_words(self)}, "
                f"rows have {times_in_words(rows)}; convert one of them, such as seconds to dates "
                "by polars.from_epoch",
            )
        new_users, users = self.users.encode(
            column_like("users", rows.users, self.users, "this table")
        )
        new_items, items = self.items.encode(
            column_like("items", rows.items, self.items, "this table")
        )
        times = None
        if self.timestamps is not None and rows.timestamps is not None:
            times = np.concatenate([self.timestamps, rows.timestamps])
        return grouped(
            users,
            items,
            np.concatenate([self.user_codes(), new_users[rows.user_codes()]]),
            np.concatenate([self.indices, new_items[rows.indices]]),
            np.concatenate([self.matrix.data, rows.matrix.data]),
            times,
            has_dates=self.has_dates or rows.has_dates,
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        user: str = "user",
        item: str = "item",
        count: str | None = None,
        time: str | None = None,
        *,
        users: Ids | None = None,
        items: Ids | None = None,
        unseen: Choice = "error",
        on_missing: Choice = "error",
    ) -> Interactions:
        """Take interactions from a table, one row an interaction.

        Parameters
        ----------
        frame : DataFrame or dict of arrays
            polars, pandas, or anything else with ``__arrow_c_stream__``.
        user, item : str
            The columns with the ids.
        count : str, optional
            The column with a number of plays, a quantity, …; without it each row counts 1.
        time : str, optional
            The column with the time, as numbers or dates. Dates are kept in UTC: those with a
            time zone are converted, those without one are taken as UTC.
        users, items : Ids, optional
            Ids to use, such as those of the training data; positions then mean the same.
        unseen : {"error", "drop"}
            What to do with rows whose id is not among given ids.
        on_missing : {"error", "drop"}
            What to do with rows that lack an id, a count or a time.

        Examples
        --------
        >>> import polars as pl
        >>> plays = pl.DataFrame({"user": ["u1", "u2"], "song": [31, 17], "plays": [3, 1]})
        >>> train = Interactions.from_frame(plays, item="song", count="plays")
        >>> train.items.index(17)
        1
        >>> later = pl.DataFrame({"user": ["u2", "u3"], "song": [31, 31]})
        >>> ids = {"users": train.users, "items": train.items}
        >>> Interactions.from_frame(later, item="song", **ids, unseen="drop")
        Interactions(2 users × 2 items, 1 interactions, density 25%)
        """
        names = {"user": user, "item": item, "count": count, "time": time}
        rows = pick_columns(frame, {k: v for k, v in names.items() if v is not None})
        rows = rows.select(pl.int_range(pl.len()).alias("row"), pl.all())
        encoder = Encoder(users, items, unseen=unseen, on_missing=on_missing)
        return encoded(encoder, rows.iter_slices(_CHUNK_ROWS))

    @classmethod
    def from_arrays(
        cls,
        users: ArrayLike,
        items: ArrayLike,
        counts: ArrayLike | None = None,
        times: ArrayLike | None = None,
        *,
        on_missing: Choice = "error",
    ) -> Interactions:
        """Take interactions from arrays or lists: one entry an interaction, outside ids."""
        columns = {"user": users, "item": items, "count": counts, "time": times}
        return cls.from_frame(
            {name: column for name, column in columns.items() if column is not None},
            count=None if counts is None else "count",
            time=None if times is None else "time",
            on_missing=on_missing,
        )

    @classmethod
    def from_matrix(cls, matrix: Any, users: Any = None, items: Any = None) -> Interactions:
        """Take a sparse matrix users × items.

        Parameters
        ----------
        matrix : sparse matrix or array, any format
            Stored zeros are no interactions; duplicate entries add up. A float32 CSR matrix
            shares its memory.
        users, items : Ids or array, optional
            An outside id for each row and each column; 0, 1, 2, … by default.

        Examples
        --------
        >>> import scipy.sparse as sp
        >>> Interactions.from_matrix(sp.csr_matrix([[0, 3], [1, 0]]), users=["ann", "bob"])
        Interactions(2 users × 2 items, 2 interactions, density 50%)
        """
        if not sp.issparse(matrix):
            raise TypeError(f"matrix must be a scipy sparse matrix; got {type(matrix).__name__}")
        csr = without_duplicates(as_csr("matrix", matrix))
        user_ids = _ids_for("users", users, csr.shape[0])
        item_ids = _ids_for("items", items, csr.shape[1])
        return cls(user_ids, item_ids, csr.indptr, csr.indices, csr.data)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], **options: Any) -> Interactions:
        """Read a CSV, TSV or Parquet file; see `robirank.load_interactions`."""
        from robirank.data.interaction_files import load_interactions

        return load_interactions(path, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a Parquet file, whole or not at all, that `load` reads back as it was.

        It has one row an interaction and the columns user, item, user_code and item_code (their
        positions), and where there are such also count and time. Users and items without
        interactions have a row with nothing on the other side. Ids must be integers or text.
        `robirank.load_interactions` reads the file as well, with the same positions.
        """
        from robirank.data.interaction_files import save_interactions

        save_interactions(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Interactions:
        """Read a file that `save` wrote."""
        from robirank.data.interaction_files import load_saved

        return load_saved(path)


def encoded(encoder: Encoder, chunks: Iterable[pl.DataFrame]) -> Interactions:
    """Make a table of chunks of rows; rows that cannot be used are an error or are dropped."""
    parts = [
        {column.name: np.array(column) for column in encoder.encode(chunk)} for chunk in chunks
    ]
    users, items = encoder.finish()
    # Join one column after the other and free its parts: only one column is in memory twice.
    columns = {
        name: np.concatenate([part.pop(name) for part in parts])
        for name in list(parts[0] if parts else [])
    }
    return grouped(users, items, **columns, has_dates=bool(encoder.has_dates))


_NO_POSITIONS = np.empty(0, dtype=np.int32)


def grouped(
    users: Ids,
    items: Ids,
    user: Positions = _NO_POSITIONS,
    item: Positions = _NO_POSITIONS,
    count: NDArray[np.float32] | None = None,
    time: NDArray[Any] | None = None,
    *,
    has_dates: bool = False,
) -> Interactions:
    """Sort interactions by user and item, and merge those with the same user and item."""
    indptr, indices, counts, times = _core.group_interactions(
        user,
        item,
        count=count,
        time=time,
        n_users=len(users),
        n_items=len(items),
        num_threads=thread_count(),
    )
    n = int(indptr[-1])
    if n < len(indices):  # merged interactions left room at the end
        indices, counts = indices[:n].copy(), counts[:n].copy()
        times = None if times is None else times[:n].copy()
    if not np.isfinite(counts).all():
        raise ValueError("the counts of a user and an item add up to more than float32 can hold")
    return Interactions(users, items, indptr, indices, counts, times, has_dates)


def recoded(
    data: Interactions, users: Ids, items: Ids, user: Positions, item: Positions
) -> Interactions:
    """Translate a table to other ids, given the new positions of its users and items.

    The interactions of users and items whose new position is −1 are left out.
    """
    new_user, new_item = user[data.user_codes()], item[data.indices]
    mask = (new_user >= 0) & (new_item >= 0)
    part = data.take(mask)
    columns = new_user[mask], new_item[mask], part.counts, part.timestamps
    return grouped(users, items, *columns, has_dates=data.has_dates)


def _new_positions(mask: NDArray[np.bool_]) -> Positions:
    """The positions 0, 1, 2, … of the entries that a mask marks, −1 for the others."""
    return np.where(mask, np.cumsum(mask) - 1, -1).astype(np.int32)


def times_in_words(data: Interactions) -> str:
    """Describe the range of the times of a table, for messages."""
    times: Any = data.timestamps
    ends = [times.min(), times.max()] if len(data) else []
    if not data.has_dates:
        return " to ".join([f"numbers from {ends[0]}", str(ends[1])]) if ends else "numbers"
    dates = [str(np.datetime64(int(end), "us").astype("datetime64[s]")) for end in ends]
    return f"dates from {dates[0]} to {dates[1]} (UTC)" if ends else "dates"


def _ids_for(name: str, ids: Any, n: int) -> Ids:
    ids = Ids.range(n) if ids is None else ids if isinstance(ids, Ids) else Ids(ids)
    if len(ids) != n:
        raise ArgumentError(name, f"must have {n} distinct ids, as the matrix has; got {len(ids)}")
    return ids
