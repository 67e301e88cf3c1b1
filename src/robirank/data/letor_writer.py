"""Writing of judged documents to LETOR files."""

from __future__ import annotations

import gzip
import os
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from robirank import _core
from robirank.data.ranking import RankingData
from robirank.errors import ArgumentError
from robirank.storage.files import write_whole


def save_letor(path: str | os.PathLike[str], data: RankingData) -> None:
    r"""Write judged documents as a LETOR file; the inverse of `load_letor`.

    Values are written with as few digits as give the same number again. Dense rows are written in
    full, sparse rows without their zeros (a trailing feature that is 0 in every row then needs
    ``n_features`` when the file is read). Feature names have no place in the format.

    Parameters
    ----------
    path : str or path
        The file to write; gzip if the name ends with ``.gz``, an error if it ends as the files of
        other packers do (``.bz2``, ``.xz``, ``.zst``, ``.zip``), otherwise plain text. It appears
        complete or not at all.
    data : RankingData
        What to write.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> data = RankingData([[0.5, 0.0]], [2], [7], doc_ids=["D1"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_letor(f"{folder}/one.txt", data)
    ...     Path(folder, "one.txt").read_text()
    '2 qid:7 1:0.5 2:0 #docid = D1\n'
    """
    _check_packing(os.fspath(path))
    qids = _tokens(data.qid, "qid", forbidden="#")
    if b"" in qids:
        raise ValueError(f"qid has '' in row {qids.index(b'')}; every document needs a query id")
    if data.doc_ids is None:
        comments = [b""] * data.n_rows
    else:
        doc_ids = _tokens(data.doc_ids, "doc_ids")
        comments = [b" #docid = " + doc_id if doc_id else b"" for doc_id in doc_ids]
    with write_whole(path) as whole, _packed(whole, os.fspath(path)) as file:
        for begin in range(0, data.n_rows, _SAVE_ROWS):
            rows = slice(begin, begin + _SAVE_ROWS)
            labels = _label_texts(data.y[rows], begin)
            features = _feature_texts(data.X[rows], begin)
            lines = zip(labels, qids[rows], features, comments[rows], strict=True)
            file.write(b"".join([b"%b qid:%b%b%b\n" % line for line in lines]))


_SAVE_ROWS = 4096
_OTHER_PACKERS = (".bz2", ".xz", ".zst", ".zip")


def _check_packing(name: str) -> None:
    if name.lower().endswith(_OTHER_PACKERS):
        raise ArgumentError(
            "path",
            f"must not end with {Path(name).suffix}, which is not supported; "
            f"got {name!r}. Write gzip to a name that ends with .gz, or plain text to another",
        )


def _feature_texts(X: Any, first_row: int) -> list[bytes]:
    if sp.issparse(X):
        X = X.tocsr(copy=True)  # type: ignore[attr-defined]
        X.sum_duplicates()
        X.eliminate_zeros()
        values, columns, offsets = X.data, X.indices, X.indptr
    else:
        n_rows, width = X.shape
        values = np.ascontiguousarray(X).reshape(-1)
        columns = np.tile(np.arange(width, dtype=np.int32), n_rows)
        offsets = np.arange(n_rows + 1) * width
    values = values.astype(np.float32 if values.dtype == np.float32 else np.float64, copy=False)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        row = np.searchsorted(offsets, bad[0], side="right") - 1
        raise ValueError(
            f"X has {values[bad[0]]} in row {first_row + row}, column {columns[bad[0]]}; "
            "a LETOR file holds finite numbers"
        )
    text = _core.letor_features(
        np.ascontiguousarray(values), columns.astype(np.int32), offsets.astype(np.int64)
    )
    return text.split(b"\n")[:-1]


def _label_texts(labels: NDArray[Any], first_row: int) -> list[bytes]:
    labels = labels.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(labels))
    if len(bad):
        raise ValueError(
            f"y has {labels[bad[0]]} in row {first_row + bad[0]}; a LETOR file holds finite numbers"
        )
    columns = np.zeros(len(labels), dtype=np.int32)
    lines = _core.letor_features(labels, columns, np.arange(len(labels) + 1)).split(b"\n")
    return [line[len(" 1:") :] for line in lines[:-1]]


def _tokens(values: NDArray[Any], name: str, *, forbidden: str = "") -> list[bytes]:
    """Encode ids; an error names an id that is not one word."""
    texts = [str(value) for value in values.tolist()]
    for row, text in enumerate(texts):
        if any(c <= " " or c == "\x7f" or c in forbidden for c in text):
            raise ValueError(
                f"{name} has {text!r} in row {row}; an id in a LETOR file is one word without "
                f"blanks{' or #' if forbidden else ''}"
            )
    return [text.encode("utf-8", "surrogateescape") for text in texts]


def _packed(file: IO[bytes], name: str) -> Any:
    if not name.endswith(".gz"):
        return nullcontext(file)
    # Without a file name and a time in the gzip header, the same data gives the same bytes.
    return gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
