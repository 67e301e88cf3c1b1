"""A column of anything as one of three things: int64, text, or a list of Python objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

_INT64 = np.iinfo(np.int64)


def as_column(values: Any, name: str) -> pl.Series | list[Any]:
    """Bring a column of ids into one form: a Series of int64 or text, or a list of objects.

    Missing entries (null, None, NaN, NaT) become null or None.
    """
    if isinstance(values, pl.Series):
        return _from_polars(values, name)
    if hasattr(values, "isna"):  # pandas, where each type has its own way to miss a value
        missing = np.asarray(values.isna())
        array = np.asarray(values) if not missing.any() else values.to_numpy(dtype=object)
        return _from_numpy(_without(array, missing), name)
    if isinstance(values, np.ndarray):
        return _from_numpy(values, name)
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be an array or a list of ids; got {values!r}")
    return _from_objects(list(values), name)


def is_missing(column: pl.Series | list[Any]) -> NDArray[np.bool_]:
    """Which entries of a column are missing."""
    if isinstance(column, list):
        return np.fromiter((v is None for v in column), dtype=bool, count=len(column))
    return column.is_null().to_numpy()


def _without(array: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    if missing.any():
        array = array.copy()
        array[missing] = None
    return array


def _from_polars(values: pl.Series, name: str) -> pl.Series | list[Any]:
    if values.dtype == pl.String:
        return values
    if values.dtype in (pl.Categorical, pl.Enum):
        return values.cast(pl.String)
    if values.dtype.is_integer():
        return _int64(values, name)
    if values.dtype.is_float():
        return _from_floats(values.to_numpy())
    return values.to_list()


def _from_numpy(array: NDArray[Any], name: str) -> pl.Series | list[Any]:
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension; got shape {array.shape}")
    if array.dtype.kind in "iu":
        return _int64(pl.Series(np.ascontiguousarray(array)), name)
    if array.dtype.kind == "f":
        return _from_floats(array)
    if array.dtype.kind == "U":
        return _from_text(array.tolist(), name)
    return _from_objects(array.tolist(), name)


def _int64(values: pl.Series, name: str) -> pl.Series:
    try:
        return values.cast(pl.Int64)
    except pl.exceptions.InvalidOperationError:
        raise ValueError(
            f"{name} holds {values.max()!r}, which does not fit 64 bits with a sign; "
            "give such ids as text"
        ) from None


def _from_floats(array: NDArray[Any]) -> pl.Series | list[Any]:
    missing = np.isnan(array)
    filled = np.where(missing, 0, array)
    whole = (np.abs(filled) <= 2**53) & (filled == np.floor(filled))
    if not whole.all():
        return [None if gone else v for v, gone in zip(array.tolist(), missing, strict=True)]
    codes = pl.Series(filled.astype(np.int64))
    return codes.set(pl.Series(missing), None) if missing.any() else codes


def _from_text(values: list[str | None], name: str) -> pl.Series:
    try:
        return pl.Series(values, dtype=pl.String)
    except UnicodeEncodeError:
        place, bad = next((k, v) for k, v in enumerate(values) if v and not _is_unicode(v))
        raise ValueError(
            f"{name} must hold valid Unicode text; value {place} is {bad!r}, with a surrogate "
            "that stands alone, as bytes make that were decoded with errors='surrogateescape'"
        ) from None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _from_objects(values: list[Any], name: str) -> pl.Series | list[Any]:
    kinds = {type(v) for v in values}
    if any(issubclass(kind, float | np.floating) for kind in kinds):
        values = [None if isinstance(v, float | np.floating) and v != v else v for v in values]
        kinds = {type(v) for v in values}
        if all(issubclass(kind, float | np.floating | type(None)) for kind in kinds):
            return _from_floats(np.array(values, dtype=np.float64))
    kinds -= {type(None)}
    if kinds and all(issubclass(kind, str) for kind in kinds):
        return _from_text(values, name)
    if kinds and all(issubclass(k, int | np.integer) and k is not bool for k in kinds):
        if all(v is None or _INT64.min <= v <= _INT64.max for v in values):
            return pl.Series([None if v is None else int(v) for v in values], dtype=pl.Int64)
        return values
    return values
