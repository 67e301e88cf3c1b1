"""The paper's stochastic solver (Algorithm 1), in strata (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from robirank._workers import Workers
from robirank.engine.tasks import Report, Steps, uv_task, xi_task
from robirank.latent.products import Floats
from robirank.latent.records import Records
from robirank.latent.stratified import StratifiedSolver
from robirank.losses import RHOS, RhoName

__all__ = ["SgdSolver"]

XI_BLOCK_ITEMS = 1 << 16  # items whose rows one visit of the ξ-step takes in


class SgdSolver(StratifiedSolver):
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
        self.xi_every = xi_every or 4
        self._started = False

    def epoch(self, should_stop: Callable[[], bool] = lambda: False) -> dict[str, float]:
        """One (U,V)-step over all records, then the ξ-step of the users whose turn it is."""
        if not self._started:
            self._start()
        report = self._pass(should_stop)
        loss = report.loss / self._n_records
        if self._rho != "identity" and not should_stop():
            loss = self._xi_step(self.epoch_number % self.xi_every, self.xi_every)
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
        self._started = True
        if self.epoch_number == 0 and self._rho != "identity":
            for part in self._layout.parts:
                part.slope *= RHOS[self._rho].prime(self._layout.n_items - 1.0)

    def _xi_step(self, turn: int, of: int) -> float:
        layout = self._layout
        blocks = layout.blocks(-(-layout.n_items // XI_BLOCK_ITEMS))
        users = [
            slice(len(part.users) * turn // of, len(part.users) * (turn + 1) // of)
            for part in layout.parts
        ]
        losses = self._engine.run(
            xi_task,
            [
                (part, blocks, layout.plan.position, own, self._rho)
                for part, own in zip(layout.parts, users, strict=True)
            ],
        )
        seen = sum(
            int(part.indptr[own.stop] - part.indptr[own.start])
            for part, own in zip(layout.parts, users, strict=True)
        )
        return float(np.sum(losses)) / max(1, seen)
