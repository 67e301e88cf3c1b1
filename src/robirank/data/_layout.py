"""How a text file of interactions is built: what separates columns, and where those wanted are."""

from __future__ import annotations

import csv
import datetime
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from robirank.data._blocks import DamagedGzipError, line_blocks

PathLike = str | os.PathLike[str]
Column = str | int
Wanted = dict[str, Column | None]

_SEPARATORS = ("\t", ",", ";", "|", " ")
_SAMPLE_BYTES = 1 << 16  # what the first line is compared with
_SAMPLE_LINES = 1000
_NO_VALUE = {"", "na", "n/a", "nan", "null", "none", r"\n", "-"}
_USERS = "user|customer|client|buyer|member|account|visitor|viewer|listener|reader|player|person"
_ITEMS = "item|product|article|sku|asin|movie|film|video|song|track|artist|album|book|game|page"
_ENDING = r"s?(?:[ _.-]?(?:id|key|code|name|no|number))?"


@dataclass(frozen=True)
class Layout:
    """How a text file is built, and where in it the wanted columns are."""

    sep: str
    header: bool
    n_fields: int
    columns: dict[str, int]

    @property
    def quote(self) -> str | None:
        """What text may stand in; nothing where a tab separates columns."""
        return None if self.sep == "\t" else '"'

    def parse(self, lines: bytes) -> pl.DataFrame:
        """Lines as columns of text."""
        names = self.sep.join(map(str, range(self.n_fields))) + "\n"
        frame = pl.read_csv(
            names.encode() + lines,
            separator=self.sep,
            quote_char=self.quote,
            infer_schema=False,
        )
        return frame.select(pl.col(str(place)).alias(name) for name, place in self.columns.items())


def find_layout(path: PathLike, wanted: Wanted, sep: str | None, header: bool | None) -> Layout:
    """Look at the first lines of a file for what was not said about it."""
    first, *others = _first_lines(path)
    if not first.strip():
        raise ValueError(f"{os.fspath(path)} begins with an empty line; expected one interaction")
    if sep is None:
        sep = _separator(path, first)
    if len(sep.encode()) != 1:
        raise ValueError(f"sep must be one character; got {sep!r}")
    fields = split_line(first, sep)
    by_name = any(isinstance(column, str) for column in wanted.values())
    if header is None:
        header = by_name or {"user", "item"} <= set(fields)
        rest = [] if header else [split_line(line, sep) for line in others if line]
        if not header and looks_like_header(fields, rest):
            raise ValueError(
                f"{os.fspath(path)}: the first line looks like a header, {fields}; if it is one, "
                f"name the columns, {_such_as(fields)}, or say header=True and give positions; "
                "if it is an interaction, say header=False"
            )
    if by_name and not header:
        raise ValueError("columns can be asked for by name only with header=True")
    places = find_columns(path, wanted, fields if header else None, len(fields))
    return Layout(sep, header, len(fields), places)


def _first_lines(path: PathLike) -> list[str]:
    with Path(path).open("rb") as file:
        try:
            block = next(iter(line_blocks(file, _SAMPLE_BYTES)), None)
        except DamagedGzipError as error:
            raise ValueError(str(error)) from None
    if block is None:
        raise ValueError(f"{os.fspath(path)} is empty; expected one interaction a line")
    check_line_ends(bytes(block))
    first, *others = bytes(block).split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES]
    try:
        line = first.decode().rstrip("\r")
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not a text file in UTF-8: {error}") from None
    return [line, *(other.decode(errors="replace").rstrip("\r") for other in others)]


def check_line_ends(lines: bytes, n_before: int = 0) -> None:
    """Refuse carriage returns that end no line: as line ends, or within an id, they mislead."""
    if lines.count(b"\r") == lines.count(b"\r\n"):
        return
    alone = re.search(rb"\r(?!\n)", lines)
    number = n_before + 1 + lines.count(b"\n", 0, alone.start() if alone else 0)
    raise ValueError(
        f"line {number} has a carriage return without a line feed; lines must end with "
        r""""\n" or "\r\n" (tr '\r' '\n' makes them so)"""
    )


