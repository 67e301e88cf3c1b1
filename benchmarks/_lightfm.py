"""WARP of the package LightFM, as the latent experiment fits and measures models."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from robirank import EpochReport, FactorModel, Interactions


class LightFMWarp(FactorModel):
    """LightFM with loss="warp", and a report after every epoch.

    Parameters
    ----------
    factors : int
    learning_rate : float
    alpha : float
        The penalty of users and items.
    iterations : int
    random_state : int, optional
    num_threads : int
    """

    def __init__(
        self,
        factors: int = 64,
        *,
        learning_rate: float = 0.05,
        alpha: float = 0.0,
        iterations: int = 32,
        random_state: int | None = None,
        num_threads: int = 2,
    ) -> None:
        self.factors = factors
        self.learning_rate = learning_rate
        self.alpha = alpha
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
        from lightfm import LightFM

        peer = LightFM(
            self.factors,
            loss="warp",
            learning_rate=self.learning_rate,
            user_alpha=self.alpha,
            item_alpha=self.alpha,
            random_state=self.random_state,
        )
        table, seconds = data.matrix.astype(np.float32).tocoo(), 0.0
        for epoch in range(1, self.iterations + 1):
            begin = time.perf_counter()
            peer.fit_partial(table, num_threads=self.num_threads, verbose=show_progress)
            seconds += time.perf_counter() - begin
            self.user_factors, self.item_factors = _with_biases(peer)
            rows = self.user_factors, self.item_factors
            for callback in callbacks:
                callback(EpochReport(epoch, self.iterations, seconds, 0.0, None, *rows))
        return self


def _with_biases(peer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Factors whose inner products are LightFM's scores, but for a constant of the user."""
    item_biases, items = peer.get_item_representations()
    _, users = peer.get_user_representations()
    ones = np.ones((len(users), 1))
    both = np.hstack([users, ones]), np.hstack([items, item_biases[:, None]])
    return tuple(np.ascontiguousarray(rows, np.float32) for rows in both)
