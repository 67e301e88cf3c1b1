"""What RankNet and RoBiRankNet share: a network on standardised features, trained in epochs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from robirank._blas import one_blas_thread
from robirank._checks import Count, CountOrNone, NotNegative, Positive
from robirank._features import dense
from robirank._queries import Queries
from robirank._random import RandomStateLike
from robirank._types import Floats64
from robirank.ltr._rounds import ROUND_ARRAYS, ROUND_NUMBERS, HeldOut, Round, RoundsRanker
from robirank.storage.fitted_parts import FittedArray, FittedParts

#: Yields the mean loss and the weights after each epoch.
Epochs = Iterator[tuple[float, dict[str, Floats64]]]


def network_parts(weights: Mapping[str, FittedArray]) -> FittedParts:
    """The fitted attributes of a network with these weights."""
    scaling = {"mean_": FittedArray(("features",)), "scale_": FittedArray(("features",))}
    curve = {"loss_curve_": FittedArray(("iterations",), is_list=True)}
    arrays = {**scaling, **weights, **curve, **ROUND_ARRAYS}
    return FittedParts(arrays, ROUND_NUMBERS, required=(*scaling, *weights))


@dataclass(eq=False, repr=False)
class NetworkRanker(RoundsRanker):
    """A network; a subclass trains it in `_epochs`, and evaluates it in `_forward`."""

    takes_sparse = False

    _: KW_ONLY
    alpha: NotNegative = 1e-2
    learning_rate: Positive = 1e-3
    max_iter: Count = 100
    patience: CountOrNone = 20
    random_state: RandomStateLike = None

    def _train(self, X: Any, y: Any, queries: Queries, held_out: HeldOut | None = None) -> None:
        features = self._features(X)
        spread = features.std(axis=0, dtype=np.float64)
        self.mean_ = features.mean(axis=0, dtype=np.float64)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        self.loss_curve_: list[float] = []
        with one_blas_thread(), self._progress(self.max_iter) as progress:
            epochs = self._epochs(X, self._standardise(features), y, queries)
            rounds = self._rounds(epochs, held_out)
            self._run(rounds, self.max_iter, progress, self.patience)

    def _rounds(self, epochs: Epochs, held_out: HeldOut | None) -> Iterator[Round]:
        Z = None if held_out is None else self._standardise(self._features(held_out.X))
        for loss, weights in epochs:
            self.loss_curve_.append(loss)
            ndcg = None if held_out is None else held_out.ndcg(self._forward(Z, weights))
            yield Round(ndcg, {"loss": loss}, weights)

    def _scores(self, X: Any) -> Floats64:
        return self._forward(self._standardise(self._features(X)), vars(self))

    def _features(self, X: Any) -> Any:
        """The features that are standardised."""
        return dense(X)

    def _standardise(self, features: Any) -> Floats64:
        return np.asarray((features - self.mean_) / self.scale_, dtype=np.float64)

    def _epochs(self, X: Any, Z: Floats64, y: Floats64, queries: Queries) -> Epochs:
        """Train on all queries, again and again; Z has the standardised rows of X."""
        raise NotImplementedError

    def _forward(self, Z: Any, weights: Mapping[str, Any]) -> Floats64:
        """The scores of standardised rows."""
        raise NotImplementedError
