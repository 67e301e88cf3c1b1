"""Figures of the server in the text format of Prometheus."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Histogram:
    """How many values lie in which range, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """The lines of the text format."""
        total, comma = 0, "," if labels else ""
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels}{comma}le="{bound}"}} {total}'
        braces = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{braces} {self._sum:.9g}"
        yield f"{name}_count{braces} {total}"


class Figures:
    """What the server counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[str, Histogram] = defaultdict(lambda: Histogram(_SECONDS))
        self._answers: dict[tuple[str, int], int] = defaultdict(int)
        self._batches: dict[str, Histogram] = defaultdict(lambda: Histogram(_SIZES))
        self._counts: dict[str, int] = dict.fromkeys(
            ("short_answers", "unknown_ids", "feedback_items", "reloads", "refused_reloads"), 0
        )

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        with self._lock:
            self._seconds[route].add(seconds)
            self._answers[route, status] += 1

    def batch(self, lane: str, size: int) -> None:
        """Count a batch of questions."""
        with self._lock:
            self._batches[lane].add(size)

    def count(self, what: str, n: int = 1) -> None:
        """Count something else, of what `__init__` names."""
        if n:
            with self._lock:
                self._counts[what] += n

    def text(self, gauges: dict[str, tuple[str, float]]) -> str:
        """All figures; ``gauges`` are further ones, with what they say."""
        with self._lock:
            lines = [*self._lines(gauges)]
        return "\n".join(lines) + "\n"

    def _lines(self, gauges: dict[str, tuple[str, float]]) -> Iterator[str]:
        yield from _head("request_seconds", "histogram", "Seconds from request to answer.")
        for route, seconds in self._seconds.items():
            yield from seconds.lines("robirank_request_seconds", f'route="{route}"')
        yield from _head("requests_total", "counter", "Requests by route and status.")
        for (route, status), n in self._answers.items():
            yield f'robirank_requests_total{{route="{route}",status="{status}"}} {n}'
        yield from _head("batch_size", "histogram", "Requests that shared one call.")
        for lane, sizes in self._batches.items():
            yield from sizes.lines("robirank_batch_size", f'lane="{lane}"')
        for what, n in self._counts.items():
            yield from _head(f"{what}_total", "counter", _COUNTED[what])
            yield f"robirank_{what}_total {n}"
        for name, (says, value) in gauges.items():
            yield from _head(name, "gauge", says)
            yield f"robirank_{name} {value:.9g}"


_COUNTED = {
    "short_answers": "Lists with fewer items than were wanted.",
    "unknown_ids": "Unknown users and items that requests named.",
    "feedback_items": "Items that users took.",
    "reloads": "Newer models that took the place of one.",
    "refused_reloads": "Newer models that were refused.",
}


def memory_bytes() -> int:
    """The memory of this process that lies in RAM; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _head(name: str, kind: str, says: str) -> tuple[str, str]:
    return f"# HELP robirank_{name} {says}", f"# TYPE robirank_{name} {kind}"
