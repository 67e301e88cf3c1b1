"""What one worker of a cluster does: it owns some parts of the users, and blocks visit it.

Nothing here knows how the blocks travel; see `robirank.engine.ray.actors`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank._types import Ints32
from robirank.data.partitions import Partitions
from robirank.data.user_items import Weighting
from robirank.engine.interface import Figures, Task
from robirank.engine.state import (
    Arrays,
    Block,
    Part,
    Rows,
    StateArray,
    constants_of_items,
    padded,
    seen_by,
    set_start,
    travelling,
)
from robirank.engine.strata import DATA_ORDER, Plan, task_key
from robirank.storage.folder import FileEntry, Folder
from robirank.storage.tensor_file import ArraySpec

#: What travels of a block, or of a piece of one: its arrays that tasks change, without padding.
Payload = Arrays


@dataclass(frozen=True)
class Job:
    """What all workers know of a training, and what does not change.

    Validation has held-out interactions of the same users, in the same parts.
    """

    declared: Sequence[StateArray]
    seed: int
    weighting: Weighting
    data: Partitions
    validation: Partitions | None = None

    @property
    def bytes_of_item(self) -> int:
        """Bytes of one item that travel with a block."""
        return sum(4 * max(1, array.columns) for array in travelling(self.declared))


@dataclass(frozen=True)
class Step:
    """A sub-step of a sweep, or one entry of the settings of a scan, which has no epoch.

    Between two steps the state of a run is consistent, and a step is a pure function of the state
    before it. So a run that lost workers goes back to an older state and repeats the steps since
    then, with the same result.
    """

    number: int
    task: Task
    settings: Any
    epoch: int | None = None

    @property
    def kind(self) -> str:
        """Whether every part meets one block ("sweep"), or sees all of them ("scan")."""
        return "scan" if self.epoch is None else "sweep"

    @property
    def label(self) -> str:
        """What tells this step from others of its epoch."""
        return f"{self.task.__name__} {self.number}"


class PartWorker:
    """Owns parts of the users, with their interactions and arrays; it reads no others.

    All workers use the same instruction set: another one adds up in another order.
    """

    def __init__(self, job: Job, parts: Sequence[int], instruction_set: str) -> None:
        _core.use_instruction_set(instruction_set)
        self._job = job
        self._travelling = travelling(job.declared)
        self._item_counts = job.data.item_counts()
        self._constants = constants_of_items(job.declared, self._item_counts)
        self.parts = {number: self._read(number) for number in parts}
        constant = [array for array in job.declared if array.is_constant]
        set_start(list(self.parts.values()), constant)  # no checkpoint has them
        self._plan = lru_cache(maxsize=2)(
            lambda epoch: Plan(job.seed, epoch, job.data.n_items, job.data.parts)
        )

    def _read(self, number: int) -> Part:
        job = self._job
        interactions = job.data.read_part(number).weighted(job.weighting)
        part = Part.empty(job.data.part_users[number], interactions, job.declared)
        if job.validation is not None:
            part.held_out = job.validation.read_part(number).weighted("binary")
        return part

    def start(self, blocks: Sequence[int]) -> list[Payload]:
        """Set the state that every run begins with; returns the first values of some blocks."""
        set_start(list(self.parts.values()), self._job.declared)
        items = [self._plan(0).items(block) for block in blocks]
        rows = [Rows(numbers, self._item_counts[numbers]) for numbers in items]
        values = {array.name: array.start(rows) for array in self._travelling}
        return [{name: values[name][i] for name in values} for i in range(len(blocks))]

    # ------------------------------------------------------------------------------ the tasks

    def sweep(
        self,
        part: int,
        block: int,
        step: Step,
        old_epoch: int,
        foreign: Sequence[bool],
        *payloads: Payload,
    ) -> tuple[tuple[Figures, Figures], Payload]:
        """Let a part meet a block; returns figures, cost and the block as it is now.

        The block comes whole, or, where it is the first of an epoch, in pieces: one of each block
        of the old epoch. ``foreign`` tells which of the payloads another worker made.
        """
        begin, task, epoch = time.thread_time(), step.task, int(step.epoch or 0)
        plan = self._plan(epoch)
        order = None
        if old_epoch != epoch:
            order = self._order_of_pieces(plan.items(block), old_epoch)
        arrays = {array.name: _joined(array, payloads, order) for array in self._travelling}
        seen = seen_by(task, self.parts[part]), seen_by(task, self._block(plan, block, arrays))
        key = task_key(self._job.seed, epoch, part, block)
        figures = task(*seen, plan.position, step.settings, key)
        result = {
            array.name: np.ascontiguousarray(array.content(arrays[array.name]))
            for array in self._travelling
        }
        moved = [payload for payload, far in zip(payloads, foreign, strict=True) if far]
        return (figures, _cost(begin, payloads, moved, [result])), result

    def scan(
        self,
        part: int,
        blocks: Sequence[tuple[int, Any]],
        fetch: Callable[[Any], Payload],
        epoch: int,
        step: Step,
    ) -> tuple[Figures, Figures]:
        """Show all blocks, in the order of an epoch, to a part; returns figures and cost.

        ``blocks`` are pairs of a number and what ``fetch`` gets the block by.
        """
        begin, task, plan = time.thread_time(), step.task, self._plan(epoch)

        def visit() -> Iterator[Block]:
            for number, ref in blocks:
                payload = fetch(ref)
                read = [array for array in self._travelling if array.name in task.reads]
                arrays = {array.name: _padded(array, payload[array.name]) for array in read}
                yield seen_by(task, self._block(plan, number, arrays))

        seen = seen_by(task, self.parts[part]), _Visits(visit)
        return task(*seen, plan.position, step.settings), _cost(begin, [], [], [])

    def split(self, block: int, epoch: int, next_epoch: int, payload: Payload) -> list[Payload]:
        """Cut a block into the pieces that the blocks of another epoch will be made of."""
        target = self._plan(next_epoch)
        place = target.position[self._plan(epoch).items(block)]
        home = np.searchsorted(target.bounds, place, side="right") - 1
        order = np.argsort(home, kind="stable")
        ends = np.searchsorted(home[order], np.arange(target.parts + 1))
        return [
            {name: values[order[low:high]] for name, values in payload.items()}
            for low, high in pairwise(ends)
        ]

    def _order_of_pieces(self, items: Ints32, old_epoch: int) -> NDArray[Any]:
        """The places in a block of the rows of its pieces.

        Pieces come in the order of the old blocks, and their rows in the old order.
        """
        return np.argsort(self._plan(old_epoch).position[items])

    def _block(self, plan: Plan, number: int, arrays: Arrays) -> Block:
        items = plan.items(number)
        constants = {name: values[items] for name, values in self._constants.items()}
        return Block(int(plan.bounds[number]), constants | arrays)

    # ----------------------------------------------------------------- checkpoints and results

    def sees(self, folder: Folder, entry: FileEntry) -> bool:
        """Whether a file that another process wrote is here too."""
        try:
            return bool(folder.read_bytes(entry))
        except (ValueError, OSError):
            return False

    def save(self, folder: Folder, part: int, files: dict[str, str]) -> list[FileEntry]:
        """Write arrays of a part; ``files`` has the name of the file of each."""
        declared = {array.name: array for array in self._job.declared}
        return [
            folder.write_arrays(file, {name: declared[name].content(self.parts[part][name])})
            for name, file in files.items()
        ]

    def save_block(
        self, folder: Folder, files: dict[str, str], payload: Payload
    ) -> list[FileEntry]:
        """Write arrays of a block; ``files`` has the name of the file of each."""
        return [folder.write_arrays(file, {name: payload[name]}) for name, file in files.items()]

    def restore(self, folder: Folder, part: int, files: dict[str, FileEntry]) -> None:
        """Go back to what `save` wrote; a damaged file is an error of the folder's class."""
        for array in self._job.declared:
            if array.name in files:
                content = array.content(self.parts[part][array.name])
                content[:] = _read_array(folder, files, array, len(content))

    def restore_block(
        self, folder: Folder, block: int, epoch: int, files: dict[str, FileEntry]
    ) -> tuple[bool, Payload]:
        """Read a block of a checkpoint; returns True and the block.

        A caller who only waits until the block is read asks for the first of the two.
        """
        n = len(self._plan(epoch).items(block))
        arrays = {a.name: _read_array(folder, files, a, n) for a in self._travelling}
        return True, arrays

    def model_of_users(self) -> list[Arrays]:
        """The model's arrays of users, for each part; "users" says which users these are."""
        parts: list[Arrays] = []
        for _, part in sorted(self.parts.items()):
            parts.append({"users": part.users})
            for array in self._job.declared:
                if array.saved_as and array.per == "user":
                    parts[-1][array.saved_as] = array.content(part[array.name])
        return parts

    def model_of_items(self, shard: int, old_epoch: int, *pieces: Payload) -> Arrays:
        """The model's arrays of consecutive items, from pieces of the last blocks."""
        order = self._order_of_pieces(self._plan(DATA_ORDER).items(shard), old_epoch)
        return {
            array.saved_as: array.content(_joined(array, pieces, order))
            for array in self._travelling
            if array.saved_as
        }

    def write_users(self, folder: Folder, version: str) -> list[FileEntry]:
        """Write the model's arrays of users, with their outside ids, to a file for each part."""
        entries = []
        for number, arrays in zip(sorted(self.parts), self.model_of_users(), strict=True):
            ids = self._job.data.part_ids(number)
            arrays |= {} if ids is None else ids.to_tensors("ids")
            name = f"users-{number:05d}-{version}.safetensors"
            entries.append(folder.write_arrays(name, arrays))
        return entries

    def write_items(
        self, folder: Folder, version: str, shard: int, old_epoch: int, *pieces: Payload
    ) -> FileEntry:
        """Write what `model_of_items` gives."""
        arrays = self.model_of_items(shard, old_epoch, *pieces)
        return folder.write_arrays(f"items-{shard:05d}-{version}.safetensors", arrays)


