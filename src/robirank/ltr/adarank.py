"""AdaRank: boosting of single features, with weights on queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from robirank._checks import check_count
from robirank._progress import FitProgress
from robirank._types import Floats64
from robirank.ltr._held_out import BestSoFar, HeldOut
from robirank.ltr._measure import Columns, ListMeasure, MeasureName
from robirank.ltr.base import LinearRanker, check_labels
from robirank.registry import Comparison, register
from robirank.storage.fitted_parts import FittedArray, FittedParts

#: A measure this close to 1 is perfect.
_EDGE = 1e-10


@register
@dataclass(eq=False, repr=False)
class AdaRank(LinearRanker):
    r"""AdaRank: a sum of features, boosted on a ranking measure.

    Greedily minimises an exponential bound on one minus the measure E (NDCG@k or average
    precision) of each query,

    .. math::
        \sum_x \exp\big(-E(x, f)\big), \qquad f = \sum_t \alpha_t h_t

    A weak ranker :math:`h_t` is a single feature. Round t has a distribution :math:`P_t` over
    queries (uniform at first), takes the feature that ranks best under it, and adds it with weight

    .. math::
        \alpha_t = \frac12 \ln \frac{\sum_x P_t(x)\,(1 + E(x, h_t))}
        {\sum_x P_t(x)\,(1 - E(x, h_t))},
        \qquad P_{t+1}(x) \propto \exp\big(-E(x, f_t)\big)

    so that queries which the sum ranks badly count more in the next round. The measure of every
    feature on every query is taken once; a round then costs no more than one ranking.

    Graded labels: through the measure; NDCG uses the grades, average precision counts labels from
    1 as relevant. Several queries: each counts alike at first; those without a relevant document
    are left out.

    Parameters
    ----------
    n_estimators : int, default=500
        The most rounds of boosting.
    metric : {"ndcg", "map"}, default="ndcg"
        The measure E. AdaRank-MAP is the variant that LETOR reports the better results of.
    k : int or None, default=10
        The cut-off of NDCG, as measure and on validation data (None: the whole list); average
        precision looks at the whole list.
    tol : float, default=0.002
        Stop, and drop the round, when the mean of E over the training queries has fallen by this
        much or more; infinity never stops. The default is RankLib's, and may stop after very few
        rounds.
    max_consecutive : int, default=5
        A feature taken this often in a row sits out until another has been taken. Without this
        AdaRank soon stands still: a feature that is taken again when it ranks alone changes
        nothing.
    signed : bool, default=True
        Whether a feature may also rank from low to high. False is what the authors and RankLib do,
        who have features of which more is better.
    patience : int or None, default=100
        With validation data: stop after so many rounds without progress. None: run them all.
    convention : str, default="standard"
        Of the measure, and of NDCG@k on the validation data; see `robirank.metrics`.
    num_threads : int, default=0
        0: every core; one for little work. The result does not depend on it, to the last bit.
    verbose : bool, default=False
        Show a progress line.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        For each feature the sum of its weights α, negative where it ranks from low to high.
    n_iter_ : int
        The rounds that were run, without a dropped one.
    best_iter_ : int
        The rounds that were kept: up to the best on validation data, else all.
    features_ : int array of shape (best_iter_,)
        The feature of each round that is part of the model.
    weights_ : array of shape (best_iter_,)
        Its weight α, negative where it ranks from low to high.
    measure_curve_ : list of float
        The mean of E over the training queries after each round.
    validation_scores_ : list of float
        NDCG@k on the validation data after each round; empty without.

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
    >>> from robirank import make_ranking
    >>> from robirank.ltr.adarank import AdaRank
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
            "validation_scores_": FittedArray(("rounds",), is_list=True),
        },
        {"n_iter_": int, "best_iter_": int},
    )
    comparison = Comparison(
        "AdaRank",
        tuple({"metric": m, "max_consecutive": n} for m in ("map", "ndcg") for n in (1, 5)),
    )
    test_settings = ({}, {"metric": "map"})

    n_estimators: int = 500
    _: KW_ONLY
    metric: MeasureName = "ndcg"
    k: int | None = 10
    tol: float = 0.002
    max_consecutive: int = 5
    signed: bool = True
    patience: int | None = 100
    convention: str = "standard"
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
        """Boost.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features), or RankingData
            Features of the documents, of similar ranges.
        y : array-like of shape (n_rows,), optional
            Relevance labels, 0 for irrelevant; a RankingData has its own, and its own qid.
        qid : array-like of shape (n_rows,), optional
            The query of each row; without it all rows are one query.
        validation : (X, y, qid) or RankingData, optional
            Held-out queries; the rounds up to the best NDCG@k there are kept.
        """
        check_count("n_estimators", self.n_estimators)
        check_count("max_consecutive", self.max_consecutive)
        check_count("patience", self.patience, or_none=True)
        if not isinstance(self.tol, Real) or not self.tol >= 0:
            raise ValueError(f"tol must be a number >= 0; got {self.tol!r}")
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
        with self._progress(self.n_estimators) as progress:  # measuring all features takes time too
            choice = WeakRankers(columns, measure, signed=self.signed, most=self.max_consecutive)
            self._boost(self._rounds(choice, columns, measure), held_out, progress)
        return self

    def _rounds(
        self, choice: WeakRankers, columns: Columns, measure: ListMeasure
    ) -> Iterator[tuple[int, float, float]]:
        """Give the feature and weight of each round, and the mean measure after it."""
        scores = np.zeros(len(measure.rows))
        share = np.full(choice.n_queries, 1.0 / choice.n_queries)  # the paper's P
        mean = -np.inf
        while mean < 1.0 - _EDGE:
            feature, sign, quality = choice.best(share)
            if quality <= 0.0:
                return
            weight = sign * float(np.arctanh(min(quality, 1.0 - _EDGE)))
            scores = scores + weight * columns[feature]
            reached = measure.of(scores)
            before, mean = mean, float(reached.mean())
            if mean <= before - self.tol:
                return
            yield feature, weight, mean
            share = np.exp(-reached)
            share /= share.sum()

    def _boost(
        self,
        rounds: Iterator[tuple[int, float, float]],
        held_out: HeldOut | None,
        progress: FitProgress,
    ) -> None:
        """Run the rounds, and keep those up to the best on held-out queries."""
        features: list[int] = []
        weights: list[float] = []
        coef = np.zeros(self.n_features_in_)
        self.measure_curve_: list[float] = []
        best = BestSoFar(self.patience)
        for feature, weight, mean in islice(rounds, self.n_estimators):
            features.append(feature)
            weights.append(weight)
            coef[feature] += weight
            self.measure_curve_.append(mean)
            if held_out is not None:
                best.add(held_out.ndcg(np.asarray(held_out.X @ coef)))
            progress.update(len(features), measure=mean)
            if best.given_up:
                break
        self.n_iter_ = len(features)
        self.best_iter_ = self.n_iter_ if held_out is None else best.round
        self.validation_scores_ = best.scores
        self.features_ = np.array(features[: self.best_iter_], dtype=np.int32)
        self.weights_ = np.array(weights[: self.best_iter_], dtype=np.float64)
        self.coef_ = np.zeros(self.n_features_in_)
        np.add.at(self.coef_, self.features_, self.weights_)


class WeakRankers:
    """Single features, in one direction or both, with the measure of each on every query."""

    def __init__(self, columns: Columns, measure: ListMeasure, *, signed: bool, most: int) -> None:
        self._signs = (1.0, -1.0) if signed else (1.0,)
        nothing = np.zeros(len(measure.rows))
        # One line for each feature and sign: feature 0 up, feature 0 down, feature 1 up, …
        self._measures: Floats64 = np.vstack(
            [measure.along(nothing, columns[f], self._signs).T for f in range(columns.n_features)]
        )
        self.n_queries = self._measures.shape[1]
        self._most = most
        self._last, self._times = -1, 0

    def best(self, weight_of_query: Floats64) -> tuple[int, float, float]:
        """Feature, sign and weighted mean measure; 0 if there is nothing to choose from."""
        quality = self._measures @ weight_of_query
        if self._times >= self._most:
            quality.reshape(-1, len(self._signs))[self._last] = 0.0
        line = int(np.argmax(quality))
        feature, sign = divmod(line, len(self._signs))
        self._times = self._times + 1 if feature == self._last else 1
        self._last = feature
        return feature, self._signs[sign], float(quality[line])
