"""What people have and are, as a fold-in takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from robirank._sparse import offsets
from robirank._types import Ints32
from robirank.data.feature_rows import FeatureRows
from robirank.data.user_items import UserItems
from robirank.latent.factors.questions import ByPosition, Names
from robirank.serve.loaded import ServedRecommender
from robirank.serve.wishes import Wish


def to_fold(
    served: ServedRecommender, wishes: Sequence[Wish]
) -> tuple[UserItems, FeatureRows | None]:
    """What questions of one group give of people whose rows are to be found."""
    table = folded_from(served, wishes)
    about = [wish.features for wish in wishes if wish.features is not None]
    if not about:
        return table, None
    matrix = sparse.vstack([one.matrix for one in about], format="csr")
    return table, FeatureRows(about[0].encoder, matrix)


def folded_from(served: ServedRecommender, wishes: Sequence[Wish]) -> UserItems:
    """The items from which rows are found, with their times, and what is disliked."""
    n_items = len(served.items)
    names = Names(ByPosition(len(served.users), "users"), ByPosition(n_items, "items"))
    baskets = [wish.fold for wish in wishes if wish.fold is not None]
    items, times = [basket.items for basket in baskets], [basket.times for basket in baskets]
    table = names.baskets(items, "error", times)
    if not any(len(wish.disliked) for wish in wishes):
        return table
    against = rows_of_positions([wish.disliked for wish in wishes], n_items)
    return replace(table, disliked=against.without(table))


def rows_of_positions(rows: Sequence[Ints32], n_items: int) -> UserItems:
    """Rising positions of items, a row for each question, as a table."""
    lengths = np.array([len(row) for row in rows])
    items = np.concatenate(rows).astype(np.int32, copy=False)
    return UserItems(offsets(lengths), items, None, n_items)
