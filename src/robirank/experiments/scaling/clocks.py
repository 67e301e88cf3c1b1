"""Where the time of an epoch goes, on the threads of one machine.

The clock of a task is the processor time of its thread: it stands still while the thread waits for
a core or for another task. So p workers can be measured honestly on fewer than p cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from robirank._workers import Workers
from robirank.engine.local import LocalEngine
from robirank.engine.strata import xi_waves
from robirank.engine.tasks import Report, Task, XiReport
from robirank.experiments.scaling.simulation import Floats, wavefront
from robirank.losses import RhoName

__all__ = ["ClockedEngine", "ClockedWorkers", "EpochClock"]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class EpochClock:
    """One epoch.

    Attributes
    ----------
    elapsed : float
        Seconds from its beginning to its end.
    serial : float
        Processor seconds of the main thread, which turns V to the new order.
    uv : array of shape (parts, parts)
        Processor seconds of each part in each sub-step.
    xi : array of shape (parts,)
        Processor seconds of each part in the ξ-step.
    """

    elapsed: float
    serial: float
    uv: Floats
    xi: Floats

    @property
    def busy(self) -> Floats:
        """Processor seconds of each worker, where there are as many workers as parts."""
        return np.asarray(self.uv.sum(axis=1) + self.xi)

    @property
    def path(self) -> float:
        """What the epoch takes with a core for each part: the longest chain of tasks."""
        return self.serial + wavefront(self.uv) + float(self.xi.max())


class ClockedWorkers(Workers):
    """Workers that keep the processor time of each task of their last `map`."""

    def map(self, work: Callable[[_Task], _Result], tasks: Iterable[_Task]) -> list[_Result]:
        """Do the work for every task; results are in the order of the tasks."""

        def timed(task: _Task) -> tuple[_Result, float]:
            begin = time.thread_time()
            return work(task), time.thread_time() - begin

        done = super().map(timed, tasks)
        self.seconds = [seconds for _, seconds in done]
        return [result for result, _ in done]


class ClockedEngine(LocalEngine):
    """The local engine with a clock on every task; its workers are `ClockedWorkers`."""

    _workers: ClockedWorkers

    def clocked(self, epoch: Callable[[], Any]) -> EpochClock:
        """Have an epoch done, and say where its time went."""
        self._uv, self._xi = np.zeros((self.n_parts, self.n_parts)), np.zeros(self.n_parts)
        begin, main = time.perf_counter(), time.thread_time()
        epoch()
        elapsed, serial = time.perf_counter() - begin, time.thread_time() - main
        if self._workers.n_threads == 1:  # then the tasks run in the main thread as well
            serial -= float(self._uv.sum() + self._xi.sum())
        return EpochClock(elapsed, max(0.0, serial), self._uv, self._xi)

    def uv_pass(
        self,
        epoch: int,
        task: Task,
        settings: Sequence[Any],
        kept: float,
        should_stop: Callable[[], bool],
    ) -> Report:
        """One pass over the records."""
        numbers = {id(part): number for number, part in enumerate(self.layout.parts)}

        def timed(part: Any, block: Any, *rest: Any) -> Report:
            begin = time.thread_time()
            report = task(part, block, *rest)
            q = numbers[id(part)]
            b = int(np.searchsorted(self.layout.plan.bounds, block.first))
            self._uv[q, (b - q) % self.n_parts] = time.thread_time() - begin
            return report

        return super().uv_pass(epoch, timed, settings, kept, should_stop)

    def xi_step(self, turn: int, of: int, rho: RhoName) -> XiReport:
        """Renew the slopes of a share of the users."""
        report = super().xi_step(turn, of, rho)
        waves = [len(xi_waves(len(part.users), turn, of)) for part in self.layout.parts]
        places = [part for wave in range(max(waves)) for part, n in enumerate(waves) if wave < n]
        np.add.at(self._xi, places, self._workers.seconds)
        return report
