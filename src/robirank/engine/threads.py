"""The local engine: tasks on the threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from robirank._workers import Workers
from robirank.engine.interface import Figures, Sizes, Task, add_up, check_task, never
from robirank.engine.memory import StrataMemory
from robirank.engine.state import Block, Part, seen_by
from robirank.engine.strata import task_key, visiting_order


class ThreadEngine:
    """Runs tasks on `StrataMemory`; see `robirank.engine.interface.Engine`."""

    def __init__(self, memory: StrataMemory, sizes: Sizes, workers: Workers) -> None:
        self.memory, self.sizes, self._workers = memory, sizes, workers
        self.n_parts = len(memory.parts)
        self.part_users = [len(part.users) for part in memory.parts]

    def sweep(
        self,
        epoch: int,
        task: Task,
        settings: Sequence[Any],
        should_stop: Callable[[], bool] = never,
    ) -> Figures:
        """Let every part meet every block of an epoch.

        Part q meets block q + r (mod P) in its sub-step r. Before, it has met its other blocks, and
        the block has met part q + 1: a task waits for these two alone, not for the slowest one of a
        sub-step. Tasks begin in the order of the sub-steps, so those waited for have begun.
        """
        check_task(task, self.memory.declared)
        self.memory.turn(epoch)
        parts, blocks = self._seen_by(task)
        position, n = self.memory.plan.position, self.n_parts
        done = [[threading.Event() for _ in range(n)] for _ in settings]
        stopped = threading.Event()

        def work(place: tuple[int, int]) -> Figures:
            step, part = place
            block = (part + step) % n
            if step:
                done[step - 1][part].wait()
                done[step - 1][(part + 1) % n].wait()
            try:
                if stopped.is_set() or should_stop():
                    stopped.set()
                    return {}
                key = task_key(self.memory.seed, epoch, part, block)
                return task(parts[part], blocks[block], position, settings[step], key)
            except BaseException:
                stopped.set()
                raise
            finally:
                done[step][part].set()

        return self._sum_of(work, len(settings))

    def scan(
        self, task: Task, settings: Sequence[Any], should_stop: Callable[[], bool] = never
    ) -> Figures:
        """Show all blocks to every part, once for each entry of the settings."""
        check_task(task, self.memory.declared, in_scan=True)
        parts, blocks = self._seen_by(task)
        position = self.memory.plan.position

        def work(place: tuple[int, int]) -> Figures:
            if should_stop():
                return {}
            step, part = place
            visits = [blocks[b] for b in visiting_order(part, self.n_parts)]
            return task(parts[part], visits, position, settings[step])

        return self._sum_of(work, len(settings))

    def _seen_by(self, task: Task) -> tuple[list[Part], list[Block]]:
        parts = [seen_by(task, part) for part in self.memory.parts]
        return parts, [seen_by(task, block) for block in self.memory.blocks()]

    def _sum_of(self, work: Callable[[tuple[int, int]], Figures], steps: int) -> Figures:
        """Do the work for each (step, part), and add up the figures step by step."""
        n = self.n_parts
        reports = self._workers.map(work, product(range(steps), range(n)))
        return add_up(add_up(reports[i : i + n]) for i in range(0, len(reports), n))
