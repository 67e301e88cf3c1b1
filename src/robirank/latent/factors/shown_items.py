"""What recommended lists show beside hits: how many items, how evenly, how new, how different."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robirank._types import Floats32, Floats64, Ints32
from robirank.latent.factors.topk import inverse_norms

#: The metrics of what lists show, in the order in which they are told.
SHOWN = ("item_coverage", "gini", "novelty", "distance", "tail")

_HEAD = 0.8  # the share of the interactions that the head of the catalogue makes up


class ShownItems:
    """Adds up what the lists of some users show; see `robirank.evaluate` for the formulas.

    Parameters
    ----------
    counts : int array
        The number of interactions of each item.
    n_users : int
        How many users these come from.
    cutoffs : tuple of int
    vectors : float32 array, optional
        The rows of the items, whose cosines are the similarity.

    Examples
    --------
    >>> shown = ShownItems(np.array([4, 1, 1]), 4, (2,), np.eye(3, dtype=np.float32))
    >>> shown.add(np.array([[0, 1], [0, 2]]))
    >>> {name: round(value, 3) for name, value in shown.means(3).items()}
    {'item_coverage@2': 1.0, 'gini@2': 0.167, 'novelty@2': 1.0, 'distance@2': 1.0, 'tail@2': 0.25}
    """

    def __init__(
        self, counts: Any, n_users: int, cutoffs: tuple[int, ...], vectors: Floats32 | None = None
    ) -> None:
        self._cutoffs = cutoffs
        self._novelty = -np.log2(np.maximum(counts, 1) / max(n_users, 1))
        self._tail = (~in_head(np.asarray(counts))).astype(np.float64)
        self._unit = self._has_row = np.empty(0, np.float32)
        if vectors is not None:
            scale = inverse_norms(vectors)
            self._unit, self._has_row = vectors * scale[:, None], (scale > 0).astype(np.float32)
        self._times = np.zeros((len(cutoffs), len(counts)), np.int64)
        self._sums = np.zeros((3, len(cutoffs)))  # of novelty, distance and tail
        self._lists = np.zeros((3, len(cutoffs)), np.int64)  # how many have such a value

    def add(self, lists: NDArray[Any]) -> None:
        """Count the lists of some users; position −1 stands for no item."""
        n, n_items = np.zeros(len(lists), np.int64), self._times.shape[1]
        novelty, tail = np.zeros((2, len(lists)))
        directions: Any = 0.0
        squares: Any = 0.0
        begin = 0
        for j, k in enumerate(self._cutoffs):
            rows, columns = np.nonzero(lists[:, begin:k] >= 0)
            items = lists[rows, columns + begin]
            begin = min(k, lists.shape[1])
            self._times[j:] += np.bincount(items, minlength=n_items)
            n += np.bincount(rows, minlength=len(lists))
            novelty += np.bincount(rows, self._novelty[items], len(lists))
            tail += np.bincount(rows, self._tail[items], len(lists))
            self._count(0, j, novelty / np.maximum(n, 1), n > 0)
            self._count(2, j, tail / np.maximum(n, 1), n > 0)
            if not len(self._unit):
                continue
            shown = sparse.csr_matrix(
                (np.ones(len(items), np.float32), (rows, items)), shape=(len(lists), n_items)
            )
            directions = directions + shown @ self._unit
            squares = squares + shown @ self._has_row  # of lengths, which are 1
            # |Σ v|² is Σ |v|² and twice the sum of the cosines of all pairs.
            lengths = np.einsum("ij,ij->i", directions, directions, dtype=np.float64)
            pairs = n * (n - 1)
            self._count(1, j, 1 - (lengths - squares) / np.maximum(pairs, 1), pairs > 0)

    def means(self, n_ranked: int) -> dict[str, float]:
        """The metrics by name, of so many items that were ranked."""
        means: dict[str, float] = {}
        for j, k in enumerate(self._cutoffs):
            times = self._times[j]
            means[f"item_coverage@{k}"] = float(np.count_nonzero(times) / n_ranked)
            means[f"gini@{k}"] = gini(times, n_ranked)
            for i, name in enumerate(SHOWN[2:]):
                if self._lists[i, j]:
                    means[f"{name}@{k}"] = float(self._sums[i, j] / self._lists[i, j])
        return means

    def _count(self, metric: int, cutoff: int, values: Floats64, has_value: Any) -> None:
        self._sums[metric, cutoff] += values[has_value].sum()
        self._lists[metric, cutoff] += np.count_nonzero(has_value)


def in_head(counts: Ints32) -> NDArray[np.bool_]:
    """Which items are the fewest that make up 80 % of all interactions.

    Examples
    --------
    >>> in_head(np.array([1, 8, 0, 3, 3])).tolist()
    [False, True, False, True, True]
    """
    order = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    head = np.zeros(len(counts), bool)
    head[order] = before < _HEAD * counts.sum()
    return head & (counts > 0)


def gini(times: Any, n: int) -> float:
    """How unevenly n items are shown: 0 where all are shown as often, near 1 where a few are.

    Items that are not in ``times`` were never shown.

    Examples
    --------
    >>> gini(np.array([3, 3, 3]), 3), gini(np.array([9, 0, 0]), 3)
    (0.0, 0.6666666666666666)
    """
    rising = np.sort(times)[-n:].astype(np.float64)
    if not rising.any():
        return 0.0
    ranks = np.arange(n - len(rising) + 1, n + 1)
    return float(((2 * ranks - n - 1) * rising).sum() / (n * rising.sum()))
