"""The paper's stochastic solver, and WARP, over the stratified algorithm.

Both walk the records once an epoch in strata (see `robirank.engine.strata`), with row-wise Adagrad
and a rate that falls to zero over the planned epochs. RoBiRank then renews ξ from exact sums.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robirank.engine.local import LocalEngine
from robirank.engine.strata import Plan, count_parts, schedule, task_key, user_parts
from robirank.engine.tasks import (
    Block,
    Part,
    Report,
    Steps,
    WarpSteps,
    cell_size,
    empty_rows,
    uv_task,
    warp_task,
    xi_task,
)
from robirank.losses import RHOS, RhoName

__all__ = ["RecordTable", "SgdSolver", "WarpSolver"]

Floats = NDArray[np.float32]
State = dict[str, Any]

XI_BLOCK_ITEMS = 1 << 16  # items whose scores one visit of the ξ-step takes in


class RecordTable(Protocol):
    """Records in CSR form: user x has ``items[indptr[x]:indptr[x + 1]]``."""

    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    weight: Floats | None
    n_users: int
    n_items: int


class _Strata:
    """The factors and records of a solver, laid out for the stratified algorithm.

    U lies part by part; V lies in the order of the present epoch.
    """

    def __init__(
        self, records: RecordTable, U: Floats, V: Floats, parts: int, seed: int, power: float = 1.0
    ) -> None:
        self.seed = seed
        self.indptr = records.indptr
        self.n_items = records.n_items
        self.factors = U.shape[1]
        self.epoch = 0
        n_parts = count_parts(parts, records.n_users, records.n_items)
        self.parts = [
            _make_part(records, users, U) for users in user_parts(seed, records.n_users, n_parts)
        ]
        counts = np.bincount(records.items, minlength=records.n_items)
        self.popularity = counts.astype(np.float32) ** power
        self.plan = Plan(seed, 0, records.n_items, n_parts)
        self.V = empty_rows(records.n_items, self.factors)
        self.V[:, : self.factors] = V[self.plan.order]
        self.acc = np.zeros(records.n_items, dtype=np.float32)

    def turn(self, epoch: int) -> None:
        """Put V in the order of an epoch."""
        self.epoch = epoch
        if epoch == self.plan.epoch:
            return
        plan = Plan(self.seed, epoch, self.n_items, self.plan.parts)
        rows = self.plan.position[plan.order]
        V = empty_rows(self.n_items, self.factors)
        np.take(self.V, rows, axis=0, out=V)
        self.V, self.acc, self.plan = V, self.acc[rows], plan

    def blocks(self, n: int) -> list[Block]:
        """V in n blocks: views, so that tasks change it in place."""
        bounds = np.arange(n + 1) * self.n_items // n
        popularity = self.popularity[self.plan.order]
        return [
            Block(int(low), self.V[low:high], self.acc[low:high], popularity[low:high])
            for low, high in zip(bounds[:-1], bounds[1:], strict=True)
        ]

    def factors_now(self) -> tuple[Floats, Floats]:
        n_users = len(self.indptr) - 1
        U = np.empty((n_users, self.factors), dtype=np.float32)
        for part in self.parts:
            U[part.users] = part.U[:, : self.factors]
        return U, self.V[self.plan.position, : self.factors]

    def state(self) -> State:
        U, V = self.factors_now()
        acc_u = np.empty(len(U), dtype=np.float32)
        slope = np.empty(int(self.indptr[-1]), dtype=np.float32)
        for part in self.parts:
            acc_u[part.users] = part.acc
            slope[_records_of(self.indptr, part.users)] = part.slope
        return {
            "U": U,
            "V": V,
            "acc_u": acc_u,
            "acc_v": self.acc[self.plan.position],
            "slope": slope,
            "epoch": self.epoch,
        }

    def restore(self, state: State) -> None:
        self.epoch = int(state["epoch"])
        self.V[:, : self.factors] = state["V"][self.plan.order]
        self.acc[:] = state["acc_v"][self.plan.order]
        for part in self.parts:
            part.U[:, : self.factors] = state["U"][part.users]
            part.acc[:] = state["acc_u"][part.users]
            part.slope[:] = state["slope"][_records_of(self.indptr, part.users)]


def _records_of(indptr: NDArray[np.int64], users: NDArray[np.int32]) -> NDArray[np.int64]:
    """The places of the records of some users, one user after the other."""
    lengths = np.diff(indptr)[users]
    ends = np.cumsum(lengths)
    return np.repeat(indptr[users] - (ends - lengths), lengths) + np.arange(ends[-1])


def _make_part(records: RecordTable, users: NDArray[np.int32], U: Floats) -> Part:
    rows = _records_of(records.indptr, users)
    own = empty_rows(len(users), U.shape[1])
    own[:, : U.shape[1]] = U[users]
    lengths = np.diff(records.indptr)[users]
    return Part(
        users=users,
        indptr=np.concatenate([[0], np.cumsum(lengths)]),
        items=records.items[rows],
        weight=None if records.weight is None else records.weight[rows],
        U=own,
        acc=np.zeros(len(users), dtype=np.float32),
        slope=np.ones(len(rows), dtype=np.float32),
    )


class _Solver:
    """One pass over the records an epoch; a subclass says what a task does."""

    def __init__(
        self,
        records: RecordTable,
        U: Floats,
        V: Floats,
        *,
        reg: float,
        rates: tuple[float, float],
        epochs: int,
        parts: int,
        random_state: int,
        n_threads: int,
        power: float = 1.0,
    ) -> None:
        self.reg, self.rates, self.epochs = reg, rates, epochs
        self._strata = _Strata(records, U, V, parts, random_state, power)
        self._engine = LocalEngine(n_threads)
        self._cell_items = cell_size(U.shape[1])

    def factors(self) -> tuple[Floats, Floats]:
        """U and V in the order of the data."""
        return self._strata.factors_now()

    def state(self) -> State:
        """All that changes: `restore` goes on from it to the same bits."""
        return self._strata.state()

    def restore(self, state: State) -> None:
        """Go back to a `state` of a solver of the same data and settings."""
        self._strata.restore(state)

    def _decay(self) -> float:
        return max(0.0, 1.0 - self._strata.epoch / self.epochs)

    def _pass(self, task: Any, steps: Any) -> Report:
        strata = self._strata
        strata.turn(strata.epoch)
        blocks = strata.blocks(len(strata.parts))
        total = Report()
        for pairs in schedule(len(strata.parts)):
            reports = self._engine.run(
                task,
                [
                    (
                        strata.parts[part],
                        blocks[block],
                        strata.plan.position,
                        steps,
                        task_key(strata.seed, strata.epoch, part, block),
                    )
                    for part, block in pairs
                ],
            )
            total = sum(reports, total)
        return total


class SgdSolver(_Solver):
    def __init__(
        self,
        records: RecordTable,
        U: Floats,
        V: Floats,
        *,
        rho: RhoName = "log",
        reg: float = 0.06,
        rates: tuple[float, float] = (0.1, 0.05),
        epochs: int = 50,
        negatives: int = 32,
        parts: int = 8,
        xi_every: int | None = None,
        literal: bool = False,
        random_state: int = 0,
        n_threads: int = 1,
        power: float = 1.0,
    ) -> None:
        super().__init__(
            records,
            U,
            V,
            reg=reg,
            rates=rates,
            epochs=epochs,
            parts=parts,
            random_state=random_state,
            n_threads=n_threads,
            power=power,
        )
        self.rho, self.negatives, self.literal = rho, negatives, literal
        self.xi_every = xi_every
        if rho != "identity":
            for part in self._strata.parts:
                part.slope[:] = RHOS[rho].prime(records.n_items - 1.0)

    def epoch(self) -> dict[str, float]:
        """One (U,V)-step over all records, then the ξ-step of the users whose turn it is."""
        decay = self._decay()
        steps = Steps(
            self._strata.factors,
            self.negatives,
            decay * self.rates[0],
            decay * self.rates[1],
            self.reg,
            self.literal,
            self._cell_items,
        )
        report = self._pass(uv_task, steps)
        answer = {"triples": report.draws, "not_finite": report.not_finite, "loss": report.loss}
        if self.rho != "identity":
            answer["loss"] = self._xi_step()
        self._strata.epoch += 1
        return answer

    def _xi_step(self) -> float:
        strata = self._strata
        blocks = strata.blocks(-(-strata.n_items // XI_BLOCK_ITEMS))
        turn, of = strata.epoch % self.xi_every, self.xi_every
        with self._engine.limits():
            losses = self._engine.run(
                xi_task,
                [
                    (
                        part,
                        blocks,
                        strata.plan.position,
                        slice(len(part.users) * turn // of, len(part.users) * (turn + 1) // of),
                        self.rho,
                    )
                    for part in strata.parts
                ],
            )
        return sum(losses) * of


class WarpSolver(_Solver):
    def __init__(
        self,
        records: RecordTable,
        U: Floats,
        V: Floats,
        *,
        reg: float = 0.01,
        rates: tuple[float, float] = (0.1, 0.05),
        epochs: int = 50,
        max_trials: int = 100,
        margin: float = 1.0,
        parts: int = 8,
        random_state: int = 0,
        n_threads: int = 1,
    ) -> None:
        super().__init__(
            records,
            U,
            V,
            reg=reg,
            rates=rates,
            epochs=epochs,
            parts=parts,
            random_state=random_state,
            n_threads=n_threads,
        )
        self.margin = margin
        harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, records.n_items + 1))])
        trials = np.arange(1, max_trials + 1)
        ranks = (records.n_items - 1) // trials
        self.weight_after = np.concatenate([[0.0], harmonic[ranks]]).astype(np.float32)

    def epoch(self) -> dict[str, float]:
        """One pass over all records."""
        decay = self._decay()
        steps = WarpSteps(
            self._strata.factors,
            self.weight_after,
            self.margin,
            decay * self.rates[0],
            decay * self.rates[1],
            self.reg,
            self._cell_items,
        )
        report = self._pass(warp_task, steps)
        self._strata.epoch += 1
        return {"triples": report.draws, "not_finite": report.not_finite, "loss": report.loss}
