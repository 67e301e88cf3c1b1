"""RoBiRank with its penalty chosen on held-out queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import GroupKFold, check_cv

from robirank._queries import Queries
from robirank._random import RandomStateLike, as_random_state
from robirank._types import Floats64, Ints64
from robirank.errors import Argument, ArgumentError
from robirank.ltr._rounds import HeldOut, RoundsRanker
from robirank.ltr.base import LinearRanker, ListwiseRanker
from robirank.ltr.robirank import Init, RoBiRank
from robirank.objectives.listwise import QueryWeight
from robirank.registry import register
from robirank.storage.fitted_parts import FittedArray

DEFAULT_ALPHAS = tuple(float(a) for a in np.logspace(1, -5, 13))


@register
@dataclass(eq=False, repr=False)
class RoBiRankCV(ListwiseRanker, RoundsRanker, LinearRanker):
    """RoBiRank along a path of penalties, the best one chosen by NDCG on held-out queries.

    The path runs from the largest penalty to the smallest, each fit starting where the last one
    ended. With ``fit(…, validation=(X, y, qid))`` the choice is made on those queries; otherwise by
    cross-validation whose folds never split a query (documents are held out only where there is
    a single query), followed by a fit on all queries. Of equally good penalties the largest is
    taken.

    Parameters
    ----------
    alphas : sequence of float, optional
        The penalties to try; 10, 3.2, 1, … 1e-5 by default.
    cv : int or scikit-learn splitter, default=5
        The number of folds of queries, or a splitter that is given ``groups=qid``. Not used with
        a validation set.
    k : int, None or sequence of int, default=10
        The choice is made by mean NDCG@k (None: the full list). Of several cut-offs, their mean is
        taken, which is steadier where validation queries are few.
    convention : str, default="standard"
        The convention of that NDCG; see `robirank.metrics`.
    rho, metric, gain, init, max_iter, tol, random_state, num_threads, verbose
        As in `RoBiRank`; ``random_state`` also decides how queries fall into folds.

    Attributes
    ----------
    alpha_ : float
        The chosen penalty.
    alphas_ : array of shape (n_alphas,)
        All penalties, largest first.
    scores_ : array of shape (n_alphas, n_folds)
        NDCG@k on the held-out queries (one column with a validation set).
    best_score_ : float
        The mean of ``scores_`` at ``alpha_``.
    coef_, n_iter_, loss_curve_
        Of the final model, as in `RoBiRank`.

    Examples
    --------
    >>> from robirank import RoBiRankCV, make_ranking
    >>> data = make_ranking(n_queries=40, n_features=5, random_state=0)
    >>> model = RoBiRankCV(alphas=[1.0, 0.01], cv=3, random_state=0)
    >>> model = model.fit(data.X, data.y, qid=data.qid)
    >>> model.alpha_ in (1.0, 0.01), model.scores_.shape
    (True, (2, 3))
    """

    fitted_parts = LinearRanker.fitted_parts.plus(
        {
            "alphas_": FittedArray(("alphas",)),
            "scores_": FittedArray(("alphas", "folds")),
        },
        {"alpha_": float, "best_score_": float},
    )

    alphas: Sequence[float] | None = None
    _: KW_ONLY
    cv: Any = 5
    k: Any = 10
    init: Init = "zeros"
    max_iter: int = 500
    tol: float = 1e-5
    random_state: RandomStateLike = None
    num_threads: int = 0

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: QueryWeight | None = None,
        validation: Any = None,
    ) -> Self:
        """Choose the penalty and learn the weights.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight
            As in `RoBiRank.fit`.
        validation : (X, y, qid) or RankingData, optional
            Held-out queries for the choice.
        """
        self.alphas_ = self._check_alphas()
        X, y, queries = self._check_fit(X, y, qid)
        weights = {"sample_weight": sample_weight, "query_weight": query_weight}
        held_out = self._held_out(validation)
        folds = [(queries, held_out)] if held_out is not None else self._folds(X, y, queries)
        by_fold = []
        for train, test in folds:
            models = self._path(X, y, train, self.alphas_, **weights)
            by_fold.append([test.ndcg(np.asarray(test.X @ m.coef_)) for m in models])
        self.scores_ = np.array(by_fold).T
        means = self.scores_.mean(axis=1)
        best = int(np.argmax(means))
        if held_out is None:
            models = self._path(X, y, queries, self.alphas_[: best + 1], **weights)
        self.alpha_, self.best_score_ = float(self.alphas_[best]), float(means[best])
        self.coef_ = models[best].coef_
        self.n_iter_, self.loss_curve_ = models[best].n_iter_, models[best].loss_curve_
        return self

    def with_alpha(self, alpha: float) -> RoBiRank:
        """An unfitted `RoBiRank` with one penalty, and otherwise the same parameters."""
        names = RoBiRank().get_params(deep=False)
        shared = {n: v for n, v in self.get_params(deep=False).items() if n in names}
        return RoBiRank(alpha, **shared)

    def _check_alphas(self) -> Floats64:
        alphas = np.array(DEFAULT_ALPHAS if self.alphas is None else self.alphas, dtype=np.float64)
        if alphas.ndim != 1 or len(alphas) == 0 or not (np.isfinite(alphas) & (alphas >= 0)).all():
            raise ArgumentError(
                "alphas", f"must be a non-empty sequence of numbers >= 0; got {self.alphas!r}"
            )
        return np.unique(alphas)[::-1]

    def _path(
        self, X: Any, y: Any, queries: Queries, alphas: Floats64, **weights: Any
    ) -> list[RoBiRank]:
        """One model a penalty, each started from the one before."""
        start, models = self.init, []
        for alpha in alphas:
            model = self.with_alpha(float(alpha)).set_params(init=start)
            models.append(model._fit_queries(X, y, queries, **weights))
            start = model.coef_
        return models

    def _folds(self, X: Any, y: Any, queries: Queries) -> Iterator[tuple[Queries, HeldOut]]:
        """What each fold trains on and holds out: whole queries, or documents of a single one."""
        for train, test in self._split(X, y, queries):
            rows, rule = test.rows(), (self.k, self.convention)
            yield train, HeldOut(X[rows], y[rows], test.codes(), *rule)

    def _split(self, X: Any, y: Any, queries: Queries) -> list[tuple[Queries, Queries]]:
        single = len(queries) == 1
        groups = np.arange(queries.n_rows) if single else queries.unsort(queries.codes())
        splitter = self.cv
        if isinstance(splitter, int | np.integer):
            n, what = (len(groups), "documents") if single else (len(queries), "queries")
            if not 2 <= splitter <= n:
                raise ArgumentError(
                    "cv",
                    f"must be between 2 and the number of {what} (n_samples = {n}); "
                    f"got {splitter}. Pass validation=(X, y, qid) to choose on a set of your own",
                )
            rng = as_random_state(self.random_state)
            splitter = GroupKFold(splitter, shuffle=True, random_state=rng)

        def chosen(rows: Ints64) -> Queries:
            if single:
                return Queries(queries.ids, np.array([0, len(rows)], np.int64), np.sort(rows))
            numbers = np.unique(groups[rows])
            if queries.sizes[numbers].sum() != len(rows):
                raise ArgumentError(
                    Argument("cv", self.cv), "splits a query; use one such as GroupKFold"
                )
            return queries.take(numbers)

        splits = check_cv(splitter).split(X, y, groups)
        return [(chosen(train), chosen(test)) for train, test in splits]
