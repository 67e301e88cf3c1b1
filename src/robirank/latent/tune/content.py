"""The weights of content scores: by held-out interactions, or by a rule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robirank._types import Floats32
from robirank._workers import Workers
from robirank.engine.interface import never
from robirank.latent.factors.content import Content, UserContent
from robirank.latent.factors.factors import Factors
from robirank.latent.solvers import make_solver, start_of
from robirank.latent.solvers.problem import Problem, TableShape
from robirank.latent.train.loop import Epochs, run_epochs
from robirank.latent.tune.judge import Group, groups
from robirank.latent.tune.split import Split

_STRENGTHS = (0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
_ERRORS = 2.0  # standard errors by which content scores must be better than none
_SHUFFLES, _DEVIATIONS = 16, 3.0  # of features among items; deviations above their mean
_MOST_USERS = 4000
_MOST_CELLS = 1 << 26  # scores of users and items that are held
_PLACES = 20  # of a list, whose scores are brought to one scale
_RULE = 200.0  # γ, for users with one interaction


def default_content(shape: TableShape) -> Content:
    r"""The weights from the mean number n̄ of a user's interactions alone: 200 / n̄² for both.

    The fewer interactions there are, the less factors know beside the features of these items.
    """
    mean = shape.users.mean()
    if not shape.has_item_features or not mean:
        return Content()
    weight = _RULE / mean**2
    return Content(weight, weight) if weight >= 1.0 else Content()


def search_content(
    problem: Problem, split: Split, workers: Workers, should_stop: Callable[[], bool] = never
) -> Content | None:
    """The weights under which a fit ranks held-out interactions best.

    None where it was stopped before its end.
    """
    solver = make_solver(problem, split.train, start_of(problem, split.train), workers)
    for _ in run_epochs(solver, Epochs(problem.epochs), should_stop):
        if should_stop():
            return None
    return best_content(solver.factors().on_host(), split, problem)


def best_content(factors: Factors, split: Split, problem: Problem) -> Content:
    """The weights under which factors rank held-out interactions best.

    The weight for old items is chosen on those, and the weight for new items on items whose
    interactions are all held out; where these cannot tell, it is the one for old items, so that
    scores of both have the same parts.
    """
    most = max(1, min(_MOST_USERS, _MOST_CELLS // split.train.n_items))
    by_name = groups(split, problem.seed, most)
    old = _best_weight(by_name["old"], factors, split, problem) if "old" in by_name else 0.0
    if "new_items" not in by_name:
        return Content(old, old)
    group = by_name["new_items"]
    new = _best_weight(group, factors, split, problem) or old
    before, after = (_spread(group, factors, split, weight) for weight in (old, new))
    return Content(old, new, before / after if min(before, after) > 0 else 1.0)


def _best_weight(group: Group, factors: Factors, split: Split, problem: Problem) -> float:
    """The weight of content scores that ranks a group best; 0 where none is surely better."""
    likeness = _likeness(group, split)
    values = np.array(
        [
            group.values(factors, split.metric, problem, added=np.float32(weight) * likeness)
            for weight in _STRENGTHS
        ]
    )
    means = np.pad(values[1:].mean(axis=1), 1, mode="edge")
    best = 1 + int(np.convolve(means, [0.25, 0.5, 0.25], mode="valid").argmax())
    gain = values[best] - values[0]
    is_sure = gain.mean() > _ERRORS * gain.std() / np.sqrt(len(gain))
    if is_sure and len(group.candidates) < len(gain):
        added = np.float32(_STRENGTHS[best]) * likeness
        is_sure = values[best].mean() > _by_chance(group, factors, split, problem, added)
    return _STRENGTHS[best] if is_sure else 0.0


def _by_chance(
    group: Group, factors: Factors, split: Split, problem: Problem, added: Floats32
) -> float:
    """What content scores may reach by chance: by items that have each other's features.

    Few items are a small sample, however many users rank them.
    """
    rng, items, means = np.random.default_rng(problem.seed), group.candidates, []
    for _ in range(_SHUFFLES):
        added[:, items] = added[:, rng.permutation(items)]
        means.append(group.values(factors, split.metric, problem, added=added).mean())
    return float(np.mean(means) + _DEVIATIONS * np.std(means))


def _spread(group: Group, factors: Factors, split: Split, weight: float) -> float:
    """How far the best items of a group stand out: their scores less the median, on average."""
    scores = factors.users.rows[group.users] @ factors.items.rows[group.candidates].T
    scores = scores + np.float32(weight) * _likeness(group, split)[:, group.candidates]
    n = scores.shape[1]
    places = [n // 2, max(3 * n // 4, n - _PLACES)]
    sorted_scores = np.partition(scores, places, axis=1)
    return float((sorted_scores[:, places[1]] - sorted_scores[:, places[0]]).mean())


def _likeness(group: Group, split: Split) -> Floats32:
    """The inner products of the profiles of a group's users with the features of all items."""
    features = split.train.item_features
    assert features is not None
    return UserContent(Content(), group.taken).likeness(features)
