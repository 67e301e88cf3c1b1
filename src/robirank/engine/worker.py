"""What one worker of a cluster does: it owns some parts of the users, and blocks of V visit.

Nothing here knows how the blocks travel; see `robirank.engine.ray`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank.data.partition_sources import Weighting
from robirank.data.partitions import Partitions
from robirank.engine.decay import Decay
from robirank.engine.start import some_random_rows
from robirank.engine.strata import DATA_ORDER, Plan, task_key
from robirank.engine.tasks import (
    Block,
    Part,
    Report,
    Task,
    XiReport,
    drift_task,
    empty_rows,
    padded,
    squares,
    xi_task,
)
from robirank.losses import RhoName
from robirank.storage.folder import DamagedFileError, Entry, Folder, load_tensors

__all__ = ["Cargo", "Job", "PartWorker", "Receipt"]

Floats = NDArray[np.float32]
Cargo = tuple[Floats, Floats]  # what travels of a block, or of a piece of one: V and Adagrad's sums


@dataclass(frozen=True)
class Job:
    """What does not change during a training, and all workers know."""

    factors: int
    seed: int
    weighting: Weighting
    user_decay: Decay
    item_decay: Decay


@dataclass(frozen=True)
class Receipt:
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
    partitions : Partitions
        Where the records are; only the own parts are read.
    parts : sequence of int
        Which parts are its own.
    instruction_set : str
        Sums are added up in another order by another one, so all workers use the same.
    """

    def __init__(
        self, job: Job, partitions: Partitions, parts: Sequence[int], instruction_set: str
    ) -> None:
        _core.use_instruction_set(instruction_set)
        self._job, self._seed, self._partitions = job, job.seed, partitions
        self._n_users, self._n_items = partitions.shape
        self._n_parts = partitions.parts
        counts = partitions.item_counts()
        self._item_decay = job.item_decay.of(counts)
        self._popularity = counts.astype(np.float32)
        self.parts = {number: self._read(partitions, number) for number in parts}
        self._plan = lru_cache(maxsize=2)(self._make_plan)

    def _make_plan(self, epoch: int) -> Plan:
        return Plan(self._seed, epoch, self._n_items, self._n_parts)

    def _read(self, partitions: Partitions, number: int) -> Part:
        records = partitions.read_part(number)
        n, weight = len(records.users), records.weight(self._job.weighting)
        return Part(
            users=records.users,
            indptr=records.indptr,
            items=records.items,
            weight=weight,
            U=empty_rows(n, self._job.factors),
            acc=np.zeros(n, dtype=np.float32),
            decay=self._job.user_decay.of(np.diff(records.indptr)),
            slope=np.empty(len(records.items), dtype=np.float32),
        )

    # ------------------------------------------------------------------------------ the start

    def start(self, blocks: Sequence[int]) -> list[Cargo]:
        """The state that every run begins with; returns the first rows of some blocks of V.

        Users without records have zeros.
        """
        d, own = self._job.factors, list(self.parts.values())
        users = [part.users for part in own]
        for part, rows in zip(
            own, some_random_rows([self._seed, 0], self._n_users, d, users), strict=True
        ):
            part.U[:, :d] = rows
            part.U[np.diff(part.indptr) == 0] = 0.0
            part.acc[:] = 0.0
            part.slope[:] = 1.0 if part.weight is None else part.weight
        items = [self._items(0, block) for block in blocks]
        found = some_random_rows([self._seed, 1], self._n_items, d, items)
        return [(rows, np.zeros(len(rows), dtype=np.float32)) for rows in found]

    def squares(self, part: int, cargo: Cargo) -> tuple[float, float]:
        """The sums of squares of a part's U and of a block of V."""
        return squares(self.parts[part].U), squares(cargo[0])

    # ------------------------------------------------------------------------------ the tasks

    def uv(
        self,
        part: int,
        block: int,
        epoch: int,
        old_epoch: int,
        task: Task,
        settings: Any,
        kept: float,
        foreign: Sequence[bool],
        *cargo: Cargo,
    ) -> tuple[tuple[Report, Receipt], Cargo]:
        """Visit the records of a part in a block of V.

        The block comes whole, or, where it is the first of an epoch, in pieces: one of each block
        of the old epoch. Then a share ``kept`` of Adagrad's sums is kept. ``foreign`` tells which
        of the cargo another worker made.
        """
        begin = time.thread_time()
        own = self.parts[part]
        items = self._items(epoch, block)
        first = int(self._plan(epoch).bounds[block])
        V = empty_rows(len(items), self._job.factors)
        acc = np.empty(len(items), dtype=np.float32)
        rows = V[:, : self._job.factors]
        if old_epoch == epoch:
            rows[:], acc[:] = cargo[0]
        else:
            self._join(items, old_epoch, cargo, rows, acc)
        if kept != 1.0:
            own.acc *= np.float32(kept)
            acc *= np.float32(kept)
        whole = Block(first, V, acc, self._item_decay[items], self._popularity[items])
        key = task_key(self._seed, epoch, part, block)
        report = task(own, whole, self._plan(epoch).position, settings, key)
        out = (np.ascontiguousarray(V[:, : self._job.factors]), acc)
        moved = [one for one, far in zip(cargo, foreign, strict=True) if far]
        return (report, self._receipt(begin, cargo, moved, [out])), out

    def xi(
        self,
        blocks: Iterable[tuple[int, Cargo]],
        part: int,
        epoch: int,
        users: slice,
        rho: RhoName,
    ) -> tuple[XiReport, Receipt]:
        """Renew the slopes of some of a part's users; the blocks of V visit one by one.

        ``blocks`` are pairs (number, cargo) that can be gone through many times.
        """
        begin = time.thread_time()
        own, plan = self.parts[part], self._plan(epoch)
        visits = _Visits(plan, blocks, self._job.factors)
        report = xi_task(own, visits, plan.position, users, rho)
        return report, self._receipt(begin, [], [], [])

    def drift(self, part: int, users: slice, factor: float) -> None:
        """Multiply the slopes of all but some users."""
        drift_task(self.parts[part], users, factor)

    def scale_slopes(self, part: int, factor: float) -> None:
        """Multiply all slopes of a part."""
        self.parts[part].slope *= np.float32(factor)

    def split(self, block: int, epoch: int, next_epoch: int, cargo: Cargo) -> list[Cargo]:
        """Cut a block into the pieces that the blocks of another epoch will be made of."""
        place = self._plan(next_epoch).position[self._items(epoch, block)]
        bounds = self._plan(next_epoch).bounds
        home = np.searchsorted(bounds, place, side="right") - 1
        order = np.argsort(home, kind="stable")
        ends = np.searchsorted(home[order], np.arange(self._n_parts + 1))
        V, acc = cargo
        return [(V[order[low:high]], acc[order[low:high]]) for low, high in pairwise(ends)]

    def _join(
        self,
        items: NDArray[np.int32],
        old_epoch: int,
        pieces: Sequence[Cargo],
        V: Floats,
        acc: Floats,
    ) -> None:
        """Put pieces together; they come in the order of the old blocks, rows in the old order."""
        order = np.argsort(self._plan(old_epoch).position[items])
        end = 0
        for rows, sums in pieces:
            begin, end = end, end + len(rows)
            V[order[begin:end]] = rows
            acc[order[begin:end]] = sums

    def _items(self, epoch: int, block: int) -> NDArray[np.int32]:
        plan = self._plan(epoch)
        return plan.order[plan.bounds[block] : plan.bounds[block + 1]]

    # ----------------------------------------------------------------- checkpoints and results

    def sees(self, folder: Folder, entry: Entry) -> bool:
        """Whether a file that another process wrote is here too."""
        try:
            return bool(folder.read_bytes(entry))
        except (DamagedFileError, OSError):
            return False

    def save(
        self, folder: Folder, names: Mapping[int, tuple[str | None, str | None]]
    ) -> list[Entry]:
        """Write the parts: (name of U and its sums, name of the slopes); None leaves one out."""
        entries = []
        for number, (factors, slopes) in names.items():
            part = self.parts[number]
            if factors is not None:
                rows = {"U": part.U[:, : self._job.factors], "acc": part.acc}
                entries.append(folder.write_tensors(factors, rows))
            if slopes is not None:
                entries.append(folder.write_tensors(slopes, {"slope": part.slope}))
        return entries

    def save_block(self, folder: Folder, name: str, cargo: Cargo) -> list[Entry]:
        """Write a block of V."""
        return [folder.write_tensors(name, {"V": cargo[0], "acc": cargo[1]})]

    def restore(self, folder: Folder, entries: Mapping[int, tuple[Entry, Entry]]) -> None:
        """Go back to what `save` wrote; a damaged file is a `DamagedFileError`."""
        for number, (factors, slopes) in entries.items():
            part = self.parts[number]
            rows = load_tensors(folder.read_bytes(factors))
            part.U[:, : self._job.factors] = rows["U"]
            part.acc[:] = rows["acc"]
            part.slope[:] = load_tensors(folder.read_bytes(slopes))["slope"]

    def restore_block(self, folder: Folder, entry: Entry) -> tuple[bool, Cargo]:
        """Read a block of V; whoever waits for the first of the two need not take the second."""
        arrays = load_tensors(folder.read_bytes(entry))
        return True, (arrays["V"], arrays["acc"])

    def write_users(self, folder: Folder) -> list[Entry]:
        """Write the rows of U with the users' outside ids, a file a part."""
        entries = []
        for number, part in sorted(self.parts.items()):
            arrays = {"user_factors": part.U[:, : self._job.factors], "users": part.users}
            ids = self._partitions.part_ids(number)
            arrays |= {} if ids is None else ids.to_tensors("ids")
            entries.append(folder.write_tensors(f"users-{number:05d}.safetensors", arrays))
        return entries

    def write_items(self, folder: Folder, shard: int, old_epoch: int, *pieces: Cargo) -> Entry:
        """Write a stretch of V in the order of the data, from the pieces of the last blocks."""
        items = self._items(DATA_ORDER, shard)
        V = np.empty((len(items), self._job.factors), dtype=np.float32)
        self._join(items, old_epoch, pieces, V, np.empty(len(items), dtype=np.float32))
        return folder.write_tensors(f"items-{shard:05d}.safetensors", {"item_factors": V})

    # --------------------------------------------------------------------------------- watching

    def _receipt(
        self, begin: float, came: Sequence[Cargo], moved: Sequence[Cargo], went: Sequence[Cargo]
    ) -> Receipt:
        return Receipt(
            time.thread_time() - begin,
            _nbytes(came),
            _nbytes(moved),
            _nbytes(went),
            private_memory(),
        )


class _Visits:
    """Blocks of V as the ξ-step wants them, gone through as often as it likes."""

    def __init__(self, plan: Plan, blocks: Iterable[tuple[int, Cargo]], factors: int) -> None:
        self._plan, self._blocks, self._factors = plan, blocks, factors

    def __iter__(self) -> Iterator[Block]:
        nothing = np.empty(0, dtype=np.float32)
        for number, (V, acc) in self._blocks:
            rows = V
            if V.shape[1] != padded(self._factors):
                rows = empty_rows(len(V), self._factors)
                rows[:, : self._factors] = V
            yield Block(int(self._plan.bounds[number]), rows, acc, nothing, nothing)


def _nbytes(cargo: Sequence[Cargo]) -> int:
    return sum(V.nbytes + acc.nbytes for V, acc in cargo)


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
