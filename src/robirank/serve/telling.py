"""Items of answers with what is told of them: ids, names, scores, reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from robirank._types import Ints32
from robirank.data.user_items import UserItems
from robirank.latent.factors.reasons import Reasons, reasons
from robirank.serve.folding import folded_from
from robirank.serve.loaded import ServedRecommender
from robirank.serve.messages import Reason, Scored
from robirank.serve.problems import bad_value
from robirank.serve.wishes import Wish

_ROUNDING = 1e-4  # of a score
_MOST_REASONS = 20  # of a kind; the others are added up


def scored(
    ids: Sequence[Any],
    scores: Sequence[float],
    names: Sequence[str | None] | None,
    is_new: Sequence[bool],
) -> list[Scored]:
    """The items of a list."""
    if names is None:
        return [Scored(*one) for one in zip(ids, scores, [UNSET] * len(ids), is_new, strict=True)]
    called = [UNSET if name is None else name for name in names]
    return [Scored(*one) for one in zip(ids, scores, called, is_new, strict=True)]


def reasons_of(
    served: ServedRecommender, wish: Wish, positions: Ints32, items: Sequence[Scored]
) -> list[Scored]:
    """The items of one list, with the reasons of each score."""
    model = served.model
    model._check_can_explain()
    if wish.fold is not None:
        who, table = None, folded_from(served, [wish])
    elif served.history is None:
        raise bad_value("$.explain", "needs what users have: start the server with --train FILE")
    else:
        who, table = np.array([wish.row], np.int32), _of_user(served, wish.question.user)
    (subject,) = model._subjects(who, table, wish.features)
    side, ids = model.factors_.items, served.items.ids

    def called(places: Ints32) -> Any:
        return np.array(ids[places].tolist(), dtype=object)

    return [
        msgspec.structs.replace(
            item,
            reasons=_reasons(served, reasons(subject, side, int(position), called), item.score),
        )
        for position, item in zip(positions.tolist(), items, strict=True)
    ]


def _of_user(served: ServedRecommender, user: Any) -> UserItems:
    """What a user of the model has, with times where these are known."""
    assert served.history is not None
    items, times = served.history.items(user), served.history.times(user)
    return UserItems(np.array([0, len(items)]), items, None, len(served.items), times=times)


def _reasons(served: ServedRecommender, why: Reasons, score: float) -> list[Reason]:
    """The reasons of a score, the strongest first, which add up to it on each side."""
    damping = score - why.score  # what was taken off for popularity, and rounding
    is_damped = abs(damping) > _ROUNDING * max(1.0, abs(why.score))
    told = _items(served, why)
    told += _features("user", why.user_features)
    told.append(Reason("user", "rest", why.rest))
    if is_damped:
        told.append(Reason("user", "popularity", damping))
    told += _features("item", why.item_features)
    if is_damped and why.item_features:
        told.append(Reason("item", "popularity", damping))
    if why.item_rest is not None:
        told.append(Reason("item", "interactions", why.item_rest))
    return told


def _items(served: ServedRecommender, why: Reasons) -> list[Reason]:
    effects, others = why.effects.tolist(), why.others.tolist()
    order = np.argsort(-np.abs(why.effects), kind="stable").tolist()
    shown = [why.items[place] for place in order[:_MOST_REASONS]]
    positions = np.array([served.items.find(id) for id in shown], np.int32)
    names = served.catalogue.names(positions) or [None] * len(shown)
    told = [
        Reason("user", "item", effects[place], id, UNSET if name is None else name, others[place])
        for place, id, name in zip(order, shown, names, strict=False)
    ]
    left = order[_MOST_REASONS:]
    if left:
        sums = (sum(every[place] for place in left) for every in (effects, others))
        effect, other = sums
        told.append(Reason("user", "other items", effect, others=other))
    return told


def _features(side: Any, effects: Any) -> list[Reason]:
    strongest = sorted(effects.items(), key=lambda pair: -abs(pair[1]))
    told = [Reason(side, "feature", e, name=name) for name, e in strongest[:_MOST_REASONS]]
    left = strongest[_MOST_REASONS:]
    if left:
        told.append(Reason(side, "other features", sum(effect for _, effect in left)))
    return told
