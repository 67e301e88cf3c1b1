"""RankSVM: a linear ranker on pairs of documents, without visiting the pairs."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank._checks import Count, Positive
from robirank._queries import Queries
from robirank._threads import SORTED, threads_for_cells
from robirank._types import Floats64
from robirank.ltr.base import LinearRanker
from robirank.registry import register


@register
@dataclass(eq=False, repr=False)
class RankSVM(LinearRanker):
    r"""Linear RankSVM with squared hinge loss.

    Minimises

    .. math::
        \frac12 \lVert w \rVert^2 + C \sum_x \sum_{(i, j):\, W_{xi} > W_{xj}}
        \max\big(0,\ 1 - w \cdot (\phi(x, i) - \phi(x, j))\big)^2

    which is convex and has a continuous gradient, by L-BFGS. Value and gradient take
    O(n log n) a query: with the documents sorted by score, a window of width 1 slides over them and
    an order-statistic tree over the labels keeps what is inside.

    Graded labels: every pair of documents of one query with different labels counts, and counts
    alike. Several queries: pairs of all queries are added up, so long lists weigh more.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the pairs against the penalty.
    tol : float, default=1e-5
        Stop when no entry of the gradient of the objective, divided by C times the number of
        pairs, is larger.
    max_iter, num_threads, verbose
        As in `RoBiRank`.

    Attributes
    ----------
    coef_, n_iter_
        As in `RoBiRank`.
    loss_curve_ : list of float
        The objective, divided by C times the number of pairs, after each iteration.

    References
    ----------
    Lee, Lin: Large-scale linear RankSVM. Neural Computation 26(4), 2014.

    Examples
    --------
    >>> from robirank import RankSVM, make_ranking
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = RankSVM(C=0.01).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    C: Positive = 1.0
    _: KW_ONLY
    max_iter: Count = 500
    tol: Positive = 1e-5
    num_threads: int = 0

    def _train(self, X: Any, y: Floats64, queries: Queries) -> None:
        pairs = PairSum(y, queries, num_threads=self.num_threads)
        # The mean over pairs: the gradient, and so tol, then has a scale that C does not change.
        self._descend(X, pairs, alpha=1.0 / (float(self.C) * max(pairs.count, 1)))


class PairSum:
    """The mean of max(0, 1 − s_i + s_j)² over pairs with y_i > y_j, in O(n log n) a query."""

    def __init__(self, y: NDArray[Any], queries: Queries, *, num_threads: int = 0) -> None:
        self._queries = queries
        self._threads = threads_for_cells(SORTED * len(y), num_threads)
        grades, rank = np.unique(queries.sort(y), return_inverse=True)
        self._rank, self._grades = rank.astype(np.int32), len(grades)
        same = np.unique(queries.codes() * len(grades) + rank, return_counts=True)[1]
        self.count = int((queries.sizes**2).sum() - (same**2).sum()) // 2

    def __call__(self, scores: NDArray[Any]) -> tuple[float, Floats64]:
        """Return the mean over pairs and its gradient by the scores."""
        if not self.count:
            return 0.0, np.zeros(len(scores))
        loss, gradient = _core.ranksvm(
            np.ascontiguousarray(self._queries.sort(scores), dtype=np.float64),
            rank=self._rank,
            offsets=self._queries.offsets,
            weight=np.full(len(self._queries), 1.0 / self.count),
            ranks=self._grades,
            num_threads=self._threads,
        )
        return loss, self._queries.unsort(gradient)
