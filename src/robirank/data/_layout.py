"""The layout of a text file of interactions: separator, header line and columns."""

from __future__ import annotations

import csv
import datetime
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from robirank.data._line_chunks import line_chunks
from robirank.errors import Argument, ArgumentError, TableError

PathLike = str | os.PathLike[str]
Column = str | int
ColumnChoice = dict[str, Column | None]  # user, item, count and time; None is the default

_SEPARATORS = ("\t", ",", ";", "|", " ")
_SAMPLE_BYTES = 1 << 16  # of lines that the first line is compared with
_SAMPLE_LINES = 1000
_NO_VALUE = {"", "na", "n/a", "nan", "null", "none", r"\n", "-"}
_USERS = "user|customer|client|buyer|member|account|visitor|viewer|listener|reader|player|person"
_ITEMS = "item|product|article|sku|asin|movie|film|video|song|track|artist|album|book|game|page"
_ENDING = r"s?(?:[ _.-]?(?:id|key|code|name|no|number))?"


@dataclass(frozen=True)
class Layout:
    """The separator of a text file, whether it has a header, and the columns to read.

    ``columns`` maps user, item, count and time to positions of columns.
    """

    sep: str
    header: bool
    n_fields: int
    columns: dict[str, int]

    def parse(self, lines: bytes, first_line: int) -> pl.DataFrame:
        """Parse whole lines to a frame of text columns; the column row has the line numbers.

        Blank lines are left out.
        """
        check_line_ends(lines, first_line)
        quote = None if self.sep == "\t" else '"'
        if quote and lines.count(b'"') % 2:
            raise ValueError("a line break within quotes; ids must not contain line breaks")
        names = self.sep.join(map(str, range(self.n_fields))) + "\n"
        try:
            frame = pl.read_csv(
                names.encode() + lines, separator=self.sep, quote_char=quote, infer_schema=False
            )
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise ValueError(self._first_wrong_line(lines, first_line) or str(error)) from None
        frame = frame.select(**{name: pl.col(str(k)) for name, k in self.columns.items()})
        rows = frame.with_row_index("row", first_line)
        if all(frame.null_count().row(0)) and re.search(rb"\n\r?\n", b"\n" + lines):
            rows = rows.filter(~pl.all_horizontal(pl.all().exclude("row").is_null()))
        return rows

    def _first_wrong_line(self, lines: bytes, first_line: int) -> str | None:
        for number, line in enumerate(lines.split(b"\n"), first_line):
            try:
                n_fields = len(split_line(line.decode(), self.sep))
            except UnicodeDecodeError:
                return f"line {number} is not text in UTF-8"
            if n_fields > self.n_fields:
                return f"line {number} has {n_fields} fields; the first line has {self.n_fields}"
        return None


def find_layout(
    path: PathLike, columns: ColumnChoice, sep: str | None, header: bool | None
) -> Layout:
    """Infer from the first lines of a file what the arguments leave open."""
    first, *others = _first_lines(path)
    if not first.strip():
        raise ValueError(f"{os.fspath(path)} begins with an empty line; expected one interaction")
    if sep is None:
        sep = _separator(path, first)
    if len(sep.encode()) != 1:
        raise ArgumentError("sep", f"must be one character; got {sep!r}")
    fields = split_line(first, sep)
    by_name = any(isinstance(column, str) for column in columns.values())
    if header is None:
        header = by_name or {"user", "item"} <= set(fields)
        if not header and looks_like_header(fields, [split_line(o, sep) for o in others if o]):
            raise TableError(
                f"{os.fspath(path)}: the first line looks like a header, {fields}; if it is one, ",
                *_name_the_columns(fields),
                ", or say ",
                Argument("header", True),
                " and give positions; if it is an interaction, say ",
                Argument("header", False),
            )
    if by_name and not header:
        problem = "can be asked for by name only with "
        raise ArgumentError("columns", problem, Argument("header", True))
    positions = find_columns(path, columns, fields if header else None, len(fields))
    return Layout(sep, header, len(fields), positions)


