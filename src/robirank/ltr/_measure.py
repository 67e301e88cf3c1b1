"""The measure that a ranker maximises directly, list by list, by the native core.

`robirank.metrics` measures one ranking; this measures the rankings along a line of scores, many
at a time, without sorting more than the top. Both give the same values.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from robirank import _core
from robirank._checks import check_choice, check_count
from robirank._queries import Queries
from robirank._threads import SORTED, threads_for_cells
from robirank._types import Floats64, Ints64
from robirank.metrics import Convention
from robirank.metrics._conventions import discounts, gains, resolve_convention

MeasureName = Literal["ndcg", "map"]


class ListMeasure:
    """NDCG@k or average precision of each training query that has a relevant document.

    Parameters
    ----------
    y : array of shape (n_rows,)
        Labels.
    queries : Queries
        The rows of each query.
    metric : {"ndcg", "map"}
        With "map", labels from 1 are relevant and the whole list counts.
    k : int or None
        The cut-off of NDCG; None for the whole list.
    convention : str or Convention
        Gain, discount and ties, as in `robirank.metrics`; queries without a relevant document are
        left out in every convention.
    num_threads : int

    Attributes
    ----------
    rows : array
        The rows that count, query by query; scores are given in this order.

    Examples
    --------
    Two documents, the second one relevant: the scores tie at step 1.

    >>> from robirank._queries import group_queries
    >>> measure = ListMeasure(np.array([0.0, 1.0]), group_queries(None, 2), metric="map")
    >>> measure.along(np.array([1.0, 0.0]), np.array([0.0, 1.0]), [0.0, 1.0, 2.0])
    array([[0.5 , 0.75, 1.  ]])
    """

    def __init__(
        self,
        y: NDArray[Any],
        queries: Queries,
        *,
        metric: MeasureName = "ndcg",
        k: int | None = 10,
        convention: str | Convention = "standard",
        num_threads: int = 0,
    ) -> None:
        check_choice("metric", metric, ("ndcg", "map"))
        check_count("k", k, or_none=True)
        rule = resolve_convention(convention)
        self._threads = threads_for_cells(SORTED * len(y), num_threads)
        value = gains(y, rule.gain) if metric == "ndcg" else (y >= 1).astype(np.float64)
        used = queries.take(_lists_with(value, queries))
        if len(used) == 0:
            raise ValueError(
                f"y has no relevant document in any query (metric={metric!r} is 0 for every "
                "ranking), so there is nothing to learn"
            )
        self._offsets = used.offsets
        self._average = rule.ties == "average"
        self.rows = _tie_order(y, used, rule)
        self._value: Floats64 = np.ascontiguousarray(value[self.rows], dtype=np.float64)
        longest = int(used.sizes.max())
        width = min(longest, longest if k is None else int(k)) if metric == "ndcg" else 0
        self._discount = discounts(width, rule.discount)
        self._scale = np.ones(len(used))
        self._scale = 1.0 / self.of(self._value)  # the best order of all is that by value

    def of(self, scores: Floats64) -> Floats64:
        """Return the measure of each query under the scores."""
        values: Floats64 = self.along(scores, scores, [0.0])[:, 0]
        return values

    def along(self, base: Floats64, direction: Floats64, steps: Any) -> Floats64:
        """Return the measure of each query (a line) under ``base + step * direction``."""
        steps = np.ascontiguousarray(steps, dtype=np.float64)
        values = _core.measure_along(
            base,
            direction,
            steps,
            value=self._value,
            offsets=self._offsets,
            scale=self._scale,
            discount=self._discount,
            average=self._average,
            n_threads=self._threads,
        )
        return values.reshape(-1, len(steps))


class Columns:
    """Features of chosen rows, one feature at a time, from a dense or a sparse matrix."""

    def __init__(self, X: Any, rows: Ints64) -> None:
        self.n_features = int(X.shape[1])
        self._sparse = bool(sp.issparse(X))
        self._X: Any = X[rows].tocsc() if self._sparse else X
        self._rows = rows

    def __getitem__(self, feature: int) -> Floats64:
        if self._sparse:
            column = self._X[:, [feature]].toarray()[:, 0]
        else:
            column = self._X[self._rows, feature]
        return np.ascontiguousarray(column, dtype=np.float64)

    def scores(self, weights: Floats64) -> Floats64:
        """Return the inner products of the rows with the weights."""
        X = self._X if self._sparse else self._X[self._rows]
        return np.ascontiguousarray(X @ weights, dtype=np.float64)


def _lists_with(value: Floats64, queries: Queries) -> Ints64:
    """The numbers of the queries with a document of value above 0."""
    above = np.asarray(queries.sort(value > 0))
    return np.unique(queries.codes()[above])


def _tie_order(y: NDArray[Any], queries: Queries, rule: Convention) -> Ints64:
    """Rows query by query; within a query, the one that wins a tie comes first."""
    rows = queries.rows()
    second = {"last": -rows, "best": -y[rows], "worst": y[rows]}.get(rule.ties)
    if second is None:
        return rows
    return rows[np.lexsort((second, queries.codes()))]
