"""A model in many files, as a cluster leaves it: served shard by shard, or read as one.

The folder holds ``users-….safetensors``, each with the rows of U of one part of the users,
``items-….safetensors``, each with a stretch of V, and ``manifest.json``.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from inspect import signature
from itertools import pairwise
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank._types import Floats32, Ints32
from robirank.data.ids import Ids
from robirank.data.records import SparseRows
from robirank.data.user_parts import user_parts
from robirank.engine.strata import DATA_ORDER, Plan
from robirank.latent.factors.ids import ById, in_ids
from robirank.latent.factors.query import Answer, Query, UnknownUsers
from robirank.latent.factors.topk import merge_best, no_rows, top_rows
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
        The file with the numbers of records of the items; older folders have none.
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


class ShardedModel:
    """A model in a folder, of which only what is asked for is opened.

    To recommend to a user, the shard with the user is opened, and the shards of V are gone through
    one by one, from disk. The answers are those of the whole model, to the last bit.

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
        self._folder, self.num_threads = Folder(path, ModelFileError), num_threads
        if self._folder.size(MANIFEST) is None:
            raise FileNotFoundError(f"there is no sharded model at {self._folder}")
        self.manifest = read_manifest(self._folder, MANIFEST, ShardedManifest)
        self.shape = self.manifest.shape
        self._opened: dict[str, Floats32] = {}
        self._check()

    def __repr__(self) -> str:
        n_users, n_items = self.shape
        return (
            f"ShardedModel({self._folder.url!r}: {self.manifest.model}, {n_users:,} users × "
            f"{n_items:,} items, {self.manifest.parts} shards)"
        )

    @cached_property
    def by_id(self) -> ById:
        """The same model, asked in outside ids and answering in them; all ids are read for it."""
        n_users, n_items = self.shape
        users, items = self.user_ids(), self.item_ids()
        return ById(
            self,
            Ids.range(n_users) if users is None else users,
            Ids.range(n_items) if items is None else items,
        )

    def recommend(
        self,
        userid: ArrayLike,
        user_items: Any = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
        recalculate_user: bool = False,
        items: ArrayLike | None = None,
        *,
        unknown_users: UnknownUsers | None = None,
    ) -> Answer:
        """Find the best items for one user or several; see `FactorModel.recommend`."""
        if in_ids(userid=userid, items=items, filter_items=filter_items):
            return self.by_id.recommend(
                userid,
                user_items,
                N,
                filter_already_liked_items,
                filter_items,
                recalculate_user,
                items,
                unknown_users=unknown_users,
            )
        if recalculate_user:
            raise NotImplementedError(
                "a ShardedModel cannot fold in users; read it as one model with load_model"
            )
        query = Query.of(
            userid,
            user_items,
            N,
            self.shape[1],
            n_users=self.shape[0],
            filter_already_liked_items=filter_already_liked_items,
            items=items,
            filter_items=filter_items,
            unknown_users=unknown_users,
        )
        queries, each = self._rows_of(query.users), np.arange(len(query.users), dtype=np.int32)
        best = no_rows(len(each), query.n)
        for number, (first, last) in enumerate(pairwise(self._bounds)):
            rows = _within(query.candidates, first, last)
            if rows is None or len(rows):
                ids, scores = top_rows(
                    queries,
                    each,
                    self._item_rows(number),
                    query.n,
                    rows=rows,
                    liked=None if query.liked is None else _liked_within(query.liked, first, last),
                    num_threads=self.num_threads,
                )
                best = merge_best(best, (np.where(ids < 0, -1, ids + first), scores))
        return query.answer(best, queries, each, self.item_counts, self.num_threads)

    def factors(self) -> tuple[Floats32, Floats32]:
        """U and V in the order of the data, for a machine that can hold them."""
        U = np.empty((self.shape[0], self.manifest.factors), dtype=np.float32)
        for number, users in enumerate(self._parts):
            U[users] = self._load_users(number)["user_factors"]
        V = [np.asarray(self._item_rows(number)) for number in range(self.manifest.parts)]
        return U, np.concatenate(V)

    def user_ids(self) -> Ids | None:
        """The outside ids of the users; None where there are none."""
        if not self.manifest.user_ids:
            return None
        ids = np.empty(self.shape[0], dtype=object)
        for number, users in enumerate(self._parts):
            ids[users] = self._ids(self._load_users(number), len(users))[:]
        return Ids(ids.tolist())

    def item_ids(self) -> Ids | None:
        """The outside ids of the items; None where there are none."""
        entry = self.manifest.item_ids
        if entry is None:
            return None
        return self._ids(self._folder.read_arrays(entry, {}, "ids."), self.shape[1])

    def item_counts(self) -> Ints32 | None:
        """The number of records of each item; None in a folder that does not say."""
        entry = self.manifest.item_counts
        if isinstance(entry, msgspec.UnsetType):
            return None
        spec = {"item_counts": ArraySpec("I32", (self.shape[1],))}
        return self._folder.read_arrays(entry, spec)["item_counts"]

    @cached_property
    def _bounds(self) -> list[int]:
        plan = Plan(0, DATA_ORDER, self.shape[1], self.manifest.parts)
        return [int(bound) for bound in plan.bounds]

    @cached_property
    def _parts(self) -> list[Ints32]:
        """The users of each shard."""
        return user_parts(self.manifest.part_seed, self.shape[0], self.manifest.parts)

    @cached_property
    def _places(self) -> tuple[Ints32, Ints32]:
        """The shard of each user, and the row there; no shard need be opened for it."""
        shard, row = np.empty((2, self.shape[0]), dtype=np.int32)
        for number, users in enumerate(self._parts):
            shard[users], row[users] = number, np.arange(len(users))
        return shard, row

    def _rows_of(self, users: Ints32) -> Floats32:
        shard, row = (places[users] for places in self._places)
        rows = np.empty((len(users), self.manifest.factors), dtype=np.float32)
        for number in np.unique(shard):
            own = shard == number
            rows[own] = self._user_rows(number)[row[own]]
        return rows

    def _user_rows(self, number: int) -> Floats32:
        entry, users = self.manifest.users[number], self._parts[number]
        if entry.name not in self._opened:
            arrays = self._folder.map_arrays(entry, self._users_spec(number))
            self._check_users(entry, arrays["users"], users)
            self._opened[entry.name] = arrays["user_factors"]
        return self._opened[entry.name]

    def _item_rows(self, number: int) -> Floats32:
        n = self._bounds[number + 1] - self._bounds[number]
        entry = self.manifest.items[number]
        if entry.name not in self._opened:
            spec = {"item_factors": ArraySpec("F32", (n, self.manifest.factors))}
            self._opened[entry.name] = self._folder.map_arrays(entry, spec)["item_factors"]
        return self._opened[entry.name]

    def _load_users(self, number: int) -> dict[str, NDArray[Any]]:
        others = "ids." if self.manifest.user_ids else None
        entry = self.manifest.users[number]
        shard = self._folder.read_arrays(entry, self._users_spec(number), others)
        self._check_users(entry, shard["users"], self._parts[number])
        return shard

    def _users_spec(self, number: int) -> dict[str, ArraySpec]:
        n = len(self._parts[number])
        factors = ArraySpec("F32", (n, self.manifest.factors))
        return {"user_factors": factors, "users": ArraySpec("I32", (n,))}

    def _check_users(self, entry: FileEntry, found: NDArray[Any], users: Ints32) -> None:
        if not np.array_equal(found, users):
            raise ModelFileError(f"{self._folder.path(entry.name)} has the rows of other users")

    def _ids(self, arrays: dict[str, NDArray[Any]], n: int) -> Ids:
        try:
            ids = Ids.from_tensors(arrays, "ids")
        except (ValueError, TypeError) as error:
            raise ModelFileError(f"{self._folder}: {error}") from None
        if len(ids) != n:
            raise ModelFileError(f"{self._folder}: there must be {n} ids; there are {len(ids)}")
        return ids

    def _check(self) -> None:
        """Sizes that the files allow, before any memory is taken."""
        m = self.manifest
        for entry in (*m.users, *m.items, m.item_ids, m.item_counts):
            if isinstance(entry, FileEntry):
                self._folder.check(entry)
        if not (len(m.users) == len(m.items) == m.parts <= min(m.shape)):
            raise ModelFileError(f"{self._folder}: its manifest must name {m.parts} shards of each")
        if len({entry.name for entry in (*m.users, *m.items)}) < 2 * m.parts:
            raise ModelFileError(f"{self._folder}: its manifest must name each shard once")
        for entries, rows in ((m.users, m.shape[0]), (m.items, m.shape[1])):
            if sum(entry.bytes for entry in entries) < 4 * rows * m.factors:
                raise ModelFileError(
                    f"{self._folder}: its files are too small for {rows} × {m.factors} factors"
                )


