"""What users get of whom a model knows nothing: users without interactions."""

from __future__ import annotations

from typing import Literal, get_args

from robirank._callers import warn
from robirank._checks import check_choice
from robirank._types import Floats32, Ints32
from robirank.data.user_items import UserItems
from robirank.errors import Argument, ArgumentError
from robirank.latent.factors.factors import AnySide, Queries, popular_items
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
    *,
    candidates: Ints32 | None,
    excluded: UserItems | None,
    num_threads: int,
) -> None:
    """Replace the answers of users without interactions, in place, as ``unknown_users`` says.

    Their rows are zero. None stands for the popular items and a warning.
    """
    positions, scores = best
    unknown = queries.without_knowledge()
    if not len(unknown):
        return
    counts = None if unknown_users in ("empty", "error") else items.counts
    _tell(unknown_users, len(unknown), len(queries.asked), int(unknown[0]), counts is None)
    n_best = positions.shape[1]
    if counts is None:
        positions[unknown], scores[unknown] = no_rows(len(unknown), n_best)
        return
    positions[unknown], scores[unknown] = popular_items(
        counts,
        len(unknown),
        n_best,
        candidates=candidates,
        excluded=None if excluded is None else excluded.rows(unknown),
        num_threads=num_threads,
    )


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
