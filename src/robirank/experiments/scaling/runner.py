"""Running the scaling experiment: the race, the simulation, and a run directory for both."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from robirank._threads import thread_count
from robirank.data.interactions import Interactions
from robirank.engine.interface import Sizes
from robirank.experiments._run_format import plain
from robirank.experiments.ltr.runner import circumstances
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.scaling.calibration import calibrate, million_song_part
from robirank.experiments.scaling.race import (
    NEGATIVES,
    Contestant,
    Result,
    ScalingData,
    ScalingExperiment,
    contestants,
    load,
    race,
    settings_of,
)
from robirank.experiments.scaling.simulation import (
    Network,
    Rates,
    Shape,
    epoch_time,
    million_song,
    stops_paying,
)
from robirank.experiments.scaling.tables import write_scaling_tables
from robirank.latent.solvers.sgd import xi_turns
from robirank.storage.files import write_text

__all__ = ["run_scaling"]

MACHINES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_BEYOND = 2048  # machines, to see whether the last of these still pay
_SONG_FACTORS = 64
_HAND_OUT = 5e-4  # seconds that a driver takes for a task, where Ray is not there to be measured


def run_scaling(
    experiment: ScalingExperiment,
    output: Path,
    *,
    title: str | None = None,
    console: Console | None = None,
    command: str | None = None,
) -> RunDirectory:
    """Run the race, calibrate and simulate, and write a run directory.

    All runs of the race take turns, so a race is done as a whole or not at all; one that is done
    is not repeated.

    Parameters
    ----------
    experiment : ScalingExperiment
    output : Path
        The run directory.
    title : str, optional
        What the report is called; the name of the data by default.
    console : rich.console.Console, optional
        Where progress is shown.
    command : str, optional
        The command to write down for whoever wants to repeat the run.
    """
    experiment.check()
    console = console or Console(stderr=True)
    data = load(experiment)
    run = RunDirectory.create(output, _settings(experiment, data, title, command))
    if run.finished and (run.path / "simulation.json").is_file():
        console.print(f"{run.path} is done already", highlight=False, markup=False)
        return run
    _say_what_there_is(console, experiment)
    with console.status("") as status:
        results, rates = race(experiment, data, lambda what: status.update(f"{what} …"))
        status.update("calibrating at the Million Song shape …")
        song_rates = calibrate(million_song_part(), _SONG_FACTORS, NEGATIVES, repeats=2)
        hand_out = None
        if experiment.ray:
            on_ray, hand_out = _on_ray(experiment, data, results, status.update)
            results += on_ray
    for result in results:
        run.append_fit(result.fit(experiment.seed), result.frame(experiment.seed))
    simulation = simulate(experiment, data.train, results, (rates, song_rates), hand_out)
    write_text(run.path / "simulation.json", json.dumps(plain(simulation), indent=1) + "\n")
    run.finish()
    write_scaling_tables(run)
    return run


def _on_ray(
    experiment: ScalingExperiment,
    data: ScalingData,
    results: Sequence[Result],
    tell: Callable[[str], None],
) -> tuple[list[Result], float]:
    """RoBiRank on a Ray cluster of this machine, and the driver's seconds a task."""
    from robirank.experiments.scaling.ray_race import ray_clocks, ray_cluster, ray_hand_out

    twins = {r.contestant.parts: r for r in results if r.contestant.method != "WARP"}
    found = []
    with ray_cluster(max(2, *experiment.workers)):
        tell("Ray, how long it takes to hand out a task …")
        hand_out = ray_hand_out()
        for contestant in contestants(experiment):
            if contestant.engine != "ray":
                continue
            tell(f"{contestant.name} …")
            params = settings_of(experiment, contestant, data.train.n_items) | {
                "factors": experiment.factors,
                "iterations": experiment.iterations,
                "negatives": NEGATIVES,
                "random_state": experiment.seed,
            }
            clocks, reached = ray_clocks(data, contestant.workers, params)
            twin = twins[contestant.parts]
            if reached["precision@1"] != twin.reached[-1]["precision@1"]:
                raise RuntimeError(
                    f"{contestant.name} must reach what {twin.contestant.name} does, but has "
                    f"precision@1 {reached['precision@1']} and not "
                    f"{twin.reached[-1]['precision@1']}"
                )
            found.append(Result(contestant, clocks, twin.reached))
    return found, hand_out


def _say_what_there_is(console: Console, experiment: ScalingExperiment) -> None:
    cores = thread_count()
    crowded = [p for p in experiment.workers if p > cores]
    if crowded:
        numbers = ", ".join(map(str, crowded))
        console.print(
            f"{cores} cores for {numbers} workers: they take turns on them. Processor time says "
            "what each would need on a core of its own.",
            highlight=False,
        )


