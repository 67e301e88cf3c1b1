"""The reference of rules: a full sort of all items, gone through one by one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from robirank.latent.factors.topk import NOTHING


@dataclass
class Plain:
    """Rules in positions: what items may come, and what limits their numbers."""

    allowed: np.ndarray  # bool, for everyone
    caps: list = field(default_factory=list)  # (group of each item or −1, or several; cap of any)
    minimums: list = field(default_factory=list)  # (bool: is a member, number)
    pins: dict = field(default_factory=dict)  # place from 1 on: item
    ties: np.ndarray | None = None  # lower first


def full_sort(rules, scores, own_allowed, length, unasked=None, value=None):
    """The list of one user, and its scores; ``own_allowed`` says what this user may get.

    ``value(item, taken)`` says what an item is worth beside those that are taken, where lists are
    varied; without it the best score is next.
    """
    m = len(scores)
    ties = np.zeros(m) if rules.ties is None else rules.ties
    may = rules.allowed & own_allowed
    order = sorted(np.flatnonzero(may).tolist(), key=lambda i: (-scores[i], ties[i], i))
    pinned = {p: i for p, i in rules.pins.items() if p <= length and may[i]}
    taken = [*pinned.values()]

    def visit(items, room):
        for _ in range(room):
            items = [
                i for i in items if i not in taken and all(has_room(i, *c) for c in rules.caps)
            ]
            if not items:
                return
            taken.append(max(items, key=lambda i: value(i, taken)) if value else items[0])

    def has_room(item, of_item, cap):
        full = [
            sum(group in groups_of(of_item[i]) for i in taken) >= cap
            for group in groups_of(of_item[item])
        ]
        return not any(full)

    for members, number in rules.minimums:
        missing = number - sum(members[i] for i in taken)
        visit([i for i in order if members[i]], min(missing, length - len(taken)))
    visit([i for i in order if unasked is None or unasked[i]], length - len(taken))

    rest = [i for i in order if i in taken and i not in pinned.values()]
    if value:
        best, placed = [], [*pinned.values()]
        while rest:
            best.append(max(rest, key=lambda i: value(i, placed)))
            placed.append(best[-1])
            rest.remove(best[-1])
        rest = best
    best = []
    for place in range(1, length + 1):
        if place in pinned:
            best.append(pinned[place])
        elif rest:
            best.append(rest.pop(0))
    missing = length - len(best)
    return best + [-1] * missing, [scores[i] for i in best] + [NOTHING] * missing


def groups_of(entry):
    """The groups of an item, from a number (−1 for none) or from several."""
    if np.ndim(entry) == 0:
        return [entry] if entry >= 0 else []
    return list(entry)
