"""Metrics of recommended lists: precision, recall, NDCG, MAP and hit rate of the top k."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._types import Floats64, Ints32, Ints64
from robirank.data.user_items import UserItems
from robirank.errors import ArgumentError
from robirank.latent.factors.factors import Factors

METRICS = ("precision", "recall", "ndcg", "map", "hit_rate")

#: Values are added up as integers of this unit, so that the order of the users cannot matter.
UNIT = 2.0**-40

_BATCH_USERS = 4096  # for whom items are ranked at a time


def check_metric(metric: str) -> tuple[str, int]:
    """The kind of metric and the cut-off of a name such as "ndcg@20"."""
    kind, _, k = str(metric).partition("@")
    if kind not in METRICS or not k.isdigit() or int(k) < 1:
        raise ArgumentError(
            "metric",
            f"must be one of {', '.join(f'{name}@k' for name in METRICS)}, such as 'ndcg@20'; "
            f"got {metric!r}",
        )
    return kind, int(k)


def sample(users: Ints64, most: int, seed: int) -> Ints64:
    """So many users at most, at random, in rising order."""
    if len(users) <= most:
        return users
    rng = np.random.default_rng([seed, len(users)])
    return np.sort(rng.choice(users, most, replace=False))


def metric_of_factors(
    factors: Factors,
    train: UserItems,
    held_out: UserItems,
    metric: str,
    *,
    most_users: int | None = None,
    seed: int = 0,
    num_threads: int = 0,
    device: str = "cpu",
) -> float:
    """The mean of a metric on held-out interactions, as `robirank.evaluate` computes it.

    Parameters
    ----------
    factors : Factors
    train, held_out : UserItems
        Of the same users and items; items in ``train`` are left out of the lists.
    metric : str
    most_users : int, optional
        Of more users with held-out interactions, a random sample of this size.
    seed : int, default=0
        Of that sample.
    num_threads : int, default=0
    device : "cpu" or "cuda"
    """
    kind, k = check_metric(metric)
    users = np.flatnonzero(held_out.user_counts())
    if most_users is not None:
        users = sample(users, most_users, seed)
    factors = factors.prepared(device)
    n_best, total = min(k, held_out.n_items), 0
    for begin in range(0, len(users), _BATCH_USERS):
        batch: Ints32 = users[begin : begin + _BATCH_USERS].astype(np.int32)
        lists, _ = factors.best_items(
            batch,
            n_best,
            excluded=train.rows(batch),
            num_threads=num_threads,
            device=device,
        )
        values = metric_values(lists, held_out.rows(batch), (k,))
        total = total + in_units(values[METRICS.index(kind), 0])
    return float(mean_of_units(total, len(users)))


def metric_values(lists: NDArray[Any], held_out: UserItems, cutoffs: tuple[int, ...]) -> Floats64:
    """The metrics of recommended lists against held-out items.

    Every user must have a held-out item; position −1 stands for no item.

    Returns
    -------
    float64 array of shape (metrics, cut-offs, users)
        Metrics in the order of `METRICS`.
    """
    n_held_out = held_out.user_counts()
    hits = _hits(lists, held_out)
    depth = hits.shape[1]
    discount = _discounts(depth)
    n_hits = np.cumsum(hits, axis=1)
    gain = np.cumsum(hits * discount, axis=1)
    precision_at_hits = np.cumsum(hits * (n_hits / np.arange(1, depth + 1)), axis=1)
    total = n_held_out.astype(np.float64)
    values = np.empty((len(METRICS), len(cutoffs), len(hits)))
    for j, k in enumerate(cutoffs):
        last = min(k, depth) - 1
        most = min(k, int(n_held_out.max()))
        ideal = np.cumsum(_discounts(most))[np.minimum(most, n_held_out) - 1]
        values[:, j] = (
            n_hits[:, last] / float(k),
            n_hits[:, last] / total,
            gain[:, last] / ideal,
            precision_at_hits[:, last] / total,
            n_hits[:, last] > 0,
        )
    return values


def _discounts(depth: int) -> Floats64:
    """1 / log2(1 + r) of the ranks r from 1 on."""
    return 1.0 / np.log2(np.arange(2, depth + 2))


def _hits(lists: NDArray[Any], held_out: UserItems) -> NDArray[np.bool_]:
    """Whether each recommended item is among the held-out items of its user."""
    users, n_items = np.arange(len(lists), dtype=np.int64), held_out.n_items
    pairs = np.sort(np.repeat(users, held_out.user_counts()) * n_items + held_out.items)
    recommended = users[:, None] * n_items + lists
    place = np.minimum(np.searchsorted(pairs, recommended), len(pairs) - 1)
    return (pairs[place] == recommended) & (lists >= 0)


def in_units(values: Floats64) -> Any:
    """The sum over the last axis, in units: integers, whatever the order of the values."""
    return np.rint(values / UNIT).astype(np.int64).sum(axis=-1).astype(object)


def mean_of_units(total: Any, n: int) -> Any:
    """The mean of n values whose sum is given in units."""
    return np.asarray(total, dtype=np.float64) * UNIT / n
