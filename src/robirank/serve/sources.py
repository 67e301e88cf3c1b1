"""Where the server has its model and what goes beside it: files, or objects in memory."""

from __future__ import annotations

import copy
import logging
import os
import shutil
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from robirank.data.features import read_rows
from robirank.data.interaction_files import load_interactions
from robirank.data.interactions import Interactions
from robirank.data.names import Names
from robirank.errors import ArgumentError
from robirank.latent.factors.factor_model import FactorModel
from robirank.latent.factors.item_map import ItemMap
from robirank.latent.factors.item_table import ItemTable
from robirank.latent.factors.packed_file import write_packed
from robirank.latent.gpu.resolve import resolve_device
from robirank.serve.loaded import About, Served, ServedRecommender, serve_model
from robirank.serve.logs import tell
from robirank.serve.messages import RuleSet
from robirank.storage.estimators import load_extra, load_model
from robirank.storage.tensor_file import ModelFileError, written_checksum

#: What says whether a file has changed: its inode, size and time; None where there is none.
Stamp = tuple[int, int, int] | None

_CHUNK = 1 << 20
_FILES = ("model", "train", "items", "names", "map", "compare")


@dataclass(frozen=True, eq=False)
class Sources:
    """A model and what is known of its users and items; each a path, or the thing itself.

    Attributes
    ----------
    model : path or estimator
    train : path or Interactions, optional
        What users have.
    train_columns : dict
        Arguments of `load_interactions` for a file.
    items : path, DataFrame or dict of arrays, optional
        The table of items.
    item_id : str
        Its column of ids.
    names : path or dict from id to str, optional
    name_columns : str, optional
    rules : RuleSet, optional
        What always holds.
    num_threads : int, optional
        Of each answer; every core by default.
    mapped : bool
        Whether the file of the model is mapped, as one that nobody writes to can be; and so are
        its packed items, where `pack_items` has written them beside it.
    map : path or ItemMap, optional
        The map of the items that the page shows.
    compare : path or estimator, optional
        A second model, which the page shows beside the first.
    """

    model: Any
    train: Any = None
    train_columns: dict[str, Any] = field(default_factory=dict)
    items: Any = None
    item_id: str = "id"
    names: Any = None
    name_columns: str | None = None
    rules: RuleSet | None = None
    num_threads: int | None = None
    mapped: bool = False
    map: Any = None
    compare: Any = None

    def stamps(self) -> dict[str, Stamp]:
        """The stamp of each file."""
        named = {name: getattr(self, name) for name in _FILES}
        return {name: _stamp(path) for name, path in named.items() if _is_path(path)}

    def load(self) -> Served:
        """Read everything, and lay it out for answers; a bad file is an error."""
        model, about, packed = self.model, None, None
        if _is_path(self.model):
            model, about = _read_model(Path(self.model), mapped=self.mapped)
            packed = _packed_beside(Path(self.model)) if self.mapped else None
        if self.num_threads is not None and hasattr(model, "num_threads"):
            model = copy.copy(model)
            model.num_threads = self.num_threads
        beside = {
            "train": self._interactions(),
            "table": self._table(),
            "names": self._names(),
            "rules": self.rules,
        }
        served = serve_model(model, about, packed=packed, **beside)
        if not isinstance(served, ServedRecommender):
            self._check_no_page_files(served)
            return served
        return replace(served, item_map=self._map(served), other=self._other(beside))

    def _check_no_page_files(self, served: Served) -> None:
        for name in ("map", "compare"):
            if getattr(self, name) is not None:
                kind = type(served.model).__name__
                raise ArgumentError(
                    name, f"is for models of users and items; the model is a {kind}"
                )

    def _map(self, served: ServedRecommender) -> ItemMap | None:
        """The map, unless it was made of an older model: then none, and the log says so."""
        if self.map is None or isinstance(self.map, ItemMap):
            return self.map
        found = ItemMap.load(self.map)
        if len(found.points) == len(served.items) and found.model in (None, served.checksum):
            return found
        tell(
            logging.WARNING,
            "the map was made of another model, and two directions of the factors are shown",
            map=str(found.model),
            model=served.checksum,
        )
        return None

    def _other(self, beside: Mapping[str, Any]) -> ServedRecommender | None:
        """The model that is compared, with the same things beside it."""
        if self.compare is None:
            return None
        model, about = self.compare, None
        if _is_path(self.compare):
            model, about = _read_model(Path(self.compare), mapped=False)
        if not isinstance(model, FactorModel):
            kind = type(model).__name__
            raise ArgumentError("compare", f"must be a model of users and items; it is a {kind}")
        served = serve_model(model, about, **beside)
        assert isinstance(served, ServedRecommender)
        return served

    def _interactions(self) -> Interactions | None:
        if _is_path(self.train):
            return load_interactions(self.train, **self.train_columns)
        return self.train

    def _table(self) -> ItemTable | None:
        if self.items is None:
            return None
        frame = read_rows(self.items, self.item_id, []) if _is_path(self.items) else self.items
        return ItemTable(frame, self.item_id)

    def _names(self) -> Names | None:
        if self.names is None or isinstance(self.names, Names):
            return self.names
        if _is_path(self.names):
            return Names.read(Path(self.names), self.name_columns)
        return Names({str(id): str(name) for id, name in self.names.items()})


def _read_model(path: Path, *, mapped: bool) -> tuple[Any, About]:
    """A model, and where it is from.

    Unless it can be mapped, it is read from a copy: somebody may write to the file at any time, and
    a file that becomes shorter while it is read ends the process.
    """
    if mapped:
        trained = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        checksum = written_checksum(path) or _crc32(path)
        return load_model(path, mapped=True), About(checksum, path.name, trained, load_extra(path))
    with path.open("rb") as file, tempfile.NamedTemporaryFile(prefix="robirank-") as whole:
        written = os.fstat(file.fileno()).st_mtime
        shutil.copyfileobj(file, whole, _CHUNK)
        whole.flush()
        try:
            model = load_model(whole.name)
            extra = load_extra(whole.name)
        except ModelFileError as error:
            raise ModelFileError(str(error).replace(whole.name, str(path))) from None
        checksum = written_checksum(whole.name) or _crc32(Path(whole.name))
    return model, About(checksum, path.name, datetime.fromtimestamp(written, UTC), extra)


def pack_items(path: Path) -> None:
    """Write the packed items of a model beside its file, for those who map it.

    Nothing is written for a model without factors of items in one file.
    """
    if not path.is_file():
        return
    model = load_model(path, mapped=True)
    if isinstance(model, FactorModel) and resolve_device(model.device) == "cpu":
        write_packed(_packed_path(path), model.item_factors)


def _packed_beside(path: Path) -> Path | None:
    packed = _packed_path(path)
    return packed if packed.exists() else None


def _packed_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.packed")


def _crc32(path: Path) -> str:
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return f"{crc:08x}"


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _stamp(path: Any) -> Stamp:
    try:
        facts = Path(path).stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns
