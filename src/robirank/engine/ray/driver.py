"""The cluster engine: the same strata on the workers of a cluster, and nothing is lost.

This process holds neither users nor interactions, and of blocks only references. A run is a
sequence of steps (see `robirank.engine.ray.worker.Step`). Every few seconds the workers write a
checkpoint. When a worker, or anything that one held, is lost, new workers take up the last
checkpoint, and the steps since then are repeated: the solver does not notice, and the result has
the same bits.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from robirank._callers import warn
from robirank.engine.config import RayConfig
from robirank.engine.interface import Figures, Sizes, Task, add_up, check_task, never
from robirank.engine.ray.actors import ClusterError, WorkerGroup, WorkersLostError
from robirank.engine.ray.dispatch import Dispatch, Refs
from robirank.engine.ray.log import RunLog
from robirank.engine.ray.run_folder import begin_run
from robirank.engine.ray.worker import Job, Step
from robirank.engine.state import Arrays
from robirank.storage.checkpoint_folder import CheckpointFolder, ClusterCheckpoint
from robirank.storage.folder import DamagedFileError, FileEntry, Folder

_AHEAD = 2  # steps that are under way at a time: enough that no worker waits, and V is there thrice
_MOST_LOSSES = 5  # at the same step
MAX_BATCH_BYTES = 1 << 26

log = logging.getLogger("robirank.engine")
T = TypeVar("T")


class ClusterEngine:
    """Strata on a cluster; see `robirank.engine.interface.Engine`.

    ``run`` tells this run from others, and ``resume`` whether to go on from the checkpoints in the
    run directory; a ``temporary`` one goes when the run ends, so that it cannot be resumed. Tests
    hear by ``on_event(event, engine)`` when a step is begun ("sweep", "scan"), a checkpoint is
    being written ("checkpoint") or the model is ("model"). ``progress`` is what the training loop
    knew when the present epoch began.
    """

    def __init__(
        self,
        config: RayConfig,
        job: Job,
        sizes: Sizes,
        *,
        run: str,
        resume: bool = False,
        on_event: Callable[[str, ClusterEngine], None] | None = None,
        temporary: bool = False,
    ) -> None:
        self._temporary = temporary
        self.sizes, self.n_parts, self._job = sizes, job.data.parts, job
        self.part_users = [entry.rows or 0 for entry in job.data.manifest.users]
        self.progress: dict[str, Any] = {}
        self._check_blocks()
        self._seconds = config.checkpoint_seconds
        self._on_event = on_event or (lambda _event, _engine: None)
        self._folder = Folder(config.run_dir)
        self._checkpoints = CheckpointFolder(self._folder.sub("checkpoints"), run)
        self._run_file = self._prepare_folder(run, resume)
        self.log = RunLog(self._folder)
        self.workers = WorkerGroup(config, job)
        self._dispatch = Dispatch(self.workers, self.n_parts, job.declared)
        self._last: ClusterCheckpoint | None = None
        self._done = 0  # steps that led to the present state
        self._in_flight: deque[tuple[Step, float, Refs]] = deque()
        # The steps asked for since `_origin`, and the figures of those since `_first`, the first
        # one of the present epoch; `_asked` steps have been answered to the solver.
        self._steps: list[Step] = []
        self._figures: list[tuple[str, Figures]] = []  # with the labels of their steps
        self._origin = self._first = self._asked = 0
        self._losses = (-1, 0)  # the step at which workers were lost last, and how often
        self._write_failed = False
        self._start_workers(resume=resume)
        if self._last is not None:  # a resumed run remembers what it did in the present epoch
            self._origin = self._done
            self._first = self._asked = self._last.first_step
            self._figures = list(self._last.figures)
            self.progress = self._last.progress

    # ----------------------------------------------------------------- what a solver asks for

    def sweep(
        self,
        epoch: int,
        task: Task,
        settings: Sequence[Any],
        should_stop: Callable[[], bool] = never,
    ) -> Figures:
        """Let every part meet every block of an epoch."""
        check_task(task, self._job.declared)
        steps = [Step(number, task, entry, epoch) for number, entry in enumerate(settings)]
        return add_up(self._run(steps, should_stop))

    def scan(
        self, task: Task, settings: Sequence[Any], should_stop: Callable[[], bool] = never
    ) -> Figures:
        """Show all blocks to every part, once for each entry of the settings."""
        check_task(task, self._job.declared, in_scan=True)
        steps = [Step(number, task, entry) for number, entry in enumerate(settings)]
        if task.changes:
            return add_up(self._run(steps, should_stop))

        def read(step: Step) -> Figures:
            answers = self.workers.get([ref for _, ref in self._dispatch.scan(step)])
            return add_up(figures for figures, _ in answers)

        # A task that changes nothing is no step that is repeated.
        return add_up(self._with_workers(lambda: [read(step) for step in steps]))

    def begin_epoch(self, progress: dict[str, Any]) -> None:
        """Note where an epoch begins, and what a resumed run must know of those before.

        On the way back to where a resumed run stopped, there is nothing to note.
        """
        if self._asked == self._first + len(self._figures):
            self._first, self._figures, self.progress = self._asked, [], progress

    # ------------------------------------------------------------------------------ the steps

    def _run(self, steps: Sequence[Step], should_stop: Callable[[], bool] = never) -> list[Figures]:
        """The figures of steps: those that a resumed run remembers, and those done now."""
        begin = self._asked
        n_remembered = self._first + len(self._figures) - begin
        self._check_remembered(steps, begin - self._first)
        self._steps += steps[n_remembered:]
        end = begin + len(steps)
        while self._done < end:
            if should_stop():
                end = max(self._done + len(self._in_flight), self._first + len(self._figures))
                del self._steps[end - self._origin :]
            try:
                self._advance(end)
            except WorkersLostError as error:
                self._recover(error)
        self._asked = end
        return [figures for _, figures in self._figures[begin - self._first : end - self._first]]

    def _check_remembered(self, steps: Sequence[Step], first: int) -> None:
        """Raise an error unless a resumed run remembers the very steps that are asked for."""
        remembered = [label for label, _ in self._figures[first : first + len(steps)]]
        asked = [step.label for step in steps]
        if remembered != asked[: len(remembered)]:
            raise ClusterError(
                f"the run cannot go on from its checkpoint: it had done {remembered}, and "
                f"{asked} is asked for now. Give the options of the first call, or resume=False"
            )

    def _advance(self, end: int) -> None:
        """Finish one step, with the next one under way."""
        again = self._done < self._first + len(self._figures)  # what was done before a loss
        moved = not again and self._done > self._saved_step
        due = moved and time.monotonic() - self._saved >= self._seconds
        while not due and len(self._in_flight) < _AHEAD and self._done + len(self._in_flight) < end:
            number = self._done + len(self._in_flight)
            step = self._steps[number - self._origin]
            refs = self._dispatch.submit(step, number + 1)
            self._in_flight.append((step, time.monotonic(), refs))
            self._on_event(step.kind, self)
        if self._in_flight:
            self._finish(*self._in_flight.popleft())
        if due and not self._in_flight:
            self._save()

    def _finish(self, step: Step, begun: float, refs: Refs) -> None:
        answers = self.workers.get([ref for _, ref in refs])
        self._done += 1
        if self._done > self._first + len(self._figures):
            self._figures.append((step.label, add_up(figures for figures, _ in answers)))
        seconds, workers = time.monotonic() - begun, [worker for worker, _ in refs]
        self.log.step_done(step, self._done, seconds, self.workers.members, workers, answers)

    # --------------------------------------------------------------------- checkpoints, losses

    def _save(self) -> None:
        """Write a checkpoint; where that fails, training goes on without."""
        begin = time.monotonic()
        try:
            self._last = self._collect()
            self._write_failed = False
        except OSError as error:
            tell = log.warning if self._write_failed else _warn  # once is enough
            tell(
                f"a checkpoint could not be written to {self._checkpoints.folder} ({error}); "
                "training goes on, and would go back to the last one if a worker were lost"
            )
            self._write_failed = True
            self._checkpoints.prune()
        self._saved, self._saved_step = time.monotonic(), self._done
        self.log.say("checkpoint", step=self._done, seconds=round(self._saved - begin, 3))

    def _collect(self) -> ClusterCheckpoint:
        """Let the workers write what has changed since the last checkpoint."""
        written = {} if self._last is None else self._last.entries()
        refs, names = self._dispatch.save(self._checkpoints.folder, written)
        self._on_event("checkpoint", self)
        entries = dict(written)
        for answer in self.workers.get(refs):
            entries |= {entry.name: entry for entry in answer}
        return self._checkpoints.write(
            step=self._done,
            blocks_epoch=self._dispatch.blocks_epoch,
            arrays={array: [entries[name] for name in files] for array, files in names.items()},
            first_step=self._first,
            figures=self._figures,
            progress=self.progress,
        )

    def _recover(self, error: WorkersLostError) -> None:
        """Go back to the last checkpoint with new workers, as many as find a place."""
        step, losses = self._losses
        self._losses = (self._done, losses + 1 if self._done <= step else 1)
        if self._losses[1] > _MOST_LOSSES:
            raise ClusterError(
                f"workers were lost {_MOST_LOSSES} times without progress: {error}"
            ) from None
        _warn(f"workers were lost ({error}); going back to the last checkpoint")
        self.log.say("lost", step=self._done, reason=str(error))
        begin, lost_at = time.monotonic(), self._done
        self.workers.stop()
        try:
            self._start_workers()
        except ClusterError as failure:
            raise ClusterError(f"{failure}. {self._how_to_go_on()}") from None
        seconds = round(time.monotonic() - begin, 3)
        self.log.say("recovered", step=self._done, from_step=lost_at, seconds=seconds)

    def _how_to_go_on(self) -> str:
        folder = self._checkpoints.folder
        if self._temporary:
            return "Start nodes, and call fit once more; a RayConfig would keep checkpoints"
        if self._last is None:
            return f"There is no checkpoint in {folder} yet: start nodes, and call fit once more"
        return (
            f"The run is kept in {folder}, up to step {self._last.step}: start nodes, and call "
            "fit with the same settings and resume=True to go on from there"
        )

    def _start_workers(self, resume: bool = True) -> None:
        for _ in range(_MOST_LOSSES):
            try:
                self.workers.start()
                self._check_folder()
                self._saved = time.monotonic()
                self._in_flight.clear()
                if not (resume and self._restore()):
                    self._set_initial_state()
                self._saved_step = self._done
                self.log.say("workers", members=self.workers.members, owner=self.workers.owner)
            except WorkersLostError as error:
                log.warning("workers were lost at the start: %s", error)
                self.workers.stop()
            else:
                return
        raise ClusterError(f"workers were lost {_MOST_LOSSES} times at the start; see Ray's log")

    def _set_initial_state(self) -> None:
        """Set the state that every run begins with."""
        if self._origin:
            raise ClusterError(
                f"the checkpoint that this run resumed from, in {self._checkpoints.folder}, is "
                "damaged; start once more with resume=True to go on from the one before"
            )
        self._dispatch.start()
        self._last, self._done = None, 0

    def _restore(self) -> bool:
        """Take up the last checkpoint that is whole; whether there is one."""
        for checkpoint in self._checkpoints.newest_first():
            if checkpoint.step < self._origin:
                break
            try:
                if checkpoint.n_parts != self.n_parts:
                    raise DamagedFileError(f"it must have the files of {self.n_parts} parts")
                self._dispatch.restore(self._checkpoints.folder, checkpoint)
            except (DamagedFileError, OSError) as error:
                _warn(f"a checkpoint cannot be used, the one before is tried: {error}")
                self._checkpoints.drop(checkpoint)
            else:
                self._last, self._done = checkpoint, checkpoint.step
                return True
        return False

    # ------------------------------------------------------------------------------- the model

    def write_model(self, epoch: int) -> tuple[Folder, dict[str, list[FileEntry]]]:
        """Write the model, a file a part, beside what is there; returns where, and the files."""
        folder, version = self._folder.sub("model"), f"{self.run_key}-{epoch:06d}"

        def write() -> dict[str, list[FileEntry]]:
            users, items = self._dispatch.write_model(folder, version)
            self._on_event("model", self)
            files = [entry for answer in self.workers.get(users) for entry in answer]
            return {"users": files, "items": self.workers.get(items)}

        try:
            self._folder.make("model")
            return folder, self._with_workers(write)
        except OSError as error:
            raise ClusterError(
                f"the model could not be written to {folder} ({error}); make room and call fit "
                "with resume=True"
            ) from None

    def model(self) -> Arrays:
        """The arrays of the model in the memory of this process, in the order of the data."""

        def gather() -> Arrays:
            users, items = self._dispatch.gather_model()
            parts = [part for answer in self.workers.get(users) for part in answer]
            shards = self.workers.get(items)
            order = np.argsort(np.concatenate([part["users"] for part in parts]))
            of_users = {name: np.concatenate([p[name] for p in parts])[order] for name in parts[0]}
            of_items = {name: np.concatenate([s[name] for s in shards]) for name in shards[0]}
            return of_users | of_items

        return self._with_workers(gather)

    @property
    def run_key(self) -> str:
        """Eight characters that tell the files of this run from those of others."""
        return f"{self._run_file.crc32:08x}"

    @property
    def is_within_epoch(self) -> bool:
        """Whether a resumed run is on its way back into the middle of an epoch."""
        return bool(self._figures) and self._asked == self._first

    @property
    def oldest_epoch(self) -> int:
        """The first epoch that a run which loses workers might have to repeat."""
        kept = [checkpoint.blocks_epoch for checkpoint in self._checkpoints.newest_first()]
        return min(kept, default=0)

    def _with_workers(self, work: Callable[[], T]) -> T:
        """Do what changes nothing, and once more with new workers where some are lost."""
        while True:
            try:
                while self._done < self._asked:
                    self._advance(self._asked)
                return work()
            except WorkersLostError as error:
                self._recover(error)

    def close(self) -> None:
        """End the workers."""
        self.workers.stop()
        self.log.close()

    # ------------------------------------------------------------------------------ the checks

    def _check_blocks(self) -> None:
        row = self._job.bytes_of_item
        largest = -(-self.sizes.n_items // self.n_parts) * row
        if largest > MAX_BATCH_BYTES:
            parts = -(-self.sizes.n_items * row // MAX_BATCH_BYTES)
            _warn(
                f"a block of items has {largest >> 20} MB; cut the data into {parts} parts or more "
                f"to keep blocks below {MAX_BATCH_BYTES >> 20} MB"
            )

    def _check_folder(self) -> None:
        """Raise an error unless all workers see one and the same folder."""
        members = self.workers.members
        refs = [
            self.workers.call(worker, "sees", self._folder, self._run_file)
            for worker in range(len(members))
        ]
        for member, seen in zip(members, self.workers.get(refs), strict=True):
            if not seen:
                self.workers.stop()
                raise ClusterError(
                    f"the worker on node {member['node'][:8]} does not see run_dir {self._folder}; "
                    "name a folder that all machines share, or a store such as s3://bucket/run"
                )

    def _prepare_folder(self, run: str, resume: bool) -> FileEntry:
        try:
            run_file = begin_run(self._folder, run)
            if not resume:
                self._checkpoints.clear()
            return run_file
        except OSError as error:
            raise ClusterError(
                f"run_dir {self._folder} cannot be written to ({error}); name a folder that can"
            ) from None


def _warn(message: str) -> None:
    warn(message, RuntimeWarning)
