"""Columns out of data frames of every kind, and blocks of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank.data._columns import as_column

_BLOCK_ROWS = 1 << 20


def pick_columns(frame: Any, names: dict[str, str]) -> dict[str, Any]:
    """The columns that are named, by argument."""
    if not isinstance(frame, dict):
        frame = as_frame(frame, "a DataFrame or a dict of arrays")
    present = column_names(frame)
    for argument, name in names.items():
        if name not in present:
            raise ValueError(f"{argument}={name!r} is not a column of the frame; it has {present}")
    frame = collected(frame, set(names.values()))
    return {argument: frame[name] for argument, name in names.items()}


def as_frame(frame: Any, expected: str = "a DataFrame") -> Any:
    """A frame of pandas or polars; those of other libraries become one of polars."""
    if isinstance(frame, pl.DataFrame | pl.LazyFrame) or hasattr(frame, "iloc"):  # as pandas has
        return frame
    if hasattr(frame, "__arrow_c_stream__"):
        return pl.DataFrame(frame)
    raise TypeError(f"frame must be {expected}; got {type(frame).__name__}")


def column_names(frame: Any) -> list[Any]:
    """The names of all columns; a lazy frame is not read for them."""
    if isinstance(frame, pl.LazyFrame):
        return frame.collect_schema().names()
    return [*(frame if isinstance(frame, dict) else frame.columns)]


def collected(frame: Any, names: Iterable[str]) -> Any:
    """Read these columns of a lazy frame; any other frame is given back."""
    return frame.select(*names).collect() if isinstance(frame, pl.LazyFrame) else frame


def as_numbers(column: Any) -> NDArray[np.float64] | None:
    """A column of a frame as float64, NaN where a value is missing; None if it holds no numbers.

    Numbers are of every kind, also booleans and categories that are numbers. Times and text are
    none: float32 would blur the one, and digits may be an id or a code.
    """
    values = _values(column)
    if values.ndim == 1 and (values.dtype.kind in "biuf" or _odd_kinds(values) == set()):
        return values.astype(np.float64)
    return None


def kind_of(column: Any) -> str:
    """The type of a column without numbers, in words for an error."""
    kind = str(column.dtype).split("(")[0]  # an Enum would list all its categories
    if kind == "category":
        return f"category of {column.cat.categories.dtype}"
    odd = _odd_kinds(_values(column)) if kind in ("object", "Object") else None
    return f"{kind} with {', '.join(sorted(k.__name__ for k in odd))}" if odd else kind


def _values(column: Any) -> NDArray[Any]:
    values = column.to_numpy()
    if values.dtype.kind == "O" and hasattr(column, "isna"):  # pandas, with its own ways to miss
        values = np.where(column.isna(), None, values)
    return np.asarray(values)


def _odd_kinds(values: NDArray[Any]) -> set[type] | None:
    """The types in an array of objects that are no numbers; None for any other array."""
    if values.dtype.kind != "O":
        return None
    kinds = {type(value) for value in values} - {type(None)}
    numbers = Real | Decimal | np.bool_  # and NumPy counts timedelta64 among the integers
    return {k for k in kinds if not issubclass(k, numbers) or issubclass(k, np.timedelta64)}


def blocks(columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Cut columns into blocks of rows, ids in a form that slices cheaply."""
    for name in ("user", "item"):
        columns[name] = as_column(columns[name], name)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns must have the same length; got {lengths}")
    for begin in range(0, lengths["user"], _BLOCK_ROWS):
        yield {name: column[begin : begin + _BLOCK_ROWS] for name, column in columns.items()}
