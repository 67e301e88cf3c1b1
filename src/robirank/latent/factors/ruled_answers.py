"""Answers under rules, and what the rules have taken away from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._callers import warn
from robirank._types import Floats32, Ints32
from robirank.data.user_items import Mask
from robirank.latent.factors.bound_rules import BoundRules
from robirank.latent.factors.choose import Scope, Search, Varied, choose
from robirank.latent.factors.factors import ItemSide, Queries, by_popularity
from robirank.latent.factors.spread import UNIT
from robirank.latent.factors.topk import no_rows
from robirank.latent.factors.unknown_users import UnknownUsers, popular_for_unknown


class ShortAnswerWarning(UserWarning):
    """Some answers under rules are short, or have fewer items than ``at_least`` asks for.

    Attributes
    ----------
    what : str
        What is missing: "fewer than 10 items".
    n_short, n_asked : int
        How many users that are, and of how many.
    first : int
        The first of them, as a place in what was asked.
    counts : dict from str to int
        What each rule has taken away from the first of them; see `Rules.explain`.
    """

    def __init__(
        self, what: str, is_short: Mask, counts: dict[str, int], asked_by: str = "userid"
    ) -> None:
        self.what, self.counts = what, counts
        self.n_short, self.n_asked = int(is_short.sum()), len(is_short)
        self.first = int(is_short.argmax())
        kind = asked_by.removesuffix("id")
        who, which = f"the {kind}", ""
        if self.n_asked > 1:
            who = f"{self.n_short:,} of {self.n_asked:,} {kind}s"
            which = f" for the first of them, {asked_by}[{self.first}]"
        why = ", ".join(f"{name} {n:,}" for name, n in self.taken_away.items())
        super().__init__(
            f"{who} got {what}. Taken away of {counts['all items']:,} items{which}: "
            f"{why or 'none'}" + ". rules.explain tells it for any user" * (kind == "user")
        )

    @property
    def taken_away(self) -> dict[str, int]:
        """The counts of what has taken anything away."""
        others = ("all items", "lower score", "answer")
        return {name: n for name, n in self.counts.items() if n and name not in others}


@dataclass(frozen=True, eq=False)
class RuledAnswers:
    """Lists under rules, and what could have come into them.

    Attributes
    ----------
    positions : int32 array of shape (n, N)
    scores : float32 array of the same shape
    rules : BoundRules
    scope : Scope
    unknown : int array
        The places of users without interactions.
    popular : bool array or None
        The items that they can get; None if they get nothing.
    asked_by : str
        The argument that says who asks.
    """

    positions: Ints32
    scores: Floats32
    rules: BoundRules
    scope: Scope
    unknown: NDArray[np.intp]
    popular: Mask | None
    asked_by: str = "userid"

    def counts(self, place: int) -> dict[str, int]:
        """What each rule takes away from one list; an item counts for the first that does."""
        answer = self.positions[place]
        answer = answer[answer >= 0]
        is_left = np.ones(self.rules.n_items, bool)
        is_left[answer] = False
        counts = {"all items": self.rules.n_items}
        for name, lets_through in self._masks(place, answer):
            counts[name] = int(np.count_nonzero(is_left & ~lets_through))
            is_left &= lets_through
        return counts | {"lower score": int(is_left.sum()), "answer": len(answer)}

    def warn_if_short(self) -> None:
        """Say which lists are short, and why the first of them is."""
        lengths = (self.positions >= 0).sum(axis=1)
        wanted = self.positions.shape[1]
        facts = [(lengths < wanted, f"fewer than {wanted} items")]
        for minimum in self.rules.minimums:
            members = (minimum.members[self.positions] & (self.positions >= 0)).sum(axis=1)
            what = f"fewer than the {minimum.number} items of {minimum.name}"
            facts.append((members < minimum.number, what))
        for is_short, what in facts:
            if self.popular is None:
                is_short[self.unknown] = False
            if is_short.any():
                counts = self.counts(int(is_short.argmax()))
                warn(ShortAnswerWarning(what, is_short, counts, self.asked_by))

    def _masks(self, place: int, answer: Ints32) -> Iterator[tuple[str, Mask]]:
        """What each rule lets come into one list, in the order in which they are told."""
        one = self.scope.rows(np.array([place]))
        for name, table in one.excluded.items():
            yield name, ~self._marked(table.items)
        for name, table in one.only.items():
            yield name, self._marked(table.items)
        yield from self.scope.masks.items()
        yield from self.rules.masks.items()
        if self.popular is not None and place in self.unknown:
            yield "no interactions", self.popular
        for name, is_full in zip(self.rules.caps.names, self.rules.caps.full(answer), strict=True):
            yield name, ~is_full

    def _marked(self, items: Ints32) -> Mask:
        mask = np.zeros(self.rules.n_items, bool)
        mask[items] = True
        return mask


def answer_by_rules(
    items: ItemSide,
    queries: Queries,
    rules: BoundRules,
    scope: Scope,
    length: int,
    unknown_users: UnknownUsers | None,
    *,
    variety: float = 0.0,
    vectors: Floats32 | None = None,
    **options: Any,
) -> RuledAnswers:
    """The best items under rules, for users with interactions and for those without.

    With ``variety``, lists of users with interactions are varied by the cosines of ``vectors``. The
    options, such as ``device``, are for searches.
    """
    best = no_rows(len(queries.asked), length)
    unknown = queries.without_knowledge()
    known = np.delete(np.arange(len(queries.asked)), unknown)
    counts = None if unknown_users in ("empty", "error") else items.counts
    popular = None if counts is None else counts > 0

    def by_score(places: NDArray[np.intp], n_best: int, /, **more: Any) -> tuple[Ints32, Floats32]:
        return items.search(queries.take(known[places]), n_best, **options, **more)

    def of_unknown(counts: Ints32, unknown: NDArray[np.intp]) -> tuple[Ints32, Floats32]:
        search = _by_count(counts, options["num_threads"])
        return choose(search, rules, scope.rows(unknown, popular), len(unknown), length)

    best[0][known], best[1][known] = choose(
        by_score,
        rules,
        scope.rows(known),
        len(known),
        length,
        varied=_varied(items, queries.take(known), variety, vectors, options["num_threads"]),
        knows_groups=options["device"] == "cpu",
        num_threads=options["num_threads"],
    )
    popular_for_unknown(best, queries, items, unknown_users, of_unknown)
    return RuledAnswers(*best, rules, scope, unknown, popular)


def _varied(
    items: ItemSide, queries: Queries, weight: float, vectors: Floats32 | None, num_threads: int
) -> Varied | None:
    if not weight:
        return None
    assert vectors is not None
    spread = items.spread_of(queries, num_threads).astype(np.float32).astype(np.float64)
    scales = np.divide(1 / UNIT, spread, out=np.zeros_like(spread), where=spread > 0)
    return Varied(weight, scales, vectors)


def _by_count(counts: Ints32, num_threads: int) -> Search:
    def search(places: NDArray[np.intp], n_best: int, /, **more: Any) -> tuple[Ints32, Floats32]:
        return by_popularity(counts, len(places), n_best, num_threads=num_threads, **more)

    return search
