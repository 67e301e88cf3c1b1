"""Masks of single queries and ranks between equal scores, for a search that knows neither.

The native search has them built in. The search on a card has not, and is asked in another way or
for more until the answer is certain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from robirank._types import Floats32, Ints32
from robirank.data.user_items import UserItems
from robirank.latent.factors.topk import in_order, no_rows

_CELLS = 1 << 24  # numbers of a matrix that are held at a time

#: Finds so many of the best rows for the queries at some places.
PlainSearch = Callable[[Any, int], tuple[Ints32, Floats32]]


def masked(added: Floats32 | None, only: UserItems | None, places: Any) -> Floats32 | None:
    """What is added to the scores of the queries at some places: −∞ for rows not in ``only``."""
    sums = None if added is None else added[places]
    if only is None:
        return sums
    rows = only.rows(places)
    mask = np.full(rows.shape, -np.inf, np.float32)
    mask[np.repeat(np.arange(rows.n_users), rows.user_counts()), rows.items] = 0.0
    return mask if sums is None else mask + sums


def best_by(
    search: PlainSearch, n_queries: int, n_best: int, n_rows: int, ranks: Ints32 | None
) -> tuple[Ints32, Floats32]:
    """The best rows for each query, of equal scores those of the lower ranks.

    At most so many queries are asked for at a time that a mask for them fits into memory.

    Examples
    --------
    >>> def two_of_three(places, n):
    ...     return np.array([[0, 1, 2, -1]])[:, :n], np.float32([[5, 5, 3, 0]])[:, :n]
    >>> best_by(two_of_three, 1, 1, 3, ranks=np.int32([9, 4, 7]))[0].tolist()
    [[1]]
    """
    best = no_rows(n_queries, n_best)
    size = max(1, _CELLS // max(n_rows, 1))
    for begin in range(0, n_queries, size):
        places = np.arange(begin, min(begin + size, n_queries))
        if ranks is None:
            best[0][places], best[1][places] = search(places, n_best)
        else:
            best[0][places], best[1][places] = _ranked(search, places, n_best, n_rows, ranks)
    return best


def _ranked(
    search: PlainSearch, places: Any, n_best: int, n_rows: int, ranks: Ints32
) -> tuple[Ints32, Floats32]:
    """The best rows where ranks decide between equal scores.

    A search may leave out rows that are as good as the last one that it found, and no better ones.
    So all that are as good as the n-th are known once a worse one was found, or once none is left.
    """
    best, scores = no_rows(len(places), n_best)
    open_ones, n = np.arange(len(places)), n_best
    while len(open_ones):
        n *= 2
        found, values = search(places[open_ones], n)
        is_known = (found[:, -1] < 0) | (values[:, n_best - 1] > values[:, -1]) | (n >= n_rows)
        found, values = in_order(found[is_known], values[is_known], ranks)
        best[open_ones[is_known]] = found[:, :n_best]
        scores[open_ones[is_known]] = values[:, :n_best]
        open_ones = open_ones[~is_known]
    return best, scores
