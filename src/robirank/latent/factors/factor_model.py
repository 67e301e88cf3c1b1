"""FactorModel: questions to fitted factors, with the calling conventions of implicit."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from robirank._checks import check_choice
from robirank._types import Floats32, Ints32
from robirank.data.feature_rows import FeatureRows
from robirank.data.ids import Ids
from robirank.data.user_items import UserItems
from robirank.errors import ArgumentError
from robirank.latent.factors.bound_rules import BoundRules
from robirank.latent.factors.catalogue import CatalogueMixin
from robirank.latent.factors.centres import Centres
from robirank.latent.factors.choose import Scope
from robirank.latent.factors.content import UserContent
from robirank.latent.factors.dislikes import Dislikes
from robirank.latent.factors.explain import ExplainMixin
from robirank.latent.factors.factors import Factors, ItemSide, Queries, Side, popular_items
from robirank.latent.factors.leads import Leads
from robirank.latent.factors.questions import (
    ByOutsideId,
    ByPosition,
    Names,
    UnknownIds,
    asks_by_id,
    check_same_ids,
    items_of_users,
    lists_of_items,
    times_of_lists,
)
from robirank.latent.factors.ruled_answers import RuledAnswers, answer_by_rules
from robirank.latent.factors.rules import NO_RULES, Rules, check_rules
from robirank.latent.factors.side_attributes import SideAttribute, check_attributes
from robirank.latent.factors.similar import Answer, SimilarMixin, answer
from robirank.latent.factors.unknown_users import UnknownUsers, popular_for_unknown
from robirank.latent.factors.wanted import Asked, Wanted
from robirank.latent.gpu.resolve import resolve_device
from robirank.storage.estimators import SaveMixin
from robirank.storage.fitted_parts import FittedArray, FittedObject, FittedParts

if TYPE_CHECKING:
    import polars as pl


class FactorModel(CatalogueMixin, ExplainMixin, SimilarMixin, SaveMixin, BaseEstimator):
    r"""A model in which the score of user x and item y is the inner product ⟨U_x, V_y⟩.

    Subclasses implement ``fit``, which sets ``factors_``, and may implement `fold_in`.
    Methods have the names, arguments and return values of the ``implicit`` package, with three
    differences on purpose: places that no item is left for hold id −1 (there, the id of an item
    that was to be left out), ids are always int32, and negative ids are errors. Of equal scores
    the lower id comes first.

    Integers are positions, the rows of U and V. Text is an outside id, where the model was fitted
    to `Interactions`: such a question gets an answer in outside ids, as an object array with None
    where no item is left. `by_id` takes outside ids of any kind, integers too.

    Attributes
    ----------
    factors_ : Factors
        Everything that was fitted: the users and the items, with their rows, ids and counts. The
        attributes below are read from it.
    user_factors : float32 array of shape (n_users, factors)
        U.
    item_factors : float32 array of shape (n_items, factors)
        V.
    item_counts_ : int32 array of shape (n_items,)
        The number of interactions of each item, where `fit` counted them: users without
        interactions get the items with the most.

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
            "user_counts_": FittedArray(("users",), "I32"),
        },
        required=("user_factors", "item_factors"),
        unfitted=True,
        features=False,
        objects={
            "user_ids_": FittedObject("users", Ids.from_tensors),
            "item_ids_": FittedObject("items", Ids.from_tensors),
            "user_centres_": FittedObject("users", Centres.from_tensors),
            "item_centres_": FittedObject("items", Centres.from_tensors),
            "user_content_": FittedObject("users", UserContent.from_tensors),
            "item_leads_": FittedObject("items", Leads.from_tensors),
            "user_dislikes_": FittedObject("users", Dislikes.from_tensors),
        },
        check=check_attributes,
    )

    factors_: Factors
    user_factors: Any = SideAttribute("users", "rows")
    item_factors: Any = SideAttribute("items", "rows")
    user_ids_: Any = SideAttribute("users", "ids")
    item_ids_: Any = SideAttribute("items", "ids")
    item_counts_: Any = SideAttribute("items", "counts")
    user_counts_: Any = SideAttribute("users", "counts")
    user_centres_: Any = SideAttribute("users", "centres")
    item_centres_: Any = SideAttribute("items", "centres")
    user_content_: Any = SideAttribute("users", "content")
    item_leads_: Any = SideAttribute("items", "leads")
    user_dislikes_: Any = SideAttribute("users", "disliked")
    num_threads: int = 0
    device: str = "cpu"
    _asks_by_id = False  # whether integers are outside ids too

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
        model.factors_ = Factors(Side(user_factors), Side(item_factors, counts=item_counts))
        model.num_threads, model.device = num_threads, device
        return model

    @property
    def by_id(self) -> Self:
        """The same model, asked in outside ids of any kind and answering in them.

        Ids are what they are in the `Interactions` that the model was fitted to: text, integers,
        anything that can be a key of a dict. Where the model was fitted to a matrix, they are
        positions. Answers are object arrays of ids, with None where no item is left.

        Examples
        --------
        >>> from robirank import Interactions, LatentRoBiRank
        >>> data = Interactions.from_arrays([7, 7, 9, 9, 9], [31, 17, 31, 17, 24])
        >>> model = LatentRoBiRank(factors=2, random_state=0).fit(data, show_progress=False)
        >>> model.by_id.recommend(7, data, N=2)[0].tolist()
        [24, None]
        """
        self._check_fitted()
        model = copy.copy(self)
        model._asks_by_id, model._asked = True, self
        return model

    def prepare(self) -> Self:
        """Lay the items out for many questions, as a server has them.

        The items are packed once in the order in which a search reads them, or uploaded once to a
        card; without it, every call does that for itself. Answers have the same bits, and any
        number of threads may ask. It costs a copy of ``item_factors``, and lasts until the model is
        fitted again.

        Returns
        -------
        self

        Examples
        --------
        >>> from robirank import LatentRoBiRank, make_interactions
        >>> data = make_interactions(50, 20, 300, random_state=0)
        >>> model = LatentRoBiRank(factors=2, random_state=0).fit(data, show_progress=False)
        >>> before = model.recommend(3, data.matrix[3])[0]
        >>> bool((model.prepare().recommend(3, data.matrix[3])[0] == before).all())
        True
        """
        self._check_fitted()
        self.factors_ = self.factors_.prepared(resolve_device(self.device))
        return self

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
        rules: Rules | None = None,
        variety: float = 0.0,
        popularity: float = 0.0,
    ) -> Answer:
        """Find the best items for one user or several.

        All items are scored and the result is exact. Many users in one call cost far less than as
        many calls. Of a user without an interaction nothing is known: such users get the items with
        the most interactions.

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
            What users without an interaction get: the items with the most interactions, no items,
            or an error. Default: the popular items, and an `UnknownUserWarning` says for how many
            users.
        rules : Rules, optional
            What may be recommended, how much of it, and what must be. The result is exactly what
            sorting all items and going through them by the rules gives. A `ShortAnswerWarning` says
            which rules are the reason where too few items are left.
        variety : float, default=0
            From 0 to 1: how much an item that is like those before it in the list is put back. Each
            place gets the item with the largest (1 − v) s / 4σ − v c: its score in units of four
            standard deviations of this user's scores over all items, less its largest cosine with
            the items that stand there already, at least 0 (maximal marginal relevance [1]_). All
            items are considered, and with ``rules`` each of their steps takes items in this way.
            Lists stand in the order of choice; a longer one begins with a shorter one. The larger
            v is, the more candidates an exact answer needs, and the longer it takes.
        popularity : float, default=0
            From 0 to 1: how much of what popularity alone explains is taken off the scores. With
            the logarithm of 1 + the number of interactions of an item, and β the slope of this
            user's scores over it, scores are lowered by p β times this logarithm less its mean. At
            1 no linear relation is left. Items without interactions keep their scores. The model
            must know ``item_counts_``.

        Returns
        -------
        ids : int32 array of shape (N,) for one user, (n, N) for several
            Best first; −1 where no item is left. Asked in outside ids, an object array of them,
            with None there.
        scores : float32 array of the same shape
            The lowest float32 number where no item is left. For users without an interaction, the
            numbers of interactions of the items; ``variety`` and ``popularity`` do not change what
            these get. With ``popularity`` the lowered scores; ``variety`` changes no score.

        References
        ----------
        .. [1] J. Carbonell and J. Goldstein, "The use of MMR, diversity-based reranking for
           reordering documents and producing summaries", SIGIR 1998.

        Examples
        --------
        >>> from robirank import Interactions, LatentRoBiRank
        >>> plays = Interactions.from_arrays(["ann", "ann", "bob"], ["tea", "rum", "tea"])
        >>> model = LatentRoBiRank(factors=2, random_state=0).fit(plays, show_progress=False)
        >>> model.recommend("bob", plays, N=1)[0].tolist()
        ['rum']
        >>> model.recommend(1, plays.matrix[1], N=1)[0].tolist()
        [1]

        Three drinks of which two are alike:

        >>> V = np.array([[1, 0], [0.9, 0], [0.5, 0.5]], dtype=np.float32)
        >>> model = FactorModel.of(np.array([[3, 1]], dtype=np.float32), V)
        >>> model.recommend(0, N=2, filter_already_liked_items=False)[0].tolist()
        [0, 1]
        >>> model.recommend(0, N=2, filter_already_liked_items=False, variety=0.8)[0].tolist()
        [0, 2]
        """
        names, is_one, wanted, asked = self._question(
            userid,
            user_items,
            N,
            filter_already_liked_items,
            filter_items,
            recalculate_user,
            items,
            unknown_users=unknown_users,
            rules=rules,
            variety=variety,
            popularity=popularity,
        )
        return answer(names.items, *self._best_items(wanted, asked), is_one)

    def recommend_for(
        self,
        liked: Any = (),
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
        *,
        features: Any = None,
        times: Any = None,
        disliked: Any = None,
        unknown: UnknownIds = "error",
        unknown_users: UnknownUsers | None = None,
        rules: Rules | None = None,
        variety: float = 0.0,
        popularity: float = 0.0,
    ) -> Answer:
        """Find the best items for someone the model has not seen, by what they like and are.

        Their factors are found by `fold_in`; nothing is kept.

        Parameters
        ----------
        liked : list of int or of str, or a list of such lists
            Items, by positions or outside ids: one list for one person, several for several. Who
            likes nothing is a user without an interaction; an empty list alone is answered in
            outside ids where those are text. A model that looks at the order takes the last of a
            list as the latest.
        features : dict, list of dicts or Features, optional
            What is known of them, where the model was fitted with features of users: values by
            column for one person, one dict for each of several. Without ``liked``, or with empty
            lists, it is all that is known.
        times : list of dates or numbers, or a list of such lists, optional
            When each item was taken, as in the table of the fit, where the model looks at the order
            or weighs records by age. By default, just now and in the order of the list.
        disliked : list of int or of str, or a list of such lists, optional
            What they dislike: never an answer, and a stronger loser than an unknown item.
        N, filter_already_liked_items, filter_items, items
            As in `recommend`, and so are unknown_users, rules, variety and popularity.
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
        check_choice("unknown", unknown, ("error", "ignore"))
        lists, is_one = lists_of_items(liked)
        about = self._described(features)
        if about is not None:
            if is_one and not len(liked) and not isinstance(features, Mapping):
                lists, is_one = [[] for _ in range(len(about))], False
            if len(about) != len(lists) or not len(lists):
                raise ArgumentError(
                    "features",
                    "must have a row for each person; "
                    f"it has {len(about)} for {len(lists)} lists of liked",
                )
        by_text = getattr(self.item_ids_, "kind", "int") == "str"
        against = _lists_against(disliked, len(lists), is_one=is_one)
        every = [item for basket in (*lists, *(against or ())) for item in basket]
        names = self._names(by_text, liked=every, items=items, filter_items=filter_items)
        moments = times_of_lists(times, lists, is_one=is_one, check=self._check_dates)
        rows = names.baskets(lists, unknown, moments)
        if against is not None:
            rows = replace(rows, disliked=names.baskets(against, unknown).without(rows))
        without_liked = filter_already_liked_items
        bound = self._bound(rules)
        wanted = Wanted.of(
            names.items,
            N,
            without_liked,
            filter_items,
            items,
            unknown_users,
            bound,
            variety,
            popularity,
        )
        best = self._best_items(wanted, self._asking(wanted, len(lists), None, rows, about))
        return answer(names.items, *best, is_one)

    def recommend_frame(
        self,
        users: Any = None,
        train: Any = None,
        N: int = 10,
        *,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
        unknown_users: UnknownUsers | None = None,
        rules: Rules | None = None,
        variety: float = 0.0,
        popularity: float = 0.0,
    ) -> pl.DataFrame:
        """Recommend to many users, as a table with a row for each place of each list.

        Parameters
        ----------
        users : list of int or of str, optional
            Positions or outside ids. Default: everyone, by their outside ids where there are such.
        train : CSR matrix or Interactions, optional
            What all users of the model have, which is left out; users who are asked for by outside
            ids are looked up in Interactions. Without it, nothing is left out.
        N, filter_items, items, unknown_users, rules, variety, popularity
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
        from robirank.latent.factors.frame import id_series, lists_frame

        if users is None:
            names = self.by_id._names()
            users = names.users.ids[:]
        else:
            names = self._names(users=users, items=items, filter_items=filter_items)
            if isinstance(names.users, ByPosition):
                check_same_ids("train", train, "the model", self)
        asked, _ = names.users.several("users", users)
        positions = names.users.positions("users", asked)
        or_fewer = self.factors_.users.centres is not None
        rows = names.interactions_of_all(train, asked, positions, or_fewer=or_fewer)
        bound = self._bound(rules)
        wanted = Wanted.of(
            names.items,
            N,
            rows is not None,
            filter_items,
            items,
            unknown_users,
            bound,
            variety,
            popularity,
        )
        best = self._best_items(wanted, self._asking(wanted, len(asked), positions, rows))
        return lists_frame(id_series("user", names.users.ids, positions), *best, names.items.ids)

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

    def _described(self, features: Any, argument: str = "features") -> FeatureRows | None:
        """What is known of new users, as numbers; None where nothing is given."""
        if features is None or isinstance(features, FeatureRows):
            return features
        self._check_fitted()
        centres = self.factors_.users.centres
        if centres is None:
            raise ArgumentError(
                argument,
                f"cannot be used: the {type(self).__name__} was fitted without features of users",
            )
        return centres.features.rows_of(argument, features)

    def _folded_in(self, user_items: Any, user_features: FeatureRows | None = None) -> Queries:  # noqa: ARG002
        """New users, by what they have and are, to search with."""
        matrix = user_items.to_csr() if isinstance(user_items, UserItems) else user_items
        return Queries.all_of(np.ascontiguousarray(self.fold_in(matrix), dtype=np.float32))

    def _check_dates(self, argument: str, has_dates: bool) -> None:
        """Raise an error where times are dates and those of the fit were numbers, or the reverse.

        It matters to models that weigh records by their age.
        """

    def _check_times(self, argument: str, table: Any) -> None:
        """Check the times of a table, where it has any."""
        if getattr(table, "timestamps", None) is not None:
            self._check_dates(argument, table.has_dates)

    def _names(self, by_text: bool = False, /, **arguments: Any) -> Names:
        """How a question with these arguments calls users and items."""
        self._check_fitted()
        users, items = self.factors_.users, self.factors_.items
        if self._asks_by_id or asks_by_id(by_text, **arguments):
            return Names(
                ByOutsideId(Ids.range(len(users)) if users.ids is None else users.ids, "users"),
                ByOutsideId(Ids.range(len(items)) if items.ids is None else items.ids, "items"),
            )
        return Names(ByPosition(len(users), "users"), ByPosition(len(items), "items"))

    def _bound(self, rules: Rules | None) -> BoundRules | None:
        """Rules in positions of this model."""
        check_rules(rules)
        return None if rules is None else rules.bound_to(self.factors_)

    def _question(
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
        rules: Rules | None = None,
        variety: float = 0.0,
        popularity: float = 0.0,
    ) -> tuple[Names, bool, Wanted, Asked]:
        """Check the arguments of `recommend`, and look up what they name."""
        names = self._names(userid=userid, items=items, filter_items=filter_items)
        asked, is_one = names.users.several("userid", userid)
        positions = None if recalculate_user else names.users.positions("userid", asked)
        if recalculate_user:
            self._check_times("user_items", user_items)
        rows = names.interactions_of(user_items, asked, are_new=recalculate_user)
        wanted = Wanted.of(
            names.items,
            N,
            filter_already_liked_items,
            filter_items,
            items,
            unknown_users,
            self._bound(rules),
            variety,
            popularity,
        )
        return names, is_one, wanted, self._asking(wanted, len(asked), positions, rows)

    def _asking(
        self,
        wanted: Wanted,
        n_users: int,
        positions: Ints32 | None,
        user_items: Any,
        user_features: FeatureRows | None = None,
    ) -> Asked:
        """Who asks, with what they are not to get.

        ``positions`` are None for new users, whose rows are folded in from ``user_items`` and
        ``user_features``.
        """
        items = self.factors_.items
        liked = None
        if wanted.without_liked or positions is None:
            liked = items_of_users(
                user_items, n_users, len(items), or_fewer=items.centres is not None
            )
        if positions is None:
            queries = self._folded_in(user_items, user_features)
        else:
            queries = self.factors_.users.queries(positions)
        liked = liked if wanted.without_liked else None
        disliked = getattr(user_items, "disliked", None)
        known = self.factors_.users.disliked
        if positions is not None and known is not None:
            disliked = known.table.rows(positions)
        if disliked is not None:
            liked = disliked if liked is None else liked.joined(disliked)
        return Asked(queries, positions, liked)

    def _best_items(self, wanted: Wanted, asked: Asked) -> tuple[Ints32, Floats32]:
        """Positions and scores of the best items."""
        if wanted.rules is not None:
            answers = self._ruled(wanted, wanted.rules, asked)
            answers.warn_if_short()
            return answers.positions, answers.scores
        if wanted.variety:
            answers = self._ruled(wanted, NO_RULES.bound_to(self.factors_), asked)
            return answers.positions, answers.scores
        items, queries = self._searched(wanted, asked)
        liked = asked.liked
        options: dict[str, Any] = {
            "candidates": wanted.candidates,
            "num_threads": self.num_threads,
        }

        def popular(counts: Ints32, unknown: NDArray[np.intp]) -> tuple[Ints32, Floats32]:
            without = None if liked is None else liked.rows(unknown)
            return popular_items(counts, len(unknown), wanted.n_best, excluded=without, **options)

        device = resolve_device(self.device)
        best = items.search(queries, wanted.n_best, excluded=liked, device=device, **options)
        popular_for_unknown(best, queries, items, wanted.unknown_users, popular)
        return best

    def _searched(self, wanted: Wanted, asked: Asked) -> tuple[ItemSide, Queries]:
        """What a search goes through, and what it asks for."""
        if not wanted.popularity:
            return self.factors_.items, asked.queries
        damping = self.factors_.damping
        return damping.items, damping.damped(asked.queries, wanted.popularity)

    def _ruled(self, wanted: Wanted, rules: BoundRules, asked: Asked) -> RuledAnswers:
        """The best items under rules."""
        items, queries = self._searched(wanted, asked)
        return answer_by_rules(
            items,
            queries,
            rules,
            Scope.of(rules, wanted.masks(len(items)), asked.liked, asked.users),
            wanted.n_best,
            wanted.unknown_users,
            variety=wanted.variety,
            vectors=self.factors_.items.rows if wanted.variety else None,
            num_threads=self.num_threads,
            device=resolve_device(self.device),
        )

    def _explained(self, rules: Rules, *arguments: Any, **options: Any) -> dict[str, int]:
        """What rules take away from one user; see `Rules.explain`."""
        _, is_one, wanted, asked = self._question(*arguments, **options)
        if not is_one:
            raise ArgumentError("userid", "must be one user; ask for several one by one")
        return self._ruled(wanted, rules.bound_to(self.factors_), asked).counts(0)

    def _check_fitted(self) -> None:
        factors = self.__dict__.get("factors_")
        if factors is None or not factors.is_complete():
            raise NotFittedError(f"this {type(self).__name__} has no factors yet; call fit first")


def _lists_against(disliked: Any, n_lists: int, *, is_one: bool) -> list[Any] | None:
    """What each of some people dislikes, a list for each; None where nothing is said."""
    if disliked is None:
        return None
    lists, only_one = lists_of_items(disliked)
    if len(lists) != n_lists or only_one != is_one:
        raise ArgumentError(
            "disliked",
            f"must have a list for each list of liked, {n_lists}; it has {len(lists)}",
        )
    return lists
