"""How many threads to use."""

from __future__ import annotations

import os


def thread_count(n_threads: int | None) -> int:
    """The number of threads to run: as asked, or every core this process may use.

    ``OMP_NUM_THREADS`` is respected. Results never depend on the number.
    """
    if n_threads is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return int(limit) if limit.isdigit() and int(limit) > 0 else _cores()
    if isinstance(n_threads, bool) or n_threads != int(n_threads) or n_threads < 1:
        raise ValueError(f"n_threads must be a positive integer or None; got {n_threads!r}")
    return int(n_threads)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1
