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

from robirank.engine.checkpoints import Checkpoint, Checkpoints
from robirank.engine.folder import DamagedFileError, Entry, Folder
from robirank.engine.interface import Sizes
from robirank.engine.partitions import Partitions
from robirank.engine.ray import ClusterError, Crew, RayEngine, WorkersLostError
from robirank.engine.strata import DATA_ORDER, Plan, visiting_order, xi_turn, xi_waves
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
        self._part_users = [int(e["rows"]) for e in partitions.manifest["users"]]
        self._check_blocks()
        self._seconds = settings.checkpoint_seconds
        self._events = events or (lambda _what, _engine: None)
        self._folder = Folder(settings.run_dir)
        self._checkpoints = Checkpoints(self._folder.sub("checkpoints"), run)
        self._prepare_folder(run, resume)
        self.watch = Watch(self._folder)
        self.crew = Crew(settings, job, partitions)
        self._last: Checkpoint | None = None
        self._blocks: list[Any] = []  # references of the blocks of V, and who made them
        self._homes: list[int] = []
        self._blocks_epoch = self._done = self._factors_at = self._slopes_at = 0
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
        waves = max(len(xi_waves(n, turn, of)) for n in self._part_users)
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
        due = not again and time.monotonic() - self._saved >= self._seconds
        while not due and len(self._flight) < _AHEAD and self._done + len(self._flight) < end:
            tick = self._journal[self._done + len(self._flight) - self._origin]
            self._flight.append((tick, time.monotonic(), self._submit(tick)))
            self._events(type(tick).__name__, self)
        if self._flight:
            self._finish(*self._flight.popleft())
        if due and not self._flight:
            self._save()

    def _finish(self, tick: Tick, begun: float, refs: list[tuple[int, Any]]) -> None:
        answers = self.crew.get([ref for _, ref in refs])
        result = self._sum(tick, answers)
        self._done += 1
        if self._done > self._first + len(self._results):
            self._results.append(result)
        workers = [worker for worker, _ in refs]
        self.watch.note(self, tick, self._done, begun, workers, answers)

    def _submit(self, tick: Tick) -> list[tuple[int, Any]]:
        """Hand out the tasks of a tick; returns (worker, reference of the report)."""
        crew, parts = self.crew, range(self.n_parts)
        number = self._done + len(self._flight) + 1
        if isinstance(tick, UvTick):
            self._factors_at = number
            return self._submit_uv(tick)
        if isinstance(tick, SquaresTick):
            return [
                (crew.owner[p], crew.call(crew.owner[p], "squares", p, self._blocks[p]))
                for p in parts
            ]
        self._slopes_at = number
        if isinstance(tick, XiTick):
            return self._submit_xi(tick)
        refs = []
        for part, n_users in enumerate(self._part_users):
            worker = crew.owner[part]
            if isinstance(tick, DriftTick):
                users = xi_turn(n_users, tick.turn, tick.of)
                refs.append((worker, crew.call(worker, "drift", part, users, tick.factor)))
            else:
                refs.append((worker, crew.call(worker, "scale_slopes", part, tick.factor)))
        return refs

    def _submit_uv(self, tick: UvTick) -> list[tuple[int, Any]]:
        crew, n, old_epoch = self.crew, self.n_parts, self._blocks_epoch
        cargo: list[list[Any]] = [[ref] for ref in self._blocks]
        homes = [[home] for home in self._homes]
        if tick.epoch != old_epoch:
            pieces = self._split(tick.epoch)
            cargo = [[pieces[old][block] for old in range(n)] for block in range(n)]
            homes = [self._homes] * n
        reports: list[tuple[int, Any]] = []
        blocks: list[Any] = [None] * n
        new_homes = [0] * n
        for part in range(n):
            block, worker = (part + tick.step) % n, crew.owner[part]
            report, blocks[block] = crew.call(
                worker,
                "uv",
                part,
                block,
                tick.epoch,
                old_epoch,
                tick.task,
                tick.settings,
                tick.kept,
                [home != worker for home in homes[block]],
                *cargo[block],
                returns=2,
            )
            new_homes[block] = worker
            reports.append((worker, report))
        self._blocks, self._homes, self._blocks_epoch = blocks, new_homes, tick.epoch
        return reports

    def _split(self, epoch: int) -> list[list[Any]]:
        """Cut every block, where it lies, into pieces for the blocks of another epoch."""
        n, old = self.n_parts, self._blocks_epoch
        return [
            self.crew.call_many(home, "split", block, old, epoch, self._blocks[block], returns=n)
            for block, home in enumerate(self._homes)
        ]

    def _submit_xi(self, tick: XiTick) -> list[tuple[int, Any]]:
        refs = []
        for part, n_users in enumerate(self._part_users):
            waves = xi_waves(n_users, tick.turn, tick.of)
            if tick.wave >= len(waves):
                continue
            visits = [(b, self._blocks[b]) for b in visiting_order(part, self.n_parts)]
            worker = self.crew.owner[part]
            arguments = (part, self._blocks_epoch, waves[tick.wave], tick.rho)
            refs.append((worker, self.crew.call_xi(worker, visits, *arguments)))
        return refs

    def _sum(self, tick: Tick, answers: list[Any]) -> Result:
        if isinstance(tick, UvTick):
            return sum((report for report, _ in answers), Report())
        if isinstance(tick, XiTick):
            return sum((report for report, _ in answers), XiReport())
        if isinstance(tick, SquaresTick):
            return sum(u for u, _ in answers), sum(v for _, v in answers)
        return None

    # --------------------------------------------------------------------- checkpoints, losses

    def _save(self) -> None:
        """Write a checkpoint; where that fails, training goes on without."""
        begin = time.monotonic()
        try:
            checkpoint = self._write_files()
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
        self._saved = time.monotonic()
        self.watch.say("checkpoint", tick=self._done, seconds=round(self._saved - begin, 3))

    def _write_files(self) -> Checkpoint:
        crew, folder = self.crew, self._checkpoints.folder
        known = {} if self._last is None else self._last.entries()
        parts = range(self.n_parts)
        factors = [f"factors-{self._factors_at:09d}-{p:05d}.safetensors" for p in parts]
        slopes = [f"slopes-{self._slopes_at:09d}-{p:05d}.safetensors" for p in parts]
        blocks = [f"block-{self._factors_at:09d}-{b:05d}.safetensors" for b in parts]
        refs = []
        for p in parts:
            names = tuple(None if name in known else name for name in (factors[p], slopes[p]))
            refs.append(crew.call(crew.owner[p], "save", folder, {p: names}))
        for b, name in enumerate(blocks):
            if name not in known:
                home = self._homes[b]
                refs.append(crew.call(home, "save_block", folder, name, self._blocks[b]))
        self._events("checkpoint", self)
        entries: dict[str, Entry] = dict(known)
        for answer in crew.get(refs):
            for entry in answer if isinstance(answer, list) else [answer]:
                entries[entry["name"]] = entry
        return Checkpoint(
            self._done,
            self._blocks_epoch,
            [entries[name] for name in factors],
            [entries[name] for name in slopes],
            [entries[name] for name in blocks],
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
                self._saved = time.monotonic()
                self._flight.clear()
                self._homes = list(self.crew.owner)
                if not (resume and self._restore()):
                    self._start()
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
        self._last = None
        self._blocks, self._blocks_epoch = [], 0
        for worker in range(len(self.crew.members)):
            own = [block for block, home in enumerate(self._homes) if home == worker]
            self._blocks += self.crew.call_many(worker, "start", own, returns=len(own))
        self._done = self._factors_at = self._slopes_at = 0

    def _restore(self) -> bool:
        """Take up the last checkpoint that is whole; whether there is one."""
        for checkpoint in self._checkpoints.newest_first():
            if checkpoint.tick < self._origin:
                break
            try:
                self._take_up(checkpoint)
            except (DamagedFileError, OSError) as error:
                _warn(f"a checkpoint cannot be used, the one before is tried: {error}")
                self._checkpoints.drop(checkpoint)
            else:
                return True
        return False

    def _take_up(self, checkpoint: Checkpoint) -> None:
        crew, folder = self.crew, self._checkpoints.folder
        files = list(zip(checkpoint.factors, checkpoint.slopes, strict=True))
        restored = [
            crew.call(crew.owner[part], "restore", folder, {part: files[part]})
            for part in range(self.n_parts)
        ]
        blocks = [
            crew.call(home, "restore_block", folder, checkpoint.blocks[block], returns=2)
            for block, home in enumerate(self._homes)
        ]
        crew.get([*restored, *(done for done, _ in blocks)])
        self._blocks, self._blocks_epoch = [ref for _, ref in blocks], checkpoint.blocks_epoch
        self._done, self._last = checkpoint.tick, checkpoint
        self._factors_at = _tick_of(checkpoint.factors[0])
        self._slopes_at = _tick_of(checkpoint.slopes[0])

    # ------------------------------------------------------------------------------- the model

    def write_model(self, name: str = "model") -> tuple[Folder, dict[str, list[Entry]]]:
        """Write U and V, a file a part; returns where, and the files."""
        folder = self._folder.sub(name)
        while True:
            try:
                folder.make()
                return folder, self._write_shards(folder)
            except WorkersLostError as error:
                self._recover(error)
                self._catch_up()

    def _write_shards(self, folder: Folder) -> dict[str, list[Entry]]:
        crew, n = self.crew, self.n_parts
        users = [crew.call(w, "write_users", folder) for w in range(len(crew.members))]
        pieces = self._split(DATA_ORDER)
        items = [
            crew.call(
                crew.owner[shard],
                "write_items",
                folder,
                shard,
                self._blocks_epoch,
                *[pieces[old][shard] for old in range(n)],
            )
            for shard in range(n)
        ]
        self._events("model", self)
        files = [entry for answer in crew.get(users) for entry in answer]
        return {"users": files, "items": crew.get(items)}

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

    def _prepare_folder(self, run: str, resume: bool) -> None:
        try:
            self._checkpoints.folder.make()
            if not resume:
                self._checkpoints.clear()
            self._folder.write_bytes("run.json", run.encode())
        except OSError as error:
            raise ClusterError(
                f"run_dir {self._folder} cannot be written to ({error}); name a folder that can"
            ) from None


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)


def _tick_of(entry: Entry) -> int:
    return int(str(entry["name"]).split("-")[1])
