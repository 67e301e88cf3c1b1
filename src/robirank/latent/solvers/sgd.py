"""The paper's stochastic solver: its Algorithm 1, in the strata of its Algorithm 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from robirank.engine.interface import Engine, Sizes
from robirank.engine.tasks import Steps, Task, uv_task
from robirank.latent.solvers.stratified import StratifiedSolver
from robirank.losses import RHOS, RhoName

__all__ = ["SgdSolver", "xi_turns"]

_FLAT = 0.5  # typical scores up to here leave all inner sums near those of equal scores


def xi_turns(sizes: Sizes, factors: int, negatives: int) -> int:
    """In how many epochs the ξ-step goes round all users.

    With one the ξ-step follows every pass, as in the paper. It looks at every item for every user,
    a pass at a few items for every record; where the ξ-step costs more than six passes, it
    takes so many epochs to go round that an epoch of it costs no more.

    Examples
    --------
    >>> small = Sizes(n_users=2, active_users=2, n_items=50, n_records=4)
    >>> large = Sizes(n_users=2, active_users=2, n_items=50_000, n_records=4)
    >>> xi_turns(small, 64, 32), xi_turns(large, 64, 32)
    (1, 16)
    """
    # Nanoseconds, measured: a score, which is counted while others are multiplied; a sampled item.
    xi_step = sizes.active_users * sizes.n_items * max(0.9, factors / 43)
    passes = sizes.n_records * negatives * (3.0 + factors / 7)
    return max(1, int(np.ceil(xi_step / (6.0 * max(1.0, passes)))))


class SgdSolver(StratifiedSolver):
    r"""Sampled updates of U and V, then the ξ-step, epoch after epoch.

    For every record (x, y) an epoch takes ``negatives`` items y', half of them uniform, half by
    popularity, each weighted by one over the expected number of its draws, so that

    .. math:: w_{xy} \, \rho'(t_{xy}) \sum_{y'} \sigma_0(\langle U_x, V_y - V_{y'} \rangle)

    is estimated without bias; for ρ = log the slope :math:`\rho'(t_{xy})` is the paper's
    :math:`\xi_{xy} / \ln 2`. The three kinds of rows U_x, V_y and V_y' step along its gradient.

    The ξ-step computes t_xy over all items. Where that is dear (see `xi_turns`), the users take
    turns, and the slopes of the others are moved by the mean change of those renewed.

    Parameters
    ----------
    engine : Engine
        Holds the records and the factors; see `robirank.latent.solvers.stratified.local_engine`.
    rho : str
        "log", "identity" or "type2".
    learning_rate, user_rate : float
        Of V and of U: the length of a first step, by the number of factors' square root.
    epochs : int
        The rate falls to zero over so many.
    negatives : int
        Items sampled for a record.
    xi_every : int, optional
        In how many epochs the ξ-step goes round all users; default: `xi_turns`.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        rho: RhoName,
        learning_rate: float,
        user_rate: float,
        epochs: int,
        negatives: int,
        xi_every: int | None = None,
    ) -> None:
        super().__init__(engine, learning_rate=learning_rate, user_rate=user_rate, epochs=epochs)
        self._rho, self._negatives = rho, negatives
        self._xi_every = xi_every or xi_turns(engine.sizes, engine.factors, negatives)

    def epoch(self, should_stop: Callable[[], bool] = lambda: False) -> dict[str, float]:
        """One (U,V)-step over all records, then the ξ-step of the users whose turn it is.

        Returns the mean loss of a record: after a ξ-step the exact one of the users renewed,
        without one an estimate.
        """
        if self.epoch_number == 0 and self._rho != "identity":
            self._start()
        report = self._pass(should_stop)
        loss = report.loss / max(1, self._engine.sizes.n_records)
        if self._rho != "identity" and not should_stop():
            loss = self._xi_turn()
        self.epoch_number += 1
        return {"loss": loss, "triples": report.draws, "not_finite": report.not_finite}

    def _task(self, fade: float) -> tuple[Task, Any]:
        return uv_task, Steps(
            self._engine.factors,
            self._negatives,
            fade * self._user_rate,
            fade * self._rate,
            self._cell_items,
        )

    def _start(self) -> None:
        """The first slopes: where scores are near 0, every other item adds about σ0(0) = 1."""
        sizes, (of_u, of_v) = self._engine.sizes, self._engine.squares()
        typical = np.sqrt(of_u * of_v / (sizes.n_users * self._engine.factors * sizes.n_items))
        if typical > _FLAT:
            self._engine.xi_step(0, 1, self._rho)
        else:
            self._engine.scale_slopes(float(RHOS[self._rho].prime(sizes.n_items - 1.0)))

    def _xi_turn(self) -> float:
        turn, of = self.epoch_number % self._xi_every, self._xi_every
        report = self._engine.xi_step(turn, of, self._rho)
        if report.records == 0:
            return 0.0
        if of > 1:
            self._engine.drift(turn, of, float(np.exp(report.drift / report.records)))
        return report.loss / report.records
