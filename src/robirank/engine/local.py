"""The local engine: tasks of a sub-step on threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from robirank._workers import Workers

__all__ = ["LocalEngine"]

Answer = TypeVar("Answer")


class LocalEngine:
    """Run tasks that touch nothing in common, in any order, and give their answers in order.

    Examples
    --------
    >>> with Workers(2) as workers:
    ...     LocalEngine(workers).run(pow, [(2, 3), (3, 2)])
    [8, 9]
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def run(self, task: Callable[..., Answer], arguments: Iterable[Sequence[Any]]) -> list[Answer]:
        """Call the task with each set of arguments."""
        return self._workers.map(lambda call: task(*call), arguments)
