"""Judged documents from files: LETOR's text, or tables whose columns have names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from robirank.cli.console import step
from robirank.errors import ArgumentError, TableError

if TYPE_CHECKING:
    import polars as pl

    from robirank.data.ranking import RankingData

FORMATS = "LETOR format (.gz too), or a table (.parquet, .csv, .tsv)"
_PANEL = "Columns of a table"
_SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}

Label = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Relevance labels; `label` by default.", rich_help_panel=_PANEL
    ),
]
Qid = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Query ids; `qid` by default.", rich_help_panel=_PANEL),
]
DocId = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Ids of the documents.", rich_help_panel=_PANEL),
]
OnError = Literal["raise", "skip"]


@dataclass(frozen=True)
class Columns:
    """Where in a table the columns are; all others are features, or those that have names."""

    label: str | None = None
    qid: str | None = None
    doc_id: str | None = None


def read(
    path: Path,
    columns: Columns,
    *,
    features: Sequence[str] | None = None,
    labelled: bool = True,
    n_features: int | None = None,
    sparse: bool = False,
    normalize: bool = False,
    log_features: bool = False,
    on_error: OnError = "raise",
    threads: int | None = None,
    quiet: bool = False,
) -> RankingData:
    """Read a file and say what is in it; ``features`` and ``labelled`` are for tables."""
    import scipy.sparse as sp

    with step(f"read {path}", quiet=quiet) as details:
        if _is_table(path):
            if on_error != "raise":
                raise typer.BadParameter(f"--on-error is for LETOR files; {path} is a table")
            data = _read_table(path, columns, features, labelled, n_features)
            data = replace(data, X=sp.csr_matrix(data.X)) if sparse else data
        else:
            data = _read_letor(path, columns, sparse, n_features, on_error, threads)
        skipped = f", {data.n_skipped:,} bad lines skipped" if data.n_skipped else ""
        details.append(
            f"{data.n_rows:,} documents, {data.n_queries:,} queries, "
            f"{data.n_features} features{skipped}"
        )
    data = data.log() if log_features else data
    return data.normalize() if normalize else data


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith((".parquet", *_SEPARATORS))


def _read_letor(
    path: Path,
    columns: Columns,
    sparse: bool,
    n_features: int | None,
    on_error: OnError,
    threads: int | None,
) -> RankingData:
    from robirank.data.letor import load_letor

    if columns != Columns():
        raise typer.BadParameter(
            f"--label, --qid and --doc-id are for tables (.parquet, .csv, .tsv); got {path}"
        )
    return load_letor(
        path,
        sparse=sparse,
        n_features=n_features,
        on_error=on_error,
        num_threads=threads or 0,
    )


def _read_table(
    path: Path,
    columns: Columns,
    features: Sequence[str] | None,
    labelled: bool,
    n_features: int | None,
) -> RankingData:
    """Read a table; without labels all are 0, where none are needed."""
    import polars as pl

    from robirank.data.ranking import RankingData

    frame = _frame(path)
    label, qid = columns.label or "label", columns.qid or "qid"
    if not labelled and columns.label is None and label not in frame.columns:
        frame = frame.with_columns(pl.lit(0.0).alias(label))
    try:
        data = RankingData.from_frame(
            frame, label=label, qid=qid, doc_id=columns.doc_id, features=features
        )
    except ArgumentError as error:
        raise TableError(f"{path}: ", error.subject, " ", *error.args[1:]) from None
    except ValueError as error:
        raise TableError(f"{path}: {error}") from None
    if n_features not in (None, data.n_features):
        raise ValueError(
            f"{path} must have the {n_features} features of the model beside the columns {label} "
            f"and {qid}; it has {data.n_features}: {', '.join(data.feature_names or ())}"
        )
    return data


def _frame(path: Path) -> pl.DataFrame:
    import polars as pl

    from robirank.data.interaction_files import POLARS_ERRORS

    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        if path.suffix.lower() == ".parquet":
            return pl.read_parquet(path)
        separator = next(s for end, s in _SEPARATORS.items() if path.name.lower().endswith(end))
        return pl.read_csv(path, separator=separator, infer_schema_length=None)
    except POLARS_ERRORS as error:
        raise ValueError(f"{path} is damaged: {error}") from None
