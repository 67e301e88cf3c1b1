"""The kinds of ``random_state`` that every function takes, and what is made of them.

Models draw from NumPy's RandomState, as scikit-learn's do; functions that make or split data draw
from its Generator. Both take all four kinds of ``random_state``. A Generator or RandomState that
is passed moves on with every use.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from robirank.errors import ArgumentError

RandomStateLike: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def as_random_state(random_state: RandomStateLike) -> np.random.RandomState:
    """A RandomState, as `sklearn.utils.check_random_state` gives it; also from a Generator."""
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
    """A new Generator, seeded by one draw from ``random_state``."""
    return np.random.default_rng(native_seed(as_generator(random_state)))


def native_seed(rng: np.random.Generator) -> int:
    """A seed for native code, drawn from a Generator."""
    return int(rng.integers(2**63))


def check_random_state_like(random_state: Any, below: int | None = None) -> None:
    """Raise an error unless ``random_state`` is of a valid kind; integers must be < ``below``."""
    is_source = isinstance(random_state, np.random.Generator | np.random.RandomState)
    is_seed = isinstance(random_state, Integral) and int(random_state) >= 0
    if is_seed and below is not None:
        is_seed = int(random_state) < below
    if not (is_source or is_seed or random_state is None):
        limit = "" if below is None else f" below {below}"
        raise ArgumentError(
            "random_state",
            f"must be an integer ≥ 0{limit}, a numpy.random.Generator, a "
            f"numpy.random.RandomState or None; got {random_state!r}",
        )
