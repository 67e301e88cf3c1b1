"""Interactions in the ids of a model: what is known is kept, what is not is counted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from robirank.data.ids import Ids
from robirank.data.interactions import Interactions


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
    # A file of which all ids happen to be integers means the same ids as one with others.
    mine = [
        (own, given) if own.kind == given.kind else (own.as_text(), given.as_text())
        for own, given in ((data.users, users), (data.items, items))
    ]
    users_gone, items_gone = (int(np.count_nonzero(given.index(own[:]) < 0)) for own, given in mine)
    typed = replace(data, users=mine[0][0], items=mine[1][0])
    found = typed.align(nothing(mine[0][1], mine[1][1]), unseen="drop")
    result = replace(found, users=users, items=items)
    return Known(result, users_gone, items_gone, len(data) - len(result))


def nothing(users: Ids, items: Ids) -> Interactions:
    """No interactions at all, of these users and items."""
    return Interactions(
        users, items, np.zeros(len(users) + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    )
