"""Columns of features as values by row: words, numbers, vectors, or a sparse matrix of counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from robirank._checks import check_choice
from robirank._sparse import sound_csr
from robirank._types import Floats32, Floats64
from robirank.data._columns import as_series, as_times
from robirank.errors import ArgumentError

#: What the rows of a column have: "category" one value, "list" several values, "text" words,
#: "vector" an array of numbers that was made elsewhere; "counts" is a sparse matrix.
Kind = Literal["category", "list", "text", "number", "date", "vector", "counts"]

WORD_KINDS = ("category", "list", "text")
NUMBER_KINDS = ("number", "date")
KINDS = (*WORD_KINDS, *NUMBER_KINDS, "vector", "counts")

_MICROSECONDS_OF_DAY = 86_400e6
_LEAST_WORDS = 3.0  # on average, of a column that is text and not a category


@dataclass(frozen=True, eq=False)
class Words:
    """Values that are text: ``values[i]`` is a value of row ``rows[i]``; rows may have none."""

    rows: NDArray[np.int64]
    values: pl.Series


def words(name: str, column: Any, kind: Kind, separator: str) -> Words:
    """The values of a column of words; missing values and empty text are left out."""
    series = _plain_series(name, column)
    if not series.dtype.is_nested():
        series = series.cast(pl.String)
        if kind == "list":
            series = series.str.split(separator)
        elif kind == "text":
            series = series.str.to_lowercase().str.extract_all(r"\w+")
    frame = pl.DataFrame({"row": np.arange(len(series)), "value": series})
    if series.dtype.is_nested():
        frame = frame.explode("value")
    frame = frame.with_columns(pl.col("value").cast(pl.String).str.strip_chars())
    frame = frame.filter(pl.col("value").is_not_null() & (pl.col("value") != ""))
    return Words(frame["row"].to_numpy(), frame["value"])


def numbers(name: str, column: Any, kind: Kind) -> Floats64:
    """The numbers of a column, NaN where one is missing; dates are days since 1970."""
    if kind == "date":
        times, is_date = as_times(as_series(column, name), name)
        values = times.cast(pl.Float64).to_numpy()
        return values / _MICROSECONDS_OF_DAY if is_date else values
    series = as_series(column, name)
    if series.dtype == pl.Object:
        series = _plain_series(name, column)
    try:
        floats = series.cast(pl.Float64, strict=False)
    except pl.exceptions.PolarsError:
        raise ArgumentError(name, f"must hold numbers; got {series.dtype}") from None
    is_too_large = floats.abs() > float(np.finfo(np.float32).max)
    wrong = floats.is_null() & series.is_not_null() | is_too_large.fill_null(False)
    if series.dtype == pl.String:
        wrong &= series != ""
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        number = floats[row]
        is_finite = number is not None and np.isfinite(number)
        raise ArgumentError(
            name,
            f"must hold finite numbers; row {row} has {series[row]!r}"
            + (", more than float32 can hold" if is_finite else "")
            + ". Leave it empty if it is unknown, or say that the column is a category",
        )
    return floats.to_numpy().astype(np.float64)


def vectors(name: str, column: Any) -> Floats32:
    """The rows of a column of vectors, a row of NaN where one is missing."""
    rows = [None if _is_missing(row) else _vector(name, i, row) for i, row in enumerate(column)]
    lengths = {row.shape for row in rows if row is not None}
    if len(lengths) > 1:
        first = next(row.shape for row in rows if row is not None)
        at = next(i for i, row in enumerate(rows) if row is not None and row.shape != first)
        raise ArgumentError(
            name,
            f"must hold vectors of one length; row {at} has shape {rows[at].shape}, others "  # type: ignore[union-attr]
            f"{first}",
        )
    width = lengths.pop()[0] if lengths else 0
    result = np.full((len(rows), width), np.nan, np.float32)
    for i, row in enumerate(rows):
        if row is not None:
            result[i] = row
    is_there = np.array([row is not None for row in rows], bool)
    bad = np.argwhere(~np.isfinite(result) & is_there[:, None])
    if len(bad):
        row, place = bad[0]
        raise ArgumentError(
            name, f"must hold finite numbers; row {row} has {result[row, place]} at {place}"
        )
    return result


def _vector(name: str, i: int, row: Any) -> Floats32:
    try:
        with np.errstate(over="ignore"):  # what is too large is infinite, and refused as such
            vector = np.asarray(row, np.float32)
    except (TypeError, ValueError):
        vector = None
    if vector is None or vector.ndim != 1:
        raise ArgumentError(name, f"must hold vectors of numbers; row {i} has {row!r:.80}")
    return vector


def counts(name: str, matrix: Any) -> sparse.csr_matrix:
    """A sparse matrix, checked; its numbers must be finite and not negative."""
    if not sparse.issparse(matrix):
        raise ArgumentError(
            name,
            "must be a sparse matrix, as Features.from_matrix takes it; got "
            f"{type(matrix).__name__}",
        )
    csr = sound_csr(name, matrix).astype(np.float32)
    csr.sum_duplicates()
    wrong = ~(csr.data >= 0) | np.isinf(csr.data)
    if wrong.any():
        at = int(wrong.argmax())
        row = int(np.searchsorted(csr.indptr, at, side="right")) - 1
        raise ArgumentError(
            name,
            f"must hold finite numbers that are not negative; row {row}, column {csr.indices[at]} "
            f"has {csr.data[at]}. Numbers of any sign go into a dense array",
        )
    return csr


def check_kind(name: str, kind: Any) -> None:
    """Raise an error for a kind that does not exist."""
    check_choice(f"kinds[{name!r}]", kind, KINDS)


def guess_kind(column: Any, separator: str) -> Kind:
    """The kind that a column most likely has, by its type and its text.

    Examples
    --------
    >>> guess_kind(["Drama", "Drama|Comedy"], "|"), guess_kind([3, None], "|")
    ('list', 'number')
    >>> guess_kind(["tea"], "|"), guess_kind(["a cup of green tea"], "|")
    ('category', 'text')
    """
    if sparse.issparse(column):
        return "counts"
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return "vector"
    series = _plain_series("column", column)
    if isinstance(series.dtype, pl.List | pl.Array):
        return "vector" if series.dtype.inner.is_float() else "list"
    if series.dtype.is_temporal():
        return "date"
    if series.dtype.is_numeric():
        return "number"
    if series.dtype != pl.String:
        return "category"
    if series.str.contains(separator, literal=True).any():
        return "list"
    n_words = series.str.count_matches(r"\w+").mean()
    return "text" if isinstance(n_words, float) and n_words >= _LEAST_WORDS else "category"


def _plain_series(name: str, column: Any) -> pl.Series:
    """A column as a Series of a type of polars; lists of Python become lists of text or numbers."""
    series = as_series(column, name)
    if series.dtype != pl.Object:
        return series
    values = [None if _is_missing(v) else v for v in series.to_list()]
    nested = [isinstance(v, list | tuple | set | frozenset | np.ndarray) for v in values]
    if not any(nested):
        return pl.Series(name, [None if v is None else str(v) for v in values], pl.String)
    lists = [
        None if v is None else [*v] if is_list else [v]
        for v, is_list in zip(values, nested, strict=True)
    ]
    if all(isinstance(e, float | np.floating) for v in lists if v is not None for e in v):
        return pl.Series(name, lists, pl.List(pl.Float64))
    return pl.Series(
        name, [None if v is None else [str(e) for e in v] for v in lists], pl.List(pl.String)
    )


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)
