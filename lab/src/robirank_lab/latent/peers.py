"""Models of another package, as the experiments fit and measure models."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from threadpoolctl import threadpool_limits

from robirank import EpochReport, FactorModel, Interactions


@dataclass(eq=False, repr=False)
class AlternatingLeastSquares(FactorModel):
    """Weighted least squares of the package implicit, with a report after every iteration.

    ``alpha`` says how much more an interaction weighs than its absence.

    References
    ----------
    Hu, Koren, Volinsky: Collaborative Filtering for Implicit Feedback Datasets. ICDM 2008.
    """

    factors: int = 64
    _: KW_ONLY
    alpha: float = 10.0
    regularization: float = 1.0
    iterations: int = 15
    random_state: int | None = None
    num_threads: int = 0

    def fit(
        self,
        data: Interactions,
        show_progress: bool = False,
        callbacks: Sequence[Callable[[EpochReport], Any]] = (),
    ) -> Self:
        """Fit; the clock stands still during callbacks."""
        from implicit.als import AlternatingLeastSquares as Peer

        with threadpool_limits(1, "blas"):  # as implicit advises: it has threads of its own
            self._fit(Peer(**self.get_params(deep=False)), data, show_progress, callbacks)
        return self

    def _fit(self, peer: Any, data: Interactions, show_progress: bool, callbacks: Any) -> None:
        seconds, begin = 0.0, time.perf_counter()

        def tell(iteration: int, *_: Any) -> None:
            nonlocal seconds, begin
            seconds += time.perf_counter() - begin
            rows = [np.asarray(f, np.float32) for f in (peer.user_factors, peer.item_factors)]
            report = EpochReport(iteration + 1, self.iterations, seconds, 0.0, None, *rows)
            for callback in callbacks:
                callback(report)
            begin = time.perf_counter()

        peer.fit(data.matrix.astype(np.float32), show_progress=show_progress, callback=tell)
        self.user_factors = np.asarray(peer.user_factors, np.float32)
        self.item_factors = np.asarray(peer.item_factors, np.float32)


@dataclass(eq=False, repr=False)
class BayesianPersonalizedRanking(FactorModel):
    """Pairwise logistic loss on sampled pairs, of the package implicit; it reports no epochs.

    References
    ----------
    Rendle, Freudenthaler, Gantner, Schmidt-Thieme: BPR: Bayesian Personalized Ranking from Implicit
    Feedback. UAI 2009.
    """

    factors: int = 64
    _: KW_ONLY
    learning_rate: float = 0.05
    regularization: float = 0.01
    epochs: int = 100
    random_state: int | None = None
    num_threads: int = 0

    def fit(self, data: Interactions, show_progress: bool = False) -> Self:
        """Fit; one dimension more than the factors is the bias of an item."""
        from implicit.bpr import BayesianPersonalizedRanking as Peer

        params = self.get_params(deep=False)
        peer = Peer(iterations=params.pop("epochs"), **params)
        peer.fit(data.matrix.astype(np.float32), show_progress=show_progress)
        self.user_factors = np.asarray(peer.user_factors, np.float32)
        self.item_factors = np.asarray(peer.item_factors, np.float32)
        return self
