"""Ranked lists for people and programs: tables on a terminal, text in a pipe, files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robirank.cli.console import escaped, print_json, print_text, tell
from robirank.storage.files import write_whole

if TYPE_CHECKING:
    import polars as pl

    from robirank.data.names import Names

FORMULA = "[=+@-]"  # what spreadsheets take for the beginning of one
FORMATS = (".tsv", ".csv", ".jsonl", ".parquet")


def check_format(path: Path | None) -> None:
    """Refuse, before the work, a file whose ending is not one of the known formats."""
    if path is not None and path.suffix not in FORMATS:
        raise ValueError(f"--output must end in one of {', '.join(FORMATS)}; got {path}")


def with_names(lists: pl.DataFrame, names: Names | None) -> pl.DataFrame:
    """Lists of who asked, rank, id and score, with the names of the ids after them if given."""
    import polars as pl

    if names is None:
        return lists
    called = [names.get(value) for value in lists[:, 2]]
    return lists.insert_column(3, pl.Series("name", called, dtype=pl.String))


def write_file(path: Path, chunks: Iterable[pl.DataFrame]) -> int:
    """Write lists to a file in the format of its ending; return the number of rows.

    In a .csv file, which spreadsheets open, texts that would be formulas get an apostrophe in
    front, and a line on standard error says so.
    """
    import polars as pl

    n_rows = n_formulas = 0
    with write_whole(path) as file:
        if path.suffix == ".parquet":
            whole = pl.concat(list(chunks))
            whole.write_parquet(file)
            return len(whole)
        for chunk in chunks:
            if path.suffix == ".jsonl":
                chunk.write_ndjson(file)
            elif path.suffix == ".tsv":
                file.write(as_text(chunk, "\t", header=n_rows == 0).encode())
            else:
                chunk, n = _without_formulas(chunk)
                file.write(as_text(chunk, ",", header=n_rows == 0).encode())
                n_formulas += n
            n_rows += len(chunk)
    if n_formulas:
        tell(
            f"{n_formulas} texts of {path} begin with =, +, - or @ and got an apostrophe in front, "
            "so that no spreadsheet runs them; .tsv, .jsonl and .parquet hold them as they are"
        )
    return n_rows


def _without_formulas(chunk: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Lists whose texts begin with no sign of a formula, and how many were changed."""
    import polars as pl

    text = pl.col(pl.String)
    formulas = chunk.select(text.str.contains(f"^{FORMULA}").sum())
    changed = chunk.with_columns(text.str.replace(f"^({FORMULA})", "'$1"))
    return changed, sum(formulas.row(0)) if formulas.width else 0


def as_text(chunk: pl.DataFrame, sep: str, *, header: bool) -> str:
    """Lists as lines of text."""
    # Tab-separated files have no quotes here, as `load_interactions` reads them.
    quote: Any = "never" if sep == "\t" else "necessary"
    return chunk.write_csv(separator=sep, include_header=header, quote_style=quote)


def print_lists(
    chunks: Iterable[pl.DataFrame], title: Callable[[Any], str], *, as_json: bool
) -> None:
    """Print lists: one JSON array, tables with titles on a terminal, tab-separated text else."""
    if as_json:
        print_json([_as_object(rows) for chunk in chunks for rows in _one_by_one(chunk)])
    elif sys.stdout.isatty():
        from rich.console import Console

        console = Console(highlight=False)
        for rows in (rows for chunk in chunks for rows in _one_by_one(chunk)):
            console.print(title(rows[0, 0]))
            console.print(_table(rows))
    else:
        for k, chunk in enumerate(chunks):
            print_text(as_text(chunk, "\t", header=k == 0))


def _one_by_one(chunk: pl.DataFrame) -> list[pl.DataFrame]:
    return chunk.partition_by(chunk.columns[0], maintain_order=True)


def _as_object(rows: pl.DataFrame) -> dict[str, Any]:
    asked, what = rows.columns[0], rows.columns[2]
    return {asked: rows[asked][0], f"{what}s": rows.drop(asked).to_dicts()}


def _table(rows: pl.DataFrame) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    shown = rows.drop(rows.columns[0])
    table = Table(box=SIMPLE_HEAD)
    for name in shown.columns:
        number = name in ("rank", "score")
        table.add_column(
            "" if name == "rank" else name,
            justify="right" if number else "left",
            style=None if name == "name" or "name" not in shown.columns else "dim",
        )
    for row in shown.iter_rows(named=True):
        table.add_row(*(escape(_cell(name, value)) for name, value in row.items()))
    return table


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if name == "score" else escaped(str(value))
