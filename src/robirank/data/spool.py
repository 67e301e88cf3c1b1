"""Cutting a file of interactions into parts of users without holding the file in memory."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank.data.ids import Ids
from robirank.data.interaction_files import naming, open_rows
from robirank.data.interactions import Interactions, grouped
from robirank.data.user_items import UserItems

_ROW = np.dtype([("user", np.int32), ("item", np.int32), ("count", np.float32)])
_CHUNK_ROWS = 1 << 22


@contextlib.contextmanager
def spooled(path: str | os.PathLike[str], options: Mapping[str, Any]) -> Iterator[Spool]:
    """Read a file once, in chunks, and write its rows as positions to a temporary folder.

    ``options`` are arguments of `robirank.load_interactions`.
    """
    options = {"sep": None, "header": None} | dict(options)
    if options.pop("time", None) is not None:
        raise TypeError("time must be left out: partitions hold no times")
    columns = {name: options.pop(name, None) for name in ("user", "item", "count")}
    with tempfile.TemporaryDirectory() as folder:
        with naming(path), Path(folder, "rows").open("wb") as file:
            encoder, chunks = open_rows(path, columns, **options)
            for chunk in map(encoder.encode, chunks):
                rows = np.ones(len(chunk), dtype=_ROW)
                for name in chunk.columns:
                    rows[name] = chunk[name].to_numpy()
                rows.tofile(file)
            users, items = encoder.finish()
        yield Spool(Path(folder), users, items)


class Spool:
    """The interactions of a file in a temporary folder, as positions, in the order of the file."""

    def __init__(self, folder: Path, users: Ids, items: Ids) -> None:
        self._folder, self.users, self.items = folder, users, items

    def cut(self, parts: Sequence[NDArray[np.int32]]) -> Iterator[UserItems]:
        """Yield the items and counts of the users of each part; duplicates are merged."""
        self._distribute(parts)
        # Counts are written for all parts, or for none.
        has_counts = any(table.counts is not None for table in self._tables(parts))
        for table in self._tables(parts):
            counts = table.matrix.data if has_counts else None
            yield UserItems(table.indptr, table.indices, counts, table.n_items)

    def _distribute(self, parts: Sequence[NDArray[np.int32]]) -> None:
        """Write every row to the file of its part."""
        part_of = np.empty(len(self.users), dtype=np.int32)
        for number, users in enumerate(parts):
            part_of[users] = number
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(self._part(n).open("wb")) for n in range(len(parts))]
            source = stack.enter_context(Path(self._folder, "rows").open("rb"))
            while len(rows := np.fromfile(source, dtype=_ROW, count=_CHUNK_ROWS)):
                part = part_of[rows["user"]]
                order = np.argsort(part, kind="stable")
                ends = np.searchsorted(part[order], np.arange(len(parts) + 1))
                for number, file in enumerate(files):
                    rows[order[ends[number] : ends[number + 1]]].tofile(file)

    def _tables(self, parts: Sequence[NDArray[np.int32]]) -> Iterator[Interactions]:
        position = np.empty(len(self.users), dtype=np.int32)  # of a user within the part
        for number, users in enumerate(parts):
            rows = np.fromfile(self._part(number), dtype=_ROW)
            position[users] = np.arange(len(users), dtype=np.int32)
            columns = (np.ascontiguousarray(rows[name]) for name in ("item", "count"))
            yield grouped(Ids.range(len(users)), self.items, position[rows["user"]], *columns)

    def _part(self, number: int) -> Path:
        return self._folder / f"part-{number}"
