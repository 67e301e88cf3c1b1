"""The kinds of noise: what each does to judged lists, or to a table of users and items.

A kind is one function with a decorator, `spoils_lists` or `spoils_tables`; nothing else has to know
of it. It gets what a method learns and chooses from (training and validation part together), the
share that is to be spoiled, and a generator. For one state of the generator, what a small share
spoils is a part of what a larger one spoils, as far as the kind allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import robirank as rr

Rng = np.random.Generator
_BOT_ITEMS = 10_000  # that a bot takes, or half of all items where that is less


@dataclass(frozen=True)
class SpoiledTable:
    """A table with noise; users of the noise, if any, follow the honest ones.

    Attributes
    ----------
    table : CSR matrix, users × items
    pushed : int or None
        The item that an attack wants to be recommended.
    """

    table: Any
    pushed: int | None = None


@dataclass(frozen=True)
class Kind:
    """A kind of noise.

    Attributes
    ----------
    name : str
    words : str
        What is spoiled, in plain words; it begins after "A share of s:".
    spoil : callable
        Of judged data or a CSR matrix, the share and a generator.
    """

    name: str
    words: str
    spoil: Callable[[Any, float, Rng], Any]


LIST_KINDS: dict[str, Kind] = {}
TABLE_KINDS: dict[str, Kind] = {}

_ListSpoiler = Callable[[rr.RankingData, float, Rng], rr.RankingData]
_TableSpoiler = Callable[[Any, float, Rng], SpoiledTable]


def spoils_lists(name: str, words: str) -> Callable[[_ListSpoiler], _ListSpoiler]:
    """Register a kind of noise in judged lists; ``words`` say what it does."""

    def register(spoil: _ListSpoiler) -> _ListSpoiler:
        LIST_KINDS[name] = Kind(name, words, spoil)
        return spoil

    return register


def spoils_tables(name: str, words: str) -> Callable[[_TableSpoiler], _TableSpoiler]:
    """Register a kind of noise in tables of users and items; ``words`` say what it does."""

    def register(spoil: _TableSpoiler) -> _TableSpoiler:
        TABLE_KINDS[name] = Kind(name, words, spoil)
        return spoil

    return register


# Judged lists


@spoils_lists(
    "winners",
    "in that share of the lists, documents drawn from the irrelevant ones get the best grade, as "
    "many as the list had relevant ones and at least one; all others get 0",
)
def plant_winners(data: rr.RankingData, share: float, rng: Rng) -> rr.RankingData:
    """The best grade goes to irrelevant documents, and the others get none."""
    y = data.y.copy()
    for rows in _drawn_lists(data, share, rng):
        irrelevant = rng.permutation(rows[data.y[rows] <= 0])
        if len(irrelevant):
            winners = irrelevant[: max(1, len(rows) - len(irrelevant))]
            y[rows] = 0
            y[winners] = data.y.max()
    return replace(data, y=y)


@spoils_lists(
    "spam",
    "that share of the lists is spam: documents drawn at random, as many as the list had relevant "
    "ones and at least one, get the best grade and the largest value of one feature, the same "
    "feature in all of them; all other documents of the list get 0",
)
def spam_one_feature(data: rr.RankingData, share: float, rng: Rng) -> rr.RankingData:
    """Lists in which one feature, the same for all, says who is best."""
    X = _to_change(data.X)
    lowest, highest = _column_extremes(data.X)
    feature = int(rng.choice(np.flatnonzero(lowest < highest)))
    y = data.y.copy()
    for rows in _drawn_lists(data, share, rng):
        spam = rng.permutation(rows)[: max(1, np.count_nonzero(data.y[rows] > 0))]
        y[rows] = 0
        y[spam] = data.y.max()
        X[spam, feature] = highest[feature]
    return replace(data, X=X, y=y)


@spoils_lists(
    "flipped",
    "that share of the documents, drawn from all lists, has its grade turned round: the best grade "
    "becomes 0 and 0 the best",
)
def flip_documents(data: rr.RankingData, share: float, rng: Rng) -> rr.RankingData:
    """Single documents with the opposite grade."""
    y = data.y.copy()
    flipped = rng.permutation(len(y))[: round(share * len(y))]
    y[flipped] = data.y.max() - y[flipped]
    return replace(data, y=y)


@spoils_lists("shuffled", "in that share of the lists the grades are shuffled among the documents")
def shuffle_lists(data: rr.RankingData, share: float, rng: Rng) -> rr.RankingData:
    """Lists whose grades say nothing."""
    y = data.y.copy()
    for rows in _drawn_lists(data, share, rng):
        y[rows] = rng.permutation(y[rows])
    return replace(data, y=y)


def _drawn_lists(data: rr.RankingData, share: float, rng: Rng) -> Iterator[NDArray[np.int64]]:
    """The rows of each of the lists that are spoiled."""
    queries = data.queries
    rows, offsets = queries.rows(), queries.offsets
    for q in rng.permutation(len(queries))[: round(share * len(queries))]:
        yield rows[offsets[q] : offsets[q + 1]]


def _to_change(X: Any) -> Any:
    """A copy of which single values can be set."""
    return np.array(X) if isinstance(X, np.ndarray) else X.tolil(copy=True)


def _column_extremes(X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The smallest and the largest value of each feature."""
    if isinstance(X, np.ndarray):
        return X.min(axis=0), X.max(axis=0)
    return X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()


