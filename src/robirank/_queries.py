"""Rows grouped by query: the order that brings the rows of each query side by side."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank._callers import calling_line
from robirank._sparse import offsets, places_of_rows
from robirank._types import Floats64, Ints64
from robirank.errors import ArgumentError

#: Judged lists of one query are mostly shorter; tables of many queries are longer.
MANY_ROWS = 200
#: The lines of users' programs, by file and number, that a `MissingQidWarning` was given for.
_warned_at: set[tuple[str, int]] = set()


@dataclass(frozen=True)
class Queries:
    """Rows grouped by query; ids are in the order of their first appearance.

    Query ``q`` owns the places ``offsets[q]:offsets[q + 1]`` of the grouped order, and
    ``order[place]`` is the row at that place; None means that place and row are the same.
    """

    ids: NDArray[np.generic]
    offsets: Ints64
    order: Ints64 | None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_rows(self) -> int:
        """The number of rows in all queries together."""
        return int(self.offsets[-1])

    @property
    def sizes(self) -> Ints64:
        """The number of rows of each query."""
        return np.diff(self.offsets)

    def sort(self, values: NDArray[Any]) -> NDArray[Any]:
        """Bring one value a row into the grouped order."""
        return values if self.order is None else values[self.order]

    def unsort(self, values: NDArray[Any]) -> NDArray[Any]:
        """Bring one value a place of the grouped order back into the order of the rows."""
        if self.order is None:
            return values
        rows = np.empty_like(values)
        rows[self.order] = values
        return rows

    def differ(self, values: Floats64) -> NDArray[np.bool_]:
        """Whether the values of a query's rows are not all the same, for each query."""
        grouped, starts = self.sort(values), self.offsets[:-1]
        most = np.maximum.reduceat(grouped, starts)
        return np.asarray(most > np.minimum.reduceat(grouped, starts))

    def rows(self) -> Ints64:
        """The row at each place."""
        return np.arange(self.n_rows, dtype=np.int64) if self.order is None else self.order

    def take(self, which: Ints64) -> Queries:
        """The queries with the given numbers (0, 1, …), for the same rows."""
        starts, places = places_of_rows(self.offsets, which)
        return Queries(self.ids[which], starts, self.rows()[places])

    def codes(self) -> Ints64:
        """The number of the query (0, 1, …) that each place of the grouped order belongs to."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.sizes)


class MissingQidWarning(UserWarning):
    """Many rows came without ``qid``, so that they were fitted or scored as one query."""


def warn_missing_qid(qid: ArrayLike | None, n_rows: int) -> None:
    """Warn, once for each line of the user's program, where very many rows come without ``qid``."""
    if qid is not None or n_rows <= MANY_ROWS:
        return
    frame, level = calling_line()
    place = (frame.f_code.co_filename, frame.f_lineno)
    # Python forgets which warnings it has shown when a filter changes, as scikit-learn's fits do.
    if place in _warned_at and _action() not in ("error", "always"):
        return
    _warned_at.add(place)
    warnings.warn(
        f"more than {MANY_ROWS} rows came without qid, so all of them count as one query. "
        "Pass qid=, one query id a row (np.zeros(n) if it is one query). GridSearchCV, "
        "cross_val_score and Pipeline pass it on to fit and score after "
        "sklearn.set_config(enable_metadata_routing=True)",
        MissingQidWarning,
        stacklevel=level,
    )


def _action() -> str:
    """What the first filter that applies to the warning does with it."""
    for action, message, category, module, _ in warnings.filters:
        if message is None and module is None and issubclass(MissingQidWarning, category):
            return action
    return "default"


def group_queries(qid: ArrayLike | None, n_rows: int) -> Queries:
    """Group rows by query id: one a row, of any hashable type, also mixed; None is one query."""
    ids = np.zeros(n_rows, dtype=np.int64) if qid is None else as_ids(qid)
    if ids.ndim != 1 or len(ids) != n_rows:
        raise ArgumentError(
            "qid", f"must hold one query id for each of the {n_rows} rows; got shape {ids.shape}"
        )
    if _any_missing(ids):
        raise ArgumentError(
            "qid", "contains a missing value (None or NaN); every row needs a query id"
        )
    if n_rows == 0:
        return Queries(ids, np.zeros(1, dtype=np.int64), None)

    starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    firsts = ids[starts]
    if len(_unique_codes(firsts)[0]) == len(firsts):
        return Queries(firsts, np.append(starts, n_rows).astype(np.int64), None)

    unique, first_row, codes = _unique_codes(ids)
    by_appearance = np.argsort(first_row, kind="stable")
    codes = np.argsort(by_appearance)[codes]
    return Queries(
        unique[by_appearance],
        offsets(np.bincount(codes, minlength=len(unique))),
        np.argsort(codes, kind="stable").astype(np.int64),
    )


def as_ids(qid: ArrayLike) -> NDArray[np.generic]:
    """Make an array of ids. NumPy alone would take 1 and "1" for one id, and a pair for two."""
    if isinstance(qid, list | tuple):
        types = {type(i) for i in qid}
        if len(types) > 1 or tuple in types:
            return np.fromiter(qid, dtype=object, count=len(qid))
    return np.asarray(qid)


def _any_missing(ids: NDArray[np.generic]) -> bool:
    if ids.dtype == object:
        return any(_is_missing(i) for i in ids)
    return ids.dtype.kind in "fcmM" and bool((ids != ids).any())


def _is_missing(value: object) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA is neither equal to itself nor different
        return True


def _unique_codes(
    ids: NDArray[np.generic],
) -> tuple[NDArray[np.generic], Ints64, Ints64]:
    """Unique ids, the first row of each, and the place of each row's id among them."""
    if ids.dtype != object:
        unique, first, codes = np.unique(ids, return_index=True, return_inverse=True)
        return unique, first, codes.reshape(-1)
    # Objects need not have an order (1 and "a" have none), so they are told apart by their hash.
    code_of: dict[object, int] = {}
    codes = np.fromiter((code_of.setdefault(i, len(code_of)) for i in ids), np.int64, len(ids))
    first = np.unique(codes, return_index=True)[1]
    return ids[first], first, codes
