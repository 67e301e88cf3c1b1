"""Answers about users: who there is, what they have, and who takes an item."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import UNSET

from robirank._types import Ints32, Ints64
from robirank.serve.loaded import ServedRecommender
from robirank.serve.page_messages import (
    AlsoTaken,
    Place,
    Places,
    Takers,
    UserFacts,
    Users,
    WantedPlaces,
)
from robirank.serve.problems import Problem
from robirank.serve.wishes import TakenSince, item_position, known_items, merged, rising

_MOST_TAKERS = 2_000  # takers whose other items are counted
_FEWEST = 3  # takers that must share an item for it to be told


def places(served: ServedRecommender, positions: Ints32) -> list[Place]:
    """Items with their positions."""
    names = served.catalogue.names(positions) or [None] * len(positions)
    ids = served.items.ids[positions].tolist()
    counts = [UNSET] * len(ids) if served.counts is None else served.counts[positions].tolist()
    is_new = served.is_new(positions)
    return [
        Place(position, id, UNSET if name is None else name, count, new)
        for position, id, name, count, new in zip(
            positions.tolist(), ids, names, counts, is_new, strict=True
        )
    ]


def find_places(served: ServedRecommender, wanted: WantedPlaces) -> Places:
    """The items at some positions, and some items by id."""
    inside = [position for position in wanted.positions if position < len(served.items)]
    every = np.concatenate([np.array(inside, np.int32), known_items(served, wanted.items)])
    return Places(served.checksum, places(served, every))


def find_users(served: ServedRecommender, text: str, n: int) -> Users:
    """Users whose ids contain a text, the exact one first; without a text some of all."""
    ids = served.users.ids
    if text:
        exact = served.users.find(text)
        has_text = served.user_texts.str.contains(text.lower(), literal=True)
        rows = np.flatnonzero(has_text.to_numpy())
        rows = rows[rows != exact][:n]
        rows = rows if exact < 0 else np.concatenate([[exact], rows])[:n]
    else:
        rows = np.unique(np.linspace(0, len(ids) - 1, min(n, len(ids))).astype(np.intp))
    called = [served.users.called(int(row)) for row in rows]
    return Users(served.checksum, [UserFacts(id, True, len(_has(served, id))) for id in called])


def about_user(
    served: ServedRecommender, id: str | int, n: int, taken: TakenSince | None
) -> UserFacts:
    """A user, and what the user has: the items that most users take come first."""
    row = served.users.find(id)
    fresh = known_items(served, () if taken is None else taken.items_of(id))
    has = merged(_has(served, id), rising(fresh))
    if row < 0 and not len(has):
        detail = f"there is no user {id!r:.80} in the model; GET /v1/users?search= finds users"
        raise Problem("unknown_user", detail, "$.id")
    if served.counts is not None:
        has = has[np.argsort(-served.counts[has], kind="stable")]
    called = id if row < 0 else served.users.called(row)
    return UserFacts(called, row >= 0, len(has), places(served, has[:n]))


def takers_of(served: ServedRecommender, id: str | int, n: int) -> Takers:
    """Who takes an item, and what these users take more often than others."""
    position = item_position(served, id, "$.id")
    called = served.items.called(position)
    if served.history is None:
        return Takers(served.checksum, called, 0, [], [])
    rows = served.history.takers(position)
    users = served.history.users
    some = [users.called(int(row)) for row in rows[:n]]
    return Takers(served.checksum, called, len(rows), some, _also(served, position, rows, n))


def _also(served: ServedRecommender, position: int, rows: Ints64, n: int) -> list[AlsoTaken]:
    """Sorted by k log(share / usual), where k takers have an item: often, and unusually often."""
    history = served.history
    assert history is not None
    rows = rows[:_MOST_TAKERS]
    both = np.bincount(history.items_of_rows(rows), minlength=len(served.items))
    both[position] = 0
    usual = history.counts(len(served.items)) / len(history)
    with np.errstate(divide="ignore", invalid="ignore"):
        striking = np.where(both >= _FEWEST, both * np.log(both / len(rows) / usual), 0.0)
    best = np.argsort(-striking, kind="stable")[:n]
    best = best[striking[best] > 0]
    names = served.catalogue.names(best) or [None] * len(best)
    return [
        AlsoTaken(
            served.items.called(int(place)),
            float(both[place] / len(rows)),
            float(usual[place]),
            UNSET if name is None else name,
        )
        for place, name in zip(best, names, strict=True)
    ]


def _has(served: ServedRecommender, id: Any) -> Ints32:
    return np.zeros(0, np.int32) if served.history is None else served.history.items(id)
