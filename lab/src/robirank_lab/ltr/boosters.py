"""Boosters of other packages, for the comparison: the same trees, leaves and rule to stop.

They take the parameters of `robirank.RoBiRankBooster`. LightGBM's objectives are grown exactly as
ours is; XGBoost and CatBoost grow trees of the same size by their own programs, with their own
bounds on leaves. All stop by NDCG@k on the validation queries.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

import robirank as rr
from robirank.metrics import ndcg


@dataclass(eq=False, repr=False)
class OutsideBooster(BaseEstimator):
    """A booster of another package, which keeps the model in its own form."""

    needs: ClassVar[str]

    n_estimators: int = 1000
    _: KW_ONLY
    learning_rate: float = 0.1
    max_leaf_nodes: int = 10
    min_samples_leaf: int = 1
    l2_regularization: float = 0.0
    max_features: float = 1.0
    subsample: float = 1.0
    max_bins: int = 255
    patience: int | None = 100
    k: int | None = 10
    convention: str = "standard"
    random_state: int | None = None
    num_threads: int = 0

    def fit(
        self, X: Any, y: ArrayLike, *, qid: ArrayLike, validation: rr.RankingData | None = None
    ) -> Self:
        """Grow the trees; with validation data, keep those up to the best round."""
        data = rr.RankingData(X, np.asarray(y, np.float64), np.asarray(qid))
        self._train(data.take(data.queries.rows()), validation)
        return self

    def _train(self, data: rr.RankingData, validation: rr.RankingData | None) -> None:
        """Set ``booster_`` and ``best_iter_``; the rows of each query stand side by side."""
        raise NotImplementedError

    @property
    def _patience(self) -> int:
        return self.n_estimators if self.patience is None else self.patience

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _ndcg(self, scores: Any, validation: rr.RankingData) -> float:
        y, qid = validation.y, validation.qid
        return float(ndcg(y, scores, qid, k=self.k, convention=self.convention))


class LightGBMLambdaRank(OutsideBooster):
    """LightGBM's lambdarank: pairs with one of the first 30 documents, normalised."""

    needs = "lightgbm"

    def predict(self, X: Any) -> Any:
        """Score documents."""
        return self.booster_.predict(X, num_iteration=self.best_iter_)

    def _train(self, data: rr.RankingData, validation: rr.RankingData | None) -> None:
        import lightgbm

        data = data.take(_row_order(data))
        labels, loss = self._loss(data.y)
        params = self._params() | loss
        train = lightgbm.Dataset(data.X, labels, group=data.queries.sizes, params=params)
        rounds: dict[str, Any] = {}
        if validation is not None:
            held_out = lightgbm.Dataset(
                validation.X, np.zeros(len(validation)), reference=train, params=params
            )
            rounds = {
                "valid_sets": [held_out],
                "feval": lambda scores, _: ("ndcg", self._ndcg(scores, validation), True),
                "callbacks": [lightgbm.early_stopping(self._patience, verbose=False)],
            }
        self.booster_ = lightgbm.train(params, train, self.n_estimators, **rounds)
        best = self.booster_.best_iteration
        self.best_iter_ = best if best > 0 else self.booster_.current_iteration()

    def _loss(self, y: NDArray[Any]) -> tuple[NDArray[Any], dict[str, Any]]:
        """The labels as LightGBM wants them, and the parameters that say what is minimised."""
        grades, codes = np.unique(y, return_inverse=True)
        return codes, {"objective": "lambdarank", "label_gain": (2.0**grades - 1).tolist()}

    def _params(self) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate,
            "num_leaves": self.max_leaf_nodes,
            "min_data_in_leaf": self.min_samples_leaf if self.min_samples_leaf > 1 else 0,
            "lambda_l2": self.l2_regularization,
            "feature_fraction": self.max_features,
            "bagging_fraction": self.subsample,
            "bagging_freq": int(self.subsample < 1),
            "bagging_by_query": True,
            "max_bin": self.max_bins,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
            "use_missing": False,
            "metric": "none",
            "seed": self._seed(),
            "num_threads": self.num_threads,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }


class LightGBMXendcg(LightGBMLambdaRank):
    """LightGBM's rank_xendcg: a cross entropy with drawn targets."""

    def _loss(self, y: NDArray[Any]) -> tuple[NDArray[Any], dict[str, Any]]:
        return y, {"objective": "rank_xendcg"}


