"""Where the time of an epoch goes.

The clock of a task is the processor time of its thread: it stands still while the thread waits for
a core or for another task. So p workers can be measured honestly on fewer than p cores.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from robirank._types import Floats64
from robirank.engine.threads import TaskTime
from robirank.experiments.scaling.simulation import wavefront


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
    uv: Floats64
    xi: Floats64

    @property
    def busy(self) -> Floats64:
        """Processor seconds of each worker, where there are as many workers as parts."""
        return np.asarray(self.uv.sum(axis=1) + self.xi)

    @property
    def path(self) -> float:
        """What the epoch takes with a core for each part: the longest chain of tasks."""
        return self.serial + wavefront(self.uv) + float(self.xi.max())


class TaskClock:
    """Adds up the times of the tasks of an epoch; give it to a `ThreadEngine` as ``on_task``.

    Parameters
    ----------
    parts, threads : int
    """

    def __init__(self, parts: int, threads: int) -> None:
        self._parts, self._threads = parts, threads
        self._lock = threading.Lock()

    def __call__(self, task: TaskTime) -> None:
        """Note the time of a task."""
        with self._lock:
            if task.kind == "sweep":
                self._uv[task.part, task.step] += task.seconds
            else:
                self._xi[task.part] += task.seconds

    def measure(self, epoch: Callable[[], Any]) -> EpochClock:
        """Have an epoch done, and say where its time went."""
        self._uv, self._xi = np.zeros((self._parts, self._parts)), np.zeros(self._parts)
        begin, main = time.perf_counter(), time.thread_time()
        epoch()
        elapsed, serial = time.perf_counter() - begin, time.thread_time() - main
        if self._threads == 1:  # then the tasks run in the main thread as well
            serial -= float(self._uv.sum() + self._xi.sum())
        return EpochClock(elapsed, max(0.0, serial), self._uv, self._xi)
