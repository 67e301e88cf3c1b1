"""Rules in the positions of one model: masks, groups and ranks of its items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from robirank._types import Ints32
from robirank.data.ids import Ids
from robirank.data.interactions import Interactions
from robirank.data.user_items import Mask, UserItems, as_user_items
from robirank.errors import ArgumentError
from robirank.latent.factors.factors import Factors
from robirank.latent.factors.memberships import Memberships
from robirank.latent.factors.questions import ByOutsideId, Names
from robirank.latent.factors.topk import Groups

if TYPE_CHECKING:
    from robirank.latent.factors.rules import Filter, Limit, Rules


@dataclass(frozen=True, eq=False)
class Minimum:
    """The items of which a list must have so many.

    ``shares`` says whether one of them can count for another minimum of the column too.
    """

    name: str
    column: str
    members: Mask
    number: int
    shares: bool


@dataclass(frozen=True, eq=False)
class Caps:
    """Groups of items, of each of which a list may have so many.

    Attributes
    ----------
    names : list of str
        What reports call the columns.
    columns : list of Memberships
        The groups of each item in each column.
    all : Memberships
        Those of all columns, numbered through.
    numbers : int32 array
        The cap of each of these.
    """

    names: list[str]
    columns: list[Memberships]
    all: Memberships
    numbers: Ints32

    def spare(self) -> Groups | None:
        """What a search may leave out whatever else is taken; None without caps.

        Items that are in the same groups are of one kind. Let c be the least cap of these groups.
        Who has c better items of its kind before it is not taken: either all of them were, and the
        group of the least cap is full; or one was not, since a group was full, which still is. So
        of each kind c items are enough, and one where c is 0.
        """
        if not self.names:
            return None
        starts, groups = self.all.starts, self.all.groups
        lengths = np.diff(starts)
        kinds = lengths
        for k in range(int(lengths.max(initial=0))):  # the k-th group of each item; 0 behind them
            group = np.zeros(len(lengths), np.int64)
            group[lengths > k] = groups[starts[:-1][lengths > k] + k] + 1
            kinds = np.unique(kinds * (len(self.numbers) + 1) + group, return_inverse=True)[1]
        _, first = np.unique(kinds, return_index=True)
        most = np.iinfo(np.int32).max
        caps = np.full(len(first), most)
        of_kinds = self.all.take(first)
        np.minimum.at(caps, of_kinds.items(), self.numbers[of_kinds.groups])
        is_capped = caps < most
        number = np.where(is_capped, np.cumsum(is_capped) - 1, -1).astype(np.int32)
        return Groups(number[kinds], np.maximum(caps[is_capped], 1).astype(np.int32))

    def longest(self, allowed: Mask) -> int:
        """How many items a list of allowed ones can have at most."""
        items = np.flatnonzero(allowed)
        lengths = [len(items)]
        for column, numbers in self._each():
            has_none = int(np.count_nonzero(~column.is_any[items]))
            lengths.append(has_none + int(np.minimum(column.counts(items), numbers).sum()))
        return min(lengths)

    def full(self, items: Ints32) -> Iterator[Mask]:
        """Which items are kept out by a list of some items, for each column."""
        for column, numbers in self._each():
            yield column.any_of(column.counts(items) >= numbers)

    def exceeded(self, items: Ints32) -> Iterator[bool]:
        """Whether some items are more than a cap allows, for each column."""
        for column, numbers in self._each():
            yield bool((column.counts(items) > numbers).any())

    def _each(self) -> Iterator[tuple[Memberships, Ints32]]:
        """Each column, and the caps of its groups."""
        first = 0
        for column in self.columns:
            yield column, self.numbers[first : first + column.n_groups]
            first += column.n_groups


@dataclass(frozen=True, eq=False)
class ByUser:
    """A rule that allows or denies different items for each user."""

    name: str
    allows: bool
    items: UserItems


@dataclass(frozen=True, eq=False)
class BoundRules:
    """Rules in positions of a model.

    Attributes
    ----------
    item_ids, user_ids : Ids or None
        The items of the model that this is made for, and the users where rules differ by user.
    n_items, n_users : int
    masks : dict from str to bool array
        What each rule that is the same for everyone lets through, by its name.
    allowed : bool array
        What all of them let through.
    by_user : list of ByUser
    caps : Caps
    spare : Groups or None
        What a search may leave out.
    longest : int
        How many items a list can have at most.
    minimums : list of Minimum
    pins : dict from int to int
        The position of the item at each place, from 1 on.
    ranks : int32 array or None
        The order of items of equal score.
    """

    item_ids: Ids | None
    user_ids: Ids | None
    n_items: int
    n_users: int
    masks: dict[str, Mask]
    allowed: Mask
    by_user: list[ByUser]
    caps: Caps
    spare: Groups | None
    longest: int
    minimums: list[Minimum]
    pins: dict[int, int]
    ranks: Ints32 | None

    def is_of(self, factors: Factors) -> bool:
        """Whether these are positions of the model of some factors."""
        users, items = factors.users, factors.items
        if self.item_ids is not items.ids or self.n_items != len(items):
            return False
        return not self.by_user or (self.user_ids is users.ids and self.n_users == len(users))

    @classmethod
    def of(cls, rules: Rules, table_ids: Ids | None, factors: Factors) -> BoundRules:
        """Find the positions of what rules speak of, and check that rules fit each other."""
        binding = _Binding(table_ids, factors)
        static = [rule for rule in rules.filters if rule.by_user is None]
        masks = {rule.name: binding.allowed_by(rule) for rule in static}
        allowed = np.logical_and.reduce([np.ones(binding.n_items, bool), *masks.values()])
        by_user = [binding.by_user(rule) for rule in rules.filters if rule.by_user is not None]
        caps = binding.caps(rules.caps)
        bound = cls(
            factors.items.ids,
            factors.users.ids if by_user else None,
            binding.n_items,
            len(factors.users),
            masks,
            allowed,
            by_user,
            caps,
            caps.spare(),
            caps.longest(allowed),
            binding.minimums(rules.minimums),
            binding.pins(rules.pins),
            None if rules.ties is None else binding.ranks(rules.ties),
        )
        bound._check_pins()
        return bound

    def pins_within(self, length: int) -> dict[int, int]:
        """The pins at places of a list."""
        return {place: item for place, item in self.pins.items() if place <= length}

    def check_length(self, length: int) -> None:
        """Raise an error if no list of this length can have what pins and minimums ask for."""
        pins = [*self.pins_within(length).values()]
        needed: dict[str, int] = {}
        for minimum in self.minimums:
            missing = max(minimum.number - int(minimum.members[pins].sum()), 0)
            before = needed.get(minimum.column, 0)
            needed[minimum.column] = max(before, missing) if minimum.shares else before + missing
            if needed[minimum.column] > length - len(pins):
                besides = f" beside {len(pins)} pinned ones" if pins else ""
                raise ArgumentError(
                    "rules",
                    f"contradict N={length}: {minimum.name}={minimum.number} needs "
                    f"{needed[minimum.column]} places of column {minimum.column!r}{besides}",
                )

    def _check_pins(self) -> None:
        """Raise an error for a pin that other rules deny."""
        for place, item in self.pins.items():
            for name, mask in self.masks.items():
                if not mask[item]:
                    raise ArgumentError(
                        "pin", f"contradicts {name}, which leaves out the item at place {place}"
                    )
        pinned = np.array([*self.pins.values()], np.int32)
        for name, too_many in zip(self.caps.names, self.caps.exceeded(pinned), strict=True):
            if too_many:
                raise ArgumentError("pin", f"contradicts {name}: more of a group are pinned")


class _Binding:
    """Finds items of a table, and ids, among the items of a model."""

    def __init__(self, table_ids: Ids | None, factors: Factors) -> None:
        self._factors = factors
        self.n_items = len(factors.items)
        ids = factors.items.ids
        self._items = ByOutsideId(Ids.range(self.n_items) if ids is None else ids, "items")
        self._rows = None if table_ids is None else table_ids.find(self._items.ids[:])

    def of_items(self, values: Any, default: Any) -> Any:
        """The values of rows of the table for each item; a default where it has no row."""
        assert self._rows is not None
        return np.append(values, np.asarray(default, values.dtype))[self._rows]

    def allowed_by(self, rule: Filter) -> Mask:
        """Which items a rule lets through."""
        if rule.rows is not None:
            meant = self.of_items(rule.rows, False)
        else:
            meant = np.zeros(self.n_items, bool)
            meant[self._items.known_positions(rule.name, rule.ids)] = True
        return meant if rule.allows else ~meant

    def by_user(self, rule: Filter) -> ByUser:
        """What each user of the model may get, or may not."""
        users = self._factors.users
        n_users, given = len(users), rule.by_user
        if isinstance(given, Interactions):
            ids = Ids.range(n_users) if users.ids is None else users.ids
            names = Names(ByOutsideId(ids, "users"), self._items)
            given = names.interactions_of(given, list(ids), are_new=False)
        if given.shape != (n_users, self.n_items):
            raise ArgumentError(
                rule.name,
                f"must have a row for each of the {n_users} users of the model and a column for "
                f"each of its {self.n_items} items; its shape is {given.shape}",
            )
        if not isinstance(given, UserItems):
            given = as_user_items(given.tocsr(), name=rule.name)
        table = UserItems(given.indptr, given.items, None, given.n_items)
        return ByUser(rule.name, rule.allows, table)

    def caps(self, limits: Sequence[Limit]) -> Caps:
        """The groups of items, numbered through, and their caps."""
        columns = [self.groups_of(limit) for limit in limits]
        numbers = [np.full(limit.groups.n_groups, limit.number, np.int32) for limit in limits]
        return Caps(
            [limit.name for limit in limits],
            columns,
            Memberships.joined(columns, self.n_items),
            np.concatenate([np.empty(0, np.int32), *numbers]),
        )

    def minimums(self, limits: Sequence[Limit]) -> list[Minimum]:
        """The items of each minimum."""
        masks = [self.groups_of(limit).is_any for limit in limits]
        minimums = []
        for limit, mask in zip(limits, masks, strict=True):
            others = [
                other
                for one, other in zip(limits, masks, strict=True)
                if one is not limit and one.column == limit.column
            ]
            shares = any((mask & other).any() for other in others)
            minimums.append(Minimum(limit.name, limit.column, mask, limit.number, shares))
        return minimums

    def groups_of(self, limit: Limit) -> Memberships:
        """The groups of each item."""
        assert self._rows is not None
        return limit.groups.take(self._rows)

    def pins(self, pins: dict[int, Any]) -> dict[int, int]:
        """The positions of pinned items."""
        positions = {place: self._pinned(place, item) for place, item in pins.items()}
        by_item = {item: place for place, item in positions.items()}
        for place, item in positions.items():
            if by_item[item] != place:
                raise ArgumentError(
                    "pin", f"has {pins[place]!r} at two places, {place} and {by_item[item]}"
                )
        return positions

    def _pinned(self, place: int, item: Any) -> int:
        return int(self._items.positions(f"pin[{place}]", [item])[0])

    def ranks(self, places: Ints32) -> Ints32:
        """The place of each item in the order of ties, then of positions."""
        values = self.of_items(places, len(places) + 1)
        ranks = np.empty(self.n_items, np.int32)
        ranks[np.argsort(values, kind="stable")] = np.arange(self.n_items, dtype=np.int32)
        return ranks
