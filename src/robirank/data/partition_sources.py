"""Where partitions are cut from: interactions in memory, or a file that need not fit there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank.data._collector import Collector
from robirank.data.ids import Ids
from robirank.data.interaction_files import collect
from robirank.data.interactions import Interactions
from robirank.data.records import SparseRows

_RECORD = np.dtype([("user", np.int32), ("item", np.int32), ("count", np.float32)])
_AT_ONCE = 1 << 22  # records that are dealt out together


class Source(Protocol):
    """Records with outside ids that can be cut by users."""

    users: Ids
    items: Ids

    def cut(self, parts: Sequence[NDArray[np.int32]]) -> Iterator[SparseRows]:
        """The records and counts of each part of the users, one part after the other."""


class InMemory:
    """`Interactions`, as they are."""

    def __init__(self, data: Interactions) -> None:
        self._data, self.users, self.items = data, data.users, data.items

    def cut(self, parts: Sequence[NDArray[np.int32]]) -> Iterator[SparseRows]:
        """The records and counts of each part of the users, one part after the other."""
        whole = SparseRows(self._data.indptr, self._data.indices, self._data.counts)
        for users in parts:
            yield whole.rows(users)


@contextlib.contextmanager
def spooled(path: str | os.PathLike[str], columns: Mapping[str, Any]) -> Iterator[Spool]:
    """Read a file once, block by block, and keep its records as codes in a temporary folder."""
    if columns.get("time") is not None:
        raise TypeError("time must be left out: partitions hold no times")
    with tempfile.TemporaryDirectory() as folder:
        with Path(folder, "records").open("wb") as file:

            def keep(collector: Collector) -> None:
                came = collector.take()
                records = np.ones(len(came["user"]), dtype=_RECORD)
                for name, values in came.items():
                    records[name] = values
                records.tofile(file)

            collector = collect(path, after_block=keep, **columns)
        users, items = collector.ids()
        yield Spool(Path(folder), users, items)


class Spool:
    """Records in a file, in the order they came; duplicates are merged when they are cut."""

    def __init__(self, folder: Path, users: Ids, items: Ids) -> None:
        self._folder, self.users, self.items = folder, users, items

    def cut(self, parts: Sequence[NDArray[np.int32]]) -> Iterator[SparseRows]:
        """The records and counts of each part of the users, one part after the other."""
        self._deal(parts)
        counted = self._counted(len(parts))
        for number, users in enumerate(parts):
            records = np.fromfile(self._part(number), dtype=_RECORD)
            place = np.empty(len(self.users), dtype=np.int32)
            place[users] = np.arange(len(users), dtype=np.int32)
            indptr, items, counts, _ = _core.group_records(
                place[records["user"]],
                np.ascontiguousarray(records["item"]),
                count=np.ascontiguousarray(records["count"]),
                time=None,
                n_users=len(users),
                n_items=len(self.items),
                n_threads=1,
            )
            n = int(indptr[-1])
            yield SparseRows(indptr, items[:n], counts[:n] if counted else None)

    def _deal(self, parts: Sequence[NDArray[np.int32]]) -> None:
        """Append every record to the file of its part."""
        part_of = np.empty(len(self.users), dtype=np.int32)
        for number, users in enumerate(parts):
            part_of[users] = number
        with contextlib.ExitStack() as stack:
            files: list[IO[bytes]] = [
                stack.enter_context(self._part(number).open("wb")) for number in range(len(parts))
            ]
            with Path(self._folder, "records").open("rb") as file:
                while len(records := np.fromfile(file, dtype=_RECORD, count=_AT_ONCE)):
                    part = part_of[records["user"]]
                    order = np.argsort(part, kind="stable")
                    ends = np.searchsorted(part[order], np.arange(len(parts) + 1))
                    for number, target in enumerate(files):
                        records[order[ends[number] : ends[number + 1]]].tofile(target)

    def _counted(self, parts: int) -> bool:
        """Whether any pair counts more than once: as a column, or because it came twice."""
        return any(self._counts_in(number) for number in range(parts))

    def _counts_in(self, number: int) -> bool:
        records = np.fromfile(self._part(number), dtype=_RECORD)
        if (records["count"] != 1).any():
            return True
        pairs = records["user"].astype(np.int64) * len(self.items) + records["item"]
        return len(np.unique(pairs)) < len(pairs)

    def _part(self, number: int) -> Path:
        return self._folder / f"part-{number}"
