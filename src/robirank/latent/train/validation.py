"""Validation on a cluster: workers rank the items for their own users."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from robirank._types import Ints32, Ints64
from robirank.data.records import SparseRows
from robirank.engine.interface import Engine, Figures
from robirank.engine.parts import Block, Part
from robirank.engine.strata import user_batches
from robirank.latent.factors.evaluate import (
    MEASURES,
    check_metric,
    in_units,
    mean_of_units,
    measure_lists,
)
from robirank.latent.factors.topk import merge_best, no_rows, top_rows
from robirank.storage.tensor_file import all_finite


def validate_on_engine(engine: Engine, metric: str) -> float:
    """The measure of `robirank.evaluate` on held-out records; no process needs all factors."""
    measure, k = check_metric(metric)
    n = len(user_batches(slice(0, max(engine.part_users))))
    settings = [RankSettings(batch, measure, k, engine.factors) for batch in range(n)]
    figures = engine.measure(rank_task, settings)
    return float(mean_of_units(figures["units"], int(figures["done"])))


@dataclass(frozen=True)
class RankSettings:
    """Which users of a part are ranked for, and what is measured."""

    batch: int
    measure: str
    k: int
    factors: int


def rank_task(
    part: Part, blocks: Iterable[Block], position: Ints32, settings: RankSettings
) -> Figures:
    """Rank all items for some users; returns their number and the sum of the measure, in units.

    Users without a record get the popular items, as `FactorModel.recommend` does it: their row of U
    is zero, and one more column, the number of records of each item, counts for them alone.
    """
    own = user_batches(slice(0, len(part.users)))
    if part.held_out is None or settings.batch >= len(own):
        return {"done": 0, "units": 0}
    users = np.arange(own[settings.batch].start, own[settings.batch].stop)
    users = users[part.held_out.user_counts()[users] > 0]
    if not len(users):
        return {"done": 0, "units": 0}
    n_items = len(position)
    known = SparseRows(part.indptr, part.items, None).rows(users)
    unknown = known.user_counts() == 0
    queries = np.column_stack([part.U[users, : settings.factors], unknown.astype(np.float32)])
    each = np.arange(len(users), dtype=np.int32)
    best = no_rows(len(users), min(settings.k, n_items))
    for block in blocks:
        places = position - np.int32(block.first)
        items = np.flatnonzero((places >= 0) & (places < len(block.V)))  # rising, for ties
        rows = places[items]
        V = np.column_stack([block.V[rows, : settings.factors], block.popularity[rows]])
        liked = _among(known, items)
        top, scores = top_rows(queries, each, V, best[0].shape[1], liked=liked, num_threads=1)
        best = merge_best(best, (np.where(top < 0, -1, items[top]), scores))
    ids = np.where((best[1] <= 0) & unknown[:, None], -1, best[0])
    held_out = part.held_out.rows(users)
    values = measure_lists(ids, held_out.indptr, held_out.items, n_items, (settings.k,))
    return {
        "done": len(users),
        "units": int(in_units(values[MEASURES.index(settings.measure), 0])),
    }


def finite_task(
    part: Part,
    blocks: Iterable[Block],
    position: Ints32,  # noqa: ARG001
    settings: None,  # noqa: ARG001
) -> Figures:
    """Count what is not finite among a part of U and the block of V with its number."""
    block = next(iter(blocks))
    return {"not_finite": (not all_finite(part.U)) + (not all_finite(block.V))}


def _among(known: SparseRows, items: Ints64) -> SparseRows:
    """The places among rising items of those that each user has."""
    place = np.searchsorted(items, known.items)
    place = np.minimum(place, len(items) - 1)
    inside = items[place] == known.items
    return replace(known.take(inside), items=place[inside].astype(np.int32))
