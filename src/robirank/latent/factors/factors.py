"""What a fitted latent model is: the users and the items, with a row of factors for each.

Solvers, checkpoints, retrieval and files take and give a `Factors`. Each of its two sides is a
`Side` in memory (or on a CUDA card), or a side in shards (`robirank.latent.factors.shards`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from robirank._checks import all_finite
from robirank._types import Floats32, Floats64, Ints32
from robirank.data.feature_rows import FeatureRows
from robirank.data.ids import Ids
from robirank.data.user_items import UserItems
from robirank.engine.state import Rows
from robirank.latent.factors.centres import Centres
from robirank.latent.factors.content import Content, UserContent
from robirank.latent.factors.damping import Damping
from robirank.latent.factors.dislikes import Dislikes
from robirank.latent.factors.leads import Leads
from robirank.latent.factors.packed_file import map_packed
from robirank.latent.factors.spread import Spread, spread_with_content
from robirank.latent.factors.topk import NOTHING, PackedRows, no_rows, prepare_rows, top_rows

USERS, ITEMS = 0, 1  # the streams of random numbers for the rows of each side
_CHUNK_ROWS = 1 << 14  # random rows that are made at a time


class Queries(NamedTuple):
    """What a search takes: rows of users, or of other things that are to be compared.

    Attributes
    ----------
    rows : matrix
    asked : int32 array
        The positions in ``rows`` that are asked for.
    content : UserContent or None
        What those asked for have, where content scores count too.
    """

    rows: Any
    asked: Ints32
    content: UserContent | None = None

    @classmethod
    def all_of(cls, rows: Floats32, content: UserContent | None = None) -> Queries:
        """Ask for all rows of a matrix."""
        return cls(rows, np.arange(len(rows), dtype=np.int32), content)

    def take(self, places: NDArray[Any]) -> Queries:
        """Ask for some of them only."""
        content = None if self.content is None else self.content.take(places)
        return Queries(self.rows, self.asked[places], content)

    def without_knowledge(self) -> NDArray[np.intp]:
        """The places of those of whom nothing is known: a row of zeros, and no items."""
        places = zero_rows(self.rows, self.asked)
        if self.content is not None:
            places = places[self.content.taken.user_counts()[places] == 0]
        return places


class AnySide(Protocol):
    """The users or the items of a model, wherever their rows are."""

    @property
    def rows(self) -> Any:
        """The factors, a float32 matrix with a row for each user or item."""

    @property
    def ids(self) -> Ids | None:
        """What each is called outside; None where the model was fitted to positions."""

    @property
    def counts(self) -> Ints32 | None:
        """The number of interactions of each in the fit; None where nobody counted them."""

    @property
    def centres(self) -> Centres | None:
        """What features say of the rows; None where the model knows no features of this side."""

    @property
    def content(self) -> UserContent | None:
        """The items that users have, where content scores count; None otherwise."""

    @property
    def leads(self) -> Leads | None:
        """What each item says of the next one; see `robirank.latent.factors.order`."""

    @property
    def disliked(self) -> Dislikes | None:
        """What users dislike, where `fit` was told."""

    def __len__(self) -> int:
        """The number of users or items."""
        ...

    def queries(self, positions: Ints32) -> Queries:
        """The rows at some positions, to search with."""

    def search(self, queries: Queries, n_best: int, **options: Any) -> tuple[Ints32, Floats32]:
        """The rows with the largest inner products; see `robirank.latent.factors.topk.top_rows`."""


class ItemSide(AnySide, Protocol):
    """The items of a model, wherever their rows are."""

    def blocks(self) -> Iterator[Floats32]:
        """All rows, some at a time."""
        ...

    def with_column(self, values: Floats32) -> ItemSide:
        """The same with a further column of rows."""
        ...

    def spread_of(self, queries: Queries, num_threads: int) -> Floats64:
        """The standard deviation of the scores of each query over all rows."""


@dataclass(frozen=True, eq=False)
class Side:
    """The users or the items of a model in one matrix; see `AnySide`.

    ``rows`` is an array of NumPy, or a tensor of PyTorch on a card. ``prepared`` is the same rows
    as a search wants them, where `Factors.prepared` made them so.
    """

    rows: Any
    ids: Ids | None = None
    counts: Ints32 | None = None
    centres: Centres | None = None
    content: UserContent | None = None
    leads: Leads | None = None
    disliked: Dislikes | None = None
    prepared: Any = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name != "_spread"}
        return kept | {"prepared": None}

    def queries(self, positions: Ints32) -> Queries:
        """The rows at some positions; none is copied."""
        content = None if self.content is None else self.content.take(positions)
        return Queries(self.rows, positions, content)

    def search(
        self,
        queries: Queries,
        n_best: int,
        *,
        excluded: UserItems | None = None,
        only: UserItems | None = None,
        **options: Any,
    ) -> tuple[Ints32, Floats32]:
        """The rows with the largest scores; see `robirank.latent.factors.topk.top_rows`.

        Scores are inner products, and content scores where the queries have them.
        """
        matrix, asked, content = queries
        rows = self.rows if self.prepared is None else self.prepared
        if content is None or self.centres is None or self.counts is None:
            return top_rows(matrix, asked, rows, n_best, excluded=excluded, only=only, **options)
        features = self.centres.features
        scales, weights = content.weights.of_items(self.counts)
        if not weights.any():  # new items have a scale of their own, and that is all
            options |= {"scale": scales, "excluded": excluded, "only": only}
            return top_rows(matrix, asked, rows, n_best, **options)
        best, scores = no_rows(len(asked), n_best)
        for batch in content.batches(features):
            best[batch], scores[batch] = top_rows(
                matrix,
                asked[batch],
                rows,
                n_best,
                scale=scales,
                added=weights * content.take(batch).likeness(features),
                excluded=None if excluded is None else excluded.rows(batch),
                only=None if only is None else only.rows(batch),
                **options,
            )
        return best, scores

    def blocks(self) -> Iterator[Floats32]:
        """All rows, some at a time."""
        for first in range(0, len(self), _CHUNK_ROWS):
            yield self.rows[first : first + _CHUNK_ROWS]

    def with_column(self, values: Floats32) -> Side:
        """The same with a further column of rows, prepared if these are."""
        rows = np.concatenate([self.rows, values[:, None]], axis=1)
        prepared = self.prepared
        if prepared is not None:
            device = "cpu" if isinstance(prepared, PackedRows) else "cuda"
            prepared = prepare_rows(rows, device)
        return replace(self, rows=rows, prepared=prepared)

    @cached_property
    def _spread(self) -> Spread:
        return Spread.of(self.blocks())

    def spread_of(self, queries: Queries, num_threads: int) -> Floats64:
        """The standard deviation of the scores of each query over all rows."""
        if queries.content is not None and self.centres is not None and self.counts is not None:
            return spread_with_content(self, queries)
        return self._spread.of_scores(queries.rows, queries.asked, num_threads)


@dataclass(frozen=True, eq=False)
class Factors:
    """A fitted latent model: the score of a user and an item is the inner product of their rows.

    Examples
    --------
    >>> U, V = np.ones((1, 2), np.float32), np.array([[1, 1], [2, 2]], np.float32)
    >>> best, scores = Factors(Side(U), Side(V)).best_items(np.array([0], np.int32), 1)
    >>> best.tolist(), scores.tolist()
    ([[1]], [[4.0]])
    """

    users: AnySide
    items: ItemSide

    def __getstate__(self) -> dict[str, Any]:
        return {"users": self.users, "items": self.items}

    @cached_property
    def damping(self) -> Damping:
        """The items with rows that damp popularity; made when it is first asked for."""
        return Damping.of(self)

    def with_rows(self, user_rows: Any, item_rows: Any) -> Factors:
        """A model of the same users and items with other rows."""
        return Factors(_with_rows(self.users, user_rows), _with_rows(self.items, item_rows))

    def named(
        self,
        user_ids: Ids | None,
        item_ids: Ids | None,
        item_counts: Ints32,
        user_counts: Ints32 | None = None,
    ) -> Factors:
        """The same rows, with outside ids and numbers of interactions."""
        users: Any = self.users
        items: Any = self.items
        return Factors(
            replace(users, ids=user_ids, counts=user_counts),
            replace(items, ids=item_ids, counts=item_counts),
        )

    def with_content(self, weights: Content, interactions: UserItems) -> Factors:
        """The same factors, with content scores by what users have."""
        users: Any = self.users
        taken = UserItems(interactions.indptr, interactions.items, None, interactions.n_items)
        content = UserContent(weights, taken) if weights else None
        return Factors(replace(users, content=content), self.items)

    def with_dislikes(self, table: UserItems | None) -> Factors:
        """The same factors, with what users dislike."""
        users: Any = self.users
        disliked = None if table is None else Dislikes(table)
        return Factors(replace(users, disliked=disliked), self.items)

    def with_items(self, features: FeatureRows, ids: Ids | None) -> Factors:
        """The same users, and items with these features and ids, after the present ones new ones.

        Items without interactions have the factors that their features say.
        """
        items: Any = self.items
        n, total = len(items), len(features)
        centres = replace(items.centres, features=features)
        counts = np.zeros(total, np.int32)
        counts[:n] = items.counts
        rows = np.zeros((total, items.rows.shape[1]), np.float32)
        rows[:n] = items.rows
        untrained = np.flatnonzero(counts == 0)
        rows[untrained] = centres.of(features.take(untrained))
        leads = None if items.leads is None else items.leads.extended(total)
        return self._with_catalogue(
            Side(rows, ids, counts, centres, leads=leads), lambda t: t.extended(t.n_users, total)
        )

    def of_items(self, chosen: NDArray[Any]) -> Factors:
        """The same users, and some of the items, which rise."""
        items: Any = self.items
        centres = items.centres
        side = Side(
            np.ascontiguousarray(items.rows[chosen]),
            None if items.ids is None else Ids(items.ids[chosen]),
            None if items.counts is None else items.counts[chosen],
            None if centres is None else replace(centres, features=centres.features.take(chosen)),
            leads=None if items.leads is None else items.leads.take(chosen),
        )
        return self._with_catalogue(side, lambda taken: taken.of_items(chosen))

    def _with_catalogue(self, items: Side, taken: Callable[[UserItems], UserItems]) -> Factors:
        """The same users with other items; ``taken`` says what becomes of the items they have."""
        users: Any = self.users
        if users.content is not None:
            content = replace(users.content, taken=taken(users.content.taken))
            users = replace(users, content=content)
        if users.disliked is not None:
            users = replace(users, disliked=Dislikes(taken(users.disliked.table)))
        return Factors(users, items)

    def copy(self) -> Factors:
        """A model whose rows do not change when those of this one do."""
        return self.with_rows(np.array(self.users.rows), np.array(self.items.rows))

    def on_host(self) -> Factors:
        """The same model with its rows in the memory of this process."""
        if isinstance(self.users.rows, np.ndarray) and isinstance(self.items.rows, np.ndarray):
            return self
        sides: list[Any] = [self.users, self.items]
        return self.with_rows(*(np.array(side.rows.cpu().numpy()) for side in sides))

    def prepared(self, device: str = "cpu") -> Factors:
        """The same model, with the items laid out for many searches; costs a copy of their rows.

        On a card, the items are uploaded once.
        """
        if not isinstance(self.items, Side):
            return self
        items = replace(self.items, prepared=prepare_rows(self.items.rows, device))
        return Factors(self.users, items)

    def mapping(self, packed: Path) -> Factors:
        """The same, with the packed items of a file; see `robirank.latent.factors.packed_file`."""
        items: Any = self.items
        return Factors(self.users, replace(items, prepared=map_packed(packed, items.rows)))

    def is_complete(self) -> bool:
        """Whether both sides have rows; those in shards are not read for it."""
        sides = (self.users, self.items)
        return not any(isinstance(side, Side) and side.rows is None for side in sides)

    def is_finite(self) -> bool:
        """Whether all rows are finite."""
        host = self.on_host()
        return all_finite(host.users.rows) and all_finite(host.items.rows)

    def best_items(
        self,
        users: Ints32,
        n_best: int,
        *,
        candidates: Ints32 | None = None,
        excluded: UserItems | None = None,
        num_threads: int = 0,
        device: str = "cpu",
    ) -> tuple[Ints32, Floats32]:
        """The best items of users by position; those without interactions get popular items."""
        queries = self.users.queries(users)
        options: dict[str, Any] = {"candidates": candidates, "num_threads": num_threads}
        best, scores = self.items.search(
            queries, n_best, excluded=excluded, device=device, **options
        )
        without = queries.without_knowledge()
        if len(without) and self.items.counts is not None:
            best[without], scores[without] = popular_items(
                self.items.counts,
                len(without),
                n_best,
                excluded=None if excluded is None else excluded.rows(without),
                **options,
            )
        return best, scores


def _with_rows(side: AnySide, rows: Any) -> Side:
    """A side in memory with other rows."""
    if isinstance(side, Side):
        return replace(side, rows=rows, prepared=None)
    return Side(rows, side.ids, side.counts)


def popular_items(
    counts: Ints32, n_users: int, n_best: int, **options: Any
) -> tuple[Ints32, Floats32]:
    """The items with the most interactions for each of some users, and their numbers.

    Items without interactions are left out, as `NOTHING`. The options are those of
    `robirank.latent.factors.topk.top_rows`.
    """
    best, scores = by_popularity(counts, n_users, n_best, **options)
    untaken = scores <= 0
    best[untaken], scores[untaken] = -1, NOTHING
    return best, scores


def by_popularity(
    counts: Ints32, n_users: int, n_best: int, **options: Any
) -> tuple[Ints32, Floats32]:
    """The items with the most interactions, and those without any after them."""
    return top_rows(
        np.ones((n_users, 1), np.float32),
        np.arange(n_users, dtype=np.int32),
        counts.astype(np.float32)[:, None],
        n_best,
        **options,
    )


def zero_rows(rows: Any, positions: Ints32) -> NDArray[np.intp]:
    """The places of those of some rows that are all zero, as rows without interactions are.

    Examples
    --------
    >>> rows = np.array([[0, 0], [0, 1], [2, 0]], dtype=np.float32)
    >>> zero_rows(rows, np.array([2, 0, 1, 0], dtype=np.int32)).tolist()
    [1, 3]
    """
    if not isinstance(rows, np.ndarray):  # on a card
        rows, positions = rows[positions].cpu().numpy(), np.arange(len(positions), dtype=np.int32)
    perhaps = np.flatnonzero(rows[positions, 0] == 0)  # nearly nobody, so that no copy is made
    return perhaps[~rows[positions[perhaps]].any(axis=1)]


# ------------------------------------------------------------------------ rows to start with


def random_rows(seed: int, side: int, n: int, d: int) -> Floats32:
    """Normal numbers of variance 1 / d for all n rows of a side.

    Examples
    --------
    >>> random_rows(seed=0, side=ITEMS, n=3, d=2).shape
    (3, 2)
    """
    rows = np.empty((n, d), dtype=np.float32)
    for first, chunk in _random_chunks(seed, side, n, d):
        rows[first : first + len(chunk)] = chunk
    return rows


@dataclass(frozen=True)
class RandomRows:
    """Start values of `robirank.engine.state.StateArray`: some of the rows of `random_rows`.

    They are made without all rows at once. Users without interactions get zeros.
    """

    seed: int
    side: int
    n: int
    d: int

    def __call__(self, wanted: Sequence[Rows]) -> list[Floats32]:
        """The rows of each of some users or items."""
        results = [np.empty((len(rows.numbers), self.d), np.float32) for rows in wanted]
        sorts = [np.argsort(rows.numbers) for rows in wanted]
        for first, chunk in _random_chunks(self.seed, self.side, self.n, self.d):
            for rows, sort, result in zip(wanted, sorts, results, strict=True):
                bounds = [first, first + len(chunk)]
                low, high = np.searchsorted(rows.numbers, bounds, sorter=sort)
                places = sort[low:high]
                result[places] = chunk[rows.numbers[places] - first]
        if self.side == USERS:
            for rows, result in zip(wanted, results, strict=True):
                result[rows.counts == 0] = 0.0
        return results


def _random_chunks(seed: int, side: int, n: int, d: int) -> Iterator[tuple[int, Floats32]]:
    stream = np.random.default_rng([seed, side])
    for first in range(0, n, _CHUNK_ROWS):
        chunk = stream.standard_normal((min(_CHUNK_ROWS, n - first), d), dtype=np.float32)
        chunk /= np.float32(np.sqrt(d))
        yield first, chunk
