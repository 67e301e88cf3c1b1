"""How many threads to use."""

from __future__ import annotations

import os


def thread_count(n_threads: int | None) -> int:
    """The number of threads to run: as asked, or every core this process may use.

    ``OMP_NUM_THREADS`` is respected. A forked child runs one thread, because the threads of its
    parent's OpenMP did not come along and would be waited for. Results never depend on the number.
    """
    if n_threads is None:
        if _forked:
            return 1
        limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
        return int(limit) if limit.isdigit() and int(limit) > 0 else _cores()
    if isinstance(n_threads, bool) or n_threads != int(n_threads) or n_threads < 1:
        raise ValueError(f"n_threads must be a positive integer or None; got {n_threads!r}")
    return int(n_threads)


_forked = False


def _after_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1
