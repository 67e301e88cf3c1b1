"""LETOR / SVMlight ranking files: ``label qid:ID index:value ... # comment``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from robirank import _core
from robirank._callers import warn
from robirank._checks import check_count
from robirank._threads import thread_count
from robirank.data._line_chunks import DamagedGzipError, OtherPackingError, ahead, line_chunks
from robirank.data.ranking import RankingData
from robirank.errors import Argument, ArgumentError, RobirankError
from robirank.storage.files import refuse_device

if TYPE_CHECKING:
    _Parser: TypeAlias = _core.LetorParser | _core.LetorParser64

Source: TypeAlias = str | os.PathLike[str] | IO[bytes]

# A dense array is taken for a mistake if it has more bytes than _LARGE and than _TIMES_THE_TEXT
# times the bytes of the text, so that less than about one cell in 200 has a value.
_LARGE = 1 << 30
_TIMES_THE_TEXT = 100
_FORM = "a line reads 'label qid:ID index:value ...'"
_REASONS = {
    "label": f"the label {{token}} is not a finite number; {_FORM}",
    "label missing": f"{{token}} stands where the label should be; {_FORM}",
    "label range": "the label {token} does not fit into float32",
    "qid missing": f"no query id after the label {{token}}; {_FORM}",
    "qid misplaced": f"expected qid:ID after the label, got {{token}}; {_FORM}",
    "qid": "{token} names no query; write qid:ID with an ID of printable characters",
    "second qid": "a second query id {token}; a document belongs to one query",
    "no colon": "the feature {token} has no colon; write index:value, such as 3:0.5",
    "index": "the index of {token} is not a whole number from {first} to 2147483646; "
    "write index:value, such as 3:0.5",
    "index zero": "the feature {token} has index 0, but LETOR counts features from 1; "
    "pass zero_based=True if this file counts from 0",
    "order": "the feature {token} comes after feature {previous}; indices must increase",
    "duplicate": "the feature {token} gives feature {previous} a second time",
    "n_features": "the feature {token} is beyond n_features={n_features}",
    "value": "the value of {token} is not a finite number; write index:value, such as 3:0.5",
    "value range": "the value of {token} does not fit into float32; pass dtype=np.float64",
}


class LetorFormatError(RobirankError, ValueError):
    """A file is not in the LETOR format; names the file, the line and the reason.

    Attributes
    ----------
    path : str
        The file, as the caller named it.
    line : int
        The line, counted from 1.
    reason : str
        What is wrong with it and what would be right.
    """

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(f"{path}:{line}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason

    def __reduce__(self) -> tuple[type[LetorFormatError], tuple[str, int, str]]:
        return type(self), (self.path, self.line, self.reason)


def load_letor(
    path: Source,
    *,
    sparse: bool = False,
    n_features: int | None = None,
    zero_based: bool = False,
    normalize: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
    dtype: DTypeLike = np.float32,
    num_threads: int = 0,
) -> RankingData:
    """Read a LETOR (SVMlight with query ids) file, plain or gzip.

    A line is one document: ``label qid:ID index:value ... # comment``. Features that a line leaves
    out are 0. Blank lines and lines that hold only a comment are passed over. Documents' ids are
    taken from comments of the form ``#docid = GX008-86-4444840``.

    Parameters
    ----------
    path : str, path or binary file
        What to read. Gzip is recognised by its content, whatever the name; other packers (bzip2,
        xz, zstd, zip) are an error. A file object is read from where it stands and left open.
    sparse : bool
        Give `X` as a CSR matrix without explicit zeros instead of a dense array.
    n_features : int, optional
        The number of features; a line with an index beyond it is bad. By default the largest index
        in the file. Give it when several sparse files must agree.
    zero_based : bool
        Whether the file counts features from 0 instead of 1.
    normalize : bool
        Scale every feature to [0, 1] within each query, as `RankingData.normalize` does.
    on_error : "raise" or "skip"
        Raise on the first bad line, or leave bad lines out, warn, and count them in the result's
        `n_skipped`. A damaged gzip file raises in any case.
    dtype : float32 or float64
        The type of `X`.
    num_threads : int, default=0
        The number of threads; 0: every core. It does not change the result.

    Returns
    -------
    RankingData
        `y` is float32. `qid` is int64 where every id is a plain integer, otherwise an array of str
        with the exact text. `doc_ids` is an array of str ("" where a line has none), or None where
        no line has an id.

    Raises
    ------
    LetorFormatError
        Naming the first bad line and what is wrong with it; also for a file without documents and
        for damaged gzip and for a file of another packer.

    Examples
    --------
    >>> import io
    >>> text = b'''2 qid:1 1:0.5 3:0.25 #docid = D7
    ... 0 qid:1 2:1
    ... '''
    >>> data = load_letor(io.BytesIO(text))
    >>> data.X.tolist(), data.y.tolist()
    ([[0.5, 0.0, 0.25], [0.0, 1.0, 0.0]], [2.0, 0.0])
    >>> data.qid.tolist(), data.doc_ids.tolist()
    ([1, 1], ['D7', ''])
    """
    options = sparse, n_features, zero_based, normalize, on_error, dtype, num_threads
    return read_letor(path, LetorOptions(*options))


@dataclass(frozen=True)
class LetorOptions:
    """How to read a file: the arguments of `load_letor`, in their order, checked."""

    sparse: bool = False
    n_features: int | None = None
    zero_based: bool = False
    normalize: bool = False
    on_error: str = "raise"
    dtype: DTypeLike = np.float32
    num_threads: int = 0

    def __post_init__(self) -> None:
        if np.dtype(self.dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ArgumentError("dtype", f"must be float32 or float64; got {self.dtype!r}")
        if self.on_error not in ("raise", "skip"):
            raise ArgumentError("on_error", f"must be 'raise' or 'skip'; got {self.on_error!r}")
        check_count("n_features", self.n_features, or_none=True, at_most=2**31 - 1)
        thread_count(self.num_threads)
        if self.normalize and self.sparse:
            raise ArgumentError(
                Argument("normalize", True),
                "gives a dense array; leave out ",
                Argument("sparse", True),
            )


def read_letor(
    path: Source,
    options: LetorOptions,
    *,
    chunk_bytes: int | None = None,
    piece_bytes: int = 128 << 10,
) -> RankingData:
    """Read a file in chunks, of which threads parse pieces of ``piece_bytes``."""
    num_threads = thread_count(options.num_threads)
    chunk_bytes = chunk_bytes or max(4, num_threads) << 20
    kind = _core.LetorParser if np.dtype(options.dtype) == np.float32 else _core.LetorParser64
    parser = kind(
        sparse=options.sparse,
        n_features=-1 if options.n_features is None else int(options.n_features),
        zero_based=options.zero_based,
        skip=options.on_error == "skip",
        num_threads=num_threads,
        piece_bytes=piece_bytes,
    )
    name, n_bytes = _name(path), 0
    with _opened(path) as file, closing(ahead(line_chunks(file, chunk_bytes))) as chunks:
        try:
            for chunk in chunks:
                n_bytes += len(chunk)
                if not parser.feed(chunk):
                    raise LetorFormatError(name, *_first_bad(parser, options))
        except OtherPackingError as error:
            raise LetorFormatError(name, 1, str(error)) from None
        except DamagedGzipError as damage:
            reason = f"{damage} after {parser.n_lines:,} whole lines"
            raise LetorFormatError(name, parser.n_lines + 1, reason) from None
    if parser.n_skipped:
        line, reason = _first_bad(parser, options)
        if parser.n_rows == 0:
            raise LetorFormatError(name, line, f"no line could be read; {reason}")
        warn(
            f"{name}: left out {parser.n_skipped:,} of {parser.n_lines:,} lines as bad; "
            f"the first is line {line}: {reason}",
        )
    if parser.n_rows == 0:
        what = "has only blank lines and comments" if parser.n_lines else "is empty"
        raise LetorFormatError(name, max(1, parser.n_lines), f"the file {what}; {_FORM}")
    if not options.sparse and options.n_features is None:
        _check_size(name, parser, n_bytes, np.dtype(options.dtype).itemsize)
    labels = np.empty(parser.n_rows, dtype=np.float32)
    parser.fill_labels(labels)
    data = RankingData(
        _features(parser, options),
        labels,
        _qids(parser),
        doc_ids=_doc_ids(parser),
        n_skipped=parser.n_skipped,
    )
    return data.normalize() if options.normalize else data


def _first_bad(parser: _Parser, options: LetorOptions) -> tuple[int, str]:
    """The number of the first bad line, and what is wrong with it."""
    assert parser.first_bad is not None
    line, reason, token, previous = parser.first_bad
    return line, _REASONS[reason].format(
        token=repr(token.decode("utf-8", "backslashreplace")),
        previous=previous,
        first=0 if options.zero_based else 1,
        n_features=options.n_features,
    )


def _features(parser: _Parser, options: LetorOptions) -> Any:
    shape = (parser.n_rows, parser.width)
    if options.sparse:
        values = np.empty(parser.n_stored, dtype=options.dtype)
        columns = np.empty(parser.n_stored, dtype=np.int32)
        offsets = np.empty(parser.n_rows + 1, dtype=np.int64)
        parser.fill_sparse(values, columns, offsets)
        if parser.n_stored < 2**31:
            offsets = offsets.astype(np.int32)
        X = sp.csr_matrix((values, columns, offsets), shape=shape)
        X.has_canonical_format = True
        return X
    try:
        cells = np.zeros(shape, dtype=options.dtype)
    except (MemoryError, ValueError) as error:
        raise MemoryError(
            f"a dense array of {shape[0]:,} rows and {shape[1]:,} features does not fit into "
            "memory; pass sparse=True, or n_features if a far too large index is a mistake"
        ) from error
    parser.fill_dense(cells)
    return cells


def _check_size(name: str, parser: _Parser, n_bytes: int, itemsize: int) -> None:
    """Raise an error for a large dense array that would be almost empty.

    A single feature index that is far too large, by mistake, would take gigabytes.
    """
    size = parser.n_rows * parser.width * itemsize
    if size > _LARGE and size > _TIMES_THE_TEXT * n_bytes:
        raise ValueError(
            f"{name}: the largest feature index makes {parser.width:,} features, and a dense array "
            f"of {parser.n_rows:,} rows would take {size / 1e9:.1f} GB for {n_bytes / 1e6:.1f} MB "
            "of text; pass sparse=True, or n_features= if the index is a mistake"
        )


def _qids(parser: _Parser) -> NDArray[Any]:
    ids = np.empty(parser.n_rows, dtype=np.int64)
    names = parser.fill_qids(ids)
    return ids if names is None else _texts(names, len(ids))[ids]


def _doc_ids(parser: _Parser) -> NDArray[Any] | None:
    longest = parser.longest_doc_id
    if longest == 0:
        return None
    if parser.ascii_doc_ids and not _wasteful(longest, parser.n_rows, parser.doc_id_bytes):
        characters = np.zeros((parser.n_rows, longest), dtype=np.uint32)
        parser.fill_doc_ids(characters)
        return characters.view(f"U{longest}").reshape(-1)
    return _texts(parser.doc_ids(), parser.n_rows)


def _texts(names: list[bytes], n_rows: int) -> NDArray[Any]:
    """Decode ids to an array of str; bytes that are not UTF-8 become lone surrogates."""
    texts = [name.decode("utf-8", "surrogateescape") for name in names]
    total = sum(map(len, texts)) * n_rows // len(texts)
    wasteful = _wasteful(max(map(len, texts)), n_rows, total)
    return np.array(texts, dtype=object if wasteful else str)


def _wasteful(longest: int, n_rows: int, total: int) -> bool:
    """Whether an array of type str would be mostly padding, because one id is very long.

    NumPy's str arrays store all elements at the length of the longest.
    """
    return longest * n_rows > 8 * total + 2**20


def _name(path: Source) -> str:
    if isinstance(path, str | os.PathLike):
        return os.fspath(path)
    name = getattr(path, "name", None)
    return name if isinstance(name, str) else "<stream>"


@contextmanager
def _opened(path: Source) -> Iterator[IO[bytes]]:
    if isinstance(path, str | os.PathLike):
        if Path(path).is_dir():
            raise IsADirectoryError(
                f"{os.fspath(path)} is a folder; give one file of it, or read a folder of folds "
                "with load_dataset"
            )
        refuse_device(path, pipes=True)
        with Path(path).open("rb", buffering=0) as file:
            yield file
    elif hasattr(path, "read"):
        yield path
    else:
        raise TypeError(f"path must be a path or a binary file; got {type(path).__name__}")
