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
import os
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Never, cast, get_args

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank._checks import check_count
from robirank._random import as_random_state
from robirank._sparse import offsets, places_of_rows
from robirank.data.ids import Ids
from robirank.data.interaction_files import POLARS_ERRORS
from robirank.data.interactions import Interactions
from robirank.data.partition_sources import InMemory, Source, spooled
from robirank.data.records import SparseRows, Weighting
from robirank.data.user_parts import count_parts, user_parts
from robirank.storage.folder import DamagedFileError, FileEntry, Folder
from robirank.storage.manifest import (
    MANIFEST,
    Count,
    Manifest,
    format_of,
    read_manifest,
    write_manifest,
)

_ROW_GROUP = 1 << 18
_Size = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
_TYPES = {
    "user": (pl.Int32,),
    "item": (pl.Int32,),
    "count": (pl.Float32,),
    "records": (pl.Int64,),
    "id": (pl.Int64, pl.String),
}
_COLUMNS = {  # of the files that `partition` writes; counts and ids may be left out
    r"part-\d{5}\.parquet": {"user", "item", "count"},
    r"users-\d{5}\.parquet": {"user", "records", "id"},
    r"items\.parquet": {"records", "id"},
}


class PartitionsError(DamagedFileError):
    """A folder that does not hold whole partitions; the message says what is wrong."""


class PartitionsManifest(Manifest, frozen=True, kw_only=True):
    """What ``manifest.json`` says.

    Attributes
    ----------
    parts, seed, n_users, n_items, n_records : int
    counts : bool
        Whether some pair counts more than once.
    lengths : (list of int, list of int)
        The numbers of records that users have, and how many users have each.
    mean_weight : dict
        The mean weight of a record, for each weighting.
    user_ids, item_ids : bool
        Whether there are outside ids.
    part, users, items
        The files.
    """

    format: str = "robirank-partitions"
    format_version: int = 2

    parts: _Size
    seed: Count
    n_users: _Size
    n_items: _Size
    n_records: Count
    counts: bool
    lengths: tuple[list[Count], list[Count]]
    mean_weight: dict[Weighting, Annotated[float, msgspec.Meta(gt=0)]]
    user_ids: bool
    item_ids: bool
    part: list[FileEntry]
    users: list[FileEntry]
    items: FileEntry

    def __post_init__(self) -> None:
        lengths, times = self.lengths
        of_parts, of_users = ([e.rows or 0 for e in some] for some in (self.part, self.users))
        right = (
            len(of_parts) == len(of_users) == self.parts <= self.n_users
            and self.items.rows == self.n_items
            and len(times) == len(lengths) == len(set(lengths))
            and sorted(lengths) == lengths
            and sum(of_users) == sum(times) == self.n_users
            and sum(of_parts) == self.n_records
            and sum(n * k for n, k in zip(lengths, times, strict=True)) == self.n_records
            and self.mean_weight.keys() == set(get_args(Weighting))
        )
        if not right:
            raise ValueError("its numbers of users, items, records and parts do not fit together")
        for entry in (*self.part, *self.users):
            if (entry.rows or 0) > 8 * entry.bytes:
                raise ValueError(f"{entry.name} is too small for {entry.rows} rows")

    def entries(self) -> list[FileEntry]:
        """All files."""
        return [*self.part, *self.users, self.items]


