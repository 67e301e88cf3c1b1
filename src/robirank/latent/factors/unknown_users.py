"""What users get of whom a model knows nothing: users without interactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from robirank._callers import warn
from robirank._checks import check_choice
from robirank._types import Floats32, Ints32
from robirank.errors import Argument, ArgumentError
from robirank.latent.factors.factors import AnySide, Queries
from robirank.latent.factors.topk import no_rows

#: The items with the most interactions, nothing, or an error.
UnknownUsers = Literal["popular", "empty", "error"]


class UnknownUserWarning(UserWarning):
    """Users without interactions got the most popular items, or nothing."""


def check_policy(unknown_users: UnknownUsers | None) -> None:
    """Raise an error unless the argument ``unknown_users`` is known."""
    if unknown_users is not None:
        check_choice("unknown_users", unknown_users, get_args(UnknownUsers))


def popular_for_unknown(
    best: tuple[Ints32, Floats32],
    queries: Queries,
    items: AnySide,
    unknown_users: UnknownUsers | None,
    popular: Callable[[Ints32, NDArray[np.intp]], tuple[Ints32, Floats32]],
) -> None:
    """Replace the answers of users without interactions, in place, as ``unknown_users`` says.

    Their rows are zero. None stands for the popular items and a warning; ``popular`` finds them, by
    the numbers of interactions of items and the places of these users.
    """
    positions, scores = best
    unknown = queries.without_knowledge()
    if not len(unknown):
        return
    counts = None if unknown_users in ("empty", "error") else items.counts
    _tell(unknown_users, len(unknown), len(queries.asked), int(unknown[0]), counts is None)
    if counts is None:
        positions[unknown], scores[unknown] = no_rows(len(unknown), positions.shape[1])
    else:
        positions[unknown], scores[unknown] = popular(counts, unknown)


def _tell(
    unknown_users: UnknownUsers | None, n: int, n_asked: int, first: int, without_counts: bool
) -> None:
    """Raise the error or give the warning that users without interactions ask for."""
    who = f"{n:,} of {n_asked:,} users have" if n_asked > 1 else "the user has"
    if unknown_users == "error":
        those = "is a user without interactions"
        if n_asked > 1:
            those = f"has {n:,} of {n_asked:,} users without interactions, first userid[{first}]"
        raise ArgumentError(
            "userid",
            f"{those}, of whom the model knows nothing; leave them out, or say ",
            Argument("unknown_users", "popular"),
            " or 'empty'",
        )
    if unknown_users == "empty":
        return
    if without_counts:
        warn(
            f"{who} no interaction, so that the answer is empty: this model does not know which "
            "items are popular. Fit it again, which counts them",
            UnknownUserWarning,
        )
    elif unknown_users is None:
        warn(
            f"{who} no interaction, so that the answer is the most popular items. Say "
            "unknown_users='popular' if that is wanted, or 'empty' or 'error'",
            UnknownUserWarning,
        )
