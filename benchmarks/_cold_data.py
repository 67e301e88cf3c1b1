"""The boards of ``cold.py``: tables of interactions with features, and what is known of them."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy import sparse

import robirank as rr

SEED = 0
NEW_ITEMS, TEST_SHARE = 0.2, 0.2  # of our own splits
VALID_ITEMS, VALID_SHARE = 0.1, 0.1  # of the train part, held out by searches
MOST_VALID_USERS = 2_000
FEW_NEW = 0.05  # a share of test interactions below which new items do not count
TEXT = ("recall@50", "recall@100", "recall@300")
SPLIT = ("recall@20", "ndcg@20")
LEAVE_ONE_OUT = ("recall@10", "ndcg@10")  # of one test item, the recall is the hit rate


class Board(NamedTuple):
    """A table in two parts, and counts of features: a row for each item, or for each user."""

    train: Any
    test: Any
    features: Any
    metrics: tuple[str, ...]
    of_users: bool = False
    valid: Any = None  # what searches hold out, where train does not hold it
    candidates: Any = None  # the items that are ranked; all by default

    def parts(self) -> dict[str, Any]:
        """The items that are ranked: all, and where the test has both, old and new ones apart."""
        every = self.candidates
        every = np.arange(self.train.shape[1]) if every is None else every
        is_old = np.bincount(self.train.indices, minlength=self.train.shape[1]) > 0
        if self.of_users or not self.has_new_items():
            return {"": every}
        return {"": every, "old_": np.flatnonzero(is_old), "new_": np.flatnonzero(~is_old)}

    def has_new_items(self) -> bool:
        """Whether more than a few test interactions are with items that train does not have."""
        is_new = np.bincount(self.train.indices, minlength=self.train.shape[1]) == 0
        return float(is_new[self.test.indices].mean()) > FEW_NEW

    def held_out(self) -> Board | None:
        """A board to choose settings on, of the train part alone; None where it is too small."""
        if self.valid is not None:
            return self._replace(test=self.valid, valid=None)
        if self.train.getnnz(1).max() < 2:
            return None
        data = rr.Interactions.from_matrix(self.train)
        if self.has_new_items():
            parts = rr.split_new_items(data, VALID_ITEMS, test=VALID_SHARE, random_state=SEED + 1)
        else:
            parts = rr.split_ratio(data, VALID_SHARE, random_state=SEED + 1)
        kept, test = (part.matrix for part in parts)
        users = np.flatnonzero(np.diff(test.indptr) * np.diff(kept.indptr))
        users = np.random.default_rng(SEED).permutation(users)[:MOST_VALID_USERS]
        return self._replace(train=kept, test=only_rows(test, users))


def only_rows(matrix: Any, rows: Any) -> Any:
    """A matrix whose other rows are empty."""
    kept = np.zeros(matrix.shape[0], np.float32)
    kept[rows] = 1.0
    result = (sparse.diags(kept) @ matrix).tocsr()
    result.eliminate_zeros()
    return result


def table(lists: list[list[int]], n_items: int) -> Any:
    """A user's items in each list, as a matrix of ones."""
    matrix = counts(lists, n_items)
    matrix.data[:] = 1.0
    return matrix


def counts(lists: list[list[int]], n_values: int) -> Any:
    """How often each list has each value."""
    rows = np.repeat(np.arange(len(lists)), [len(one) for one in lists])
    values = np.array([value for one in lists for value in one], np.int64)
    shape = (len(lists), n_values)
    return sparse.csr_matrix((np.ones(len(values), np.float32), (rows, values)), shape)


def split_cold(matrix: Any, features: Any) -> Board:
    """A fifth of the items new, and a fifth of each user's other interactions held out."""
    data = rr.Interactions.from_matrix(matrix)
    parts = rr.split_new_items(data, NEW_ITEMS, test=TEST_SHARE, random_state=SEED)
    train, test = (part.matrix for part in parts)
    return Board(train, only_rows(test, np.diff(train.indptr) > 0), features, SPLIT)


# citeulike-t: articles and their words


def citeulike(part: str) -> Board:
    """One of the published splits, or all pairs with a fifth of the items new."""
    words = _words("mult.dat")
    n_items = words.shape[0]
    if part == "cold":
        return split_cold(table(_lists("users.dat"), n_items), words)
    train, test = (
        table(_lists(f"cf-{name}-{part}-users.dat"), n_items) for name in ("train", "test")
    )
    return Board(train, test, words, TEXT)


def _lists(name: str) -> list[list[int]]:
    lines = _text("citeulike-t", name).splitlines()
    return [[int(item) for item in line.split()[1:]] for line in lines]


def _words(name: str) -> Any:
    lines = _text("citeulike-t", name).splitlines()
    pairs = [[pair.split(":") for pair in line.split()[1:]] for line in lines]
    rows = np.repeat(np.arange(len(pairs)), [len(one) for one in pairs])
    words, times = np.array([pair for one in pairs for pair in one], np.int64).T
    return sparse.csr_matrix((times.astype(np.float32), (rows, words)))


# Last.fm: new users and their friends


