"""A model in many files, as a cluster leaves it: served shard by shard, or read as one.

The folder holds ``users-00000.safetensors`` …, each with the rows of U of one part of the users,
``items-00000.safetensors`` …, each with a stretch of V, and ``manifest.json``.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank.data.ids import Ids
from robirank.data.partitions import Partitions
from robirank.data.user_parts import user_parts
from robirank.engine.strata import DATA_ORDER, Plan
from robirank.latent.retrieve.factor_model import Answer, _asked, _candidates, _check_n, _first
from robirank.latent.retrieve.topk import NOTHING, Factors, Liked, rows_of, top_rows
from robirank.storage.folder import DamagedFileError, Entry, Folder, load_tensors
from robirank.storage.parts import pack_params
from robirank.storage.tensor_file import ModelFileError

__all__ = ["ShardedModel", "load_whole", "write_manifest"]

FORMAT_VERSION = 1
MANIFEST = "manifest.json"


def write_manifest(
    folder: Folder,
    model: Any,
    partitions: Partitions,
    files: Mapping[str, list[Entry]],
    n_iter: int,
) -> None:
    """Write what makes the files of a folder one model; it is written last."""
    params, _, _ = pack_params(model)
    manifest = {
        "format": "robirank-sharded-model",
        "format_version": FORMAT_VERSION,
        "class": type(model).__name__,
        "params": params | {"engine": "local"},
        "n_iter": n_iter,
        "lengths": partitions.manifest["lengths"],
        "shape": partitions.shape,
        "factors": model.factors,
        "parts": partitions.parts,
        "part_seed": partitions.seed,
        "user_ids": partitions.manifest["user_ids"],
        "item_ids": None,
        **files,
    }
    if partitions.manifest["item_ids"]:
        tensors = partitions.item_ids().to_tensors("ids")
        manifest["item_ids"] = folder.write_tensors("item_ids.safetensors", tensors)
    folder.write_bytes(MANIFEST, json.dumps(manifest, indent=1).encode())


class ShardedModel:
    """A model in a folder, of which only what is asked for is opened.

    To recommend to a user, the shard with the user is opened, and the shards of V are gone through
    one by one, from disk. The answers are those of the whole model, to the last bit.

    Parameters
    ----------
    path : path or URL
        ``model`` within the ``run_dir`` of a `RayEngine`.
    num_threads : int, default=0
        0: every core.

    Attributes
    ----------
    shape : (int, int)
        Users × items.
    """

    def __init__(self, path: str | os.PathLike[str], *, num_threads: int = 0) -> None:
        self._folder, self._threads = Folder(path), num_threads
        self.manifest = self._read_manifest()
        self.shape: tuple[int, int] = tuple(self.manifest["shape"])
        self._opened: dict[str, Factors] = {}

    def __repr__(self) -> str:
        n_users, n_items = self.shape
        return (
            f"ShardedModel({self._folder.url!r}: {self.manifest['class']}, {n_users:,} users × "
            f"{n_items:,} items, {self.manifest['parts']} shards)"
        )

    def recommend(
        self,
        userid: ArrayLike,
        user_items: Any,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
        recalculate_user: bool = False,
        items: ArrayLike | None = None,
    ) -> Answer:
        """Find the best items for one user or several; see `FactorModel.recommend`."""
        if recalculate_user:
            raise NotImplementedError(
                "a ShardedModel cannot fold in users; read it as one model with load_model"
            )
        asked, one = _asked(userid, "userid")
        users, N = rows_of("userid", asked, self.shape[0], "users"), _check_n(N)
        candidates = _candidates("items", items, "filter_items", filter_items, self.shape[1])
        liked = None
        if filter_already_liked_items:
            liked = Liked.of(user_items, len(users), self.shape[1])
        if items is not None and candidates is not None:
            N = min(N, len(candidates))
        best = np.full((len(users), N), -1, np.int32), np.full((len(users), N), NOTHING, "f4")
        queries, each = self._rows_of(users), np.arange(len(users), dtype=np.int32)
        for number, (first, last) in enumerate(pairwise(self._bounds)):
            rows = None if candidates is None else _within(candidates, first, last)
            if N and (rows is None or len(rows)):
                ids, scores = top_rows(
                    queries,
                    each,
                    self._map(self.manifest["items"][number], "item_factors"),
                    N,
                    rows=rows,
                    liked=None if liked is None else _liked_within(liked, first, last),
                    n_threads=self._threads or None,
                )
                best = _better(best, (np.where(ids < 0, -1, ids + first), scores))
        return _first(one, *best)

    def factors(self) -> tuple[Factors, Factors]:
        """U and V in the order of the data, for a machine that can hold them."""
        U = np.empty((self.shape[0], self.manifest["factors"]), dtype=np.float32)
        for entry in self.manifest["users"]:
            shard = self._load(entry)
            U[shard["users"]] = shard["user_factors"]
        V = np.concatenate([self._load(entry)["item_factors"] for entry in self.manifest["items"]])
        return U, V

    def user_ids(self) -> Ids | None:
        """The outside ids of the users; None where there are none."""
        if not self.manifest["user_ids"]:
            return None
        ids = np.empty(self.shape[0], dtype=object)
        for entry in self.manifest["users"]:
            shard = self._load(entry)
            ids[shard["users"]] = Ids.from_tensors(shard, "ids")[:]
        return Ids(ids.tolist())

    def item_ids(self) -> Ids | None:
        """The outside ids of the items; None where there are none."""
        entry = self.manifest["item_ids"]
        return None if entry is None else Ids.from_tensors(self._load(entry), "ids")

    @property
    def _bounds(self) -> list[int]:
        plan = Plan(0, DATA_ORDER, self.shape[1], self.manifest["parts"])
        return [int(bound) for bound in plan.bounds]

    @cached_property
    def _places(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The shard of each user, and the row there; no shard need be opened for it."""
        shard, row = np.empty((2, self.shape[0]), dtype=np.int32)
        parts = user_parts(self.manifest["part_seed"], self.shape[0], self.manifest["parts"])
        for number, users in enumerate(parts):
            shard[users], row[users] = number, np.arange(len(users))
        return shard, row

    def _rows_of(self, users: NDArray[np.int32]) -> Factors:
        shard, row = (places[users] for places in self._places)
        rows = np.empty((len(users), self.manifest["factors"]), dtype=np.float32)
        for number in np.unique(shard):
            own = shard == number
            rows[own] = self._map(self.manifest["users"][number], "user_factors")[row[own]]
        return rows

    def _map(self, entry: Entry, name: str) -> Factors:
        """An array of a file, as it lies on the disk; out of a store it is read as a whole."""
        if not self._folder.is_local:
            return self._load(entry)[name]
        if entry["name"] not in self._opened:
            self._opened[entry["name"]] = _map_tensor(self._folder, entry, name)
        return self._opened[entry["name"]]

    def _load(self, entry: Entry) -> dict[str, NDArray[Any]]:
        try:
            return load_tensors(self._folder.read_bytes(entry))
        except DamagedFileError as error:
            raise ModelFileError(str(error)) from None

    def _read_manifest(self) -> dict[str, Any]:
        try:
            with self._folder.open(MANIFEST) as file:
                manifest = json.load(file)
        except DamagedFileError:
            raise FileNotFoundError(f"there is no sharded model at {self._folder}") from None
        except ValueError as error:
            reason = f"its manifest is damaged ({error})"
            raise ModelFileError(f"cannot load {self._folder}: {reason}") from None
        if not isinstance(manifest, dict) or manifest.get("format") != "robirank-sharded-model":
            raise ModelFileError(f"cannot load {self._folder}: it is not a sharded model")
        version = manifest.get("format_version")
        if version != FORMAT_VERSION:
            raise ModelFileError(
                f"cannot load {self._folder}: it has format version {version!r}; this robirank "
                f"reads version {FORMAT_VERSION}"
            )
        return manifest


