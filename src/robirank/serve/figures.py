"""Figures of the server in the text format of Prometheus, of all workers together."""

from __future__ import annotations

import mmap
import os
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from robirank._types import Floats64
from robirank.serve.problems import CODES

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_STATUSES = (200, *sorted({status for status, _ in CODES.values()}))
_COUNTED = {
    "short_answers": "Lists with fewer items than were wanted.",
    "unknown_ids": "Unknown users and items that requests named.",
    "feedback_items": "Items that users took.",
    "reloads": "Newer models that took the place of one; each worker counts.",
    "refused_reloads": "Newer models that were refused; each worker counts.",
}


class Figures:
    """What the server counts: numbers in one array, at places that the routes and lanes fix.

    Workers share a table, in which each has a row of its own that nobody else writes to; what is
    told is the sum of all rows. A worker that takes the place of another goes on with its row.

    Parameters
    ----------
    routes, lanes : sequence of str
        The paths, and the names of threads, that are told apart.

    Examples
    --------
    >>> figures = Figures(["/v1/rank"], ["slow"])
    >>> figures.count("reloads", 2)
    >>> [line for line in figures.text({}).splitlines() if "reloads_total 2" in line]
    ['robirank_reloads_total 2']
    """

    def __init__(self, routes: Sequence[str], lanes: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._routes, self._lanes = routes, lanes
        lengths: dict[tuple[str | int, ...], int] = {}
        for route in routes:
            lengths["seconds", route] = len(_SECONDS) + 2  # a number a range, and the sum
            lengths |= {("answers", route, status): 1 for status in _STATUSES}
        lengths |= {("batches", lane): len(_SIZES) + 2 for lane in lanes}
        lengths |= {("counts", what): 1 for what in _COUNTED}
        ends = np.cumsum([*lengths.values()]).tolist()
        self._places = dict(zip(lengths, [0, *ends], strict=False))
        self._table: Floats64 = np.zeros((1, ends[-1]))
        self._row = memoryview(self._table[0])

    def share(self, path: Path, row: int, rows: int) -> None:
        """Count in a row of a file from now on, which as many workers map as there are rows."""
        width = self._table.shape[1]
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, 8 * rows * width)
            memory = mmap.mmap(descriptor, 8 * rows * width)
        finally:
            os.close(descriptor)
        table = np.frombuffer(memory, np.float64).reshape(rows, width)
        with self._lock:
            table[row] += self._table[0]
            self._table, self._row = table, memoryview(table[row])

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        with self._lock:
            self._add(("seconds", route), _SECONDS, seconds)
            self._row[self._places["answers", route, status]] += 1

    def batch(self, lane: str, size: int) -> None:
        """Count a batch of questions."""
        with self._lock:
            self._add(("batches", lane), _SIZES, size)

    def count(self, what: str, n: int = 1) -> None:
        """Count something else, of what `_COUNTED` names."""
        with self._lock:
            self._row[self._places["counts", what]] += n

    def text(self, gauges: dict[str, tuple[str, float]]) -> str:
        """All figures; ``gauges`` are further ones, with what they say."""
        lines = [*self._lines(self._table.sum(axis=0).tolist())]
        for name, (says, value) in gauges.items():
            lines += [*_head(name, "gauge", says), f"robirank_{name} {value:.9g}"]
        return "\n".join(lines) + "\n"

    def _add(self, key: tuple[str, str], bounds: Sequence[float], value: float) -> None:
        place = self._places[key]
        self._row[place + bisect_left(bounds, value)] += 1
        self._row[place + len(bounds) + 1] += value

    def _lines(self, sums: list[float]) -> Iterator[str]:
        yield from _head("request_seconds", "histogram", "Seconds from request to answer.")
        for route in self._routes:
            place = self._places["seconds", route]
            yield from _histogram("request_seconds", f'route="{route}"', _SECONDS, sums[place:])
        yield from _head("requests_total", "counter", "Requests by route and status.")
        for route in self._routes:
            for status in _STATUSES:
                if n := sums[self._places["answers", route, status]]:
                    labels = f'route="{route}",status="{status}"'
                    yield f"robirank_requests_total{{{labels}}} {n:.0f}"
        yield from _head("batch_size", "histogram", "Requests that shared one call.")
        for lane in self._lanes:
            place = self._places["batches", lane]
            yield from _histogram("batch_size", f'lane="{lane}"', _SIZES, sums[place:])
        for what, says in _COUNTED.items():
            yield from _head(f"{what}_total", "counter", says)
            yield f"robirank_{what}_total {sums[self._places['counts', what]]:.0f}"


def _histogram(
    name: str, labels: str, bounds: Sequence[float], numbers: Sequence[float]
) -> Iterator[str]:
    """The lines of a histogram, from the numbers of its ranges and the sum; none for no values."""
    n_ranges, total = len(bounds) + 1, 0.0
    if not any(numbers[:n_ranges]):
        return
    for bound, number in zip((*bounds, "+Inf"), numbers, strict=False):
        total += number
        yield f'robirank_{name}_bucket{{{labels},le="{bound}"}} {total:.0f}'
    yield f"robirank_{name}_sum{{{labels}}} {numbers[n_ranges]:.9g}"
    yield f"robirank_{name}_count{{{labels}}} {total:.0f}"


def memory_bytes() -> int:
    """The memory of this process that lies in RAM; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _head(name: str, kind: str, says: str) -> tuple[str, str]:
    return f"# HELP robirank_{name} {says}", f"# TYPE robirank_{name} {kind}"
