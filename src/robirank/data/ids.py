"""Outside ids of users or items and their positions 0, 1, 2, …."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import pairwise
from typing import Any, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank._sparse import offsets
from robirank.data._columns import as_ids
from robirank.data.nearest import nearest
from robirank.errors import ArgumentError

Positions = NDArray[np.int32]

_MOST = 2**31 - 1  # positions are int32


class Ids:
    """Outside ids of any hashable type: a mapping from id to position and back.

    The position of an id is its row number among the distinct ids, in the order of their first
    appearance. It never changes: `extend` adds new ids at the end.

    Parameters
    ----------
    values : array, Series, or iterable of hashable values
        Repeated values count once. Integers are kept as int64, text as text; whole floats, as
        pandas makes them of integers with gaps, are integers. Anything else (tuples, dates, …)
        works too, a Python object each, but cannot be written to a file.

    Examples
    --------
    >>> songs = Ids(["yesterday", "help", "yesterday", "girl"])
    >>> len(songs), songs[1], songs[[2, 0]].tolist()
    (3, 'help', ['girl', 'yesterday'])
    >>> songs.index(["girl", "michelle"]).tolist()
    [2, -1]
    >>> list(songs.extend(["help", "michelle"]))
    ['yesterday', 'help', 'girl', 'michelle']
    """

    def __init__(self, values: Any) -> None:
        column = as_ids(values, "values")
        if column.null_count():
            raise ArgumentError(
                "values",
                f"must all be ids; {column.null_count()} of {len(column)} are missing "
                f"(the first is value {column.is_null().arg_max()})",
            )
        self._set(_distinct(column))

    @classmethod
    def range(cls, n: int) -> Ids:
        """The ids 0, 1, …, n − 1, which equal their positions; nothing is stored for them."""
        return cls._of(range(n))

    @classmethod
    def _of(cls, values: _Values) -> Ids:
        """Make ids of values that are known to be distinct."""
        self = cls.__new__(cls)
        self._set(values)
        return self

    def _set(self, values: _Values) -> None:
        if len(values) > _MOST:
            raise ValueError(f"there can be at most {_MOST:,} ids; got {len(values):,}")
        self._values = range(len(values)) if len(values) == 0 or _counts_up(values) else values
        self._table: dict[Hashable, int] | None = None

    @property
    def kind(self) -> str:
        """The type of the ids: "int", "str" or "object"."""
        if isinstance(self._values, range) or self._values.dtype == pl.Int64:
            return "int"
        return "str" if self._values.dtype == pl.String else "object"

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values if isinstance(self._values, range) else self._values.to_list())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids):
            return NotImplemented
        if len(self) != len(other) or self.kind != other.kind:
            return False
        mine, theirs = self._values, other._values
        if isinstance(mine, range) or isinstance(theirs, range):
            return type(mine) is type(theirs)  # a Series of 0, 1, 2, … would be a range
        return list(self) == list(other) if self.kind == "object" else mine.equals(theirs)

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, value: object) -> bool:
        try:
            return self._position(value) >= 0
        except TypeError:  # not hashable
            return False

    def __repr__(self) -> str:
        shown = [repr(self[i]) for i in range(min(len(self), 3))] + ["…"] * (len(self) > 3)
        return f"Ids({len(self):,}: {', '.join(shown)})"

    @overload
    def __getitem__(self, positions: int | np.integer[Any]) -> Any: ...
    @overload
    def __getitem__(self, positions: Any) -> NDArray[Any]: ...
    def __getitem__(self, positions: Any) -> Any:
        """The id at a position, or an array of several (an object array unless integers)."""
        if isinstance(positions, slice):
            positions = np.arange(len(self))[positions]
        where = np.asarray(positions)
        if where.size == 0:
            where = where.astype(np.int64)
        if where.dtype.kind not in "iu":
            raise TypeError(f"positions must be integers; got {where.dtype}")
        if where.size and (where.min() < 0 or where.max() >= len(self)):
            bad = where.min() if where.min() < 0 else where.max()
            raise IndexError(f"there is no id at {bad}; positions go from 0 to {len(self) - 1}")
        if where.ndim == 0:
            return self._values[int(where)]
        return _taken(self._values, where.reshape(-1)).to_numpy().reshape(where.shape)

    @overload
    def index(self, values: str | int) -> int: ...
    @overload
    def index(self, values: Any) -> Positions: ...
    def index(self, values: Any) -> Any:
        """Look up positions.

        Parameters
        ----------
        values : one id, or an array, Series or list of ids

        Returns
        -------
        int, or int32 array
            −1 for an id that is not here.
        """
        if _is_single_id(values):
            return self._position(values)
        return _find(as_ids(values, "values"), self._values)

    @overload
    def find(self, values: str | int) -> int: ...
    @overload
    def find(self, values: Any) -> Positions: ...
    def find(self, values: Any) -> Any:
        """Look up positions as `index` does, where an integer and its text are the same id.

        Ids of one file may all be integers, and be text in another file of the same users, so 7 and
        "7" are the same id. Text that Python does not print for an integer ("007", "+7", " 7") is
        not.

        Examples
        --------
        >>> Ids([7, 9]).find(["9", "09", 7]).tolist(), Ids(["7", "x"]).find(7)
        ([1, -1, 0], 0)
        """
        if _is_single_id(values):
            return self._position(_written_as(self.kind, values))
        column = as_ids(values, "values")
        if column.dtype == pl.Object:
            written = [_written_as(self.kind, value) for value in column.to_list()]
            column = pl.Series(written, dtype=pl.Object)
        elif self.kind == "str":
            column = column.cast(pl.String)
        elif self.kind == "int" and column.dtype == pl.String:
            column = as_integers(column)
        return _find(column, self._values)

    def close_to(self, text: str) -> list[str]:
        """The ids that are most similar to a mistyped one; none unless ids are text."""
        return nearest(text, self._values) if self.kind == "str" else []

    def extend(self, values: Any) -> Ids:
        """A new object with these ids at their positions, followed by the values that are new."""
        return self.encode(as_ids(values, "values"))[1]

    def encode(self, column: pl.Series) -> tuple[Positions, Ids]:
        """The positions of a column's ids, and the ids extended by those that are new."""
        distinct = _distinct(column)
        positions = _find(distinct, self._values)
        is_new = positions < 0
        positions[is_new] = len(self) + np.arange(np.count_nonzero(is_new), dtype=np.int32)
        extended = self
        if is_new.any():
            extended = Ids._of(_concatenated(self._values, distinct.filter(pl.Series(is_new))))
        return positions[_find(column, distinct)], extended

    def as_text(self) -> Ids:
        """The same ids, with integers converted to text."""
        return Ids._of(_unrolled(self._values).cast(pl.String)) if self.kind == "int" else self

    def take(self, positions: NDArray[Any]) -> Ids:
        """The ids at the given positions, which must differ, as a new object."""
        return Ids._of(_taken(self._values, positions))

    def _position(self, value: Any) -> int:
        if isinstance(self._values, range):
            return _in_range(value, len(self))
        if self._table is None:
            self._table = {value: position for position, value in enumerate(self)}
        return self._table.get(value, -1)

    def to_tensors(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Convert the ids to arrays for a model file; `from_tensors` is the inverse.

        Integers become ``{prefix}.ints``, text ``{prefix}.bytes`` (UTF-8, one after the other) and
        ``{prefix}.offsets``, a range ``{prefix}.range`` with its length. Other ids are a TypeError.
        """
        values = self.portable()
        if isinstance(values, range):
            return {f"{prefix}.range": np.array([len(values)], dtype=np.int64)}
        if self.kind == "int":
            return {f"{prefix}.ints": values.to_numpy().astype(np.int64)}
        text = np.frombuffer("".join(values.to_list()).encode(), np.uint8)
        return {
            f"{prefix}.bytes": text,
            f"{prefix}.offsets": offsets(values.str.len_bytes().to_numpy()),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]], prefix: str) -> Ids:
        """Make ids from the arrays of `to_tensors`; a ValueError unless they are distinct ids."""
        parts = (tensors.get(f"{prefix}.{part}") for part in ("range", "ints", "bytes", "offsets"))
        length, ints, text, starts = parts
        if length is not None:
            _check(length.shape == (1,) and length[0] >= 0, prefix, "a length ≥ 0")
            return cls.range(int(length[0]))
        values: Any = ints
        if ints is not None:
            _check(ints.ndim == 1 and ints.dtype == np.int64, prefix, "a list of int64")
        elif text is not None and starts is not None:
            values = _cut(text, starts, prefix)
        else:
            raise ValueError(f"there are no ids {prefix!r} among {sorted(tensors)}")
        ids = cls(values)
        _check(len(ids) == len(values), prefix, "distinct ids")
        return ids

    def series(self, positions: NDArray[Any]) -> pl.Series:
        """The ids at the given positions as a Series of integers or text, for a file."""
        return _taken(self.portable(), positions)

    def portable(self) -> pl.Series | _Range:
        """The values as integers or text; a TypeError for ids that a file cannot hold."""
        if self.kind == "object":
            kinds = sorted({type(value).__name__ for value in self})
            raise TypeError(
                "ids can be saved if all are 64-bit integers or all are text; "
                f"these are of type {', '.join(kinds)}"
            )
        return self._values


def distinct_ids(ids: Any, name: str) -> Ids:
    """A column of ids that must differ from row to row; errors call it by ``name``."""
    column = as_ids(ids, name)
    if column.null_count():
        row = column.is_null().arg_max()
        raise ArgumentError(name, f"must hold an id in every row; row {row} has none")
    distinct = Ids(column)
    if len(distinct) < len(column):
        places = distinct.index(column)
        first = np.full(len(distinct), len(column))
        np.minimum.at(first, places, np.arange(len(column)))
        again = int((first[places] < np.arange(len(column))).argmax())
        raise ArgumentError(
            name,
            f"must differ from row to row; rows {first[places[again]]} and {again} are both "
            f"{distinct[int(places[again])]!r}",
        )
    return distinct


def column_like(name: str, new: Ids, old: Ids, where: str) -> pl.Series:
    """New ids as a column of the type of old ones: integers become text if the old ids are text.

    Errors call the new ids by ``name``; the old ones are those of ``where``.
    """
    if len(old) and (old.kind, new.kind) == ("int", "str"):
        raise ArgumentError(name, f"must be integers, as in {where}; got {new[0]!r}")
    return as_ids((new.as_text() if old.kind == "str" else new)[:], name)


_Range = range  # within the class, range is the method
_Values = pl.Series | _Range


def as_integers(text: pl.Series) -> pl.Series:
    """Convert text to integers; null unless it is how Python prints a 64-bit integer."""
    numbers = text.cast(pl.Int64, strict=False)
    return numbers.set(numbers.cast(pl.String) != text, None)


def _written_as(kind: str, value: Any) -> Any:
    """Convert an id to the type of others; None for text that is no integer if ids are integers."""
    if kind == "str" and isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    if kind != "int" or not isinstance(value, str):
        return value
    try:
        return int(value) if str(int(value)) == value else None
    except ValueError:
        return None


def _is_single_id(values: Any) -> bool:
    return isinstance(values, str | bytes | tuple) or not hasattr(values, "__len__")


def _unrolled(values: _Values) -> pl.Series:
    return pl.Series(np.arange(len(values))) if isinstance(values, range) else values


def _counts_up(values: _Values) -> bool:
    if isinstance(values, range) or values.dtype != pl.Int64:
        return isinstance(values, range)
    ends_fit = (
        values[0] == 0 and values[-1] == len(values) - 1
    )  # a quick test before all values are compared
    return ends_fit and bool((values.to_numpy() == np.arange(len(values))).all())


def _distinct(column: pl.Series) -> pl.Series:
    if column.dtype != pl.Object:
        return column.unique(maintain_order=True)
    try:
        return pl.Series(list(dict.fromkeys(column.to_list())), dtype=pl.Object)
    except TypeError as error:
        raise TypeError(f"ids must be hashable; {error}") from None


def _taken(values: _Values, positions: NDArray[Any]) -> pl.Series:
    if isinstance(values, range):
        return pl.Series(positions.astype(np.int64))
    return values.gather(positions)


def _concatenated(first: _Values, second: pl.Series) -> pl.Series:
    if len(first) == 0:
        return second
    first = _unrolled(first)
    if first.dtype != second.dtype:
        return pl.Series(first.to_list() + second.to_list(), dtype=pl.Object)
    return pl.concat([first, second.alias(first.name)], rechunk=True)


def _find(column: pl.Series, values: _Values) -> Positions:
    """The positions of a column's entries among distinct values; −1 for entries not among them."""
    positions = np.full(len(column), -1, dtype=np.int32)
    if isinstance(values, range):
        if column.dtype == pl.Int64:
            numbers = column.fill_null(-1).to_numpy()
            return np.where((numbers >= 0) & (numbers < len(values)), numbers, -1).astype(np.int32)
        if column.dtype == pl.Object:
            positions[:] = [_in_range(value, len(values)) for value in column.to_list()]
    elif pl.Object in (column.dtype, values.dtype):
        table = {value: position for position, value in enumerate(values.to_list())}
        positions[:] = [table.get(value, -1) for value in column.to_list()]
    elif column.dtype == values.dtype and len(values):
        # An inner join builds its hash table of the shorter side, a left join of the right side.
        ids = pl.DataFrame({"id": values}).with_row_index("position")
        asked = pl.DataFrame({"id": column}).with_row_index("row")
        both = asked.join(ids, on="id", how="inner")
        positions[both["row"].to_numpy()] = both["position"].to_numpy()
    return positions


def _in_range(value: Any, n: int) -> int:
    whole = isinstance(value, int | np.integer) or (isinstance(value, float) and value.is_integer())
    return int(value) if whole and 0 <= value < n else -1


def _check(right: bool | np.bool_, prefix: str, what: str) -> None:
    if not right:
        raise ValueError(f"the ids {prefix!r} are damaged: they must be {what}")


def _cut(text: NDArray[Any], starts: NDArray[Any], prefix: str) -> list[str]:
    _check(text.ndim == starts.ndim == 1 and text.dtype == np.uint8, prefix, "a list of bytes")
    _check(
        len(starts) > 0
        and starts.dtype == np.int64
        and starts[0] == 0
        and starts[-1] == len(text)
        and (np.diff(starts) >= 0).all(),
        prefix,
        "cut by offsets that rise from 0 to the number of bytes",
    )
    content = text.tobytes()
    try:
        return [content[a:b].decode() for a, b in pairwise(starts.tolist())]
    except UnicodeDecodeError as error:
        raise ValueError(f"the ids {prefix!r} are damaged: {error}") from None
