r"""How features become numbers: learned on one table, and applied to the rows of others.

The row of a user or an item is made of its columns, one after the other. A column of words or of
counts is a vector of length one,

.. math:: f_v ∝ \log_2(1 + c_v) \, \log\Bigl(\frac{n + 1}{n_v}\Bigr),

with the number :math:`c_v` of times that the row has value v, the number n of rows and the number
:math:`n_v` of those that have v: what is rare says more. A vector is standardised, entry by entry,
and then has length one too. Numbers are standardised, each with a second entry that says that it is
missing, and all of them together are about as long as one column of words. The last entry of a row
is a constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robirank._types import Floats32
from robirank.data.feature_columns import (
    NUMBER_KINDS,
    WORD_KINDS,
    Kind,
    counts,
    numbers,
    vectors,
    words,
)
from robirank.data.features import Features
from robirank.data.ids import Ids
from robirank.errors import ArgumentError

_RARITY = 1.0  # the power of log(rows / rows with a value)
_FARTHEST = 4.0  # standard deviations that a number counts at most
_LEAST_SPREAD = 1e-30  # of numbers; below, one over it is more than float32 can hold
_CONSTANT = 0.5  # the last entry of every row
_JSON = "columns"


class Settings(msgspec.Struct, frozen=True):
    """What a file says of a column in JSON; the arrays stand beside it."""

    name: str
    kind: Kind
    weight: float
    separator: str


@dataclass(frozen=True, eq=False)
class ColumnEncoder:
    """How a column becomes entries of a row.

    Attributes
    ----------
    settings : Settings
    values : Ids
        The values of a column of words; empty for other kinds.
    mean, scale : float32 arrays
        Entries lose their mean and are multiplied by their scale; words and counts have no mean.
    """

    settings: Settings
    values: Ids
    mean: Floats32
    scale: Floats32

    @classmethod
    def learn(cls, settings: Settings, column: Any) -> ColumnEncoder:
        """Look at a column, for its values and its spread."""
        kind, values = settings.kind, Ids.range(0)
        if kind in WORD_KINDS:
            values = Ids(words(settings.name, column, kind, settings.separator).values)
        raw = _raw(settings, values, column)[0]
        if kind in WORD_KINDS or kind == "counts":
            n_having = np.bincount(raw.indices[raw.data != 0], minlength=raw.shape[1])
            rarity = np.log((raw.shape[0] + 1.0) / np.maximum(n_having, 1)) ** _RARITY
            return cls(settings, values, np.zeros(0, np.float32), rarity.astype(np.float32))
        present = raw[~np.isnan(raw).any(axis=1)].astype(np.float64)
        if not len(present):
            present = np.zeros((1, raw.shape[1]))
        mean, spread = present.mean(axis=0), present.std(axis=0)
        varies = spread > np.maximum(1e-6 * np.abs(mean), _LEAST_SPREAD)
        scale = np.divide(1, spread, out=np.zeros_like(spread), where=varies)
        return cls(settings, values, mean.astype(np.float32), scale.astype(np.float32))

    @property
    def width(self) -> int:
        """The number of entries."""
        return len(self.scale) + (self.settings.kind in NUMBER_KINDS)

    def encode(self, column: Any) -> tuple[sparse.csr_matrix, int]:
        """The entries of all rows, and the number of values that are unknown."""
        raw: Any
        raw, n_unknown = _raw(self.settings, self.values, column)
        if self.settings.kind == "vector" and not raw.shape[1]:  # all are missing
            raw = np.full((len(raw), len(self.scale)), np.nan, np.float32)
        if raw.shape[1] != len(self.scale):
            raise ArgumentError(
                self.settings.name,
                f"must have {len(self.scale)} entries a row, as in the fit; got {raw.shape[1]}",
            )
        if self.settings.kind in (*WORD_KINDS, "counts"):
            data = np.log2(1.0 + raw.data) * self.scale[raw.indices]
            entries = sparse.csr_matrix((data, raw.indices, raw.indptr), raw.shape, np.float32)
            return _unit_rows(entries), n_unknown
        standard = np.nan_to_num((raw - self.mean) * self.scale)
        if self.settings.kind == "vector":
            return _unit_rows(sparse.csr_matrix(standard)), 0
        near = np.clip(standard, -_FARTHEST, _FARTHEST)
        return sparse.csr_matrix(np.column_stack([near, np.isnan(raw)]).astype(np.float32)), 0

    def name_of(self, place: int) -> str:
        """What an entry means."""
        name, kind = self.settings.name, self.settings.kind
        if kind in WORD_KINDS:
            return f"{name}={self.values[place]}"
        if kind in NUMBER_KINDS:
            return f"{name} is missing" if place else name
        return f"{name}[{place}]"

    def to_tensors(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays that a file keeps."""
        arrays: dict[str, NDArray[Any]] = {f"{prefix}.mean": self.mean}
        arrays[f"{prefix}.scale"] = self.scale
        return arrays | self.values.to_tensors(f"{prefix}.values")

    @classmethod
    def from_tensors(
        cls, settings: Settings, arrays: Mapping[str, NDArray[Any]], prefix: str
    ) -> ColumnEncoder:
        """The inverse of `to_tensors`; a ValueError unless the arrays fit together."""
        values = Ids.from_tensors(arrays, f"{prefix}.values")
        mean, scale = (_finite(arrays, f"{prefix}.{part}") for part in ("mean", "scale"))
        kind, n = settings.kind, len(scale)
        has_words, has_mean = kind in WORD_KINDS, kind in ("vector", *NUMBER_KINDS)
        if len(values) != (n if has_words else 0) or len(mean) != (n if has_mean else 0):
            raise ValueError(f"the lengths of {prefix} do not fit together")
        if has_words and n and values.kind != "str":
            raise ValueError(f"the values of {prefix} must be text")
        return cls(settings, values, mean, scale)


