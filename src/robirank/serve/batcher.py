"""Work that arrives together is done together, in one thread beside the event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from robirank.serve.problems import Problem

Job = TypeVar("Job")


class _Waiting(NamedTuple):
    job: Any
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    until: float


class Batcher(Generic[Job]):
    """Hands jobs to one thread, all that wait at a time.

    A job that finds the thread idle is begun at once. What arrives while the thread is busy waits
    for it, and is then done in one call: the busier the server, the larger the batches, and a lone
    request never waits for others.

    Parameters
    ----------
    work : callable
        Takes a list of jobs, and gives a list of results, of which an exception is raised where
        the job was asked for.
    most : int
        Jobs of one call.
    waiting : int
        Jobs that may wait; one more is a `Problem` with the code "overloaded".
    seconds : float
        How long a job may take, waiting included.
    seen : callable, optional
        Called with the number of jobs of each batch.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[list[Job]], Sequence[Any]],
        *,
        most: int,
        waiting: int,
        seconds: float,
        seen: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._name, self._work, self._most = name, work, most
        self._most_waiting, self._seconds, self._seen = waiting, seconds, seen
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """The number of jobs that wait, and have not begun."""
        return self._queue.qsize()

    async def ask(self, job: Job) -> Any:
        """The result of a job."""
        if self._queue.qsize() >= self._most_waiting:
            raise Problem(
                "overloaded",
                f"{self._most_waiting} requests wait already; try again in a second",
                retry_after=1,
            )
        self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.put(_Waiting(job, future, loop, time.monotonic() + self._seconds))
        timer = loop.call_later(self._seconds, _give_up, future, self._seconds)
        try:
            return await future
        finally:
            timer.cancel()

    def close(self) -> None:
        """Do what waits, and end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join()

    def _start(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"robirank-{self._name}", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch, ended = [first], False
            while len(batch) < self._most:
                try:
                    one = self._queue.get_nowait()
                except queue.Empty:
                    break
                if one is None:
                    ended = True
                    break
                batch.append(one)
            self._do(batch)
            if ended:
                return

    def _do(self, batch: list[_Waiting]) -> None:
        """Do a batch; what nobody waits for any more is left out."""
        now = time.monotonic()
        batch = [one for one in batch if one.until > now and not one.future.cancelled()]
        if not batch:
            return
        self._seen(len(batch))
        results: Sequence[Any]
        try:
            results = self._work([one.job for one in batch])
        except BaseException as error:  # a panic of polars is no Exception
            results = [error] * len(batch)
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
        for one, result in zip(batch, results, strict=True):
            by_loop.setdefault(one.loop, []).append((one.future, result))
        for loop, pairs in by_loop.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_deliver, pairs)


def _deliver(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in pairs:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        elif isinstance(result, BaseException):
            future.set_exception(RuntimeError(f"{type(result).__name__}: {result}"))
        else:
            future.set_result(result)


def _give_up(future: asyncio.Future[Any], seconds: float) -> None:
    if not future.done():
        future.set_exception(
            Problem("too_slow", f"there was no answer within {seconds:g} seconds", retry_after=1)
        )
