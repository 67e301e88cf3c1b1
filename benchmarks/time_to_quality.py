"""Recall@20 on the test part against seconds on two cores, for RoBiRank and its peers.

    python benchmarks/time_to_quality.py [--boards gowalla …] [--methods RoBiRank …]
                                         [--folder runs/quality]

Every method has 64 factors and two threads. Seconds are processor seconds of this process divided
by two, so that other work on the machine does not count; measuring stands outside of them, and wall
time is kept beside them. RoBiRank has its defaults. ALS and LightFM get the search of `robirank
experiment latent` on the published validation part, by fits of 16 epochs whose time is not counted.

The fit of "RoBiRank" finds its λ and then does what "RoBiRank, λ given" does, bit for bit. So of
the first only the search and one epoch are run, and its curve is that of the second, as much later
as the search takes; whoever asks for one gets both.

Each board is a run that `robirank report` draws. Finished methods are kept there, so a run that was
stopped goes on; all of it takes about an hour. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import robirank as rr
from boards import PUBLISHED
from robirank_lab.latent.data import Parts, describe_parts, load_parts
from robirank_lab.latent.methods import LATENT_FIELD, LatentMethod
from robirank_lab.latent.results import LearningCurve, learning_curves
from robirank_lab.latent.units import search, snapshot_epochs, snapshot_frame
from robirank_lab.report.write import write_report
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import Fit, GridPoint, LatentExperiment
from robirank_lab.runner import start_run

THREADS, SEED, FACTORS = 2, 0, 64
COMMON: dict[str, Any] = {"factors": FACTORS, "random_state": SEED, "num_threads": THREADS}
METRICS = RECALL, _ = "recall@20", "ndcg@20"
COLUMNS = {"user": 0, "item": 1, "header": False}
CASE = f"seed {SEED}"

DEFAULT, GIVEN, SGD = "RoBiRank", "RoBiRank, λ given", "RoBiRank sgd"
SETTINGS: dict[str, dict[str, Any]] = {SGD: {"solver": "sgd"}}
SEARCH_EPOCHS = 16
PEERS = {  # and the epochs of the fit that is measured
    "implicit ALS": (LATENT_FIELD["implicit ALS"], 16),
    "LightFM WARP": (
        LatentMethod(
            "LightFM WARP",
            "_lightfm:LightFMWarp",
            {"learning_rate": (0.05, 2.0), "alpha": (1e-6, 10.0)},
        ),
        64,
    ),
}
ALL = (DEFAULT, GIVEN, *PEERS, *SETTINGS)
BOARDS = ("gowalla", "yelp2018")
KEYS = {
    DEFAULT: "exact",
    GIVEN: "given",
    SGD: "sgd",
    "implicit ALS": "als",
    "LightFM WARP": "lightfm",
}


@dataclass(frozen=True)
class Snapshot:
    """What was reached after an epoch; processor seconds are divided by the threads."""

    epoch: int
    processor: float
    wall: float
    found: rr.Evaluation


class Clock:
    """Is called after every epoch: measures after some of them, while its clocks stand still."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._begin = _now()
        self.taken: list[Snapshot] = []

    def __call__(self, report: rr.EpochReport) -> None:
        """Measure if it is time."""
        before = _now()
        if report.epoch not in snapshot_epochs(report.epochs):
            return
        processor, wall = (a - b for a, b in zip(before, self._begin, strict=True))
        model = rr.FactorModel.of(report.user_factors, report.item_factors, THREADS)
        found = rr.evaluate(model, train=self._parts.learned, test=self._parts.test, k=20)
        self.taken.append(Snapshot(report.epoch, processor, wall, found))
        print(f"  {report.epoch:3d} {processor:8.1f} s {found['recall@20']:.4f}", flush=True)
        after = _now()
        self._begin = tuple(b + a - c for b, a, c in zip(self._begin, after, before, strict=True))


def _now() -> tuple[float, ...]:
    return time.process_time() / THREADS, time.perf_counter()


Unit = tuple[Fit, list[Snapshot]]


def fits(name: str, parts: Parts) -> Iterator[Unit]:
    """Run a method, with that which has the same fit."""
    if name in (DEFAULT, GIVEN):
        yield from default_fits(parts)
    elif name in PEERS:
        yield peer_fit(name, parts)
    else:
        clock = Clock(parts)
        rr.LatentRoBiRank(**COMMON, **SETTINGS[name]).fit(parts.learned, False, callbacks=[clock])
        yield unit(name, SETTINGS[name], clock.taken)


