"""The local engine: strata on the threads of this process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._workers import Workers
from robirank.engine.interface import Floats, Sizes
from robirank.engine.layout import Layout, RecordTable
from robirank.engine.strata import task_key, visiting_order, xi_turn, xi_waves
from robirank.engine.tasks import Report, Task, XiReport, drift_task, squares, xi_task
from robirank.losses import RhoName

__all__ = ["LocalEngine", "Wavefront"]


class LocalEngine:
    """Strata in the memory of this process; see `robirank.engine.interface.Engine`.

    Parameters
    ----------
    records : RecordTable
    U, V : arrays of shapes (n_users, d) and (n_items, d)
        Where to start.
    decay_u, decay_v : arrays of shapes (n_users,) and (n_items,)
        What each record of a row pays of the row's penalty.
    parts : int
        Into how many parts users and items are cut.
    seed : int
        Decides orders and draws.
    part_seed : int
        Decides which users a part has.
    workers : Workers
    """

    def __init__(
        self,
        records: RecordTable,
        U: Floats,
        V: Floats,
        decay_u: Floats,
        decay_v: Floats,
        *,
        parts: int,
        seed: int,
        part_seed: int,
        workers: Workers,
    ) -> None:
        lengths = np.diff(records.indptr)
        self.sizes = Sizes(
            len(lengths), int(np.count_nonzero(lengths)), records.n_items, len(records.items)
        )
        self.factors = U.shape[1]
        self.layout = Layout(
            records, U, V, decay_u, decay_v, parts=parts, seed=seed, part_seed=part_seed
        )
        self.n_parts = len(self.layout.parts)
        self._workers = workers

    def squares(self) -> tuple[float, float]:
        """The sums of squares of U and of V."""
        parts = [squares(part.U) for part in self.layout.parts]
        return sum(parts), sum(squares(block.V) for block in self.layout.blocks())

    def scale_slopes(self, factor: float) -> None:
        """Multiply all slopes."""
        for part in self.layout.parts:
            part.slope *= np.float32(factor)

    def uv_pass(
        self,
        epoch: int,
        task: Task,
        settings: Sequence[Any],
        kept: float,
        should_stop: Callable[[], bool],
    ) -> Report:
        """One pass over the records."""
        layout = self.layout
        layout.turn(epoch)
        layout.forget(kept)
        blocks, position = layout.blocks(), layout.plan.position
        order = Wavefront(self.n_parts)
        reports: list[dict[int, Report]] = [{} for _ in range(self.n_parts)]

        def work(_: int) -> None:
            while place := order.take(should_stop):
                step, part, block = place
                key = task_key(layout.seed, epoch, part, block)
                with order.doing(part):
                    reports[step][part] = task(
                        layout.parts[part], blocks[block], position, settings[step], key
                    )

        self._workers.map(work, range(self._workers.n_threads))
        steps = [sum((by[part] for part in sorted(by)), Report()) for by in reports]
        return sum(steps, Report())

    def xi_step(self, turn: int, of: int, rho: RhoName) -> XiReport:
        """Renew the slopes of a share of the users."""
        blocks, position = self.layout.blocks(), self.layout.plan.position
        waves = [xi_waves(len(part.users), turn, of) for part in self.layout.parts]
        places = [
            (wave, part)
            for wave in range(max(map(len, waves)))
            for part in range(self.n_parts)
            if wave < len(waves[part])
        ]

        def work(place: tuple[int, int]) -> XiReport:
            wave, part = place
            visits = [blocks[b] for b in visiting_order(part, self.n_parts)]
            return xi_task(self.layout.parts[part], visits, position, waves[part][wave], rho)

        found = zip(places, self._workers.map(work, places), strict=True)
        by_wave = [
            sum((report for _, report in group), XiReport())
            for _, group in groupby(found, key=lambda one: one[0][0])
        ]
        return sum(by_wave, XiReport())

    def drift(self, turn: int, of: int, factor: float) -> None:
        """Multiply the slopes of all the other users."""
        for part in self.layout.parts:
            drift_task(part, xi_turn(len(part.users), turn, of), factor)

    def rows(self) -> tuple[Floats, Floats]:
        """U and V in the order of the data."""
        return self.layout.rows()

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that changes, in the order of the data."""
        return self.layout.state()

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state that `state` gave."""
        self.layout.restore(state)


class Wavefront:
    """Hands out the tasks of a pass as soon as their part and their block are free.

    Part q meets block q + r (mod P) in its sub-step r. Before, it has met its other blocks, and the
    block has met part q + 1: so nobody waits for the slowest of a sub-step, and every part and
    every block sees its tasks in the same order, whoever does them.

    Examples
    --------
    >>> order = Wavefront(2)
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

    def take(self, should_stop: Callable[[], bool] = lambda: False) -> tuple[int, int, int] | None:
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
        """While a task of the part is being done; where it fails, nobody gets another one."""
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
