"""RankBoost: boosting of threshold rankers on pairs of documents, without visiting the pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank._checks import Count, CountOrNone
from robirank._features import dense
from robirank._queries import Queries
from robirank._threads import threads_for_cells
from robirank._types import Floats64, Ints64
from robirank.ltr._rounds import ROUND_ARRAYS, ROUND_NUMBERS, HeldOut, Round, RoundsRanker
from robirank.registry import register
from robirank.storage.fitted_parts import FittedArray, FittedParts

#: |r| closer to 0 than this is no correlation, closer to 1 a perfect weak ranker.
_EDGE = 1e-10
#: When the loss has fallen to this, no pair has a weight that arithmetic can tell from 0.
_NOTHING_LEFT = 1e-30


@register
@dataclass(eq=False, repr=False)
class RankBoost(RoundsRanker):
    r"""RankBoost with threshold weak rankers.

    Minimises, greedily over weak rankers :math:`h_t`, the exponential loss of pairs

    .. math::
        \sum_x \sum_{(i, j):\, W_{xi} > W_{xj}} D(i, j) \, \exp\big(f(j) - f(i)\big),
        \qquad f = \sum_t \alpha_t h_t,
        \qquad h_t(\cdot) = 1\ [\text{feature}_t > \theta_t]

    In every round the weak ranker with the largest :math:`|r|` is taken, with

    .. math::
        r = \sum_{(i, j)} D_t(i, j) \, \big(h(i) - h(j)\big) = \sum_i \pi_t(i) \, h(i),
        \qquad \alpha_t = \frac12 \ln \frac{1 + r}{1 - r}

    where :math:`D_t` is the distribution of weights over pairs that the rounds before have left.
    A weight is a product, :math:`e^{f(j)} e^{-f(i)}`, so the potentials :math:`\pi_t` take sums
    over grades, not over pairs: a round costs O(documents · features), however many pairs and
    grades there are. The loss falls by :math:`\sqrt{1 - r^2}` or more in every round.

    Graded labels: every pair of documents of one query with different labels counts, and counts
    alike. Several queries: by default all pairs of all queries have the same initial weight (as in
    RankLib), so long lists weigh more; ``balance="queries"`` gives every query the same total.

    Parameters
    ----------
    n_estimators : int, default=300
        Rounds of boosting; fewer if no weak ranker is left that is of use.
    n_thresholds : int or None, default=10
        Candidate thresholds of each feature, equally spaced from its smallest value up to its
        largest, which is left out as nothing lies above it. None tries every value that occurs, as
        the authors do. (RankLib's ten run from the largest value down; the first is of no use.)
    balance : {"pairs", "queries"}, default="pairs"
        Whether all pairs have the same initial weight, or all queries.
    k, patience, convention, num_threads, verbose
        As in `RoBiRankBooster`.

    Attributes
    ----------
    features_ : int array of shape (n_rankers,)
        The feature of each weak ranker, in the order of the rounds.
    thresholds_ : array of shape (n_rankers,)
        The threshold θ of each weak ranker.
    weights_ : array of shape (n_rankers,)
        The weight α of each weak ranker, negative where a low value is good.
    n_iter_, best_iter_, validation_scores_
        As in `RoBiRankBooster`.
    loss_curve_ : list of float
        The loss (1 at the start) before the first and after each round.

    Notes
    -----
    RankLib takes the largest r, so that a low value of a feature is never good; the authors take
    the largest \|r\|, and so does this.

    References
    ----------
    Freund, Iyer, Schapire, Singer: An efficient boosting algorithm for combining preferences.
    JMLR 4, 2003.

    Examples
    --------
    >>> from robirank import RankBoost, make_ranking
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = RankBoost(n_estimators=100).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    fitted_parts = FittedParts(
        {
            "features_": FittedArray(("rankers",), "I32", index_of="features"),
            "thresholds_": FittedArray(("rankers",)),
            "weights_": FittedArray(("rankers",)),
            "loss_curve_": FittedArray(("iterations",), is_list=True),
            **ROUND_ARRAYS,
        },
        ROUND_NUMBERS,
        required=("features_", "thresholds_", "weights_"),
    )
    takes_sparse = False

    n_estimators: Count = 300
    _: KW_ONLY
    n_thresholds: CountOrNone = 10
    balance: Literal["pairs", "queries"] = "pairs"
    patience: CountOrNone = 100
    num_threads: int = 0

    def _train(self, X: Any, y: Any, queries: Queries, held_out: HeldOut | None = None) -> None:
        rankers: list[tuple[int, float, float]] = []
        with self._progress(self.n_estimators) as progress:
            rounds = self._rounds(X, y, queries, rankers, held_out)
            self._run(rounds, self.n_estimators, progress, self.patience)
        rankers = rankers[: self.best_iter_]
        self.features_ = np.array([feature for feature, _, _ in rankers], dtype=np.int32)
        self.thresholds_ = np.array([threshold for _, threshold, _ in rankers], dtype=np.float64)
        self.weights_ = np.array([weight for _, _, weight in rankers], dtype=np.float64)

    def _rounds(
        self, X: Any, y: Any, queries: Queries, rankers: list[Any], held_out: HeldOut | None
    ) -> Iterator[Round]:
        """Add a feature, a threshold and a weight in each round, as long as they are of use."""
        threads = threads_for_cells(X.size, self.num_threads)
        thresholds = [self._thresholds(X[:, f]) for f in range(X.shape[1])]
        cuts = np.array([len(t) for t in thresholds], dtype=np.int64)
        # Everything that follows has the rows in the grouped order.
        codes, y = encode(X, queries.rows(), thresholds), queries.sort(y)
        queries = replace(queries, order=None)
        pairs = ExponentialPairs(y, queries, balance=self.balance, num_threads=threads)
        scores = np.zeros(codes.shape[1])
        held_out_X: Any = None if held_out is None else dense(held_out.X)
        held_out_scores: Any = 0.0
        start, gradient = pairs(scores)
        loss, self.loss_curve_ = start, [1.0]
        while loss > _NOTHING_LEFT * start:
            feature, cut, r = _core.rankboost_weak_ranker(
                codes, cuts, -gradient, loss, pairs.num_threads
            )
            r /= loss
            if abs(r) < _EDGE:
                return
            weight = float(np.arctanh(np.clip(r, _EDGE - 1.0, 1.0 - _EDGE)))
            scores += weight * (codes[feature] > cut)
            loss, gradient = pairs(scores)
            if not np.isfinite(loss):  # scores have left the range of exp
                return
            # A double: a Python float would be rounded to float32 where features are.
            threshold = np.float64(thresholds[feature][cut])
            rankers.append((feature, float(threshold), weight))
            self.loss_curve_.append(loss / start)
            ndcg = None
            if held_out is not None:
                above = held_out_X[:, feature] > threshold
                held_out_scores = held_out_scores + np.where(above, weight, 0.0)
                ndcg = held_out.ndcg(held_out_scores)
            yield Round(ndcg, {"loss": loss / start})
            if abs(r) > 1.0 - _EDGE:
                return

    def _thresholds(self, column: NDArray[Any]) -> Floats64:
        """Candidate thresholds of one feature, rising; none if it is constant."""
        if self.n_thresholds is None:
            return np.unique(column)[:-1].astype(np.float64)
        low, high = float(column.min()), float(column.max())
        shares = np.arange(self.n_thresholds) / self.n_thresholds
        # Not low + (high − low) · share, which may overflow.
        spaced = low * (1.0 - shares) + high * shares
        return np.unique(spaced[spaced < high])

    def _scores(self, X: Any) -> Floats64:
        """The sum of the weights of the weak rankers that lift each document."""
        scores = np.zeros(X.shape[0])
        for feature in np.unique(self.features_):
            # A feature's rankers together are a step function: one search, not one test a ranker.
            steps = np.flatnonzero(self.features_ == feature)
            steps = steps[np.argsort(self.thresholds_[steps], kind="stable")]
            heights = np.concatenate(([0.0], np.cumsum(self.weights_[steps])))
            scores += heights[np.searchsorted(self.thresholds_[steps], X[:, feature], side="left")]
        return scores


class ExponentialPairs:
    """Σ of weight · exp(s_j − s_i) over pairs with y_i > y_j; its gradient is the paper's −π."""

    def __init__(
        self, y: NDArray[Any], queries: Queries, *, balance: str = "pairs", num_threads: int = 1
    ) -> None:
        self._queries = queries
        self.num_threads = num_threads
        codes = queries.codes()
        labels, rank = np.unique(queries.sort(y), return_inverse=True)
        # A cell for each label of each query; the grades of a query count its cells from 0.
        cells, cell = np.unique(codes * len(labels) + rank, return_inverse=True)
        first = np.searchsorted(cells, len(labels) * np.arange(len(queries)))
        self._grade = (cell - first[codes]).astype(np.int32)
        self._weight = np.ones(len(queries))
        if balance == "queries":
            same = np.add.reduceat(np.bincount(cell) ** 2, first)
            self._weight /= np.maximum((queries.sizes**2 - same) // 2, 1)

    def __call__(self, scores: Floats64) -> tuple[float, Floats64]:
        """Return the sum and its derivative by each score, one a row."""
        loss, potential = _core.rankboost_potential(
            np.ascontiguousarray(self._queries.sort(scores), dtype=np.float64),
            self._grade,
            self._queries.offsets,
            self._weight,
            self.num_threads,
        )
        return loss, self._queries.unsort(-potential)


def encode(X: Any, rows: Ints64, thresholds: list[Floats64]) -> NDArray[Any]:
    """The number of thresholds that each value is above; features are the lines of the result."""
    most = max((len(t) for t in thresholds), default=0)
    codes = np.empty((X.shape[1], len(rows)), dtype=np.uint8 if most < 256 else np.uint32)
    for feature, line in enumerate(codes):
        line[:] = np.searchsorted(thresholds[feature], X[rows, feature], side="left")
    return codes