def default_fits(parts: Parts) -> Iterator[Unit]:
    begun = Clock(parts)
    model = rr.LatentRoBiRank(**COMMON)
    model.fit(parts.learned, False, callbacks=[begun, lambda _: True])
    params = {"regularization": model.regularization_}
    given = Clock(parts)
    rr.LatentRoBiRank(**COMMON, **params).fit(parts.learned, False, callbacks=[given])
    first, same = begun.taken[0], given.taken[0]
    assert dict(first.found) == dict(same.found), "the two must be one fit"
    later = [
        Snapshot(
            s.epoch,
            s.processor + first.processor - same.processor,
            s.wall + first.wall - same.wall,
            s.found,
        )
        for s in given.taken
    ]
    yield unit(DEFAULT, params, later)
    yield unit(GIVEN, params, given.taken)


def peer_fit(name: str, parts: Parts) -> Unit:
    """Choose on the validation part, then fit to both parts."""
    method, iterations = PEERS[name]
    experiment = LatentExperiment(
        factors=FACTORS, iterations=SEARCH_EPOCHS, select="ndcg@20", threads=THREADS
    )
    tried = search(method, parts, experiment, SEED, lambda what: print(f"  try {what}", flush=True))
    best = max(tried, key=lambda point: point.validation or 0.0)
    params = best.params | {"iterations": iterations}
    model, clock = method.make(params, **COMMON), Clock(parts)
    model.fit(parts.learned, False, callbacks=[clock])
    return unit(name, params, clock.taken, tried)


def unit(
    name: str, params: dict[str, Any], taken: list[Snapshot], tried: list[GridPoint] | None = None
) -> Unit:
    fit = Fit(method=name, case=CASE, params=params, grid=tried or [], final_seconds=taken[-1].wall)
    return fit, taken


def run_board(board: str, data: Path, folder: Path, methods: set[str]) -> RunDirectory:
    recall, ndcg, source = PUBLISHED[board]
    experiment = LatentExperiment(
        factors=FACTORS,
        seed=SEED,
        threads=THREADS,
        clock=f"processor time ÷ {THREADS}",
        published=dict(zip(METRICS, (recall, ndcg), strict=True)),
        source=source,
    )
    parts = load_parts(data, COLUMNS, SEED)
    run = start_run(
        experiment,
        folder,
        data=describe_parts(data, parts),
        methods=[name for name in ALL if name in methods],
        command=f"python benchmarks/time_to_quality.py --boards {board}",
    )
    while todo := [name for name, _ in run.todo() if name in methods]:
        print(f"{board}: {todo[0]}", flush=True)
        for fit, taken in fits(todo[0], parts):
            rows = [(s.epoch, s.processor, s.found) for s in taken]
            run.append_fit(fit, snapshot_frame(fit.method, CASE, rows, METRICS))
    if not run.missing():
        run.finish()
    print(f"report: {write_report(run.path)}")
    return run


def summary(board: str, curves: dict[str, LearningCurve]) -> dict[str, float | None]:
    figures: dict[str, float | None] = {}
    for method, curve in curves.items():
        key = f"{board}_{KEYS[method]}"
        figures |= {f"{key}_recall20": curve.last(RECALL), f"{key}_seconds": curve.seconds[-1]}
    for rival in (name for name in PEERS if name in curves):
        best = max(curves[rival].values[RECALL])
        figures[f"{board}_{KEYS[rival]}_best_recall20"] = best
        for method in (name for name in (DEFAULT, GIVEN, SGD) if name in curves):
            to = curves[method].seconds_to(RECALL, best)
            figures[f"{board}_{KEYS[method]}_seconds_to_{KEYS[rival]}"] = to
    return {name: None if v is None else round(float(v), 4) for name, v in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", nargs="*", default=list(BOARDS), choices=list(BOARDS))
    parser.add_argument("--methods", nargs="*", default=list(ALL), choices=list(ALL))
    parser.add_argument("--folder", type=Path, default=Path("runs/quality"))
    args = parser.parse_args()
    methods = {*args.methods, *((DEFAULT, GIVEN) if {DEFAULT, GIVEN} & {*args.methods} else ())}
    root = Path(os.environ.get("ROBIRANK_DATA", "../shared/data")) / "implicit"
    figures: dict[str, float | None] = {}
    for board in args.boards:
        run = run_board(board, root / board, args.folder / board, methods)
        figures |= summary(board, learning_curves(run.results(), run.complete_methods()))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
