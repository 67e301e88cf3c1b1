"""The scaling experiment: measured runs, the simulation, and a run directory for both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console

from robirank._threads import thread_count
from robirank.data.records import as_records
from robirank.experiments.latent.units import snapshot_frame
from robirank.experiments.run_dir import RunDirectory, write_json
from robirank.experiments.run_format import InteractionFacts, ScalingFit, ScalingSettings
from robirank.experiments.runner import start_run
from robirank.experiments.scaling.calibration import calibrate, million_song_part
from robirank.experiments.scaling.forecast import SONG_FACTORS, forecast
from robirank.experiments.scaling.runs import (
    MEASURES,
    NEGATIVES,
    Result,
    ScalingData,
    ScalingExperiment,
    load,
    measure_runs,
    planned_runs,
    settings_of,
)
from robirank.experiments.scaling.tables import write_tables


def run_scaling(
    experiment: ScalingExperiment, output: Path, *, console: Console | None = None
) -> RunDirectory[ScalingSettings]:
    """Measure the runs, calibrate and simulate, and write a run directory.

    All runs take turns, so they are done together or not at all; one that is done
    is not repeated.

    Parameters
    ----------
    experiment : ScalingExperiment
    output : Path
        The run directory.
    console : rich.console.Console, optional
        Where progress is shown.
    """
    experiment.check()
    console = console or Console(stderr=True)
    data = load(experiment)
    run = start_run(
        ScalingSettings,
        experiment,
        output,
        data=_facts(data),
        methods=[run.name for run in planned_runs(experiment)],
        title=f"Scaling, {data.name} data",
        shape=experiment.shape if experiment.data is None else None,
    )
    if run.finished and (run.path / "simulation.json").is_file():
        console.print(f"{run.path} is done already", highlight=False, markup=False)
        return run
    _warn_of_few_cores(console, experiment)
    with console.status("") as status:
        results, rates = measure_runs(experiment, data, lambda what: status.update(f"{what} …"))
        status.update("calibrating at the Million Song shape …")
        song_rates = calibrate(million_song_part(), SONG_FACTORS, NEGATIVES, repeats=2)
        hand_out = None
        if experiment.ray:
            on_ray, hand_out = _measure_on_ray(experiment, data, results, status.update)
            results += on_ray
    for result in results:
        run.append_fit(_fit(result), _frame(result))
    found = forecast(experiment, data.train, results, (rates, song_rates), hand_out)
    write_json(run.path / "simulation.json", found)
    run.finish()
    write_tables(run)
    return run


def _facts(data: ScalingData) -> InteractionFacts:
    return InteractionFacts(
        name=data.name,
        users=data.train.n_users,
        items=data.train.n_items,
        train=len(data.train),
        test=len(data.test),
        test_users=len(data.users),
    )


def _warn_of_few_cores(console: Console, experiment: ScalingExperiment) -> None:
    cores = thread_count()
    crowded = [p for p in experiment.workers if p > cores]
    if crowded:
        numbers = ", ".join(map(str, crowded))
        console.print(
            f"{cores} cores for {numbers} workers: they take turns on them. Processor time says "
            "what each would need on a core of its own.",
            highlight=False,
        )


def _measure_on_ray(
    experiment: ScalingExperiment,
    data: ScalingData,
    results: Sequence[Result],
    on_step: Callable[[str], None],
) -> tuple[list[Result], float]:
    """RoBiRank on a Ray cluster of this machine, and the driver's seconds a task."""
    from robirank.experiments.scaling.ray_runs import ray_clocks, ray_cluster, ray_hand_out

    local_runs = {r.run.parts: r for r in results if r.run.method != "WARP"}
    found = []
    with ray_cluster(max(2, *experiment.workers)):
        on_step("Ray, how long it takes to hand out a task …")
        hand_out = ray_hand_out()
        for run in planned_runs(experiment):
            if run.engine != "ray":
                continue
            on_step(f"{run.name} …")
            params = settings_of(experiment, run, as_records(data.train)) | {
                "factors": experiment.factors,
                "iterations": experiment.iterations,
                "negatives": NEGATIVES,
                "random_state": experiment.seed,
            }
            clocks, reached = ray_clocks(data, run.workers, params)
            local = local_runs[run.parts]
            if reached["precision@1"] != local.reached[-1]["precision@1"]:
                raise RuntimeError(
                    f"{run.name} must reach what {local.run.name} does, but has "
                    f"precision@1 {reached['precision@1']} and not "
                    f"{local.reached[-1]['precision@1']}"
                )
            found.append(Result(run, clocks, local.reached))
    return found, hand_out


def _fit(result: Result) -> ScalingFit:
    return ScalingFit(
        method=result.run.name,
        workers=result.run.workers,
        parts=len(result.clocks[0].xi),
        engine=result.run.engine,
        elapsed=[clock.elapsed for clock in result.clocks],
        path=[clock.path for clock in result.clocks],
        busy=np.sum([clock.busy for clock in result.clocks], axis=0),
    )


def _frame(result: Result) -> pl.DataFrame:
    seconds = np.cumsum([clock.elapsed for clock in result.clocks])
    taken = zip(range(1, len(seconds) + 1), seconds, result.reached, strict=True)
    return snapshot_frame(result.run.name, taken, MEASURES)
