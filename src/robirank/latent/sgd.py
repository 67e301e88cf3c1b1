"""The paper's stochastic solver: its Algorithm 1, in the strata of its Algorithm 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from robirank._workers import Workers
from robirank.engine.tasks import Report, Steps, XiReport, drift_task, uv_task, xi_task
from robirank.latent.products import Floats
from robirank.latent.records import Records
from robirank.latent.stratified import StratifiedSolver
from robirank.losses import RHOS, RhoName

__all__ = ["SgdSolver", "xi_turns"]

XI_BLOCK_ITEMS = 1 << 16  # items whose rows one visit of the ξ-step takes in
_FLAT = 0.5  # typical scores up to here leave all inner sums near those of equal scores


def xi_turns(records: Records, factors: int, negatives: int) -> int:
    """In how many epochs the ξ-step goes round all users.

    With one the ξ-step follows every pass, as in the paper. It looks at every item for every user,
    a pass at a few items for every record; where the ξ-step costs more than six passes, it
    takes so many epochs to go round that an epoch of it costs no more.

    Examples
    --------
    >>> small = Records(np.array([0, 2, 4]), np.zeros(4, np.int32), None, 50)
    >>> large = Records(np.array([0, 2, 4]), np.zeros(4, np.int32), None, 50_000)
    >>> xi_turns(small, 64, 32), xi_turns(large, 64, 32)
    (1, 26)
    """
    users = np.count_nonzero(records.user_counts())
    # Nanoseconds, measured: a product and its place in the sum; a sampled item.
    xi_step = users * records.n_items * (1.0 + factors / 48)
    passes = records.n_records * negatives * (3.0 + factors / 7)
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
    records : Records
    U, V : ndarray of float32
        Where to start.
    rho : str
        "log", "identity" or "type2".
    reg : float
        λ of the penalty (see `robirank.latent.penalty`).
    learning_rate, user_rate : float
        Of V and of U: the length of a first step, by the number of factors' square root.
    epochs : int
        The rate falls to zero over so many.
    negatives : int
        Items sampled for a record.
    parts : int
        Into how many parts users and items are cut.
    literal : bool
        Leave V_y' alone, as the paper's pseudocode does.
    seed : int
        Decides parts, orders and draws.
    workers : Workers
    xi_every : int, optional
        In how many epochs the ξ-step goes round all users; default: `xi_turns`.
    """

    def __init__(
        self,
        records: Records,
        U: Floats,
        V: Floats,
        *,
        rho: RhoName,
        reg: float,
        learning_rate: float,
        user_rate: float,
        epochs: int,
        negatives: int,
        parts: int,
        literal: bool,
        seed: int,
        workers: Workers,
        xi_every: int | None = None,
    ) -> None:
        super().__init__(
            records,
            U,
            V,
            reg=reg,
            learning_rate=learning_rate,
            user_rate=user_rate,
            epochs=epochs,
            parts=parts,
            seed=seed,
            workers=workers,
        )
        self._rho, self._negatives, self._literal = rho, negatives, literal
        self._xi_every = xi_every or xi_turns(records, U.shape[1], negatives)

    def epoch(self, should_stop: Callable[[], bool] = lambda: False) -> dict[str, float]:
        """One (U,V)-step over all records, then the ξ-step of the users whose turn it is.

        Returns the mean loss of a record: after a ξ-step the exact one of the users renewed,
        without one an estimate.
        """
        if self.epoch_number == 0 and self._rho != "identity":
            self._start()
        report = self._pass(should_stop)
        loss = report.loss / self._n_records
        if self._rho != "identity" and not should_stop():
            loss = self._xi_turn()
        self.epoch_number += 1
        return {"loss": loss, "triples": report.draws, "not_finite": report.not_finite}

    def _task(self, fade: float) -> tuple[Callable[..., Report], Any]:
        return uv_task, Steps(
            self._layout.factors,
            self._negatives,
            fade * self._user_rate,
            fade * self._rate,
            self._literal,
            self._cell_items,
        )

    def _start(self) -> None:
        """The first slopes: where scores are near 0, every other item adds about σ0(0) = 1."""
        U, V = self._layout.rows()
        typical = np.linalg.norm(U) * np.linalg.norm(V) / np.sqrt(U.size * len(V))
        if typical > _FLAT:
            self._xi_step(0, 1)
            return
        slope = float(RHOS[self._rho].prime(self._layout.n_items - 1.0))
        for part in self._layout.parts:
            part.slope *= np.float32(slope)

    def _xi_turn(self) -> float:
        turn, of = self.epoch_number % self._xi_every, self._xi_every
        report = self._xi_step(turn, of)
        if report.records == 0:
            return 0.0
        if of > 1:
            factor = float(np.exp(report.drift / report.records))
            self._engine.run(
                drift_task,
                [(part, _turn_of(part.users, turn, of), factor) for part in self._layout.parts],
            )
        return report.loss / report.records

    def _xi_step(self, turn: int, of: int) -> XiReport:
        layout = self._layout
        blocks = layout.blocks(-(-layout.n_items // XI_BLOCK_ITEMS))
        reports = self._engine.run(
            xi_task,
            [
                (part, blocks, layout.plan.position, _turn_of(part.users, turn, of), self._rho)
                for part in layout.parts
            ],
        )
        return sum(reports, XiReport())


def _turn_of(users: Any, turn: int, of: int) -> slice:
    return slice(len(users) * turn // of, len(users) * (turn + 1) // of)
