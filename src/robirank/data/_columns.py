"""Columns of data frames, arrays and lists as polars Series; missing values are null."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank.errors import Argument, ArgumentError


def pick_columns(frame: Any, names: dict[str, str]) -> pl.DataFrame:
    """Select columns of a frame or of a dict of arrays, and call them by the arguments' names."""
    if not isinstance(frame, dict):
        frame = as_frame(frame, "a DataFrame or a dict of arrays")
    check_columns(column_names(frame), names.items())
    frame = collected(frame, set(names.values()))
    columns = {argument: as_series(frame[name], argument) for argument, name in names.items()}
    lengths = {argument: len(column) for argument, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns must have the same length; got {lengths}")
    return pl.DataFrame(columns)


def as_frame(frame: Any, expected: str = "a DataFrame") -> Any:
    """Return a frame of pandas or polars as it is; convert frames of other libraries to polars."""
    if isinstance(frame, pl.DataFrame | pl.LazyFrame) or hasattr(frame, "iloc"):  # pandas
        return frame
    if hasattr(frame, "__arrow_c_stream__"):
        return pl.DataFrame(frame)
    raise TypeError(f"frame must be {expected}; got {type(frame).__name__}")


def column_names(frame: Any) -> list[Any]:
    """The names of all columns of a frame; a lazy frame is not executed."""
    if isinstance(frame, pl.LazyFrame):
        return frame.collect_schema().names()
    return [*(frame if isinstance(frame, dict) else frame.columns)]


def check_columns(columns: list[Any], names: Iterable[tuple[str, str]]) -> None:
    """Raise an error if an argument names a column that a frame does not have.

    ``names`` are pairs of an argument and the name of a column.
    """
    for argument, name in names:
        if name not in columns:
            raise ArgumentError(
                Argument(argument, name), f"is not a column of the frame; it has {columns}"
            )


def collected(frame: Any, names: Iterable[str]) -> Any:
    """Execute a lazy frame for the given columns; return any other frame as it is."""
    return frame.select(*names).collect() if isinstance(frame, pl.LazyFrame) else frame


def as_series(values: Any, name: str) -> pl.Series:
    """Convert a column of any kind to a Series; None, NaN, NaT and pandas' NA become null.

    Values that polars has no type for, such as tuples, give a Series of type Object.
    """
    if not isinstance(values, pl.Series):
        values = _series_of(_plain(values, name), name)
    if values.dtype.is_float():
        values = values.fill_nan(None)
    if values.dtype in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String)
    return values.alias(name)


def _plain(values: Any, name: str) -> NDArray[Any] | list[Any]:
    """Convert a column that is no Series to an array of a NumPy type, or to a list of objects."""
    if hasattr(values, "isna"):  # pandas, whose types mark missing values in different ways
        missing = np.asarray(values.isna())
        if missing.any():
            values = values.to_numpy(dtype=object, copy=True)
            values[missing] = None
        values = np.asarray(values)
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be an array or a list; got {values!r}")
    if not isinstance(values, np.ndarray):
        return list(values)
    if values.ndim != 1:
        raise ArgumentError(name, f"must have one dimension; got shape {values.shape}")
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    return values.tolist() if values.dtype.kind == "O" else values


