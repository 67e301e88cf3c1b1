"""A model in many files, as a cluster leaves it: searched shard by shard, or read as one.

The folder holds ``users-….safetensors``, each with the rows of U of one part of the users,
``items-….safetensors``, each with consecutive rows of V, and ``manifest.json``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from inspect import signature
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from robirank._types import Floats32, Floats64, Ints32
from robirank.data.ids import Ids
from robirank.data.user_items import Mask, UserItems
from robirank.data.user_parts import user_parts
from robirank.engine.strata import DATA_ORDER, Plan
from robirank.latent.factors.factor_model import FactorModel
from robirank.latent.factors.factors import Factors, Queries
from robirank.latent.factors.spread import Spread
from robirank.latent.factors.topk import Groups, merge_best, no_rows, top_rows
from robirank.storage.folder import FileEntry, Folder
from robirank.storage.manifest import MANIFEST, Manifest, read_manifest
from robirank.storage.tensor_file import ArraySpec, ModelFileError

_Size = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]


class ShardedManifest(Manifest, frozen=True, kw_only=True):
    """What ``manifest.json`` says of a sharded model.

    Attributes
    ----------
    model : str
        The class of the model.
    params : dict
        Its parameters.
    numbers : dict
        Fitted numbers and names.
    shape : (int, int)
        Users × items.
    factors, parts, part_seed : int
    users, items : list of FileEntry
        The shards of U and V.
    user_ids : bool
        Whether the shards of U hold outside ids.
    item_ids : FileEntry or None
        The file with the outside ids of the items.
    item_counts : FileEntry or UNSET
        The file with the numbers of interactions of the items; older folders have none.
    """

    format: str = "robirank-sharded-model"
    format_version: int = 2

    model: str
    params: dict[str, bool | int | float | str | None]
    numbers: dict[str, int | float | str]
    shape: tuple[_Size, _Size]
    factors: _Size
    parts: _Size
    part_seed: Annotated[int, msgspec.Meta(ge=0)]
    users: list[FileEntry]
    items: list[FileEntry]
    user_ids: bool
    item_ids: FileEntry | None
    item_counts: FileEntry | msgspec.UnsetType = msgspec.UNSET


class _Shards:
    """The files of one side of a sharded model, opened when they are needed."""

    def __init__(self, folder: Folder, manifest: ShardedManifest) -> None:
        self._folder, self._manifest = folder, manifest
        self._opened: dict[int, Floats32] = {}

    centres: None = None
    content: None = None
    leads: None = None
    disliked: None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_folder": self._folder, "_manifest": self._manifest, "_opened": {}}

    def _ids_of(self, arrays: dict[str, NDArray[Any]], n: int) -> Ids:
        try:
            ids = Ids.from_tensors(arrays, "ids")
        except (ValueError, TypeError) as error:
            raise ModelFileError(f"{self._folder}: {error}") from None
        if len(ids) != n:
            raise ModelFileError(f"{self._folder}: there must be {n} ids; there are {len(ids)}")
        return ids


class UsersInShards(_Shards):
    """The users of a sharded model; see `robirank.latent.factors.factors.AnySide`."""

    counts = None

    def __len__(self) -> int:
        return self._manifest.shape[0]

    @cached_property
    def rows(self) -> Floats32:
        """All rows, in the order of the data."""
        rows = np.empty((len(self), self._manifest.factors), np.float32)
        for shard, users in enumerate(self._parts):
            rows[users] = self._arrays(shard)["user_factors"]
        return rows

    @cached_property
    def ids(self) -> Ids | None:
        """The outside ids; None where there are none."""
        if not self._manifest.user_ids:
            return None
        ids = np.empty(len(self), dtype=object)
        for shard, users in enumerate(self._parts):
            ids[users] = self._ids_of(self._arrays(shard), len(users))[:]
        return Ids(ids.tolist())

    def queries(self, positions: Ints32) -> Queries:
        """The rows of some users; only the shards that have them are opened."""
        shards, places = (of_user[positions] for of_user in self._places)
        rows = np.empty((len(positions), self._manifest.factors), np.float32)
        for shard in np.unique(shards).tolist():
            is_here = shards == shard
            rows[is_here] = self._mapped(shard)[places[is_here]]
        return Queries.all_of(rows)

    def search(self, queries: Queries, n_best: int, **options: Any) -> tuple[Ints32, Floats32]:
        """The users with the largest inner products; all rows are read."""
        return top_rows(queries.rows, queries.asked, self.rows, n_best, **options)

    @cached_property
    def _parts(self) -> list[Ints32]:
        """The users of each shard."""
        manifest = self._manifest
        return user_parts(manifest.part_seed, len(self), manifest.parts)

    @cached_property
    def _places(self) -> tuple[Ints32, Ints32]:
        """The shard of each user, and the row there; no shard need be opened for it."""
        shard, row = np.empty((2, len(self)), dtype=np.int32)
        for number, users in enumerate(self._parts):
            shard[users], row[users] = number, np.arange(len(users))
        return shard, row

    def _mapped(self, shard: int) -> Floats32:
        if shard not in self._opened:
            self._opened[shard] = self._arrays(shard)["user_factors"]
        return self._opened[shard]

    def _arrays(self, shard: int) -> dict[str, NDArray[Any]]:
        """The arrays in a file; those in a file on a disk are views of it."""
        entry, users = self._manifest.users[shard], self._parts[shard]
        spec = {
            "user_factors": ArraySpec("F32", (len(users), self._manifest.factors)),
            "users": ArraySpec("I32", (len(users),)),
        }
        others = "ids." if self._manifest.user_ids else None
        arrays = self._folder.read_arrays(entry, spec, others, mapped=True)
        if not np.array_equal(arrays["users"], users):
            raise ModelFileError(f"{self._folder.path(entry.name)} has the rows of other users")
        return arrays


class ItemsInShards(_Shards):
    """The items of a sharded model; see `robirank.latent.factors.factors.AnySide`.

    ``column`` is a further column of their rows, which is not in the files.
    """

    def __init__(
        self, folder: Folder, manifest: ShardedManifest, column: Floats32 | None = None
    ) -> None:
        super().__init__(folder, manifest)
        self._column = column

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_column": self._column}

    def __len__(self) -> int:
        return self._manifest.shape[1]

    @cached_property
    def rows(self) -> Floats32:
        """All rows, in the order of the data."""
        return np.concatenate([*self.blocks()])

    def blocks(self) -> Iterator[Floats32]:
        """The rows of one shard after the other."""
        yield from (self._rows_of(shard) for shard in range(self._manifest.parts))

    def with_column(self, values: Floats32) -> ItemsInShards:
        """The same with a further column of rows, which is put beside those read from a shard."""
        return ItemsInShards(self._folder, self._manifest, values)

    @cached_property
    def _spread(self) -> Spread:
        return Spread.of(self.blocks())

    def spread_of(self, queries: Queries, num_threads: int) -> Floats64:
        """The standard deviation of the scores of each query over all items."""
        return self._spread.of_scores(queries.rows, queries.asked, num_threads)

    @cached_property
    def ids(self) -> Ids | None:
        """The outside ids; None where there are none."""
        entry = self._manifest.item_ids
        if entry is None:
            return None
        return self._ids_of(self._folder.read_arrays(entry, {}, "ids."), len(self))

    @cached_property
    def counts(self) -> Ints32 | None:
        """The number of interactions of each item; None in a folder that does not say."""
        entry = self._manifest.item_counts
        if isinstance(entry, msgspec.UnsetType):
            return None
        spec = {"item_counts": ArraySpec("I32", (len(self),))}
        return self._folder.read_arrays(entry, spec)["item_counts"]

    def queries(self, positions: Ints32) -> Queries:
        """All rows, and the positions."""
        return Queries(self.rows, positions)

    def search(
        self,
        queries: Queries,
        n_best: int,
        *,
        candidates: Ints32 | None = None,
        allowed: Mask | None = None,
        excluded: UserItems | None = None,
        only: UserItems | None = None,
        scale: Floats32 | None = None,
        ranks: Ints32 | None = None,
        groups: Groups | None = None,
        **options: Any,
    ) -> tuple[Ints32, Floats32]:
        """The items with the largest inner products; shards are gone through one by one."""
        best = no_rows(len(queries.asked), n_best)
        for shard in range(self._manifest.parts):
            first, last = self._bounds[shard], self._bounds[shard + 1]
            among = None if candidates is None else _between(candidates, first, last)
            if among is not None and not len(among):
                continue
            if allowed is not None and not allowed[first:last].any():
                continue
            positions, scores = top_rows(
                queries.rows,
                queries.asked,
                self._rows_of(shard),
                n_best,
                candidates=among,
                allowed=None if allowed is None else allowed[first:last],
                excluded=None if excluded is None else _items_between(excluded, first, last),
                only=None if only is None else _items_between(only, first, last),
                scale=None if scale is None else scale[first:last],
                ranks=None if ranks is None else ranks[first:last],
                groups=None if groups is None else groups.between(first, last),
                **options,
            )
            found = np.where(positions < 0, -1, positions + first), scores
            best = merge_best(best, found, ranks)
        return best

    @cached_property
    def _bounds(self) -> list[int]:
        """Shard s has the items ``bounds[s]:bounds[s + 1]``."""
        plan = Plan(0, DATA_ORDER, len(self), self._manifest.parts)
        return [int(bound) for bound in plan.bounds]

    def _rows_of(self, shard: int) -> Floats32:
        """The rows of a shard, with the further column."""
        rows = self._mapped(shard)
        if self._column is None:
            return rows
        column = self._column[self._bounds[shard] : self._bounds[shard + 1]]
        return np.concatenate([rows, column[:, None]], axis=1)

    def _mapped(self, shard: int) -> Floats32:
        if shard not in self._opened:
            n = self._bounds[shard + 1] - self._bounds[shard]
            spec = {"item_factors": ArraySpec("F32", (n, self._manifest.factors))}
            arrays = self._folder.read_arrays(self._manifest.items[shard], spec, mapped=True)
            self._opened[shard] = arrays["item_factors"]
        return self._opened[shard]


def _between(positions: Ints32, first: int, last: int) -> Ints32:
    """Those of rising positions that lie in first:last, counted from first."""
    low, high = np.searchsorted(positions, [first, last])
    return (positions[low:high] - first).astype(np.int32)


def _items_between(rows: UserItems, first: int, last: int) -> UserItems:
    inside = rows.take((rows.items >= first) & (rows.items < last))
    return replace(inside, items=inside.items - np.int32(first), n_items=last - first)


class ShardedModel(FactorModel):
    """A model in a folder, of which only what is asked for is opened.

    To recommend to a user, the shard with the user is opened, and the shards of V are gone through
    one by one, from disk. The answers are those of the whole model, to the last bit. To fold in
    new users, read it as one model with `robirank.load_model`.

    Parameters
    ----------
    path : path or URL
        ``model`` within the ``run_dir`` of a `RayConfig`.
    num_threads : int, default=0
        0: every core.

    Attributes
    ----------
    shape : (int, int)
        Users × items.
    """

    def __init__(self, path: str | os.PathLike[str], *, num_threads: int = 0) -> None:
        self.path, self.num_threads = path, num_threads
        self.manifest, self.factors_ = open_shards(path)
        self.shape = self.manifest.shape

    def __repr__(self) -> str:
        n_users, n_items = self.shape
        return (
            f"ShardedModel({os.fspath(self.path)!r}: {self.manifest.model}, {n_users:,} users × "
            f"{n_items:,} items, {self.manifest.parts} shards)"
        )


def open_shards(path: str | os.PathLike[str]) -> tuple[ShardedManifest, Factors]:
    """The manifest of a sharded model, and its factors, of which nothing is read yet."""
    folder = Folder(path, ModelFileError)
    if folder.size(MANIFEST) is None:
        raise FileNotFoundError(f"there is no sharded model at {folder}")
    manifest = read_manifest(folder, MANIFEST, ShardedManifest)
    _check_files(folder, manifest)
    return manifest, Factors(UsersInShards(folder, manifest), ItemsInShards(folder, manifest))


def _check_files(folder: Folder, manifest: ShardedManifest) -> None:
    """Raise an error where files cannot hold what the manifest says, before memory is taken."""
    parts = manifest.parts
    for entry in (*manifest.users, *manifest.items, manifest.item_ids, manifest.item_counts):
        if isinstance(entry, FileEntry):
            folder.check(entry)
    if not (len(manifest.users) == len(manifest.items) == parts <= min(manifest.shape)):
        raise ModelFileError(f"{folder}: its manifest must name {parts} shards of each")
    if len({entry.name for entry in (*manifest.users, *manifest.items)}) < 2 * parts:
        raise ModelFileError(f"{folder}: its manifest must name each shard once")
    for entries, n in zip((manifest.users, manifest.items), manifest.shape, strict=True):
        if sum(entry.bytes for entry in entries) < 4 * n * manifest.factors:
            raise ModelFileError(
                f"{folder}: its files are too small for {n} × {manifest.factors} factors"
            )


def load_shards(path: str | os.PathLike[str], cls: Any) -> Any:
    """Read a sharded model as one model of a class."""
    manifest, factors = open_shards(path)
    _check_class(path, manifest, cls)
    model = cls(**manifest.params)
    model.factors_ = factors.with_rows(factors.users.rows, factors.items.rows)
    for name, value in manifest.numbers.items():
        setattr(model, name, value)
    return model


def _check_class(path: str | os.PathLike[str], manifest: ShardedManifest, cls: Any) -> None:
    """Raise an error unless a model of the class can have the parameters and numbers."""
    params, numbers, expected = manifest.params, manifest.numbers, cls.fitted_parts.numbers
    reason = ""
    for name, value in params.items():
        if name not in signature(cls).parameters:
            reason = f"it has a parameter {name!r:.80}"
        elif name == "factors" and value not in (manifest.factors, "auto"):
            reason = f"factors is {value!r:.80}, and rows have {manifest.factors} columns"
    for name, kind in expected.items():
        number: Any = numbers.get(name)
        if type(number) is not kind or (kind is not str and number < 0):
            reason = f"{name} must be a {kind.__name__}; it is {number!r:.80}"
    if numbers.keys() != expected.keys():
        reason = reason or f"its numbers are {', '.join(numbers):.80}"
    if reason:
        raise ModelFileError(f"cannot load {os.fspath(path)}: {reason}")
