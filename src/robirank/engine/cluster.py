"""The cluster engine: the same strata on the workers of a cluster, and nothing is lost.

This process holds neither U nor the records, and of V only references. The run is a row of ticks
(see `robirank.engine.ticks`). Every few seconds the workers write a checkpoint. When a worker, or
anything that one held, is lost, new workers take up the last checkpoint, and the ticks since then
are done once more: the solver does not notice, and the result has the same bits.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Never

import numpy as np
from numpy.typing import NDArray

from robirank.data.partitions import Partitions
from robirank.engine.checkpoints import Checkpoint, Checkpoints
from robirank.engine.dispatch import Dispatch, total
from robirank.engine.interface import Sizes
from robirank.engine.ray import ClusterError, Crew, RayEngine, WorkersLostError
from robirank.engine.strata import DATA_ORDER, Plan, xi_waves
from robirank.engine.tasks import Report, Task, XiReport
from robirank.engine.ticks import (
    DriftTick,
    Result,
    ScaleTick,
    SquaresTick,
    Tick,
    UvTick,
    XiTick,
    from_json,
    to_json,
)
from robirank.engine.watch import Watch
from robirank.engine.worker import Job
from robirank.losses import RhoName
from robirank.storage.folder import DamagedFileError, Entry, Folder

__all__ = ["ClusterEngine"]

_AHEAD = 2  # ticks that are under way at a time: enough that nobody waits, and V is there thrice
_MOST_LOSSES = 5  # at the same tick
MAX_BLOCK_BYTES = 1 << 26

log = logging.getLogger("robirank.engine")


def _never() -> bool:
    return False


class ClusterEngine:
    """Strata on a cluster; see `robirank.engine.interface.Engine`.

    Parameters
    ----------
    settings : RayEngine
    job : Job
    partitions : Partitions
    run : str
        What tells this run from others, as JSON.
    resume : bool
        Whether to go on from the checkpoints in the run directory.
    events : callable, optional
        Told what happens, as ``events(what, engine)``.
    """

    def __init__(
        self,
        settings: RayEngine,
        job: Job,
        partitions: Partitions,
        *,
        run: str,
        resume: bool = False,
        events: Callable[[str, ClusterEngine], None] | None = None,
    ) -> None:
        n_users, n_items = partitions.shape
        lengths, times = partitions.manifest["lengths"]
        empty = times[0] if lengths[0] == 0 else 0
        self.sizes = Sizes(n_users, n_users - empty, n_items, partitions.n_records)
        self.n_parts, self.factors = partitions.parts, job.factors
        self.said: dict[str, Any] = {}
        self._check_blocks()
        self._seconds = settings.checkpoint_seconds
        self._events = events or (lambda _what, _engine: None)
        self._folder = Folder(settings.run_dir)
        self._checkpoints = Checkpoints(self._folder.sub("checkpoints"), run)
        self._prepare_folder(run, resume)
        self.watch = Watch(self._folder)
        self.crew = Crew(settings, job, partitions)
        part_users = [int(entry["rows"]) for entry in partitions.manifest["users"]]
        self._floor = Dispatch(self.crew, part_users)
        self._last: Checkpoint | None = None
        self._done = 0  # ticks that led to the present state
        self._flight: deque[tuple[Tick, float, list[tuple[int, Any]]]] = deque()
        self._journal: list[Tick] = []
        self._results: list[Result] = []
        self._origin = self._first = self._asked = 0
        self._losses = (-1, 0)
        self._unsaved = False
        self._set_out(resume)

    # ----------------------------------------------------------------- what a solver asks for

    def squares(self) -> tuple[float, float]:
        """The sums of squares of U and of V."""
        return self._run([SquaresTick()])[0]

    def scale_slopes(self, factor: float) -> None:
        """Multiply all slopes."""
        self._run([ScaleTick(factor)])

    def uv_pass(
        self,
        epoch: int,
        task: Task,
        settings: Sequence[Any],
        kept: float,
        should_stop: Callable[[], bool],
    ) -> Report:
        """One pass over the records."""
        ticks = [
            UvTick(epoch, step, task, settings[step], kept if step == 0 else 1.0)
            for step in range(self.n_parts)
        ]
        return sum(self._run(ticks, should_stop), Report())

    def xi_step(self, turn: int, of: int, rho: RhoName) -> XiReport:
        """Renew the slopes of a share of the users."""
        waves = max(len(xi_waves(n, turn, of)) for n in self._floor.part_users)
        return sum(self._run([XiTick(turn, of, wave, rho) for wave in range(waves)]), XiReport())

    def drift(self, turn: int, of: int, factor: float) -> None:
        """Multiply the slopes of all the other users."""
        self._run([DriftTick(turn, of, factor)])

    def rows(self) -> Never:
        """U and V are never in one place."""
        raise NotImplementedError("factors on a cluster are written by write_model")

    def state(self) -> Never:
        """The engine keeps its own checkpoints."""
        raise NotImplementedError("a cluster keeps its own checkpoints")

    def restore(self, state: dict[str, NDArray[Any]]) -> Never:
        """The engine keeps its own checkpoints."""
        raise NotImplementedError("a cluster keeps its own checkpoints")

    def begin_epoch(self, said: dict[str, Any]) -> None:
        """Note where an epoch begins, and what a resumed run must know of those before.

        On the way back to where a resumed run stopped, there is nothing to note.
        """
        if self._asked == self._first + len(self._results):
            self._first, self._results, self.said = self._asked, [], said

    # ------------------------------------------------------------------------------ the ticks

    def _run(self, ticks: Sequence[Tick], should_stop: Callable[[], bool] = _never) -> list[Any]:
        """The results of ticks: those that a resumed run remembers, and those done now."""
        begin = self._asked
        known = self._first + len(self._results) - begin
        self._journal += ticks[known:]
        end = begin + len(ticks)
        while self._done < end:
            if should_stop():
                end = max(self._done + len(self._flight), begin + known)
                del self._journal[end - self._origin :]
            try:
                self._advance(end)
            except WorkersLostError as error:
                self._recover(error)
        self._asked = end
        return self._results[begin - self._first : end - self._first]

    def _advance(self, end: int) -> None:
        """Finish one tick, with the next one under way."""
        again = self._done < self._first + len(self._results)  # what was done before a loss
        moved = not again and self._done > self._saved_tick
        due = moved and time.monotonic() - self._saved >= self._seconds
        while not due and len(self._flight) < _AHEAD and self._done + len(self._flight) < end:
            tick = self._journal[self._done + len(self._flight) - self._origin]
            number = self._done + len(self._flight) + 1
            self._flight.append((tick, time.monotonic(), self._floor.submit(tick, number)))
            self._events(type(tick).__name__, self)
        if self._flight:
            self._finish(*self._flight.popleft())
        if due and not self._flight:
            self._save()

    def _finish(self, tick: Tick, begun: float, refs: list[tuple[int, Any]]) -> None:
        answers = self.crew.get([ref for _, ref in refs])
        result = total(tick, answers)
        self._done += 1
        if self._done > self._first + len(self._results):
            self._results.append(result)
        workers = [worker for worker, _ in refs]
        self.watch.note(self, tick, self._done, begun, workers, answers)

    # --------------------------------------------------------------------- checkpoints, losses

    def _save(self) -> None:
        """Write a checkpoint; where that fails, training goes on without."""
        begin = time.monotonic()
        try:
            checkpoint = self._collect()
            self._checkpoints.write(checkpoint)
            self._last = checkpoint
            self._unsaved = False
        except OSError as error:
            tell = log.warning if self._unsaved else _warn  # once is enough
            tell(
                f"a checkpoint could not be written to {self._checkpoints.folder} ({error}); "
                "training goes on, and would go back to the last one if a worker were lost"
            )
            self._unsaved = True
            self._checkpoints.prune()
        self._saved, self._saved_tick = time.monotonic(), self._done
        self.watch.say("checkpoint", tick=self._done, seconds=round(self._saved - begin, 3))

    def _collect(self) -> Checkpoint:
        """Let the workers write what has changed since the last checkpoint."""
        known = {} if self._last is None else self._last.entries()
        refs, names = self._floor.save(self._checkpoints.folder, known)
        self._events("checkpoint", self)
        entries: dict[str, Entry] = dict(known)
        for answer in self.crew.get(refs):
            entries |= {entry["name"]: entry for entry in answer}
        factors, slopes, blocks = ([entries[name] for name in some] for some in names)
        return Checkpoint(
            self._done,
            self._floor.blocks_epoch,
            factors,
            slopes,
            blocks,
            self._first,
            [to_json(result) for result in self._results],
            self.said,
        )

    def _recover(self, error: WorkersLostError) -> None:
        """Go back to the last checkpoint with new workers, as many as find a place."""
        tick, losses = self._losses
        self._losses = (self._done, losses + 1 if self._done <= tick else 1)
        if self._losses[1] > _MOST_LOSSES:
            raise ClusterError(
                f"workers were lost {_MOST_LOSSES} times without progress: {error}"
            ) from None
        _warn(f"workers were lost ({error}); going back to the last checkpoint")
        self.watch.say("lost", tick=self._done, reason=str(error))
        begin, lost_at = time.monotonic(), self._done
        self.crew.stop()
        self._begin()
        seconds = round(time.monotonic() - begin, 3)
        self.watch.say("recovered", tick=self._done, from_tick=lost_at, seconds=seconds)

    def _set_out(self, resume: bool) -> None:
        """Start the workers; a resumed run remembers what it did in the present epoch."""
        self._begin(resume=resume)
        if self._last is not None:
            self._origin = self._done
            self._first = self._asked = self._last.first
            self._results = [from_json(result) for result in self._last.results]
            self.said = self._last.said

    def _begin(self, resume: bool = True) -> None:
        for _ in range(_MOST_LOSSES):
            try:
                self.crew.start()
                self._check_folder()
                self._saved = time.monotonic()
                self._flight.clear()
                if not (resume and self._restore()):
                    self._start()
                self._saved_tick = self._done
                self.watch.say("workers", members=self.crew.members, owner=self.crew.owner)
            except WorkersLostError as error:
                log.warning("workers were lost at the start: %s", error)
                self.crew.stop()
            else:
                return
        raise ClusterError(f"workers were lost {_MOST_LOSSES} times at the start; see Ray's log")

    def _start(self) -> None:
        """The state that every run begins with."""
        if self._origin:
            raise ClusterError(
                f"the checkpoint that this run resumed from, in {self._checkpoints.folder}, is "
                "damaged; start once more with resume=True to go on from the one before"
            )
        self._floor.start()
        self._last, self._done = None, 0

    def _restore(self) -> bool:
        """Take up the last checkpoint that is whole; whether there is one."""
        for checkpoint in self._checkpoints.newest_first():
            if checkpoint.tick < self._origin:
                break
            try:
                self._floor.restore(self._checkpoints.folder, checkpoint)
            except (DamagedFileError, OSError) as error:
                _warn(f"a checkpoint cannot be used, the one before is tried: {error}")
                self._checkpoints.drop(checkpoint)
            else:
                self._last, self._done = checkpoint, checkpoint.tick
                return True
        return False

    # ------------------------------------------------------------------------------- the model

    def write_model(self, name: str = "model") -> tuple[Folder, dict[str, list[Entry]]]:
        """Write U and V, a file a part; returns where, and the files."""
        folder = self._folder.sub(name)
        while True:
            try:
                folder.make()
                users, items = self._floor.write_model(folder)
                self._events("model", self)
                files = [entry for answer in self.crew.get(users) for entry in answer]
                return folder, {"users": files, "items": self.crew.get(items)}
            except WorkersLostError as error:
                self._recover(error)
                self._catch_up()
            except OSError as error:
                raise ClusterError(
                    f"the model could not be written to {folder} ({error}); make room and call fit "
                    "with resume=True"
                ) from None

    def _catch_up(self) -> None:
        """Do again what was done since the checkpoint."""
        while self._done < self._asked:
            try:
                self._advance(self._asked)
            except WorkersLostError as error:
                self._recover(error)

    def close(self) -> None:
        """End the workers."""
        self.crew.stop()
        self.watch.close()

    # ------------------------------------------------------------------------------- the door

    def _check_blocks(self) -> None:
        plan = Plan(0, DATA_ORDER, self.sizes.n_items, self.n_parts)
        largest = int(np.diff(plan.bounds).max()) * 4 * (self.factors + 1)
        if largest > MAX_BLOCK_BYTES:
            parts = -(-self.sizes.n_items * 4 * (self.factors + 1) // MAX_BLOCK_BYTES)
            _warn(
                f"a block of V has {largest >> 20} MB; cut the data into at least {parts} parts to "
                f"keep blocks below {MAX_BLOCK_BYTES >> 20} MB"
            )

    def _check_folder(self) -> None:
        """All workers must see one and the same folder."""
        members = self.crew.members
        refs = [
            self.crew.call(worker, "sees", self._folder, self._run_file)
            for worker in range(len(members))
        ]
        for member, seen in zip(members, self.crew.get(refs), strict=True):
            if not seen:
                self.crew.stop()
                raise ClusterError(
                    f"the worker on node {member['node'][:8]} does not see run_dir {self._folder}; "
                    "name a folder that all machines share, or a store such as s3://bucket/run"
                )

    def _prepare_folder(self, run: str, resume: bool) -> None:
        try:
            self._checkpoints.folder.make()
            if not resume:
                self._checkpoints.clear()
            self._run_file = self._folder.write_bytes("run.json", run.encode())
        except OSError as error:
            raise ClusterError(
                f"run_dir {self._folder} cannot be written to ({error}); name a folder that can"
            ) from None


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)
