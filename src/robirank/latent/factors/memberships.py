"""Which groups items are in: of a column with one value for each item, or with a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from robirank._sparse import offsets, places_of_rows
from robirank._types import Ints32, Ints64
from robirank.data.user_items import Mask


@dataclass(frozen=True, eq=False)
class Memberships:
    """The groups of each item: ``groups[starts[i]:starts[i + 1]]``, which differ.

    Examples
    --------
    >>> both = Memberships.of_pairs(np.array([0, 2, 2]), np.array([1, 0, 1]), 3, 2)
    >>> both.take(np.array([2, -1, 0])).starts.tolist()
    [0, 2, 2, 3]
    >>> Memberships.joined([both, both]).groups.tolist()
    [1, 3, 0, 1, 2, 3]
    """

    starts: Ints64
    groups: Ints32
    n_groups: int

    @classmethod
    def of_pairs(
        cls, items: NDArray[Any], groups: NDArray[Any], n_items: int, n_groups: int
    ) -> Self:
        """From pairs of an item and a group, sorted by the item."""
        counts = np.bincount(items, minlength=n_items)
        return cls(offsets(counts), groups.astype(np.int32), n_groups)

    @classmethod
    def of_mask(cls, members: Mask) -> Self:
        """One group of some of the items."""
        items = np.flatnonzero(members)
        return cls.of_pairs(items, np.zeros(len(items)), len(members), 1)

    @classmethod
    def joined(cls, several: Sequence[Memberships], n_items: int = 0) -> Self:
        """All groups of several columns, numbered through; without any, those of n items."""
        if not several:
            return cls(np.zeros(n_items + 1, np.int64), np.empty(0, np.int32), 0)
        first = np.cumsum([0, *(one.n_groups for one in several)])
        items = np.concatenate([one.items() for one in several])
        groups = np.concatenate(
            [one.groups + n for one, n in zip(several, first[:-1], strict=True)]
        )
        order = np.lexsort((groups, items))
        return cls.of_pairs(items[order], groups[order], len(several[0]), int(first[-1]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def items(self) -> NDArray[np.intp]:
        """The item of each pair."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def is_any(self) -> Mask:
        """Whether each item is in a group."""
        return np.diff(self.starts) > 0

    def take(self, items: NDArray[Any]) -> Memberships:
        """Those of some items; −1 is an item without groups."""
        indptr = np.append(self.starts, self.starts[-1])  # the last row is empty, and is row −1
        starts, pairs = places_of_rows(indptr, np.asarray(items) % (len(self) + 1))
        return Memberships(starts, self.groups[pairs], self.n_groups)

    def counts(self, items: NDArray[Any]) -> NDArray[np.intp]:
        """How many of some items each group has."""
        return np.bincount(self.take(items).groups, minlength=self.n_groups)

    def any_of(self, groups: Mask) -> Mask:
        """Which items are in at least one of some groups."""
        found = self.is_any()
        if found.all() and len(self.groups) == len(self):  # one group each
            return groups[self.groups]
        if found.any():  # reduceat knows no empty rows
            found[found] = np.logical_or.reduceat(groups[self.groups], self.starts[:-1][found])
        return found
