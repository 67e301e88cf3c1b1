"""What a solver asks of an engine, and what an engine asks of a task.

The engine holds the arrays that a solver declares, users in parts and items in blocks, and runs
tasks on them; it knows nothing of losses. Two ways to run a task are enough for every solver:

- `Engine.sweep`: every part meets every block once, and a task may change arrays of both;
- `Engine.scan`: every part sees all blocks, and a task may change arrays of the part alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from robirank.engine.state import StateArray

#: What a task reports: sums of numbers by name. "done" counts what the task went through.
Figures = dict[str, float]


class Task(Protocol):
    """A module-level function, made a task by the decorator `task`; it returns `Figures`.

    A sweep calls ``task(part, block, position, settings, key)``, where ``key`` decides the random
    numbers. A scan calls ``task(part, blocks, position, settings)``: the blocks can be gone through
    as often as needed, and the first one has the part's number. ``position`` is the place of each
    item in the epoch's order.
    """

    __name__: str
    reads: frozenset[str]
    changes: frozenset[str]

    def __call__(self, *arguments: Any) -> Any:
        """Do the task."""


_Function = TypeVar("_Function", bound=Callable[..., Figures])


def task(*, reads: Sequence[str] = (), changes: Sequence[str] = ()) -> Callable[[_Function], Any]:
    """Declare which arrays a task reads and which it changes.

    The task sees these arrays alone, and can write to those that it changes. What is changed is
    part of the next checkpoint.

    Examples
    --------
    >>> @task(reads=["V"], changes=["U"])
    ... def nothing_task(part, blocks, position, settings):
    ...     return {}
    >>> sorted(nothing_task.reads), sorted(nothing_task.changes)
    (['U', 'V'], ['U'])
    """

    def declare(function: _Function) -> Any:
        declared: Any = function
        declared.reads, declared.changes = frozenset([*reads, *changes]), frozenset(changes)
        return declared

    return declare


def never() -> bool:
    """Always False: a ``should_stop`` for work that runs to its end."""
    return False


@dataclass(frozen=True)
class Sizes:
    """How large the data are; an active user has at least one interaction."""

    n_users: int
    active_users: int
    n_items: int
    n_interactions: int


class Engine(Protocol):
    """Runs tasks on users in parts and items in blocks.

    Both methods are pure functions of what the engine holds and of their arguments: which thread,
    process or machine does a part of the work changes no bit. Tasks and settings must be
    picklable, and figures must be numbers that JSON can hold.
    """

    sizes: Sizes
    n_parts: int
    part_users: list[int]  # how many each part has

    def sweep(
        self, epoch: int, task: Task, settings: Sequence[Any], should_stop: Callable[[], bool]
    ) -> Figures:
        """Put the items in the epoch's order, then let every part meet every block.

        ``settings`` has one entry for each of the n_parts sub-steps. Where ``should_stop()``
        becomes true, the tasks not yet begun are left out.
        """

    def scan(
        self, task: Task, settings: Sequence[Any], should_stop: Callable[[], bool] = never
    ) -> Figures:
        """Run a task on every part, once for each entry of ``settings``.

        Entries may run side by side, so they must concern different users of a part. Where
        ``should_stop()`` becomes true, the tasks not yet begun are left out. A task that changes
        nothing is no step of the training: a run that lost workers does not repeat it.
        """


def check_task(task: Task, declared: Sequence[StateArray], *, in_scan: bool = False) -> None:
    """Raise an error where a task names an array that it cannot have or must not change."""
    by_name = {array.name: array for array in declared}
    for name in sorted(task.reads):
        if name not in by_name:
            raise ValueError(f"{task.__name__} reads {name!r}, which no declared array is called")
    for name in sorted(task.changes):
        if by_name[name].is_constant:
            raise ValueError(f"{task.__name__} must not change {name!r}, which is constant")
        if in_scan and by_name[name].per == "item":
            raise ValueError(f"{task.__name__} must not change {name!r}: a scan shares the items")


def add_up(figures: Iterable[Figures]) -> Figures:
    """Add figures by name, in their order."""
    total: Figures = {}
    for report in figures:
        for name, value in report.items():
            total[name] = total.get(name, 0) + value
    return total
