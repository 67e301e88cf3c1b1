"""What one does with fitted factors: recommend, find similar rows, save."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from robirank.latent.retrieve.topk import Factors, Liked, inverse_norms, rows_of, top_rows
from robirank.storage.estimators import SaveMixin
from robirank.storage.fitted_parts import FittedArray, FittedParts

__all__ = ["FactorModel"]

Answer = tuple[NDArray[np.int32], Factors]


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
    >>> model = FactorModel()
    >>> model.user_factors = np.array([[1, 0], [0, 1]], dtype=np.float32)
    >>> model.item_factors = np.array([[3, 0], [2, 1], [1, 2], [0, 3]], dtype=np.float32)
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
    )

    user_factors: Factors
    item_factors: Factors

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
        users, one = _asked(userid, "userid")
        self._check_fitted()
        N = _check_n(N)
        n_items = len(self.item_factors)
        candidates = _candidates("items", items, "filter_items", filter_items, n_items)
        if items is not None and candidates is not None:
            N = min(N, len(candidates))
        liked = None
        if filter_already_liked_items or recalculate_user:
            liked = Liked.of(user_items, len(users), n_items)
        if recalculate_user:
            queries = np.ascontiguousarray(self.fold_in(user_items), dtype=np.float32)
            asked = np.arange(len(users), dtype=np.int32)
        else:
            queries = self.user_factors
            asked = rows_of("userid", users, len(queries), "users")
        if N == 0:  # an empty list of items
            return _first(one, np.empty((len(users), 0), np.int32), np.empty((len(users), 0), "f4"))
        ids, scores = top_rows(
            queries,
            asked,
            self.item_factors,
            N,
            rows=candidates,
            liked=liked if filter_already_liked_items else None,
            n_threads=getattr(self, "n_threads", None),
        )
        return _first(one, ids, scores)

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

    def fold_in(self, user_items: Any) -> Factors:
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
        factors: Factors,
        N: int,
        rows: NDArray[np.int32] | None,
    ) -> Answer:
        wanted, one = _asked(ids, name)
        asked = rows_of(name, wanted, len(factors), name.removesuffix("id") + "s")
        scale = inverse_norms(factors)
        found, scores = top_rows(
            factors,
            asked,
            factors,
            _check_n(N),
            rows=rows,
            scale=scale,
            n_threads=getattr(self, "n_threads", None),
        )
        np.multiply(scores, scale[asked, None], out=scores, where=found >= 0)
        np.clip(scores, -1, 1, out=scores, where=found >= 0)  # rounding may go past
        return _first(one, found, scores)

    def _check_fitted(self) -> None:
        if getattr(self, "item_factors", None) is None:
            raise NotFittedError(f"this {type(self).__name__} has no factors yet; call fit first")


def _asked(ids: ArrayLike, name: str) -> tuple[NDArray[Any], bool]:
    """One id or several, as an array, and whether it is one."""
    array: NDArray[Any] = np.asarray(ids)
    if array.ndim > 1:
        raise IndexError(f"{name} must be an integer or a list of them; its shape is {array.shape}")
    return np.atleast_1d(array), array.ndim == 0


def _first(one: bool, ids: NDArray[np.int32], scores: Factors) -> Answer:
    return (ids[0], scores[0]) if one else (ids, scores)


def _check_n(N: int) -> int:
    if isinstance(N, bool) or not isinstance(N, Integral) or N < 1:
        raise ValueError(f"N must be a positive integer; got {N!r}")
    return int(N)


def _candidates(
    only_name: str,
    only: ArrayLike | None,
    without_name: str,
    without: ArrayLike | None,
    count: int,
) -> NDArray[np.int32] | None:
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
