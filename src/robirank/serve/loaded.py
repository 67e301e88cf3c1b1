"""A model as the server answers from it: never changed, and replaced as a whole."""

from __future__ import annotations

import copy
import zlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank._checks import all_finite
from robirank.data.ids import Ids
from robirank.data.interactions import Interactions
from robirank.data.names import Names
from robirank.errors import ArgumentError
from robirank.latent.factors.factor_model import FactorModel
from robirank.latent.factors.item_map import ItemMap, map_of_directions
from robirank.latent.factors.item_table import ItemTable
from robirank.ltr.base import Ranker
from robirank.serve.catalogue import Catalogue
from robirank.serve.history import History
from robirank.serve.id_index import IdIndex
from robirank.serve.messages import RuleSet
from robirank.serve.rule_book import RuleBook

#: Multiplications of a search from which on it is faster by several threads.
_WORTH_THREADS = 1e8


@dataclass(frozen=True)
class About:
    """Where a model is from."""

    checksum: str
    file: str | None = None
    trained: datetime | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    loaded: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True, eq=False)
class Served:
    """A model that is served."""

    model: Any
    about: About

    @property
    def checksum(self) -> str:
        """What answers call the model."""
        return self.about.checksum


@dataclass(frozen=True, eq=False)
class ServedRanker(Served):
    """A ranker over features."""


@dataclass(frozen=True, eq=False)
class ServedRecommender(Served):
    """A model of users and items, with what is known of them.

    Attributes
    ----------
    users, items : IdIndex
    history : History or None
        What users have.
    catalogue : Catalogue
    book : RuleBook
    item_map : ItemMap or None
        A map that was made before; `drawn` is that of the page.
    other : ServedRecommender or None
        What the model is compared with.
    """

    users: IdIndex
    items: IdIndex
    history: History | None
    catalogue: Catalogue
    book: RuleBook
    item_map: ItemMap | None = None
    other: ServedRecommender | None = None

    @classmethod
    def of(
        cls,
        model: FactorModel,
        about: About,
        *,
        train: Interactions | None = None,
        table: ItemTable | None = None,
        names: Names | None = None,
        rules: RuleSet | None = None,
        packed: Path | None = None,
    ) -> ServedRecommender:
        """Lay a model out for answers.

        What is served is a copy of the model: fitted again, or with other settings, the model
        itself does not change answers. ``packed`` is a file of its packed items.
        """
        model = copy.copy(model)
        if packed is None:
            model.prepare()
        else:
            model.factors_ = model.factors_.mapping(packed)
        sides = model.factors_.users, model.factors_.items
        users, items = (IdIndex(Ids.range(len(s)) if s.ids is None else s.ids) for s in sides)
        history = _history_in(model, users)
        if train is not None:
            history = History.of_table(train, items.ids, users)
        catalogue = Catalogue(items, names, table, model.factors_.items.counts)
        book = RuleBook(table, rules)
        standing = book.rules(None)
        if standing is not None:
            standing.bound_to(model.factors_)
        return cls(model, about, users, items, history, catalogue, book)

    def alone(self) -> ServedRecommender:
        """The model with nothing beside it, as `known_answers` asks it."""
        history = _history_in(self.model, self.users)
        return replace(self, history=history, catalogue=Catalogue(self.items), book=RuleBook(None))

    @cached_property
    def counts(self) -> NDArray[Any] | None:
        """The number of interactions of each item."""
        return self.model.factors_.items.counts

    @cached_property
    def user_texts(self) -> pl.Series:
        """The ids of users in lower case, made when they are first searched."""
        texts = self.users.ids.as_text()[:].tolist()
        return pl.Series(texts, dtype=pl.String).str.to_lowercase()

    @cached_property
    def drawn(self) -> ItemMap:
        """The map of the items: the one given, or else two directions of the factors."""
        if self.item_map is not None:
            return self.item_map
        return map_of_directions(self.model.item_factors)

    @cached_property
    def _on_one_thread(self) -> Any:
        """The same model, whose searches use one thread."""
        model = copy.copy(self.model)
        model.num_threads = 1
        return model

    def model_for(self, n_users: int) -> Any:
        """The model to ask for so many users; on one thread where waking others takes longer."""
        work = n_users * self.model.factors_.items.rows.size
        return self.model if work >= _WORTH_THREADS else self._on_one_thread

    def is_new(self, positions: NDArray[Any]) -> list[bool]:
        """Which items have no interaction."""
        if self.counts is None:
            return [False] * len(positions)
        return (self.counts[positions] == 0).tolist()


def _history_in(model: FactorModel, users: IdIndex) -> History | None:
    """What users have, where the model itself knows it."""
    content = model.factors_.users.content
    return None if content is None else History(users, content.taken.indptr, content.taken.items)


def serve_model(model: Any, about: About | None = None, **beside: Any) -> Served:
    """Lay a fitted estimator out for answers; ``beside`` is for `ServedRecommender.of`."""
    beside = {name: value for name, value in beside.items() if value is not None}
    if isinstance(model, FactorModel):
        model._check_fitted()
        return ServedRecommender.of(model, about or About(_checksum(model)), **beside)
    if not isinstance(model, Ranker):
        raise ArgumentError(
            "model", f"must be a latent model or a ranker of robirank; got {type(model).__name__}"
        )
    if beside:
        raise ArgumentError(
            min(beside), f"is for models of users and items; the model is a {type(model).__name__}"
        )
    return ServedRanker(model, about or About(_checksum(model)))


def _checksum(model: Any) -> str:
    """A checksum of the numbers of a model in memory."""
    if isinstance(model, FactorModel):
        arrays = [np.asarray(model.item_factors), np.asarray(model.user_factors)]
    else:
        arrays = [v for _, v in sorted(vars(model).items()) if isinstance(v, np.ndarray)]
    crc = 0
    for array in arrays:
        if array.dtype.kind in "fiu" and all_finite(array):
            crc = zlib.crc32(np.ascontiguousarray(array).data, crc)
    return f"{crc:08x}"
