"""Outside ids and the codes 0, 1, 2, … that stand for them inside."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import pairwise
from typing import Any, cast, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank.data._columns import as_column, is_missing
from robirank.data.nearest import nearest

Codes = NDArray[np.int32]

_MOST = 2**31 - 1  # codes are int32


class Ids:
    """Ids of any hashable type, both ways: id to code and code to id.

    The code of an id is its place among the distinct values, in the order of their first
    appearance. That order is kept for good: `extend` only adds at the end.

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
        column = as_column(values, "values")
        missing = np.flatnonzero(is_missing(column))
        if len(missing):
            raise ValueError(
                f"values must all be ids; {len(missing)} of {len(column)} are missing "
                f"(the first is value {missing[0]})"
            )
        self._set(_distinct(column))

    @classmethod
    def range(cls, n: int) -> Ids:
        """The ids 0, 1, …, n − 1, each its own code; stores nothing."""
        return cls._of(range(n))

    @classmethod
    def _of(cls, values: _Values) -> Ids:
        """Take values that are known to be distinct."""
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
        """What the ids are: "int", "str" or "object"."""
        if isinstance(self._values, list):
            return "object"
        return "str" if _is_text(self._values) else "int"

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids):
            return NotImplemented
        if self is other:
            return True
        if len(self) != len(other) or self.kind != other.kind:
            return False
        mine, theirs = self._values, other._values
        if isinstance(mine, pl.Series) and isinstance(theirs, pl.Series):
            return bool((mine == theirs).all())
        # A Series of 0, 1, 2, … would be a range.
        return type(mine) is type(theirs) and bool(mine == theirs)

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, value: object) -> bool:
        try:
            return self._code(value) >= 0
        except TypeError:  # not hashable
            return False

    def __repr__(self) -> str:
        shown = [repr(self[i]) for i in range(min(len(self), 3))] + ["…"] * (len(self) > 3)
        return f"Ids({len(self):,}: {', '.join(shown)})"

    @overload
    def __getitem__(self, codes: int | np.integer[Any]) -> Any: ...
    @overload
    def __getitem__(self, codes: Any) -> NDArray[Any]: ...
    def __getitem__(self, codes: Any) -> Any:
        """The id of a code, or an array with the ids of several (object array unless integers)."""
        if isinstance(codes, slice):
            codes = np.arange(len(self))[codes]
        where = np.asarray(codes)
        if where.size == 0:
            where = where.astype(np.int64)
        if where.dtype.kind not in "iu":
            raise TypeError(f"codes must be integers; got {where.dtype}")
        if where.size and (where.min() < 0 or where.max() >= len(self)):
            bad = where.min() if where.min() < 0 else where.max()
            raise IndexError(f"code {bad} stands for no id; codes go from 0 to {len(self) - 1}")
        if where.ndim == 0:
            return self._values[int(where)]
        return self._gather(where.reshape(-1)).reshape(where.shape)

    def _gather(self, codes: NDArray[Any]) -> NDArray[Any]:
        if isinstance(self._values, range):
            return codes.astype(np.int64)
        if isinstance(self._values, pl.Series):
            return self._values.gather(codes).to_numpy()
        out = np.empty(len(codes), dtype=object)
        for place, code in enumerate(codes.tolist()):
            out[place] = self._values[code]
        return out

    @overload
    def index(self, values: str | int) -> int: ...
    @overload
    def index(self, values: Any) -> Codes: ...
    def index(self, values: Any) -> Any:
        """Look up codes.

        Parameters
        ----------
        values : one id, or an array, Series or list of ids

        Returns
        -------
        int, or int32 array
            −1 for an id that is not here.
        """
        if _is_one(values):
            return self._code(values)
        return self._codes(as_column(values, "values"))

    @overload
    def find(self, values: str | int) -> int: ...
    @overload
    def find(self, values: Any) -> Codes: ...
    def find(self, values: Any) -> Any:
        """Look up codes as `index` does, where an integer and its text are the same id.

        A file of which all ids happen to be integers means the same ids as one with others, so 7
        is "7". Text that Python would not print for an integer ("007", "+7", " 7") is none.

        Examples
        --------
        >>> Ids([7, 9]).find(["9", "09", 7]).tolist(), Ids(["7", "x"]).find(7)
        ([1, -1, 0], 0)
        """
        if _is_one(values):
            return self._code(_written_as(self.kind, values))
        return self._codes(_column_written_as(self.kind, as_column(values, "values")))

    def close_to(self, text: str) -> list[str]:
        """A few of these ids that someone may have meant; none where they are not text.

        Examples
        --------
        >>> Ids(["Slayer", "Metallica", "Metal Church"]).close_to("metalica")
        ['Metallica']
        """
        return nearest(text, self._values) if _is_text(self._values) else []

    def extend(self, values: Any) -> Ids:
        """Make new ids: these, with their codes, then those of the values that are new."""
        return self.encode(as_column(values, "values"))[1]

    def encode(self, column: pl.Series | list[Any]) -> tuple[Codes, Ids]:
        """Look up codes, with new codes for new ids: the codes, and the extended ids."""
        distinct = _distinct(column)
        known = self._codes(distinct)
        new = np.flatnonzero(known < 0)
        if len(new) == 0:
            return self._codes(column), self
        known[new] = len(self) + np.arange(len(new), dtype=np.int32)
        extended = Ids._of(_concatenated(self._values, _taken(distinct, new)))
        return _find(column, distinct, known), extended

    def as_text(self) -> Ids:
        """The same ids, integers written out as text."""
        if self.kind != "int":
            return self
        return Ids._of(cast(pl.Series, _unrolled(self._values)).cast(pl.String))

    def take(self, codes: NDArray[Any]) -> Ids:
        """Make ids of those with the given codes, which must be distinct."""
        return Ids._of(_taken(self._values, codes))

    def _code(self, value: Any) -> int:
        if isinstance(self._values, range):
            whole = isinstance(value, int | float | np.number) and value in self._values
            return int(value) if whole else -1
        if self._table is None:
            self._table = {value: code for code, value in enumerate(self._values)}
        return self._table.get(value, -1)

    def _codes(self, column: _Values) -> Codes:
        if isinstance(self._values, range) and isinstance(column, pl.Series):
            return _in_range(column, len(self))
        return _find(column, self._values, None)

    def to_tensors(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Give the ids as plain arrays for a model file; `from_tensors` is the inverse.

        Integers become ``{prefix}.ints``, text ``{prefix}.bytes`` (UTF-8, one after the other)
        and ``{prefix}.offsets``, a range ``{prefix}.range`` with its length.

        Raises
        ------
        TypeError
            If the ids are neither integers nor text.

        Examples
        --------
        >>> {k: v.tolist() for k, v in Ids(["ab", "c"]).to_tensors("items").items()}
        {'items.bytes': [97, 98, 99], 'items.offsets': [0, 2, 3]}
        """
        values = self.portable()
        if isinstance(values, range):
            return {f"{prefix}.range": np.array([len(values)], dtype=np.int64)}
        if not _is_text(values):
            return {f"{prefix}.ints": values.to_numpy().astype(np.int64)}
        offsets = np.zeros(len(values) + 1, dtype=np.int64)
        np.cumsum(values.str.len_bytes().to_numpy(), out=offsets[1:])
        text = "".join(values.to_list()).encode()
        return {f"{prefix}.bytes": np.frombuffer(text, np.uint8), f"{prefix}.offsets": offsets}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]], prefix: str) -> Ids:
        """Take ids back from the arrays that `to_tensors` gave; whatever they hold is checked.

        Raises
        ------
        ValueError
            If the arrays are not those of distinct ids.
        """
        parts = {part: tensors.get(f"{prefix}.{part}") for part in _PARTS}
        length, ints, text, offsets = parts.values()
        if length is not None:
            _check(length.shape == (1,) and length[0] >= 0, prefix, "a length ≥ 0")
            return cls.range(int(length[0]))
        if ints is not None:
            _check(ints.ndim == 1 and ints.dtype == np.int64, prefix, "a list of int64")
            ids = cls(ints)
            _check(len(ids) == len(ints), prefix, "distinct ids")
            return ids
        if text is None or offsets is None:
            raise ValueError(f"there are no ids {prefix!r} among {sorted(tensors)}")
        ids = cls(_cut(text, offsets, prefix))
        _check(len(ids) == len(offsets) - 1, prefix, "distinct ids")
        return ids

    def portable(self) -> pl.Series | _Range:
        """The values, where a file can hold them."""
        if isinstance(self._values, list):
            kinds = sorted({type(value).__name__ for value in self._values})
            raise TypeError(
                "ids can be saved if all are 64-bit integers or all are text; "
                f"these are of type {', '.join(kinds)}"
            )
        return self._values


_Range = range  # inside the class the name means something else
_Values = pl.Series | list[Any] | _Range
_PARTS = ("range", "ints", "bytes", "offsets")


def as_integers(text: pl.Series) -> pl.Series:
    """The integer that each text is; null where no 64-bit integer is printed that way.

    Examples
    --------
    >>> as_integers(pl.Series(["7", "-12", "007", "+7", " 7", "x"])).to_list()
    [7, -12, None, None, None, None]
    """
    numbers = text.cast(pl.Int64, strict=False)
    return numbers.set(numbers.cast(pl.String) != text, None)


def _column_written_as(kind: str, column: pl.Series | list[Any]) -> pl.Series | list[Any]:
    if isinstance(column, list):
        return [_written_as(kind, value) for value in column]
    if kind == "str" and column.dtype == pl.Int64:
        return column.cast(pl.String)
    return as_integers(column) if kind == "int" and column.dtype == pl.String else column


def _written_as(kind: str, value: Any) -> Any:
    """An id as ids of a kind are written; None for text that is no integer where ids are."""
    if kind == "str" and isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    if kind != "int" or not isinstance(value, str):
        return value
    try:
        return int(value) if str(int(value)) == value else None
    except ValueError:
        return None


def _is_one(values: Any) -> bool:
    return isinstance(values, str | bytes | tuple) or not hasattr(values, "__len__")


def _unrolled(values: _Values) -> pl.Series | list[Any]:
    if isinstance(values, range):
        return pl.Series(np.arange(len(values), dtype=np.int64))
    return values


def _is_text(values: _Values) -> bool:
    return isinstance(values, pl.Series) and values.dtype == pl.String


def _counts_up(values: _Values) -> bool:
    if not isinstance(values, pl.Series) or values.dtype != pl.Int64:
        return isinstance(values, range)
    array = values.to_numpy()
    ends_fit = array[0] == 0 and array[-1] == len(array) - 1  # without looking at all of them
    return bool(ends_fit and (array == np.arange(len(array))).all())


def _distinct(column: pl.Series | list[Any]) -> pl.Series | list[Any]:
    if isinstance(column, list):
        try:
            return list(dict.fromkeys(column))
        except TypeError as error:
            raise TypeError(f"ids must be hashable; {error}") from None
    return column.unique(maintain_order=True)


def _taken(values: _Values, codes: NDArray[Any]) -> pl.Series | list[Any]:
    values = _unrolled(values)
    if isinstance(values, list):
        return [values[code] for code in codes.tolist()]
    return values.gather(codes)


def _concatenated(first: _Values, second: pl.Series | list[Any]) -> pl.Series | list[Any]:
    if len(first) == 0:
        return second
    one = _unrolled(first)
    if isinstance(one, pl.Series) and isinstance(second, pl.Series) and one.dtype == second.dtype:
        return pl.concat([one, second.alias(one.name)], rechunk=True)
    return [*one, *second]


def _find(column: _Values, values: _Values, codes: Codes | None) -> Codes:
    """The code of each entry of a column; the place among the values where no codes are given."""
    if len(column) == 0 or len(values) == 0:
        return np.full(len(column), -1, dtype=np.int32)
    left, right = _unrolled(column), _unrolled(values)
    if codes is None:
        codes = np.arange(len(values), dtype=np.int32)
    if isinstance(left, list) or isinstance(right, list):
        table = dict(zip(right, codes.tolist(), strict=True))
        return np.fromiter((table.get(v, -1) for v in left), dtype=np.int32, count=len(left))
    if left.dtype != right.dtype:
        return np.full(len(column), -1, dtype=np.int32)
    # An inner join makes its table of the shorter side, which a left join would not.
    known = pl.DataFrame({"id": right, "code": codes})
    asked = pl.DataFrame({"id": left, "place": np.arange(len(left))})
    found = asked.join(known, on="id", how="inner")
    out = np.full(len(left), -1, dtype=np.int32)
    out[found["place"].to_numpy()] = found["code"].to_numpy()
    return out


def _in_range(column: pl.Series, n: int) -> Codes:
    if column.dtype != pl.Int64:
        return np.full(len(column), -1, dtype=np.int32)
    values = column.fill_null(-1).to_numpy()
    return np.where((values >= 0) & (values < n), values, -1).astype(np.int32)


def _check(right: bool | np.bool_, prefix: str, what: str) -> None:
    if not right:
        raise ValueError(f"the ids {prefix!r} are damaged: they must be {what}")


def _cut(text: NDArray[Any], offsets: NDArray[Any], prefix: str) -> list[str]:
    _check(text.ndim == offsets.ndim == 1 and text.dtype == np.uint8, prefix, "a list of bytes")
    _check(
        len(offsets) > 0
        and offsets.dtype == np.int64
        and offsets[0] == 0
        and offsets[-1] == len(text)
        and (np.diff(offsets) >= 0).all(),
        prefix,
        "cut by offsets that rise from 0 to the number of bytes",
    )
    content = text.tobytes()
    try:
        return [content[a:b].decode() for a, b in pairwise(offsets.tolist())]
    except UnicodeDecodeError as error:
        raise ValueError(f"the ids {prefix!r} are damaged: {error}") from None
