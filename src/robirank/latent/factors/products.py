"""Matrix products of blocks of users with all items, over ranges of items that threads share."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._types import Floats32
from robirank._workers import Workers

BLOCK_BYTES = 256 << 20  # of scores held at a time
_RANGES = 64  # at most
_RANGE_ITEMS = 2048  # at least
_LINE = 16  # float32 numbers in a cache line


def users_that_fit(n_items: int) -> int:
    """How many users' scores fit into the memory for a block; at least one."""
    return max(1, BLOCK_BYTES // (4 * n_items))


def score_rows(n_users: int, n_items: int) -> Floats32:
    """Memory for the scores of a block of users, uninitialised.

    Rows lie an odd number of cache lines apart: at a power of two they share a few places of the
    cache, and a product takes a quarter longer.

    Examples
    --------
    >>> score_rows(2, 64).strides
    (320, 4)
    """
    stride = (-(-n_items // _LINE) | 1) * _LINE
    return np.empty((n_users, stride), np.float32)[:, :n_items]


class Products:
    """The products of a block of users with all items, range by range.

    Ranges depend on the number of items alone, and partial sums are added in the ranges' order:
    the number of threads changes no bit.
    """

    def __init__(self, V: Floats32, workers: Workers) -> None:
        self.V = V
        self._workers = workers
        self.ranges = _item_ranges(len(V))

    def scores(self, U: Floats32, out: Floats32) -> None:
        """S = U Vᵀ."""
        self._workers.map(
            lambda items: self.product(U, self.V[items].T, out[:, items]), self.ranges
        )

    def back_to_users(self, gradient: Floats32) -> Floats32:
        """G V."""
        parts = self._workers.map(
            lambda items: self.product(gradient[:, items], self.V[items]), self.ranges
        )
        return sum_in_order(parts)

    def product(self, a: NDArray[Any], b: NDArray[Any], out: Floats32 | None = None) -> Floats32:
        """One product, on this thread."""
        with np.errstate(over="ignore", invalid="ignore"):  # the loop reports divergence
            result: Floats32 = np.matmul(a, b, out=out)
        return result


def sum_in_order(parts: list[Floats32]) -> Floats32:
    """The sum of arrays, in their order; the first one is changed."""
    for part in parts[1:]:
        parts[0] += part
    return parts[0]


def _item_ranges(n_items: int) -> list[slice]:
    count = int(np.clip(n_items // _RANGE_ITEMS, 1, _RANGES))
    edges = np.linspace(0, n_items, count + 1).astype(int)
    return [slice(a, b) for a, b in pairwise(edges.tolist())]
