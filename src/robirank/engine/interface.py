"""What a solver asks of an engine, and what an engine asks of a task.

The engine holds users in parts and items in blocks and runs tasks on them; it knows nothing of
losses. Three ways to run a task are enough for every solver:

- `Engine.sweep`: every part meets every block once, and a task may change the rows of both;
- `Engine.scan`: every part sees all blocks, and a task may change the rows of the part alone;
- `Engine.measure`: the same, and a task changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from robirank._types import Ints32
from robirank.engine.parts import Block, Part

#: What a task reports: sums of numbers by name. "done" counts what the task went through.
Figures = dict[str, float]

#: task(part, block, position, settings, key): ``position`` is the place of each item in the
#: epoch's order, and ``key`` decides the random numbers.
SweepTask = Callable[[Part, Block, Ints32, Any, int], Figures]

#: task(part, blocks, position, settings): the blocks can be gone through as often as needed, and
#: the first one has the number of the part.
ScanTask = Callable[[Part, Iterable[Block], Ints32, Any], Figures]


def never() -> bool:
    """Always False: a ``should_stop`` for work that runs to its end."""
    return False


@dataclass(frozen=True)
class Sizes:
    """How large the data are; an active user has at least one record."""

    n_users: int
    active_users: int
    n_items: int
    n_records: int


class Engine(Protocol):
    """Runs tasks on users in parts and items in blocks.

    Both methods are pure functions of what the engine holds and of their arguments: which thread,
    process or machine does a part of the work changes no bit. Tasks and settings must be
    picklable, and figures must be numbers that JSON can hold.

    Attributes
    ----------
    sizes : Sizes
    n_parts : int
    factors : int
    part_users : list of int
        The number of users of each part.
    """

    sizes: Sizes
    n_parts: int
    factors: int
    part_users: list[int]

    def sweep(
        self,
        epoch: int,
        task: SweepTask,
        settings: Sequence[Any],
        should_stop: Callable[[], bool],
    ) -> Figures:
        """Put V in the epoch's order, then let every part meet every block.

        ``settings`` has one entry for each of the n_parts sub-steps. Where ``should_stop()``
        becomes true, the tasks not yet begun are left out.
        """

    def scan(
        self,
        task: ScanTask,
        settings: Sequence[Any],
        should_stop: Callable[[], bool] = never,
    ) -> Figures:
        """Run a task on every part, once for each entry of ``settings``.

        Entries may run side by side, so they must concern different users of a part. Where
        ``should_stop()`` becomes true, the tasks not yet begun are left out.
        """

    def measure(self, task: ScanTask, settings: Sequence[Any]) -> Figures:
        """Like `scan`, for a task that changes nothing; it is no step of the training."""


def add_up(figures: Iterable[Figures]) -> Figures:
    """Add figures by name, in their order.

    Examples
    --------
    >>> add_up([{"loss": 1.5, "done": 2}, {"done": 3}])
    {'loss': 1.5, 'done': 5}
    """
    total: Figures = {}
    for one in figures:
        for name, value in one.items():
            total[name] = total.get(name, 0) + value
    return total
