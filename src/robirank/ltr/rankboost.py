"""RankBoost: boosting of threshold rankers on pairs of documents, without visiting the pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank._features import dense
from robirank._params import Count, CountOrNone
from robirank._queries import Queries
from robirank._threads import threads_for_cells
from robirank._types import Floats64, Ints32, Ints64
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
    >>> from robirank import make_ranking
    >>> from robirank.ltr.rankboost import RankBoost
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
    k: CountOrNone = 10
    patience: CountOrNone = 100
    convention: str = "standard"
    num_threads: int = 0
    verbose: bool = False

    def _train(self, X: Any, y: Any, queries: Queries, held_out: HeldOut | None = None) -> None:
        threads = threads_for_cells(X.size, self.num_threads)
        rankers: list[WeakRanker] = []
        with self._progress(self.n_estimators) as progress:  # encoding takes time too
            thresholds = [self._thresholds(X[:, f]) for f in range(X.shape[1])]
            codes = encode(X, queries.rows(), thresholds)
            # Everything that follows has the rows in the grouped order.
            grouped, labels = replace(queries, order=None), queries.sort(y)
            pairs = ExponentialPairs(labels, grouped, balance=self.balance, num_threads=threads)
            rounds = self._rounds(pairs, codes, thresholds, rankers, held_out)
            self._run(rounds, self.n_estimators, progress)
        rankers = rankers[: self.best_iter_]
        self.features_ = np.array([r.feature for r in rankers], dtype=np.int32)
        self.thresholds_ = np.array([r.threshold for r in rankers], dtype=np.float64)
        self.weights_ = np.array([r.weight for r in rankers], dtype=np.float64)

    def _rounds(
        self,
        pairs: ExponentialPairs,
        codes: NDArray[Any],
        thresholds: list[Floats64],
        rankers: list[WeakRanker],
        held_out: HeldOut | None,
    ) -> Iterator[Round]:
        """Add a weak ranker to ``rankers`` in each round, as long as one is of use."""
        cuts = np.array([len(t) for t in thresholds], dtype=np.int64)
        scores = np.zeros(codes.shape[1])
        held_out_X = None if held_out is None else dense(held_out.X)
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
            rankers.append(WeakRanker(feature, float(thresholds[feature][cut]), weight))
            self.loss_curve_.append(loss / start)
            ndcg = None
            if held_out is not None:
                held_out_scores = held_out_scores + rankers[-1].score(held_out_X)
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


class WeakRanker(NamedTuple):
    """A weak ranker, which scores weight · [feature > threshold]."""

    feature: int
    threshold: float
    weight: float

    def score(self, X: Any) -> Floats64:
        """Score rows.

        The threshold stays a double: a Python float would be rounded to the features' float32, and
        values next to it would change sides.
        """
        return np.where(X[:, self.feature] > np.float64(self.threshold), self.weight, 0.0)


class ExponentialPairs:
    """Σ of weight · exp(s_j − s_i) over pairs with y_i > y_j, as a function of scores.

    The gradient of document i is what the pairs in which it is the worse one add to the sum, less
    what the pairs in which it is the better one add: minus the potential π of the paper.
    """

    def __init__(
        self, y: NDArray[Any], queries: Queries, *, balance: str = "pairs", num_threads: int = 1
    ) -> None:
        self._queries = queries
        self.num_threads = num_threads
        self._grade = _grades(queries.sort(y), queries.codes())
        self._weight = np.ones(len(queries))
        if balance == "queries":
            self._weight /= np.maximum(_pair_counts(self._grade, queries), 1)

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


def _pair_counts(grade: Ints32, queries: Queries) -> Ints64:
    """The number of pairs of documents of different grades in each query."""
    sizes = np.bincount(queries.offsets[queries.codes()] + grade, minlength=len(grade))
    same = np.add.reduceat(sizes**2, queries.offsets[:-1])
    return (queries.sizes**2 - same) // 2


def _grades(y: NDArray[Any], codes: Ints64) -> Ints32:
    """Count the different labels of each query from 0, the smallest."""
    order = np.lexsort((y, codes))
    steps = np.cumsum(np.diff(y[order], prepend=0.0) != 0)
    new_query = np.diff(codes[order], prepend=-1) != 0
    first = np.maximum.accumulate(np.where(new_query, steps, 0))
    grades = np.empty(len(y), dtype=np.int32)
    grades[order] = steps - first
    return grades


def encode(X: Any, rows: Ints64, thresholds: list[Floats64]) -> NDArray[Any]:
    """The number of thresholds that each value is above; features are the lines of the result."""
    most = max((len(t) for t in thresholds), default=0)
    codes = np.empty((X.shape[1], len(rows)), dtype=np.uint8 if most < 256 else np.uint32)
    for feature, line in enumerate(codes):
        line[:] = np.searchsorted(thresholds[feature], X[rows, feature], side="left")
    return codes