@dataclass(frozen=True, eq=False)
class FeatureEncoder:
    """How a table of features becomes a sparse matrix, one row for each user or item.

    Examples
    --------
    >>> from robirank import Features
    >>> films = Features.from_frame({"id": [1, 2], "genre": ["Drama", "Drama|Comedy"]})
    >>> encoder = FeatureEncoder.learn(films)
    >>> encoder.width, encoder.names[0]
    (3, 'genre=Drama')
    >>> new = Features.from_frame({"id": [3], "genre": ["Horror|Drama"]})
    >>> matrix, unknown = encoder.encode(new)
    >>> matrix.toarray().round(6).tolist(), unknown
    ([[1.0, 0.0, 0.5]], {'genre': 1})
    """

    columns: tuple[ColumnEncoder, ...]

    @classmethod
    def learn(cls, table: Features) -> FeatureEncoder:
        """Look at all columns of a table."""
        return cls(
            tuple(
                ColumnEncoder.learn(
                    Settings(
                        name, table.kinds[name], table.weights.get(name, 1.0), table.separator
                    ),
                    column,
                )
                for name, column in table.columns.items()
            )
        )

    @property
    def width(self) -> int:
        """The number of entries of a row, the constant included."""
        return sum(column.width for column in self.columns) + 1

    @property
    def names(self) -> list[str]:
        """What the entries of a row mean."""
        return self.names_of(np.arange(self.width))

    def names_of(self, places: NDArray[Any]) -> list[str]:
        """What the entries at some places of a row mean, without naming all the others."""
        edges = np.cumsum([column.width for column in self.columns])
        numbers = np.searchsorted(edges, places, side="right").tolist()
        starts = [0, *edges.tolist()]
        return [
            self.columns[k].name_of(place - starts[k]) if k < len(self.columns) else "constant"
            for k, place in zip(numbers, places.tolist(), strict=True)
        ]

    def encode(
        self, table: Features, *, partly: bool = False
    ) -> tuple[sparse.csr_matrix, dict[str, int]]:
        """The rows of a table, and how many values of each column are unknown.

        A column that the table does not have is an error, or unknown for all rows where ``partly``.
        """
        self._check_columns(table, partly)
        n, blocks, unknown = len(table), [], {}
        scales = self._scales()
        for column, scale in zip(self.columns, scales, strict=True):
            name = column.settings.name
            if name not in table.columns:
                blocks.append(_no_entries(n, column.width))
                continue
            block, n_unknown = column.encode(table.columns[name])
            blocks.append(block * np.float32(scale))
            if n_unknown:
                unknown[name] = n_unknown
        blocks.append(self.nothing(n)[:, -1])
        return sparse.csr_matrix(sparse.hstack(blocks, format="csr")), unknown

    def table_of(self, rows: Sequence[Mapping[str, Any]]) -> Features:
        """Features of rows that are dicts of values by column, of the kinds that the fit had."""
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = {name: [row.get(name) for row in rows] for name in names}
        kinds: dict[str, Kind] = dict.fromkeys(names, "text")
        for settings in (column.settings for column in self.columns):
            name = settings.name
            if name in columns:
                kinds[name] = settings.kind
            if name in columns and settings.kind == "list":  # of some rows a list, of others text
                columns[name] = [_cut(value, settings.separator) for value in columns[name]]
        return Features(Ids.range(len(rows)), columns, kinds)

    def nothing(self, n: int) -> sparse.csr_matrix:
        """Rows of which nothing is known but that they are there: the constant alone."""
        entries = np.full(n, _CONSTANT, np.float32), np.full(n, self.width - 1, np.int32)
        return sparse.csr_matrix((*entries, np.arange(n + 1)), shape=(n, self.width))

    def to_tensors(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays that a file keeps; settings are JSON in one of them."""
        settings = msgspec.json.encode([column.settings for column in self.columns])
        arrays: dict[str, NDArray[Any]] = {f"{prefix}.{_JSON}": np.frombuffer(settings, np.uint8)}
        for i, column in enumerate(self.columns):
            arrays |= column.to_tensors(f"{prefix}.{i}")
        return arrays

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> FeatureEncoder:
        """The inverse of `to_tensors`; a ValueError unless the arrays fit together."""
        json = arrays.get(f"{prefix}.{_JSON}")
        if json is None or json.dtype != np.uint8:
            raise ValueError(f"{prefix} must say in JSON which columns it has")
        all_settings = msgspec.json.decode(json.tobytes(), type=list[Settings])
        return cls(
            tuple(
                ColumnEncoder.from_tensors(settings, arrays, f"{prefix}.{i}")
                for i, settings in enumerate(all_settings)
            )
        )

    def _scales(self) -> list[float]:
        """What each column is multiplied by, so that a row of known columns has length one."""
        is_number = [column.settings.kind in NUMBER_KINDS for column in self.columns]
        squares = [
            column.settings.weight**2 / (sum(is_number) if number else 1)
            for column, number in zip(self.columns, is_number, strict=True)
        ]
        total = sum(squares) or 1.0
        return [float(np.sqrt(square / total)) for square in squares]

    def _check_columns(self, table: Features, partly: bool) -> None:
        expected = [column.settings.name for column in self.columns]
        strange = [name for name in table.columns if name not in expected]
        missing = [] if partly else [name for name in expected if name not in table.columns]
        if strange or missing:
            problem = f"must have the columns {expected} of the fit; "
            problem += (
                f"{strange[0]!r} is none of them" if strange else f"{missing[0]!r} is missing"
            )
            raise ArgumentError("features", problem)


def _raw(settings: Settings, values: Ids, column: Any) -> tuple[Any, int]:
    """A column as a matrix: a sparse one of counts, or a dense one with NaN for what is missing."""
    name, kind = settings.name, settings.kind
    if sparse.issparse(column) and kind != "counts":
        raise ArgumentError(name, f"must be a column of the kind {kind!r}; got a sparse matrix")
    if kind in WORD_KINDS:
        found = words(name, column, kind, settings.separator)
        places = values.index(found.values)
        known = places >= 0
        entries = (np.ones(np.count_nonzero(known), np.float32), (found.rows[known], places[known]))
        matrix = sparse.csr_matrix(entries, shape=(len(column), len(values)))
        return matrix, int(np.count_nonzero(~known))
    if kind == "counts":
        return counts(name, column), 0
    return (vectors(name, column) if kind == "vector" else numbers(name, column, kind)[:, None]), 0


def _cut(value: Any, separator: str) -> Any:
    return value.split(separator) if isinstance(value, str) else value


def _no_entries(n_rows: int, width: int) -> Any:
    shape: Any = (n_rows, width)
    return sparse.csr_matrix(shape, dtype=np.float32)


def _unit_rows(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """Rows of length one; a row of zeros stays."""
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1), np.float64).ravel())
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return sparse.csr_matrix(sparse.diags(scale.astype(np.float32)) @ matrix)


def _finite(arrays: Mapping[str, NDArray[Any]], name: str) -> Floats32:
    array = arrays.get(name)
    if array is None or array.dtype != np.float32 or array.ndim != 1:
        raise ValueError(f"{name} must be a list of float32 numbers")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    return array
