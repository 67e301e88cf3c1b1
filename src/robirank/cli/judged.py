"""Judged documents from files: LETOR's text, or tables whose columns have names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from robirank.cli.console import step
from robirank.cli.options import option
from robirank.errors import ArgumentError, TableError

if TYPE_CHECKING:
    import polars as pl

    from robirank.data.ranking import RankingData

FORMATS = "LETOR format (.gz too), or a table (.parquet, .csv, .tsv)"
_SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}


def _column(help: str) -> Any:
    return option(None, help, metavar="COLUMN", rich_help_panel="Columns of a table")


LABEL = _column("Relevance labels; `label` by default.")
QID = _column("Query ids; `qid` by default.")
DOC_ID = _column("Ids of the documents.")
OnError = Literal["raise", "skip"]


@dataclass(frozen=True)
class Reader:
    """Reads judged documents: where the columns of a table are, and what is done to the features.

    All other columns are features, or those that are asked for. Tables whose labels are not needed
    need not have any.
    """

    label: str | None
    qid: str | None
    doc_id: str | None
    on_error: OnError
    sparse: bool = False
    labelled: bool = True
    normalize: bool = False
    log_features: bool = False
    threads: int | None = None

    def read(
        self, path: Path, features: Sequence[str] | None = None, n_features: int | None = None
    ) -> RankingData:
        """Read a file and say what is in it; ``features`` are columns of a table."""
        from robirank.data.letor import load_letor

        is_table = path.name.lower().endswith((".parquet", *_SEPARATORS))
        if is_table and self.on_error != "raise":
            raise typer.BadParameter(f"--on-error is for LETOR files; {path} is a table")
        if not is_table and (self.label, self.qid, self.doc_id) != (None, None, None):
            raise typer.BadParameter(
                f"--label, --qid and --doc-id are for tables (.parquet, .csv, .tsv); got {path}"
            )
        with step(f"read {path}") as details:
            if is_table:
                data = self._read_table(path, features, n_features)
            else:
                options: Any = {"sparse": self.sparse, "on_error": self.on_error}
                options |= {"n_features": n_features, "num_threads": self.threads or 0}
                data = load_letor(path, **options)
            skipped = f", {data.n_skipped:,} bad lines skipped" if data.n_skipped else ""
            details.append(
                f"{data.n_rows:,} documents, {data.n_queries:,} queries, "
                f"{data.n_features} features{skipped}"
            )
        data = data.log() if self.log_features else data
        return data.normalize() if self.normalize else data

    def _read_table(
        self, path: Path, features: Sequence[str] | None, n_features: int | None
    ) -> RankingData:
        import polars as pl
        import scipy.sparse as sp

        from robirank.data.ranking import RankingData

        frame = _frame(path)
        label, qid = self.label or "label", self.qid or "qid"
        if not self.labelled and self.label is None and label not in frame.columns:
            frame = frame.with_columns(pl.lit(0.0).alias(label))
        try:
            data = RankingData.from_frame(
                frame, label=label, qid=qid, doc_id=self.doc_id, features=features
            )
        except ArgumentError as error:
            raise TableError(f"{path}: ", error.subject, " ", *error.args[1:]) from None
        except ValueError as error:
            raise TableError(f"{path}: {error}") from None
        if n_features not in (None, data.n_features):
            raise ValueError(
                f"{path} must have the {n_features} features of the model beside the columns "
                f"{label} and {qid}; it has {data.n_features}: "
                f"{', '.join(data.feature_names or ())}"
            )
        return replace(data, X=sp.csr_matrix(data.X)) if self.sparse else data


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
