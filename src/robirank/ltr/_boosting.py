"""Gradient boosted trees over ranked lists: what MART and LambdaMART share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank._checks import check_count, check_not_negative, check_positive
from robirank._queries import Queries
from robirank._random import RandomStateLike, as_random_state
from robirank._types import Floats64, Ints64
from robirank.ltr._forest import ForestRanker
from robirank.ltr._held_out import BestSoFar, HeldOut
from robirank.ltr._lightgbm import import_lightgbm, read_forest, tree_params, tree_threads
from robirank.ltr._row_order import settled_order
from robirank.ltr.base import check_labels
from robirank.storage.fitted_parts import FittedArray

Objective = Callable[[Floats64, Any], tuple[NDArray[Any], NDArray[Any]]]

#: Settings to choose from when methods are compared.
GRID: tuple[dict[str, Any], ...] = (
    {"learning_rate": 0.03, "max_leaf_nodes": 4},
    {"learning_rate": 0.03, "max_leaf_nodes": 10},
    {"learning_rate": 0.1, "max_leaf_nodes": 4},
    {"learning_rate": 0.1, "max_leaf_nodes": 10},
    {"learning_rate": 0.03, "max_leaf_nodes": 4, "min_samples_leaf": 50},
    {"learning_rate": 0.03, "max_leaf_nodes": 10, "min_samples_leaf": 50},
)


@dataclass(eq=False, repr=False)
class BoostedRanker(ForestRanker):
    """Trees grown one after the other, each to the gradient of a loss; subclasses name the loss."""

    fitted_parts = ForestRanker.fitted_parts.plus(
        {"validation_scores_": FittedArray(("rounds",), is_list=True)},
        {"n_iter_": int, "best_iter_": int},
    )

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
    verbose: bool = False

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        validation: Any = None,
    ) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features), or RankingData
            Features of the documents.
        y : array-like of shape (n_rows,), optional
            Relevance labels, 0 for irrelevant; a RankingData has its own, and its own qid.
        qid : array-like of shape (n_rows,), optional
            The query of each row; without it all rows are one query.
        validation : (X, y, qid) or RankingData, optional
            Held-out queries. The trees up to the round with the best NDCG@k there are kept, and
            growing ends ``patience`` rounds after it. Without, all trees are grown and kept.
        """
        import_lightgbm()
        params = self._params()
        X, y, queries = self._check_fit(X, y, qid)
        check_labels(y)
        held_out = self._held_out(validation)
        labels, loss = self._loss(y, queries)
        rows = settled_order(X, y, queries)
        with self._progress(1, "features into bins") as progress:
            booster = self._booster(X[rows], labels[rows], queries.sizes, params | loss, held_out)
            progress.update(1)
        self._boost(booster, held_out)
        self._keep(read_forest(booster, self.best_iter_))
        return self

    def _booster(
        self,
        X: Any,
        labels: NDArray[Any],
        sizes: Ints64,
        params: dict[str, Any],
        held_out: HeldOut | None,
    ) -> Any:
        """A booster over rows that come query by query, and over validation data."""
        lightgbm = import_lightgbm()
        params = params | tree_threads(X, self.num_threads)
        categories = params.pop("categorical_feature", "auto")
        train = lightgbm.Dataset(
            X, labels, group=sizes, params=params, categorical_feature=categories
        )
        booster = lightgbm.Booster(params, train)
        if held_out is not None:
            unused = np.zeros(len(held_out.y))
            vali = lightgbm.Dataset(held_out.X, unused, reference=train, params=params)
            booster.add_valid(vali, "validation")
        return booster

    def _loss(self, y: NDArray[Any], queries: Queries) -> tuple[NDArray[Any], dict[str, Any]]:
        """Return the labels to give to LightGBM, and its parameters that say what to minimise."""
        raise NotImplementedError

    def _params(self) -> dict[str, Any]:
        check_count("n_estimators", self.n_estimators)
        check_positive("learning_rate", self.learning_rate)
        check_tree_size(self.max_leaf_nodes, self.min_samples_leaf, self.max_bins)
        check_not_negative("l2_regularization", self.l2_regularization)
        check_positive("max_features", self.max_features, at_most=1)
        check_positive("subsample", self.subsample, at_most=1)
        check_count("patience", self.patience, or_none=True)
        check_count("k", self.k, or_none=True)
        seed = as_random_state(self.random_state).randint(2**31 - 1)
        return tree_params(
            max_leaf_nodes=self.max_leaf_nodes,
            max_bins=self.max_bins,
            seed=seed,
        ) | {
            "learning_rate": float(self.learning_rate),
            # LightGBM guesses how many documents a leaf has from their second derivatives, and
            # may guess 0. No leaf is empty anyway.
            "min_data_in_leaf": int(self.min_samples_leaf) if self.min_samples_leaf > 1 else 0,
            "lambda_l2": float(self.l2_regularization),
            "feature_fraction": float(self.max_features),
            "bagging_fraction": float(self.subsample),
            "bagging_freq": int(self.subsample < 1),
            "bagging_by_query": True,
        }

    def _boost(
        self, booster: Any, held_out: HeldOut | None, objective: Objective | None = None
    ) -> None:
        """Grow trees until they are enough, no split is left, or held-out queries gain no more.

        The objective maps scores and data to gradient and curvature; None is the booster's own.
        """
        best = BestSoFar(self.patience)
        self.n_iter_ = 0
        with self._progress(self.n_estimators) as progress:
            for _ in range(self.n_estimators):
                booster.update(fobj=objective)
                if booster.num_trees() == self.n_iter_:
                    break  # no split is left
                self.n_iter_ += 1
                if held_out is None:
                    progress.update(self.n_iter_)
                    continue
                best.add(_held_out_ndcg(booster, held_out))
                progress.update(self.n_iter_, ndcg=best.scores[-1])
                if best.given_up:
                    break
        self.best_iter_ = self.n_iter_ if held_out is None else best.round
        self.validation_scores_ = best.scores


def check_tree_size(max_leaf_nodes: Any, min_samples_leaf: Any, max_bins: Any) -> None:
    """Raise an error that names the parameter unless trees of that size can be grown."""
    check_count("max_leaf_nodes", max_leaf_nodes)
    check_count("min_samples_leaf", min_samples_leaf)
    check_count("max_bins", max_bins)
    if max_leaf_nodes < 2:
        raise ValueError(f"max_leaf_nodes must be at least 2; got {max_leaf_nodes!r}")
    if max_bins < 2:
        raise ValueError(f"max_bins must be at least 2; got {max_bins!r}")


def _held_out_ndcg(booster: Any, held_out: HeldOut) -> float:
    def measure(scores: Floats64, _: Any) -> tuple[str, float, bool]:
        return "ndcg", held_out.ndcg(scores), True

    ((_, _, value, _),) = booster.eval_valid(measure)
    return float(value)