def _settings(
    experiment: ScalingExperiment, data: ScalingData, title: str | None, command: str | None
) -> dict[str, Any]:
    options = {k: v for k, v in asdict(experiment).items() if k not in ("data", "seed")}
    if experiment.data is not None:
        del options["shape"]
    return {
        "kind": "scaling",
        "title": title or f"Scaling, {data.name} data",
        "data": {
            "name": data.name,
            "folds": 1,
            "users": data.train.n_users,
            "items": data.train.n_items,
            "train": len(data.train),
            "test": len(data.test),
            "test_users": len(data.users),
        },
        "convention": "binary",
        "select": "precision@1",
        "k_max": 10,
        "seed": experiment.seed,
        "methods": [contestant.name for contestant in contestants(experiment)],
        "options": options,
        **circumstances(command),
    }


def simulate(
    experiment: ScalingExperiment,
    train: Interactions,
    results: Sequence[Result],
    rates: tuple[Rates, Rates],
    hand_out: float | None,
) -> dict[str, Any]:
    """All that is simulated, and what it is compared with.

    Parameters
    ----------
    rates : pair of Rates
        At the shape of the data, and at that of the Million Song data.
    hand_out : float or None
        Seconds that a driver takes for a task; None where that was not measured.
    """
    driver = Network(
        experiment.bandwidth, experiment.latency, _HAND_OUT if hand_out is None else hand_out
    )
    cores = thread_count()
    here = _shape(train, experiment.factors)
    song = million_song(_SONG_FACTORS)
    song = replace(song, xi_share=1 / _turns(song))
    ladder = [r for r in results if _is_step(r.contestant)]
    shapes = (("These data", here), ("Million Song shape", song))
    return {
        "cores": cores,
        "core_share": _core_share(results),
        "network": asdict(driver),
        "hand_out_measured": hand_out is not None,
        "checks": [_check(result, here, rates[0], cores) for result in ladder],
        "shapes": [
            _scaled(name, shape, of_shape, driver)
            for (name, shape), of_shape in zip(shapes, rates, strict=True)
        ],
    }


def _is_step(contestant: Contestant) -> bool:
    """Whether this is RoBiRank with as many parts as threads, which is compared."""
    return (
        contestant.engine == "local"
        and contestant.method != "WARP"
        and contestant.workers == contestant.parts
    )


def _shape(train: Interactions, factors: int) -> Shape:
    of_items = np.bincount(train.matrix.indices, minlength=train.n_items)
    shape = Shape(train.lengths.astype(float), of_items.astype(float), factors)
    return replace(shape, xi_share=1 / _turns(shape))


def _turns(shape: Shape) -> int:
    users = len(shape.user_counts)
    active = int(np.count_nonzero(shape.user_counts))
    sizes = Sizes(users, active, shape.n_items, round(shape.n_records))
    return xi_turns(sizes, shape.factors, NEGATIVES)


def _core_share(results: Sequence[Result]) -> float:
    """How much of a core one thread got, where there was but one."""
    local = [r for r in results if r.contestant.engine == "local"]
    alone = [c for r in local if r.contestant.workers == 1 for c in r.clocks]
    busy = sum(float(clock.busy.sum()) + clock.serial for clock in alone)
    return busy / sum(clock.elapsed for clock in alone)


def _check(result: Result, shape: Shape, rates: Rates, cores: int) -> dict[str, Any]:
    """What was measured, an epoch, beside what the simulation says."""
    p = result.contestant.workers
    predicted = epoch_time(shape, rates, None, p, cores=min(p, cores))
    n = len(result.clocks)
    return {
        "workers": p,
        "elapsed": sum(clock.elapsed for clock in result.clocks) / n,
        "path": sum(clock.path for clock in result.clocks) / n,
        "busy": sum(float(clock.busy.sum()) for clock in result.clocks) / n / p,
        "predicted_elapsed": predicted.total,
        "predicted_path": predicted.path,
        "predicted_busy": predicted.compute,
    }


def _scaled(name: str, shape: Shape, rates: Rates, driver: Network) -> dict[str, Any]:
    """Epochs on more and more machines that hand on blocks; and where a driver hands out tasks."""
    most = min(len(shape.user_counts), shape.n_items // 2)
    looked_at = [p for p in (*MACHINES, _BEYOND) if p <= most]
    by_driver = {p: epoch_time(shape, rates, driver, p) for p in looked_at}
    times = {p: replace(time, hand_out=0.0) for p, time in by_driver.items()}
    return {
        "name": name,
        "users": len(shape.user_counts),
        "items": shape.n_items,
        "records": round(shape.n_records),
        "factors": shape.factors,
        "xi_turns": round(1 / shape.xi_share),
        "rates": asdict(rates),
        "epochs": [
            {"machines": p, "total": t.total, **asdict(t)} for p, t in times.items() if p < _BEYOND
        ],
        "driver": [time.total for p, time in by_driver.items() if p < _BEYOND],
        "stops": stops_paying([(p, t.total) for p, t in times.items()]),
        "stops_driver": stops_paying([(p, t.total) for p, t in by_driver.items()]),
    }
