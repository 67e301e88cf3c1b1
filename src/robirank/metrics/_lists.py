"""From rows to ranked lists: which row of a query stands at which rank.

Queries of similar length are the lines of one matrix, which is sorted line by line. That is several
times faster than one sort of all rows, and cumulative sums along a list are matrix operations.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank._checks import check_vector
from robirank._queries import Queries, group_queries
from robirank._types import Floats64, Ints64
from robirank.errors import Argument, ArgumentError
from robirank.metrics._conventions import EMPTY_VALUE, Convention

#: A float, or an array where several cut-offs or one value a query were asked for. (Spelled with
#: Any so that a caller who knows which one it is need not say so to the type checker.)
Values: TypeAlias = float | Any
Cutoffs: TypeAlias = int | Sequence[int] | NDArray[np.integer[Any]] | None

FULL_LIST = np.iinfo(np.int64).max  # as a cut-off
_CELLS = 1 << 18  # numbers of a chunk's matrix; a few such matrices fit into cache


@dataclass(frozen=True)
class TieGroups:
    """Runs of equal scores in a chunk, list after list; a row alone and padding are groups, too."""

    starts: Ints64
    sizes: Ints64
    shape: tuple[int, int]

    def sums(self, matrix: Floats64) -> Floats64:
        """The sum over each group."""
        return np.add.reduceat(matrix.ravel(), self.starts)

    def spread(self, values: NDArray[Any]) -> Floats64:
        """Give each place the value of its group."""
        return np.repeat(values, self.sizes).reshape(self.shape)

    @cached_property
    def within(self) -> Floats64:
        """The number of rows of the same group that stand before each place of the chunk."""
        return np.arange(self.shape[0] * self.shape[1]).reshape(self.shape) - self.spread(
            self.starts
        )


@dataclass(frozen=True)
class Chunk:
    """Ranked lists of similar length, one in each line of a matrix.

    ``rows[i, r]`` is the row at rank ``r + 1`` of query ``queries[i]``; padding points behind the
    last row. There are ``groups`` where ties are to be averaged and there are some.
    """

    queries: Ints64
    sizes: Ints64
    rows: Ints64
    groups: TieGroups | None

    def width(self, cutoffs: Ints64) -> int:
        """The number of ranks that these cut-offs look at."""
        return min(self.rows.shape[1], int(cutoffs.max()))

    def expected(self, values: Floats64, width: int) -> Floats64:
        """The expected value at each of the first ``width`` ranks, over all orders of ties."""
        if self.groups is None:
            return values[self.rows[:, :width]]
        means = self.groups.sums(values[self.rows]) / self.groups.sizes
        return self.groups.spread(means)[:, :width]

    def at(self, cumulative: Floats64, cutoffs: Ints64) -> Floats64:
        """The columns of the cut-offs; for a shorter list, its last one."""
        last = np.minimum(cutoffs, self.sizes[:, None]) - 1
        return np.take_along_axis(cumulative, last, axis=1)


class Metric(NamedTuple):
    """One value a row, padded, and the metric of a chunk of lists that is made of these values.

    ``of(chunk, values, cutoffs)`` has the shape (n_lists, n_cutoffs); NaN: nothing relevant.
    """

    values: Floats64
    of: Callable[[Chunk, Floats64, Ints64], Floats64]


class RankedLists:
    """Labels and scores, checked and grouped by query, with the convention to rank them by."""

    def __init__(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        qid: ArrayLike | None,
        rule: Convention,
        ids: ArrayLike | None = None,
    ) -> None:
        self.y = check_vector("y", y)
        self.scores = check_vector("scores", scores)
        if len(self.y) == 0:
            raise ArgumentError("y", "is empty; there is nothing to measure")
        if len(self.scores) != len(self.y):
            raise ArgumentError(
                "scores",
                f"must hold one score for each of the {len(self.y)} labels in y;"
                f" got {len(self.scores)}",
            )
        self.queries: Queries = group_queries(qid, len(self.y))
        self.ties, self.empty = rule.ties, rule.empty
        self.ids = None if ids is None else self._check_ids(ids)

    def _check_ids(self, ids: ArrayLike) -> NDArray[Any]:
        if self.ties not in ("first", "last"):
            raise ArgumentError(
                "ids",
                "only matter with ties='first' (ascending ids) or ties='last' (descending ids);"
                f" got ties={self.ties!r}",
            )
        names = np.asarray(ids)
        if names.shape != self.y.shape:
            raise ArgumentError(
                "ids",
                f"must hold one id for each of the {len(self.y)} rows; got shape {names.shape}",
            )
        # As trec_eval does, so that 10 comes before 9. Bytes already compare like that.
        return names if names.dtype.kind == "S" else names.astype(str)

    def report(self, metric: Metric, k: Cutoffs, *, per_query: bool) -> Values:
        """Evaluate one metric, in the shape that ``k`` and ``per_query`` ask for."""
        cutoffs, single = check_cutoffs(k)
        (table,) = self.table([(metric, cutoffs)])
        return summary(table, single=single, per_query=per_query)

    def table(self, requests: Sequence[tuple[Metric, Ints64]]) -> list[Floats64]:
        """Evaluate metrics, each at its cut-offs: arrays of shape (n_queries, n_cutoffs)."""
        tables = [np.empty((len(self.queries), len(cutoffs))) for _, cutoffs in requests]
        for chunk in self.chunks():
            for table, (metric, cutoffs) in zip(tables, requests, strict=True):
                table[chunk.queries] = metric.of(chunk, metric.values, cutoffs)
        for table in tables:
            table[np.isnan(table)] = EMPTY_VALUE[self.empty]
        return tables

    def chunks(self) -> Iterator[Chunk]:
        """All queries as chunks of ranked lists."""
        keys = np.append(-self.scores, np.inf)
        for queries, rows, sizes in self._unranked():
            order = np.argsort(keys[rows], axis=1)
            sorted_keys = np.take_along_axis(keys[rows], order, axis=1)
            same = sorted_keys[:, 1:] == sorted_keys[:, :-1]
            tied = (same & (sorted_keys[:, 1:] < np.inf)).any(axis=1)
            ranked = np.take_along_axis(rows, order, axis=1)
            groups = None
            if tied.any():
                if self.ties == "average":
                    groups = _tie_groups(same)
                else:
                    ranked[tied] = self._break_ties(rows[tied], keys)
            yield Chunk(queries, sizes, ranked, groups)

    def _unranked(self) -> Iterator[tuple[Ints64, Ints64, Ints64]]:
        """Yield queries, their rows in input order (one query a line, padded) and their sizes."""
        n_rows, all_sizes, offsets = len(self.y), self.queries.sizes, self.queries.offsets
        order = None if self.queries.order is None else np.append(self.queries.order, n_rows)
        for queries in batches(all_sizes):
            sizes = all_sizes[queries]
            columns = np.arange(sizes.max())
            places = offsets[queries][:, None] + columns
            if sizes.min() < len(columns):
                places[columns >= sizes[:, None]] = n_rows
            yield queries, places if order is None else order[places], sizes

    def _break_ties(self, rows: Ints64, keys: Floats64) -> Ints64:
        """Rank rows by score, and those of equal score by the rule."""
        if self.ties == "last":
            rows = rows[:, ::-1]
        inside = np.minimum(rows, len(self.y) - 1)  # the padding ends up last whatever it holds
        second: NDArray[Any] | None = None
        if self.ids is not None:
            codes = np.unique(self.ids[inside], return_inverse=True)[1].reshape(rows.shape)
            second = -codes if self.ties == "last" else codes
        elif self.ties in ("best", "worst"):
            second = -self.y[inside] if self.ties == "best" else self.y[inside]
        if second is not None:
            rows = np.take_along_axis(rows, np.argsort(second, axis=1, kind="stable"), axis=1)
        return np.take_along_axis(rows, np.argsort(keys[rows], axis=1, kind="stable"), axis=1)


def check_cutoffs(k: Cutoffs) -> tuple[Ints64, bool]:
    """Cut-offs as an array, and whether there was only one, not in a sequence."""
    if k is None:
        return np.array([FULL_LIST]), True
    single = np.ndim(k) == 0
    try:
        if np.asarray(k).dtype == bool:
            raise TypeError
        cutoffs = [operator.index(c) for c in np.atleast_1d(np.asarray(k, dtype=object))]
    except TypeError:
        cutoffs = []
    if not cutoffs or min(cutoffs) < 1:
        raise ArgumentError(
            Argument("k", k),
            "is not a cut-off; use an integer from 1, a sequence of them, or None for the full"
            " list",
        )
    return np.minimum(np.array(cutoffs, dtype=object), FULL_LIST).astype(np.int64), single


def summary(table: Floats64, *, single: bool, per_query: bool) -> Values:
    """Reduce a table (n_queries, n_cutoffs) to the values to return; NaN is left out of means."""
    if single:
        table = table[:, 0]
    if per_query:
        return table
    counted = ~np.isnan(table)
    with np.errstate(invalid="ignore"):  # 0/0 where every query is skipped: NaN
        means = np.where(counted, table, 0).sum(axis=0) / counted.sum(axis=0)
    return float(means) if single else means


def pad(values: Floats64) -> Floats64:
    """One value a row, and the 0 that the padding of a chunk points at."""
    return np.append(values, 0.0)


def batches(sizes: Ints64) -> Iterator[Ints64]:
    """Yield batches of lists of similar length, the longest at most twice as long as any other."""
    by_size = np.argsort(sizes, kind="stable")
    ascending = sizes[by_size]
    begin = 0
    while begin < len(by_size):
        widest = 2 * int(ascending[begin])
        similar = int(np.searchsorted(ascending, widest, side="right"))
        end = min(similar, begin + max(1, _CELLS // widest))
        yield by_size[begin:end]
        begin = end


def _tie_groups(same: NDArray[np.bool_]) -> TieGroups:
    """The tie groups of a chunk; ``same`` says where a score equals the one before it."""
    first = np.ones((same.shape[0], same.shape[1] + 1), dtype=bool)
    first[:, 1:] = ~same
    starts = np.flatnonzero(first)
    return TieGroups(starts, np.diff(starts, append=first.size), first.shape)
