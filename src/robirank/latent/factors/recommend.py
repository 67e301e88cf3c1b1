"""Recommendations from fitted factors, with the calling conventions of the implicit package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from robirank._checks import check_count
from robirank._types import Floats32, Ints32
from robirank.data.ids import Ids
from robirank.latent.factors.ids import ById, UnknownIds, check_same_ids, in_ids, lists_of
from robirank.latent.factors.query import (
    Answer,
    Query,
    UnknownUsers,
    basket_table,
    choose_rows,
    one_or_several,
)
from robirank.latent.factors.topk import NOTHING, inverse_norms, rows_of, top_rows
from robirank.latent.gpu.resolve import resolve_device
from robirank.storage.estimators import SaveMixin
from robirank.storage.fitted_parts import FittedArray, FittedParts

if TYPE_CHECKING:
    import polars as pl


class FactorModel(SaveMixin, BaseEstimator):
    r"""A model in which the score of user x and item y is the inner product ⟨U_x, V_y⟩.

    Subclasses implement ``fit``, which sets the two attributes, and may implement `fold_in`.
    Methods have the names, arguments and return values of the ``implicit`` package, with three
    differences on purpose: places that no item is left for hold id −1 (there, the id of an item
    that was to be left out), ids are always int32, and negative ids are errors. Of equal scores
    the lower id comes first.

    Integers are positions, the rows of U and V. Text is an outside id, where the model was fitted
    to `Interactions`: such a question gets an answer in outside ids, as an object array with None
    where no item is left. `by_id` takes outside ids of any kind, integers too.

    Attributes
    ----------
    user_factors : float32 array of shape (n_users, factors)
        U.
    item_factors : float32 array of shape (n_items, factors)
        V.
    item_counts_ : int32 array of shape (n_items,)
        The records of each item, where `fit` counted them: what users without a record get
        recommended.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> U = np.array([[1, 0], [0, 1]], dtype=np.float32)
    >>> V = np.array([[3, 0], [2, 1], [1, 2], [0, 3]], dtype=np.float32)
    >>> model = FactorModel.of(U, V)
    >>> user_items = csr_matrix([[1, 0, 0, 0], [0, 0, 0, 1]])
    >>> ids, scores = model.recommend(0, user_items[0], N=2)
    >>> ids.tolist(), scores.tolist()
    ([1, 2], [2.0, 1.0])
    >>> ids, scores = model.recommend([0, 1], user_items, N=1)
    >>> ids.tolist()
    [[1], [2]]
    """

    fitted_parts = FittedParts(
        {
            "user_factors": FittedArray(("users", "factors"), "F32"),
            "item_factors": FittedArray(("items", "factors"), "F32"),
            "item_counts_": FittedArray(("items",), "I32"),
        },
        required=("user_factors", "item_factors"),
        unfitted=True,
        features=False,
        ids={"user_ids_": "users", "item_ids_": "items"},
        ids_from=Ids.from_tensors,
    )

    user_factors: Floats32
    item_factors: Floats32
    item_counts_: Ints32
    num_threads: int = 0
    device: str = "cpu"

    @classmethod
    def of(
        cls,
        user_factors: Floats32,
        item_factors: Floats32,
        num_threads: int = 0,
        device: str = "cpu",
        item_counts: Ints32 | None = None,
    ) -> Self:
        """A model of given factors."""
        model = cls()
        if item_counts is not None:
            model.item_counts_ = item_counts
        model.user_factors, model.item_factors = user_factors, item_factors
        model.num_threads, model.device = num_threads, device
        return model

    @property
    def by_id(self) -> ById:
        """The same model, asked in outside ids of any kind and answering in them."""
        self._check_fitted()
        users, items = getattr(self, "user_ids_", None), getattr(self, "item_ids_", None)
        return ById(
            self,
            Ids.range(len(self.user_factors)) if users is None else users,
            Ids.range(len(self.item_factors)) if items is None else items,
        )

    def recommend(
        self,
        userid: ArrayLike,
        user_items: Any = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
        recalculate_user: bool = False,
        items: ArrayLike | None = None,
        *,
        unknown_users: UnknownUsers | None = None,
    ) -> Answer:
        """Find the best items for one user or several.

        All items are scored and the result is exact. Many users in one call cost far less than
        as many calls. Of a user without a record nothing is known: such users get the items with
        the most records.

        Parameters
        ----------
        userid : int or array of int, str or list of str
            Positions or outside ids.
        user_items : CSR matrix or Interactions, one row for each user asked for
            What these users have already: row q belongs to ``userid[q]``. Users who are asked for
            by outside ids are looked up in Interactions, which may then be the whole table. It can
            be left out where it is not needed, that is if neither of the two flags is set.
        N : int, default=10
            Lists are never longer than the number of items.
        filter_already_liked_items : bool, default=True
            Leave out what ``user_items`` stores, whatever its value.
        filter_items : array of int or of str, optional
            Leave these items out for everyone. Outside ids that the model does not know are
            passed over, here and in ``items``, and an `UnknownIdWarning` counts them.
        recalculate_user : bool, default=False
            Score with `fold_in` of ``user_items``, as for users that the model has not seen;
            ``userid`` then only says whether it is one or several.
        items : array of int or of str, optional
            Choose among these items only; at most that many come back. Not together with
            ``filter_items``.
        unknown_users : {"popular", "empty", "error"}, optional
            What users without a record get: the items with the most records, no items, or an
            error. Default: the popular items, and an `UnknownUserWarning` says for how many users.

        Returns
        -------
        ids : int32 array of shape (N,) for one user, (n, N) for several
            Best first; −1 where no item is left. Asked in outside ids, an object array of them,
            with None there.
        scores : float32 array of the same shape
            The lowest float32 number where no item is left. For users without a record, the
            numbers of records of the items.

        Examples
        --------
        >>> from robirank import Interactions, LatentRoBiRank
        >>> plays = Interactions.from_arrays(["ann", "ann", "bob"], ["tea", "rum", "tea"])
        >>> model = LatentRoBiRank(factors=2, random_state=0).fit(plays, show_progress=False)
        >>> model.recommend("bob", plays, N=1)[0].tolist()
        ['rum']
        >>> model.recommend(1, plays.matrix[1], N=1)[0].tolist()
        [1]
        """
        if in_ids(userid=userid, items=items, filter_items=filter_items):
            return self.by_id.recommend(
                userid,
                user_items,
                N,
                filter_already_liked_items,
                filter_items,
                recalculate_user,
                items,
                unknown_users=unknown_users,
            )
        self._check_fitted()
        query = Query.of(
            userid,
            user_items,
            N,
            len(self.item_factors),
            n_users=None if recalculate_user else len(self.user_factors),
            filter_already_liked_items=filter_already_liked_items,
            items=items,
            filter_items=filter_items,
            unknown_users=unknown_users,
        )
        if recalculate_user:
            queries = np.ascontiguousarray(self.fold_in(user_items), dtype=np.float32)
        else:
            queries = self.user_factors
        best = top_rows(
            queries,
            query.users,
            self.item_factors,
            query.n,
            rows=query.candidates,
            liked=query.liked,
            num_threads=self.num_threads,
            device=resolve_device(self.device),
        )
        return query.answer(best, queries, query.users, self._item_counts, self.num_threads)

    def recommend_for(
        self,
        liked: Any,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
        *,
        unknown: UnknownIds = "error",
        unknown_users: UnknownUsers | None = None,
    ) -> Answer:
        """Find the best items for someone the model has not seen, from a list of what they like.

        Their factors are found by `fold_in`; nothing is kept.

        Parameters
        ----------
        liked : list of int or of str, or a list of such lists
            Items, by positions or outside ids: one list for one person, several for several. Who
            likes nothing is a user without a record; an empty list alone is answered in outside
            ids where those are text.
        N, filter_already_liked_items, filter_items, items, unknown_users
            As in `recommend`.
        unknown : {"error", "ignore"}, default="error"
            What to do with outside ids in ``liked`` that the model does not know. Where they are
            ignored, an `UnknownIdWarning` counts them.

        Returns
        -------
        ids, scores
            As in `recommend`.

        Examples
        --------
        >>> from robirank import Interactions, LatentRoBiRank
        >>> plays = Interactions.from_arrays(["ann", "ann", "bob"], ["tea", "rum", "tea"])
        >>> model = LatentRoBiRank(factors=2, random_state=0).fit(plays, show_progress=False)
        >>> model.recommend_for(["tea"], N=1)[0].tolist()
        ['rum']
        """
        lists, one = lists_of(liked)
        every = [item for each in lists for item in each]
        by_text = getattr(getattr(self, "item_ids_", None), "kind", "int") == "str"
        if in_ids(by_text, liked=every, items=items, filter_items=filter_items):
            return self.by_id.recommend_for(
                liked,
                N,
                filter_already_liked_items,
                filter_items,
                items,
                unknown=unknown,
                unknown_users=unknown_users,
            )
        self._check_fitted()
        return self.recommend(
            0 if one else np.arange(len(lists)),
            basket_table(lists, len(self.item_factors)),
            N,
            filter_already_liked_items,
            filter_items,
            True,
            items,
            unknown_users=unknown_users,
        )

    def recommend_frame(
        self,
        users: Any = None,
        train: Any = None,
        N: int = 10,
        *,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
        unknown_users: UnknownUsers | None = None,
    ) -> pl.DataFrame:
        """Recommend to many users, as a table with a row for each place of each list.

        Parameters
        ----------
        users : list of int or of str, optional
            Positions or outside ids. Default: everyone, by their outside ids where there are such.
        train : CSR matrix or Interactions, optional
            What all users of the model have, which is left out; users who are asked for by outside
            ids are looked up in Interactions. Without it, nothing is left out.
        N, filter_items, items, unknown_users
            As in `recommend`.

        Returns
        -------
        polars.DataFrame
            With the columns user, rank (from 1 on), item and score, in the order of the users.
            There is no row where no item is left.

        Examples
        --------
        >>> from robirank import Interactions, LatentRoBiRank
        >>> plays = Interactions.from_arrays(["ann", "ann", "bob"], ["tea", "rum", "tea"])
        >>> model = LatentRoBiRank(factors=2, random_state=0).fit(plays, show_progress=False)
        >>> model.recommend_frame(train=plays).drop("score").rows()
        [('bob', 1, 'rum')]
        """
        if users is None or in_ids(users=users, items=items, filter_items=filter_items):
            by_id = self.by_id
        else:
            self._check_fitted()
            check_same_ids("train", train, "the model", self)
            train = getattr(train, "matrix", train)
            by_id = ById(self, Ids.range(len(self.user_factors)), Ids.range(len(self.item_factors)))
        return by_id.recommend_frame(
            users, train, N, filter_items=filter_items, items=items, unknown_users=unknown_users
        )

    def similar_items(
        self,
        itemid: ArrayLike,
        N: int = 10,
        recalculate_item: bool = False,
        item_users: Any = None,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
    ) -> Answer:
        """Find the items whose factors point the same way, by the cosine of their angle.

        An item without a record is similar to nothing, and nothing is similar to it.

        Parameters
        ----------
        itemid : int or array of int, str or list of str
            Positions or outside ids.
        N : int, default=10
            Lists are never longer than the number of items.
        recalculate_item : bool, default=False
            Not offered; only ``implicit``'s least squares can do it.
        item_users : ignored
        filter_items : array of int or of str, optional
            Leave these items out.
        items : array of int or of str, optional
            Choose among these items only. Not together with ``filter_items``.

        Returns
        -------
        ids : int32 array of shape (N,) for one item, (n, N) for several
            Most similar first, which is the item itself unless it was left out; −1 where no item
            is left. Asked in outside ids, an object array of them, with None there.
        scores : float32 array of the same shape
            Cosines, from −1 to 1; the lowest float32 number where no item is left.
        """
        if recalculate_item:
            raise NotImplementedError(
                f"{type(self).__name__} cannot recalculate items; leave recalculate_item=False"
            )
        if in_ids(itemid=itemid, items=items, filter_items=filter_items):
            return self.by_id.similar_items(
                itemid, N, recalculate_item, item_users, filter_items, items
            )
        self._check_fitted()
        rows = choose_rows("items", items, "filter_items", filter_items, len(self.item_factors))
        counts = self._item_counts()
        return self._similar("itemid", itemid, self.item_factors, N, rows, counts)

    def similar_users(
        self,
        userid: ArrayLike,
        N: int = 10,
        filter_users: ArrayLike | None = None,
        users: ArrayLike | None = None,
    ) -> Answer:
        """Find the users whose factors point the same way, by the cosine of their angle.

        A user without a record is similar to nobody, and nobody is similar to them.

        Parameters
        ----------
        userid : int or array of int, str or list of str
            Positions or outside ids.
        N : int, default=10
            Lists are never longer than the number of users.
        filter_users : array of int or of str, optional
            Leave these users out.
        users : array of int or of str, optional
            Choose among these users only. Not together with ``filter_users``.

        Returns
        -------
        ids : int32 array of shape (N,) for one user, (n, N) for several
            Most similar first, which is the user itself unless it was left out; −1 where no user
            is left. Asked in outside ids, an object array of them, with None there.
        scores : float32 array of the same shape
            Cosines, from −1 to 1; the lowest float32 number where no user is left.
        """
        if in_ids(userid=userid, users=users, filter_users=filter_users):
            return self.by_id.similar_users(userid, N, filter_users, users)
        self._check_fitted()
        rows = choose_rows("users", users, "filter_users", filter_users, len(self.user_factors))
        return self._similar("userid", userid, self.user_factors, N, rows)

    def fold_in(self, user_items: Any) -> Floats32:
        """Find factors for users that the model has not seen, from what they have.

        Parameters
        ----------
        user_items : CSR matrix or Interactions, one row a user

        Returns
        -------
        float32 array of shape (n_users, factors)
        """
        raise NotImplementedError(
            f"{type(self).__name__} cannot fold in new users; leave recalculate_user=False"
        )

    def _similar(
        self,
        name: str,
        ids: ArrayLike,
        factors: Floats32,
        N: int,
        rows: Ints32 | None,
        counts: Ints32 | None = None,
    ) -> Answer:
        """The rows of the smallest angle; rows of zeros or without a record are no neighbours."""
        wanted, one = one_or_several(ids, name)
        check_count("N", N)
        asked = rows_of(name, wanted, len(factors), name.removesuffix("id") + "s")
        scale = inverse_norms(factors)
        trained = scale > 0 if counts is None else (scale > 0) & (counts > 0)
        if not trained.all():
            every = np.arange(len(factors), dtype=np.int32) if rows is None else rows
            rows = every[trained[every]]
        found, scores = top_rows(
            factors,
            asked,
            factors,
            min(int(N), len(factors)),
            rows=rows,
            scale=scale,
            num_threads=self.num_threads,
            device=resolve_device(self.device),
        )
        np.multiply(scores, scale[asked, None], out=scores, where=found >= 0)
        np.clip(scores, -1, 1, out=scores, where=found >= 0)  # rounding may go past
        _own_first(found, scores, asked, rows)
        unknown = ~trained[asked]
        found[unknown], scores[unknown] = -1, NOTHING
        return (found[0], scores[0]) if one else (found, scores)

    def _item_counts(self) -> Ints32 | None:
        """The number of records of each item; None in a model that did not count them."""
        counts: Ints32 | None = getattr(self, "item_counts_", None)
        return counts

    def _check_fitted(self) -> None:
        if getattr(self, "item_factors", None) is None:
            raise NotFittedError(f"this {type(self).__name__} has no factors yet; call fit first")


def _own_first(found: Ints32, scores: Floats32, asked: Ints32, rows: Ints32 | None) -> None:
    """Put the row that was asked for first, where rounding or an equal row came before it."""
    behind = np.flatnonzero(found[:, 0] != asked)
    if rows is not None:
        behind = behind[np.isin(asked[behind], rows)]
    for place in behind:
        own = asked[place]
        others = found[place] != own
        others[others.argmin() if not others.all() else -1] = False
        found[place] = [own, *found[place][others]]
        scores[place] = [max(scores[place][0], scores[place][~others][0]), *scores[place][others]]
