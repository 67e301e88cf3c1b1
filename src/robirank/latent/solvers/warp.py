"""The solver of WARP (WSABIE), in the strata of the RoBiRank solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from robirank.engine.interface import Engine
from robirank.engine.tasks import Task, WarpSteps, warp_task
from robirank.latent.solvers.products import Floats
from robirank.latent.solvers.stratified import StratifiedSolver

__all__ = ["WarpSolver", "weights_after"]


def weights_after(max_trials: int, n_items: int) -> Floats:
    r"""Weight of a step by the number N of trials that it took to find a violator.

    .. math:: \Phi\Big(\Big\lfloor \frac{|Y| - 1}{N} \Big\rfloor\Big), \qquad
        \Phi(k) = \sum_{i=1}^k \frac{1}{i}

    Entry 0 stands for no trial, and is 0.

    References
    ----------
    Weston, Bengio, Usunier: WSABIE: Scaling Up To Large Vocabulary Image Annotation. IJCAI 2011.

    Examples
    --------
    >>> weights_after(max_trials=3, n_items=5)    # Φ(4), Φ(2), Φ(1)
    array([0.       , 2.0833333, 1.5      , 1.       ], dtype=float32)
    """
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, max(n_items, 2)))])
    ranks = (n_items - 1) // np.arange(1, max_trials + 1)
    return np.concatenate([[0.0], harmonic[ranks]]).astype(np.float32)


class WarpSolver(StratifiedSolver):
    r"""WARP: sample until an item violates the margin, then step by the rank that this betrays.

    For a record (x, y), items y' that x does not have are drawn, at most ``max_trials`` of them,
    until :math:`\langle U_x, V_{y'} \rangle > \langle U_x, V_y \rangle - 1`. The step on the
    three rows follows the gradient of the hinge loss, weighted as `weights_after` says.

    Parameters
    ----------
    max_trials : int
        Draws a record.
    engine, learning_rate, user_rate, epochs
        See `SgdSolver`.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        learning_rate: float,
        user_rate: float,
        epochs: int,
        max_trials: int,
    ) -> None:
        super().__init__(engine, learning_rate=learning_rate, user_rate=user_rate, epochs=epochs)
        self._weight_after = weights_after(max_trials, engine.sizes.n_items)

    def epoch(self, should_stop: Callable[[], bool] = lambda: False) -> dict[str, float]:
        """One pass over the records; returns the mean weighted hinge loss, and the trials."""
        report = self._pass(should_stop)
        self.epoch_number += 1
        return {
            "loss": report.loss / max(1, self._engine.sizes.n_records),
            "triples": report.draws,
            "not_finite": report.not_finite,
        }

    def _task(self, fade: float) -> tuple[Task, Any]:
        return warp_task, WarpSteps(
            self._engine.factors,
            self._weight_after,
            1.0,
            fade * self._user_rate,
            fade * self._rate,
            self._cell_items,
        )
