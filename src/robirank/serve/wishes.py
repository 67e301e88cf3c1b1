"""Questions as a model understands them: ids looked up; what is hidden and folded in settled."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank._types import Ints32
from robirank.data.ages import NOW
from robirank.data.feature_rows import FeatureRows
from robirank.latent.factors.rules import Rules
from robirank.serve.loaded import ServedRecommender
from robirank.serve.messages import Question, RuleSet
from robirank.serve.problems import Problem, as_field, bad_value

_NONE = np.zeros(0, np.int32)


class TakenSince(Protocol):
    """What users took since the model was trained; see `robirank.serve.feedback`."""

    def items_of(self, user: Any) -> Sequence[Any]:
        """The ids of items, in the order in which they came."""


class Basket(NamedTuple):
    """Positions of items and when they were taken; of equal items the last counts."""

    items: Ints32
    times: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Wish:
    """A question, looked up in one model.

    Attributes
    ----------
    question : Question
    row : int
        The position of the user; −1 for one whom the model does not know.
    fold : Basket or None
        The items from which the row of the user is found; None for the row of the model.
    disliked : int32 array
        Rising positions of items that are dislikes.
    features : FeatureRows or None
        What is known of someone new.
    hidden : int32 array
        Rising positions of items that must not come.
    only : int32 array or None
        Rising positions of the items that may come; None for all.
    rules : Rules or None
    ignored : list
        Unknown ids that were passed over.
    """

    question: Question
    row: int
    fold: Basket | None
    disliked: Ints32
    features: FeatureRows | None
    hidden: Ints32
    only: Ints32 | None
    rules: Rules | None
    ignored: list[str | int]

    @property
    def is_folded(self) -> bool:
        """Whether a row has to be found by many passes over the items."""
        return self.fold is not None and len(self.fold.items) > 0

    @property
    def group(self) -> Hashable:
        """Questions with equal groups can be answered by one search."""
        question, rules = self.question, self.rules
        depends_on_n = rules is not None and (rules.pins or rules.minimums or question.explain)
        return (
            self.fold is None,
            self.features is None,
            None if self.only is None else self.only.tobytes(),
            id(rules),
            question.variety,
            question.popularity,
            question.n if depends_on_n else 0,
        )


def look_up(served: ServedRecommender, question: Question, taken: TakenSince | None) -> Wish:
    """Look the ids of a question up; an unknown one is a `Problem`, or is passed over."""
    ignored: list[str | int] = []
    given = _positions(served, "items", question.items, question, ignored)
    disliked = rising(_positions(served, "disliked", question.disliked, question, ignored))
    row, has, fresh = -1, _NONE, _NONE
    if question.user is not None:
        row = served.users.find(question.user)
        has = _NONE if served.history is None else served.history.items(question.user)
        fresh = known_items(served, () if taken is None else taken.items_of(question.user))
        fresh = fresh[~np.isin(fresh, has)] if len(fresh) else fresh
    about = _features(served, question, row)
    says_more = len(given) or len(disliked) or question.features is not None
    if row >= 0 and says_more and served.history is None:
        raise bad_value(
            "$.user",
            "cannot be given with items, disliked or features: the row of the user would be found "
            "from these alone. Start the server with --train FILE, which says what users have",
        )
    if question.user is not None and row < 0 and not (says_more or len(has) or len(fresh)):
        _unknown_user(question, ignored)
    fold = None
    if row < 0 or says_more or (len(fresh) and len(has)):
        fold = _basket(served, question, has, np.concatenate([fresh, given]))
    is_hidden = question.seen == "hide"
    hidden = merged(has, rising(fresh), rising(given)) if is_hidden else _NONE
    only, excluded = _lists_of(served, question.rules, ignored)
    return Wish(
        question,
        row,
        fold,
        disliked,
        about if fold is not None else None,
        merged(hidden, excluded, disliked, _disliked_before(served, row)),
        only,
        _rules(served, question),
        ignored,
    )


def _basket(served: ServedRecommender, question: Question, has: Ints32, later: Ints32) -> Basket:
    """What a user has, and then what came later, just now and in this order."""
    before = None
    if served.history is not None and question.user is not None:
        before = served.history.times(question.user)
    if before is None:  # in any order, but before the rest
        before = NOW + np.arange(len(has))
    now = NOW + len(has) + np.arange(len(later))
    return Basket(np.concatenate([has, later]), np.concatenate([before, now]))


def _disliked_before(served: ServedRecommender, row: int) -> Ints32:
    """What a user of the model took against, according to its fit."""
    disliked = served.model.factors_.users.disliked
    if disliked is None or row < 0:
        return _NONE
    return disliked.table.rows(np.array([row])).items


def known_items(served: ServedRecommender, ids: Iterable[Any]) -> Ints32:
    """The positions of those of some ids that the model knows, in their order."""
    places = (served.items.find(id) for id in ids)
    return np.array([place for place in places if place >= 0], np.int32)


def rising(positions: Ints32) -> Ints32:
    """Positions in rising order, each once."""
    return np.unique(positions) if len(positions) else positions


def merged(*parts: Ints32) -> Ints32:
    """The positions that are in any of some arrays, each of which rises, in rising order."""
    filled = [part for part in parts if len(part)]
    if len(filled) < 2:
        return filled[0] if filled else _NONE
    return np.unique(np.concatenate(filled))


def item_position(served: ServedRecommender, id: str | int, field: str) -> int:
    """The position of an item; a `Problem` for one that the model does not know."""
    position = served.items.find(id)
    if position < 0:
        raise Problem(
            "unknown_item",
            f"there is no item {id!r:.80} in the model; GET /v1/items?search= finds ids",
            field,
        )
    return position


def _positions(
    served: ServedRecommender,
    field: str,
    ids: Sequence[str | int],
    question: Question,
    ignored: list[str | int],
) -> Ints32:
    """The positions of ids; one that is not known is an error, or is passed over."""
    places: list[int] = []
    for number, id in enumerate(ids):
        if question.unknown == "error":
            places.append(item_position(served, id, as_field(field, number)))
        elif (position := served.items.find(id)) >= 0:
            places.append(position)
        else:
            ignored.append(id)
    return np.array(places, np.int32)


def _unknown_user(question: Question, ignored: list[str | int]) -> None:
    assert question.user is not None
    if question.unknown == "error":
        raise Problem(
            "unknown_user",
            f"there is no user {question.user!r:.80} in the model; give what a new user has as "
            "items, or say unknown: ignore",
            "$.user",
        )
    ignored.append(question.user)


def _features(served: ServedRecommender, question: Question, row: int) -> FeatureRows | None:
    """What is known of the user of a question, as numbers."""
    centres = served.model.factors_.users.centres
    if question.features is None:
        is_known = centres is not None and 0 <= row < len(centres.features)
        return centres.features.take(np.array([row])) if is_known else None
    if centres is None:
        raise bad_value(
            "$.features", "cannot be used: the model was trained without features of users"
        )
    encoder = centres.features.encoder
    columns = [column.settings.name for column in encoder.columns]
    strange = [name for name in question.features if name not in columns]
    if strange:
        raise bad_value("$.features", f"has a column {strange[0]!r:.80}; the model knows {columns}")
    try:
        matrix, _ = encoder.encode(encoder.table_of([question.features]), partly=True)
    except (ValueError, TypeError, OverflowError, pl.exceptions.PolarsError) as error:
        raise bad_value("$.features", str(error)) from None
    return FeatureRows(encoder, matrix)


def _lists_of(
    served: ServedRecommender, rules: RuleSet | None, ignored: list[str | int]
) -> tuple[Ints32 | None, Ints32]:
    """The items that may come alone, and those that may not; unknown ids are passed over."""
    if rules is None:
        return None, _NONE
    both: list[Ints32 | None] = []
    for ids in (rules.only, rules.exclude):
        both.append(None if ids is None else rising(known_items(served, ids)))
        ignored += [id for id in ids or () if served.items.find(id) < 0]
    only, excluded = both
    return only, _NONE if excluded is None else excluded


def _rules(served: ServedRecommender, question: Question) -> Rules | None:
    asked = question.rules
    if asked is not None and asked.pin:
        for place, id in asked.pin.items():
            item_position(served, id, as_field("rules", "pin", place))
    return served.book.rules(asked)
