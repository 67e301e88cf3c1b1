"""What one worker of a cluster does: it owns some parts of the users, and blocks of V visit it.

Nothing here knows how the blocks travel; see `robirank.engine.ray.actors`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from robirank import _core
from robirank._types import Floats32, Ints32, Ints64
from robirank.data.partitions import Partitions
from robirank.data.records import Weighting
from robirank.engine.interface import Figures, ScanTask, SweepTask
from robirank.engine.parts import Block, Part, empty_rows, padded
from robirank.engine.strata import DATA_ORDER, Plan, task_key
from robirank.storage.folder import FileEntry, Folder
from robirank.storage.tensor_file import ArraySpec

#: What travels of a block, or of a piece of one: rows of V, and Adagrad's sums.
Payload = tuple[Floats32, Floats32]

#: Shares of the rows' penalty that one record pays, for rows with so many records.
Decay = Callable[[Ints64], Floats32]


@dataclass(frozen=True)
class Job:
    """What all workers know of a training, and what does not change.

    Attributes
    ----------
    factors, seed : int
    weighting : str
        What a count weighs.
    user_decay, item_decay : callable
        See `robirank.engine.parts.Part`.
    start : callable
        ``start(seed, side, n, d, chosen)`` gives the first rows of some users (side 0) or items
        (side 1) of n.
    data : Partitions
    validation : Partitions or None
        Held-out records of the same users, in the same parts.
    """

    factors: int
    seed: int
    weighting: Weighting
    user_decay: Decay
    item_decay: Decay
    start: Callable[[int, int, int, int, Sequence[Ints32]], list[Floats32]]
    data: Partitions
    validation: Partitions | None = None


@dataclass(frozen=True)
class Cost:
    """What a task cost.

    Attributes
    ----------
    seconds : float
        Of work: processor time, which stands still while the task waits for a block or a core.
    bytes_in, bytes_moved, bytes_out : int
        Of V and Adagrad's sums that came, that came from another worker, and that went.
    memory : int
        Bytes that the process holds for itself.
    """

    seconds: float = 0.0
    bytes_in: int = 0
    bytes_moved: int = 0
    bytes_out: int = 0
    memory: int = 0


class PartWorker:
    """Owns parts of the users: their records, their rows of U and their slopes.

    Parameters
    ----------
    job : Job
    parts : sequence of int
        Which parts are its own; the records of others are not read.
    instruction_set : str
        Another one adds up in another order, so all workers use the same.
    """

    def __init__(self, job: Job, parts: Sequence[int], instruction_set: str) -> None:
        _core.use_instruction_set(instruction_set)
        self._job = job
        self._n_users, self._n_items = job.data.shape
        counts = job.data.item_counts()
        self._item_decay = job.item_decay(counts)
        self._popularity = counts.astype(np.float32)
        self.parts = {number: self._read(number) for number in parts}
        self._plan = lru_cache(maxsize=2)(self._make_plan)

    def _make_plan(self, epoch: int) -> Plan:
        return Plan(self._job.seed, epoch, self._n_items, self._job.data.parts)

    def _read(self, number: int) -> Part:
        job, records = self._job, self._job.data.read_part(number)
        users, decay = job.data.part_users[number], job.user_decay(records.user_counts())
        part = Part.empty(users, records.weighted(job.weighting), decay, job.factors)
        if job.validation is not None:
            part.held_out = job.validation.read_part(number).weighted("binary")
        return part

    def start(self, blocks: Sequence[int]) -> list[Payload]:
        """Set the state that every run begins with; returns the first rows of some blocks of V.

        Users without records have zeros.
        """
        job, own = self._job, list(self.parts.values())
        users = [part.users for part in own]
        first = job.start(job.seed, 0, self._n_users, job.factors, users)
        for part, rows in zip(own, first, strict=True):
            rows[np.diff(part.indptr) == 0] = 0.0
            part.start(rows)
        items = [self._plan(0).items(block) for block in blocks]
        found = job.start(job.seed, 1, self._n_items, job.factors, items)
        return [(rows, np.zeros(len(rows), dtype=np.float32)) for rows in found]

    # ------------------------------------------------------------------------------ the tasks

    def sweep(
        self,
        part: int,
        block: int,
        epoch: int,
        old_epoch: int,
        task: SweepTask,
        settings: Any,
        foreign: Sequence[bool],
        *payloads: Payload,
    ) -> tuple[tuple[Figures, Cost], Payload]:
        """Let a part meet a block of V; returns figures, cost and the block as it is now.

        The block comes whole, or, where it is the first of an epoch, in pieces: one of each block
        of the old epoch. ``foreign`` tells which of the payloads another worker made.
        """
        begin = time.thread_time()
        plan, factors = self._plan(epoch), self._job.factors
        items = plan.items(block)
        V, sums = empty_rows(len(items), factors), np.empty(len(items), dtype=np.float32)
        if old_epoch == epoch:
            V[:, :factors], sums[:] = payloads[0]
        else:
            self._join(items, old_epoch, payloads, V[:, :factors], sums)
        first, decay = int(plan.bounds[block]), self._item_decay[items]
        whole = Block(first, V, sums, decay, self._popularity[items])
        key = task_key(self._job.seed, epoch, part, block)
        figures = task(self.parts[part], whole, plan.position, settings, key)
        out = (np.ascontiguousarray(V[:, :factors]), sums)
        moved = [one for one, far in zip(payloads, foreign, strict=True) if far]
        return (figures, _cost(begin, payloads, moved, [out])), out

    def scan(
        self,
        blocks: Iterable[tuple[int, Payload]],
        part: int,
        epoch: int,
        task: ScanTask,
        settings: Any,
    ) -> tuple[Figures, Cost]:
        """Show all blocks of V to a part, one by one.

        ``blocks`` are pairs (number, payload) that can be gone through many times.
        """
        begin = time.thread_time()
        plan = self._plan(epoch)
        visits = _Visits(plan, blocks, self._job.factors, self._popularity)
        figures = task(self.parts[part], visits, plan.position, settings)
        return figures, _cost(begin, [], [], [])

    def split(self, block: int, epoch: int, next_epoch: int, payload: Payload) -> list[Payload]:
        """Cut a block into the pieces that the blocks of another epoch will be made of."""
        target = self._plan(next_epoch)
        place = target.position[self._plan(epoch).items(block)]
        home = np.searchsorted(target.bounds, place, side="right") - 1
        order = np.argsort(home, kind="stable")
        ends = np.searchsorted(home[order], np.arange(target.parts + 1))
        V, sums = payload
        return [(V[order[low:high]], sums[order[low:high]]) for low, high in pairwise(ends)]

    def _join(
        self,
        items: Ints32,
        old_epoch: int,
        pieces: Sequence[Payload],
        V: Floats32,
        sums: Floats32,
    ) -> None:
        """Put pieces together; they come in the order of the old blocks, rows in the old order."""
        order = np.argsort(self._plan(old_epoch).position[items])
        end = 0
        for rows, row_sums in pieces:
            begin, end = end, end + len(rows)
            V[order[begin:end]] = rows
            sums[order[begin:end]] = row_sums

    # ----------------------------------------------------------------- checkpoints and results

    def sees(self, folder: Folder, entry: FileEntry) -> bool:
        """Whether a file that another process wrote is here too."""
        try:
            return bool(folder.read_bytes(entry))
        except (ValueError, OSError):
            return False

    def save(
        self, folder: Folder, part: int, factors: str | None, slopes: str | None
    ) -> list[FileEntry]:
        """Write U and its sums, and the slopes, under these names; None leaves one out."""
        own, entries = self.parts[part], []
        if factors is not None:
            rows = {"U": own.U[:, : self._job.factors], "sums": own.sums}
            entries.append(folder.write_arrays(factors, rows))
        if slopes is not None:
            entries.append(folder.write_arrays(slopes, {"slope": own.slope}))
        return entries

    def save_block(self, folder: Folder, name: str, payload: Payload) -> list[FileEntry]:
        """Write a block of V."""
        return [folder.write_arrays(name, {"V": payload[0], "sums": payload[1]})]

    def restore(self, folder: Folder, part: int, factors: FileEntry, slopes: FileEntry) -> None:
        """Go back to what `save` wrote; a damaged file is an error of the folder's class."""
        own, n, d = self.parts[part], len(self.parts[part].users), self._job.factors
        expected = {"U": ArraySpec("F32", (n, d)), "sums": ArraySpec("F32", (n,))}
        rows = folder.read_arrays(factors, expected)
        slope = folder.read_arrays(slopes, {"slope": ArraySpec("F32", own.slope.shape)})
        own.U[:, :d], own.sums[:], own.slope[:] = rows["U"], rows["sums"], slope["slope"]

    def restore_block(
        self, folder: Folder, entry: FileEntry, block: int, epoch: int
    ) -> tuple[bool, Payload]:
        """Read a block of V; whoever waits for the first of the two need not take the second."""
        n = len(self._plan(epoch).items(block))
        expected = {
            "V": ArraySpec("F32", (n, self._job.factors)),
            "sums": ArraySpec("F32", (n,)),
        }
        arrays = folder.read_arrays(entry, expected)
        return True, (arrays["V"], arrays["sums"])

    def write_users(self, folder: Folder, version: str) -> list[FileEntry]:
        """Write the rows of U with the users' outside ids, a file a part."""
        entries = []
        for number, part in sorted(self.parts.items()):
            arrays = {"user_factors": part.U[:, : self._job.factors], "users": part.users}
            ids = self._job.data.part_ids(number)
            arrays |= {} if ids is None else ids.to_tensors("ids")
            name = f"users-{number:05d}-{version}.safetensors"
            entries.append(folder.write_arrays(name, arrays))
        return entries

    def write_items(
        self, folder: Folder, version: str, shard: int, old_epoch: int, *pieces: Payload
    ) -> FileEntry:
        """Write a stretch of V in the order of the data, from the pieces of the last blocks."""
        items = self._plan(DATA_ORDER).items(shard)
        V = np.empty((len(items), self._job.factors), dtype=np.float32)
        self._join(items, old_epoch, pieces, V, np.empty(len(items), dtype=np.float32))
        name = f"items-{shard:05d}-{version}.safetensors"
        return folder.write_arrays(name, {"item_factors": V})