def lastfm_users() -> Board:
    """Users without interactions; the candidates are the artists of the train users.

    The features of users are their friends and themselves, so that what a train user has says
    something of their friends. Searches hold out the published validation users.
    """
    friends = sparse.load_npz(_path("lastfm-cold-users", "user_content.npz"))
    features = (friends + sparse.identity(friends.shape[0])).tocsr().astype(np.float32)
    parts = {
        name: pl.read_csv(_path("lastfm-cold-users", f"{name}.csv.gz")).to_numpy().astype(int)
        for name in ("train", "vali", "test")
    }
    n_items = 1 + max(int(pairs[:, 1].max()) for pairs in parts.values())
    shape = (features.shape[0], n_items)
    train, valid, test = (
        sparse.csr_matrix((np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])), shape)
        for pairs in parts.values()
    )
    known = np.unique(train.indices)
    return Board(train, test, features, SPLIT, of_users=True, valid=valid, candidates=known)


# Sequences and attributes of S3-Rec


def s3rec(name: str, *, cold: bool = False) -> Board:
    """The last item of each user held out, or a fifth of the items new."""
    lines = _text("s3rec", f"{name}.txt").splitlines()
    sequences = [[int(item) - 1 for item in line.split()[1:]] for line in lines]
    n_items = 1 + max(max(one) for one in sequences)
    known = json.loads(_text("s3rec", f"{name}_item2attributes.json"))
    attributes = [known.get(str(item + 1), []) for item in range(n_items)]
    features = counts(attributes, 1 + max(max(one, default=0) for one in attributes))
    if cold:
        return split_cold(table(sequences, n_items), features)
    train, last = (
        table(lists, n_items)
        for lists in ([one[:-1] for one in sequences], [one[-1:] for one in sequences])
    )
    return Board(train, last, features, LEAVE_ONE_OUT)


# Tables whose truth is known


def generated(*, explained: bool, quick: bool = False) -> Board:
    """Users choose by inner products; features explain the items' factors, or nothing.

    Every item has six of a hundred tags. Its factors are the sum of its tags' factors where they
    are explained, and random otherwise.
    """
    n_users, n_items, d = (200, 150, 4) if quick else (2000, 1500, 12)
    rng = np.random.default_rng(SEED)
    tags = table([rng.permutation(100)[:6].tolist() for _ in range(n_items)], 100)
    of_tags, free = rng.normal(size=(100, d)) / np.sqrt(6), rng.normal(size=(n_items, d))
    items = tags @ of_tags if explained else free
    scores = 1.2 * rng.normal(size=(n_users, d)) @ items.T + rng.gumbel(size=(n_users, n_items))
    order = np.argsort(-scores, axis=1)
    lengths = rng.integers(15, 45, n_users)
    chosen = [row[:n].tolist() for row, n in zip(order, lengths, strict=True)]
    matrix = table(chosen, n_items)
    if explained:
        return split_cold(matrix, tags)
    data = rr.Interactions.from_matrix(matrix)
    train, test = (part.matrix for part in rr.split_ratio(data, TEST_SHARE, random_state=SEED))
    return Board(train, test, tags, SPLIT)


def _path(folder: str, name: str) -> Path:
    root = Path(os.environ.get("ROBIRANK_DATA", "../shared/data")) / "features"
    return root / folder / name


def _text(folder: str, name: str) -> str:
    return gzip.decompress(_path(folder, f"{name}.gz").read_bytes()).decode()


#: How each board is read; the argument says whether it is a quick run.
BOARDS: dict[str, Callable[[bool], Board]] = {
    "lastfm_users": lambda _: lastfm_users(),
    "citeulike10": lambda _: citeulike("10"),
    "citeulike1": lambda _: citeulike("1"),
    "s3_lastfm": lambda _: s3rec("LastFM"),
    "s3_lastfm_cold": lambda _: s3rec("LastFM", cold=True),
    "explain_nothing": lambda quick: generated(explained=False, quick=quick),
    "explain_all": lambda quick: generated(explained=True, quick=quick),
    "toys": lambda _: s3rec("Toys_and_Games"),
    "toys_cold": lambda _: s3rec("Toys_and_Games", cold=True),
    "citeulike_cold": lambda _: citeulike("cold"),
}
#: Known figures, in the order of a board's metrics; README files beside the data say whence.
PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {
    "lastfm_users": {
        "sum over friends": (0.1533, 0.3795),
        "kernel ridge on friends": (0.1561, 0.3847),
    },
    "citeulike10": {
        "iALS": (0.2338, 0.3107, 0.4374),
        "CVAE": (0.2387, 0.3274, 0.4854),
        "kNN on text": (0.1681, 0.2342, 0.3761),
        "kNN on text and pairs": (0.2675, 0.3490, 0.4740),
    },
    "citeulike1": {
        "iALS": (0.0061, 0.0100, 0.0245),
        "CVAE": (0.0430, 0.0639, 0.1200),
        "kNN on text": (0.1136, 0.1567, 0.2490),
        "kNN on text and pairs": (0.1133, 0.1559, 0.2463),
    },
    "s3_lastfm": {"SASRec": (0.0688, 0.0390), "S3-Rec": (0.0743, 0.0427)},
    "toys": {"SASRec": (0.0675, 0.0374), "S3-Rec": (0.0700, 0.0376)},
}
