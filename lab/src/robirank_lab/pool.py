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
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from threading import Lock
from typing import Any


@dataclass(frozen=True)
class Done:
    """A unit has ended; ``crash`` says how its process died, if it did."""

    unit: Any
    seconds: float
    crash: str | None


def run_units(
    work: Callable[..., None],
    units: Sequence[Any],
    arguments: Callable[[Any], tuple[Any, ...]],
    *,
    n_jobs: int,
    preload: Sequence[str] = (),
    on_start: Callable[[Any], None] = lambda _: None,
) -> Iterator[Done]:
    """Run ``work(*arguments(unit))`` for every unit, ``n_jobs`` processes at a time.

    Calls ``on_start`` with a unit that begins, and yields every unit that has ended. When the
    caller stops early (or is interrupted), the processes under way are ended.
    """
    context: Any = mp.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    processes: list[Any] = []
    stopped = False
    # A start looks for processes that have ended, and an exit code can be read only once.
    lock = Lock()

    def run(unit: Any) -> Done:
        on_start(unit)
        begin = time.perf_counter()
        process = context.Process(target=work, args=arguments(unit), daemon=True)
        with lock:
            process.start()
        processes.append(process)
        if stopped:
            process.terminate()
        wait([process.sentinel])
        with lock:
            process.join()
        return Done(unit, time.perf_counter() - begin, _crash(process.exitcode))

    with _one_thread_each(), ThreadPoolExecutor(n_jobs) as threads:
        futures = [threads.submit(run, unit) for unit in units]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            stopped = True
            threads.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()


def _crash(code: int) -> str | None:
    if code == 0:
        return None
    if code < 0:
        return f"the process was killed by {signal.Signals(-code).name}"
    return f"the process ended with exit code {code}"


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
