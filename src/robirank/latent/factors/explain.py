"""Questions for reasons: why a user, or someone with a list of items, gets an item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robirank._checks import check_choice
from robirank.data.feature_rows import FeatureRows
from robirank.data.interactions import Interactions
from robirank.data.user_items import UserItems, rows_of
from robirank.errors import ArgumentError, RobirankError
from robirank.latent.factors.order import taste_width
from robirank.latent.factors.questions import (
    ByPosition,
    Names,
    UnknownIds,
    check_same_ids,
    lists_of_items,
    times_of_lists,
)
from robirank.latent.factors.reasons import SCHEMA, Reasons, Subject, reasons, row_terms

if TYPE_CHECKING:
    import polars as pl

    from robirank.latent.factors.factors import AnySide, Queries


class ExplainMixin:
    """Reasons for the scores of a factor model whose users' rows minimise a loss of all items.

    A model that can be explained has ``rho``, ``weighting`` and ``_user_penalty``, which gives the
    penalty weights λ a of users with some numbers of interactions.
    """

    def explain(
        self: Any, userid: Any, user_items: Any, itemid: Any, recalculate_user: bool = False
    ) -> Reasons:
        """Tell why a user gets an item: what each of their items adds to its score, exactly.

        At its optimum the row of a user is a sum over the items that the user has, so every score
        is one too. With features, these are told as well. The reasons add up to the score that
        `recommend` gives.

        Parameters
        ----------
        userid : int or str
            Position or outside id.
        user_items : CSR matrix or Interactions
            What the user has: the table of all users, or one row.
        itemid : int or str
            Any item of the model, whether the user has it or not.
        recalculate_user : bool, default=False
            Explain the score of `fold_in` of ``user_items``, as for a user that the model has not
            seen. Rows of the fit are near their optimum, those of `fold_in` at it.

        Returns
        -------
        Reasons

        Examples
        --------
        >>> from robirank import LatentRoBiRank, make_interactions
        >>> data = make_interactions(50, 20, 300, random_state=0)
        >>> model = LatentRoBiRank(factors=4, random_state=0).fit(data, show_progress=False)
        >>> (item, *_), (score, *_) = model.recommend(3, data.matrix[3])
        >>> why = model.explain(3, data.matrix, item)
        >>> len(why.items) == data.matrix[3].nnz, bool(abs(why.score - score) < 1e-5)
        (True, True)
        """
        self._check_can_explain()
        names: Names = self._names(userid=userid, itemid=itemid)
        asked, is_one = names.users.several("userid", userid)
        wanted, is_one_item = names.items.several("itemid", itemid)
        for name, value, fits in (("userid", userid, is_one), ("itemid", itemid, is_one_item)):
            if not fits:
                raise ArgumentError(
                    name, f"must be one; explain_frame takes several; got {value!r:.80}"
                )
        self._check_times("user_items", user_items)
        position = None if recalculate_user else names.users.positions("userid", asked)
        rows = names.interactions_of(user_items, asked, are_new=recalculate_user)
        rows = _one_row(rows, len(self.factors_.users), asked[0])
        (subject,) = self._subjects(position, rows)
        why = reasons(
            subject,
            self.factors_.items,
            int(names.items.positions("itemid", wanted)[0]),
            names.items.called,
        )
        return replace(why, user=np.asarray(asked, object).tolist()[0])

    def explain_for(
        self: Any,
        liked: Any,
        itemid: Any,
        *,
        features: Any = None,
        times: Any = None,
        unknown: UnknownIds = "error",
    ) -> Reasons:
        """Tell why someone the model has not seen gets an item, by what they like and are.

        Parameters
        ----------
        liked : list of int or of str
            Items, by positions or outside ids; may be empty.
        itemid : int or str
            Any item of the model.
        features, times : optional
            What is known of them and when they took each item, as in `recommend_for`.
        unknown : {"error", "ignore"}, default="error"
            What to do with outside ids in ``liked`` that the model does not know.

        Returns
        -------
        Reasons

        Examples
        --------
        >>> from robirank import Interactions, LatentRoBiRank
        >>> plays = Interactions.from_arrays(["ann", "ann", "bob"], ["tea", "rum", "tea"])
        >>> model = LatentRoBiRank(factors=2, random_state=0).fit(plays, show_progress=False)
        >>> model.explain_for(["tea"], "rum").items
        ('tea',)
        """
        self._check_can_explain()
        check_choice("unknown", unknown, ("error", "ignore"))
        lists, is_one = lists_of_items(liked)
        about = self._described(features)
        if not is_one or (about is not None and len(about) != 1):
            raise ArgumentError("liked", "and features must be those of one person, in explain_for")
        names: Names = self._names(liked=liked if len(liked) else None, itemid=itemid)
        moments = times_of_lists(times, lists, is_one=True, check=self._check_dates)
        rows = names.baskets(lists, unknown, moments)
        (subject,) = self._subjects(None, rows, about)
        wanted = names.items.several("itemid", itemid)[0]
        position = int(names.items.positions("itemid", wanted)[0])
        return reasons(subject, self.factors_.items, position, names.items.called)

    def explain_frame(self: Any, users: Any, items: Any, train: Any) -> pl.DataFrame:
        """Tell why users get items, as a table with a row for each reason.

        Parameters
        ----------
        users, items : lists of int or of str, of one length
            The pairs to explain, such as the columns user and item of `recommend_frame`.
        train : CSR matrix or Interactions
            What all users of the model have.

        Returns
        -------
        polars.DataFrame
            With the columns user, item, score, and those of `Reasons.frame`, in the order of the
            pairs. The effects of each side of a pair add up to its score.

        Examples
        --------
        >>> from robirank import Interactions, LatentRoBiRank
        >>> plays = Interactions.from_arrays(["ann", "ann", "bob"], ["tea", "rum", "tea"])
        >>> model = LatentRoBiRank(factors=2, random_state=0).fit(plays, show_progress=False)
        >>> lists = model.recommend_frame(train=plays)
        >>> why = model.explain_frame(lists["user"], lists["item"], plays)
        >>> why["user", "item", "kind", "name"].rows()
        [('bob', 'rum', 'item', 'tea'), ('bob', 'rum', 'rest', None)]
        """
        self._check_can_explain()
        names: Names = self._names(users=users, items=items)
        if isinstance(names.users, ByPosition):
            check_same_ids("train", train, "the model", self)
        asked = names.users.several("users", users)[0]
        positions = names.users.positions("users", asked)
        wanted = names.items.positions("items", names.items.several("items", items)[0])
        if len(positions) != len(wanted):
            raise ArgumentError(
                "items",
                f"must have one item for each of the {len(positions)} users; it has {len(wanted)}",
            )
        if train is None:
            raise ArgumentError("train", "must be a table of what the users have; got None")
        self._check_times("train", train)
        _, first, subject_of = np.unique(positions, return_index=True, return_inverse=True)
        rows = names.interactions_of_all(
            train,
            [asked[k] for k in first],
            positions[first],
            or_fewer=self.factors_.users.centres is not None,
        )
        every: list[Any] = [None] * len(wanted)
        subjects = self._subjects(positions[first], rows) if len(first) else ()
        for number, subject in enumerate(subjects):
            for k in np.flatnonzero(subject_of == number):
                every[k] = reasons(subject, self.factors_.items, wanted[k], names.items.called)
        return _frame(every, names, positions, wanted)

    def _check_can_explain(self: Any) -> None:
        """Raise an error where the rows of users are not the minimum that `row_terms` knows."""
        self._check_fitted()
        if not hasattr(self, "_user_penalty"):
            raise RobirankError(
                f"{type(self).__name__} cannot explain its scores, because the rows of its users "
                "are not known to minimise a loss over all items; LatentRoBiRank can"
            )

    def _subjects(
        self: Any, positions: Any, user_items: Any, features: FeatureRows | None = None
    ) -> Iterator[Subject]:
        """Users of the model, or new ones where positions are None, by what they have and are."""
        users, items = self.factors_.users, self.factors_.items
        d, taste = taste_width(items), items.rows[:, : taste_width(items)]
        taken = _of_model(self._table(user_items), items)
        if positions is None:
            queries: Queries = self._folded_in(user_items, features)
        else:
            queries = users.queries(positions)
            features = None if users.centres is None else users.centres.features.take(positions)
            if users.disliked is not None:
                taken = replace(taken, disliked=users.disliked.table.rows(positions))
        penalties = self._user_penalty(taken.user_counts())
        for k, penalty in enumerate(penalties.tolist()):
            one = taken.rows(np.array([k]))
            about = None if features is None else features.take(np.array([k]))
            row = np.asarray(queries.rows[queries.asked[k]])
            centre = None if about is None else users.centres.of(about)[0]
            terms = row_terms(
                row[:d],
                taste,
                one.items,
                one.weight,
                rho=self.rho,
                penalty=penalty,
                centre=None if centre is None else centre[:d],
                among=_compared(items, one),
                disliked=None if one.disliked is None else one.disliked.items,
            )
            content = None if queries.content is None else queries.content.take(np.array([k]))
            upcoming = None
            if items.leads is not None:
                is_known = positions is None or one.times is not None
                upcoming = items.leads.upcoming(row[d:], one, is_known=is_known)
            yield Subject(terms, users.centres, about, content, upcoming)


def _of_model(taken: UserItems, items: AnySide) -> UserItems:
    """Interactions with a column for each item of the model, which may have grown by features."""
    n_items = len(items)
    if taken.n_items > n_items or (taken.n_items < n_items and items.centres is None):
        raise ArgumentError(
            "user_items",
            f"must have one column for each of the {n_items} items; it has {taken.n_items}",
        )
    return taken.extended(taken.n_users, n_items)


def _compared(items: AnySide, taken: UserItems) -> NDArray[Any] | None:
    """The items that those of a user are ranked above; None for all.

    As in the fit, an item without interactions is nobody's loser but of those who have it.
    """
    if items.centres is None or items.counts is None:
        return None
    return np.union1d(np.flatnonzero(items.counts > 0), taken.items)


def _one_row(user_items: Any, n_users: int, userid: Any) -> Any:
    """What one user has, out of a row or of the table of all."""
    if isinstance(user_items, UserItems):
        return user_items
    if isinstance(user_items, Interactions) and user_items.n_users in (1, n_users):
        return rows_of(user_items, np.array([0 if user_items.n_users == 1 else userid]))
    matrix = getattr(user_items, "matrix", user_items)
    if getattr(matrix, "format", "") != "csr" or matrix.shape[0] not in (1, n_users):
        raise ArgumentError(
            "user_items",
            f"must be a CSR matrix or Interactions, of all {n_users} users or one row; got "
            f"{type(user_items).__name__} of shape {np.shape(matrix)}",
        )
    return matrix if matrix.shape[0] == 1 else matrix[[userid]]


def _frame(
    told: list[Reasons], names: Names, users: NDArray[Any], items: NDArray[Any]
) -> pl.DataFrame:
    """The reasons of some pairs of users and items as one table."""
    import polars as pl

    from robirank.latent.factors.frame import id_series

    every = [[(why.score, *row) for row in why.rows()] for why in told]
    lengths = np.array([len(rows) for rows in every], np.int64)
    pairs = [
        id_series("user", names.users.ids, users.repeat(lengths)),
        id_series("item", names.items.ids, items.repeat(lengths)),
    ]
    rows = [row for of_pair in every for row in of_pair]
    schema = {"score": float, **SCHEMA}
    return pl.DataFrame(pairs).hstack(pl.DataFrame(rows, schema=schema, orient="row"))
