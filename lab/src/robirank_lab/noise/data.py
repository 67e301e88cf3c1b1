"""What the experiment on noise works on: judged lists or a table, given or made."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import robirank as rr
from robirank_lab.latent.data import data_name as table_name
from robirank_lab.latent.data import load_parts
from robirank_lab.ltr.units import Fold, describe_data, load_fold
from robirank_lab.run_format import InteractionData, JudgedData, LtrExperiment

_MADE = "made"
_TEST = 0.2  # of each user's items, where nothing is held out
_MADE_LISTS: dict[str, Any] = {"n_docs": (10, 30), "n_features": 20, "n_grades": 3, "noise": 0.5}
_MADE_TABLE = (600, 300, 18_000)  # users, items, records


@dataclass(frozen=True)
class Lists:
    """Judged lists in folds.

    Attributes
    ----------
    path : Path or None
        A folder that `robirank.load_dataset` reads; None: made by `robirank.make_ranking`.
    queries : int
        How many queries are made to learn from; as many test.
    """

    path: Path | None
    queries: int = 150

    def describe(self) -> JudgedData:
        """The facts of the data."""
        if self.path is not None:
            return describe_data(self.path, LtrExperiment())
        test = self.fold(_MADE).test
        labels, counts = np.unique(test.y, return_counts=True)
        return JudgedData(
            name=_MADE,
            folds=[_MADE],
            queries=test.n_queries,
            documents=len(test),
            features=test.n_features,
            labels={f"{label:g}": int(n) for label, n in zip(labels, counts, strict=True)},
            files={},
        )

    def fold(self, name: str) -> Fold:
        """Read or make a fold."""
        if self.path is not None:
            return load_fold(self.path, name, LtrExperiment())
        whole = rr.make_ranking(2 * self.queries, **_MADE_LISTS, random_state=0)
        part = np.unique(whole.qid, return_inverse=True)[1] * 6 // (2 * self.queries)
        train, vali, test = (whole.take(m) for m in (part < 2, part == 2, part > 2))
        return Fold(name, train, vali, test)


@dataclass(frozen=True)
class Table:
    """Users and items.

    Attributes
    ----------
    path : Path or None
        A file, or a folder with a train and a test file and perhaps a valid file; None: made by
        `robirank.make_interactions`.
    columns : dict
        Arguments of `robirank.load_interactions`.
    """

    path: Path | None
    columns: Mapping[str, Any]

    def matrices(self) -> tuple[Any, Any]:
        """What is learned from and what is held out, as binary matrices users × items."""
        if self.path is None:
            made = rr.make_interactions(*_MADE_TABLE, random_state=0)
            learned, test = rr.split_ratio(made, _TEST, random_state=0)
        elif self.path.is_dir() and not list(self.path.glob("vali*")):
            learned, test = (self._read(part) for part in ("train", "test"))
            test = test.align(learned, unseen="drop")
        else:
            parts = load_parts(self.path, self.columns, seed=0)
            learned, test = parts.learned, parts.test
        return learned.matrix, test.matrix

    def describe(self) -> InteractionData:
        """The facts of the data."""
        learned, test = self.matrices()
        files = self._files()
        return InteractionData(
            name=_MADE if self.path is None else table_name(self.path),
            users=learned.shape[0],
            items=learned.shape[1],
            train=learned.nnz,
            test=test.nnz,
            test_users=int(np.count_nonzero(np.diff(test.indptr))),
            files={file.name: zlib.crc32(file.read_bytes()) for file in files},
        )

    def _files(self) -> list[Path]:
        if self.path is None:
            return []
        return (
            sorted(p for p in self.path.iterdir() if p.is_file())
            if self.path.is_dir()
            else [self.path]
        )

    def _read(self, part: str) -> rr.Interactions:
        files = sorted(self.path.glob(f"{part}.*")) if self.path else []
        if len(files) != 1:
            raise ValueError(f"{self.path} must hold one {part} file; it has {len(files)}")
        return rr.load_interactions(files[0], **self.columns).binarize()


NoiseData = Lists | Table


def find_data(path: Path, columns: Mapping[str, Any]) -> NoiseData:
    """Judged lists or a table: LETOR lines have "qid:" in them."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}")
    if path.is_dir() and any(_is_letor(file) for file in sorted(path.rglob("train.txt*"))[:1]):
        return Lists(path)
    return Table(path, columns)


def _is_letor(file: Path) -> bool:
    with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as lines:
        return b" qid:" in lines.readline()


def joined(train: rr.RankingData, vali: rr.RankingData) -> rr.RankingData:
    """Two parts as one; queries are numbered anew, those of the first part first."""
    parts = (train, vali)
    codes = [part.queries.codes() for part in parts]
    stack = sp.vstack if sp.issparse(train.X) else np.vstack
    return rr.RankingData(
        stack([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate([codes[0], codes[1] + train.n_queries]),
    )


def spoiled_fold(fold: Fold, whole: rr.RankingData) -> Fold:
    """A fold whose training and validation part are those of spoiled data of `joined`."""
    train, vali = np.split(np.arange(len(whole)), [len(fold.train)])
    return replace(fold, train=whole.take(train), vali=whole.take(vali))
