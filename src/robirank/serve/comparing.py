"""Two models on the same questions: their lists, and how far they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from scipy.stats import spearmanr

from robirank._types import Ints32
from robirank.serve.answering import answer
from robirank.serve.id_index import IdIndex
from robirank.serve.loaded import ServedRecommender
from robirank.serve.messages import Question, Recommended
from robirank.serve.page_messages import Agreement, Compared, Disagreement
from robirank.serve.problems import Problem
from robirank.serve.wishes import TakenSince, known_items, look_up, rising

_COMMON_ITEMS = 500  # whose scores are compared
_TOGETHER = 32  # users who are asked for at once
_LEAST = 5
_SEED = 0


def other_of(served: ServedRecommender) -> ServedRecommender:
    """The model that this one is compared with."""
    if served.other is None:
        raise Problem(
            "not_for_this_model", "one model is served; robirank serve --compare OTHER has two"
        )
    return served.other


def compare(served: ServedRecommender, question: Question, taken: TakenSince | None) -> Compared:
    """What both models answer; what one of them does not know is passed over there."""
    other = other_of(served)
    return Compared(
        _answers(served, [question], taken)[0],
        _answers(other, [msgspec.structs.replace(question, unknown="ignore")], taken)[0],
    )


def agreement(served: ServedRecommender, n_users: int, n: int) -> Agreement:
    """How far two models agree on the users whom both know."""
    other = other_of(served)
    rng = np.random.default_rng(_SEED)
    users = _in_both(served.users, other.users, n_users, rng)
    items = _in_both(served.items, other.items, _COMMON_ITEMS, rng)
    by_user: dict[Any, int] = {}
    correlations: list[float] = []
    for begin in range(0, len(users), _TOGETHER):
        some = _overlaps(served, other, users[begin : begin + _TOGETHER], n)
        by_user |= some
        correlations += _correlations(served, other, list(some), items)
    users, overlaps = list(by_user), list(by_user.values())
    order = np.argsort(overlaps, kind="stable")[:_LEAST].tolist()
    known = [value for value in correlations if np.isfinite(value)]
    return Agreement(
        served.checksum,
        other.checksum,
        len(users),
        n,
        float(np.mean(overlaps)) / n if overlaps else None,
        np.bincount(np.array(overlaps, np.int64), minlength=n + 1).tolist(),
        float(np.mean(known)) if known else None,
        [Disagreement(users[place], overlaps[place] / n) for place in order],
    )


def _overlaps(
    served: ServedRecommender, other: ServedRecommender, users: Sequence[Any], n: int
) -> dict[Any, int]:
    """How many items are in the lists of both models, for each user who has a list."""
    questions = [Question(user=user, n=n) for user in users]
    pairs = zip(users, _answers(served, questions), _answers(other, questions), strict=True)
    return {
        user: len({one.item for one in a.items} & {one.item for one in b.items})
        for user, a, b in pairs
        if a.items or b.items
    }


def _correlations(
    served: ServedRecommender, other: ServedRecommender, users: Sequence[Any], items: Sequence[Any]
) -> list[float]:
    """Spearman's rank correlation of the scores of the same items, for each user."""
    if len(items) < 2:
        return []
    questions = [Question(user=user, n=len(items), seen="show") for user in users]
    both = zip(
        _answers(served, questions, only=rising(known_items(served, items))),
        _answers(other, questions, only=rising(known_items(other, items))),
        strict=True,
    )
    told: list[float] = []
    for a, b in both:
        scores = {one.item: one.score for one in b.items}
        pairs = np.array([(i.score, scores[i.item]) for i in a.items if i.item in scores])
        if len(pairs) > 1 and np.ptp(pairs, axis=0).min() > 0:
            told.append(float(spearmanr(pairs).statistic))
    return told


def _in_both(here: IdIndex, there: IdIndex, n: int, rng: np.random.Generator) -> list[Any]:
    """A sample of the ids that both models know."""
    ids = (here.called(int(place)) for place in rng.permutation(len(here)))
    return list(islice((id for id in ids if there.find(id) >= 0), n))


def _answers(
    served: ServedRecommender,
    questions: Sequence[Question],
    taken: TakenSince | None = None,
    *,
    only: Ints32 | None = None,
) -> list[Recommended]:
    """The answers of one model; its first `Problem` is raised. ``only``: some items, no rules."""
    wishes = [look_up(served, question, taken) for question in questions]
    if only is not None:
        wishes = [replace(wish, rules=None, only=only) for wish in wishes]
    told: list[Recommended] = []
    for one in answer(served, wishes):
        if isinstance(one, Problem):
            raise one
        told.append(one)
    return told
