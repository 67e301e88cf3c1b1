"""Coordinate ascent: the metric itself is maximised, one weight of a linear model at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from robirank._checks import Count, NotNegative
from robirank._progress import FitProgress
from robirank._queries import Queries
from robirank._random import RandomStateLike, as_random_state
from robirank._types import Floats64
from robirank.ltr._list_metric import ListMetric, MetricName, column, metric_and_features
from robirank.ltr._rounds import ROUND_ARRAYS, ROUND_NUMBERS, HeldOut, Round, RoundsRanker
from robirank.ltr.base import LinearRanker
from robirank.registry import register
from robirank.storage.fitted_parts import FittedArray, FittedParts

#: A difference that rounding can make is no improvement.
_ROUNDING = 1e-10
#: The first step of a search, and its share of a weight that is smaller than twice that.
_FIRST_STEP, _SHARE = 0.001, 0.05
#: The fitted attributes that a start leaves behind.
_OF_A_CLIMB = ("coef_", "objective_curve_", *ROUND_ARRAYS, *ROUND_NUMBERS)


@register
@dataclass(eq=False, repr=False)
class CoordinateAscent(RoundsRanker, LinearRanker):
    r"""Linear ranking by coordinate ascent on the metric itself.

    Maximises, over weights with :math:`\sum_f |w_f| = 1`,

    .. math::
        \frac{1}{|\mathcal{X}|} \sum_x E(x, w)
        \; - \; \text{slack} \cdot \lVert w - w_0 \rVert

    where E is NDCG@k or the average precision of a query under the scores
    :math:`\langle\phi(x,y), w\rangle`. E is piecewise constant, so there is no gradient; one weight
    at a time is moved by steps 0.001 · (1, 3, 7, 15, …) up and down and to 0, and stays where the
    objective is largest, if that is better than before. All steps of a search are tried at once,
    by several threads. Features come in random order; passes over them are made until one adds less
    than ``tol``. The whole is repeated from several starts :math:`w_0`.

    Graded labels: through the metric; NDCG uses the grades, average precision counts labels from
    1 as relevant. Several queries: the mean over those with a relevant document.

    Parameters
    ----------
    metric : {"ndcg", "map"}, default="ndcg"
        The metric E.
    k : int or None, default=10
        The cut-off of NDCG, as metric E and on validation data (None: the whole list); average
        precision looks at the whole list.
    n_restarts : int, default=5
        The number of starts: the first has equal weights, the others weights drawn at random.
        (RankLib gives equal weights to all; only the order of the features then differs.)
    n_steps : int, default=25
        The number of steps in each direction, each about twice as long as the last.
    max_iter : int, default=100
        The most passes over the features from one start.
    tol : float, default=0.001
        A pass that adds less than this to the objective is the last.
    slack : float, default=0
        Strength of the pull towards the start of the search. RankLib has it at 0 too, and at 0.001
        if asked to regularise.
    convention : str, default="standard"
        The convention of the metric E, and of NDCG@k on the validation data; see
        `robirank.metrics`.
    random_state : int, Generator, RandomState or None, default=None
        Decides the starts and the order of the features.
    num_threads, verbose
        As in `RoBiRankBooster`.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        The weights; their absolute values add up to 1.
    n_iter_ : int
        Passes over the features from the chosen start.
    best_iter_ : int
        The pass whose weights were kept: the best on validation data, of all starts, else the last.
    objective_curve_ : list of float
        The objective at that start and after each pass; it never falls.
    restart_objectives_ : list of float
        The objective that was reached from each start.
    validation_scores_ : list of float
        NDCG@k on the validation data after each pass from the chosen start; empty without.

    References
    ----------
    Metzler, Croft: Linear feature-based models for information retrieval. Information Retrieval
    10(3), 2007.

    Examples
    --------
    >>> from robirank import CoordinateAscent, make_ranking
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = CoordinateAscent(n_restarts=1, random_state=0).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    fitted_parts = FittedParts(
        {
            "coef_": FittedArray(("features",)),
            "objective_curve_": FittedArray(("iterations",), is_list=True),
            "restart_objectives_": FittedArray(("restarts",), is_list=True),
            **ROUND_ARRAYS,
        },
        ROUND_NUMBERS,
    )

    metric: MetricName = "ndcg"
    _: KW_ONLY
    n_restarts: Count = 5
    n_steps: Count = 25
    max_iter: Count = 100
    tol: NotNegative = 0.001
    slack: NotNegative = 0.0
    random_state: RandomStateLike = None
    num_threads: int = 0

    def _train(self, X: Any, y: Any, queries: Queries, held_out: HeldOut | None = None) -> None:
        metric, features = metric_and_features(self, X, y, queries)
        rng, n_features = as_random_state(self.random_state), features.shape[1]
        draws = rng.standard_normal((self.n_restarts - 1, n_features))
        climbs: list[dict[str, Any]] = []
        for number, start in enumerate([np.ones(n_features), *draws], 1):
            start = start / np.abs(start).sum()
            climb = Climb(start, features, metric, int(self.n_steps), float(self.slack))
            self.objective_curve_ = [climb.objective]
            with self._progress(self.max_iter, f"start {number} of {self.n_restarts}") as progress:
                passes = self._passes(climb, held_out, rng, progress)
                self._run(passes, self.max_iter, progress)
            climbs.append({name: getattr(self, name) for name in _OF_A_CLIMB})
        self.restart_objectives_ = [climb["objective_curve_"][-1] for climb in climbs]
        values = self.restart_objectives_
        if held_out is not None:
            values = [max(climb["validation_scores_"]) for climb in climbs]
        best = climbs[int(np.argmax(values))]  # of equals, the first
        for name, value in best.items():
            setattr(self, name, value)

    def _passes(
        self, climb: Climb, held_out: HeldOut | None, rng: Any, progress: FitProgress
    ) -> Iterator[Round]:
        """Pass over the features until a pass adds too little to the objective."""
        n_features, gain = len(climb.weights), np.inf
        while gain >= max(self.tol, _ROUNDING):
            for tried, feature in enumerate(rng.permutation(n_features), 1):
                climb.move(int(feature))
                tried_of_all = f"{tried} of {n_features}"
                progress.update(self.n_iter_, feature=tried_of_all, objective=climb.objective)
            gain = climb.objective - self.objective_curve_[-1]
            self.objective_curve_.append(climb.objective)
            ndcg = None if held_out is None else held_out.ndcg(held_out.X @ climb.weights)
            yield Round(ndcg, {"objective": climb.objective}, {"coef_": climb.weights.copy()})


