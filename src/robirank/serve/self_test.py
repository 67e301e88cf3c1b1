"""Whether a model that was just read answers as it should, before anyone asks it."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from robirank.errors import RobirankError
from robirank.serve.answering import answer
from robirank.serve.loaded import Served, ServedRanker, ServedRecommender
from robirank.serve.messages import Question, Recommended
from robirank.serve.problems import Problem
from robirank.serve.ranking import as_fitted
from robirank.serve.wishes import look_up

_USERS, _BEST = 5, 10
_NEAR = 1e-3  # of the largest score: float32 sums in another order
KNOWN_ANSWERS = "known_answers"


class SelfTestError(RobirankError):
    """A model does not give the answers that it should."""


class KnownAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """A question, and the items that its answer must begin with."""

    question: Question
    items: list[str | int]


def check_answers(served: Served) -> None:
    """Raise a `SelfTestError` unless a model gives known answers.

    Those are the best items of a few users by plain sums in double precision, and the answers that
    were saved with the model as ``extra={"known_answers": known_answers(model, questions)}``.
    """
    if isinstance(served, ServedRanker):
        _check_ranker(served)
    elif isinstance(served, ServedRecommender):
        _check_against_plain(served)
        _check_known(served)


def known_answers(model: Any, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Questions with the answers of a model, to be saved with it and checked by each server.

    Parameters
    ----------
    model : FactorModel
    questions : list of dict
        As clients ask them, such as ``{"items": ["tea"], "n": 3}``. Whatever else a server knows,
        such as the table of items, is not there yet.

    Examples
    --------
    >>> from robirank import Interactions, LatentRoBiRank
    >>> plays = Interactions.from_arrays(["ann", "ann", "bob"], ["tea", "rum", "tea"])
    >>> model = LatentRoBiRank(factors=2, random_state=0).fit(plays, show_progress=False)
    >>> known_answers(model, [{"items": ["tea"], "n": 1}])
    [{'question': {'items': ['tea'], 'n': 1}, 'items': ['rum']}]
    """
    from robirank.serve.loaded import serve_model

    served = serve_model(model)
    assert isinstance(served, ServedRecommender)
    asked = [msgspec.convert(question, Question) for question in questions]
    return [
        {"question": question, "items": _items_of(served, one)}
        for question, one in zip(questions, asked, strict=True)
    ]


def _check_against_plain(served: ServedRecommender) -> None:
    """Compare answers without rules with inner products of all items in double precision."""
    factors = served.model.factors_
    if factors.users.content is not None or not len(served.users):
        return  # content scores have no short formula
    U, V = factors.users.rows, factors.items.rows
    asked = np.unique(np.linspace(0, len(served.users) - 1, _USERS).astype(np.int32))
    best, scores = served.model.recommend(
        asked,
        N=min(_BEST, len(served.items)),
        filter_already_liked_items=False,
        unknown_users="empty",
    )
    for user, items, given in zip(asked, best, scores, strict=True):
        if items[0] < 0:  # without interactions
            continue
        plain = np.asarray(V, np.float32) @ np.asarray(U[user], np.float32)
        near = _NEAR * max(1.0, float(np.abs(plain).max()))
        right = np.sort(plain)[::-1][: len(items)]
        if not np.isfinite(plain).all() or np.abs(given - right).max() > near:
            raise SelfTestError(
                f"the best scores of the user of row {user} are "
                f"{given[:3].tolist()}, and plain sums give {right[:3].tolist()}"
            )


def _check_known(served: ServedRecommender) -> None:
    """Compare with the answers that were saved with the model."""
    alone = served.alone()
    known = served.about.extra.get(KNOWN_ANSWERS, [])
    try:
        every = msgspec.convert(known, list[KnownAnswer])
    except msgspec.ValidationError as error:
        raise SelfTestError(f"known_answers of the file cannot be read: {error}") from None
    for number, one in enumerate(every):
        items = _items_of(alone, one.question)
        if items[: len(one.items)] != one.items:
            raise SelfTestError(
                f"known_answers[{number}] begins with {one.items[:5]}, and the model answers "
                f"{items[:5]}"
            )


def _items_of(served: ServedRecommender, question: Question) -> list[str | int]:
    (told,) = answer(served, [look_up(served, question, None)])
    if isinstance(told, Problem):
        raise SelfTestError(f"a known question cannot be answered: {told.detail}")
    assert isinstance(told, Recommended)
    return [scored.item for scored in told.items]


def _check_ranker(served: ServedRanker) -> None:
    """Scores of plain documents must be finite."""
    n = int(served.model.n_features_in_)
    X = np.vstack([np.zeros(n), np.ones(n), np.linspace(-1.0, 1.0, n)])
    if not np.isfinite(served.model.predict(as_fitted(served.model, X))).all():
        raise SelfTestError("the model gives scores that are not finite")
