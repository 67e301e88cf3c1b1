"""AdaRank: boosting of single features, with weights on queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np

from robirank._checks import Count, CountOrNone
from robirank._queries import Queries
from robirank._types import Floats64
from robirank.errors import ArgumentError
from robirank.ltr._list_metric import ListMetric, MetricName, column, metric_and_features
from robirank.ltr._rounds import ROUND_ARRAYS, ROUND_NUMBERS, HeldOut, Round, RoundsRanker
from robirank.ltr.base import LinearRanker
from robirank.registry import register
from robirank.storage.fitted_parts import FittedArray, FittedParts

#: A metric this close to 1 is perfect.
_EDGE = 1e-10


@register
@dataclass(eq=False, repr=False)
class AdaRank(RoundsRanker, LinearRanker):
    r"""AdaRank: a sum of features, boosted on a ranking metric.

    Greedily minimises an exponential bound on one minus the metric E (NDCG@k or average
    precision) of each query,

    .. math::
        \sum_x \exp\big(-E(x, f)\big), \qquad f = \sum_t \alpha_t h_t

    A weak ranker :math:`h_t` is a single feature. Round t has a distribution :math:`P_t` over
    queries (uniform at first), takes the feature that ranks best under it, and adds it with weight

    .. math::
        \alpha_t = \frac12 \ln \frac{\sum_x P_t(x)\,(1 + E(x, h_t))}
        {\sum_x P_t(x)\,(1 - E(x, h_t))},
        \qquad P_{t+1}(x) \propto \exp\big(-E(x, f_t)\big)

    so that queries which the sum ranks badly count more in the next round. The metric of every
    feature on every query is computed once; a round then costs no more than one ranking.

    Graded labels: through the metric; NDCG uses the grades, average precision counts labels from
    1 as relevant. Several queries: each counts alike at first; those without a relevant document
    are left out.

    Parameters
    ----------
    n_estimators : int, default=500
        The most rounds of boosting.
    metric : {"ndcg", "map"}, default="ndcg"
        The metric E. AdaRank-MAP is the variant that LETOR reports the better results of.
    k : int or None, default=10
        The cut-off of NDCG, as metric E and on validation data (None: the whole list); average
        precision looks at the whole list.
    tol : float, default=0.002
        Stop, and drop the last round, when it lowers the mean of E over the training queries by
        this much or more; infinity never stops. The default is RankLib's, and may stop after very
        few rounds.
    max_consecutive : int, default=5
        A feature that was taken this often in a row is left out until another has been taken.
        Otherwise AdaRank soon makes no progress: as long as the sum has one feature only, taking it
        again changes no ranking.
    signed : bool, default=True
        Whether a feature may also rank from low to high. False is what the authors and RankLib do,
        who have features of which more is better.
    convention : str, default="standard"
        The convention of the metric E, and of NDCG@k on the validation data; see
        `robirank.metrics`.
    patience, num_threads, verbose
        As in `RoBiRankBooster`.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        For each feature the sum of its weights α, negative where it ranks from low to high.
    n_iter_, best_iter_, validation_scores_
        As in `RoBiRankBooster`; a dropped round does not count.
    features_ : int array of shape (best_iter_,)
        The feature of each round that is part of the model.
    weights_ : array of shape (best_iter_,)
        Its weight α, negative where it ranks from low to high.
    measure_curve_ : list of float
        The mean of the metric E over the training queries after each round.

    Notes
    -----
    Features are added up as they are, so they should have similar ranges: scale them (LETOR's are
    normalised by query). RankLib multiplies :math:`P_t` by :math:`\exp(-\alpha_t E)` instead, and
    first trains without features that come up twice in a row; this follows the paper.

    References
    ----------
    Xu, Li: AdaRank: a boosting algorithm for information retrieval. SIGIR 2007.

    Examples
    --------
    >>> from robirank import AdaRank, make_ranking
    >>> data = make_ranking(n_queries=50, n_features=5, random_state=0)
    >>> model = AdaRank().fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    fitted_parts = FittedParts(
        {
            "coef_": FittedArray(("features",)),
            "features_": FittedArray(("rankers",), "I32", index_of="features"),
            "weights_": FittedArray(("rankers",)),
            "measure_curve_": FittedArray(("iterations",), is_list=True),
            **ROUND_ARRAYS,
        },
        ROUND_NUMBERS,
    )

    n_estimators: Count = 500
    _: KW_ONLY
    metric: MetricName = "ndcg"
    tol: float = 0.002
    max_consecutive: Count = 5
    signed: bool = True
    patience: CountOrNone = 100
    num_threads: int = 0

    def _check_params(self) -> None:
        super()._check_params()
        if not isinstance(self.tol, Real) or not self.tol >= 0:
            raise ArgumentError("tol", f"must be a number >= 0; got {self.tol!r}")

    def _train(self, X: Any, y: Any, queries: Queries, held_out: HeldOut | None = None) -> None:
        metric, features = metric_and_features(self, X, y, queries)
        taken: list[tuple[int, float]] = []
        with self._progress(self.n_estimators) as progress:  # ranking by all features takes time
            choice = WeakRankers(features, metric, signed=self.signed, most=self.max_consecutive)
            rounds = self._rounds(choice, taken, held_out)
            self._run(rounds, self.n_estimators, progress, self.patience)
        taken = taken[: self.best_iter_]
        self.features_ = np.array([feature for feature, _ in taken], dtype=np.int32)
        self.weights_ = np.array([weight for _, weight in taken], dtype=np.float64)
        self.coef_ = np.zeros(self.n_features_in_)
        np.add.at(self.coef_, self.features_, self.weights_)

    def _rounds(
        self, choice: WeakRankers, taken: list[tuple[int, float]], held_out: HeldOut | None
    ) -> Iterator[Round]:
        """Add a feature with its weight to ``taken`` in each round, as long as one is of use."""
        scores, coef = np.zeros(len(choice.metric.rows)), np.zeros(self.n_features_in_)
        share = np.full(choice.n_queries, 1.0 / choice.n_queries)  # the paper's P
        mean, self.measure_curve_ = -np.inf, list[float]()
        while mean < 1.0 - _EDGE:
            feature, sign, quality = choice.best(share)
            if quality <= 0.0:
                return
            weight = sign * float(np.arctanh(min(quality, 1.0 - _EDGE)))
            scores = scores + weight * column(choice.features, feature)
            reached = choice.metric.of(scores)
            before, mean = mean, float(reached.mean())
            if mean <= before - self.tol:
                return
            taken.append((feature, weight))
            coef[feature] += weight
            self.measure_curve_.append(mean)
            ndcg = None if held_out is None else held_out.ndcg(np.asarray(held_out.X @ coef))
            yield Round(ndcg, {"metric": mean})
            share = np.exp(-reached)
            share /= share.sum()


class WeakRankers:
    """Single features, in one direction or both, with the metric of each on every query."""

    def __init__(self, features: Any, metric: ListMetric, *, signed: bool, most: int) -> None:
        self.features, self.metric = features, metric
        self._signs = (1.0, -1.0) if signed else (1.0,)
        zeros = np.zeros(len(metric.rows))
        # One line for each feature and sign: feature 0 up, feature 0 down, feature 1 up, …
        self._metrics: Floats64 = np.vstack(
            [
                metric.along(zeros, column(features, f), self._signs).T
                for f in range(features.shape[1])
            ]
        )
        self.n_queries = self._metrics.shape[1]
        self._most = most
        self._last, self._times = -1, 0

    def best(self, weight_of_query: Floats64) -> tuple[int, float, float]:
        """The best feature, its sign and its weighted mean metric, 0 if there is no choice."""
        quality = self._metrics @ weight_of_query
        if self._times >= self._most:
            quality.reshape(-1, len(self._signs))[self._last] = 0.0
        line = int(np.argmax(quality))
        feature, sign = divmod(line, len(self._signs))
        self._times = self._times + 1 if feature == self._last else 1
        self._last = feature
        return feature, self._signs[sign], float(quality[line])
