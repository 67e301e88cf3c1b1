"""Interactions from and to files: CSV, TSV and Parquet."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from robirank._sparse import offsets
from robirank.data._blocks import DamagedGzipError, line_blocks
from robirank.data._collector import Collector
from robirank.data._layout import (
    Column,
    Layout,
    PathLike,
    Wanted,
    check_line_ends,
    find_columns,
    find_layout,
    split_line,
)
from robirank.data.ids import Ids
from robirank.data.interactions import Choice, Interactions, from_records
from robirank.storage.files import refuse_device, write_whole

#: What polars raises where a file is damaged; a panic is no Exception.
POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)

_BLOCK_BYTES = 1 << 25
_BLOCK_ROWS = 1 << 20
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
    The file is read by blocks, so that the peak of memory depends on the result and hardly on the
    length of the ids.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "plays.tsv")
    >>> _ = path.write_text("ann\ttea\t3\nbob\ttea\t1\nann\trum\t2\n")
    >>> load_interactions(path, count=2).matrix.toarray().tolist()
    [[3.0, 2.0], [1.0, 0.0]]
    """
    collector = collect(
        path,
        user=user,
        item=item,
        count=count,
        time=time,
        sep=sep,
        header=header,
        users=users,
        items=items,
        unseen=unseen,
        on_missing=on_missing,
    )
    with _naming(path):
        return from_records(collector.finish())


def collect(
    path: PathLike,
    *,
    user: Column | None = None,
    item: Column | None = None,
    count: Column | None = None,
    time: Column | None = None,
    sep: str | None = None,
    header: bool | None = None,
    after_block: Callable[[Collector], None] = lambda _: None,
    **choices: Any,
) -> Collector:
    """Read a file block by block; ``after_block`` may take away what was read so far."""
    wanted = {"user": user, "item": item, "count": count, "time": time}
    for name, column in wanted.items():
        if isinstance(column, bool) or not isinstance(column, str | int | None):
            raise TypeError(f"{name} must be the name or the position of a column; got {column!r}")
    with _naming(path):
        refuse_device(path)
        if Path(path).suffix in (".parquet", ".pq"):
            text, first_row, row = False, 0, "row"
            lazy = _scan(path)
            columns = _parquet_columns(path, lazy, wanted)
            saved = _saved_ids(lazy, columns)
            blocks = _parquet_blocks(lazy, columns, saved=bool(saved))
            choices |= {side: ids for side, ids in saved.items() if choices.get(side) is None}
        else:
            layout = find_layout(path, wanted, sep, header)
            text, first_row, row = True, 1 + layout.header, "line"
            blocks = _text_blocks(path, layout)
        collector = Collector(text=text, first_row=first_row, row=row, **choices)
        for block in blocks:
            collector.add(**{name: block[name] for name in block.columns})
            after_block(collector)
    return collector


@contextlib.contextmanager
def _naming(path: PathLike) -> Iterator[None]:
    """Name the file in errors about its content, those of polars too."""
    name = os.fspath(path)
    try:
        yield
    except POLARS_ERRORS as error:
        raise ValueError(f"{name} is damaged: {error}") from None
    except ValueError as error:
        if name in str(error):
            raise
        raise ValueError(f"{name}: {error}") from None


def _text_blocks(path: PathLike, layout: Layout) -> Iterator[pl.DataFrame]:
    n_before = 0
    with Path(path).open("rb") as file:
        try:
            for block in line_blocks(file, _BLOCK_BYTES):
                lines = bytes(block)
                if n_before == 0 and layout.header:
                    lines = lines[lines.index(b"\n") + 1 :]
                    n_before = 1
                if lines:
                    yield _parsed(lines, layout, n_before)
                n_before += lines.count(b"\n")
        except DamagedGzipError as error:
            raise ValueError(str(error)) from None


def _parsed(lines: bytes, layout: Layout, n_before: int) -> pl.DataFrame:
    check_line_ends(lines, n_before)
    if layout.quote and lines.count(b'"') % 2:
        raise ValueError("a line break within quotes; ids must not contain line breaks")
    try:
        frame = layout.parse(lines)
    except POLARS_ERRORS as error:
        raise ValueError(_first_wrong_line(lines, layout, n_before) or str(error)) from None
    blank = frame.select(pl.all_horizontal(pl.all().is_null()).alias("blank")).to_series()
    if blank.any() and _has_blank_lines(lines):  # they say nothing, so nothing is missing there
        frame = frame.with_columns(blank)
    return frame


def _has_blank_lines(lines: bytes) -> bool:
    return lines.startswith((b"\n", b"\r\n")) or b"\n\n" in lines or b"\n\r\n" in lines


def _first_wrong_line(lines: bytes, layout: Layout, n_before: int) -> str | None:
    for number, line in enumerate(lines.split(b"\n"), n_before + 1):
        try:
            n_fields = len(split_line(line.decode(), layout.sep))
        except UnicodeDecodeError:
            return f"line {number} is not text in UTF-8"
        if n_fields > layout.n_fields:
            return f"line {number} has {n_fields} fields; the first line has {layout.n_fields}"
    return None