def load_whole(path: str | os.PathLike[str], classes: Mapping[str, Any]) -> Any:
    """Read a sharded model as one model of one of the classes."""
    sharded = ShardedModel(path)
    name = sharded.manifest["class"]
    if name not in classes:
        raise ModelFileError(
            f"cannot load {os.fspath(path)}: it holds a {name!r:.80}, not a {', '.join(classes)}"
        )
    model = classes[name](**sharded.manifest["params"])
    model.user_factors, model.item_factors = sharded.factors()
    model.user_ids_, model.item_ids_ = sharded.user_ids(), sharded.item_ids()
    model.n_iter_ = model.best_iter_ = sharded.manifest["n_iter"]
    model._learned("sgd", tuple(sharded.manifest["lengths"]))
    return model


def _map_tensor(folder: Folder, entry: Entry, name: str) -> Factors:
    path = folder.path(entry["name"])
    if folder.size(entry["name"]) != entry["bytes"]:
        raise ModelFileError(f"{path} is missing or damaged; {entry['bytes']} bytes were written")
    with folder.open(entry["name"]) as file:
        (length,) = struct.unpack("<Q", file.read(8))
        about = json.loads(file.read(length))[name]
    shape: tuple[int, ...] = tuple(about["shape"])
    offset = 8 + length + about["data_offsets"][0]
    if 0 in shape:
        return np.empty(shape, dtype=np.float32)
    return np.memmap(path, np.float32, "r", offset, shape)


def _within(rows: NDArray[np.int32], first: int, last: int) -> NDArray[np.int32]:
    """Those of rising rows that lie in a stretch, counted from its beginning."""
    low, high = np.searchsorted(rows, [first, last])
    return (rows[low:high] - first).astype(np.int32)


def _liked_within(liked: Liked, first: int, last: int) -> Liked:
    inside = (liked.items >= first) & (liked.items < last)
    starts = np.concatenate([[0], np.cumsum(inside)])[liked.starts]
    return Liked(starts.astype(np.int64), liked.items[inside] - np.int32(first))


def _better(one: Answer, other: Answer) -> Answer:
    """The best of two answers for the same users; of equal scores the lower id comes first."""
    n = one[0].shape[1]
    ids = np.concatenate([one[0], other[0]], axis=1)
    scores = np.concatenate([one[1], other[1]], axis=1)
    order = np.lexsort((np.where(ids < 0, np.iinfo(np.int32).max, ids), -scores), axis=1)[:, :n]
    ids, scores = np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1)
    return ids.astype(np.int32), scores
