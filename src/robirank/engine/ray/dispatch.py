"""Hands out the tasks of a step to the workers of a cluster, and knows where things are.

Of blocks it has references only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robirank.engine.ray.actors import WorkerGroup, fetch
from robirank.engine.ray.worker import Step
from robirank.engine.state import StateArray, travelling
from robirank.engine.strata import DATA_ORDER, visiting_order
from robirank.storage.checkpoint_folder import ClusterCheckpoint
from robirank.storage.folder import FileEntry, Folder

Refs = list[tuple[int, Any]]  # a worker, and the reference of its answer


class Dispatch:
    """Where the blocks are, who does what, and which step changed each array last.

    The items lie in the order of ``blocks_epoch``.
    """

    def __init__(self, workers: WorkerGroup, parts: int, declared: Sequence[StateArray]) -> None:
        self._workers, self._n = workers, parts
        self._of_items = [array.name for array in travelling(declared)]
        self._of_users = [a.name for a in declared if a.per != "item" and not a.is_constant]
        self._blocks: list[Any] = []
        self._homes: list[int] = []  # the worker that made each block
        self.blocks_epoch = 0
        self._changed_at: dict[str, int] = {}

    def start(self) -> None:
        """Let the workers set the state that every run begins with."""
        self._homes = list(self._workers.owner)
        self._blocks, self.blocks_epoch = [], 0
        self._changed_at = dict.fromkeys(self._of_users + self._of_items, 0)
        for worker in range(len(self._workers.members)):
            blocks = [block for block, home in enumerate(self._homes) if home == worker]
            self._blocks += self._workers.call(worker, "start", blocks, returns=len(blocks))

    def submit(self, step: Step, number: int) -> Refs:
        """Hand out the tasks of a step, the one that leads to state ``number``."""
        self._changed_at |= dict.fromkeys(step.task.changes, number)
        if step.epoch not in (None, self.blocks_epoch):  # the items change places
            self._changed_at |= dict.fromkeys(self._of_items, number)
        return self.scan(step) if step.epoch is None else self._sweep(step, step.epoch)

    def _sweep(self, step: Step, epoch: int) -> Refs:
        workers, n, old_epoch = self._workers, self._n, self.blocks_epoch
        payloads: list[list[Any]] = [[ref] for ref in self._blocks]
        homes = [[home] for home in self._homes]
        if epoch != old_epoch:
            pieces = self._split(epoch)
            payloads = [[pieces[old][block] for old in range(n)] for block in range(n)]
            homes = [self._homes] * n
        answers: Refs = []
        blocks: list[Any] = [None] * n
        new_homes = [0] * n
        for part in range(n):
            block, worker = (part + step.number) % n, workers.owner[part]
            foreign = [home != worker for home in homes[block]]
            arguments = (part, block, step, old_epoch, foreign, *payloads[block])
            answer, blocks[block] = workers.call(worker, "sweep", *arguments, returns=2)
            new_homes[block] = worker
            answers.append((worker, answer))
        self._blocks, self._homes, self.blocks_epoch = blocks, new_homes, epoch
        return answers

    def scan(self, step: Step) -> Refs:
        """Let every part see all blocks."""
        answers = []
        for part, worker in enumerate(self._workers.owner):
            visits = [(block, self._blocks[block]) for block in visiting_order(part, self._n)]
            ref = self._workers.call(worker, "scan", part, visits, fetch, self.blocks_epoch, step)
            answers.append((worker, ref))
        return answers

    def _split(self, epoch: int) -> list[list[Any]]:
        """Cut every block, where it lies, into pieces for the blocks of another epoch."""
        n, old = self._n, self.blocks_epoch
        return [
            self._workers.call(home, "split", block, old, epoch, self._blocks[block], returns=n)
            for block, home in enumerate(self._homes)
        ]

    def save(
        self, folder: Folder, written: Mapping[str, FileEntry]
    ) -> tuple[list[Any], dict[str, list[str]]]:
        """Let the workers write what has changed; the answers, and the files of each array.

        A file that is written already is not written again: its name says which step changed it.
        """
        workers, parts = self._workers, range(self._n)
        names = {
            array: [f"{array}-{step:09d}-{part:05d}.safetensors" for part in parts]
            for array, step in self._changed_at.items()
        }
        refs = []
        for i in parts:
            of_users, of_items = (
                {a: names[a][i] for a in arrays if names[a][i] not in written}
                for arrays in (self._of_users, self._of_items)
            )
            refs.append(workers.call(workers.owner[i], "save", folder, i, of_users))
            block = self._blocks[i]
            refs.append(workers.call(self._homes[i], "save_block", folder, of_items, block))
        return refs, names

    def restore(self, folder: Folder, checkpoint: ClusterCheckpoint) -> None:
        """Take up a checkpoint; a damaged file is an error of the folder's class."""
        workers, homes, epoch = self._workers, list(self._workers.owner), checkpoint.blocks_epoch
        files = checkpoint.arrays
        restored = [
            workers.call(
                worker, "restore", folder, part, {a: files[a][part] for a in self._of_users}
            )
            for part, worker in enumerate(workers.owner)
        ]
        blocks = [
            workers.call(
                home,
                "restore_block",
                folder,
                block,
                epoch,
                {a: files[a][block] for a in self._of_items},
                returns=2,
            )
            for block, home in enumerate(homes)
        ]
        workers.get([*restored, *(done for done, _ in blocks)])
        self._homes, self._blocks = homes, [ref for _, ref in blocks]
        self.blocks_epoch, self._changed_at = epoch, checkpoint.changed_at()

    def write_model(self, folder: Folder, version: str) -> tuple[list[Any], list[Any]]:
        """Let the workers write the model, its items in the order of the data."""
        return self._of_model("write_users", "write_items", folder, version)

    def gather_model(self) -> tuple[list[Any], list[Any]]:
        """Let the workers send the arrays of the model, its items in the order of the data."""
        return self._of_model("model_of_users", "model_of_items")

    def _of_model(self, users: str, items: str, *arguments: Any) -> tuple[list[Any], list[Any]]:
        """The answers of all workers for their users, and for the items of each shard."""
        workers, n = self._workers, self._n
        of_users = [
            workers.call(worker, users, *arguments) for worker in range(len(workers.members))
        ]
        pieces, of_items = self._split(DATA_ORDER), []
        for shard in range(n):
            of_shard = [pieces[old][shard] for old in range(n)]
            of_items.append(
                workers.call(
                    workers.owner[shard], items, *arguments, shard, self.blocks_epoch, *of_shard
                )
            )
        return of_users, of_items
