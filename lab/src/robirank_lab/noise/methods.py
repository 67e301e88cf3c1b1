"""Who takes part: the methods and grids of the other experiments, and a few of this one's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from robirank_lab.latent.methods import LATENT_FIELD, LatentMethod
from robirank_lab.ltr.methods import Method, all_methods, log_grid
from robirank_lab.ltr.units import spread_out

_HERE = "robirank_lab.noise"
# The experiment fits each method a hundred times: trees have fewer rounds and settings than in the
# comparison of rankers, RankNet fewer settings.
_ROUNDS = {"n_estimators": 300, "patience": 50}
_SETTINGS = 3
_TREES = (
    *("RoBiRankBooster", "LightGBM lambdarank", "LightGBM rank_xendcg", "LambdaMART", "MART"),
    *("XGBoost rank:ndcg", "CatBoost YetiRank"),
)


class Logistic(BaseEstimator):
    """Logistic regression on single documents: relevant or not."""

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: Any, y: ArrayLike, *, qid: ArrayLike) -> Logistic:  # noqa: ARG002
        """Learn from labels alone; queries do not matter."""
        self.model_ = LogisticRegression(C=self.C, max_iter=1000).fit(X, np.asarray(y) > 0)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Score documents."""
        return self.model_.decision_function(X)


def list_methods() -> dict[str, Method]:
    """Every method for judged lists, by name."""
    known = all_methods()
    slow = {name: _smaller(known[name], _ROUNDS) for name in _TREES}
    slow["RankNet"] = _smaller(known["RankNet"], {})
    booster = slow["RoBiRankBooster"]
    own = (
        Method("Log to Type-II", f"{_HERE}.continued:LogToTypeTwo", known["RoBiRank"].grid),
        Method("Logistic", f"{_HERE}.methods:Logistic", log_grid("C", -4, 3, 8)),
        replace(booster, name="Booster Type-II", fixed={**booster.fixed, "rho": "type2"}),
        replace(
            booster,
            name="Booster log to Type-II",
            home=f"{_HERE}.continued:TreesLogToTypeTwo",
        ),
    )
    return {**known, **slow, **{method.name: method for method in own}}


def _smaller(method: Method, fixed: Mapping[str, Any]) -> Method:
    grid = tuple(spread_out(method.grid, _SETTINGS))
    return replace(method, grid=grid, fixed={**method.fixed, **fixed})


def table_methods() -> dict[str, LatentMethod]:
    """Every method for tables of users and items, by name."""
    exact = LATENT_FIELD["RoBiRank exact"]
    # The search goes on in the first direction that helps, however little: from the usual start of
    # ALS that is often the wrong one. This start is in the middle of what is chosen.
    steps = {"alpha": (3.0, 3.0), "regularization": (10.0, 3.0)}
    own = (
        replace(LATENT_FIELD["implicit ALS"], steps=steps),
        LatentMethod("Log to Type-II", f"{_HERE}.continued:FactorsLogToTypeTwo", exact.steps),
        LatentMethod(
            "implicit BPR",
            "robirank_lab.latent.peers:BayesianPersonalizedRanking",
            {"learning_rate": (0.05, 3.0), "regularization": (0.01, 3.0)},
            needs="implicit",
        ),
    )
    return {**LATENT_FIELD, **{method.name: method for method in own}}


#: What is compared where nothing else is asked for.
LIST_FIELD = (
    *("RoBiRank", "Log to Type-II", "Type-II", "Identity", "RankSVM", "Logistic", "ListNet"),
    *("RankNet", "RoBiRankBooster", "Booster log to Type-II", "Booster Type-II"),
    *("LightGBM lambdarank", "XGBoost rank:ndcg", "CatBoost YetiRank"),
)
TABLE_FIELD = (
    *("RoBiRank exact", "Log to Type-II", "Identity exact", "WARP", "implicit ALS"),
    *("implicit BPR", "Popularity"),
)
