"""Interactions in files, cut into parts of users; each worker of a cluster reads its own parts.

A folder of partitions holds

- ``part-00000.parquet`` …: the interactions of a part, user after user, with the columns user,
  item and optionally count;
- ``users-00000.parquet`` …: the users of the part in the same order, with the columns user,
  records (the number of interactions) and optionally id (the outside id);
- ``items.parquet``: all items in the order of their positions, with the columns records and
  optionally id;
- ``manifest.json``: shape, seed, checksums. It is written last, so a folder that has it is
  complete.

The columns user and item hold positions. `user_parts` decides which users a part has, so that the
local engine with the same seed and number of parts computes the same bits.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, get_args

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank._checks import check_count
from robirank._random import as_random_state
from robirank._sparse import offsets
from robirank.data.ids import Ids
from robirank.data.interaction_files import POLARS_ERRORS
from robirank.data.interactions import Interactions, grouped
from robirank.data.spool import Spool, spooled
from robirank.data.user_items import UserItems, Weighting, check_table
from robirank.data.user_parts import count_parts, user_parts
from robirank.errors import ArgumentError
from robirank.storage.folder import DamagedFileError, FileEntry, Folder
from robirank.storage.manifest import (
    MANIFEST,
    Count,
    Manifest,
    format_of,
    read_manifest,
    write_manifest,
)

_FORMAT = "robirank-partitions"
_ROW_GROUP = 1 << 18
_LENGTH = "records"  # what the files call the number of interactions of a user or an item
_Size = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]
_TYPES = {
    "user": (pl.Int32,),
    "item": (pl.Int32,),
    "count": (pl.Float32,),
    _LENGTH: (pl.Int64,),
    "id": (pl.Int64, pl.String),
}
_COLUMNS = {  # of the files that `partition` writes; count and id are optional
    r"part-\d{5}\.parquet": {"user", "item", "count"},
    r"users-\d{5}\.parquet": {"user", _LENGTH, "id"},
    r"items\.parquet": {_LENGTH, "id"},
}


class PartitionsError(DamagedFileError):
    """A folder does not hold complete partitions; the message says what is wrong."""


class PartitionsManifest(Manifest, frozen=True, kw_only=True):
    """The content of ``manifest.json``: numbers, what is optional, and the files.

    ``lengths`` are the numbers of interactions that users have, and how many users have each.
    """

    format: str = _FORMAT
    format_version: int = 2

    parts: _Size
    seed: Count
    n_users: _Size
    n_items: _Size
    n_interactions: Count = msgspec.field(name="n_records")
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
        part_rows, user_rows = ([e.rows or 0 for e in files] for files in (self.part, self.users))
        right = (
            len(part_rows) == len(user_rows) == self.parts <= self.n_users
            and self.items.rows == self.n_items
            and len(times) == len(lengths) == len(set(lengths))
            and sorted(lengths) == lengths
            and sum(user_rows) == sum(times) == self.n_users
            and sum(part_rows) == self.n_interactions
            and sum(n * k for n, k in zip(lengths, times, strict=True)) == self.n_interactions
            and self.mean_weight.keys() == set(get_args(Weighting))
        )
        if not right:
            raise ValueError(
                "its numbers of users, items, interactions and parts do not fit together"
            )
        for entry in (*self.part, *self.users):
            if (entry.rows or 0) > 8 * entry.bytes:
                raise ValueError(f"{entry.name} is too small for {entry.rows} rows")


class Partitions:
    """A folder of partitions, opened by `open_partitions`.

    Attributes
    ----------
    folder : Folder
    manifest : PartitionsManifest
        The content of ``manifest.json``.
    parts, seed, n_users, n_items : int
        The number of parts, the seed that decided which users a part has, and the shape of the
        table.
    n_interactions : int
        The number of interactions.
    cut : (int, int)
        The number of parts, and the seed.
    shape : (int, int)
        Users × items.
    """

    def __init__(self, folder: Folder, manifest: PartitionsManifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.cut = self.parts, self.seed = manifest.parts, manifest.seed
        self.shape = self.n_users, self.n_items = manifest.n_users, manifest.n_items
        self.n_interactions = manifest.n_interactions

    def __len__(self) -> int:
        return self.n_interactions

    def __repr__(self) -> str:
        n_users, n_items = self.shape
        return (
            f"Partitions({self.folder.url!r}: {n_users:,} users × {n_items:,} items, "
            f"{self.n_interactions:,} interactions, {self.parts} parts)"
        )

    def fingerprint(self) -> list[Any]:
        """Values that differ between different data."""
        return [*self.shape, self.n_interactions, self.seed, [e.crc32 for e in self.manifest.part]]

    def read_part(self, part: int) -> UserItems:
        """Read the interactions of one part and their counts, and check them."""
        user_file, rows = self.manifest.users[part], self.manifest.part[part]
        users = self._table(user_file, ["user", _LENGTH])
        columns = ["item", "count"] if self.manifest.counts else ["item"]
        table = self._table(rows, columns)
        lengths, items = users[_LENGTH].to_numpy(), table["item"].to_numpy()
        counts = table["count"].to_numpy() if self.manifest.counts else None
        if not np.array_equal(users["user"], self.part_users[part]):
            raise self._refuse(user_file, "its users are not those of the part")
        indptr = offsets(lengths)
        try:
            check_table(indptr, items, counts, (len(lengths), self.n_items))
        except ValueError as error:
            raise self._refuse(rows, str(error)) from None
        return UserItems(indptr, items, counts, self.n_items)

    @cached_property
    def part_users(self) -> list[NDArray[np.int32]]:
        """The users of each part."""
        return user_parts(self.seed, self.n_users, self.parts)

    def item_counts(self) -> NDArray[np.int64]:
        """The number of interactions of each item."""
        return self._table(self.manifest.items, [_LENGTH])[_LENGTH].to_numpy()

    def part_ids(self, part: int) -> Ids | None:
        """The outside ids of the users of a part; None where there are none."""
        return self._ids(self.manifest.users[part]) if self.manifest.user_ids else None

    def item_ids(self) -> Ids | None:
        """The outside ids of the items; None where there are none."""
        return self._ids(self.manifest.items) if self.manifest.item_ids else None

    def user_ids(self) -> Ids | None:
        """The outside ids of the users; None where there are none."""
        if not self.manifest.user_ids:
            return None
        tables = [self._table(e, ["user", "id"]) for e in self.manifest.users]
        return Ids(pl.concat(tables).sort("user")["id"])

    def interactions(self) -> Interactions:
        """All parts in one table, for a machine that can hold them."""
        parts = [self.read_part(part) for part in range(self.parts)]
        lengths = np.concatenate([part.user_counts() for part in parts])
        counts = [part.weight for part in parts if part.weight is not None]
        return grouped(
            self.user_ids() or Ids.range(self.n_users),
            self.item_ids() or Ids.range(self.n_items),
            np.repeat(np.concatenate(self.part_users), lengths),
            np.concatenate([part.items for part in parts]),
            np.concatenate(counts) if counts else None,
        )

    @property
    def matrix(self) -> Any:
        """All parts as one CSR matrix users × items."""
        return self.interactions().matrix

    def _ids(self, entry: FileEntry) -> Ids:
        return Ids(self._table(entry, ["id"])["id"])

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
        Outside ids must be integers or text. A file is read and cut in chunks: memory is needed
        for its ids and for one part, not for all of it.
    out : path or URL
        The folder; partitions that are there are replaced, and files of other origin are never
        overwritten: then it is a FileExistsError. A URL such as ``s3://bucket/plays``
        goes through the package fsspec.
    parts : int, default=8
        At least the number of workers that will train; a multiple of it shares the work evenly.
        The number changes the result of the training, the number of workers does not.
    random_state : int, RandomState or None
        Decides which users are in the same part.
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
    >>> partitions.parts, partitions.shape, partitions.n_interactions
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
        return write_parts(folder, data, parts, seed)
    if not isinstance(data, str | os.PathLike):
        raise TypeError(
            f"data must be Interactions or the path of a file; got {type(data).__name__}"
        )
    with spooled(data, columns) as spool:
        return write_parts(folder, spool, parts, seed)


def write_parts(folder: Folder, data: Interactions | Spool, parts: int, seed: int) -> Partitions:
    """Write partitions to a folder; the seed decides which users are in the same part."""
    n_users, n_items = len(data.users), len(data.items)
    n_parts = count_parts(parts, n_users, n_items)
    data.users.portable(), data.items.portable()  # raises before anything is written
    _check_replaceable(folder)
    folder.make()
    folder.remove(MANIFEST)
    files: dict[str, list[FileEntry]] = {"part": [], "users": []}
    item_counts, user_counts = np.zeros(n_items, dtype=np.int64), []
    weights = dict.fromkeys(get_args(Weighting), 0.0)
    cut = user_parts(seed, n_users, n_parts)
    for number, (users, rows) in enumerate(zip(cut, _cut(data, cut), strict=True)):
        lengths = rows.user_counts()
        part = {"user": np.repeat(users, lengths), "item": rows.items, "count": rows.weight}
        owners = {"user": users, _LENGTH: lengths, "id": _ids(data.users, users)}
        files["part"].append(_write(folder, f"part-{number:05d}.parquet", part))
        files["users"].append(_write(folder, f"users-{number:05d}.parquet", owners))
        user_counts.append(lengths)
        item_counts += np.bincount(rows.items, minlength=n_items)
        for weighting in weights:
            weight = rows.weighted(weighting).weight
            total = len(rows.items) if weight is None else weight.sum(dtype=np.float64)
            weights[weighting] += float(total)
    n_interactions = int(item_counts.sum())
    if not n_interactions:
        raise ArgumentError("data", "holds no interaction, so there is nothing to cut")
    items = {_LENGTH: item_counts, "id": _ids(data.items, np.arange(n_items))}
    lengths, times = np.unique(np.concatenate(user_counts), return_counts=True)
    manifest = PartitionsManifest(
        parts=n_parts,
        seed=seed,
        n_users=n_users,
        n_items=n_items,
        n_interactions=n_interactions,
        counts=rows.weight is not None,
        lengths=(lengths.tolist(), times.tolist()),
        mean_weight={weighting: total / n_interactions for weighting, total in weights.items()},
        user_ids=not isinstance(data.users.portable(), range),
        item_ids=not isinstance(data.items.portable(), range),
        items=_write(folder, "items.parquet", items),
        part=files["part"],
        users=files["users"],
    )
    return Partitions(folder, write_manifest(folder, MANIFEST, manifest))


def _cut(data: Interactions | Spool, parts: Sequence[NDArray[np.int32]]) -> Iterator[UserItems]:
    """Yield the items and counts of the users of each part."""
    if isinstance(data, Spool):
        yield from data.cut(parts)
        return
    whole = UserItems(data.indptr, data.indices, data.counts, data.n_items)
    for users in parts:
        yield whole.rows(users)


def _ids(ids: Ids, positions: NDArray[Any]) -> pl.Series | None:
    """The outside ids to write; None where ids equal their positions."""
    return None if isinstance(ids.portable(), range) else ids.series(positions)


def _write(folder: Folder, name: str, columns: dict[str, Any]) -> FileEntry:
    table = pl.DataFrame({n: column for n, column in columns.items() if column is not None})
    content = io.BytesIO()
    table.write_parquet(content, row_group_size=_ROW_GROUP)
    return msgspec.structs.replace(folder.write_bytes(name, content.getvalue()), rows=len(table))


def _check_replaceable(folder: Folder) -> None:
    """Raise an error if a file would be overwritten that `partition` did not write.

    Without a manifest, files that `partition` wrote before it was interrupted are recognised by
    their columns.
    """
    if folder.size(MANIFEST) is not None:
        foreign = [] if format_of(folder, MANIFEST) == _FORMAT else [MANIFEST]
    else:
        foreign = [
            name
            for name in folder.names()
            for pattern, columns in _COLUMNS.items()
            if re.fullmatch(pattern, name) and not _columns_of(folder, name) <= columns
        ]
    if foreign:
        raise FileExistsError(
            f"{folder.path(foreign[0])} is there already, and is no file of partitions; "
            "name another folder"
        )


def _columns_of(folder: Folder, name: str) -> set[str]:
    try:
        with folder.open(name) as file:
            return set(pl.read_parquet_schema(file))
    except (DamagedFileError, *POLARS_ERRORS):
        return {"unknown"}


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

    Examples
    --------
    >>> import tempfile
    >>> from robirank import make_interactions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = make_interactions(20, 10, 60, random_state=0)
    ...     _ = partition(data, folder, parts=2, random_state=0)
    ...     parts = open_partitions(folder)
    >>> parts.n_users, parts.n_items
    (20, 10)
    """
    folder = Folder(url, PartitionsError)
    if folder.size(MANIFEST) is None:
        raise PartitionsError(
            f"there are no partitions at {folder}: it has no {MANIFEST}; "
            "robirank.partition or `robirank latent partition` writes them"
        )
    manifest = read_manifest(folder, MANIFEST, PartitionsManifest)
    for entry in (*manifest.part, *manifest.users, manifest.items):
        folder.check(entry)
    return Partitions(folder, manifest)
