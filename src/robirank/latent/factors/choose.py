"""The lists that rules ask for: pinned items, then minimums, then the best of the rest.

Each of the three goes through items from the best on and takes those that caps leave room for. What
it goes through are the first items of a full sort, found by searches for the best n.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank._sparse import offsets
from robirank._threads import thread_count
from robirank._types import Floats32, Floats64, Ints32
from robirank.data.user_items import Mask, UserItems
from robirank.errors import ArgumentError
from robirank.latent.factors.bound_rules import BoundRules, Caps
from robirank.latent.factors.memberships import Memberships
from robirank.latent.factors.topk import in_order, no_rows

_CELLS = 1 << 22  # entries of lists that are held at a time
_GROWTH = 4  # how many times more items a search is repeated for


class Search(Protocol):
    """Finds the best items for some of the lists; see `robirank.latent.factors.topk.top_rows`."""

    def __call__(
        self, places: NDArray[np.intp], n_best: int, /, **options: Any
    ) -> tuple[Ints32, Floats32]:
        """The best items and their scores, for the lists at these places."""
        ...


@dataclass(frozen=True, eq=False)
class Varied:
    """What makes lists varied; see the argument ``variety`` of `FactorModel.recommend`.

    Attributes
    ----------
    weight : float
        The argument, above 0.
    scales : float64 array
        What the scores of each list are multiplied with to give relevance.
    vectors : float32 array
        The rows of all items, whose cosines are compared.
    """

    weight: float
    scales: Floats64
    vectors: Floats32

    def first_candidates(self) -> int:
        """How many candidates for each place of a list a first search finds.

        About as many as most lists need, as `benchmarks/variety.py` has them; a search that finds
        too few is repeated, and the answer does not depend on it.
        """
        return _GROWTH ** (1 + int(5 * self.weight))

    def rows(self, places: NDArray[Any]) -> Varied:
        """The same for some of the lists."""
        return Varied(self.weight, self.scales[places], self.vectors)


@dataclass(frozen=True, eq=False)
class Scope:
    """What may come into lists, before rules that count items.

    Attributes
    ----------
    masks : dict from str to bool array
        What lets through which items, for everyone.
    excluded, only : dict from str to UserItems
        The items that each list must not have, and those that it may have alone.
    unasked : bool array or None
        The items that may come where neither a pin nor a minimum asks for them; None for all.
    """

    masks: dict[str, Mask]
    excluded: dict[str, UserItems]
    only: dict[str, UserItems]
    unasked: Mask | None = None

    @cached_property
    def excluded_by_all(self) -> UserItems | None:
        """The items that each list must not have; None where there are none."""
        return _folded(self.excluded, UserItems.joined)

    @cached_property
    def allowed_by_all(self) -> UserItems | None:
        """The items that each list may have; None for all."""
        return _folded(self.only, UserItems.common)

    @classmethod
    def of(
        cls,
        rules: BoundRules,
        masks: dict[str, Mask],
        liked: UserItems | None,
        users: Ints32 | None,
    ) -> Scope:
        """The scope of some users of a model, or of new ones, where ``users`` is None."""
        if rules.by_user and users is None:
            raise ArgumentError(
                "rules",
                f"have a row for each user of the model ({rules.by_user[0].name}), and new users "
                "have none; leave it out for them",
            )
        scope = cls(masks, {} if liked is None else {"user_items": liked}, {})
        for rule in rules.by_user:
            tables = scope.only if rule.allows else scope.excluded
            tables[rule.name] = rule.items.rows(np.asarray(users))
        return scope

    def rows(self, places: NDArray[Any], unasked: Mask | None = None) -> Scope:
        """The same for some of the lists."""
        excluded, only = (
            {name: table.rows(places) for name, table in tables.items()}
            for tables in (self.excluded, self.only)
        )
        return Scope(self.masks, excluded, only, unasked)


def _folded(tables: dict[str, UserItems], combine: Any) -> UserItems | None:
    result: UserItems | None = None
    for table in tables.values():
        result = table if result is None else combine(result, table)
    return result


def choose(
    search: Search,
    rules: BoundRules,
    scope: Scope,
    n_lists: int,
    length: int,
    *,
    varied: Varied | None = None,
    knows_groups: bool = True,
    num_threads: int = 0,
) -> tuple[Ints32, Floats32]:
    """The lists that rules ask for, as `robirank.Rules` defines them.

    Where lists are ``varied``, an item is not the next by score, but that of the largest value.

    A search that does not leave out what groups have enough of (``knows_groups``) is asked for more
    items at once; the answer is the same.

    Returns
    -------
    positions : int32 array of shape (n_lists, length)
        −1 where nothing is left.
    scores : float32 array of the same shape
    """
    allowed = np.logical_and.reduce([rules.allowed, *scope.masks.values()])
    first = _GROWTH if len(rules.caps.names) > knows_groups else 1
    if varied is not None:
        first = varied.first_candidates()
    lists = _Lists(search, rules, scope, n_lists, length, first, varied, num_threads)
    longest = min(length, rules.longest)
    pins = rules.pins_within(length)
    if pins:
        is_pin = np.zeros(rules.n_items, bool)
        is_pin[[*pins.values()]] = True
        lists.take_best(allowed & is_pin, np.full(n_lists, len(pins), np.int32))
    for minimum in rules.minimums:
        missing = minimum.number - lists.members(minimum.members)
        lists.take_best(allowed & minimum.members, np.clip(missing, 0, longest - lists.lengths))
    if scope.unasked is not None:
        allowed &= scope.unasked
    lists.take_best(allowed, longest - lists.lengths)
    return _arranged(lists.positions, lists.scores, rules, pins, varied)


def _chosen(
    found: tuple[Ints32, Floats32],
    before: Ints32,
    room: Ints32,
    is_whole: Mask,
    caps: Caps,
    varied: Varied | None,
    num_threads: int = 1,
) -> Ints32:
    """The places in lists of the items that are taken, in this order, and −1 behind them.

    A list that is not whole, one that has only the best of what may come, gets no item of which it
    is not certain that it is the next.
    """
    return _core.choose_from_lists(
        lists=found[0],
        scores=found[1],
        before=before,
        room=room,
        is_whole=is_whole,
        starts=caps.all.starts,
        groups=caps.all.groups,
        caps=caps.numbers,
        variety=0.0 if varied is None else varied.weight,
        varied=None if varied is None else (varied.scales, varied.vectors),
        num_threads=thread_count(num_threads),
    )


class _Lists:
    """Lists that fill up, each entry behind those that were taken before."""

    def __init__(
        self,
        search: Search,
        rules: BoundRules,
        scope: Scope,
        n_lists: int,
        length: int,
        first: int,
        varied: Varied | None,
        num_threads: int,
    ) -> None:
        self._search, self._rules, self._scope, self._first = search, rules, scope, first
        self._varied, self._num_threads = varied, num_threads
        self.positions, self.scores = no_rows(n_lists, length)
        self.lengths = np.zeros(n_lists, np.int32)

    def members(self, of_group: Mask) -> Ints32:
        """How many items of a group each list has."""
        return (of_group[self.positions] & (self.positions >= 0)).sum(axis=1, dtype=np.int32)

    def take_best(self, allowed: Mask, room: Ints32) -> None:
        """Take allowed items from the best on, for each list as many as it has room for.

        A search finds the first n of the items that a list may have, in order, but for those that
        caps keep out whatever else is taken (`Caps.spare`). Which of them are taken is what a full
        sort would come to up to the last of the n. A list that is not full then is searched again,
        for more, at the latest for all allowed items.
        """
        n_allowed = int(np.count_nonzero(allowed))
        places, n = np.flatnonzero(room), self._first * int(room.max(initial=0))
        while len(places) and n_allowed:
            n = min(n, n_allowed)
            is_done = [
                self._take_of(part, n, allowed, room[part]) | (n == n_allowed)
                for part in _parts(places, n)
            ]
            places = places[~np.concatenate(is_done)]
            n *= _GROWTH

    def _take_of(
        self, places: NDArray[np.intp], n: int, allowed: Mask, room: Ints32
    ) -> NDArray[np.bool_]:
        """Take what the best n allow for lists that are complete then; returns which are."""
        found, scores = self._search(
            places,
            n,
            allowed=None if allowed.all() else allowed,
            excluded=self._excluded(places),
            only=self._only(places),
            ranks=self._rules.ranks,
            groups=self._rules.spare if self._varied is None else None,
        )
        is_whole = (found[:, -1] < 0) | (n == np.count_nonzero(allowed))
        chosen = _chosen(
            (found, scores),
            self.positions[places],
            room,
            is_whole,
            self._rules.caps,
            None if self._varied is None else self._varied.rows(places),
            self._num_threads,
        )
        is_done = is_whole | (np.count_nonzero(chosen >= 0, axis=1) == room)
        self._add(places[is_done], found[is_done], scores[is_done], chosen[is_done])
        return is_done

    def _add(
        self, places: NDArray[np.intp], found: Ints32, scores: Floats32, chosen: Ints32
    ) -> None:
        rows, numbers = np.nonzero(chosen >= 0)
        lists, columns = places[rows], chosen[rows, numbers]
        behind = self.lengths[lists] + numbers
        self.positions[lists, behind] = found[rows, columns]
        self.scores[lists, behind] = scores[rows, columns]
        self.lengths[places] += np.count_nonzero(chosen >= 0, axis=1).astype(np.int32)

    def _only(self, places: NDArray[np.intp]) -> UserItems | None:
        only = self._scope.allowed_by_all
        return None if only is None else only.rows(places)

    def _excluded(self, places: NDArray[np.intp]) -> UserItems | None:
        """What the lists must not have, and what they have already."""
        excluded = self._scope.excluded_by_all
        rows = None if excluded is None else excluded.rows(places)
        if not self.lengths.any():
            return rows
        taken = np.sort(self.positions[places], axis=1)
        starts = offsets((taken >= 0).sum(axis=1))
        had = UserItems(starts, taken[taken >= 0], None, self._rules.n_items)
        return had if rows is None else rows.joined(had)


def _parts(places: NDArray[np.intp], n: int) -> Iterator[NDArray[np.intp]]:
    """Lists cut into parts for which n entries each fit into memory."""
    size = max(1, _CELLS // n)
    for begin in range(0, len(places), size):
        yield places[begin : begin + size]


def _arranged(
    positions: Ints32,
    scores: Floats32,
    rules: BoundRules,
    pins: dict[int, int],
    varied: Varied | None,
) -> tuple[Ints32, Floats32]:
    """Pinned items at their places, the others around them; no gaps where few are left.

    The others stand by score, or where lists are varied in the order in which they are chosen.
    """
    if not pins and not rules.minimums:
        return positions, scores  # all of it came from one search
    at = np.full(positions.shape, -1)  # where pinned items stand
    for place, item in pins.items():
        at[positions == item] = place - 1
    free, free_scores = in_order(
        np.where(at < 0, positions, -1), np.where(at < 0, scores, -np.inf), rules.ranks
    )
    if varied is not None:
        free, free_scores = _in_order_of_choice(free, free_scores, positions, at >= 0, varied)
    lists, columns = np.nonzero(at >= 0)
    pinned, values = no_rows(*positions.shape)
    pinned[lists, at[lists, columns]] = positions[lists, columns]
    values[lists, at[lists, columns]] = scores[lists, columns]
    is_free = pinned < 0
    nth_free = np.maximum(is_free.cumsum(axis=1) - 1, 0)
    pinned = np.where(is_free, np.take_along_axis(free, nth_free, 1), pinned)
    values = np.where(is_free, np.take_along_axis(free_scores, nth_free, 1), values)
    gaps_last = np.argsort(pinned < 0, axis=1, kind="stable")
    best = np.take_along_axis(pinned, gaps_last, 1)
    values = np.take_along_axis(values, gaps_last, 1)
    return best, np.where(best < 0, no_rows(1, 1)[1], values).astype(np.float32)


def _in_order_of_choice(
    free: Ints32, scores: Floats32, positions: Ints32, is_pinned: Mask, varied: Varied
) -> tuple[Ints32, Floats32]:
    """The free items in the order in which they are chosen when nothing else may come.

    They come in the order of their scores; pinned items are there before them.
    """
    none = Memberships.joined([], len(varied.vectors))
    chosen = _chosen(
        (free, scores),
        np.where(is_pinned, positions, -1).astype(np.int32),
        (free >= 0).sum(axis=1, dtype=np.int32),
        np.ones(len(free), bool),
        Caps([], [], none, np.empty(0, np.int32)),
        varied,
    )
    best = np.where(chosen < 0, -1, np.take_along_axis(free, chosen, 1)).astype(np.int32)
    return best, np.take_along_axis(scores, chosen, 1)
