"""From RoBiRank's solution to Type-II's: ρ = (1 − t) log₂(1 + ·) + t (1 − 1 / log₂(2 + ·)).

The gradient of Type-II vanishes where ranks are bad, so that it learns nothing from a poor start.
Here it starts where RoBiRank ends, and t is what ranks the validation queries best. The loss is
linear in ρ: that of the mixture is the mixture of both losses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.base import BaseEstimator

import robirank as rr
from robirank.losses import RhoName
from robirank.metrics import ndcg
from robirank_lab.ltr.boosters import LightGBMLambdaRank

PATH = (0.0, 0.5, 1.0)
"""The values of t, each of which starts where the one before ends."""
_MOST_ITERATIONS = 300
_FACTOR_EPOCHS = 16  # of Type-II, after those of RoBiRank


class LogToTypeTwo(BaseEstimator):
    """A linear ranker: RoBiRank, then the mixtures from there.

    Attributes
    ----------
    coef_ : array
    t_ : float
        The mixture that was kept; 0 is RoBiRank itself.
    """

    def __init__(self, alpha: float = 1e-3, *, k: int | None = 10, num_threads: int = 0) -> None:
        self.alpha, self.k, self.num_threads = alpha, k, num_threads

    def fit(self, X: Any, y: ArrayLike, *, qid: ArrayLike, validation: rr.RankingData) -> Self:
        """Descend from RoBiRank's solution; keep what ranks the validation queries best."""
        start = rr.RoBiRank(self.alpha, num_threads=self.num_threads).fit(X, y, qid=qid)
        w = np.asarray(start.coef_, np.float64)
        best = -1.0
        for t in PATH:
            w = self.descend(w, X, y, qid, t) if t else w
            reached = float(ndcg(validation.y, validation.X @ w, validation.qid, k=self.k))
            if reached > best:
                best, self.coef_, self.t_ = reached, w, t
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Score documents."""
        return X @ self.coef_

    def descend(
        self, w: NDArray[np.float64], X: Any, y: ArrayLike, qid: ArrayLike, t: float
    ) -> NDArray[np.float64]:
        """The minimum of a mixture that is reached from given weights."""

        def objective(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            scores = X @ w
            loss, gradient = self.alpha / 2 * float(w @ w), self.alpha * w
            weights: dict[RhoName, float] = {"log": 1 - t, "type2": t}
            for rho, weight in weights.items():
                part = rr.listwise_loss(scores, y, qid, rho=rho, num_threads=self.num_threads)
                loss += weight * part.loss
                gradient = gradient + weight * (X.T @ part.gradient)
            return loss, gradient

        options: Any = {"maxiter": _MOST_ITERATIONS, "gtol": 1e-6}
        return minimize(objective, w, jac=True, method="L-BFGS-B", options=options).x


@dataclass(eq=False, repr=False)
class TreesLogToTypeTwo(LightGBMLambdaRank):
    """Trees: RoBiRank's up to its best round on validation queries, then those of a mixture."""

    def _train(self, data: rr.RankingData, validation: rr.RankingData | None) -> None:
        best, log_rounds = -1.0, self.n_estimators
        for t in PATH:
            self._t, self._log_rounds = t, log_rounds
            super()._train(data, validation)
            log_rounds = log_rounds if t else self.best_iter_
            if validation is None:
                return
            reached = self._ndcg(self.predict(validation.X), validation)
            if reached > best:
                best, kept = reached, (self.booster_, self.best_iter_, t)
        self.booster_, self.best_iter_, self.t_ = kept

    def _loss(self, y: NDArray[Any]) -> tuple[NDArray[Any], dict[str, Any]]:
        log, type_two = (
            rr.lightgbm_objective(rho=rho, num_threads=self.num_threads) for rho in ("log", "type2")
        )
        rounds, t = 0, self._t

        def objective(scores: NDArray[Any], dataset: Any) -> tuple[NDArray[Any], NDArray[Any]]:
            nonlocal rounds
            rounds += 1
            if rounds <= self._log_rounds:
                return log(scores, dataset)
            both = zip(log(scores, dataset), type_two(scores, dataset), strict=True)
            gradient, curvature = ((1 - t) * a + t * b for a, b in both)
            return gradient, curvature

        return y, {"objective": objective}


class FactorsLogToTypeTwo(rr.LatentRoBiRank):
    """Latent factors: RoBiRank's, then Type-II from there with the penalty of its own scale."""

    def __init__(
        self,
        factors: int = 64,
        *,
        regularization: float | None = None,
        iterations: int | None = None,
        learning_rate: float | None = None,
        random_state: int | None = None,
        num_threads: int = 0,
    ) -> None:
        super().__init__(
            factors,
            solver="exact",
            regularization=regularization,
            iterations=iterations,
            learning_rate=learning_rate,
            random_state=random_state,
            num_threads=num_threads,
        )

    def fit(self, user_items: Any, show_progress: bool = False) -> Self:  # type: ignore[override]
        """Fit RoBiRank, then go on with Type-II."""
        super().fit(user_items, show_progress)
        log, type_two = (
            rr.LatentRoBiRank(self.factors, rho=rho).regularization_for(user_items)
            for rho in ("log", "type2")
        )
        asked = self.regularization
        self.rho, self.regularization = "type2", self.regularization_ * type_two / log
        try:
            return self.partial_fit(user_items, _FACTOR_EPOCHS, show_progress)
        finally:
            self.rho, self.regularization = "log", asked
