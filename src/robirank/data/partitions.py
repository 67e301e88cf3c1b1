"""Interactions on disk, cut into parts: what the workers of a cluster read, each its own.

A folder of partitions holds

- ``part-00000.parquet`` …: the records of a part, user after user: user, item, perhaps count;
- ``users-00000.parquet`` …: its users in the same order: user, records, perhaps the outside id;
- ``items.parquet``: every item in the order of its code: records, perhaps the outside id;
- ``manifest.json``: shape, seed, checksums. It is written last, so a folder that has it is whole.

Users and items are codes 0, 1, 2, …; which users a part has is what `user_parts` says, so that the
local engine with the same seed and number of parts computes the same bits.
"""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank._checks import check_count
from robirank.data.ids import Ids
from robirank.data.interactions import Interactions, offsets
from robirank.data.partition_sources import InMemory, PartRecords, Source, Weighting, spooled
from robirank.data.user_parts import count_parts, user_parts
from robirank.storage.folder import DamagedFileError, Entry, Folder

__all__ = ["PartRecords", "Partitions", "PartitionsError", "open_partitions", "partition"]

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_ROW_GROUP = 1 << 18


class PartitionsError(ValueError):
    """A folder that does not hold whole partitions; the message says what is wrong."""


@dataclass(frozen=True)
class Partitions:
    """A folder of partitions, opened by `open_partitions`.

    Attributes
    ----------
    folder : Folder
    parts : int
    seed : int
        Decided which users a part has.
    n_users, n_items, n_records : int
    manifest : dict
        All that ``manifest.json`` says.
    """

    folder: Folder
    manifest: dict[str, Any]

    @property
    def parts(self) -> int:
        """The number of parts."""
        return int(self.manifest["parts"])

    @property
    def seed(self) -> int:
        """What decided which users a part has."""
        return int(self.manifest["seed"])

    @property
    def cut(self) -> tuple[int, int]:
        """The number of parts, and the seed."""
        return self.parts, self.seed

    @property
    def shape(self) -> tuple[int, int]:
        """Users × items."""
        return int(self.manifest["n_users"]), int(self.manifest["n_items"])

    @property
    def n_users(self) -> int:
        """The number of users."""
        return self.shape[0]

    @property
    def n_items(self) -> int:
        """The number of items."""
        return self.shape[1]

    @property
    def n_records(self) -> int:
        """The number of pairs (user, item)."""
        return int(self.manifest["n_records"])

    def __len__(self) -> int:
        return self.n_records

    def __repr__(self) -> str:
        n_users, n_items = self.shape
        return (
            f"Partitions({self.folder.url!r}: {n_users:,} users × {n_items:,} items, "
            f"{self.n_records:,} records, {self.parts} parts)"
        )

    def fingerprint(self) -> list[Any]:
        """What tells these data from others."""
        return [*self.shape, self.n_records, self.seed, [e["crc32"] for e in self.manifest["part"]]]

    def read_part(self, part: int) -> PartRecords:
        """Read the records of one part, and check them."""
        users = self._table(self.manifest["users"][part], ["user", "records"])
        counted = bool(self.manifest["counts"])
        columns = ["item", "count"] if counted else ["item"]
        records = self._table(self.manifest["part"][part], columns)
        return PartRecords(
            users["user"].to_numpy().astype(np.int32),
            offsets(users["records"].to_numpy()),
            records["item"].to_numpy().astype(np.int32),
            records["count"].to_numpy().astype(np.float32) if counted else None,
        )

    def item_counts(self) -> NDArray[np.int64]:
        """How many records each item has."""
        return self._table(self.manifest["items"], ["records"])["records"].to_numpy()

    def part_ids(self, part: int) -> Ids | None:
        """The outside ids of the users of a part; None where there are none."""
        if not self.manifest["user_ids"]:
            return None
        return Ids(self._table(self.manifest["users"][part], ["id"])["id"])

    def item_ids(self) -> Ids:
        """The outside ids of the items; their codes where there are none."""
        if not self.manifest["item_ids"]:
            return Ids.range(self.shape[1])
        return Ids(self._table(self.manifest["items"], ["id"])["id"])

    def user_ids(self) -> Ids:
        """The outside ids of the users; their codes where there are none."""
        if not self.manifest["user_ids"]:
            return Ids.range(self.shape[0])
        tables = [self._table(e, ["user", "id"]) for e in self.manifest["users"]]
        return Ids(pl.concat(tables).sort("user")["id"])

    def interactions(self) -> Interactions:
        """All parts in one table, for a machine that can hold them."""
        parts = [self.read_part(part) for part in range(self.parts)]
        users = np.concatenate([p.users for p in parts])
        lengths = np.concatenate([np.diff(p.indptr) for p in parts])
        in_row = np.zeros(self.shape[0], dtype=np.int64)
        in_row[users] = lengths
        indptr = offsets(in_row)
        places = np.repeat(indptr[users] - offsets(lengths)[:-1], lengths)
        places += np.arange(len(places))
        indices = np.empty(len(places), dtype=np.int32)
        indices[places] = np.concatenate([p.items for p in parts])
        counts = None
        if self.manifest["counts"]:
            counts = np.empty(len(places), dtype=np.float32)
            counts[places] = np.concatenate([p.counts for p in parts if p.counts is not None])
        return Interactions(self.user_ids(), self.item_ids(), indptr, indices, counts)

    @property
    def matrix(self) -> Any:
        """All parts as one CSR matrix users × items."""
        return self.interactions().matrix

    def _table(self, entry: Entry, columns: list[str]) -> pl.DataFrame:
        try:
            content = self.folder.read_bytes(entry)
        except DamagedFileError as error:
            raise PartitionsError(f"{error}; write the partitions anew") from None
        return pl.read_parquet(io.BytesIO(content), columns=columns)


