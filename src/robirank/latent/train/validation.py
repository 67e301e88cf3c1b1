"""Validation on a cluster: workers rank the items for their own users."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from robirank._checks import all_finite
from robirank._types import Ints32, Ints64
from robirank.data.user_items import UserItems
from robirank.engine.interface import Engine, Figures, task
from robirank.engine.state import Block, Part
from robirank.engine.strata import user_batches
from robirank.latent.factors.list_metrics import (
    METRICS,
    check_metric,
    in_units,
    mean_of_units,
    metric_values,
)
from robirank.latent.factors.topk import merge_best, no_rows, top_rows


def validate_on_engine(engine: Engine, metric: str, factors: int) -> float:
    """The metric of `robirank.evaluate` on held-out interactions; no process needs all factors."""
    kind, k = check_metric(metric)
    n = len(user_batches(slice(0, max(engine.part_users))))
    settings = [RankSettings(batch, kind, k, factors) for batch in range(n)]
    figures = engine.scan(rank_task, settings)
    return float(mean_of_units(figures["units"], int(figures["done"])))


@dataclass(frozen=True)
class RankSettings:
    """The batch of users of a part to rank for, the metric, and the number of factors."""

    batch: int
    metric: str
    k: int
    factors: int


@task(reads=["U", "V", "item_counts"])
def rank_task(
    part: Part, blocks: Iterable[Block], position: Ints32, settings: RankSettings
) -> Figures:
    """Rank all items for some users; returns their number and the sum of the metric, in units.

    Users without interactions get the popular items, as `Factors.best_items` does it: their row of
    U is zero, and one more column, the items' numbers of interactions, counts for them alone.
    """
    batches = user_batches(slice(0, len(part.users)))
    if part.held_out is None or settings.batch >= len(batches):
        return {"done": 0, "units": 0}
    users = np.arange(batches[settings.batch].start, batches[settings.batch].stop)
    users = users[part.held_out.user_counts()[users] > 0]
    if not len(users):
        return {"done": 0, "units": 0}
    n_items = len(position)
    liked = replace(part.interactions, weight=None).rows(users)
    unknown = liked.user_counts() == 0
    queries = np.column_stack([part["U"][users, : settings.factors], unknown.astype(np.float32)])
    asked = np.arange(len(users), dtype=np.int32)
    best = no_rows(len(users), min(settings.k, n_items))
    for block in blocks:
        places = position - np.int32(block.first)
        items = np.flatnonzero((places >= 0) & (places < len(block)))  # rising, for ties
        rows = places[items]
        V = np.column_stack([block["V"][rows, : settings.factors], block["item_counts"][rows]])
        excluded = _places_among(liked, items)
        top, scores = top_rows(
            queries, asked, V, best[0].shape[1], excluded=excluded, num_threads=1
        )
        best = merge_best(best, (np.where(top < 0, -1, items[top]), scores))
    lists = np.where((best[1] <= 0) & unknown[:, None], -1, best[0])
    values = metric_values(lists, part.held_out.rows(users), (settings.k,))
    units = int(in_units(values[METRICS.index(settings.metric), 0]))
    return {"done": len(users), "units": units}


@task(reads=["U", "V"])
def finite_task(
    part: Part,
    blocks: Iterable[Block],
    position: Ints32,  # noqa: ARG001
    settings: None,  # noqa: ARG001
) -> Figures:
    """Count what is not finite among a part of U and the block of V with its number."""
    block = next(iter(blocks))
    return {"not_finite": (not all_finite(part["U"])) + (not all_finite(block["V"]))}


def _places_among(liked: UserItems, items: Ints64) -> UserItems:
    """The places among rising items of those that each user has."""
    place = np.minimum(np.searchsorted(items, liked.items), len(items) - 1)
    inside = items[place] == liked.items
    return replace(liked.take(inside), items=place[inside].astype(np.int32))
