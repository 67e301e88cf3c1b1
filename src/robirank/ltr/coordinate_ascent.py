"""Coordinate ascent: the measure itself is maximised, one weight of a linear model at a time."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from robirank._checks import check_count, check_not_negative
from robirank._progress import FitProgress
from robirank._random import RandomStateLike, as_random_state
from robirank._types import Floats64
from robirank.ltr._held_out import HeldOut
from robirank.ltr._measure import Columns, ListMeasure, MeasureName
from robirank.ltr.base import LinearRanker, check_labels
from robirank.registry import Comparison, register
from robirank.storage.fitted_parts import FittedArray, FittedParts

#: A difference that rounding can make is no improvement.
_ROUNDING = 1e-10
#: The first step of a search, and its share of a weight that is smaller than twice that.
_FIRST_STEP, _SHARE = 0.001, 0.05


@register
@dataclass(eq=False, repr=False)
class CoordinateAscent(LinearRanker):
    r"""Linear ranking by coordinate ascent on the measure itself.

    Maximises, over weights with :math:`\sum_f |w_f| = 1`,

    .. math::
        \frac{1}{|\mathcal{X}|} \sum_x E(x, w)
        \; - \; \text{slack} \cdot \lVert w - w_0 \rVert

    where E is NDCG@k or the average precision of a query under the scores
    :math:`\langle\phi(x,y), w\rangle`. E is piecewise constant, so there is no gradient; one weight
    at a time is moved by steps 0.001 · (1, 3, 7, 15, …) up and down and to 0, and stays where the
    objective is largest, if that is better than before. All steps of a search are measured at once,
    by several threads. Features come in random order; passes over them are made until one adds less
    than ``tol``. The whole is repeated from several starts :math:`w_0`.

    Graded labels: through the measure; NDCG uses the grades, average precision counts labels from
    1 as relevant. Several queries: the mean over those with a relevant document.

    Parameters
    ----------
    metric : {"ndcg", "map"}, default="ndcg"
        The measure E.
    k : int or None, default=10
        The cut-off of NDCG, as measure and on validation data (None: the whole list); average
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
        Of the measure, and of NDCG@k on the validation data; see `robirank.metrics`.
    random_state : int, Generator, RandomState or None, default=None
        Decides the starts and the order of the features.
    num_threads : int, default=0
        0: every core; one for little work. The result does not depend on it, to the last bit.
    verbose : bool, default=False
        Show a progress line.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        The weights; their absolute values add up to 1.
    n_iter_ : int
        Passes over the features from the chosen start.
    best_iter_ : int
        The pass whose weights were kept: the best on validation data, else the last.
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
    >>> from robirank import make_ranking
    >>> from robirank.ltr.coordinate_ascent import CoordinateAscent
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
            "validation_scores_": FittedArray(("rounds",), is_list=True),
        },
        {"n_iter_": int, "best_iter_": int},
    )
    comparison = Comparison(
        "CoordAscent", tuple({"slack": slack} for slack in (0.0, 0.03, 0.1, 0.3))
    )
    test_settings = ({"n_restarts": 2, "max_iter": 3, "random_state": 0},)

    metric: MeasureName = "ndcg"
    _: KW_ONLY
    k: int | None = 10
    n_restarts: int = 5
    n_steps: int = 25
    max_iter: int = 100
    tol: float = 0.001
    slack: float = 0.0
    convention: str = "standard"
    random_state: RandomStateLike = None
    num_threads: int = 0
    verbose: bool = False

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        validation: Any = None,
    ) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features), or RankingData
            Features of the documents, of similar ranges.
        y : array-like of shape (n_rows,), optional
            Relevance labels, 0 for irrelevant; a RankingData has its own, and its own qid.
        qid : array-like of shape (n_rows,), optional
            The query of each row; without it all rows are one query.
        validation : (X, y, qid) or RankingData, optional
            Held-out queries; the pass and the start with the best NDCG@k there are kept, not those
            with the best objective.
        """
        self._check_params()
        X, y, queries = self._check_fit(X, y, qid)
        check_labels(y)
        held_out = self._held_out(validation)
        measure = ListMeasure(
            y,
            queries,
            metric=self.metric,
            k=self.k,
            convention=self.convention,
            num_threads=self.num_threads,
        )
        columns = Columns(X, measure.rows)
        rng = as_random_state(self.random_state)
        climbs: list[Climb] = []
        for number, start in enumerate(self._starts(columns.n_features, rng), 1):
            with self._progress(self.max_iter, f"start {number} of {self.n_restarts}") as progress:
                climbs.append(self._climb(start, columns, measure, held_out, rng, progress))
        self._keep(climbs, held_out is not None)
        return self

    def _check_params(self) -> None:
        for name in ("n_restarts", "n_steps", "max_iter"):
            check_count(name, getattr(self, name))
        for name in ("tol", "slack"):
            check_not_negative(name, getattr(self, name))

    def _starts(self, n_features: int, rng: Any) -> list[Floats64]:
        draws = rng.standard_normal((self.n_restarts - 1, n_features))
        return [_normalise(w) for w in (np.ones(n_features), *draws)]

    def _climb(
        self,
        start: Floats64,
        columns: Columns,
        measure: ListMeasure,
        held_out: HeldOut | None,
        rng: Any,
        progress: FitProgress,
    ) -> Climb:
        """Make passes over the features until they are of no more use."""
        search = _Search(start, columns, measure, int(self.n_steps), float(self.slack))
        climb = Climb([search.objective])
        for _ in range(self.max_iter):
            order = rng.permutation(columns.n_features)
            for tried, feature in enumerate(order):
                search.move(int(feature))
                progress.update(
                    len(climb.weights),
                    feature=f"{tried + 1} of {len(order)}",
                    objective=search.objective,
                )
            climb.weights.append(search.weights.copy())
            climb.objectives.append(search.objective)
            if held_out is not None:
                climb.validation.append(held_out.ndcg(np.asarray(held_out.X @ search.weights)))
            progress.update(len(climb.weights), objective=search.objective)
            if climb.objectives[-1] - climb.objectives[-2] < max(self.tol, _ROUNDING):
                break
        return climb

    def _keep(self, climbs: list[Climb], validated: bool) -> None:
        """Take the best pass of the best climb; of equals, the first."""
        values = [max(c.validation) if validated else c.objectives[-1] for c in climbs]
        best = climbs[int(np.argmax(values))]
        self.restart_objectives_ = [c.objectives[-1] for c in climbs]
        self.objective_curve_ = best.objectives
        self.n_iter_ = len(best.weights)
        self.best_iter_ = int(np.argmax(best.validation)) + 1 if validated else self.n_iter_
        self.validation_scores_ = best.validation
        self.coef_ = best.weights[self.best_iter_ - 1]


@dataclass
class Climb:
    """The passes from one start: weights, objective (also of the start) and held-out NDCG."""

    objectives: list[float]
    weights: list[Floats64] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)


class _Search:
    """Where a climb stands: weights, their scores, their objective."""

    def __init__(
        self, start: Floats64, columns: Columns, measure: ListMeasure, n_steps: int, slack: float
    ) -> None:
        self._start = start
        self._columns = columns
        self._measure = measure
        self._lengths = 2.0 ** np.arange(1, n_steps + 1) - 1.0
        self._slack = slack
        self.weights = start.copy()
        self._scores = columns.scores(start)
        self.objective = float(measure.of(self._scores).mean())

    def move(self, feature: int) -> None:
        """Search along one weight, and move if that is an improvement."""
        steps = self._steps(self.weights[feature])
        column = self._columns[feature]
        objectives = self._measure.along(self._scores, column, steps).mean(axis=0)
        if self._slack:
            objectives -= self._slack * self._distances(feature, steps)
        # Of equally good steps the shortest, whatever rounding makes of them.
        best = int(np.argmax(objectives >= objectives.max() - _ROUNDING))
        if objectives[best] <= self.objective + _ROUNDING:
            return
        self.weights[feature] += steps[best]
        size = np.abs(self.weights).sum()
        self.weights /= size
        self._scores = (self._scores + steps[best] * column) / size
        self.objective = float(objectives[best])

    def _steps(self, weight: float) -> Floats64:
        """Steps up and down, and the one to 0, the shortest first."""
        small = weight != 0.0 and 0.5 * abs(weight) < _FIRST_STEP
        lengths = (_SHARE * abs(weight) if small else _FIRST_STEP) * self._lengths
        steps = np.concatenate((lengths, -lengths, [-weight]))
        return steps[np.argsort(np.abs(steps), kind="stable")]

    def _distances(self, feature: int, steps: Floats64) -> Floats64:
        """How far from the start the weights would be after each step."""
        moved = np.repeat(self.weights[None], len(steps), axis=0)
        moved[:, feature] += steps
        moved /= np.maximum(np.abs(moved).sum(axis=1, keepdims=True), 1e-300)
        distances: Floats64 = np.linalg.norm(moved - self._start, axis=1)
        return distances


def _normalise(weights: Floats64) -> Floats64:
    return weights / np.abs(weights).sum()