def partition(
    data: Interactions | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    parts: int = 8,
    random_state: Any = None,
    **columns: Any,
) -> Partitions:
    """Cut interactions into parts and write them to a folder, for training on a cluster.

    Parameters
    ----------
    data : Interactions, or the path of a file
        Outside ids must be integers or text. A file is read and cut block by block: memory is
        needed for its ids and for one part, not for all of it.
    out : path or URL
        The folder; partitions that are there are replaced. A URL such as ``s3://bucket/plays``
        goes through the package fsspec.
    parts : int, default=8
        At least the number of workers that will train; a multiple of it shares the work evenly.
        The number changes the result of the training, the number of workers does not.
    random_state : int, RandomState or None
        Decides which users come together.
    columns
        For a file: ``user``, ``item``, ``count``, ``sep``, ``header`` and ``on_missing`` as in
        `robirank.load_interactions`.

    Returns
    -------
    Partitions

    Examples
    --------
    >>> import tempfile
    >>> from robirank import make_interactions
    >>> data = make_interactions(200, 100, 3000, random_state=0)
    >>> partitions = partition(data, tempfile.mkdtemp(), parts=4, random_state=0)
    >>> partitions.parts, partitions.shape, partitions.n_records
    (4, (200, 100), 3000)
    >>> bool((partitions.interactions().indices == data.indices).all())
    True
    """
    from sklearn.utils import check_random_state  # workers need not wait for it

    check_count("parts", parts)
    seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    folder = Folder(out)
    if isinstance(data, Interactions):
        if columns:
            raise TypeError(f"{next(iter(columns))} must be left out: data is not a file")
        return _write_all(folder, InMemory(data), parts, seed)
    if not isinstance(data, str | os.PathLike):
        raise TypeError(
            f"data must be Interactions or the path of a file; got {type(data).__name__}"
        )
    with spooled(data, columns) as records:
        return _write_all(folder, records, parts, seed)


def _write_all(folder: Folder, records: Source, parts: int, seed: int) -> Partitions:
    n_users, n_items = len(records.users), len(records.items)
    n_parts = count_parts(parts, n_users, n_items)
    records.users.portable(), records.items.portable()  # an error before anything is written
    folder.make()
    folder.remove(MANIFEST)
    summary = _Summary(n_items)
    files: dict[str, list[Entry]] = {"part": [], "users": []}
    cut = user_parts(seed, n_users, n_parts)
    for number, table in enumerate(records.cut(cut)):
        summary.add(table)
        rows: dict[str, Any] = {"user": np.repeat(table.users, np.diff(table.indptr))}
        rows["item"] = table.items
        if table.counts is not None:
            rows["count"] = table.counts
        about = {"user": table.users, "records": np.diff(table.indptr)}
        owners = _with_ids(about, records.users, table.users)
        files["part"].append(_write(folder, f"part-{number:05d}.parquet", pl.DataFrame(rows)))
        files["users"].append(_write(folder, f"users-{number:05d}.parquet", owners))
    if not summary.records:
        raise ValueError("data holds no interaction, so there is nothing to cut")
    items = _with_ids({"records": summary.of_items}, records.items, None)
    manifest = {
        "format": "robirank-partitions",
        "format_version": FORMAT_VERSION,
        "parts": n_parts,
        "seed": seed,
        "n_users": n_users,
        "n_items": n_items,
        **summary.figures(),
        "user_ids": _savable(records.users),
        "item_ids": _savable(records.items),
        "items": _write(folder, "items.parquet", items),
        **files,
    }
    folder.write_bytes(MANIFEST, json.dumps(manifest, indent=1).encode())
    return Partitions(folder, manifest)


