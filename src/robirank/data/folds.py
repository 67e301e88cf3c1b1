"""Data sets of LETOR files in folders ``Fold1``, ``Fold2``, …."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from robirank.data.letor import LetorOptions, read_letor
from robirank.data.ranking import RankingData

_PARTS = {"train": ("train",), "vali": ("vali", "valid", "validation"), "test": ("test",)}
_ENDINGS = (".txt", ".txt.gz")


@dataclass(frozen=True)
class Fold:
    """One fold of a data set: training, validation and test part.

    Attributes
    ----------
    name : str
        The name of the fold's folder.
    train, test : RankingData
        The training part and the test part.
    vali : RankingData, or None
        The validation part, where the fold has one.
    """

    name: str
    train: RankingData
    vali: RankingData | None
    test: RankingData


class Folds(Sequence[Fold]):
    """The folds of a data set; a fold is read when it is accessed.

    Only the fold that was accessed last stays in memory.
    """

    def __init__(self, files: list[dict[str, Path]], options: LetorOptions) -> None:
        self._files = files
        self._options = options
        self._last: tuple[int, Fold] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the folds, without reading them."""
        return tuple(parts["train"].parent.resolve().name for parts in self._files)

    def __len__(self) -> int:
        return len(self._files)

    @overload
    def __getitem__(self, index: int) -> Fold: ...
    @overload
    def __getitem__(self, index: slice) -> Folds: ...
    def __getitem__(self, index: int | slice) -> Fold | Folds:
        if isinstance(index, slice):
            return Folds(self._files[index], self._options)
        index = range(len(self))[index]
        if self._last is None or self._last[0] != index:
            self._last = None  # frees its memory before the next fold is read
            self._last = index, _read(self.names[index], self._files[index], self._options)
        return self._last[1]

    def __repr__(self) -> str:
        return f"Folds({', '.join(self.names)})"


def load_dataset(
    folder: str | os.PathLike[str],
    *,
    sparse: bool = False,
    n_features: int | None = None,
    zero_based: bool = False,
    normalize: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
    dtype: DTypeLike = np.float32,
    num_threads: int = 0,
) -> Folds:
    r"""Open a folder of LETOR files: ``Fold1``, ``Fold2``, … or one split.

    Each fold is a folder with ``train``, ``vali`` (or ``valid``, ``validation``; may be missing)
    and ``test``, each ``.txt`` or ``.txt.gz``. A folder that holds these files itself is a data set
    of one fold. Files are found now and read when their fold is asked for.

    The parts of a fold get the same number of features: a file whose last features are all absent
    is widened to the widest part. Where folds might still differ (sparse files that do not hold the
    same documents), ``n_features`` fixes the number for all.

    Parameters
    ----------
    folder : str or path
        The folder.
    sparse, n_features, zero_based, normalize, on_error, dtype, num_threads
        As in `load_letor`.

    Returns
    -------
    Folds
        A sequence of `Fold`, in the order of their numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in ("train", "test"):
    ...         _ = Path(folder, f"{part}.txt").write_text("1 qid:1 1:0.5\n0 qid:1 2:0.5\n")
    ...     fold = load_dataset(folder)[0]
    >>> fold.train.n_features, fold.vali
    (2, None)
    """
    options = sparse, n_features, zero_based, normalize, on_error, dtype, num_threads
    checked = LetorOptions(*options)
    path = Path(folder)
    if not path.is_dir():
        if path.exists():
            raise NotADirectoryError(f"{os.fspath(folder)} is a file; read it with load_letor")
        raise FileNotFoundError(f"the folder {os.fspath(folder)} does not exist")
    numbered = [
        (int(match[1]), entry)
        for entry in path.iterdir()
        if (match := re.fullmatch(r"fold[ _-]?(\d+)", entry.name, re.IGNORECASE)) and entry.is_dir()
    ]
    folders = [entry for _, entry in sorted(numbered)]
    if not folders and not any(_find(path, part) for part in _PARTS):
        raise FileNotFoundError(
            f"no folds in {os.fspath(folder)}; looked for folders Fold1, Fold2, … and for "
            f"train, vali and test with {' or '.join(_ENDINGS)}"
        )
    return Folds([_files(entry) for entry in folders or [path]], checked)


def _files(folder: Path) -> dict[str, Path]:
    files = {part: file for part in _PARTS if (file := _find(folder, part))}
    for part in ("train", "test"):
        if part not in files:
            names = " or ".join(part + ending for ending in _ENDINGS)
            raise FileNotFoundError(f"fold {folder} has no {part} file; looked for {names}")
    return files


def _find(folder: Path, part: str) -> Path | None:
    candidates = (folder / (name + ending) for name in _PARTS[part] for ending in _ENDINGS)
    return next((file for file in candidates if file.is_file()), None)


def _read(name: str, files: dict[str, Path], options: LetorOptions) -> Fold:
    parts = {part: read_letor(file, options) for part, file in files.items()}
    width = max(data.n_features for data in parts.values())
    for part, data in parts.items():
        X: Any = data.X
        if options.sparse:
            X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(data.n_rows, width))
        elif data.n_features < width:
            X = np.pad(X, ((0, 0), (0, width - data.n_features)))
        parts[part] = replace(data, X=X)
    return Fold(name, parts["train"], parts.get("vali"), parts["test"])
