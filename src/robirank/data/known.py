"""Interactions in the ids of a model: what is known is kept, what is not is counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robirank.data.ids import Ids
from robirank.data.interactions import Interactions, recoded


@dataclass(frozen=True)
class Known:
    """Interactions in the ids of a model, and what is not in it.

    Attributes
    ----------
    data : Interactions
    unseen_users, unseen_items : int
        Ids that the model does not know.
    left_out : int
        Interactions of such users or items.
    """

    data: Interactions
    unseen_users: int
    unseen_items: int
    left_out: int

    def report(self) -> dict[str, int]:
        """The counts, for JSON."""
        return {
            "interactions": self.data.n_interactions,
            "unseen_users": self.unseen_users,
            "unseen_items": self.unseen_items,
            "left_out": self.left_out,
        }


def known(data: Interactions, users: Ids, items: Ids) -> Known:
    """Re-encode interactions by the given ids."""
    user, item = users.find(data.users[:]), items.find(data.items[:])
    found = recoded(data, users, items, user, item)
    users_gone, items_gone = (int(np.count_nonzero(codes < 0)) for codes in (user, item))
    return Known(found, users_gone, items_gone, len(data) - len(found))


def nothing(users: Ids, items: Ids) -> Interactions:
    """No interactions at all, of these users and items."""
    return Interactions(
        users, items, np.zeros(len(users) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    )