class Climb:
    """A search from one start: the present weights, their scores and their objective."""

    def __init__(
        self, start: Floats64, features: Any, metric: ListMetric, n_steps: int, slack: float
    ) -> None:
        self._start = start
        self._features = features
        self._metric = metric
        self._lengths = 2.0 ** np.arange(1, n_steps + 1) - 1.0
        self._slack = slack
        self.weights = start.copy()
        self._scores = np.asarray(features @ start)
        self.objective = float(metric.of(self._scores).mean())

    def move(self, feature: int) -> None:
        """Search along one weight, and change it if the objective rises."""
        steps = self._steps(self.weights[feature])
        direction = column(self._features, feature)
        objectives = self._metric.along(self._scores, direction, steps).mean(axis=0)
        if self._slack:
            moved = np.repeat(self.weights[None], len(steps), axis=0)
            moved[:, feature] += steps
            moved /= np.maximum(np.abs(moved).sum(axis=1, keepdims=True), 1e-300)
            objectives -= self._slack * np.linalg.norm(moved - self._start, axis=1)
        # Of equally good steps the shortest, whatever rounding makes of them.
        best = int(np.argmax(objectives >= objectives.max() - _ROUNDING))
        if objectives[best] <= self.objective + _ROUNDING:
            return
        self.weights[feature] += steps[best]
        size = np.abs(self.weights).sum()
        self.weights /= size
        self._scores = (self._scores + steps[best] * direction) / size
        self.objective = float(objectives[best])

    def _steps(self, weight: float) -> Floats64:
        """Steps up and down, and the one that makes the weight 0, the shortest first."""
        small = weight != 0.0 and 0.5 * abs(weight) < _FIRST_STEP
        lengths = (_SHARE * abs(weight) if small else _FIRST_STEP) * self._lengths
        steps = np.concatenate((lengths, -lengths, [-weight]))
        return steps[np.argsort(np.abs(steps), kind="stable")]
