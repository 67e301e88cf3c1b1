r"""What users dislike: items that they are never given, and that lose more than others.

In the inner sum of an interaction, an item that the user took against counts as if its score were
higher by `MARGIN`,

.. math:: t_y = \sum_{y' \ne y} σ_0(⟨U_x, V_y⟩ - ⟨U_x, V_{y'}⟩ - 2\,[x \text{ dislikes } y']),

so that it weighs as much as four items that were never seen, as long as it is ranked below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._sparse import check_rows
from robirank._types import Floats32, Ints64
from robirank.data.user_items import UserItems

#: What is added to the score of a disliked item in the inner sums.
MARGIN = 2.0


@dataclass(frozen=True, eq=False)
class Dislikes:
    """What the users of a model dislike; a file keeps it.

    Attributes
    ----------
    table : UserItems
    """

    table: UserItems

    def __len__(self) -> int:
        return self.table.n_users

    def to_tensors(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays that a file keeps."""
        return {
            f"{prefix}.indptr": self.table.indptr,
            f"{prefix}.items": self.table.items,
            f"{prefix}.n_items": np.array([self.table.n_items], np.int64),
        }

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> Dislikes:
        """The inverse of `to_tensors`; a ValueError unless the arrays fit together."""
        parts = [arrays.get(f"{prefix}.{name}") for name in ("indptr", "items", "n_items")]
        types = [None if part is None else part.dtype for part in parts]
        if types != [np.int64, np.int32, np.int64]:
            raise ValueError(f"{prefix} must have the items of users")
        indptr, items, n_items = (np.asarray(part) for part in parts)
        if n_items.shape != (1,):
            raise ValueError(f"{prefix}.n_items must be one number")
        check_rows(prefix, indptr, items, (len(indptr) - 1, int(n_items[0])))
        if indptr[-1] != len(items):
            raise ValueError(f"{prefix}.indptr must end with {len(items)}, the number of items")
        return cls(UserItems(indptr, items, None, int(n_items[0])))


def raise_disliked(scores: Floats32, table: UserItems, users: Ints64) -> None:
    """Add the margin to the scores of what some users of a table dislike, a row for each user.

    Examples
    --------
    >>> from dataclasses import replace
    >>> dislikes = UserItems(np.array([0, 1, 1]), np.array([2], np.int32), None, 3)
    >>> likes = UserItems(np.array([0, 1, 2]), np.array([0, 1], np.int32), None, 3)
    >>> scores = np.zeros((2, 3), np.float32)
    >>> raise_disliked(scores, replace(likes, disliked=dislikes), np.array([1, 0]))
    >>> scores.tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]]
    """
    if table.disliked is None:
        return
    part = table.disliked.rows(users)
    scores[np.repeat(np.arange(len(users)), part.user_counts()), part.items] += np.float32(MARGIN)