@dataclass(frozen=True)
class _Visits:
    """Blocks as a scan shows them, gone through as often as the task likes."""

    visit: Callable[[], Iterator[Block]]

    def __iter__(self) -> Iterator[Block]:
        return self.visit()


def _padded(array: StateArray, values: NDArray[Any]) -> NDArray[Any]:
    """Values with the padding that kernels ask for; a copy only where some is needed."""
    if not array.columns or values.shape[1] == padded(array.columns):
        return values
    return array.filled(values)


def _joined(
    array: StateArray, pieces: Sequence[Payload], order: NDArray[Any] | None
) -> NDArray[Any]:
    """Pieces of an array put together, padded; ``order`` has the places of their rows."""
    values = [piece[array.name] for piece in pieces]
    whole = array.empty(sum(map(len, values)))
    content, end = array.content(whole), 0
    for rows in values:
        begin, end = end, end + len(rows)
        content[slice(begin, end) if order is None else order[begin:end]] = rows
    return whole


def _read_array(
    folder: Folder, files: dict[str, FileEntry], array: StateArray, n: int
) -> NDArray[Any]:
    spec = {array.name: ArraySpec("F32", array.shape(n))}
    return folder.read_arrays(files[array.name], spec)[array.name]


def _cost(
    begin: float, came: Sequence[Payload], moved: Sequence[Payload], went: Sequence[Payload]
) -> Figures:
    """What a task cost.

    Its seconds of processor time, which stands still while it waits for a block or a core; the
    bytes of blocks that came, that came from another worker, and that went; and the bytes that the
    process holds for itself.
    """
    return {
        "seconds": time.thread_time() - begin,
        "bytes_in": _nbytes(came),
        "bytes_moved": _nbytes(moved),
        "bytes_out": _nbytes(went),
        "memory": private_memory(),
    }


def _nbytes(payloads: Sequence[Payload]) -> int:
    return sum(array.nbytes for payload in payloads for array in payload.values())


def private_memory() -> int:
    """Bytes that this process holds and shares with nobody; 0 where the system does not say."""
    try:
        with open("/proc/self/status") as file:  # noqa: PTH123
            for line in file:
                if line.startswith("RssAnon:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0