def _series_of(values: NDArray[Any] | list[Any], name: str) -> pl.Series:
    if isinstance(values, list):
        kinds = set(map(type, values))
        if any(issubclass(kind, float | np.floating) for kind in kinds):
            values = [None if isinstance(v, float | np.floating) and v != v else v for v in values]
        if any(issubclass(kind, tuple) for kind in kinds):  # which polars would take for lists
            return pl.Series(values, dtype=pl.Object)
    try:
        series = pl.Series(values)
    except UnicodeEncodeError as error:
        raise ArgumentError(
            name,
            f"must hold valid Unicode text; got {str(error.object)!r}, with a surrogate that "
            "stands alone, as bytes make that were decoded with errors='surrogateescape'",
        ) from None
    except (AttributeError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series(list(values), dtype=pl.Object)
    # Lists and integers beyond 64 bits stay Python objects.
    as_objects = series.dtype.is_nested() or series.dtype in (pl.Int128, pl.UInt64)
    return pl.Series(values, dtype=pl.Object) if as_objects and isinstance(values, list) else series


def as_ids(values: Any, name: str) -> pl.Series:
    """Convert a column of ids to Int64, String or Object.

    Floats that are all whole become integers: pandas makes floats of integers with missing values.
    """
    series = as_series(values, name)
    if series.dtype in (pl.String, pl.Object):
        return series
    whole = series.dtype.is_float() and ((series.abs() <= 2**53) & (series == series.floor())).all()
    if whole or series.dtype.is_integer() or series.dtype == pl.Null:
        try:
            return series.cast(pl.Int64)
        except pl.exceptions.InvalidOperationError:
            raise ArgumentError(
                name,
                f"holds {series.max()!r}, which does not fit 64 bits with a sign; "
                "give such ids as text",
            ) from None
    return pl.Series(name, series.to_list(), dtype=pl.Object)


def as_numbers(values: Any, name: str, advice: str = "") -> pl.Series:
    """Convert a column of numbers or booleans to Float64; text and times are an error.

    Times would lose digits as float32, and text of digits may be an id. The error message ends with
    ``advice``.
    """
    series = as_series(values, name)
    if series.dtype == pl.Object and all(map(_is_number_or_none, series.to_list())):
        series = pl.Series(name, [None if v is None else float(v) for v in series.to_list()])
    if not series.dtype.is_numeric() and series.dtype not in (pl.Boolean, pl.Null):
        kind = getattr(values, "dtype", series.dtype)
        # The name of an Enum type lists all its categories in parentheses.
        raise ValueError(f"{name} must hold numbers; got {str(kind).split('(')[0]}{advice}")
    return series.cast(pl.Float64)


def _is_number_or_none(value: Any) -> bool:
    # timedelta64 is a subclass of NumPy's integers.
    return isinstance(value, Real | Decimal | None) and not isinstance(value, np.timedelta64)


def as_counts(values: Any) -> pl.Series:
    """Convert a column of counts, numbers or text, to Float64."""
    series = as_series(values, "count")
    if series.dtype != pl.String:
        return as_numbers(series, "count")
    numbers = series.cast(pl.Float64, strict=False).fill_nan(None)
    wrong = series.filter(numbers.is_null() & series.is_not_null() & (series != ""))
    if len(wrong):
        raise ValueError(f"count must hold numbers; got {wrong[0]!r}")
    return numbers


def as_times(values: Any, name: str = "time") -> tuple[pl.Series, bool]:
    """Convert a column of times to Int64 or Float64, and tell whether they are dates.

    Dates become microseconds since 1970 (UTC); those without a time zone are taken as UTC. Text is
    parsed as numbers or as dates. Infinite times become null. Errors call the column by ``name``.
    """
    series = as_series(values, name)
    if series.dtype == pl.String:
        series = _parsed_times(series)
    if series.dtype in (pl.Time, pl.Duration):
        raise ArgumentError(name, f"must hold numbers or dates; got {series.dtype}")
    if series.dtype.is_temporal():
        try:
            return series.cast(pl.Datetime("us")).to_physical(), True
        except pl.exceptions.PanicException as error:
            raise ArgumentError(name, f"must hold dates; polars says: {error}") from None
    if series.dtype.is_integer():
        return series.cast(pl.Int64), False
    numbers = as_numbers(series, name)
    return numbers.set(numbers.is_infinite(), None), False


def _parsed_times(values: pl.Series) -> pl.Series:
    values = values.set(values == "", None)
    for kind in (pl.Int64, pl.Float64):
        numbers = values.cast(kind, strict=False)
        if numbers.null_count() == values.null_count():
            return numbers
    try:
        return values.str.to_datetime(time_unit="us", time_zone="UTC")
    except pl.exceptions.PolarsError:
        dates = values.str.to_datetime(time_unit="us", time_zone="UTC", strict=False)
        wrong = values.filter(dates.is_null() & values.is_not_null())
        raise ArgumentError(
            values.name,
            f"must hold numbers or dates such as 2024-05-17 08:30:00; got {wrong[0]!r}",
        ) from None
