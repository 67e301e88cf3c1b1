"""Answers about items: what is known of one, which are like it, which a text means."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import UNSET

from robirank._types import Ints32
from robirank.serve.loaded import ServedRecommender
from robirank.serve.messages import Found, FoundItems, Item, Scored, Similar, SimilarTo
from robirank.serve.telling import scored
from robirank.serve.wishes import item_position, known_items, rising

_NEIGHBOURS = 10


def similar_to(served: ServedRecommender, asked: SimilarTo) -> Similar:
    """The items that are most like one, without itself."""
    position = item_position(served, asked.item, "$.item")
    only = None if asked.only is None else rising(known_items(served, asked.only))
    left_out = known_items(served, asked.exclude or ())
    return Similar(
        served.checksum,
        served.items.called(position),
        _neighbours(served, position, asked.n, only, left_out),
    )


def about_item(served: ServedRecommender, id: str | int, n: int = _NEIGHBOURS) -> Item:
    """What is known of an item."""
    position = item_position(served, id, "$.id")
    places = np.array([position])
    names = served.catalogue.names(places)
    name = None if names is None else names[0]
    attributes = served.catalogue.attributes(position)
    counts = served.counts
    return Item(
        served.checksum,
        served.items.called(position),
        UNSET if counts is None else int(counts[position]),
        served.is_new(places)[0],
        _neighbours_if_any(served, position, n),
        UNSET if name is None else name,
        UNSET if attributes is None else attributes,
    )


def find_items(served: ServedRecommender, text: str, n: int) -> FoundItems:
    """The items that a text means, by name, beginning, part or similar writing."""
    hits = served.catalogue.search(text, n)
    positions = np.array([hit.position for hit in hits], np.intp)
    names = served.catalogue.names(positions) or [None] * len(hits)
    found = [
        Found(
            served.items.called(hit.position),
            _how(hit.how),
            UNSET if name is None else name,
            UNSET if served.counts is None else int(served.counts[hit.position]),
        )
        for hit, name in zip(hits, names, strict=True)
    ]
    return FoundItems(served.checksum, found)


def _how(how: str) -> Any:
    return how


def _neighbours_if_any(served: ServedRecommender, position: int, n: int) -> list[Scored]:
    """The neighbours of an item; none where the model knows no likeness, as `Popularity`."""
    try:
        return _neighbours(served, position, n, None, np.zeros(0, np.int32))
    except NotImplementedError:
        return []


def _neighbours(
    served: ServedRecommender, position: int, n: int, only: Ints32 | None, left_out: Ints32
) -> list[Scored]:
    """The items most like the one at a position; nothing is like an item without interactions."""
    wanted = min(n + len(left_out) + 1, len(served.items))
    best, scores = served.model.similar_items(position, N=wanted, items=only)
    chosen = (best >= 0) & (best != position) & ~np.isin(best, left_out)
    places = np.flatnonzero(chosen)[:n]
    best = best[places]
    return scored(
        served.items.ids[best].tolist(),
        scores[places].tolist(),
        served.catalogue.names(best),
        served.is_new(best),
    )
