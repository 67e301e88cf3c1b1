"""The assignment of users to parts, which depends on the seed and the numbers alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_USERS = 0  # the key of the random stream that assigns users to parts


def count_parts(wanted: int, n_users: int, n_items: int) -> int:
    """The number of parts, limited so that every part has a user and every block two items."""
    return max(1, min(wanted, n_users, n_items // 2))


def user_parts(seed: int, n_users: int, parts: int) -> list[NDArray[np.int32]]:
    """Assign the users at random to parts whose sizes differ by at most one."""
    order = random_stream(seed, _USERS).permutation(n_users).astype(np.int32)
    return np.array_split(order, parts)


def random_stream(*key: int) -> np.random.Generator:
    """The random generator of a key; it gives the same numbers on every machine."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
