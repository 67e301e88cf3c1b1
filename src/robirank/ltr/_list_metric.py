"""The metric that a ranker maximises directly, list by list, by the native core.

`robirank.metrics` evaluates one ranking; this evaluates the rankings along a line of scores, many
at a time, without sorting more than the top. Both give the same values.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from robirank import _core
from robirank._features import dense
from robirank._queries import Queries
from robirank._threads import SORTED, threads_for_cells
from robirank._types import Floats64, Ints64
from robirank.errors import ArgumentError
from robirank.metrics import Convention
from robirank.metrics._conventions import discounts, gains, resolve_convention

MetricName = Literal["ndcg", "map"]


class ListMetric:
    """NDCG@k or average precision of each training query that has a relevant document.

    With "map", labels from 1 are relevant and the whole list counts. Queries without a relevant
    document are left out in every convention. ``rows`` has the rows that count, query by query;
    scores are given in this order.
    """

    def __init__(
        self,
        y: NDArray[Any],
        queries: Queries,
        *,
        metric: MetricName = "ndcg",
        k: int | None = 10,
        convention: str | Convention = "standard",
        num_threads: int = 0,
    ) -> None:
        rule = resolve_convention(convention)
        self._threads = threads_for_cells(SORTED * len(y), num_threads)
        value = gains(y, rule.gain) if metric == "ndcg" else (y >= 1).astype(np.float64)
        above = queries.sort(value > 0)
        queries = queries.take(np.unique(queries.codes()[above]))
        if len(queries) == 0:
            raise ArgumentError(
                "y",
                f"has no relevant document in any query (metric={metric!r} is 0 for every "
                "ranking), so there is nothing to learn",
            )
        self._offsets = queries.offsets
        self._average = rule.ties == "average"
        self.rows = _tie_order(y, queries, rule)
        self._value: Floats64 = np.ascontiguousarray(value[self.rows], dtype=np.float64)
        longest = int(queries.sizes.max())
        width = min(longest, longest if k is None else int(k)) if metric == "ndcg" else 0
        self._discount = discounts(width, rule.discount)
        self._scale = np.ones(len(queries))
        self._scale = 1.0 / self.of(self._value)  # the best order of all is that by value

    def of(self, scores: Floats64) -> Floats64:
        """The metric of each query under the scores."""
        values: Floats64 = self.along(scores, scores, [0.0])[:, 0]
        return values

    def along(self, base: Floats64, direction: Floats64, steps: Any) -> Floats64:
        """The metric under ``base + step * direction``, an array of shape (n_queries, n_steps)."""
        steps = np.ascontiguousarray(steps, dtype=np.float64)
        values = _core.metric_along(
            base,
            direction,
            steps,
            value=self._value,
            offsets=self._offsets,
            scale=self._scale,
            discount=self._discount,
            average=self._average,
            num_threads=self._threads,
        )
        return values.reshape(-1, len(steps))


def metric_and_features(
    ranker: Any, X: Any, y: NDArray[Any], queries: Queries
) -> tuple[ListMetric, Any]:
    """The metric that the parameters of a ranker name, and the features of the rows it counts."""
    names = ("metric", "k", "convention", "num_threads")
    metric = ListMetric(y, queries, **{name: getattr(ranker, name) for name in names})
    features = X[metric.rows]
    return metric, features.tocsc() if sp.issparse(X) else features


def column(features: Any, number: int) -> Floats64:
    """One feature of all rows of a dense or sparse matrix."""
    return np.ascontiguousarray(dense(features[:, [number]])[:, 0], dtype=np.float64)


def _tie_order(y: NDArray[Any], queries: Queries, rule: Convention) -> Ints64:
    """Rows query by query; within a query, the one that wins a tie comes first."""
    rows = queries.rows()
    second = {"last": -rows, "best": -y[rows], "worst": y[rows]}.get(rule.ties)
    if second is None:
        return rows
    return rows[np.lexsort((second, queries.codes()))]
