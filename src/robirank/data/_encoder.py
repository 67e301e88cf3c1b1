"""Translation of outside ids to positions, one chunk of rows at a time."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from robirank.data._columns import as_counts, as_ids, as_times
from robirank.data.ids import Ids, Positions, as_integers
from robirank.data.nearest import did_you_mean
from robirank.errors import Argument, ArgumentError, TableError, UnknownIdError

#: What to do with rows that cannot be used: raise an error, or leave them out.
Choice = Literal["error", "drop"]

_LARGEST_COUNT = float(np.finfo(np.float32).max)


class Encoder:
    """Translates chunks of interactions to positions, and counts rows that cannot be used.

    The arguments are those of `robirank.load_interactions`. Ids of a text file become integers if
    all of them are plain integers (``007`` is not one). Whether the times so far are dates stands
    in ``has_dates``; it is None until a row has a time.
    """

    def __init__(
        self,
        users: Ids | None = None,
        items: Ids | None = None,
        *,
        unseen: Choice = "error",
        on_missing: Choice = "error",
        text: bool = False,
    ) -> None:
        check_error_or_drop("unseen", unseen)
        check_error_or_drop("on_missing", on_missing)
        self._sides = [_Side("user", users, text), _Side("item", items, text)]
        self._drop_unseen, self._drop_missing = unseen == "drop", on_missing == "drop"
        self._row_word = "line" if text else "row"
        self._n_rows = 0
        # By column: the number of rows that lack it, and the first of them.
        self._missing: dict[str, tuple[int, int]] = {}
        self.has_dates: bool | None = None

    def encode(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Translate a chunk; rows that cannot be used are left out and counted.

        It has the columns row (its number in the source), user, item, and optionally count and
        time. What comes back has user and item as positions (int32), count as float32, and time as
        int64 or float64.
        """
        for name in ("user", "item"):
            rows = rows.with_columns(_empty_is_missing(as_ids(rows[name], name)))
        if "count" in rows:
            rows = rows.with_columns(as_counts(rows["count"]))
        if "time" in rows:
            rows = self._with_times(rows)
        self._n_rows += len(rows)
        rows = self._without_missing(rows)
        if "count" in rows:
            self._check_counts(rows)
            rows = rows.with_columns(pl.col("count").cast(pl.Float32))
        # Sides with given ids first: a row that is left out there adds no new id to the other side.
        for side in sorted(self._sides, key=lambda side: not side.given):
            positions = pl.Series(side.name, side.encode(rows[side.name]))
            rows = rows.with_columns(positions)
            if side.given:
                rows = rows.filter(positions >= 0)
        return rows.drop("row")

    def finish(self) -> tuple[Ids, Ids]:
        """The ids of users and items, once all chunks are translated.

        Rows that could not be used are an error here, unless they are to be dropped.
        """
        if self._missing and not self._drop_missing:
            parts = [
                f"{n} of {self._n_rows} rows have no {name} (the first is {self._row_word} {row})"
                for name in ("user", "item", "count", "time")
                for n, row in [self._missing.get(name, (0, 0))]
                if n
            ]
            drop = Argument("on_missing", "drop")
            raise TableError(f"{', '.join(parts)}; ", drop, " leaves such rows out")
        for side in self._sides:
            if side.n_unseen and not self._drop_unseen:
                side.refuse_unseen(self._n_rows)
        users, items = (side.ids for side in self._sides)
        return users, items

    def _with_times(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Convert the times of a chunk; dates in one chunk and numbers in another are an error."""
        times, dates = as_times(rows["time"])
        has_time = times.is_not_null()
        if has_time.any() and self.has_dates not in (None, dates):
            kinds = ("dates", "a number") if self.has_dates else ("numbers", "a date")
            raise ValueError(
                f"time must hold numbers or dates, not both; it has {kinds[0]}, "
                f"and {self._row_word} {rows['row'].filter(has_time)[0]} has {kinds[1]}"
            )
        if has_time.any():
            self.has_dates = dates
        return rows.with_columns(times)

    def _without_missing(self, rows: pl.DataFrame) -> pl.DataFrame:
        for name in rows.columns[1:]:
            missing = rows["row"].filter(rows[name].is_null())
            if len(missing):
                before, first = self._missing.get(name, (0, missing[0]))
                self._missing[name] = before + len(missing), first
        return rows.drop_nulls()

    def _check_counts(self, rows: pl.DataFrame) -> None:
        right = pl.col("count").is_between(0, _LARGEST_COUNT, closed="right")
        wrong = rows.filter(~right)
        if len(wrong):
            raise ValueError(
                f"count must be a positive finite number in every row; "
                f"{self._row_word} {wrong['row'][0]} has {wrong['count'][0]:g}"
            )


class _Side:
    """The ids of users or of items: given, or collected from the rows."""

    def __init__(self, name: str, given: Ids | None, text: bool) -> None:
        self.name, self.given, self._text = name, given is not None, text
        self.ids = Ids.range(0) if given is None else given
        if not isinstance(self.ids, Ids):
            self.ids = Ids(given)
        self.n_unseen = 0
        self._first_unseen: Any = None

    def encode(self, column: pl.Series) -> Positions:
        if not self.given:
            if self._text and self.ids.kind == "int":
                column = self._as_integers(column)
            positions, self.ids = self.ids.encode(column)
            return positions
        positions = self.ids.find(column) if self._text else self.ids.index(column)
        unseen = column.filter(pl.Series(positions < 0))
        if len(unseen) and not self.n_unseen:
            self._first_unseen = unseen[0]
        self.n_unseen += len(unseen)
        return positions

    def _as_integers(self, column: pl.Series) -> pl.Series:
        """Convert text to integers; if that fails, convert the ids of earlier chunks to text."""
        numbers = as_integers(column)
        if numbers.null_count() == 0:
            return numbers
        self.ids = self.ids.as_text()
        return column

    def refuse_unseen(self, n_rows: int) -> None:
        name, first = self.name, self._first_unseen
        meant = did_you_mean(self.ids.close_to(str(first)))
        raise UnknownIdError(
            f"{self.n_unseen} of {n_rows} rows have {'a' if name == 'user' else 'an'} {name} that "
            f"is not in {name}s (the first is {first!r}{meant}); "
            "unseen='drop' leaves such rows out",
            first,
            name,
        )


def check_error_or_drop(name: str, value: Any) -> None:
    """Raise an error unless the argument is "error" or "drop"."""
    if value not in get_args(Choice):
        raise ArgumentError(name, f"must be 'error' or 'drop'; got {value!r}")


def _empty_is_missing(ids: pl.Series) -> pl.Series:
    if ids.dtype == pl.String and (empty := ids == "").any():
        return ids.set(empty, None)
    if ids.dtype == pl.Object and "" in ids.to_list():
        return pl.Series(ids.name, [None if v == "" else v for v in ids.to_list()], dtype=pl.Object)
    return ids
