"""Threads that share blocks of work whose matrix products run on one thread each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Self, TypeVar

from robirank._blas import limit_this_thread, one_blas_thread
from robirank._threads import thread_count

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class Workers:
    """A pool of threads; inside it the matrix products of NumPy use one thread each.

    Work is cut into blocks that do not depend on the number of threads, so no bit of it does.
    """

    def __init__(self, num_threads: int = 0) -> None:
        self.num_threads = thread_count(num_threads)
        self._pool: ThreadPoolExecutor | None = None
        self._limit = ExitStack()

    def __enter__(self) -> Self:
        self._limit.enter_context(one_blas_thread())
        if self.num_threads > 1:
            self._pool = ThreadPoolExecutor(self.num_threads, initializer=limit_this_thread)
        return self

    def map(self, work: Callable[[_Task], _Result], tasks: Iterable[_Task]) -> list[_Result]:
        """Do the work for every task; results are in the order of the tasks."""
        tasks = list(tasks)
        if self._pool is None or len(tasks) == 1:  # which needs no other thread
            return [work(task) for task in tasks]
        return list(self._pool.map(work, tasks))

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        self._limit.close()
