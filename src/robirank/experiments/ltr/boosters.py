"""Boosters of other packages, for the comparison: the same trees, leaves and rule to stop.

They take the parameters of `RoBiRankBooster`. LightGBM's objectives are grown exactly as ours is;
XGBoost and CatBoost grow trees of the same size by their own programs, with their own bounds on
leaves. All stop by NDCG@k on the validation queries.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from robirank._queries import Queries
from robirank._random import RandomStateLike, as_random_state
from robirank._threads import thread_count
from robirank.ltr._boosting import BoostedRanker
from robirank.ltr._held_out import HeldOut
from robirank.ltr.base import Ranker, check_labels
from robirank.metrics._conventions import gains


class _LightGBM(BoostedRanker):
    """An objective of LightGBM with its own defaults."""

    objective: ClassVar[str]

    def _loss(self, y: NDArray[Any], queries: Queries) -> tuple[NDArray[Any], dict[str, Any]]:  # noqa: ARG002
        grades, codes = np.unique(y, return_inverse=True)
        return codes.reshape(-1).astype(np.float64), {
            "objective": self.objective,
            "label_gain": gains(grades, "exp").tolist(),
        }


class LightGBMLambdaRank(_LightGBM):
    """LightGBM's lambdarank: pairs with one of the first 30 documents, normalised."""

    objective = "lambdarank"


class LightGBMXendcg(_LightGBM):
    """LightGBM's rank_xendcg: a cross entropy with drawn targets."""

    objective = "rank_xendcg"

    def _loss(self, y: NDArray[Any], queries: Queries) -> tuple[NDArray[Any], dict[str, Any]]:
        _, loss = super()._loss(y, queries)
        return y, {"objective": loss["objective"]}


@dataclass(eq=False, repr=False)
class _OutsideBooster(Ranker):
    """A booster of another package, which keeps the model in its own form."""

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
    random_state: RandomStateLike = None
    num_threads: int = 0

    def fit(
        self, X: Any, y: ArrayLike, *, qid: ArrayLike | None = None, validation: Any = None
    ) -> Self:
        """Grow the trees; with validation data, keep those up to the best round."""
        X, y, queries = self._check_fit(X, y, qid)
        check_labels(y)
        rows = queries.rows()
        self._train(X[rows], y[rows], queries.sizes, self._held_out(validation))
        return self

    def _train(self, X: Any, y: Any, sizes: Any, held_out: HeldOut | None) -> None:
        raise NotImplementedError

    def _seed(self) -> int:
        return int(as_random_state(self.random_state).randint(2**31 - 1))


class XGBoostNDCG(_OutsideBooster):
    """XGBoost's rank:ndcg with its defaults; ``min_samples_leaf`` has no counterpart there."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Score documents."""
        import xgboost

        check_is_fitted(self, "booster_")
        matrix = xgboost.DMatrix(self._check_predict(X))
        return np.asarray(self.booster_.predict(matrix, iteration_range=(0, self.best_iter_)))

    def _train(self, X: Any, y: Any, sizes: Any, held_out: HeldOut | None) -> None:
        import xgboost

        params = {
            "objective": "rank:ndcg",
            "ndcg_exp_gain": bool(y.max() < 31),
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_depth": 0,
            "max_leaves": int(self.max_leaf_nodes),
            "max_bin": int(self.max_bins),
            "eta": float(self.learning_rate),
            "lambda": float(self.l2_regularization) or 1.0,
            "colsample_bytree": float(self.max_features),
            "subsample": float(self.subsample),
            "seed": self._seed(),
            "nthread": thread_count(self.num_threads),
            "disable_default_eval_metric": True,
        }
        watched: dict[str, Any] = {}
        if held_out is not None:
            watched = {
                "evals": [(xgboost.DMatrix(held_out.X, np.zeros(len(held_out.y))), "vali")],
                "custom_metric": lambda scores, _: ("ndcg", held_out.ndcg(scores)),
                "maximize": True,
                "early_stopping_rounds": self.patience,
                "verbose_eval": False,
            }
        train = xgboost.DMatrix(X, y)
        train.set_group(sizes)
        self.booster_ = xgboost.train(params, train, self.n_estimators, **watched)
        stopped = held_out is not None and self.patience is not None
        self.best_iter_ = self.booster_.best_iteration + 1 if stopped else self.n_estimators


class CatBoostYetiRank(_OutsideBooster):
    """CatBoost's YetiRank with its symmetric trees, of the depth whose leaves are nearest."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Score documents."""
        check_is_fitted(self, "booster_")
        return np.asarray(self.booster_.predict(self._check_predict(X)))

    def _train(self, X: Any, y: Any, sizes: Any, held_out: HeldOut | None) -> None:
        import catboost

        top = "" if self.k is None else f"top={self.k};"
        model = catboost.CatBoost(
            {
                "loss_function": "YetiRank",
                "eval_metric": f"NDCG:{top}type=Exp",
                "iterations": int(self.n_estimators),
                "learning_rate": float(self.learning_rate),
                "depth": max(2, round(float(np.log2(self.max_leaf_nodes)))),
                "l2_leaf_reg": float(self.l2_regularization) or 3.0,
                "rsm": float(self.max_features),
                "border_count": min(int(self.max_bins), 254),
                "random_seed": self._seed(),
                "thread_count": thread_count(self.num_threads),
                "allow_writing_files": False,
                "verbose": False,
                **self._bootstrap(),
            }
        )
        train = catboost.Pool(X, y, group_id=np.repeat(np.arange(len(sizes)), sizes))
        if held_out is None:
            model.fit(train)
        else:
            model.fit(
                train,
                eval_set=_pool(held_out),
                use_best_model=True,
                early_stopping_rounds=self.patience,
            )
        self.booster_, self.best_iter_ = model, int(model.tree_count_)

    def _bootstrap(self) -> dict[str, Any]:
        if self.subsample == 1:
            return {}
        return {"bootstrap_type": "Bernoulli", "subsample": float(self.subsample)}


def _pool(held_out: HeldOut) -> Any:
    """Validation queries for CatBoost, which wants the rows of each side by side."""
    import catboost

    from robirank._queries import group_queries

    queries = group_queries(held_out.qid, len(held_out.y))
    rows = queries.rows()
    return catboost.Pool(held_out.X[rows], held_out.y[rows], group_id=queries.codes())
