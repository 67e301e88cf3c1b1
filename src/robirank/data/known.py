"""Interactions in the ids of a model; those of other users and items are left out and counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robirank.data.ids import Ids
from robirank.data.interactions import Interactions, grouped, recoded


@dataclass(frozen=True)
class Known:
    """Interactions in the ids of a model, and what was left out of them.

    Attributes
    ----------
    data : Interactions
    unseen_users, unseen_items : int
        The numbers of users and items that the model does not have.
    left_out : int
        The number of interactions of such users or items.
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
    """The interactions of the given users and items, at the positions that these have."""
    user, item = users.find(data.users[:]), items.find(data.items[:])
    part = recoded(data, users, items, user, item)
    unseen_users, unseen_items = (int(np.count_nonzero(side < 0)) for side in (user, item))
    return Known(part, unseen_users, unseen_items, len(data) - len(part))


def nothing(users: Ids, items: Ids) -> Interactions:
    """A table of these users and items without any interactions."""
    return grouped(users, items)
