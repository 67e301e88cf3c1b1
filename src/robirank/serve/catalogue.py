"""What is known of items beside the model: names, attributes, and a search by text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank._types import Ints32
from robirank.data.ids import Ids
from robirank.data.names import Names
from robirank.data.nearest import nearest
from robirank.latent.factors.item_table import ItemTable
from robirank.serve.id_index import IdIndex
from robirank.serve.messages import Value

_LONGEST_TYPED = 64  # letters; a search for similar names takes the longer the more there are


class Hit(NamedTuple):
    """An item that a search found, and how."""

    position: int
    how: str


class Catalogue:
    """Names and attributes of the items of a model, by position.

    Parameters
    ----------
    items : IdIndex
    names : Names, optional
    table : ItemTable, optional
    counts : int array, optional
        How often each item was taken; of items that are found alike, the popular ones come first.
    """

    def __init__(
        self,
        items: IdIndex,
        names: Names | None = None,
        table: ItemTable | None = None,
        counts: Ints32 | None = None,
    ) -> None:
        self._items, self.table = items, table
        self._counts = np.zeros(len(items), np.int32) if counts is None else counts
        self._texts: list[pl.Series] | None = None
        ids: Ids = items.ids
        self._names: pl.Series | None = None
        if names is not None:
            self._names = pl.Series([names.get(id) for id in ids], dtype=pl.String)
        self._rows: Ints32 | None = None if table is None else table.ids.find(ids[:])

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the table of items, and their types."""
        if self.table is None:
            return {}
        return {name: str(kind) for name, kind in self.table.columns.items()}

    def names(self, positions: NDArray[Any]) -> list[str | None] | None:
        """The names of some items; None where no item has one."""
        return None if self._names is None else self._names.gather(positions).to_list()

    def attributes(self, position: int) -> dict[str, Value | list[Value]] | None:
        """The row of an item in the table; None where it has none."""
        if self.table is None or self._rows is None or self._rows[position] < 0:
            return None
        row = self.table.row(int(self._rows[position]))
        return {name: _as_json(value) for name, value in row.items()}

    def column(self, name: str) -> pl.Series:
        """The values of all items in a column of the table; null for items without a row."""
        assert self.table is not None
        assert self._rows is not None
        return self.table.column(name).gather(pl.Series(self._rows).replace(-1, None))

    def search(self, text: str, n: int) -> list[Hit]:
        """The items that a text means: by id, name, beginning, part, and then by similar names."""
        text = text.strip().lower()
        found: dict[int, str] = {}
        exact = self._items.find(text)
        if exact >= 0:
            found[exact] = "id"
        for how, positions in self._matches(text):
            for position in self._popular_first(positions)[:n].tolist():
                found.setdefault(position, how)
            if len(found) >= n:
                break
        return [Hit(*pair) for pair in found.items()][:n]

    def _matches(self, text: str) -> Iterator[tuple[str, NDArray[Any]]]:
        """Kinds of matches, the best first, and the positions of their items."""
        if not text:
            return
        texts = self._lower_texts()
        yield "name", _any(column == text for column in texts)
        yield "prefix", _any(column.str.starts_with(text) for column in texts)
        parts = [column.str.contains(text, literal=True) for column in texts]
        positions = _any(parts)
        yield "part", positions
        if not len(positions) and len(text) <= _LONGEST_TYPED:
            close = [name.lower() for column in texts for name in nearest(text, column)]
            yield "typo", _any(column.is_in(close) for column in texts)

    def _lower_texts(self) -> list[pl.Series]:
        """The names and ids of items in lower case, made when they are first searched."""
        if self._texts is None:
            ids = self._items.ids.as_text()
            columns = [] if self._names is None else [self._names]
            if ids.kind == "str":
                columns.append(pl.Series(ids[:].tolist(), dtype=pl.String))
            self._texts = [column.str.to_lowercase() for column in columns]
        return self._texts

    def _popular_first(self, positions: NDArray[Any]) -> NDArray[Any]:
        return positions[np.argsort(-self._counts[positions], kind="stable")]


def _any(masks: Any) -> NDArray[Any]:
    """The positions that one of several masks marks."""
    marked = [mask.fill_null(False).to_numpy() for mask in masks]
    return np.flatnonzero(np.logical_or.reduce(marked)) if marked else np.zeros(0, np.intp)


def _as_json(value: Any) -> Value | list[Value]:
    """A value of a table as JSON has it."""
    if isinstance(value, list | tuple | pl.Series):
        return [_as_json(entry) for entry in value]  # type: ignore[misc]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value)
