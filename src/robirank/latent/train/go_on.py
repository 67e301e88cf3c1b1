"""How a fit goes on from a model with a table that may have new users and items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from robirank._types import Floats32
from robirank.data.interactions import Interactions
from robirank.data.user_items import UserItems
from robirank.errors import ArgumentError
from robirank.latent.factors.factors import Factors, Side, random_rows

_NEW_ITEMS = 2  # the stream of random numbers for new items


def in_order_of(factors: Factors, user_items: Any) -> Any:
    """A table that begins with the users and items of a model with features.

    Features may have brought items into the model that the table does not have.
    """
    users, items = factors.users, factors.items
    has_features = users.centres is not None or items.centres is not None
    if not isinstance(user_items, Interactions) or not has_features:
        return user_items
    if users.ids is None or items.ids is None:
        return user_items
    shape: Any = (len(users.ids), len(items.ids))
    empty = csr_matrix(shape, dtype=np.float32)
    known = Interactions.from_matrix(empty, users.ids, items.ids)
    if user_items.timestamps is not None:
        none = user_items.timestamps[:0]
        known = replace(known, timestamps=none, has_dates=user_items.has_dates)
    return known.extend(user_items)


def ids_that_go_on(side: str, user_items: Any, trained_ids: Any, count: int) -> Any:
    """The outside ids of a table, which must begin with those of the model."""
    ids = getattr(user_items, side, None)
    if trained_ids is None:
        return ids
    if ids is None:
        if count == len(trained_ids):
            return trained_ids
        raise ArgumentError(
            "user_items",
            f"has {count} {side} and the model has ids of {len(trained_ids)}; give Interactions, "
            "so that the new ones have ids too",
        )
    if not np.array_equal(ids[: len(trained_ids)], trained_ids[:]):
        raise ArgumentError(
            "user_items",
            f"must begin with the {side} of the model, in their order; Interactions.extend makes "
            "such a table",
        )
    return ids


def grown(
    taste: Factors, interactions: UserItems, seed: int, fold_in: Callable[..., Floats32]
) -> Factors:
    """The factors of all users and items of a table; those of the model stay.

    New users are where ``fold_in`` puts them, new items near zero, or where their features say.
    """
    users, items = taste.users, taste.items
    (n_users, d), n_items = users.rows.shape, len(items)
    U = np.zeros((interactions.n_users, d), np.float32)
    U[:n_users] = users.rows
    if interactions.n_users > n_users:
        new = interactions.from_user(n_users, n_items)
        centres = None
        if users.centres is not None and new.user_features is not None:
            centres = users.centres.of(new.user_features)
        U[n_users:] = fold_in(items.rows, new, centres)
    V = np.empty((interactions.n_items, d), np.float32)
    V[:n_items] = items.rows
    V[n_items:] = 0.1 * random_rows(seed, _NEW_ITEMS, interactions.n_items - n_items, d)
    if items.centres is not None and interactions.item_features is not None:
        added = np.arange(n_items, interactions.n_items)
        V[n_items:] += items.centres.of(interactions.item_features.take(added))
    return Factors(Side(U), Side(V))
