"""Models of other kinds, as the latent experiment fits and measures models."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from robirank._blas import one_blas_thread
from robirank.data.interactions import Interactions
from robirank.latent.factors.recommend import FactorModel
from robirank.latent.popularity import Popularity
from robirank.latent.train.options import EpochReport


class AlternatingLeastSquares(FactorModel):
    """Weighted least squares of the package implicit, with a report after every iteration.

    Parameters
    ----------
    factors : int
    alpha : float
        How much more an interaction weighs than its absence.
    regularization : float
    iterations : int
    random_state : int, optional
    num_threads : int

    References
    ----------
    Hu, Koren, Volinsky: Collaborative Filtering for Implicit Feedback Datasets. ICDM 2008.
    """

    def __init__(
        self,
        factors: int = 64,
        *,
        alpha: float = 10.0,
        regularization: float = 1.0,
        iterations: int = 15,
        random_state: int | None = None,
        num_threads: int = 0,
    ) -> None:
        self.factors = factors
        self.alpha = alpha
        self.regularization = regularization
        self.iterations = iterations
        self.random_state = random_state
        self.num_threads = num_threads

    def fit(
        self,
        data: Interactions,
        show_progress: bool = False,
        callbacks: Sequence[Callable[[EpochReport], Any]] = (),
    ) -> Self:
        """Fit; the clock stands still during callbacks."""
        from implicit.als import AlternatingLeastSquares as Peer

        peer = Peer(**self.get_params(deep=False))
        seconds, begin = 0.0, time.perf_counter()

        def tell(iteration: int, *_: Any) -> None:
            nonlocal seconds, begin
            seconds += time.perf_counter() - begin
            rows = [np.asarray(f, np.float32) for f in (peer.user_factors, peer.item_factors)]
            report = EpochReport(iteration + 1, self.iterations, seconds, 0.0, None, *rows)
            for callback in callbacks:
                callback(report)
            begin = time.perf_counter()

        with one_blas_thread():  # as implicit advises: it has threads of its own
            peer.fit(data.matrix.astype(np.float32), show_progress=show_progress, callback=tell)
        self.user_factors = np.asarray(peer.user_factors, np.float32)
        self.item_factors = np.asarray(peer.item_factors, np.float32)
        self.n_iter_, self.stopped_ = self.iterations, ""
        self.history_ = [{"epoch": self.iterations, "seconds": seconds}]
        return self


class PopularityInOneStep(Popularity):
    """`Popularity` with the parameters of the experiment, which change nothing, and one report."""

    def __init__(
        self,
        factors: int = 1,
        *,
        iterations: int = 1,
        random_state: int | None = None,
        num_threads: int = 0,
    ) -> None:
        super().__init__(num_threads=num_threads)
        self.factors = factors
        self.iterations = iterations
        self.random_state = random_state

    def fit(
        self,
        user_items: Interactions,
        show_progress: bool = False,
        callbacks: Sequence[Callable[[EpochReport], Any]] = (),
    ) -> Self:
        """Count, and report once."""
        begin = time.perf_counter()
        super().fit(user_items, show_progress)
        seconds = time.perf_counter() - begin
        for callback in callbacks:
            rows = (self.user_factors, self.item_factors)
            callback(EpochReport(1, 1, seconds, 0.0, None, *rows))
        self.n_iter_, self.stopped_ = 1, ""
        self.history_ = [{"epoch": 1, "seconds": seconds}]
        return self
