"""What a fit costs, beside what was told before it.

    python benchmarks/cost.py [--turns 3] [--factors 64]

For tables of several shapes, made up, `LatentRoBiRank.estimate` is compared with the seconds of an
epoch of the exact solver and of "sgd", the least of some, and with the largest memory that a fit in
a process of its own has beyond what the imports and the table take. Ratios are told over real. The
last line is one JSON object. A minute on two cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import robirank as rr

SHAPES = ((2_000, 2_000, 40_000), (2_000, 20_000, 60_000), (20_000, 2_000, 200_000))
LARGE = (20_000, 20_000, 400_000)


def fitted(
    shape: tuple[int, int, int], factors: int, solver: str, epochs: int
) -> rr.LatentRoBiRank:
    """A short fit under a λ."""
    data = rr.make_interactions(*shape, random_state=0)
    model = rr.LatentRoBiRank(
        factors, solver=solver, regularization=0.2, iterations=epochs, random_state=0
    )
    return model.fit(data, show_progress=False)


def peak_of(shape: tuple[int, int, int], factors: int, solver: str) -> float:
    """Megabytes that a fit adds to what its process has before, in a process of its own."""
    command = [sys.executable, __file__, "--fit", solver, *map(str, shape), str(factors)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def fit_alone(solver: str, users: int, items: int, records: int, factors: int) -> None:
    """Print the megabytes that a fit takes at most; Linux forgets the peak before it."""
    fitted((50, 40, 500), factors, solver, 1)  # what is imported by a fit
    data = rr.make_interactions(users, items, records, random_state=0)
    model = rr.LatentRoBiRank(
        factors, solver=solver, regularization=0.2, iterations=1, random_state=0
    )
    Path("/proc/self/clear_refs").write_text("5")
    before = _kilobytes("VmRSS")
    model.fit(data, show_progress=False)
    print((_kilobytes("VmHWM") - before) / 1e3)


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--factors", type=int, default=64)
    parser.add_argument("--quick", action="store_true", help="small tables alone")
    parser.add_argument("--fit", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fit:
        fit_alone(args.fit[0], *map(int, args.fit[1:]))
        return
    figures = {}
    for shape in SHAPES[:1] if args.quick else (*SHAPES, LARGE):
        for solver in ("exact", "sgd"):
            data = rr.make_interactions(*shape, random_state=0)
            told = rr.LatentRoBiRank(args.factors, solver=solver, regularization=0.2).estimate(data)
            history = fitted(shape, args.factors, solver, args.turns).history_
            seconds = np.diff([0.0, *(epoch["seconds"] for epoch in history)]).min()
            peak = peak_of(shape, args.factors, solver)
            name = f"{shape[0]}x{shape[1]}_{solver}"
            figures |= {
                f"{name}_seconds_told_over_real": round(told.epoch_seconds / seconds, 2),
                f"{name}_megabytes_told": round(told.bytes / 1e6, 1),
                f"{name}_megabytes_real": round(peak, 1),
            }
            print(
                f"{name:20} epoch {seconds:.3g} s, told {told.epoch_seconds:.3g} s; "
                f"memory {peak:.0f} MB, told {told.bytes / 1e6:.0f} MB",
                flush=True,
            )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
