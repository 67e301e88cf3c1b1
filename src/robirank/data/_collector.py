"""Columns of a table, a block of rows at a time, into codes; what is wrong with them is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank._types import Floats32, Floats64
from robirank.data._columns import as_column, is_missing
from robirank.data.ids import Codes, Ids, as_integers
from robirank.data.nearest import did_you_mean


@dataclass(frozen=True)
class CodedColumns:
    """Interactions one after the other, by codes."""

    users: Ids
    items: Ids
    user: Codes
    item: Codes
    count: Floats32 | None
    time: NDArray[Any] | None
    has_dates: bool = False


class Collector:
    """Takes blocks of rows and gives `CodedColumns` at the end.

    With ``text=True`` every column comes as text, out of a file. Ids are then integers if all of
    them are plain integers (``007`` is not), and text otherwise.
    """

    def __init__(
        self,
        users: Ids | None = None,
        items: Ids | None = None,
        *,
        unseen: Literal["error", "drop"] = "error",
        on_missing: Literal["error", "drop"] = "error",
        text: bool = False,
        first_row: int = 0,
        row: str = "row",
    ) -> None:
        choose("unseen", unseen, ("error", "drop"))
        choose("on_missing", on_missing, ("error", "drop"))
        self._user = _Side("user", users, text)
        self._item = _Side("item", items, text)
        self._drop_unseen = unseen == "drop"
        self._drop_missing = on_missing == "drop"
        self._text = text
        self._row = row
        self._next_row = first_row
        self._n_rows = 0
        self._has_dates: bool | None = None  # of the blocks so far
        self._missing: dict[str, tuple[int, int]] = {}  # column: how many, the first row
        self._blocks: dict[str, list[NDArray[Any]]] = {"user": [], "item": []}

    def add(
        self, user: Any, item: Any, count: Any = None, time: Any = None, blank: Any = None
    ) -> None:
        """Take a block of rows; columns are arrays, Series or lists of the same length.

        Rows that `blank` marks are passed over.
        """
        ids = {"user": as_column(user, "user"), "item": as_column(item, "item")}
        bad = {name: _missing_ids(column) for name, column in ids.items()}
        numbers: dict[str, NDArray[Any]] = {}
        if count is not None:
            numbers["count"], bad["count"] = as_counts(count)
        if time is not None:
            numbers["time"], bad["time"], dates = as_times(time, text=self._text)
            self._check_kind_of_times(dates, ~bad["time"])
        self._check_lengths(ids | numbers)
        n = len(ids["user"])
        rows = np.ones(n, dtype=bool) if blank is None else ~np.asarray(blank)
        self._n_rows += int(np.count_nonzero(rows))
        rows = self._rows_to_keep(bad, rows)
        if "count" in numbers:
            self._check_counts(numbers["count"], rows)
        if not rows.all():
            ids = {name: _kept(column, rows) for name, column in ids.items()}
            numbers = {name: column[rows] for name, column in numbers.items()}
        self._keep(ids, numbers)
        self._next_row += n

    def take(self) -> dict[str, NDArray[Any]]:
        """What has come so far, which is then forgotten: codes, and perhaps counts and times."""
        columns = {name: _joined(self._blocks, name) for name in [*self._blocks]}
        self._blocks = {"user": [], "item": []}
        return columns

    def ids(self) -> tuple[Ids, Ids]:
        """The ids of users and items, or what was wrong with the rows."""
        if self._missing and not self._drop_missing:
            raise ValueError(f"{self._what_is_missing()}; on_missing='drop' leaves such rows out")
        if not self._drop_unseen:
            self._user.refuse_unseen(self._n_rows)
            self._item.refuse_unseen(self._n_rows)
        return self._user.ids, self._item.ids

    def finish(self) -> CodedColumns:
        """Put the blocks together, or say what was wrong with them."""
        self.ids()
        columns = {name: _joined(self._blocks, name) for name in [*self._blocks]}
        count = columns.get("count")
        return CodedColumns(
            self._user.ids,
            self._item.ids,
            columns["user"].astype(np.int32, copy=False),
            columns["item"].astype(np.int32, copy=False),
            None if count is None else count.astype(np.float32, copy=False),
            columns.get("time"),
            bool(self._has_dates),
        )

    def _check_lengths(self, columns: dict[str, Any]) -> None:
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns must have the same length; got {lengths}")

    def _rows_to_keep(
        self, bad: dict[str, NDArray[np.bool_]], rows: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        keep = rows.copy()
        for name, missing in bad.items():
            where = np.flatnonzero(missing & rows)
            if len(where):
                before, first = self._missing.get(name, (0, self._next_row + int(where[0])))
                self._missing[name] = before + len(where), first
                keep &= ~missing
        return keep

    def _check_counts(self, counts: NDArray[Any], rows: NDArray[np.bool_]) -> None:
        most = np.finfo(np.float32).max
        wrong = np.flatnonzero(rows & ~((counts > 0) & (counts <= most)))
        if len(wrong):
            raise ValueError(
                f"count must be a positive finite number in every row; "
                f"{self._row} {self._next_row + wrong[0]} has {counts[wrong[0]]:g}"
            )

    def _check_kind_of_times(self, dates: bool, there: NDArray[np.bool_]) -> None:
        """Refuse numbers in one block and dates in another; within one, polars does."""
        if not there.any():
            return
        if self._has_dates not in (None, dates):
            kinds = ("dates", "a number") if self._has_dates else ("numbers", "a date")
            raise ValueError(
                f"time must hold numbers or dates, not both; it has {kinds[0]}, "
                f"and {self._row} {self._next_row + int(there.argmax())} has {kinds[1]}"
            )
        self._has_dates = dates

    def _keep(
        self, ids: dict[str, pl.Series | list[Any]], columns: dict[str, NDArray[Any]]
    ) -> None:
        # Given sides first: a row that is left out there must not bring new ids to the other.
        for side in sorted((self._user, self._item), key=lambda side: not side.given):
            codes = side.encode(ids[side.name])
            columns[side.name] = codes
            known = codes >= 0
            if not known.all():
                ids = {name: _kept(column, known) for name, column in ids.items()}
                columns = {name: column[known] for name, column in columns.items()}
        for name, column in columns.items():
            kept = column.astype(np.float32) if name == "count" else column
            self._blocks.setdefault(name, []).append(kept)

    def _what_is_missing(self) -> str:
        parts = [
            f"{n} of {self._n_rows} rows have no {name} (the first is {self._row} {first})"
            for name in ("user", "item", "count", "time")
            for n, first in [self._missing.get(name, (0, 0))]
            if n
        ]
        return ", ".join(parts)


class _Side:
    """The ids of one side, users or items: growing, or given."""

    def __init__(self, name: str, given: Ids | None, text: bool) -> None:
        if given is not None and not isinstance(given, Ids):
            given = Ids(given)
        self.ids = Ids.range(0) if given is None else given
        self.name = name
        self.given = given is not None
        self._text = text
        self._n_unseen = 0
        self._first_unseen: Any = None

    def encode(self, column: pl.Series | list[Any]) -> Codes:
        if not self.given:
            typed = self._typed(column) if self._text and isinstance(column, pl.Series) else column
            codes, self.ids = self.ids.encode(typed)
            return codes
        codes = self.ids.find(column) if self._text else self.ids.index(column)
        unseen = np.flatnonzero(codes < 0)
        if len(unseen):
            if not self._n_unseen:
                self._first_unseen = column[int(unseen[0])]
            self._n_unseen += len(unseen)
        return codes

    def _typed(self, column: pl.Series) -> pl.Series:
        """Text as integers, if all ids so far are integers."""
        if self.ids.kind != "int":
            return column
        numbers = as_integers(column)
        if numbers.null_count() == 0:
            return numbers
        self.ids = self.ids.as_text()
        return column

    def refuse_unseen(self, n_rows: int) -> None:
        if self._n_unseen:
            meant = did_you_mean(self.ids.close_to(str(self._first_unseen)))
            raise ValueError(
                f"{self._n_unseen} of {n_rows} rows have {_an(self.name)} that is not in "
                f"{self.name}s (the first is {self._first_unseen!r}{meant}); "
                "unseen='drop' leaves such rows out"
            )


def choose(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the allowed ones."""
    if value not in allowed:
        options = " or ".join(repr(a) for a in allowed)
        raise ValueError(f"{name} must be {options}; got {value!r}")


