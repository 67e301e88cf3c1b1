"""Tables of features: what is known of users or items, under their outside ids."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from scipy import sparse

from robirank._checks import check_not_negative
from robirank.data._columns import as_frame, check_columns, collected, column_names
from robirank.data.feature_columns import WORD_KINDS, Kind, check_kind, guess_kind
from robirank.data.ids import Ids, as_integers, distinct_ids
from robirank.errors import ArgumentError, TableError


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """What is known of users or items: a row for each, under its outside id.

    Made by `from_frame`, `from_file`, `from_array` or `from_matrix`. A model that is fitted with
    features learns from the table how columns become numbers, and keeps that: new rows are
    converted in the same way, and a category that the fit had not seen is counted and passed over.

    Columns are of these kinds:

    - ``category``: one value, such as a brand. By default columns of short text.
    - ``list``: several values: a list, or text such as "Drama|Comedy". By default columns with
      lists, or with the separator.
    - ``text``: words, such as a title; each is a value. By default columns of longer text.
    - ``number``: a number, which may be missing. By default columns of numbers.
    - ``date``: a date or a time, taken as a number. By default columns of dates.
    - ``vector``: a vector of one length, such as an embedding. By default columns with lists of
      floats.

    Attributes
    ----------
    ids : Ids
        What the rows are called.
    columns : dict from str to column
    kinds : dict from str to str
    weights : dict from str to float
        How much a column counts beside the others, 1 by default. Every column counts as much as
        any other, however many values it has, and all numbers and dates together count as one.
    separator : str

    Examples
    --------
    >>> shop = {"id": ["a", "b"], "brand": ["Acme", None], "price": [3.5, 9.0]}
    >>> Features.from_frame(shop)
    Features(2 rows: brand (category), price (number))
    """

    ids: Ids
    columns: Mapping[str, Any]
    kinds: Mapping[str, Kind]
    weights: Mapping[str, float] = field(default_factory=dict)
    separator: str = "|"

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} ({kind})" for name, kind in self.kinds.items())
        return f"Features({len(self):,} rows: {columns})"

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        id: str = "id",
        *,
        columns: Sequence[str] | None = None,
        kinds: Mapping[str, Kind] | None = None,
        weights: Mapping[str, float] | None = None,
        separator: str = "|",
    ) -> Features:
        """Take features from a table, one row for each user or item.

        Parameters
        ----------
        frame : DataFrame or dict of arrays
            polars, pandas, or anything else with ``__arrow_c_stream__``.
        id : str
            The column with the ids, which must differ.
        columns : sequence of str, optional
            The columns to take. Default: all but the ids.
        kinds : dict from str to str, optional
            The kinds of columns that are not what they look like: ``{"zip": "category"}``.
        weights : dict from str to float, optional
            How much columns count; 1 by default.
        separator : str
            What separates the values of a list in one text.

        Examples
        --------
        >>> import polars as pl
        >>> films = pl.DataFrame({"film": [7, 9], "genres": ["Drama", "Drama|Comedy"]})
        >>> Features.from_frame(films, "film")
        Features(2 rows: genres (list))
        """
        if not isinstance(frame, dict):
            frame = as_frame(frame, "a DataFrame or a dict of arrays")
        names = column_names(frame)
        if columns is None:
            columns = [name for name in names if name != id]
        check_columns(names, [("id", id), *(("columns", name) for name in columns)])
        check_columns([*columns], [("kinds", name) for name in kinds or {}])
        check_columns([*columns], [("weights", name) for name in weights or {}])
        frame = collected(frame, [id, *columns])
        values = {name: frame[name] for name in columns}
        return cls._of(frame[id], values, kinds or {}, weights or {}, separator, id)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], id: str = "id", **options: Any) -> Features:
        r"""Read features from a Parquet or CSV file with a header.

        Parameters
        ----------
        path : path
            Parquet if the name ends with ``.parquet`` or ``.pq``; TSV if it ends with ``.tsv``;
            otherwise CSV. Text may be gzip.
        id : str
            The column with the ids.
        options
            As in `from_frame`.

        Examples
        --------
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "shop.csv")
        >>> _ = path.write_text("id,brand,price\na,Acme,3.5\nb,,9\n")
        >>> Features.from_file(path)
        Features(2 rows: brand (category), price (number))
        """
        kinds = options.get("kinds") or {}
        words = [name for name, kind in kinds.items() if kind in WORD_KINDS]
        return cls.from_frame(read_rows(path, id, words), id, **options)

    @classmethod
    def from_array(cls, vectors: ArrayLike, ids: Any = None, *, name: str = "vector") -> Features:
        """Take a dense matrix, a vector for each user or item; every entry is standardised.

        ``ids`` are 0, 1, 2, … by default, which are the positions of users or items in a matrix.
        """
        matrix = np.asarray(vectors)
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
            raise ArgumentError(
                "vectors",
                f"must be a matrix of numbers; got {matrix.dtype} of shape {matrix.shape}",
            )
        ids = np.arange(len(matrix)) if ids is None else ids
        return cls._of(ids, {name: matrix}, {name: "vector"}, {}, "|")

    @classmethod
    def from_matrix(cls, counts: Any, ids: Any = None, *, name: str = "counts") -> Features:
        """Take a sparse matrix that says how often each user or item has what.

        Parameters
        ----------
        counts : sparse matrix
            A row for each user or item; numbers must not be negative.
        ids : array, optional
            0, 1, 2, … by default, which are the positions of users or items in a matrix.
        name : str

        Examples
        --------
        >>> Features.from_matrix(sparse.csr_matrix([[2, 0, 1], [0, 1, 0]]), ["a", "b"])
        Features(2 rows: counts (counts))
        """
        if not sparse.issparse(counts):
            raise TypeError(f"counts must be a sparse matrix; got {type(counts).__name__}")
        matrix: Any = counts
        ids = np.arange(matrix.shape[0]) if ids is None else ids
        return cls._of(ids, {name: matrix}, {name: "counts"}, {}, "|")

    @classmethod
    def _of(
        cls,
        ids: Any,
        columns: dict[str, Any],
        kinds: Mapping[str, Kind],
        weights: Mapping[str, float],
        separator: str,
        id: str = "id",
    ) -> Features:
        """Check ids, kinds and weights, and guess the kinds that are not given.

        Errors call the ids by ``id``.
        """
        if not columns:
            raise ArgumentError("columns", "must name at least one column of features")
        if not isinstance(separator, str) or not separator:
            raise ArgumentError("separator", f"must be text; got {separator!r}")
        for name, kind in kinds.items():
            check_kind(name, kind)
        for name, weight in weights.items():
            check_not_negative(f"weights[{name!r}]", weight)
        distinct = distinct_ids(ids, id)
        for name, column in columns.items():
            if not isinstance(name, str):
                raise TypeError(f"names of columns must be text; got {name!r}")
            n = column.shape[0] if hasattr(column, "shape") else len(column)
            if n != len(distinct):
                problem = f"must have one row for each of the {len(distinct)} ids; it has {n}"
                raise ArgumentError(name, problem)
        all_kinds = {n: kinds.get(n) or guess_kind(c, separator) for n, c in columns.items()}
        return cls(distinct, columns, all_kinds, dict(weights), separator)


def read_rows(path: str | os.PathLike[str], id: str, words: Sequence[str]) -> pl.DataFrame:
    """Read a file with a row for each id; in CSV, columns of words stay as written, such as "007".

    A column of CSV holds numbers if all its values are such, and ids are integers if all are.
    """
    name = os.fspath(path)
    try:
        if name.endswith((".parquet", ".pq")):
            return pl.read_parquet(name)
        separator = "\t" if ".tsv" in Path(name).suffixes else ","
        frame = pl.read_csv(name, separator=separator, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file cannot be opened
        # The lines after the first say what could be done in polars.
        raise TableError(f"{name} is damaged: {str(error).splitlines()[0]}") from None
    columns = [column for column in frame if column.name not in (id, *words)]
    frame = frame.with_columns(map(_numbers_if_all_are, columns))
    if id in frame.columns:  # ids are integers if all of them are, as in tables of interactions
        integers = as_integers(frame[id])
        frame = frame if integers.null_count() else frame.with_columns(integers.alias(id))
    return frame


def _numbers_if_all_are(text: pl.Series) -> pl.Series:
    text = text.set(text == "", None)
    for kind in (pl.Int64, pl.Float64):
        numbers = text.cast(kind, strict=False)
        if text.null_count() == numbers.null_count() < len(text):
            return numbers
    return text
