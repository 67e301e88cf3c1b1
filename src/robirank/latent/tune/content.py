"""The weights of content scores: by held-out interactions, or by a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from robirank._types import Floats32, Floats64
from robirank._workers import Workers
from robirank.engine.interface import never
from robirank.latent.factors.content import Content, UserContent
from robirank.latent.factors.factors import Factors
from robirank.latent.factors.list_metrics import check_metric
from robirank.latent.solvers import make_solver, start_of
from robirank.latent.solvers.problem import Problem, TableShape
from robirank.latent.train.loop import Epochs, run_epochs
from robirank.latent.tune.judge import Group, groups
from robirank.latent.tune.split import Split

_DEEP = 100  # places of the lists by which weights are chosen, at least
_STRENGTHS = (0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
_ERRORS = 2.0  # standard errors by which content scores must be better than none
_SHUFFLES, _DEVIATIONS = 16, 3.0  # of features among items; deviations above their mean
_SCALE_STEP = 2.0**0.25
_SCALES = tuple(_SCALE_STEP**n for n in range(-4, 5))  # of the scores of new items
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
    scores of both have the same parts. The scale of new items is chosen on both, ranked together.

    Weights are chosen by NDCG of 100 places or more: what factors do not tell stands further down
    than the first twenty, where few held-out interactions are.
    """
    by_name = groups(split, problem.seed)
    _, k = check_metric(split.metric)
    deep = replace(split, metric=f"ndcg@{max(k, _DEEP)}")
    old = _best_weight(by_name["old"], factors, deep, problem) if "old" in by_name else 0.0
    if "new_items" not in by_name:
        return Content(old, old)
    new = _best_weight(by_name["new_items"], factors, deep, problem) or old
    return Content(old, new, _best_scale(by_name, factors, split, problem, (old, new)))


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


def _best_scale(
    by_name: dict[str, Group],
    factors: Factors,
    split: Split,
    problem: Problem,
    weights: tuple[float, float],
) -> float:
    """The scale of new items under which both they and old ones are found among all items.

    It is the top of the product of the metric of held-out interactions with old items and that of
    those with new ones, so that neither is given up for the other, however many there are of each;
    1 where no other is surely better.
    """
    if "old" not in by_name:
        return 1.0
    everything = np.arange(split.train.n_items, dtype=np.int32)
    counts = split.train.item_counts()
    values = []  # of each group: under each scale, of each user
    for name in ("old", "new_items"):
        group = replace(by_name[name], candidates=everything)
        likeness = _likeness(group, split) if any(weights) else None
        of_scales = []
        for scale in _SCALES:
            scales, of_items = Content(*weights, scale).of_items(counts)
            added = None if likeness is None else of_items * likeness
            found = group.values(factors, split.metric, problem, scale=scales, added=added)
            of_scales.append(found)
        values.append(np.array(of_scales))
    with np.errstate(divide="ignore"):
        total = sum(np.log(of_group.mean(axis=1)) for of_group in values)
    best, one = int(np.argmax(total)), _SCALES.index(1.0)
    if not np.isfinite(total[one]) or not _is_surely_better(values, best, one):
        best = one
    return _SCALES[best] * _SCALE_STEP ** _top_beside(total, best)


def _is_surely_better(values: Sequence[Floats64], best: int, one: int) -> bool:
    """Whether the product of the means of some groups is larger under one scale, surely."""
    gain = variance = 0.0
    for of_group in values:
        usual = of_group[one].mean()
        gains = (of_group[best] - of_group[one]) / usual
        gain += float(np.log1p(gains.mean()))
        variance += float(gains.var()) / len(gains)
    return gain > _ERRORS * np.sqrt(variance)


def _top_beside(total: Floats64, best: int) -> float:
    """How far the top of a parabola through three values is from the middle one; 0 at an end."""
    around = total[best - 1 : best + 2]
    if best == 0 or len(around) < 3 or not np.isfinite(around).all():
        return 0.0
    bend = around[0] - 2 * around[1] + around[2]
    return float(np.clip((around[0] - around[2]) / (2 * bend), -1, 1)) if bend < 0 else 0.0


def _likeness(group: Group, split: Split) -> Floats32:
    """The inner products of the profiles of a group's users with the features of all items."""
    features = split.train.item_features
    assert features is not None
    return UserContent(Content(), group.taken).likeness(features)