def load_sharded(path: str | os.PathLike[str], cls: Any) -> Any:
    """Read a sharded model as one model of a class."""
    sharded = ShardedModel(path)
    params, numbers = sharded.manifest.params, sharded.manifest.numbers
    reason, known = "", signature(cls).parameters
    for name, value in params.items():
        if name not in known:
            reason = f"it has a parameter {name!r:.80}"
        elif name == "factors" and value != sharded.manifest.factors:
            reason = f"factors is {value!r:.80}, and rows have {sharded.manifest.factors} columns"
    for name, kind in cls.fitted_parts.numbers.items():
        found: Any = numbers.get(name)
        if type(found) is not kind or (kind is not str and found < 0):
            reason = f"{name} must be a {kind.__name__}; it is {found!r:.80}"
    if numbers.keys() != cls.fitted_parts.numbers.keys():
        reason = reason or f"its numbers are {', '.join(numbers):.80}"
    if reason:
        raise ModelFileError(f"cannot load {os.fspath(path)}: {reason}")
    model = cls(**params)
    model.user_factors, model.item_factors = sharded.factors()
    model.user_ids_, model.item_ids_ = sharded.user_ids(), sharded.item_ids()
    counts = sharded.item_counts()
    if counts is not None:
        model.item_counts_ = counts
    for name, value in numbers.items():
        setattr(model, name, value)
    return model


def _liked_within(liked: SparseRows, first: int, last: int) -> SparseRows:
    """The items of a stretch, counted from its beginning."""
    inside = liked.take((liked.items >= first) & (liked.items < last))
    return replace(inside, items=inside.items - np.int32(first))


def _within(rows: Ints32 | None, first: int, last: int) -> Ints32 | None:
    """Those of rising rows that lie in a stretch, counted from its beginning."""
    if rows is None:
        return None
    low, high = np.searchsorted(rows, [first, last])
    return (rows[low:high] - first).astype(np.int32)
