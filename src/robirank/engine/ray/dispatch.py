"""Hands out the tasks of a step to the workers of a cluster, and knows where things are.

Of V it has references only, one for each block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robirank.engine.ray.actors import WorkerGroup
from robirank.engine.ray.steps import ScanStep, Step, SweepStep
from robirank.engine.strata import DATA_ORDER, visiting_order
from robirank.storage.checkpoint_folder import ClusterCheckpoint
from robirank.storage.folder import FileEntry, Folder

Refs = list[tuple[int, Any]]  # a worker, and the reference of its answer


class Dispatch:
    """Where the blocks of V are, and who does what.

    Parameters
    ----------
    workers : WorkerGroup
    parts : int

    Attributes
    ----------
    blocks_epoch : int
        In whose order V lies.
    """

    def __init__(self, workers: WorkerGroup, parts: int) -> None:
        self._workers, self._n = workers, parts
        self._blocks: list[Any] = []
        self._homes: list[int] = []  # the worker that made each block
        self.blocks_epoch = 0
        self._factors_at = self._slopes_at = 0  # the steps that changed them last

    def start(self) -> None:
        """The state that every run begins with."""
        self._homes = list(self._workers.owner)
        self._blocks, self.blocks_epoch = [], 0
        self._factors_at = self._slopes_at = 0
        for worker in range(len(self._workers.members)):
            own = [block for block, home in enumerate(self._homes) if home == worker]
            self._blocks += self._workers.call_many(worker, "start", own, returns=len(own))

    def submit(self, step: Step, number: int) -> Refs:
        """Hand out the tasks of a step."""
        if isinstance(step, SweepStep):
            self._factors_at = number
            return self._sweep(step)
        self._slopes_at = number
        return self.scan(step)

    def _sweep(self, step: SweepStep) -> Refs:
        workers, n, old_epoch = self._workers, self._n, self.blocks_epoch
        payloads: list[list[Any]] = [[ref] for ref in self._blocks]
        homes = [[home] for home in self._homes]
        if step.epoch != old_epoch:
            pieces = self._split(step.epoch)
            payloads = [[pieces[old][block] for old in range(n)] for block in range(n)]
            homes = [self._homes] * n
        answers: Refs = []
        blocks: list[Any] = [None] * n
        new_homes = [0] * n
        for part in range(n):
            block, worker = (part + step.number) % n, workers.owner[part]
            answer, blocks[block] = workers.call(
                worker,
                "sweep",
                part,
                block,
                step.epoch,
                old_epoch,
                step.task,
                step.settings,
                [home != worker for home in homes[block]],
                *payloads[block],
                returns=2,
            )
            new_homes[block] = worker
            answers.append((worker, answer))
        self._blocks, self._homes, self.blocks_epoch = blocks, new_homes, step.epoch
        return answers

    def scan(self, step: ScanStep) -> Refs:
        """Let every part see all blocks."""
        answers = []
        for part, worker in enumerate(self._workers.owner):
            visits = [(block, self._blocks[block]) for block in visiting_order(part, self._n)]
            arguments = (part, self.blocks_epoch, step.task, step.settings)
            answers.append((worker, self._workers.scan(worker, visits, *arguments)))
        return answers

    def _split(self, epoch: int) -> list[list[Any]]:
        """Cut every block, where it lies, into pieces for the blocks of another epoch."""
        n, old = self._n, self.blocks_epoch
        return [
            self._workers.call_many(
                home, "split", block, old, epoch, self._blocks[block], returns=n
            )
            for block, home in enumerate(self._homes)
        ]

    def save(
        self, folder: Folder, known: Mapping[str, FileEntry]
    ) -> tuple[list[Any], dict[str, list[str]]]:
        """Let the workers write what is not known yet; the answers, and all names by kind."""
        workers, parts = self._workers, range(self._n)
        names = {
            kind: [f"{kind}-{at:09d}-{part:05d}.safetensors" for part in parts]
            for kind, at in (
                ("factors", self._factors_at),
                ("slopes", self._slopes_at),
                ("blocks", self._factors_at),
            )
        }
        refs = []
        for p in parts:
            new = [None if names[k][p] in known else names[k][p] for k in ("factors", "slopes")]
            refs.append(workers.call(workers.owner[p], "save", folder, p, *new))
        for block, name in enumerate(names["blocks"]):
            if name not in known:
                home = self._homes[block]
                refs.append(workers.call(home, "save_block", folder, name, self._blocks[block]))
        return refs, names

    def restore(self, folder: Folder, checkpoint: ClusterCheckpoint) -> None:
        """Take up a checkpoint; a damaged file is an error of the folder's class."""
        workers, homes, epoch = self._workers, list(self._workers.owner), checkpoint.blocks_epoch
        files = zip(checkpoint.factors, checkpoint.slopes, strict=True)
        restored = [
            workers.call(workers.owner[part], "restore", folder, part, factors, slopes)
            for part, (factors, slopes) in enumerate(files)
        ]
        blocks = [
            workers.call(
                home, "restore_block", folder, checkpoint.blocks[block], block, epoch, returns=2
            )
            for block, home in enumerate(homes)
        ]
        workers.get([*restored, *(done for done, _ in blocks)])
        self._homes, self._blocks = homes, [ref for _, ref in blocks]
        self.blocks_epoch = epoch
        self._factors_at = _step_of(checkpoint.factors[0])
        self._slopes_at = _step_of(checkpoint.slopes[0])

    def write_model(self, folder: Folder, version: str) -> tuple[list[Any], list[Any]]:
        """Let the workers write U, and V in the order of the data."""
        workers, n = self._workers, self._n
        users = [
            workers.call(worker, "write_users", folder, version)
            for worker in range(len(workers.members))
        ]
        pieces = self._split(DATA_ORDER)
        items = []
        for shard in range(n):
            own = [pieces[old][shard] for old in range(n)]
            arguments = (folder, version, shard, self.blocks_epoch, *own)
            items.append(workers.call(workers.owner[shard], "write_items", *arguments))
        return users, items


def _step_of(entry: FileEntry) -> int:
    return int(entry.name.split("-")[1])
