"""Reading interactions from CSV, TSV and Parquet files, and writing them to Parquet files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from robirank.data._encoder import Choice, Encoder
from robirank.data._layout import Column, ColumnChoice, Layout, PathLike, find_columns, find_layout
from robirank.data._line_chunks import line_chunks
from robirank.data.ids import Ids
from robirank.data.interactions import Interactions, encoded
from robirank.errors import ArgumentError, TableError, UnknownIdError
from robirank.storage.files import refuse_device, write_whole

#: The exceptions that polars raises for damaged files; a panic is not derived from Exception.
POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)

_CHUNK_BYTES = 1 << 24
_CHUNK_ROWS = 1 << 20
_SIDES = ("user", "item")


def load_interactions(
    path: PathLike,
    *,
    user: Column | None = None,
    item: Column | None = None,
    count: Column | None = None,
    time: Column | None = None,
    sep: str | None = None,
    header: bool | None = None,
    users: Ids | None = None,
    items: Ids | None = None,
    unseen: Choice = "error",
    on_missing: Choice = "error",
) -> Interactions:
    r"""Read interactions from a CSV, TSV or Parquet file, one row an interaction.

    Columns are given by name, or by position from 0 on where the file has no header.

    Parameters
    ----------
    path : str or path
        Parquet if the name ends with ``.parquet`` or ``.pq``, otherwise text, plain or gzip.
    user, item : str or int, optional
        The columns with the ids. By default ``user`` and ``item`` where columns have names, as in
        Parquet and under a header, and the first two columns of a file without names.
    count, time : str or int, optional
        The columns with counts and times; none by default. Times are numbers or dates; dates are
        kept in UTC, to which those with a time zone are converted.
    sep : str, optional
        What separates columns: one character. By default a tab in ``.tsv``, a comma in ``.csv``,
        and in other files whichever of tab, comma, semicolon, bar and blank the first line has.
        Text may stand in double quotes unless the separator is a tab.
    header : bool, optional
        Whether the first line names the columns. By default it does if columns are asked for by
        name, or if it names ``user`` and ``item``. A first line that otherwise looks like a
        header, such as text above numbers, is an error until this is said.
    users, items, unseen, on_missing
        As in `Interactions.from_frame`.

    Returns
    -------
    Interactions
        Ids are integers if all of a column are plain integers, otherwise text as it stands:
        ``007`` and ``7`` are two ids. A file of `Interactions.save` gives the users and items
        that were saved, in their order, those without interactions included.

    Notes
    -----
    The file is read in chunks, so that the peak of memory depends on the result and hardly on the
    length of the ids.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "plays.tsv")
    >>> _ = path.write_text("ann\ttea\t3\nbob\ttea\t1\nann\trum\t2\n")
    >>> load_interactions(path, count=2).matrix.toarray().tolist()
    [[3.0, 2.0], [1.0, 0.0]]
    """
    columns: ColumnChoice = {"user": user, "item": item, "count": count, "time": time}
    choices = {"users": users, "items": items, "unseen": unseen, "on_missing": on_missing}
    with naming(path):
        return encoded(*open_rows(path, columns, sep, header, **choices))


@contextlib.contextmanager
def naming(path: PathLike) -> Iterator[None]:
    """Add the name of the file to errors about its content, also to those of polars."""
    name = os.fspath(path)
    try:
        yield
    except POLARS_ERRORS as error:
        raise TableError(f"{name} is damaged: {error}") from None
    except ValueError as error:
        if name in str(error) or isinstance(error, ArgumentError):
            raise
        if isinstance(error, UnknownIdError):
            raise UnknownIdError(f"{name}: {error}", error.id, error.kind) from None
        raise TableError(f"{name}: ", *error.args) from None


def open_rows(
    path: PathLike, columns: ColumnChoice, sep: str | None, header: bool | None, **choices: Any
) -> tuple[Encoder, Iterator[pl.DataFrame]]:
    """Open a file: an encoder for its rows, and an iterator over chunks of its rows.

    ``choices`` are arguments of `Encoder`.
    """
    for name, column in columns.items():
        if isinstance(column, bool) or not isinstance(column, str | int | None):
            raise TypeError(f"{name} must be the name or the position of a column; got {column!r}")
    refuse_device(path)
    if Path(path).suffix not in (".parquet", ".pq"):
        layout = find_layout(path, columns, sep, header)
        return Encoder(**choices, text=True), _text_chunks(path, layout)
    lazy = _scan(path)
    names = lazy.collect_schema().names()
    positions = find_columns(path, columns, names, len(names))
    chosen = {argument: names[position] for argument, position in positions.items()}
    saved = _saved_ids(lazy, chosen)
    choices |= {side: ids for side, ids in saved.items() if choices.get(side) is None}
    return Encoder(**choices), _parquet_chunks(lazy, chosen, is_saved=bool(saved))


def _text_chunks(path: PathLike, layout: Layout) -> Iterator[pl.DataFrame]:
    line = 1
    with Path(path).open("rb") as file:
        for lines in line_chunks(file, _CHUNK_BYTES):
            if line == 1 and layout.header:
                lines = lines[lines.index(b"\n") + 1 :]
                line = 2
            if lines:
                yield layout.parse(lines, line)
            line += lines.count(b"\n")


def _parquet_chunks(
    lazy: pl.LazyFrame, columns: dict[str, str], *, is_saved: bool
) -> Iterator[pl.DataFrame]:
    chosen = [pl.col(column).alias(argument) for argument, column in columns.items()]
    codes = [f"{side}_code" for side in _SIDES] if is_saved else []
    n_rows = lazy.select(pl.len()).collect().item()
    for begin in range(0, max(1, n_rows), _CHUNK_ROWS):
        chunk = lazy.slice(begin, _CHUNK_ROWS).select(*chosen, *codes).collect()
        chunk = chunk.with_row_index("row", begin)
        if is_saved:  # leave out rows of users and items without interactions: one side is null
            user, item = (
                pl.all_horizontal(pl.col(side, f"{columns[side]}_code").is_null())
                for side in _SIDES
            )
            chunk = chunk.filter(user == item)
        yield chunk.drop(codes)


def _scan(path: PathLike) -> pl.LazyFrame:
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)}")
    try:
        lazy = pl.scan_parquet(os.fspath(path))
        lazy.collect_schema()
    except POLARS_ERRORS as error:
        raise ValueError(f"{os.fspath(path)} is not a Parquet file: {error}") from None
    return lazy


def save_interactions(data: Interactions, path: PathLike) -> None:
    """Write a table to a Parquet file; see `Interactions.save`."""
    user, item = data.user_codes(), data.indices
    rows: dict[str, Any] = {
        "user": data.users.series(user),
        "item": data.items.series(item),
        "user_code": user,
        "item_code": item,
    }
    if data.counts is not None:
        rows["count"] = data.counts
    if data.timestamps is not None:
        times = pl.Series(data.timestamps)
        rows["time"] = times.cast(pl.Datetime("us", "UTC")) if data.has_dates else times
    item_counts = np.bincount(item, minlength=data.n_items)
    frames = [pl.DataFrame(rows)]
    for side, ids, counts in (
        ("user", data.users, data.lengths),
        ("item", data.items, item_counts),
    ):
        idle = np.flatnonzero(counts == 0).astype(np.int32)
        if len(idle):
            frames.append(pl.DataFrame({side: ids.series(idle), f"{side}_code": idle}))
    with write_whole(path) as file:
        pl.concat(frames, how="diagonal").write_parquet(file, row_group_size=1 << 18)


def load_saved(path: PathLike) -> Interactions:
    """Read a file that `save_interactions` wrote."""
    with naming(path):
        lazy = _scan(path)
        names = lazy.collect_schema().names()
        missing = {"user", "item", "user_code", "item_code"} - set(names)
        if missing:
            raise ValueError(
                f"{os.fspath(path)} has no column {min(missing)!r}, so Interactions.save did not "
                "write it; use load_interactions for other files"
            )
        saved = _saved_ids(lazy, {side: side for side in _SIDES})
        if not saved:
            raise ValueError("user_code and item_code must number the ids from 0 on")
        columns = {name: name for name in (*_SIDES, "count", "time") if name in names}
        return encoded(
            Encoder(saved["users"], saved["items"]), _parquet_chunks(lazy, columns, is_saved=True)
        )


def _saved_ids(lazy: pl.LazyFrame, columns: dict[str, str]) -> dict[str, Ids]:
    """The users and items of a file of `save_interactions`; an empty dict for other files."""
    schema = lazy.collect_schema()
    if {columns["user"], columns["item"]} != set(_SIDES):
        return {}
    if any(schema.get(f"{side}_code") != pl.Int32 for side in _SIDES):
        return {}
    users, items = (_ids_by_code(lazy, columns[side]) for side in _SIDES)
    return {} if users is None or items is None else {"users": users, "items": items}


def _ids_by_code(lazy: pl.LazyFrame, side: str) -> Ids | None:
    """The ids in the order of the column ``user_code`` or ``item_code``.

    None unless that column numbers the ids 0, 1, 2, … without gaps.
    """
    code = f"{side}_code"
    distinct_pairs = lazy.select(side, code).drop_nulls(code).unique().sort(code)
    pairs = distinct_pairs.collect(engine="streaming")
    numbered = np.array_equal(pairs[code], np.arange(len(pairs)))
    distinct = pairs[side].null_count() == 0 and pairs[side].n_unique() == len(pairs)
    return Ids(pairs[side]) if numbered and distinct else None
