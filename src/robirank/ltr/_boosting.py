"""Gradient boosted trees: what MART, LambdaMART and RoBiRankBooster share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._checks import AtLeastTwo, Count, CountOrNone, NotNegative, Positive, Share
from robirank._features import settled_order
from robirank._queries import Queries
from robirank._random import RandomStateLike, as_random_state
from robirank._threads import threads_for_cells
from robirank._types import Floats64, Ints64
from robirank.ltr._forest import ForestRanker
from robirank.ltr._lightgbm import import_lightgbm, read_forest, tree_params
from robirank.ltr._rounds import ROUND_ARRAYS, ROUND_NUMBERS, HeldOut, Round, RoundsRanker

Objective = Callable[[Floats64, Any], tuple[NDArray[Any], NDArray[Any]]]


@dataclass(eq=False, repr=False)
class BoostedRanker(RoundsRanker, ForestRanker):
    """A sum of trees, each fitted to the gradient of a loss, which a subclass names in `_loss`."""

    fitted_parts = ForestRanker.fitted_parts.plus(ROUND_ARRAYS, ROUND_NUMBERS)

    n_estimators: Count = 1000
    _: KW_ONLY
    learning_rate: Positive = 0.1
    max_leaf_nodes: AtLeastTwo = 10
    min_samples_leaf: Count = 1
    l2_regularization: NotNegative = 0.0
    max_features: Share = 1.0
    subsample: Share = 1.0
    max_bins: AtLeastTwo = 255
    patience: CountOrNone = 100
    random_state: RandomStateLike = None
    num_threads: int = 0

    def _train(self, X: Any, y: Any, queries: Queries, held_out: HeldOut | None = None) -> None:
        labels, loss = self._loss(y, queries)
        rows = settled_order(X, y, queries)
        self._grow(X[rows], labels[rows], queries.sizes, self._params() | loss, held_out)

    def _grow(
        self,
        X: Any,
        labels: NDArray[Any],
        sizes: Ints64,
        params: dict[str, Any],
        held_out: HeldOut | None,
        objective: Objective | None = None,
    ) -> Any:
        """Grow trees on rows that come query by query, by the objective or the one in params."""
        lightgbm = import_lightgbm()
        params = params | {"num_threads": threads_for_cells(X.size, self.num_threads)}
        categories = params.pop("categorical_feature", "auto")
        with self._progress(self.n_estimators) as progress:
            train = lightgbm.Dataset(
                X, labels, group=sizes, params=params, categorical_feature=categories
            )
            booster = lightgbm.Booster(params, train)
            if held_out is not None:
                unused = np.zeros(len(held_out.y))
                validation = lightgbm.Dataset(held_out.X, unused, reference=train, params=params)
                booster.add_valid(validation, "validation")
            self._run(
                _rounds(booster, held_out, objective), self.n_estimators, progress, self.patience
            )
        self._keep(read_forest(booster, self.best_iter_))
        return booster

    def _loss(self, y: NDArray[Any], queries: Queries) -> tuple[NDArray[Any], dict[str, Any]]:
        """The labels for LightGBM, and its parameters that say what to minimise."""
        raise NotImplementedError

    def _params(self) -> dict[str, Any]:
        """The parameters of LightGBM, without the loss."""
        seed = as_random_state(self.random_state).randint(2**31 - 1)
        return tree_params(self.max_leaf_nodes, self.max_bins, seed) | {
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


def _rounds(booster: Any, held_out: HeldOut | None, objective: Objective | None) -> Iterator[Round]:
    """Grow a tree in each round, as long as there is a split left."""

    def metric(scores: Floats64, _: Any) -> tuple[str, float, bool]:
        assert held_out is not None
        return "ndcg", held_out.ndcg(scores), True

    trees = 0
    while True:
        booster.update(fobj=objective)
        if booster.num_trees() == trees:
            return
        trees += 1
        yield Round(None if held_out is None else float(booster.eval_valid(metric)[0][2]))
