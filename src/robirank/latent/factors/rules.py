"""Rules: what may be recommended, how much of it, and what must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy import sparse

from robirank._checks import check_count
from robirank.data.ids import Ids
from robirank.data.interactions import Interactions
from robirank.data.user_items import Mask
from robirank.errors import Argument, ArgumentError
from robirank.latent.factors.bound_rules import BoundRules
from robirank.latent.factors.factors import Factors
from robirank.latent.factors.item_table import ItemTable
from robirank.latent.factors.memberships import Memberships

_KEPT = 8  # bindings, such as those of several models that a server has


@dataclass(frozen=True, eq=False)
class Filter:
    """One rule that allows or denies items; one of the last three fields says which.

    Attributes
    ----------
    name : str
        What reports call it.
    allows : bool
        Whether these items alone may come, or these may not.
    rows : bool array, optional
        Which rows of the table of items.
    ids : sequence, optional
        Outside ids.
    by_user : sparse matrix or Interactions, optional
        Different ones for each user.
    """

    name: str
    allows: bool
    rows: Mask | None = None
    ids: Any = None
    by_user: Any = None


@dataclass(frozen=True, eq=False)
class Limit:
    """How many items of a group there may be, or must be.

    Attributes
    ----------
    name : str
        What reports call it.
    column : str
        The column that has the groups.
    groups : Memberships
        The groups of each row of the table of items.
    number : int
    """

    name: str
    column: str
    groups: Memberships
    number: int


class Rules:
    """What may be recommended, how much of it, and what must be: stock, brands, placements.

    Rules are made once and used for any number of calls, of any model and from any thread:
    ``model.recommend(…, rules=rules)``. They cannot be changed. Ids are outside ids, as those of
    `FactorModel.by_id`; of a model that was fitted to a matrix, they are positions.

    An answer is exactly this. Items that a rule denies are never in it. The others are visited from
    the best score to the worst, and each is taken unless a cap of its group is reached, until the
    list is full. Two kinds of rules come before that: pinned items take their places, and
    ``at_least`` takes the best items of its groups, in the order in which groups are named, until
    their numbers are reached. All caps hold for them too. What was taken is sorted by score, around
    the pinned items.

    Where too few items are left, the list is short: the places at its end hold −1 or None, and a
    `ShortAnswerWarning` says how many items each rule has taken away. `explain` says it for any
    user. Rules that contradict each other are an `ArgumentError`.

    Parameters
    ----------
    items : DataFrame, dict of arrays or ItemTable, optional
        The table of items, a row for each, for rules that name a column. It is read once, here;
        where many rules are made over one table, an `ItemTable` is read once for all of them.
        Items without a row, and missing values, meet no condition and are in no group.
    id : str, default="id"
        The column of ids.
    allow, deny : optional
        What alone may come, and what may not. One of these, or a list of several, which must all
        hold:

        - an expression of polars over the table of items, such as ``pl.col("stock") > 0``
        - a dict of values by column: ``{"brand": ["Acme", "Brix"], "season": "winter"}``
        - a list of ids
        - a sparse matrix of all users and items of the model whose entries are what is meant, or
          `Interactions`: different items for each user
    at_most, at_least : dict from str to int, optional
        The most items of a group in a list, and the fewest: ``{"brand": 2}`` of each brand,
        ``{"category:new": 1}`` of those whose column category says new. ``at_least`` needs a value.
        Where a column holds lists, such as genres, an item counts for each of its values.
    pin : dict from int to id, optional
        Which items stand at which places, from 1 on. A user who must not get the item, as one who
        has it already, gets the next one in its place. Places past the end of a list do not count.
    ties : str or expression of polars, optional
        Of equal scores the item with the lower value in this column comes first, one without a
        value last. Then, as without it, the lower position.

    Examples
    --------
    >>> import robirank as rr
    >>> drinks = ["tea", "rum", "rum", "gin", "gin", "ale"]
    >>> plays = rr.Interactions.from_arrays([*"aabbcc"], drinks)
    >>> model = rr.LatentRoBiRank(factors=2, random_state=0).fit(plays, show_progress=False)
    >>> shop = {"id": ["tea", "rum", "gin", "ale"], "stock": [3, 0, 1, 7], "kind": [*"haha"]}
    >>> rules = rr.Rules(shop, allow=pl.col("stock") > 0, pin={1: "ale"})
    >>> rules
    Rules(allow, pin)
    >>> model.recommend("a", plays, N=2, rules=rules)[0].tolist()
    ['ale', 'gin']
    """

    def __init__(
        self,
        items: Any = None,
        id: str = "id",
        *,
        allow: Any = None,
        deny: Any = None,
        at_most: Mapping[str, int] | None = None,
        at_least: Mapping[str, int] | None = None,
        pin: Mapping[int, Any] | None = None,
        ties: str | pl.Expr | None = None,
    ) -> None:
        table = items if items is None or isinstance(items, ItemTable) else ItemTable(items, id)
        self._table_ids: Ids | None = None if table is None else table.ids
        self.filters = (*_filters("allow", allow, table), *_filters("deny", deny, table))
        self.caps = tuple(_limits("at_most", at_most, table, or_zero=True))
        self.minimums = tuple(_limits("at_least", at_least, table))
        self.pins = _checked_pins(pin)
        self.ties = None if ties is None else _needed(table, "ties").order("ties", ties)
        _check_limits(self.caps, self.minimums)
        self._bindings: tuple[BoundRules, ...] = ()

    def __repr__(self) -> str:
        names = [rule.name for rule in self.filters]
        names += [limit.name for limit in (*self.caps, *self.minimums)]
        names += ["pin"] * bool(self.pins) + ["ties"] * (self.ties is not None)
        return f"Rules({', '.join(names)})"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_bindings": ()}

    def bound_to(self, factors: Factors) -> BoundRules:
        """The rules in positions of a model; made once for the last few models."""
        for bound in self._bindings:
            if bound.is_of(factors):
                return bound
        bound = BoundRules.of(self, self._table_ids, factors)
        self._bindings = (*self._bindings[1 - _KEPT :], bound)
        return bound

    def explain(
        self, model: Any, userid: Any, user_items: Any = None, **options: Any
    ) -> dict[str, int]:
        """How many items each rule takes away from one user, and how many are left.

        Every item counts once, for the first of the rules that takes it away.

        Parameters
        ----------
        model : FactorModel
        userid, user_items, **options
            As in `FactorModel.recommend`, of one user.

        Returns
        -------
        dict from str to int
            "all items": those of the model. Then the number for each rule, in this order: what the
            user has (user_items) and other rules by user; the arguments ``items`` and
            ``filter_items``; rules for everyone; "no interactions", of users who get popular items;
            caps. "lower score": what has no place in the list; "answer": what has.

        Examples
        --------
        >>> import robirank as rr
        >>> plays = rr.Interactions.from_arrays(["ann", "ann", "bob"], ["tea", "rum", "tea"])
        >>> model = rr.LatentRoBiRank(factors=2, random_state=0).fit(plays, show_progress=False)
        >>> rules = rr.Rules(deny=["rum"])
        >>> rules.explain(model, "bob", plays)
        {'all items': 2, 'user_items': 1, 'deny': 1, 'lower score': 0, 'answer': 0}
        """
        return model._explained(self, userid, user_items, **options)


def check_rules(rules: Any) -> None:
    """Raise an error unless an argument ``rules`` is one."""
    if rules is not None and not isinstance(rules, Rules):
        raise ArgumentError("rules", f"must be Rules(…); got {type(rules).__name__}")


def _filters(argument: str, given: Any, table: ItemTable | None) -> list[Filter]:
    """The rules of an argument, which is one of them or a list of several."""
    if given is None:
        return []
    several = isinstance(given, list | tuple) and any(_is_rule(entry) for entry in given)
    rules = list(given) if several else [given]
    names = [f"{argument}[{i}]" for i in range(len(rules))] if several else [argument]
    return [_filter(argument, name, rule, table) for name, rule in zip(names, rules, strict=True)]


def _is_rule(value: Any) -> bool:
    """Whether a value is a rule by itself, and no id."""
    return isinstance(value, (pl.Expr, Mapping, Interactions, list)) or sparse.issparse(value)


def _filter(argument: str, name: str, rule: Any, table: ItemTable | None) -> Filter:
    allows = argument == "allow"
    if isinstance(rule, pl.Expr | Mapping):
        return Filter(name, allows, rows=_needed(table, name).meets(name, rule))
    if sparse.issparse(rule) or isinstance(rule, Interactions):
        return Filter(name, allows, by_user=rule)
    if isinstance(rule, str | bytes | bool) or not hasattr(rule, "__len__"):
        raise ArgumentError(
            name,
            "must be a condition over the table of items, a list of ids or a sparse matrix of "
            f"users and items; got {rule!r:.80}",
        )
    return Filter(name, allows, ids=rule)


def _needed(table: ItemTable | None, argument: str) -> ItemTable:
    if table is None:
        raise ArgumentError(
            argument,
            "names a column, for which Rules needs the table of items: ",
            Argument("items"),
        )
    return table


def _limits(
    argument: str, given: Any, table: ItemTable | None, *, or_zero: bool = False
) -> list[Limit]:
    """The caps or the minimums of an argument."""
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise ArgumentError(
            argument, f"must be a dict such as {{'brand:Acme': 2}}; got {type(given).__name__}"
        )
    limits = []
    for key, number in given.items():
        if not isinstance(key, str):
            raise ArgumentError(argument, f"must name columns; got {key!r}")
        _check_number(argument, key, number, or_zero)
        column, groups = _needed(table, argument).groups(argument, key)
        if argument == "at_least" and column == key:
            raise ArgumentError(
                argument, f"needs a value of the column: {{'{key}:value': {number}}}; got {key!r}"
            )
        limits.append(Limit(f"{argument} {key}", column, groups, int(number)))
    return limits


def _check_number(argument: str, key: str, number: Any, or_zero: bool) -> None:
    name = f"{argument}[{key!r}]"
    if or_zero and not isinstance(number, bool) and number == 0:
        return
    if or_zero and isinstance(number, int) and number < 0:
        raise ArgumentError(name, f"must be an integer from 0 on; got {number!r}")
    check_count(name, number, at_most=2**31 - 1)


def _checked_pins(pin: Any) -> dict[int, Any]:
    """Places and ids, in the order of the places."""
    if pin is None:
        return {}
    if not isinstance(pin, Mapping):
        raise ArgumentError("pin", f"must be a dict from places to ids; got {type(pin).__name__}")
    for place in pin:
        check_count("a place of pin", place)
    return {int(place): pin[place] for place in sorted(pin)}


def _check_limits(caps: Sequence[Limit], minimums: Sequence[Limit]) -> None:
    """Raise an error where more items of a group must come than may."""
    for minimum in minimums:
        members = np.flatnonzero(minimum.groups.is_any)
        for cap in caps:
            if cap.column != minimum.column or not len(members):
                continue
            all_in_one = (cap.groups.counts(members) == len(members)).any()
            if all_in_one and cap.number < minimum.number:
                raise ArgumentError(
                    "at_least",
                    f"contradicts at_most: {minimum.name} asks for {minimum.number} items, and "
                    f"{cap.name} lets no more than {cap.number} come",
                )


#: What a question without rules has: all items may come.
NO_RULES = Rules()
