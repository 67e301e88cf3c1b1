"""Recommendations from fitted factors, with the calling conventions of the implicit package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from robirank._checks import check_count
from robirank._types import Floats32, Ints32
from robirank.data.ids import Ids
from robirank.latent.retrieve.topk import Liked, inverse_norms, rows_of, top_rows
from robirank.storage.estimators import SaveMixin
from robirank.storage.fitted_parts import FittedArray, FittedParts

Answer = tuple[Ints32, Floats32]


class FactorModel(SaveMixin, BaseEstimator):
    r"""A model in which the score of user x and item y is the inner product ⟨U_x, V_y⟩.

    Subclasses implement ``fit``, which sets the two attributes, and may implement `fold_in`.
    Methods have the names, arguments and return values of the ``implicit`` package, with three
    differences on purpose: places that no item is left for hold id −1 (there, the id of an item
    that was to be left out), ids are always int32, and negative ids are errors. Of equal scores
    the lower id comes first.

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
        features=False,
        ids={"user_ids_": "users", "item_ids_": "items"},
        ids_from=Ids.from_tensors,
    )

    user_factors: Floats32
    item_factors: Floats32
    num_threads: int = 0

    @classmethod
    def of(cls, user_factors: Floats32, item_factors: Floats32, num_threads: int = 0) -> Self:
        """A model of given factors."""
        model = cls()
        model.user_factors, model.item_factors = user_factors, item_factors
        model.num_threads = num_threads
        return model

    def recommend(
        self,
        userid: ArrayLike,
        user_items: Any,
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
        userid : int or array of int
        user_items : CSR matrix or Interactions, one row for each user asked for
            What these users have already: row q belongs to ``userid[q]``. It may be None where it
            is not needed, that is if neither of the two flags is set.
        N : int, default=10
        filter_already_liked_items : bool, default=True
            Leave out what ``user_items`` stores, whatever its value.
        filter_items : array of int, optional
            Leave these items out for everyone.
        recalculate_user : bool, default=False
            Score with `fold_in` of ``user_items``, as for users that the model has not seen;
            ``userid`` then only says whether it is one or several.
        items : array of int, optional
            Choose among these items only; at most that many come back. Not together with
            ``filter_items``.

        Returns
        -------
        ids : int32 array of shape (N,) for one user, (n, N) for several
            Best first; −1 where no item is left.
        scores : float32 array of the same shape
            The lowest float32 number where no item is left.
        """
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
            )
        )

    def similar_items(
        self,
        itemid: ArrayLike,
        N: int = 10,
        recalculate_item: bool = False,
        item_users: Any = None,  # noqa: ARG002 (implicit has it)
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
    ) -> Answer:
        """Find the items whose factors point the same way, by the cosine of their angle.

        Parameters
        ----------
        itemid : int or array of int
        N : int, default=10
        recalculate_item : bool, default=False
            Not offered; only ``implicit``'s least squares can do it.
        item_users : ignored
        filter_items : array of int, optional
            Leave these items out.
        items : array of int, optional
            Choose among these items only. Not together with ``filter_items``.

        Returns
        -------
        ids : int32 array of shape (N,) for one item, (n, N) for several
            Most similar first, which is the item itself unless it was left out.
        scores : float32 array of the same shape
            Cosines, from −1 to 1.
        """
        if recalculate_item:
            raise NotImplementedError(
                f"{type(self).__name__} cannot recalculate items; leave recalculate_item=False"
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
        userid : int or array of int
        N : int, default=10
        filter_users : array of int, optional
            Leave these users out.
        users : array of int, optional
            Choose among these users only. Not together with ``filter_users``.

        Returns
        -------
        ids : int32 array of shape (N,) for one user, (n, N) for several
            Most similar first, which is the user itself unless it was left out.
        scores : float32 array of the same shape
            Cosines, from −1 to 1.
        """
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
        )
        np.multiply(scores, scale[asked, None], out=scores, where=found >= 0)
        np.clip(scores, -1, 1, out=scores, where=found >= 0)  # rounding may go past
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
