"""How fast the exact solver is on this machine: one step of it, timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from itertools import count
from typing import NamedTuple

import numpy as np

from robirank._workers import Workers
from robirank.data.user_items import UserItems
from robirank.engine.interface import Sizes
from robirank.latent.factors.factors import ITEMS, USERS, Factors, Side, random_rows
from robirank.latent.solvers.exact import ExactSolver, batch_users
from robirank.latent.solvers.problem import Penalty, Problem
from robirank.latent.solvers.user_steps import StepSettings
from robirank.losses import RhoName

_ITEMS, _TAKEN = 4096, 16  # of the table, of a user
_SMALL, _LARGE = 16, 256  # users in a step
_TURNS, _STEPS = 2, 4  # of which one renews the curvature of the users


class Speed(NamedTuple):
    """Seconds of a step of the exact solver: for each item, and for each user and item.

    The first are those of Adam, which goes through all items in every step, however few its users
    are; the second those of the three products and of the listwise kernel.
    """

    item: float
    score: float

    def of_epoch(self, n_users: int, n_items: int, factors: int) -> float:
        """Seconds of an epoch."""
        steps = -(-n_users // batch_users(n_users, n_items, factors))
        return n_items * (steps * self.item + n_users * self.score)


@lru_cache
def measured_speed(factors: int, rho: RhoName, num_threads: int) -> Speed:
    """The speed of the exact solver on these threads of this machine; some 100 ms.

    Four steps on 16 and on 256 users and 4,096 items are timed twice each, and the least taken.

    Examples
    --------
    >>> speed = measured_speed(8, "log", 1)
    >>> 0 <= speed.item < 1e-4, 0 < speed.score < 1e-6
    (True, True)
    """
    small, large = (_seconds_of_step(n, factors, rho, num_threads) for n in (_SMALL, _LARGE))
    score = max((large - small) / (_LARGE - _SMALL), large / _LARGE / 4) / _ITEMS
    return Speed(max(0.0, small / _ITEMS - _SMALL * score), score)


def _seconds_of_step(n_users: int, factors: int, rho: RhoName, num_threads: int) -> float:
    rng, n_rows = np.random.default_rng(0), StepSettings.of(factors).steps * n_users
    apart = _ITEMS // _TAKEN  # each user has an item of every sixteenth of the catalogue
    items = np.arange(_TAKEN) * apart + rng.integers(0, apart, (n_rows, _TAKEN))
    table = UserItems(np.arange(n_rows + 1) * _TAKEN, items.astype(np.int32).ravel(), None, _ITEMS)
    sizes = Sizes(n_rows, n_rows, _ITEMS, table.n_interactions)
    penalty = Penalty.of_counts(0.1, table.user_counts(), table.item_counts())
    problem = Problem("exact", factors, 1, 0, rho, sizes, penalty, learning_rate=0.05)
    rows = random_rows(0, USERS, n_rows, factors), random_rows(0, ITEMS, _ITEMS, factors)
    seconds = []
    with Workers(num_threads) as workers:
        solver = ExactSolver(problem, table, Factors(*map(Side, rows)), workers)
        for _ in range(_TURNS):
            began = time.perf_counter()
            solver.epoch(0, 1, should_stop=_after(_STEPS))
            seconds.append((time.perf_counter() - began) / _STEPS)
    return min(seconds)


def _after(calls: int) -> Callable[[], bool]:
    """A function that returns True from its ``calls``-th call on."""
    number = count(1)
    return lambda: next(number) >= calls
