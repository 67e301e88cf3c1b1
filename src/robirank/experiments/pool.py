"""Units of work in processes of their own, a few at a time.

One process a unit: a unit that crashes takes nothing with it. Processes are forked from a server
that has imported the package and started no thread, so each costs milliseconds.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

__all__ = ["Done", "Started", "run_units"]


@dataclass(frozen=True)
class Started:
    """A unit has begun."""

    unit: Any


@dataclass(frozen=True)
class Done:
    """A unit has ended; ``crash`` says how its process died, if it did."""

    unit: Any
    seconds: float
    crash: str | None


@dataclass
class _Running:
    unit: Any
    process: Any
    begin: float = field(default_factory=time.perf_counter)

    def ending(self) -> Done:
        self.process.join()
        code = self.process.exitcode
        crash = None
        if code < 0:
            crash = f"the process was killed by {signal.Signals(-code).name}"
        elif code > 0:
            crash = f"the process ended with exit code {code}"
        return Done(self.unit, time.perf_counter() - self.begin, crash)


def run_units(
    work: Callable[..., None],
    units: Sequence[Any],
    arguments: Callable[[Any], tuple[Any, ...]],
    *,
    n_jobs: int,
    preload: Sequence[str] = (),
) -> Iterator[Started | Done]:
    """Run ``work(*arguments(unit))`` for every unit, ``n_jobs`` processes at a time.

    Yields an event for every beginning and end. When the caller stops early (or is interrupted),
    the processes under way are ended.
    """
    context: Any = mp.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    waiting, running = list(units), list[_Running]()
    with _one_thread_each():
        try:
            while waiting or running:
                while waiting and len(running) < n_jobs:
                    unit = waiting.pop(0)
                    process = context.Process(target=work, args=arguments(unit), daemon=True)
                    process.start()
                    running.append(_Running(unit, process))
                    yield Started(unit)
                wait([r.process.sentinel for r in running])
                for ended in [r for r in running if not r.process.is_alive()]:
                    running.remove(ended)
                    yield ended.ending()
        finally:
            for left in running:
                left.process.terminate()
            for left in running:
                left.process.join()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let the libraries of the processes started inside use one thread each."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ[name] for name in names if name in os.environ}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)