class _Summary:
    """What the manifest says of all records, added up part by part."""

    def __init__(self, n_items: int) -> None:
        self.records, self.counted = 0, False
        self.of_items = np.zeros(n_items, dtype=np.int64)
        self._lengths: Counter[int] = Counter()
        self._weights = {"binary": 0.0, "log": 0.0, "count": 0.0}

    def add(self, table: PartRecords) -> None:
        self.records += len(table.items)
        self.counted |= table.counts is not None
        self.of_items += np.bincount(table.items, minlength=len(self.of_items))
        lengths, times = np.unique(np.diff(table.indptr), return_counts=True)
        self._lengths.update(dict(zip(lengths.tolist(), times.tolist(), strict=True)))
        for weighting in self._weights:
            weight = table.weight(cast(Weighting, weighting))
            total = len(table.items) if weight is None else weight.sum(dtype=np.float64)
            self._weights[weighting] += float(total)

    def figures(self) -> dict[str, Any]:
        return {
            "n_records": self.records,
            "counts": self.counted,
            "lengths": [sorted(self._lengths), [self._lengths[n] for n in sorted(self._lengths)]],
            "mean_weight": {name: total / self.records for name, total in self._weights.items()},
        }


def open_partitions(url: str | os.PathLike[str]) -> Partitions:
    """Open a folder that `partition` wrote; what is missing or cut short is an error at once.

    Parameters
    ----------
    url : path or URL

    Raises
    ------
    PartitionsError
        If a part is missing or has another size than was written, or if the folder was written by
        a newer robirank or is something else. Checksums are compared when a part is read.
    """
    folder = Folder(url)
    manifest = _read_manifest(folder)
    entries = [*manifest["part"], *manifest["users"], manifest["items"]]
    for entry in entries:
        size = folder.size(entry["name"])
        if size is None:
            raise PartitionsError(
                f"{folder.path(entry['name'])} is missing, so these are not whole partitions; "
                "write them anew"
            )
        if size != entry["bytes"]:
            raise PartitionsError(
                f"{folder.path(entry['name'])} is damaged: it has {size} bytes, "
                f"{entry['bytes']} were written; write the partitions anew"
            )
    return Partitions(folder, manifest)


def _read_manifest(folder: Folder) -> dict[str, Any]:
    try:
        with folder.open(MANIFEST) as file:
            manifest = json.load(file)
    except DamagedFileError:
        raise PartitionsError(
            f"there are no partitions at {folder}: it has no {MANIFEST}; "
            "robirank.partition or `robirank latent partition` writes them"
        ) from None
    except ValueError as error:
        raise PartitionsError(f"{folder.path(MANIFEST)} is damaged: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != "robirank-partitions":
        raise PartitionsError(f"{folder.path(MANIFEST)} does not describe partitions")
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise PartitionsError(
            f"the partitions at {folder} have format version {version}; this robirank reads "
            f"version {FORMAT_VERSION}. Write them anew, or use the robirank that wrote them"
        )
    return manifest


def _with_ids(columns: dict[str, Any], ids: Ids, codes: NDArray[np.int32] | None) -> pl.DataFrame:
    if _savable(ids):
        columns["id"] = ids[slice(None) if codes is None else codes]
    return pl.DataFrame(columns)


def _savable(ids: Ids) -> bool:
    """Whether there is anything to write: codes that stand for themselves need not be."""
    return not isinstance(ids.portable(), range)


def _write(folder: Folder, name: str, table: pl.DataFrame) -> Entry:
    content = io.BytesIO()
    table.write_parquet(content, row_group_size=_ROW_GROUP)
    return {**folder.write_bytes(name, content.getvalue()), "rows": len(table)}