def _separator(path: PathLike, line: str) -> str:
    name = os.fspath(path).removesuffix(".gz")
    if name.endswith((".tsv", ".tab")):
        return "\t"
    if name.endswith(".csv"):
        return ","
    for sep in _SEPARATORS:
        if sep in line:
            return sep
    raise ValueError(
        f"{os.fspath(path)}: cannot see what separates the columns of {line!r:.80}; give sep="
    )


def split_line(line: str, sep: str) -> list[str]:
    """The fields of one line, out of their quotes."""
    if sep == "\t":
        return line.split(sep)
    try:
        return next(csv.reader([line], delimiter=sep), [])
    except csv.Error as error:
        raise ValueError(f"{line!r:.80} cannot be read as columns: {error}") from None


def looks_like_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether a line names columns: by its words, or by text above numbers and dates.

    Examples
    --------
    >>> looks_like_header(["customer", "qty"], [["ann", "3"], ["bob", "1"]])
    True
    >>> looks_like_header(["ann", "3"], [["bob", "1"]])
    False
    """
    return _has_column_names(first) or any(
        _breaks_type(field, [row[place] for row in rest if place < len(row)])
        for place, field in enumerate(first)
    )


def _has_column_names(fields: Sequence[str]) -> bool:
    """Whether a field is called user, item or an id, or two are a word for each of the sides."""
    if any(re.fullmatch(r"(?i)\W*(user|item)" + _ENDING, field) for field in fields):
        return True
    if any(re.fullmatch(r"(?i:id|\w*[ _.-]id)|\w*[a-z]I[Dd]", field) for field in fields):
        return True
    return all(
        any(re.fullmatch(f"(?i)\\W*({words}){_ENDING}", field) for field in fields)
        for words in (_USERS, _ITEMS)
    )


def _breaks_type(first: str, column: Sequence[str]) -> bool:
    """Whether a field is text above values that are not: numbers or dates throughout."""
    values = [value for value in column if value.strip().lower() not in _NO_VALUE]
    if not values or first.strip().lower() in _NO_VALUE or not _is_text(first):
        return False
    word_above_number = values[0].isdigit() and re.fullmatch("[A-Za-z _]+", first)
    return bool(word_above_number) or not any(map(_is_text, values))


def _is_text(value: str) -> bool:
    for read in (float, datetime.datetime.fromisoformat):
        try:
            read(value.strip())
        except ValueError:
            continue
        return False
    return True


def find_columns(
    path: PathLike, wanted: Wanted, names: list[str] | None, n_fields: int
) -> dict[str, int]:
    """The position of each column; columns that have names are taken by name, never guessed."""
    places = {
        argument: _position(path, argument, column, names, n_fields)
        for argument, column in wanted.items()
        if column is not None
    }
    for k, argument in enumerate(("user", "item")):
        if argument not in places:
            if names is not None and argument not in names:
                raise ValueError(
                    f"{os.fspath(path)} has no column {argument!r}; it has {names}; "
                    f"name the columns, {_such_as(names)}"
                )
            default = k if names is None else argument
            places[argument] = _position(path, argument, default, names, n_fields)
    if places["user"] == places["item"]:
        raise ValueError(f"user and item must be two columns; both are column {places['user']}")
    return places


def _position(
    path: PathLike, argument: str, column: Column, names: list[str] | None, n_fields: int
) -> int:
    if isinstance(column, str) and column not in (names or []):
        raise ValueError(
            f"{argument}={column!r} is not a column of {os.fspath(path)}; it has {names}"
        )
    place = (names or []).index(column) if isinstance(column, str) else column
    if not 0 <= place < n_fields:
        raise ValueError(
            f"{argument}={column!r} is not a column of {os.fspath(path)}; "
            f"it has {n_fields} columns, counted from 0"
        )
    return place


def _such_as(names: Sequence[str]) -> str:
    pairs = zip(("user", "item"), names, strict=False)
    return "such as " + ", ".join(f"{argument}={name!r}" for argument, name in pairs)