def _parquet_columns(path: PathLike, lazy: pl.LazyFrame, wanted: Wanted) -> dict[str, str]:
    names = lazy.collect_schema().names()
    places = find_columns(path, wanted, names, len(names))
    return {argument: names[place] for argument, place in places.items()}


def _parquet_blocks(
    lazy: pl.LazyFrame, columns: dict[str, str], *, saved: bool
) -> Iterator[pl.DataFrame]:
    wanted = [pl.col(column).alias(argument) for argument, column in columns.items()]
    n_rows = lazy.select(pl.len()).collect().item()
    for begin in range(0, n_rows, _BLOCK_ROWS):
        block = lazy.slice(begin, _BLOCK_ROWS)
        if saved:  # a user or an item without interactions has a row with no other side
            user, item = (pl.all_horizontal(pl.col(s, f"{s}_code").is_null()) for s in _SIDES)
            block = block.filter(user == item)
        yield block.select(wanted).collect()


def _saved_ids(lazy: pl.LazyFrame, columns: dict[str, str]) -> dict[str, Ids]:
    """The users and items of a table that `save_interactions` wrote; nothing of other files."""
    schema = lazy.collect_schema()
    if {columns["user"], columns["item"]} != set(_SIDES):
        return {}
    if any(schema.get(f"{side}_code") != pl.Int32 for side in _SIDES):
        return {}
    users, items = (_gathered(lazy, columns[side]) for side in _SIDES)
    return {} if users is None or items is None else {"users": users, "items": items}


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
    """Write what `Interactions.save` describes."""
    user_code, item_code = data.user_codes(), data.indices
    columns: dict[str, Any] = {
        "user": _spread(data.users, user_code),
        "item": _spread(data.items, item_code),
        "user_code": user_code,
        "item_code": item_code,
    }
    if data.counts is not None:
        columns["count"] = data.counts
    if data.timestamps is not None:
        columns["time"] = _time_column(data)
    frame = pl.DataFrame(columns)
    idle_users = np.flatnonzero(data.lengths == 0)
    idle_items = np.flatnonzero(np.bincount(item_code, minlength=data.n_items) == 0)
    alone = [
        pl.DataFrame({name: _spread(ids, codes), f"{name}_code": codes.astype(np.int32)})
        for name, ids, codes in (
            ("user", data.users, idle_users),
            ("item", data.items, idle_items),
        )
        if len(codes)
    ]
    frame = pl.concat([frame, *alone], how="diagonal")
    with write_whole(path) as file:
        frame.write_parquet(file, row_group_size=1 << 18)


def _time_column(data: Interactions) -> pl.Series:
    times = pl.Series(data.timestamps)
    return times.cast(pl.Datetime("us", "UTC")) if data.has_dates else times


def _spread(ids: Ids, codes: Any) -> pl.Series:
    values = ids.portable()
    if isinstance(values, range):
        return pl.Series(codes.astype(np.int64))
    return values.gather(codes)


def load_saved(path: PathLike) -> Interactions:
    """Read a file that `save_interactions` wrote."""
    with _naming(path):
        return _load_saved(path)


def _load_saved(path: PathLike) -> Interactions:
    lazy = _scan(path)
    names = lazy.collect_schema().names()
    missing = {"user", "item", "user_code", "item_code"} - set(names)
    if missing:
        raise ValueError(
            f"{os.fspath(path)} has no column {sorted(missing)[0]!r}, so Interactions.save did not "
            "write it; use load_interactions for other files"
        )
    for code in ("user_code", "item_code"):
        if not lazy.collect_schema()[code].is_integer():
            raise ValueError(f"{os.fspath(path)} is damaged: {code} must hold integers")
    users, items = (_checked(path, side, _gathered(lazy, side)) for side in _SIDES)
    paired = pl.col("user_code").is_not_null() & pl.col("item_code").is_not_null()
    records = lazy.select(c for c in names if c not in ("user", "item")).filter(paired).collect()
    user = records["user_code"].to_numpy()
    if len(user) and not 0 <= user.min() <= user.max() < len(users):
        raise ValueError(f"{os.fspath(path)} is damaged: user_code must be below {len(users)}")
    n_in_row = np.bincount(user, minlength=len(users))
    times: Any = records["time"] if "time" in names else None
    return Interactions(
        users,
        items,
        offsets(n_in_row),
        records["item_code"].to_numpy(),
        records["count"].to_numpy() if "count" in names else None,
        times,
    )


def _checked(path: PathLike, side: str, ids: Ids | None) -> Ids:
    if ids is None:
        raise ValueError(f"{os.fspath(path)} is damaged: {side}_code must number the ids from 0 on")
    return ids


def _gathered(lazy: pl.LazyFrame, side: str) -> Ids | None:
    """The ids of one side, in the order of their codes; None where these do not number them."""
    code = f"{side}_code"
    pairs = lazy.select(side, code).drop_nulls().unique().sort(code).collect(engine="streaming")
    ids = Ids(pairs[side])
    if len(ids) != len(pairs) or (pairs[code].to_numpy() != np.arange(len(pairs))).any():
        return None
    return ids
