"""Recommendations from fitted factors, with the calling conventions of the implicit package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from robirank._checks import check_count
from robirank._types import Floats32, Ints32
from robirank.data.ids import Ids
from robirank.latent.factors.ids import ById, in_ids, lists_of
from robirank.latent.factors.topk import Liked, inverse_norms, rows_of, top_rows
from robirank.latent.gpu.resolve import resolve_device
from robirank.storage.estimators import SaveMixin
from robirank.storage.fitted_parts import FittedArray, FittedParts

#: Positions, best first, and scores; outside ids where the question was in them.
Answer = tuple[NDArray[Any], Floats32]


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
        },
        required=("user_factors", "item_factors"),
        unfitted=True,
        features=False,
        ids={"user_ids_": "users", "item_ids_": "items"},
        ids_from=Ids.from_tensors,
    )

    user_factors: Floats32
    item_factors: Floats32
    num_threads: int = 0
    device: str = "cpu"

    @classmethod
    def of(
        cls,
        user_factors: Floats32,
        item_factors: Floats32,
        num_threads: int = 0,
        device: str = "cpu",
    ) -> Self:
        """A model of given factors."""
        model = cls()
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
    ) -> Answer:
        """Find the best items for one user or several.

        All items are scored and the result is exact. Many users in one call cost far less than
        as many calls.

        Parameters
        ----------
        userid : int or array of int, str or list of str
            Positions or outside ids.
        user_items : CSR matrix or Interactions, one row for each user asked for
            What these users have already: row q belongs to ``userid[q]``. Users who are asked for
            by outside ids are looked up in Interactions, which may then be the whole table. It can
            be left out where it is not needed, that is if neither of the two flags is set.
        N : int, default=10
        filter_already_liked_items : bool, default=True
            Leave out what ``user_items`` stores, whatever its value.
        filter_items : array of int or of str, optional
            Leave these items out for everyone.
        recalculate_user : bool, default=False
            Score with `fold_in` of ``user_items``, as for users that the model has not seen;
            ``userid`` then only says whether it is one or several.
        items : array of int or of str, optional
            Choose among these items only; at most that many come back. Not together with
            ``filter_items``.

        Returns
        -------
        ids : int32 array of shape (N,) for one user, (n, N) for several
            Best first; −1 where no item is left. Asked in outside ids, an object array of them,
            with None there.
        scores : float32 array of the same shape
            The lowest float32 number where no item is left.

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
            )
        self._check_fitted()
        n_users, n_items = len(self.user_factors), len(self.item_factors)
        query = Query.of(
            userid,
            N,
            n_items,
            n_users=None if recalculate_user else n_users,
            user_items=user_items,
            needs_items=filter_already_liked_items or recalculate_user,
            items=items,
            filter_items=filter_items,
        )
        if recalculate_user:
            queries = np.ascontiguousarray(self.fold_in(user_items), dtype=np.float32)
        else:
            queries = self.user_factors
        return query.answer(
            top_rows(
                queries,
                query.users,
                self.item_factors,
                query.n,
                rows=query.candidates,
                liked=query.liked if filter_already_liked_items else None,
                num_threads=self.num_threads,
                device=resolve_device(self.device),
            )
        )

    def recommend_for(
        self,
        liked: Any,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
    ) -> Answer:
        """Find the best items for someone the model has not seen, from a list of what they like.

        Their factors are found by `fold_in`; nothing is kept.

        Parameters
        ----------
        liked : list of int or of str, or a list of such lists
            Items, by positions or outside ids: one list for one person, several for several.
        N, filter_already_liked_items, filter_items, items
            As in `recommend`.

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
        if in_ids(liked=every, items=items, filter_items=filter_items):
            return self.by_id.recommend_for(
                liked, N, filter_already_liked_items, filter_items, items
            )
        self._check_fitted()
        return self.recommend(
            0 if one else np.arange(len(lists)),
            _table(lists, len(self.item_factors)),
            N,
            filter_already_liked_items,
            filter_items,
            True,
            items,
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

        Parameters
        ----------
        itemid : int or array of int, str or list of str
            Positions or outside ids.
        N : int, default=10
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
            Most similar first, which is the item itself unless it was left out. Asked in outside
            ids, an object array of them.
        scores : float32 array of the same shape
            Cosines, from −1 to 1.
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
        rows = _candidates("items", items, "filter_items", filter_items, len(self.item_factors))
        return self._similar("itemid", itemid, self.item_factors, N, rows)

    def similar_users(
        self,
        userid: ArrayLike,
        N: int = 10,
        filter_users: ArrayLike | None = None,
        users: ArrayLike | None = None,
    ) -> Answer:
        """Find the users whose factors point the same way, by the cosine of their angle.

        Parameters
        ----------
        userid : int or array of int, str or list of str
            Positions or outside ids.
        N : int, default=10
        filter_users : array of int or of str, optional
            Leave these users out.
        users : array of int or of str, optional
            Choose among these users only. Not together with ``filter_users``.

        Returns
        -------
        ids : int32 array of shape (N,) for one user, (n, N) for several
            Most similar first, which is the user itself unless it was left out. Asked in outside
            ids, an object array of them.
        scores : float32 array of the same shape
            Cosines, from −1 to 1.
        """
        if in_ids(userid=userid, users=users, filter_users=filter_users):
            return self.by_id.similar_users(userid, N, filter_users, users)
        self._check_fitted()
        rows = _candidates("users", users, "filter_users", filter_users, len(self.user_factors))
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
    ) -> Answer:
        wanted, one = _asked(ids, name)
        check_count("N", N, at_most=2**31 - 1)
        asked = rows_of(name, wanted, len(factors), name.removesuffix("id") + "s")
        scale = inverse_norms(factors)
        found, scores = top_rows(
            factors,
            asked,
            factors,
            int(N),
            rows=rows,
            scale=scale,
            num_threads=self.num_threads,
            device=resolve_device(self.device),
        )
        np.multiply(scores, scale[asked, None], out=scores, where=found >= 0)
        np.clip(scores, -1, 1, out=scores, where=found >= 0)  # rounding may go past
        _own_first(found, scores, asked, rows)
        return (found[0], scores[0]) if one else (found, scores)

    def _check_fitted(self) -> None:
        if getattr(self, "item_factors", None) is None:
            raise NotFittedError(f"this {type(self).__name__} has no factors yet; call fit first")


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
        How many items each gets.
    candidates : int32 array or None
        The items to choose among, in rising order; None for all.
    liked : Liked or None
        The items that each user has.
    """

    users: Ints32
    one: bool
    n: int
    candidates: Ints32 | None
    liked: Liked | None

    @classmethod
    def of(
        cls,
        userid: ArrayLike,
        N: int,
        n_items: int,
        *,
        n_users: int | None,
        user_items: Any,
        needs_items: bool,
        items: ArrayLike | None,
        filter_items: ArrayLike | None,
    ) -> Query:
        """Check the arguments of `FactorModel.recommend`; ``n_users=None`` takes any users."""
        asked, one = _asked(userid, "userid")
        if n_users is None:
            users = np.arange(len(asked), dtype=np.int32)
        else:
            users = rows_of("userid", asked, n_users, "users")
        check_count("N", N, at_most=2**31 - 1)
        candidates = _candidates("items", items, "filter_items", filter_items, n_items)
        if items is not None and candidates is not None:
            N = min(N, len(candidates))
        liked = Liked.of(user_items, len(users), n_items) if needs_items else None
        return cls(users, one, int(N), candidates, liked)

    def answer(self, found: Answer) -> Answer:
        """What the caller gets: a row for one user, rows for several."""
        ids, scores = found
        return (ids[0], scores[0]) if self.one else (ids, scores)


def _asked(ids: ArrayLike, name: str) -> tuple[NDArray[Any], bool]:
    """One id or several, as an array, and whether it is one."""
    array: NDArray[Any] = np.asarray(ids)
    if array.ndim > 1:
        raise IndexError(f"{name} must be an integer or a list of them; its shape is {array.shape}")
    return np.atleast_1d(array), array.ndim == 0


def _table(lists: list[Any], n_items: int) -> sparse.csr_matrix:
    """Lists of items as a CSR matrix of ones, a row a list."""
    rows = [np.unique(rows_of("liked", each, n_items, "items")) for each in lists]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    items = np.concatenate(rows)
    ones = np.ones(len(items), np.float32)
    return sparse.csr_matrix((ones, items, starts), shape=(len(rows), n_items))


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


def _candidates(
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
