"""The data of an experiment on interactions: parts to train, to validate and to test."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import robirank as rr
from robirank_lab.run_format import InteractionData

_TEST, _VALIDATION = 0.2, 0.1  # shares of each user's items where there is but one file
_FILE = re.compile(r"\w+\.((tsv|csv|txt)(\.gz)?|parquet)")
_PARTS = {"train": ("train",), "valid": ("valid", "vali", "validation"), "test": ("test",)}


@dataclass(frozen=True)
class Parts:
    """The data, all parts with the same users and items.

    Attributes
    ----------
    train, valid, test : Interactions
    learned : Interactions
        Training and validation part together, what the final model is fitted to.
    left_out : int
        Test interactions of users or items that are in neither of the other parts.
    split : str
        Where the parts come from, in words.
    """

    train: rr.Interactions
    valid: rr.Interactions
    test: rr.Interactions
    learned: rr.Interactions
    left_out: int
    split: str


def load_parts(data: Path, columns: Mapping[str, Any], seed: int) -> Parts:
    """Read the data: three files of a folder, or one that is cut in three.

    Parameters
    ----------
    data : Path
        A folder with train, valid and test files, or one file that is split here.
    columns : dict
        Arguments of `robirank.load_interactions`.
    seed : int
        Decides the split of a single file.
    """
    if not data.is_dir():
        whole = rr.load_interactions(data, **columns).binarize()
        learned, test = rr.split_ratio(whole, _TEST, random_state=seed)
        train, valid = rr.split_ratio(learned, _VALIDATION, random_state=seed)
        words = "of each user's items 20 % for the test and 10 % of the rest for validation"
        return Parts(train, valid, test, learned, 0, words)
    files = part_files(data).values()
    train, valid, test = (rr.load_interactions(f, **columns).binarize() for f in files)
    learned = train.extend(valid).binarize()
    aligned = (train.align(learned), valid.align(learned), test.align(learned, unseen="drop"))
    return Parts(*aligned, learned, len(test) - len(aligned[2]), "as given")


def part_files(folder: Path) -> dict[str, Path]:
    """The files of a folder that hold the three parts."""
    files = {}
    for part, names in _PARTS.items():
        present = [p for p in sorted(folder.iterdir()) if _FILE.fullmatch(p.name)]
        present = [path for path in present if path.name.partition(".")[0] in names]
        if len(present) != 1:
            what = "several" if present else "no"
            raise ValueError(
                f"{folder} must hold one file for each of train, valid and test, such as "
                f"{part}.tsv.gz; it has {what} {part} file"
            )
        files[part] = present[0]
    return files


def data_name(data: Path) -> str:
    """What the data are called: the folder, or the file after its folder.

    Examples
    --------
    >>> data_name(Path("/data/lastfm/plays.tsv.gz"))
    'lastfm/plays'
    """
    path = data.resolve()
    return path.name if path.is_dir() else f"{path.parent.name}/{path.name.partition('.')[0]}"


def describe_parts(data: Path, parts: Parts) -> InteractionData:
    """The facts of a data set."""
    files = sorted(part_files(data).values()) if data.is_dir() else [data]
    return InteractionData(
        name=data_name(data),
        users=parts.train.n_users,
        items=parts.train.n_items,
        train=len(parts.train),
        valid=len(parts.valid),
        test=len(parts.test),
        test_users=int(np.count_nonzero(parts.test.lengths)),
        left_out=parts.left_out,
        split=parts.split,
        files={path.name: zlib.crc32(path.read_bytes()) for path in files},
    )
