"""Where factors start: rows of length about one in random directions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from robirank._types import Floats32, Ints32
from robirank.data.records import Records
from robirank.latent.solvers.problem import Problem

_ROWS = 1 << 14  # made at a time


def random_start(problem: Problem, records: Records) -> tuple[Floats32, Floats32]:
    """Rows of length about one, in random directions; zeros for users without interactions."""
    U = random_rows(problem.seed, 0, records.n_users, problem.factors)
    U[records.user_counts() == 0] = 0.0
    return U, random_rows(problem.seed, 1, records.n_items, problem.factors)


def random_rows(seed: int, side: int, n: int, d: int) -> Floats32:
    """Normal numbers of variance 1 / d for n rows of U (side 0) or V (side 1).

    Examples
    --------
    >>> random_rows(seed=0, side=1, n=3, d=2).shape
    (3, 2)
    """
    rows = np.empty((n, d), dtype=np.float32)
    for first, block in _blocks(seed, side, n, d):
        rows[first : first + len(block)] = block
    return rows


def some_random_rows(
    seed: int, side: int, n: int, d: int, chosen: Sequence[Ints32]
) -> list[Floats32]:
    """Some of the rows that `random_rows` gives, without all of them at once.

    Examples
    --------
    >>> all_rows = random_rows(seed=0, side=1, n=5, d=2)
    >>> last, first = some_random_rows(0, 1, 5, 2, [np.array([4, 3]), np.array([0])])
    >>> bool((last == all_rows[[4, 3]]).all() and (first == all_rows[:1]).all())
    True
    """
    found = [np.empty((len(rows), d), dtype=np.float32) for rows in chosen]
    sorts = [np.argsort(rows) for rows in chosen]
    for first, block in _blocks(seed, side, n, d):
        for rows, sort, out in zip(chosen, sorts, found, strict=True):
            low, high = np.searchsorted(rows, [first, first + len(block)], sorter=sort)
            own = sort[low:high]
            out[own] = block[rows[own] - first]
    return found


def _blocks(seed: int, side: int, n: int, d: int) -> Iterator[tuple[int, Floats32]]:
    stream = np.random.default_rng([seed, side])
    for first in range(0, n, _ROWS):
        block = stream.standard_normal((min(_ROWS, n - first), d), dtype=np.float32)
        block /= np.float32(np.sqrt(d))
        yield first, block
