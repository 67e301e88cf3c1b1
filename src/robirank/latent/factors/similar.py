"""Questions for rows that point the same way: similar items, similar users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank._checks import check_count
from robirank._types import Floats32, Ints32
from robirank.data.user_items import Mask
from robirank.errors import ArgumentError
from robirank.latent.factors.bound_rules import BoundRules
from robirank.latent.factors.choose import Scope, choose
from robirank.latent.factors.factors import AnySide, Factors, Queries
from robirank.latent.factors.questions import Names, Naming, candidates
from robirank.latent.factors.ruled_answers import RuledAnswers
from robirank.latent.factors.rules import Rules, check_rules
from robirank.latent.factors.topk import NOTHING, inverse_norms
from robirank.latent.gpu.resolve import resolve_device

#: Positions or outside ids, best first, and scores.
Answer = tuple[NDArray[Any], Floats32]


class SimilarMixin:
    """`similar_items` and `similar_users` of a `FactorModel`."""

    factors_: Factors
    num_threads: int
    device: str

    if TYPE_CHECKING:

        def _names(self, by_text: bool = False, /, **arguments: Any) -> Names: ...

    def similar_items(
        self,
        itemid: ArrayLike,
        N: int = 10,
        recalculate_item: bool = False,
        item_users: Any = None,  # noqa: ARG002 (implicit has it)
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
        *,
        rules: Rules | None = None,
    ) -> Answer:
        """Find the items whose factors point the same way, by the cosine of their angle.

        An item without an interaction is similar to nothing, and nothing is similar to it, unless
        the model knows its features.

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
        rules : Rules, optional
            What may come, how much of it, and what must, as in `FactorModel.recommend`. The item
            itself counts like any other; ``filter_items`` leaves it out. Rules that differ by user
            cannot be used.

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
        names = self._names(itemid=itemid, items=items, filter_items=filter_items).items
        among = candidates(names, ("items", items), ("filter_items", filter_items))
        check_rules(rules)
        bound = None if rules is None else rules.bound_to(self.factors_)
        return self._similar(names, "itemid", itemid, self.factors_.items, N, among, bound)

    def similar_users(
        self,
        userid: ArrayLike,
        N: int = 10,
        filter_users: ArrayLike | None = None,
        users: ArrayLike | None = None,
    ) -> Answer:
        """Find the users whose factors point the same way, by the cosine of their angle.

        A user without an interaction is similar to nobody, and nobody is similar to them, unless
        the model knows their features.

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
        names = self._names(userid=userid, users=users, filter_users=filter_users).users
        among = candidates(names, ("users", users), ("filter_users", filter_users))
        return self._similar(names, "userid", userid, self.factors_.users, N, among)

    def _similar(
        self,
        naming: Naming,
        argument: str,
        asked: Any,
        side: AnySide,
        N: int,
        among: Ints32 | None,
        rules: BoundRules | None = None,
    ) -> Answer:
        """The rows of the smallest angle; rows without interactions are no neighbours."""
        asked, is_one = naming.several(argument, asked)
        check_count("N", N)
        positions = naming.positions(argument, asked)
        scale = inverse_norms(side.rows)
        is_trained = scale > 0
        if side.counts is not None and side.centres is None:
            is_trained &= side.counts > 0
        if not is_trained.all():
            every = np.arange(len(side), dtype=np.int32) if among is None else among
            among = every[is_trained[every]]
        queries, n_best = Queries(side.rows, positions), min(int(N), len(side))
        options: dict[str, Any] = {
            "scale": scale,
            "num_threads": self.num_threads,
            "device": resolve_device(self.device),
        }
        if rules is None:
            best, scores = side.search(queries, n_best, candidates=among, **options)
        else:
            best, scores = _by_rules(side, queries, n_best, among, is_trained, rules, options)
        np.multiply(scores, scale[positions, None], out=scores, where=best >= 0)
        np.clip(scores, -1, 1, out=scores, where=best >= 0)  # rounding may go past
        if rules is None:
            _put_itself_first(best, scores, positions, among)
        untrained = ~is_trained[positions]
        best[untrained], scores[untrained] = -1, NOTHING
        return answer(naming, best, scores, is_one)


def _by_rules(
    side: AnySide,
    queries: Queries,
    n_best: int,
    among: Ints32 | None,
    is_trained: Mask,
    rules: BoundRules,
    options: dict[str, Any],
) -> tuple[Ints32, Floats32]:
    """The items of the largest products under rules; a warning says which lists are short."""
    rules.check_length(n_best)
    if rules.by_user:
        raise ArgumentError(
            "rules",
            f"have a row for each user ({rules.by_user[0].name}), and items have none; leave it "
            "out for them",
        )
    scope = Scope({"no interactions": is_trained}, {}, {})
    if among is not None:
        scope.masks["items"] = np.zeros(len(side), bool)
        scope.masks["items"][among] = True

    def search(places: NDArray[np.intp], n: int, /, **more: Any) -> tuple[Ints32, Floats32]:
        return side.search(queries.take(places), n, **options, **more)

    knows_groups = options["device"] == "cpu"
    best = choose(search, rules, scope, len(queries.asked), n_best, knows_groups=knows_groups)
    untrained = np.flatnonzero(~is_trained[queries.asked])
    RuledAnswers(*best, rules, scope, untrained, None, "itemid").warn_if_short()
    return best


def answer(naming: Naming, best: Ints32, scores: Floats32, is_one: bool) -> Answer:
    """What the caller gets: a row for one, rows for several."""
    names = naming.called(best)
    return (names[0], scores[0]) if is_one else (names, scores)


def _put_itself_first(best: Ints32, scores: Floats32, asked: Ints32, among: Ints32 | None) -> None:
    """Put the row that was asked for first, where rounding or an equal row came before it."""
    behind = np.flatnonzero(best[:, 0] != asked)
    if among is not None:
        behind = behind[np.isin(asked[behind], among)]
    for place in behind:
        itself = asked[place]
        others = best[place] != itself
        others[others.argmin() if not others.all() else -1] = False
        best[place] = [itself, *best[place][others]]
        scores[place] = [max(scores[place][0], scores[place][~others][0]), *scores[place][others]]
