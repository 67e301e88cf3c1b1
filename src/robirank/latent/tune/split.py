"""Tables in two parts: interactions to train on, and held-out ones that show what is best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robirank._types import Ints64
from robirank.data.user_items import UserItems

#: Held-out interactions that a search needs; below, the metric is mostly chance.
LEAST_HELD_OUT = 1000

#: Streams of random numbers: what is held out, which users are taken.
SPLIT, _SAMPLE = 3, 4


@dataclass(frozen=True)
class Split:
    """Interactions to train on, held-out ones, and the metric that ranks the latter.

    Where items have features, some items have all their interactions among the held-out ones, and
    so have some users where users have features: what is best for them shows only there.
    """

    train: UserItems
    held_out: UserItems
    metric: str


def sample_users(users: Ints64, count: int, seed: int) -> Ints64 | None:
    """A random sample of ``count`` users; None where there are no more than that."""
    if len(users) <= count:
        return None
    rng = np.random.default_rng([seed, _SAMPLE])
    return np.sort(rng.choice(users, count, replace=False))
