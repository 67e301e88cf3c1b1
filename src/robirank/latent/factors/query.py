"""What a model is asked for, checked, and the answer for users of whom it knows nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from robirank._callers import warn
from robirank._checks import check_choice, check_count
from robirank._types import Floats32, Ints32
from robirank.data.records import SparseRows
from robirank.latent.factors.topk import NOTHING, liked_items, no_rows, rows_of, top_rows

#: Positions, best first, and scores; outside ids where the question was in them.
Answer = tuple[NDArray[Any], Floats32]

#: What users without a record get: the items with the most records, nothing, or an error.
UnknownUsers = Literal["popular", "empty", "error"]


class UnknownUserWarning(UserWarning):
    """Users without a record got the most popular items, or nothing."""


@dataclass(frozen=True)
class Query:
    """What `recommend` is asked for, checked.

    Attributes
    ----------
    users : int32 array
        Rows of the queries to answer.
    one : bool
        Whether one user was asked for rather than a list.
    n : int
        How many items each gets; never more than there are.
    candidates : int32 array or None
        The items to choose among, in rising order; None for all.
    liked : SparseRows or None
        The items that each user has and must not get.
    unknown_users : str or None
        What users without a record get; None for the popular items and a warning.
    """

    users: Ints32
    one: bool
    n: int
    candidates: Ints32 | None
    liked: SparseRows | None
    unknown_users: UnknownUsers | None

    @classmethod
    def of(
        cls,
        userid: ArrayLike,
        user_items: Any,
        N: int,
        n_items: int,
        *,
        n_users: int | None,
        filter_already_liked_items: bool,
        items: ArrayLike | None,
        filter_items: ArrayLike | None,
        unknown_users: UnknownUsers | None,
    ) -> Query:
        """Check the arguments of `FactorModel.recommend`; ``n_users=None`` takes any users."""
        asked, one = one_or_several(userid, "userid")
        if n_users is None:
            users = np.arange(len(asked), dtype=np.int32)
        else:
            users = rows_of("userid", asked, n_users, "users")
        check_count("N", N)
        if unknown_users is not None:
            check_choice("unknown_users", unknown_users, get_args(UnknownUsers))
        candidates = choose_rows("items", items, "filter_items", filter_items, n_items)
        most = n_items if items is None or candidates is None else len(candidates)
        liked = None
        if filter_already_liked_items or n_users is None:
            liked = liked_items(user_items, len(users), n_items)
        if not filter_already_liked_items:
            liked = None
        return cls(users, one, min(int(N), most), candidates, liked, unknown_users)

    def answer(
        self,
        best: tuple[Ints32, Floats32],
        queries: Floats32,
        rows: Ints32,
        item_counts: Callable[[], Ints32 | None],
        num_threads: int,
    ) -> Answer:
        """What the caller gets: a row for one user, rows for several.

        Parameters
        ----------
        best : (ids, scores)
            The best items by the model. Those of users without a record are replaced.
        queries : float32 array
        rows : int32 array
            The row of ``queries`` of each user; a row of zeros says that nothing is known.
        item_counts : callable
            Gives the number of records of each item, or None where the model does not know it.
        num_threads : int
        """
        ids, scores = best
        unknown = zero_rows(queries, rows)
        if len(unknown):
            counts = None if self.unknown_users in ("empty", "error") else item_counts()
            self._tell(len(unknown), int(unknown[0]), counts is None)
            ids[unknown], scores[unknown] = self._popular(unknown, counts, num_threads)
        return (ids[0], scores[0]) if self.one else (ids, scores)

    def _popular(
        self, users: NDArray[Any], item_counts: Ints32 | None, num_threads: int
    ) -> tuple[Ints32, Floats32]:
        """The items with the most records for some users, and their numbers of records."""
        if item_counts is None:
            return no_rows(len(users), self.n)
        ids, counts = top_rows(
            np.ones((len(users), 1), np.float32),
            np.arange(len(users), dtype=np.int32),
            item_counts.astype(np.float32)[:, None],
            self.n,
            rows=self.candidates,
            liked=None if self.liked is None else self.liked.rows(users),
            num_threads=num_threads,
        )
        never = counts <= 0
        ids[never], counts[never] = -1, NOTHING
        return ids, counts

    def _tell(self, n: int, first: int, without_counts: bool) -> None:
        """Raise the error or give the warning that users without a record ask for."""
        who = f"{n:,} of {len(self.users):,} users have" if len(self.users) > 1 else "the user has"
        if self.unknown_users == "error":
            place = "" if self.one else f" (the first is userid[{first}])"
            raise ValueError(
                f"userid: {who} no record in what the model was fitted to{place}; leave them out, "
                "or say unknown_users='popular' or 'empty'"
            )
        if self.unknown_users == "empty":
            return
        if without_counts:
            warn(
                f"{who} no record, so that the answer is empty: this model does not know which "
                "items are popular. Fit it again, which counts them",
                UnknownUserWarning,
            )
        elif self.unknown_users is None:
            warn(
                f"{who} no record, so that the answer is the most popular items. Say "
                "unknown_users='popular' if that is wanted, or 'empty' or 'error'",
                UnknownUserWarning,
            )


def zero_rows(rows: Floats32, chosen: Ints32) -> NDArray[np.intp]:
    """The places of those of the chosen rows that are all zero, as rows without a record are.

    Examples
    --------
    >>> rows = np.array([[0, 0], [0, 1], [2, 0]], dtype=np.float32)
    >>> zero_rows(rows, np.array([2, 0, 1, 0], dtype=np.int32)).tolist()
    [1, 3]
    """
    perhaps = np.flatnonzero(rows[chosen, 0] == 0)  # nearly nobody, so that no copy is made
    return perhaps[~rows[chosen[perhaps]].any(axis=1)]


def one_or_several(ids: ArrayLike, name: str) -> tuple[NDArray[Any], bool]:
    """One id or several, as an array, and whether it is one."""
    array: NDArray[Any] = np.asarray(ids)
    if array.ndim > 1:
        raise IndexError(f"{name} must be an integer or a list of them; its shape is {array.shape}")
    return np.atleast_1d(array), array.ndim == 0


def basket_table(lists: list[Any], n_items: int) -> sparse.csr_matrix:
    """Lists of items as a CSR matrix of ones, a row a list."""
    rows = [np.unique(rows_of("liked", each, n_items, "items")) for each in lists]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    items = np.concatenate(rows)
    ones = np.ones(len(items), np.float32)
    return sparse.csr_matrix((ones, items, starts), shape=(len(rows), n_items))


def choose_rows(
    only_name: str,
    only: ArrayLike | None,
    without_name: str,
    without: ArrayLike | None,
    count: int,
) -> Ints32 | None:
    """The rows to choose among, in rising order; None for all."""
    if only is not None and without is not None and np.size(without):
        raise ValueError(f"{only_name} and {without_name} cannot be given together; leave one out")
    if only is not None:
        return np.unique(rows_of(only_name, only, count, only_name))
    if without is None or not np.size(without):
        return None
    kept = np.ones(count, dtype=bool)
    kept[rows_of(without_name, without, count, only_name)] = False
    return np.flatnonzero(kept).astype(np.int32)
