"""The local engine: tasks on the threads of this process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from robirank._workers import Workers
from robirank.engine.interface import (
    Figures,
    ScanTask,
    Sizes,
    SweepTask,
    add_up,
    check_task,
    never,
)
from robirank.engine.memory import StrataMemory
from robirank.engine.state import seen_by
from robirank.engine.strata import task_key, visiting_order


class ThreadEngine:
    """Runs tasks on `StrataMemory`; see `robirank.engine.interface.Engine`.

    Parameters
    ----------
    memory : StrataMemory
    sizes : Sizes
    workers : Workers
    """

    def __init__(self, memory: StrataMemory, sizes: Sizes, workers: Workers) -> None:
        self.memory, self.sizes, self._workers = memory, sizes, workers
        self.n_parts = len(memory.parts)
        self.part_users = [len(part.users) for part in memory.parts]

    def sweep(
        self,
        epoch: int,
        task: SweepTask,
        settings: Sequence[Any],
        should_stop: Callable[[], bool] = never,
    ) -> Figures:
        """Let every part meet every block of an epoch."""
        check_task(task, self.memory.declared)
        self.memory.turn(epoch)
        parts = [seen_by(task, part) for part in self.memory.parts]
        blocks = [seen_by(task, block) for block in self.memory.blocks()]
        position = self.memory.plan.position
        order = Wavefront(self.n_parts)
        figures: list[dict[int, Figures]] = [{} for _ in settings]

        def work(_: int) -> None:
            while place := order.take(should_stop):
                step, part, block = place
                key = task_key(self.memory.seed, epoch, part, block)
                with order.doing(part):
                    figures[step][part] = task(
                        parts[part], blocks[block], position, settings[step], key
                    )

        self._workers.map(work, range(self._workers.num_threads))
        return add_up(add_up(by_part[part] for part in sorted(by_part)) for by_part in figures)

    def scan(
        self,
        task: ScanTask,
        settings: Sequence[Any],
        should_stop: Callable[[], bool] = never,
    ) -> Figures:
        """Show all blocks to every part, once for each entry of the settings."""
        check_task(task, self.memory.declared, in_scan=True)
        parts = [seen_by(task, part) for part in self.memory.parts]
        blocks = [seen_by(task, block) for block in self.memory.blocks()]
        position = self.memory.plan.position

        def work(place: tuple[int, int]) -> Figures:
            if should_stop():
                return {}
            step, part = place
            visits = [blocks[b] for b in visiting_order(part, self.n_parts)]
            return task(parts[part], visits, position, settings[step])

        reports = self._workers.map(work, product(range(len(settings)), range(self.n_parts)))
        n = self.n_parts
        return add_up(add_up(reports[i : i + n]) for i in range(0, len(reports), n))


class Wavefront:
    """Hands out the tasks of a sweep as soon as their part and their block are free.

    Part q meets block q + r (mod P) in its sub-step r. Before, it has met its other blocks, and the
    block has met part q + 1: so no task waits for the slowest one of a sub-step, and every part and
    every block sees its tasks in the same order, whichever thread does them.

    Examples
    --------
    >>> order = Wavefront(parts=2)
    >>> while place := order.take():
    ...     step, part, block = place
    ...     with order.doing(part):
    ...         print(f"sub-step {step}: part {part}, block {block}")
    sub-step 0: part 0, block 0
    sub-step 0: part 1, block 1
    sub-step 1: part 0, block 1
    sub-step 1: part 1, block 0
    """

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._done = [0] * parts  # sub-steps that each part has behind it
        self._busy = [False] * parts
        self._changed = threading.Condition()
        self._stopped = False

    def take(self, should_stop: Callable[[], bool] = never) -> tuple[int, int, int] | None:
        """The next task, (sub-step, part, block), once there is one; None when all are done."""
        with self._changed:
            while not self._stopped:
                if should_stop():
                    self._stop()
                    break
                ready = [(self._done[q], q) for q in range(self._parts) if self._is_ready(q)]
                if ready:
                    step, part = min(ready)
                    self._busy[part] = True
                    return step, part, (part + step) % self._parts
                if min(self._done) == self._parts:
                    break
                self._changed.wait()
        return None

    @contextlib.contextmanager
    def doing(self, part: int) -> Iterator[None]:
        """While a task of the part is being done; where it fails, no further task is given out."""
        try:
            yield
        except BaseException:
            with self._changed:
                self._stop()
            raise
        with self._changed:
            self._busy[part] = False
            self._done[part] += 1
            self._changed.notify_all()

    def _stop(self) -> None:
        self._stopped = True
        self._changed.notify_all()

    def _is_ready(self, part: int) -> bool:
        step = self._done[part]
        if self._busy[part] or step == self._parts:
            return False
        return self._parts == 1 or self._done[(part + 1) % self._parts] >= step
