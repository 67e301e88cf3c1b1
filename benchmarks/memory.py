"""Peak memory of fits, beside the formulas of docs/speed.md.

    python benchmarks/memory.py

Each fit runs in a process of its own, on a generated table; what is counted is what the process
needs more than before the fit, table included in neither. The last line is one JSON object.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import robirank as rr

#: Solver, users, items, interactions, factors.
FITS = [
    ("exact", 20_000, 20_000, 400_000, 64),
    ("exact", 120_000, 20_000, 400_000, 64),
    ("exact", 20_000, 80_000, 400_000, 64),
    ("sgd", 200_000, 100_000, 1_000_000, 64),
    ("sgd", 400_000, 100_000, 1_000_000, 64),
    ("sgd", 200_000, 200_000, 1_000_000, 64),
    ("sgd", 200_000, 100_000, 8_000_000, 64),
]


def expected(solver: str, users: int, items: int, interactions: int, factors: int) -> float:
    """The formula of docs/speed.md, in bytes."""
    if solver == "exact":
        return 4 * factors * (users + 8 * items) + 24 * interactions
    return 4 * factors * (2.7 * users + 2 * items) + 13 * interactions + 80e6


def peak() -> float:
    """The largest memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(solver: str, users: int, items: int, interactions: int, factors: int) -> float:
    """Bytes that a fit of one epoch needs beside its table."""
    warm = rr.make_interactions(500, 300, 5000, random_state=0)
    options = {"solver": solver, "regularization": 0.1, "iterations": 1, "random_state": 0}
    rr.LatentRoBiRank(4, **options).fit(warm, show_progress=False)
    table = rr.make_interactions(users, items, interactions, random_state=0)
    before = peak()
    rr.LatentRoBiRank(factors, **options).fit(table, show_progress=False)
    return peak() - before


def main() -> None:
    figures = []
    print("solver   users   items  interactions  factors   peak MB  formula MB  ratio")
    for fit in FITS:
        command = [sys.executable, __file__, json.dumps(fit)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        bytes_, formula = float(ran.stdout.splitlines()[-1]), expected(*fit)
        figures.append({"fit": fit, "bytes": bytes_, "formula": formula})
        solver, users, items, n, d = fit
        print(
            f"{solver:6} {users:7,} {items:7,}  {n:12,}  {d:7} "
            f"{bytes_ / 1e6:9,.0f} {formula / 1e6:11,.0f}  {bytes_ / formula:5.2f}",
            flush=True,
        )
    print(json.dumps(figures))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(measure(*json.loads(sys.argv[1])))
    else:
        main()
