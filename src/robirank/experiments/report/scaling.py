"""What the report of a scaling run knows and says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robirank.experiments.report.sentences import share
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import ScalingSettings
from robirank.experiments.scaling.forecast import Check, ShapeForecast
from robirank.experiments.scaling.results import PARTS_OF_TIME, ScalingRun, Work, read_scaling

__all__ = ["scaling_parts"]

LEAD = "precision@1"
_SHOWN = (32, 1024)  # machines whose precision is simulated


def scaling_parts(run: RunDirectory[ScalingSettings]) -> dict[str, Any]:
    """What the page of a scaling run shows that differs from that of others."""
    found = read_scaling(run)
    settings = run.settings
    return {
        "sections": ("speed", "work", "parts", "simulated", "check"),
        "overline": "The parallel algorithm, measured and simulated",
        "facts": _facts(settings, found),
        "findings": _findings(found) if found else ["This run is not finished."],
        "how": _how(settings, found) if found else {},
        "scaling": found and _numbers(found),
    }


def _numbers(found: ScalingRun) -> dict[str, Any]:
    forecast = found.forecast
    return {
        "cores": forecast.cores,
        "works": [
            {**vars(work), "precision": work.precision[LEAD], "shares": work.shares}
            for work in found.works
        ],
        "simulated": _simulated(found),
        "checks": forecast.checks,
        "shapes": [_shape(shape) for shape in forecast.shapes],
        "kinds": PARTS_OF_TIME,
    }


def _shape(shape: ShapeForecast) -> dict[str, Any]:
    fields = ("name", "users", "items", "records", "factors", "driver", "stops", "stops_driver")
    epochs = [{"machines": e.machines, "total": e.time.total, **vars(e.time)} for e in shape.epochs]
    return {name: getattr(shape, name) for name in fields} | {"epochs": epochs}


def _simulated(found: ScalingRun) -> list[dict[str, Any]]:
    """Precision on many machines: the measured curve of as many parts, at simulated times."""
    curves = []
    for epoch in found.forecast.shapes[0].epochs:
        if epoch.machines in _SHOWN:
            like = found.converges_like(epoch.machines)
            curves.append(
                {
                    "name": f"RoBiRank {epoch.machines:,}",
                    "workers": epoch.machines,
                    "parts": like.parts,
                    "precision": like.precision[LEAD],
                    "path": epoch.time.total * np.arange(1, len(like.elapsed) + 1),
                }
            )
    return curves


def _facts(settings: ScalingSettings, found: ScalingRun | None) -> dict[str, str]:
    data = settings.data
    facts = {
        name.capitalize(): f"{getattr(data, name):,}"
        for name in ("users", "items", "train", "test")
    }
    facts |= {"Factors": str(settings.factors), "Workers": ", ".join(map(str, settings.workers))}
    return facts | ({"Cores": str(found.forecast.cores)} if found else {})


def _findings(found: ScalingRun) -> list[str]:
    sentences = (
        _speed_up(found),
        _convergence(found.by_parts),
        _accuracy(found.forecast.checks),
        _far(found.forecast.shapes[-1]),
    )
    return [sentence for sentence in sentences if sentence]


def _speed_up(found: ScalingRun) -> str:
    one, most = found.ladder[0], found.ladder[-1]
    if most.workers == 1:
        return ""
    ratio = float(one.path[-1] / most.path[-1])
    cores = found.forecast.cores
    text = (
        f"With a core for each of {most.workers} workers an epoch is {ratio:.1f} times as fast as "
        "with one"
    )
    if most.workers > cores:
        text += f" (processor time of the longest chain of tasks; this machine has {cores} cores)"
    return text + "."


def _convergence(works: Sequence[Work]) -> str:
    first, last = works[0], works[-1]
    if first is last:
        return ""
    middle = len(first.elapsed) // 2
    begin, end = (
        [share(work.precision[LEAD][e - 1], 3) for work in (first, last)] for e in (middle, 0)
    )
    return (
        f"Convergence depends on the number of parts: after {middle} epochs {LEAD} is "
        f"{begin[0]} with {_parts(first)} and {begin[1]} with {_parts(last)}, at the end {end[0]} "
        f"and {end[1]}."
    )


def _parts(work: Work) -> str:
    return "one part" if work.parts == 1 else f"{work.parts} parts"


def _accuracy(checks: Sequence[Check]) -> str:
    error = max(abs(check.predicted_path / check.path - 1) for check in checks)
    return (
        f"Calibrated on single tasks, the simulation is at most {100 * error:.0f} % off what was "
        f"measured with {checks[0].workers} to {checks[-1].workers} workers."
    )


def _far(shape: ShapeForecast) -> str:
    times = {epoch.machines: epoch.time for epoch in shape.epochs}
    if not set(_SHOWN) <= set(times):
        return ""
    one = shape.epochs[0].time.total
    near, far = (times[p] for p in _SHOWN)
    largest = max(PARTS_OF_TIME, key=lambda name: float(getattr(far, name)))
    return (
        f"At the Million Song shape it expects 32 machines to be {one / near.total:.0f} times "
        f"as fast as one, and 1,024 machines {one / far.total:.0f} times, where "
        f"{100 * getattr(far, largest) / far.total:.0f} % of the time is {_NAMES[largest]}. Twice "
        f"as many machines stop paying at {shape.stops:,}, or at {shape.stops_driver:,} where "
        "one driver hands out every task."
    )


_NAMES = {
    "compute": "work",
    "waiting": "waiting for slower machines",
    "communication": "blocks of V on the way",
    "latency": "latency",
}


def _how(settings: ScalingSettings, found: ScalingRun) -> dict[str, str]:
    forecast = found.forecast
    network = forecast.network
    measured = ", as measured with Ray." if forecast.hand_out_measured else "."
    how = {
        "Measured": (
            "RoBiRank p has its users and items cut into p parts, one for each of p threads. All "
            "runs begin at the same factors and take turns epoch by epoch, so that whatever else "
            "the machine does meets all alike. Precision is measured on "
            f"{settings.data.test_users:,} users while the clocks stand still."
        ),
        "Clocks": (
            "The processor time of a task stands still while its thread waits. With a core for "
            "each worker, an epoch takes as long as the longest chain of tasks, in which each "
            "waits for its part and for its block of V. What elapsed beyond that went into waiting "
            f"for one of {forecast.cores} cores: a thread that ran alone got "
            f"{100 * forecast.core_share:.0f} % of one."
        ),
        "Ray": (
            "The same runs with p processes of a Ray cluster on this machine, one after the other. "
            "They end with the same precision to the last digit, which was checked; so only their "
            "times were taken. Elapsed seconds hold all that Ray itself does."
        ),
        "Convergence": (
            "The factors after an epoch depend on the number of parts, not on the number of "
            "workers. So one worker with many parts shows what as many machines reach."
        ),
        "Simulated": (
            "What a record, a task and a pair of the ξ-step cost is measured on single tasks, for "
            "the Million Song shape on one of 32 parts of it. Users and items are cut at random as "
            "the algorithm does it; popular items make slow blocks, and machines wait for them. "
            f"Between machines there are {network.bandwidth * 8e-9:g} Gb/s, and a message takes "
            f"{1000 * network.latency:g} ms. A driver that hands out every task takes "
            f"{1000 * network.hand_out:.2g} ms for each{measured}"
        ),
        "Precision on many machines": (
            "Dashed curves are simulated: the precision measured with as many parts (with the most "
            f"that were measured, {found.by_parts[-1].parts}, beyond), at simulated times."
        ),
        "WARP": (
            "Weston et al. have no parallel algorithm; here WARP runs in the same strata. Step "
            f"sizes are the defaults, for {settings.iterations} epochs."
        ),
    }
    if not settings.ray:
        del how["Ray"]
    return how