# Tables of users and items


@spoils_tables(
    "random",
    "as many records as that share of the table are added, each of a user and an item drawn at "
    "random",
)
def add_random_records(table: Any, share: float, rng: Rng) -> SpoiledTable:
    """Records that say nothing, spread over all users."""
    n = round(share * table.nnz)
    pairs = np.column_stack([rng.integers(size, size=n) for size in table.shape])
    return SpoiledTable(_binary(table + _matrix(pairs[:, 0], pairs[:, 1], table.shape)))


@spoils_tables(
    "bots",
    "users are added that each take 10,000 items drawn at random (half of all items where that is "
    "less), as many users as give that share of the records, and at least one",
)
def add_bots(table: Any, share: float, rng: Rng) -> SpoiledTable:
    """Users who take a large part of the catalogue."""
    size = min(_BOT_ITEMS, table.shape[1] // 2)
    n = max(1, round(share * table.nnz / size)) if share > 0 else 0
    baskets = [rng.choice(table.shape[1], size, replace=False) for _ in range(n)]
    return SpoiledTable(_with_users(table, baskets))


@spoils_tables(
    "shilling",
    "users are added, as many as that share of the users; each has one pushed item, the same for "
    "all and drawn from the less popular half, beside popular items drawn by popularity, as many "
    "as the median user has",
)
def add_shills(table: Any, share: float, rng: Rng) -> SpoiledTable:
    """An attack that lends an item the company of popular ones."""
    counts = np.bincount(table.indices, minlength=table.shape[1])
    taken = np.flatnonzero(counts)
    pushed = int(rng.choice(taken[np.argsort(counts[taken], kind="stable")][: -(-len(taken) // 2)]))
    weights = np.where(np.arange(len(counts)) == pushed, 0, counts)
    size = min(int(np.median(np.diff(table.indptr))), int(np.count_nonzero(weights)))
    baskets = [
        np.append(rng.choice(len(counts), size, replace=False, p=weights / weights.sum()), pushed)
        for _ in range(round(share * table.shape[0]))
    ]
    return SpoiledTable(_with_users(table, baskets), pushed)


def _with_users(table: Any, baskets: list[NDArray[np.int64]]) -> Any:
    """The table with a further user for each basket of items."""
    if not baskets:
        return table
    users = np.repeat(np.arange(len(baskets)), [len(basket) for basket in baskets])
    more = _matrix(users, np.concatenate(baskets), (len(baskets), table.shape[1]))
    return sp.vstack([table, more], format="csr")


def _matrix(users: NDArray[Any], items: NDArray[Any], shape: tuple[int, int]) -> Any:
    return sp.csr_matrix((np.ones(len(users), np.float32), (users, items)), shape=shape)


def _binary(table: Any) -> Any:
    """A record more than once is one record."""
    table.data[:] = 1
    return table
