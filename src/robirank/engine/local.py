"""The local engine: tasks of a sub-step on threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

__all__ = ["LocalEngine"]

Answer = TypeVar("Answer")


class LocalEngine:
    """Run tasks that touch nothing in common, in any order, and give their answers in order."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads

    def run(
        self, task: Callable[..., Answer], arguments: Iterable[Sequence[object]]
    ) -> list[Answer]:
        """Call the task with each set of arguments."""
        calls = list(arguments)
        if self.n_threads == 1 or len(calls) < 2:
            return [task(*call) for call in calls]
        with ThreadPoolExecutor(min(self.n_threads, len(calls))) as pool:
            return list(pool.map(lambda call: task(*call), calls))

    def limits(self) -> threadpool_limits:
        """Hold matrix products to one thread each: the tasks are what runs side by side.

        The bits of a product may depend on its number of threads, so this also keeps them.
        """
        return threadpool_limits(limits=1, user_api="blas")
