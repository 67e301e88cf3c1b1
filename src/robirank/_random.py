"""What ``random_state`` may be, everywhere, and how it is read.

Models draw from NumPy's RandomState, as scikit-learn's do; functions that make or split data draw
from its Generator. Both take all four kinds of ``random_state``. A Generator or RandomState that
is passed moves on with every use.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

RandomStateLike: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def as_random_state(random_state: RandomStateLike) -> np.random.RandomState:
    """A RandomState, as `sklearn.utils.check_random_state` gives it; also from a Generator.

    Examples
    --------
    >>> int(as_random_state(0).randint(100)), int(np.random.RandomState(0).randint(100))
    (44, 44)
    """
    from sklearn.utils import check_random_state  # imported here: reading data does without it

    check_random_state_like(random_state, below=2**32)
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.bit_generator)
    state: np.random.RandomState = check_random_state(random_state)
    return state


def as_generator(random_state: RandomStateLike) -> np.random.Generator:
    """A Generator, as `numpy.random.default_rng` gives it; also from a RandomState."""
    check_random_state_like(random_state)
    if isinstance(random_state, np.random.RandomState):  # NumPy before 2.2 does not take it
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint64))
    return np.random.default_rng(random_state)


def new_generator(random_state: RandomStateLike) -> np.random.Generator:
    """A Generator of the caller's own, seeded by one draw from ``random_state``."""
    return np.random.default_rng(native_seed(as_generator(random_state)))


def native_seed(rng: np.random.Generator) -> int:
    """A seed for native code."""
    return int(rng.integers(2**63))


def check_random_state_like(random_state: Any, below: int | None = None) -> None:
    """Raise an error unless it is one of the four kinds; ``below`` limits an integer."""
    known = isinstance(random_state, np.random.Generator | np.random.RandomState)
    seed = isinstance(random_state, Integral) and int(random_state) >= 0
    if seed and below is not None:
        seed = int(random_state) < below
    if not (known or seed or random_state is None):
        limit = "" if below is None else f" below {below}"
        raise ValueError(
            f"random_state must be an integer ≥ 0{limit}, a numpy.random.Generator, a "
            f"numpy.random.RandomState or None; got {random_state!r}"
        )