def as_counts(values: Any) -> tuple[Floats64, NDArray[np.bool_]]:
    """Counts as float64, and which of them are missing (null, None or NaN)."""
    if isinstance(values, pl.Series) and values.dtype == pl.String:
        numbers = values.cast(pl.Float64, strict=False)
        bad = values.filter(numbers.is_null() & values.is_not_null() & (values != ""))
        if len(bad):
            raise ValueError(f"count must hold numbers; got {bad[0]!r}")
        values = numbers
    array = _floats(values, "count")
    return array, np.isnan(array)


def as_times(values: Any, *, text: bool = False) -> tuple[NDArray[Any], NDArray[np.bool_], bool]:
    """Times as int64 or float64, which of them are missing, and whether they were dates.

    Dates become microseconds since 1970 (UTC); those without a time zone are taken as UTC.
    """
    if not isinstance(values, pl.Series) and np.asarray(values).dtype == object:
        values = _mixed_times(values)
    series = values if isinstance(values, pl.Series) else None
    if series is not None and series.dtype == pl.String and text:
        series = _parsed_times(series)
    dates = series is not None and series.dtype.is_temporal()
    if series is not None and dates:
        if series.dtype in (pl.Time, pl.Duration):
            raise ValueError(f"time must hold numbers or dates; got {series.dtype}")
        series = series.cast(pl.Datetime("us")).to_physical()
    if series is not None and series.dtype.is_integer():
        return series.fill_null(0).cast(pl.Int64).to_numpy(), series.is_null().to_numpy(), dates
    array = np.asarray(values if series is None else series.to_numpy())
    if array.dtype.kind == "M":
        missing = np.isnat(array)
        return array.astype("datetime64[us]").astype(np.int64), missing, True
    if array.dtype.kind in "iu":
        return array.astype(np.int64), np.zeros(array.shape, dtype=bool), False
    array = _floats(array, "time")
    return array, ~np.isfinite(array), False