@dataclass(frozen=True)
class Partitions:
    """A folder of partitions, opened by `open_partitions`.

    Attributes
    ----------
    folder : Folder
    manifest : PartitionsManifest
        What ``manifest.json`` says.
    """

    folder: Folder
    manifest: PartitionsManifest

    @property
    def parts(self) -> int:
        """The number of parts."""
        return self.manifest.parts

    @property
    def seed(self) -> int:
        """What decided which users a part has."""
        return self.manifest.seed

    @property
    def cut(self) -> tuple[int, int]:
        """The number of parts, and the seed."""
        return self.parts, self.seed

    @property
    def shape(self) -> tuple[int, int]:
        """Users × items."""
        return self.manifest.n_users, self.manifest.n_items

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
        return self.manifest.n_records

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
        return [*self.shape, self.n_records, self.seed, [e.crc32 for e in self.manifest.part]]

    def read_part(self, part: int) -> SparseRows:
        """Read the records of one part and their counts, and check them."""
        owners, rows = self.manifest.users[part], self.manifest.part[part]
        users = self._table(owners, ["user", "records"])
        columns = ["item", "count"] if self.manifest.counts else ["item"]
        table = self._table(rows, columns)
        lengths, items = users["records"].to_numpy(), table["item"].to_numpy()
        counts = table["count"].to_numpy() if self.manifest.counts else None
        if not np.array_equal(users["user"], self.part_users[part]):
            raise self._refuse(owners, "its users are not those of the part")
        if (lengths < 0).any() or lengths.sum() != len(items):
            raise self._refuse(rows, "it does not have the records that its users should have")
        indptr = offsets(lengths)
        rising = np.diff(items.astype(np.int64), prepend=-1) > 0
        rising[indptr[:-1][lengths > 0]] = True
        if len(items) and (items.min() < 0 or items.max() >= self.n_items or not rising.all()):
            raise self._refuse(rows, f"items must rise within a user, from 0 to {self.n_items - 1}")
        if counts is not None and not (np.isfinite(counts) & (counts > 0)).all():
            raise self._refuse(rows, "counts must be positive numbers")
        return SparseRows(indptr, items, counts)

    @cached_property
    def part_users(self) -> list[NDArray[np.int32]]:
        """The users of each part."""
        return user_parts(self.seed, self.n_users, self.parts)

    def item_counts(self) -> NDArray[np.int64]:
        """How many records each item has."""
        return self._table(self.manifest.items, ["records"])["records"].to_numpy()

    def part_ids(self, part: int) -> Ids | None:
        """The outside ids of the users of a part; None where there are none."""
        if not self.manifest.user_ids:
            return None
        return Ids(self._table(self.manifest.users[part], ["id"])["id"])

    def item_ids(self) -> Ids | None:
        """The outside ids of the items; None where there are none."""
        if not self.manifest.item_ids:
            return None
        return Ids(self._table(self.manifest.items, ["id"])["id"])

    def user_ids(self) -> Ids | None:
        """The outside ids of the users; None where there are none."""
        if not self.manifest.user_ids:
            return None
        tables = [self._table(e, ["user", "id"]) for e in self.manifest.users]
        return Ids(pl.concat(tables).sort("user")["id"])

    def interactions(self) -> Interactions:
        """All parts in one table, for a machine that can hold them."""
        parts = [self.read_part(part) for part in range(self.parts)]
        users = np.concatenate(self.part_users)
        lengths = np.empty(self.n_users, dtype=np.int64)
        lengths[users] = np.concatenate([p.user_counts() for p in parts])
        indptr = offsets(lengths)
        _, places = places_of_rows(indptr, users)
        indices = np.empty(len(places), dtype=np.int32)
        indices[places] = np.concatenate([p.items for p in parts])
        counts = None
        if self.manifest.counts:
            counts = np.empty(len(places), dtype=np.float32)
            counts[places] = np.concatenate([p.weight for p in parts if p.weight is not None])
        user_ids = self.user_ids() or Ids.range(self.n_users)
        item_ids = self.item_ids() or Ids.range(self.n_items)
        return Interactions(user_ids, item_ids, indptr, indices, counts)

    @property
    def matrix(self) -> Any:
        """All parts as one CSR matrix users × items."""
        return self.interactions().matrix

    def _table(self, entry: FileEntry, columns: list[str]) -> pl.DataFrame:
        content = self.folder.read_bytes(entry)
        try:
            table = pl.read_parquet(io.BytesIO(content), columns=columns)
        except POLARS_ERRORS as error:
            raise self._refuse(entry, str(error)) from None
        typed = all(table[name].dtype in _TYPES[name] for name in columns)
        if len(table) != entry.rows or not typed or any(table.null_count().row(0)):
            raise self._refuse(entry, "its columns are not those that were written")
        return table

    def _refuse(self, entry: FileEntry, reason: str) -> PartitionsError:
        path = self.folder.path(entry.name)
        return PartitionsError(f"{path} cannot be used: {reason}; write the partitions anew")


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
        The folder; partitions that are there are replaced, and files of other origin are never
        overwritten: then it is a FileExistsError. A URL such as ``s3://bucket/plays``
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
    check_count("parts", parts)
    seed = int(as_random_state(random_state).randint(np.iinfo(np.int32).max))
    folder = Folder(out, PartitionsError)
    if isinstance(data, Interactions):
        if columns:
            raise TypeError(f"{next(iter(columns))} must be left out: data is not a file")
        return write_parts(folder, InMemory(data), parts, seed)
    if not isinstance(data, str | os.PathLike):
        raise TypeError(
            f"data must be Interactions or the path of a file; got {type(data).__name__}"
        )
    with spooled(data, columns) as records:
        return write_parts(folder, records, parts, seed)


