"""What ``random_state`` may be."""

from __future__ import annotations

from numbers import Integral

import numpy as np

RandomState = int | np.random.Generator | None


def generator(random_state: RandomState) -> np.random.Generator:
    """A generator of one's own, decided by an integer or drawn from another generator."""
    seed_ok = isinstance(random_state, Integral) and random_state >= 0
    if not (seed_ok or random_state is None or isinstance(random_state, np.random.Generator)):
        raise ValueError(
            "random_state must be an integer ≥ 0, a numpy.random.Generator or None; "
            f"got {random_state!r}"
        )
    seed = np.random.default_rng(random_state).integers(2**63)
    return np.random.default_rng(int(seed))


def native_seed(rng: np.random.Generator) -> int:
    """A seed for native code."""
    return int(rng.integers(2**63))
