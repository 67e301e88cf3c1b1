"""Columns out of data frames of every kind, and blocks of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from robirank.data._columns import as_column

_BLOCK_ROWS = 1 << 20


def pick_columns(frame: Any, names: dict[str, str]) -> dict[str, Any]:
    """The columns that are named, by argument."""
    if isinstance(frame, pl.LazyFrame):
        frame = frame.select(pl.col(name) for name in set(names.values())).collect()
    elif hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "iloc"):
        frame = pl.DataFrame(frame)
    elif not isinstance(frame, dict) and not hasattr(frame, "iloc"):  # which pandas has
        raise TypeError(
            f"frame must be a DataFrame or a dict of arrays; got {type(frame).__name__}"
        )
    present = [*(frame if isinstance(frame, dict) else frame.columns)]
    for argument, name in names.items():
        if name not in present:
            raise ValueError(f"{argument}={name!r} is not a column of the frame; it has {present}")
    return {argument: frame[name] for argument, name in names.items()}


def blocks(columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Cut columns into blocks of rows, ids in a form that slices cheaply."""
    for name in ("user", "item"):
        columns[name] = as_column(columns[name], name)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns must have the same length; got {lengths}")
    for begin in range(0, lengths["user"], _BLOCK_ROWS):
        yield {name: column[begin : begin + _BLOCK_ROWS] for name, column in columns.items()}