class XGBoostNDCG(OutsideBooster):
    """XGBoost's rank:ndcg with its defaults; ``min_samples_leaf`` has no counterpart there."""

    needs = "xgboost"

    def predict(self, X: Any) -> Any:
        """Score documents."""
        import xgboost

        return self.booster_.predict(xgboost.DMatrix(X), iteration_range=(0, self.best_iter_))

    def _train(self, data: rr.RankingData, validation: rr.RankingData | None) -> None:
        import xgboost

        params = {
            "objective": "rank:ndcg",
            "ndcg_exp_gain": bool(data.y.max() < 31),
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_depth": 0,
            "max_leaves": self.max_leaf_nodes,
            "max_bin": self.max_bins,
            "eta": self.learning_rate,
            "lambda": self.l2_regularization or 1.0,
            "colsample_bytree": self.max_features,
            "subsample": self.subsample,
            "seed": self._seed(),
            "nthread": self.num_threads or None,
            "disable_default_eval_metric": True,
        }
        rounds: dict[str, Any] = {}
        if validation is not None:
            held_out = xgboost.DMatrix(validation.X, np.zeros(len(validation)))
            rounds = {
                "evals": [(held_out, "validation")],
                "custom_metric": lambda scores, _: ("ndcg", self._ndcg(scores, validation)),
                "maximize": True,
                "early_stopping_rounds": self._patience,
                "verbose_eval": False,
            }
        train = xgboost.DMatrix(data.X, data.y)
        train.set_group(data.queries.sizes)
        self.booster_ = xgboost.train(params, train, self.n_estimators, **rounds)
        best = None if validation is None else self.booster_.best_iteration
        self.best_iter_ = self.n_estimators if best is None else best + 1


class CatBoostYetiRank(OutsideBooster):
    """CatBoost's YetiRank with its symmetric trees, of the depth whose leaves are nearest."""

    needs = "catboost"

    def predict(self, X: Any) -> Any:
        """Score documents."""
        return self.booster_.predict(X)

    def _train(self, data: rr.RankingData, validation: rr.RankingData | None) -> None:
        import catboost

        top = "" if self.k is None else f"top={self.k};"
        drawn = {"bootstrap_type": "Bernoulli", "subsample": self.subsample}
        model = catboost.CatBoost(
            {
                "loss_function": "YetiRank",
                "eval_metric": f"NDCG:{top}type=Exp",
                "iterations": self.n_estimators,
                "learning_rate": self.learning_rate,
                "depth": max(2, round(float(np.log2(self.max_leaf_nodes)))),
                "l2_leaf_reg": self.l2_regularization or 3.0,
                "rsm": self.max_features,
                "border_count": min(self.max_bins, 254),
                "random_seed": self._seed(),
                "thread_count": self.num_threads or -1,
                "allow_writing_files": False,
                "verbose": False,
                **(drawn if self.subsample < 1 else {}),
            }
        )

        def pool(part: rr.RankingData) -> Any:
            part = part.take(part.queries.rows())
            return catboost.Pool(part.X, part.y, group_id=part.queries.codes())

        if validation is None:
            model.fit(pool(data))
        else:
            rounds = {"use_best_model": True, "early_stopping_rounds": self.patience}
            model.fit(pool(data), eval_set=pool(validation), **rounds)
        self.booster_, self.best_iter_ = model, int(model.tree_count_)


def _row_order(data: rr.RankingData) -> NDArray[np.int64]:
    """Rows query by query, and within a query by a hash of their features.

    LightGBM breaks ties by the order of rows, and all scores tie at first: a list that comes sorted
    by label would look like a good ranking.
    """
    factors = np.random.default_rng(0).integers(2**63, size=data.n_features, dtype=np.uint64)
    hashes = np.empty(len(data), dtype=np.uint64)
    for begin in range(0, len(data), 4096):
        rows = data.X[begin : begin + 4096]
        dense = np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray(), np.float64)
        bits = (np.ascontiguousarray(dense) + 0.0).view(np.uint64)  # −0 becomes 0
        # What tells short numbers apart stands in their upper half; products keep the lower one.
        mixed = (bits ^ (bits >> 32)) * (factors * 2 + 1)
        hashes[begin : begin + 4096] = mixed.sum(axis=1, dtype=np.uint64)
    return np.lexsort((data.y, hashes, data.queries.codes()))
