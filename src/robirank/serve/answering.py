"""Answers to many questions by as few native calls as their rules allow."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET

from robirank._types import Floats32, Ints32
from robirank.latent.factors.ruled_answers import RuledAnswers
from robirank.latent.factors.unknown_users import UnknownUsers
from robirank.latent.factors.wanted import Asked, Wanted
from robirank.serve.folding import rows_of_positions, to_fold
from robirank.serve.loaded import ServedRecommender
from robirank.serve.messages import Recommended, Short
from robirank.serve.problems import Problem, of_error
from robirank.serve.telling import reasons_of, scored
from robirank.serve.wishes import Wish

_NOT_RULES = ("all items", "lower score", "answer")
#: What reasons for short lists are called in a request.
_CALLED = {"user_items": "seen and rules.exclude", "items": "rules.only"}


class _Lists(NamedTuple):
    """The answers of one search.

    Attributes
    ----------
    positions, scores : arrays of shape (n, N)
    is_popular : set of int
        The places of those of whom nothing is known.
    ruled : RuledAnswers or None
        Where there are rules.
    """

    positions: Ints32
    scores: Floats32
    is_popular: set[int]
    ruled: RuledAnswers | None


def answer(served: ServedRecommender, wishes: Sequence[Wish]) -> list[Recommended | Problem]:
    """The answers, in the order of the questions; those that one search can answer share it."""
    answers: list[Any] = [None] * len(wishes)
    groups: dict[Hashable, list[int]] = {}
    for place, wish in enumerate(wishes):
        groups.setdefault(wish.group, []).append(place)
    for places in groups.values():
        some = [wishes[place] for place in places]
        told: Sequence[Recommended | Problem]
        try:
            told = _told(served, some, _search(served, some))
        except Exception as error:
            problem = of_error(error)
            if problem is None:
                raise
            told = [problem] * len(some)
        for place, one in zip(places, told, strict=True):
            answers[place] = one
    return answers


def place_of(
    served: ServedRecommender, wish: Wish, position: int
) -> tuple[int | None, float | None]:
    """The place of an item among all, and its score; rules and what is hidden set aside."""
    question = msgspec.structs.replace(wish.question, n=len(served.items), variety=0.0)
    nothing = np.zeros(0, np.int32)
    lists = _search(
        served, [replace(wish, question=question, hidden=nothing, only=None, rules=None)]
    )
    places = np.flatnonzero(lists.positions[0] == position)
    if not len(places):
        return None, None
    return int(places[0]) + 1, float(lists.scores[0, places[0]])


def _search(served: ServedRecommender, wishes: Sequence[Wish]) -> _Lists:
    """One search for questions of one group."""
    model, first, n_items = served.model_for(len(wishes)), wishes[0], len(served.items)
    rules = None if first.rules is None else first.rules.bound_to(model.factors_)
    n = max(wish.question.n for wish in wishes)
    if rules is not None:
        rules.check_length(n)
    most = n_items if first.only is None else len(first.only)
    unknown: UnknownUsers = "empty" if served.counts is None else "popular"
    question = first.question
    wanted = Wanted(
        min(n, most),
        first.only,
        True,
        unknown,
        rules,
        "items",
        question.variety,
        question.popularity,
    )
    hidden = rows_of_positions([wish.hidden for wish in wishes], n_items)
    users = None
    if first.fold is None:
        users = np.array([wish.row for wish in wishes], np.int32)
        queries = model.factors_.users.queries(users)
    else:
        queries = model._folded_in(*to_fold(served, wishes))
    asked = Asked(queries, users, hidden)
    popular = set(queries.without_knowledge().tolist())
    if rules is None:
        positions, scores = model._best_items(wanted, asked)
        return _Lists(positions, scores, popular, None)
    ruled = model._ruled(wanted, rules, asked)
    return _Lists(ruled.positions, ruled.scores, popular, ruled)


def _told(
    served: ServedRecommender, wishes: Sequence[Wish], lists: _Lists
) -> list[Recommended | Problem]:
    names = served.catalogue.names(lists.positions.ravel().clip(0))
    ids = served.items.ids[lists.positions.clip(0)].tolist()
    is_new = served.is_new(lists.positions.ravel().clip(0))
    width = lists.positions.shape[1]
    told: list[Recommended | Problem] = []
    for place, wish in enumerate(wishes):
        n = min(wish.question.n, int(np.count_nonzero(lists.positions[place] >= 0)))
        begin = place * width
        items = scored(
            ids[place][:n],
            lists.scores[place, :n].tolist(),
            None if names is None else names[begin : begin + n],
            is_new[begin : begin + n],
        )
        is_popular = place in lists.is_popular
        try:
            if wish.question.explain and not is_popular:
                items = reasons_of(served, wish, lists.positions[place, :n], items)
        except Exception as error:
            problem = of_error(error)
            if problem is None:
                raise
            told.append(problem)
            continue
        basis: Any = "popular" if is_popular else "row" if wish.fold is None else "fold-in"
        told.append(
            Recommended(served.checksum, basis, items, _short(wish, lists, place, n), wish.ignored)
        )
    return told


def _short(wish: Wish, lists: _Lists, place: int, n: int) -> Any:
    """Why a list is short, or what rules took away where that is asked for."""
    wanted = wish.question.n
    if n >= wanted and not (wish.question.explain and lists.ruled is not None):
        return UNSET
    counts = {} if lists.ruled is None else lists.ruled.counts(place)
    taken = {_CALLED.get(name, name): k for name, k in counts.items() if name not in _NOT_RULES}
    return Short(wanted, n, taken)