def write_parts(folder: Folder, records: Source, parts: int, seed: int) -> Partitions:
    """Write partitions; the seed decides which users come together."""
    n_users, n_items = len(records.users), len(records.items)
    n_parts = count_parts(parts, n_users, n_items)
    records.users.portable(), records.items.portable()  # an error before anything is written
    _check_replaceable(folder)
    folder.make()
    folder.remove(MANIFEST)
    summary = _Summary(n_items)
    files: dict[str, list[FileEntry]] = {"part": [], "users": []}
    cut = user_parts(seed, n_users, n_parts)
    for number, (users, table) in enumerate(zip(cut, records.cut(cut), strict=True)):
        summary.add(table)
        rows: dict[str, Any] = {"user": np.repeat(users, table.user_counts())}
        rows["item"] = table.items
        if table.weight is not None:
            rows["count"] = table.weight
        owners = _with_ids({"user": users, "records": table.user_counts()}, records.users, users)
        files["part"].append(_write(folder, f"part-{number:05d}.parquet", pl.DataFrame(rows)))
        files["users"].append(_write(folder, f"users-{number:05d}.parquet", owners))
    if not summary.records:
        raise ValueError("data holds no interaction, so there is nothing to cut")
    items = _with_ids({"records": summary.of_items}, records.items, None)
    manifest = PartitionsManifest(
        parts=n_parts,
        seed=seed,
        n_users=n_users,
        n_items=n_items,
        **summary.figures(),
        user_ids=_savable(records.users),
        item_ids=_savable(records.items),
        items=_write(folder, "items.parquet", items),
        part=files["part"],
        users=files["users"],
    )
    return Partitions(folder, write_manifest(folder, MANIFEST, manifest))


def _check_replaceable(folder: Folder) -> None:
    """Raise an error where a file would be overwritten that `partition` did not write.

    A folder without a manifest may be one that it was stopped in.
    """
    if folder.size(MANIFEST) is not None:
        if format_of(folder, MANIFEST) != "robirank-partitions":
            _refuse_to_replace(folder, MANIFEST)
        return
    for name in folder.names():
        for pattern, columns in _COLUMNS.items():
            if re.fullmatch(pattern, name) and not _columns_of(folder, name) <= columns:
                _refuse_to_replace(folder, name)


def _columns_of(folder: Folder, name: str) -> set[str]:
    try:
        with folder.open(name) as file:
            return set(pl.read_parquet_schema(file))
    except (DamagedFileError, *POLARS_ERRORS):
        return {"unknown"}


def _refuse_to_replace(folder: Folder, name: str) -> Never:
    raise FileExistsError(
        f"{folder.path(name)} is there already, and is no file of partitions; name another folder"
    )


class _Summary:
    """What the manifest says of all records, added up part by part."""

    def __init__(self, n_items: int) -> None:
        self.records, self.counted = 0, False
        self.of_items = np.zeros(n_items, dtype=np.int64)
        self._lengths: Counter[int] = Counter()
        self._weights = {"binary": 0.0, "log": 0.0, "count": 0.0}

    def add(self, table: SparseRows) -> None:
        self.records += len(table.items)
        self.counted |= table.weight is not None
        self.of_items += np.bincount(table.items, minlength=len(self.of_items))
        lengths, times = np.unique(table.user_counts(), return_counts=True)
        self._lengths.update(dict(zip(lengths.tolist(), times.tolist(), strict=True)))
        for weighting in self._weights:
            weight = table.weighted(cast(Weighting, weighting)).weight
            total = len(table.items) if weight is None else weight.sum(dtype=np.float64)
            self._weights[weighting] += float(total)

    def figures(self) -> dict[str, Any]:
        return {
            "n_records": self.records,
            "counts": self.counted,
            "lengths": (sorted(self._lengths), [self._lengths[n] for n in sorted(self._lengths)]),
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
    folder = Folder(url, PartitionsError)
    if folder.size(MANIFEST) is None:
        raise PartitionsError(
            f"there are no partitions at {folder}: it has no {MANIFEST}; "
            "robirank.partition or `robirank latent partition` writes them"
        )
    manifest = read_manifest(folder, MANIFEST, PartitionsManifest)
    for entry in manifest.entries():
        folder.check(entry)
    return Partitions(folder, manifest)


def _with_ids(columns: dict[str, Any], ids: Ids, codes: NDArray[np.int32] | None) -> pl.DataFrame:
    if _savable(ids):
        columns["id"] = ids[slice(None) if codes is None else codes]
    return pl.DataFrame(columns)


def _savable(ids: Ids) -> bool:
    """Whether there is anything to write: codes that stand for themselves need not be."""
    return not isinstance(ids.portable(), range)


def _write(folder: Folder, name: str, table: pl.DataFrame) -> FileEntry:
    content = io.BytesIO()
    table.write_parquet(content, row_group_size=_ROW_GROUP)
    return msgspec.structs.replace(folder.write_bytes(name, content.getvalue()), rows=len(table))