class _Visits:
    """Blocks of V as a scan shows them, gone through as often as the task likes."""

    def __init__(
        self,
        plan: Plan,
        blocks: Iterable[tuple[int, Payload]],
        factors: int,
        popularity: Floats32,
    ) -> None:
        self._plan, self._blocks, self._factors = plan, blocks, factors
        self._popularity = popularity

    def __iter__(self) -> Iterator[Block]:
        no_decay = np.empty(0, dtype=np.float32)
        for number, (V, sums) in self._blocks:
            rows = V
            if V.shape[1] != padded(self._factors):
                rows = empty_rows(len(V), self._factors)
                rows[:, : self._factors] = V
            popularity = self._popularity[self._plan.items(number)]
            yield Block(int(self._plan.bounds[number]), rows, sums, no_decay, popularity)


def _cost(
    begin: float, came: Sequence[Payload], moved: Sequence[Payload], went: Sequence[Payload]
) -> Cost:
    seconds = time.thread_time() - begin
    sizes = [_nbytes(payloads) for payloads in (came, moved, went)]
    return Cost(seconds, sizes[0], sizes[1], sizes[2], private_memory())


def _nbytes(payloads: Sequence[Payload]) -> int:
    return sum(V.nbytes + sums.nbytes for V, sums in payloads)


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
