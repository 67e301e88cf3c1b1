"""The machine's rate of multiplying matrices, the floor under scripts that rank all items."""

from __future__ import annotations

import time

import numpy as np


def flops_per_second(largest: int) -> float:
    """What the machine's BLAS reaches on all cores with one large product; single precision.

    The matrices are square, of 3000 rows or of ``largest`` where that is less.
    """
    n = min(3000, largest)
    A = np.random.default_rng(0).standard_normal((n, n), dtype=np.float32)
    best = np.inf
    for _ in range(5):
        begin = time.perf_counter()
        A @ A
        best = min(best, time.perf_counter() - begin)
    return 2 * float(n) ** 3 / best
