"""The weights of content scores: by held-out interactions, or by a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from robirank._types import Floats32, Floats64, Ints32
from robirank._workers import Workers
from robirank.engine.interface import never
from robirank.latent.factors.content import Content, UserContent
from robirank.latent.factors.factors import Factors
from robirank.latent.solvers import make_solver
from robirank.latent.solvers.problem import Problem, TableShape
from robirank.latent.train.local import random_start
from robirank.latent.train.loop import Epochs, run_epochs
from robirank.latent.tune.judge import Group, groups
from robirank.latent.tune.split import HELD_OUT, Split

_STRENGTHS = (0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
_ERRORS = 2.0  # standard errors by which content scores must be better than none
_SHUFFLES, _DEVIATIONS = 16, 3.0  # of features among items; deviations above their mean
_MOST_USERS = 1000
_MOST_CELLS = 1 << 26  # scores of users and items that are held
_SCALES = tuple(2.0 ** (step / 2) for step in range(-3, 4))  # of new items
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
    """The weights under which a fit of half the epochs ranks held-out interactions best.

    None where it was stopped before its end.
    """
    problem = replace(problem, epochs=max(1, problem.epochs // 2))
    solver = make_solver(problem, split.train, random_start(problem, split.train), workers)
    for _ in run_epochs(solver, Epochs(problem.epochs), should_stop):
        if should_stop():
            return None
    return best_content(solver.factors().on_host(), split, problem)


def best_content(factors: Factors, split: Split, problem: Problem) -> Content:
    """The weights under which factors rank held-out interactions best.

    The best weight for old items is found on those, the best one for new items on items whose
    interactions are all held out. Which of them count, and at which scale, is chosen on both.
    """
    by_name = groups(split, problem.seed, _most_users(split))
    old = _best_weight(by_name["old"], factors, split, problem) if "old" in by_name else 0.0
    if "new_items" not in by_name:
        return Content(old, old)
    group = by_name["new_items"]
    new = _best_weight(group, factors, split, problem)
    if not new and not _beats_chance(group, factors, split, problem):
        return Content(old, old)
    return _best_together([*{0.0, old}], [*{0.0, old, new / 2, new}], factors, split, problem)


def _best_weight(group: Group, factors: Factors, split: Split, problem: Problem) -> float:
    """The weight of content scores that ranks a group best; 0 where none is surely better."""
    likeness = _likeness(group, split)
    values = np.array(
        [
            group.values(factors, split.metric, problem, added=np.float32(weight) * likeness)
            for weight in _STRENGTHS
        ]
    )
    best = 1 + _peak(values[1:].mean(axis=1))
    gain = values[best] - values[0]
    weighted = np.float32(_STRENGTHS[best]) * likeness
    is_sure = _is_sure(gain) and _beats_chance(group, factors, split, problem, weighted)
    return _STRENGTHS[best] if is_sure else 0.0


def _beats_chance(
    group: Group, factors: Factors, split: Split, problem: Problem, added: Floats32 | None = None
) -> bool:
    """Whether a group of few items is ranked better than items that have each other's features.

    Few items are a small sample, however many users rank them. Many are ranked better for sure
    where users say so.
    """
    items = group.candidates
    if len(items) >= len(group.users):
        return True
    rng, rows = np.random.default_rng(problem.seed), factors.items.rows

    def value(order: Ints32) -> float:
        permuted = rows.copy()
        permuted[items] = rows[order]
        others = factors.with_rows(factors.users.rows, permuted)
        columns = None if added is None else added.copy()
        if columns is not None and added is not None:
            columns[:, items] = added[:, order]
        return float(group.values(others, split.metric, problem, added=columns).mean())

    by_chance = [value(rng.permutation(items)) for _ in range(_SHUFFLES)]
    return value(items) > float(np.mean(by_chance) + _DEVIATIONS * np.std(by_chance))


def _best_together(
    old: Sequence[float], new: Sequence[float], factors: Factors, split: Split, problem: Problem
) -> Content:
    """The weights, of some, that rank old and new items together best, with the best scale.

    All interactions of a new item are held out, and a tenth of those of an old one. Nobody knows
    how many of the interactions to come are with new items, so the metric is taken of all that is
    held out, and of all old and a tenth of new; the former counts thrice, each as a share of its
    best value.
    """
    every = np.arange(split.train.n_items)
    group = Group.of(split.train, split.held_out, every, _most_users(split), problem.seed)
    likeness, counts = _likeness(group, split), split.train.item_counts()
    chances = np.random.default_rng(problem.seed).random(group.held_out.n_interactions)
    fewer = group.held_out.take((counts[group.held_out.items] > 0) | (chances < HELD_OUT))
    users = np.flatnonzero(fewer.user_counts())
    fewer = fewer.rows(users)

    def values(content: Content) -> tuple[float, float]:
        scales, weights = content.of_items(counts)
        lists = group.lists(factors, split.metric, problem, scales, weights * likeness)
        of_all = group.metric_of(lists, split.metric).mean()
        if not len(users):
            return of_all, 0.0
        return of_all, group.metric_of(lists[users], split.metric, fewer).mean()

    pairs = list(product(sorted(old), sorted(new)))
    table = np.array([[values(Content(*pair, scale)) for scale in _SCALES] for pair in pairs])
    shares = table / np.maximum(table.max(axis=(0, 1)), 1e-12)
    together = shares @ [3.0, 1.0]
    peaks = [_peak(of_scales) for of_scales in together]
    best = int(np.argmax([row[peak] for row, peak in zip(together, peaks, strict=True)]))
    return Content(*pairs[best], _SCALES[peaks[best]])


def _is_sure(gain: Floats64) -> bool:
    """Whether the mean over users is above zero by more than chance."""
    return bool(gain.mean() > _ERRORS * gain.std() / np.sqrt(len(gain)))


def _peak(values: Floats64) -> int:
    """The place of the highest value, after a value has been averaged with its neighbours."""
    padded = np.pad(values, 1, mode="edge")
    return int(np.convolve(padded, [0.25, 0.5, 0.25], mode="valid").argmax())


def _most_users(split: Split) -> int:
    return max(1, min(_MOST_USERS, _MOST_CELLS // split.train.n_items))


def _likeness(group: Group, split: Split) -> Floats32:
    """The inner products of the profiles of a group's users with the features of all items."""
    features = split.train.item_features
    assert features is not None
    return UserContent(Content(), group.taken).likeness(features)