def _first_lines(path: PathLike) -> list[str]:
    with Path(path).open("rb") as file:
        chunk = next(line_chunks(file, _SAMPLE_BYTES), b"")
    if not chunk:
        raise ValueError(f"{os.fspath(path)} is empty; expected one interaction a line")
    check_line_ends(chunk, 1)
    first, *others = chunk.split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES]
    try:
        line = first.decode().rstrip("\r")
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not a text file in UTF-8: {error}") from None
    return [line, *(other.decode(errors="replace").rstrip("\r") for other in others)]


def check_line_ends(lines: bytes, first_line: int) -> None:
    """Raise an error for a carriage return that no line feed follows.

    It may be meant as a line end, or be part of an id by mistake.
    """
    if lines.count(b"\r") == lines.count(b"\r\n"):
        return
    match = re.search(rb"\r(?!\n)", lines)
    number = first_line + lines.count(b"\n", 0, match.start() if match else 0)
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
    """Split a line into its fields, without their quotes."""
    if sep == "\t":
        return line.split(sep)
    try:
        return next(csv.reader([line], delimiter=sep), [])
    except csv.Error as error:
        raise ValueError(f"{line!r:.80} cannot be read as columns: {error}") from None


def looks_like_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether the first line of a file names columns, and is no interaction.

    It does if its fields are common names of columns, or if a field is text above numbers or dates.
    """
    return _has_column_names(first) or any(
        _breaks_type(field, [row[position] for row in rest if position < len(row)])
        for position, field in enumerate(first)
    )


def _has_column_names(fields: Sequence[str]) -> bool:
    """Whether fields are common names of columns.

    One is enough if it is called user, item or id; otherwise there must be one for users and one
    for items, such as customer and product.
    """
    if any(re.fullmatch(r"(?i)\W*(user|item)" + _ENDING, field) for field in fields):
        return True
    if any(re.fullmatch(r"(?i:id|\w*[ _.-]id)|\w*[a-z]I[Dd]", field) for field in fields):
        return True
    return all(
        any(re.fullmatch(f"(?i)\\W*({words}){_ENDING}", field) for field in fields)
        for words in (_USERS, _ITEMS)
    )


def _breaks_type(first: str, column: Sequence[str]) -> bool:
    """Whether a field is text although the values below it are numbers or dates."""
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
    path: PathLike, columns: ColumnChoice, names: list[str] | None, n_columns: int
) -> dict[str, int]:
    """Find the positions of columns; columns that have names are found by name, never guessed."""
    positions = {
        argument: _position(path, argument, column, names, n_columns)
        for argument, column in columns.items()
        if column is not None
    }
    for k, argument in enumerate(("user", "item")):
        if argument not in positions:
            if names is not None and argument not in names:
                problem = f"{os.fspath(path)} has no column {argument!r}; it has {names}; "
                raise TableError(problem, *_name_the_columns(names))
            default = k if names is None else argument
            positions[argument] = _position(path, argument, default, names, n_columns)
    if positions["user"] == positions["item"]:
        problem = f"and item must be two columns; both are column {positions['user']}"
        raise ArgumentError("user", problem)
    return positions


def _position(
    path: PathLike, argument: str, column: Column, names: list[str] | None, n_columns: int
) -> int:
    if isinstance(column, int) and 0 <= column < n_columns:
        return column
    if column in (names or []):
        return (names or []).index(str(column))
    have = names if isinstance(column, str) else f"{n_columns} columns, counted from 0"
    raise ArgumentError(
        Argument(argument, column), f"is not a column of {os.fspath(path)}; it has {have}"
    )


def _name_the_columns(names: Sequence[str]) -> list[str | Argument]:
    """Advice to name the columns of users and items, such as the first two."""
    advice: list[str | Argument] = ["name the columns, such as "]
    for argument, name in zip(("user", "item"), names, strict=False):
        advice += [Argument(argument, name), ", "]
    return advice[:-1]
