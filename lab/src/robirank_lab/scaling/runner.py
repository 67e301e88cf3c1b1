"""The scaling experiment: precision against seconds on p workers, as in the paper.

RoBiRank p cuts users and items into p parts, one for each of p workers: threads of this process,
or processes of a Ray cluster on this machine. All runs begin at the same factors and come one after
the other. After every epoch the clocks stand still and precision is measured on the test part.

How fast the factors converge depends on the number of parts and on nothing else: p workers give the
same bits as one that does all p parts. So runs with many more parts than workers show what many
machines would reach after as many epochs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import Console

import robirank as rr
from robirank_lab.files import write_whole
from robirank_lab.latent.data import data_name, load_parts
from robirank_lab.latent.units import Snapshots, fit_model, snapshot_frame
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import Fit, InteractionData, ScalingExperiment
from robirank_lab.runner import run_in_turn, start_run
from robirank_lab.scaling.results import LEAD, table

METRICS = (LEAD, "precision@10")
_TEST = 0.2
_TEST_USERS = 10_000  # whose precision is measured, at most
_LIGHT = 0.05  # penalty of both methods for made data, whose users have clear tastes
_NEVER = 1e9  # seconds between checkpoints: none in the middle of a measurement


def has_ray() -> bool:
    """Whether Ray is installed."""
    return find_spec("ray") is not None


@dataclass(frozen=True)
class ScalingData:
    """The data of a run, and the seed that draws the users whose precision is measured."""

    train: rr.Interactions
    test: rr.Interactions
    seed: int

    @cached_property
    def users(self) -> NDArray[np.int64]:
        """The users whose precision is measured."""
        users = np.random.default_rng(self.seed).permutation(np.flatnonzero(self.test.lengths))
        return np.sort(users[:_TEST_USERS])

    def precision(self, model: Any) -> rr.Evaluation:
        """What a model reaches on the test part."""
        return rr.evaluate(model, train=self.train, test=self.test, k=(1, 10), users=self.users)

    def describe(self, name: str) -> InteractionData:
        """The facts of the data."""
        return InteractionData(
            name=name,
            users=self.train.n_users,
            items=self.train.n_items,
            train=len(self.train),
            test=len(self.test),
            test_users=len(self.users),
        )


def load(
    data: Path | None, shape: tuple[int, int, int], columns: Mapping[str, Any], seed: int
) -> ScalingData:
    """Read the data as the latent experiment does, or make them: users, items, interactions."""
    if data is not None:
        parts = load_parts(data, columns, seed)
        return ScalingData(parts.learned, parts.test, seed)
    whole = rr.make_interactions(*shape, random_state=seed)
    return ScalingData(*rr.split_ratio(whole, _TEST, random_state=seed), seed)


@dataclass(frozen=True)
class Workers:
    """Who does the work of a run: "threads" or "ray", how many, on how many parts."""

    engine: str
    workers: int
    parts: int


def planned_runs(experiment: ScalingExperiment) -> dict[str, Workers]:
    """RoBiRank on each number of workers, WARP on the fewest and the most, and more parts, by name.

    Examples
    --------
    >>> list(planned_runs(ScalingExperiment(workers=(1, 2), parts=(2, 32))))
    ['RoBiRank 1', 'RoBiRank 2', 'WARP 1', 'WARP 2', 'RoBiRank, 32 parts']
    """
    numbers, most = experiment.workers, max(experiment.workers)
    more = [n for n in experiment.parts if n not in numbers]
    on_ray = {f"RoBiRank {p}, Ray": Workers("ray", p, p) for p in numbers}
    return {
        **{f"RoBiRank {p}": Workers("threads", p, p) for p in numbers},
        **{f"WARP {p}": Workers("threads", p, p) for p in (1, most)},
        **{f"RoBiRank, {n} parts": Workers("threads", most, n) for n in more},
        **(on_ray if experiment.ray else {}),
    }


def run_scaling(
    data: Path | None,
    experiment: ScalingExperiment,
    output: Path,
    *,
    shape: tuple[int, int, int] = (12_000, 12_000, 600_000),
    columns: Mapping[str, Any] | None = None,
    console: Console | None = None,
) -> RunDirectory:
    """Measure all runs and write a run directory; those that are done are not repeated.

    Parameters
    ----------
    data : Path or None
        As for the latent experiment; None makes data of the given shape: users, items and
        interactions.
    experiment : ScalingExperiment
        What decides the numbers.
    output, columns, console
        As in `robirank_lab.latent.runner.run_latent`.
    """
    if 1 not in experiment.workers:
        problem = "must hold 1, which the others are compared with; got "
        raise rr.ArgumentError("workers", f"{problem}{list(experiment.workers)}")
    loaded = load(data, shape, columns or {}, experiment.seed)
    facts = loaded.describe("made" if data is None else data_name(data))
    runs, title = planned_runs(experiment), f"Scaling, {facts.name} data"
    run = start_run(experiment, output, data=facts, methods=list(runs), title=title)

    def work(name: str, _: str, on_step: Callable[[str], None]) -> tuple[Fit, pl.DataFrame]:
        who = runs[name]
        make = partial(rr.LatentRoBiRank, solver="sgd") if "RoBiRank" in name else rr.WARP
        model = make(
            factors=experiment.factors,
            iterations=experiment.iterations,
            regularization=_LIGHT if data is None else None,
            parts=who.parts,
            num_threads=who.workers,
            random_state=experiment.seed,
        )
        if who.engine == "threads":
            frame, processor_seconds = on_threads(model, name, loaded, on_step)
        else:
            frame, processor_seconds = on_ray(model, name, who.workers, loaded, run)
        fit = Fit(
            method=name,
            case="",
            params=asdict(who),
            final_seconds=float(frame["seconds"].to_numpy()[-1]),
            processor_seconds=processor_seconds,
        )
        return fit, frame

    run_in_turn(run, work, console or Console(stderr=True))
    write_whole(run.path / "table.md", table(run))
    return run


def on_threads(
    model: Any, name: str, data: ScalingData, on_step: Callable[[str], None]
) -> tuple[pl.DataFrame, float]:
    """A run on threads of this process: its results, and the processor seconds of training."""
    snapshots = Snapshots(data.precision, on_step, every_epoch=True)
    fit_model(model, data.train, (snapshots,))
    return snapshot_frame(name, "", snapshots.taken, METRICS), snapshots.processor_seconds


def on_ray(
    model: Any, name: str, workers: int, data: ScalingData, run: RunDirectory
) -> tuple[pl.DataFrame, float]:
    """A run on a Ray cluster, of which the times are new and nothing else.

    With as many parts, a cluster computes the same bits as threads: precision after each epoch is
    that of the run on threads, and after the last epoch this is checked.
    """
    seconds: list[float] = []
    with TemporaryDirectory() as folder:
        path = Path(folder)
        cut = {"parts": model.parts, "random_state": model.random_state}
        parts = rr.partition(data.train, path / "parts", **cut)
        model.engine = rr.RayConfig(path / "run", workers=workers, checkpoint_seconds=_NEVER)
        fit_model(model, parts, [lambda report: seconds.append(report.seconds)])
        reached = data.precision(rr.FactorModel.of(model.user_factors, model.item_factors))[LEAD]
        lines = (path / "run" / "workers.jsonl").read_text("utf-8").splitlines()
    busy = sum(json.loads(line).get("busy_seconds", 0.0) for line in lines)
    same = run.results().filter(pl.col("method") == name.removesuffix(", Ray"))
    expected = same.filter(pl.col("metric") == LEAD)["value"][-1]
    if reached != expected:
        raise RuntimeError(f"{LEAD} must be that of threads, {expected}, but it is {reached}")
    epochs = pl.Series(range(1, len(seconds) + 1), dtype=pl.Int32)
    clock = pl.DataFrame({"epoch": epochs, "seconds": seconds})
    frame = same.drop("seconds").join(clock, on="epoch").with_columns(method=pl.lit(name))
    return frame, busy