def _mixed_times(values: Any) -> pl.Series:
    """Python's dates, and numbers among which some are missing."""
    column = as_column(values, "time")
    try:
        return pl.Series(column)
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"time must hold numbers or dates; {error}") from None


def _parsed_times(values: pl.Series) -> pl.Series:
    values = values.replace("", None)
    for kind in (pl.Int64, pl.Float64):
        numbers = values.cast(kind, strict=False)
        if numbers.null_count() == values.null_count():
            return numbers
    try:
        return values.str.to_datetime(time_unit="us", time_zone="UTC")
    except pl.exceptions.PolarsError:
        raise ValueError(
            f"time must hold numbers or dates such as 2024-05-17 08:30:00; got {values[0]!r}"
        ) from None


def _floats(values: Any, name: str) -> Floats64:
    try:
        if hasattr(values, "isna"):  # pandas: its own NA is no number
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        if isinstance(values, pl.Series):
            values = values.to_numpy()
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers; {error}") from None


def _missing_ids(column: pl.Series | list[Any]) -> NDArray[np.bool_]:
    if isinstance(column, pl.Series) and column.dtype == pl.String:
        return (column.is_null() | (column == "").fill_null(True)).to_numpy()
    if isinstance(column, list):
        gone = (v is None or (isinstance(v, str) and v == "") for v in column)
        return np.fromiter(gone, dtype=bool, count=len(column))
    return is_missing(column)


def _kept(column: pl.Series | list[Any], rows: NDArray[np.bool_]) -> pl.Series | list[Any]:
    if isinstance(column, pl.Series):
        return column.filter(pl.Series(rows))
    return [value for value, keep in zip(column, rows.tolist(), strict=True) if keep]


def _joined(blocks: dict[str, list[NDArray[Any]]], name: str) -> NDArray[Any]:
    """One column whole; its blocks are let go, so that no two columns are in memory twice."""
    parts = blocks.pop(name)
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0)


def _an(name: str) -> str:
    return f"{'an' if name[0] in 'aeio' else 'a'} {name}"
