r"""What users took after what: the order of their records as tables.

The table of followers has a row for each item that leads and a column for each item that follows:

.. math:: F_{ij} = \sum_x \sum_{0 < g \le 10} \frac{1}{g}
          \bigl[\text{user } x \text{ took } j \text{ as the } g\text{-th record after } i\bigr]

The last items of a user are the three latest, with weights in the ratio 1 : 1/2 : 1/3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robirank._types import Floats32
from robirank.data.user_items import UserItems

#: Records after one that count as following it.
WINDOW = 10
#: Latest records of a user that say what comes next.
LAST = 3

_TIES = 5  # the stream of random numbers for the order of records at the same time


def followers(table: UserItems, seed: int, weight: Floats32 | None = None) -> UserItems:
    """The table of followers of a table with times, items × items.

    Records of a user at the same time are put in random order.

    Parameters
    ----------
    table : UserItems
    seed : int
        Of that order.
    weight : array, optional
        What each record weighs where it follows; one by default.

    Examples
    --------
    A user who took the items 2, 0 and 1, one after the other.

    >>> table = UserItems(np.array([0, 3]), np.array([0, 1, 2], np.int32), None, 3)
    >>> table = replace(table, times=np.array([20, 30, 10]))
    >>> F = followers(table, seed=0)
    >>> sparse.csr_matrix((F.weight, F.items, F.indptr), shape=F.shape).toarray().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.5, 0.0]]
    """
    user, order = _in_order(table, seed)
    items = table.items[order]
    weights = np.ones(len(items), np.float32) if weight is None else weight[order]
    shape = (table.n_items, table.n_items)
    total: Any = sparse.csr_array(shape, dtype=np.float32)
    for gap in range(1, min(WINDOW, len(items) - 1) + 1):
        is_same = user[gap:] == user[:-gap]
        if not is_same.any():
            break
        values = weights[gap:][is_same] / np.float32(gap)
        pairs = items[:-gap][is_same], items[gap:][is_same]
        total = total + sparse.csr_array((values, pairs), shape=shape)
    total.sort_indices()
    return UserItems(
        total.indptr.astype(np.int64), total.indices.astype(np.int32), total.data, table.n_items
    )


def last_items(table: UserItems) -> UserItems:
    """The latest items of each user, with weights that add up to one.

    Records at the same time share the weights of their places; where there are no times, all
    records of a user are the latest.

    Examples
    --------
    >>> table = UserItems(np.array([0, 4, 4, 6]), np.array([0, 1, 2, 3, 1, 3], np.int32), None, 4)
    >>> last = last_items(replace(table, times=np.array([5, 9, 7, 8, 6, 6])))
    >>> last.indptr.tolist(), last.items.tolist()
    ([0, 3, 3, 5], [1, 2, 3, 1, 3])
    >>> [round(float(w), 2) for w in last.weight]
    [0.55, 0.18, 0.27, 0.5, 0.5]
    """
    n, counts = len(table.items), table.user_counts()
    if table.times is None:
        return replace(table, weight=(1.0 / np.repeat(counts, counts)).astype(np.float32))
    user = np.repeat(np.arange(table.n_users), counts)
    order = np.lexsort((table.times, user))
    place = np.empty(n, np.int64)  # 0 for the latest of a user
    place[order] = np.repeat(table.indptr[1:], counts) - 1 - np.arange(n)
    weights = np.where(place < LAST, 1.0 / (1.0 + place), 0.0)
    times = table.times[order]
    is_new = np.ones(n, bool)
    is_new[1:] = (user[1:] != user[:-1]) | (times[1:] != times[:-1])
    group = np.cumsum(is_new) - 1
    sums = np.bincount(group, weights[order])
    weights[order] = (sums / np.maximum(np.bincount(group), 1))[group]
    weights /= np.maximum(np.bincount(user, weights, minlength=table.n_users), 1e-300)[user]
    is_last = weights > 0
    return replace(table.take(is_last), weight=weights[is_last].astype(np.float32))


def hold_out_last(table: UserItems) -> NDArray[np.bool_]:
    """Mark the last records of each user who has three or more: a tenth of them, one to five."""
    counts = table.user_counts()
    sizes = np.where(counts >= 3, np.clip(counts // 10, 1, 5), 0)
    user, order = _in_order(table, 0)
    place = np.repeat(table.indptr[1:], counts) - 1 - np.arange(len(order))
    chosen = np.zeros(len(order), bool)
    chosen[order[place < sizes[user]]] = True
    return chosen


def _in_order(table: UserItems, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The users of records, and the records of each in the order of their times."""
    user = np.repeat(np.arange(table.n_users), table.user_counts())
    assert table.times is not None
    rng = np.random.default_rng([seed, _TIES])
    return user, np.lexsort((rng.random(len(user), np.float32), table.times, user))
