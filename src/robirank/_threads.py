"""The number of threads to use."""

from __future__ import annotations

import os
from numbers import Integral

from robirank.errors import ArgumentError

#: More threads are of no use, and starting them can take minutes.
_MOST = 1024
#: Multiplications from which on several threads are faster: one takes a few milliseconds for them.
_WORTH_THREADS = 1e8
#: Sorting one document into its list takes as long as reading so many cells of a table.
SORTED = 10
#: Reading and using one cell of a table takes as long as so many multiplications.
_CELL = 40.0


def thread_count(num_threads: int = 0) -> int:
    """The number of threads to run: ``num_threads``, or for 0 every core that this process may use.

    ``OMP_NUM_THREADS`` is respected. A forked child runs one thread: it would wait forever for the
    OpenMP threads of its parent, which were not copied. Results never depend on the number.
    """
    whole = isinstance(num_threads, Integral) and not isinstance(num_threads, bool)
    if not whole or num_threads < 0:
        raise ArgumentError("num_threads", f"must be 0 (all cores) or more; got {num_threads!r}")
    if num_threads > _MOST:
        raise ArgumentError("num_threads", f"must be at most {_MOST}; got {num_threads!r}")
    if num_threads:
        return int(num_threads)
    if _forked:
        return 1
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(int(limit), _MOST) if limit.isdigit() and int(limit) > 0 else _cores()


def threads_for(products: float, num_threads: int = 0) -> int:
    """The number of threads for so many multiplications: one, where waking others takes longer."""
    threads = thread_count(num_threads)
    return threads if products >= _WORTH_THREADS else 1


def threads_for_cells(cells: float, num_threads: int = 0) -> int:
    """The number of threads for reading ``cells`` of a table: as asked, or by the size."""
    return threads_for(_CELL * cells) if num_threads == 0 else thread_count(num_threads)


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
