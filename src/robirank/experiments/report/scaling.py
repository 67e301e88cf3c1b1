"""What the report of a scaling run knows and says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from robirank.experiments.report.common import fraction
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import ScalingSettings
from robirank.experiments.scaling.forecast import Check, ShapeForecast
from robirank.experiments.scaling.results import LEAD, PARTS_OF_TIME, ScalingRun, Work, read_scaling

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
        "how": found and _how(settings, found),
        "scaling": found and _numbers(found),
    }


def _numbers(found: ScalingRun) -> dict[str, Any]:
    forecast = found.forecast
    return {
        "cores": forecast.cores,
        "works": [
            {
                **msgspec.structs.asdict(work.fit),
                "name": work.fit.method,
                "precision": work.precision,
                "elapsed": work.elapsed,
                "path": work.path,
                "shares": work.shares,
            }
            for work in found.works
        ],
        "simulated": _simulated(found),
        "checks": forecast.checks,
        "shapes": [_shape(shape) for shape in forecast.shapes],
        "kinds": PARTS_OF_TIME,
    }


def _shape(shape: ShapeForecast) -> dict[str, Any]:
    epochs = [
        {"machines": p, "total": time.without_driver, "driver": time.total, **vars(time)}
        for p, time in shape.epochs.items()
    ]
    return msgspec.structs.asdict(shape) | {"rates": vars(shape.rates), "epochs": epochs}


def _simulated(found: ScalingRun) -> list[dict[str, Any]]:
    """Precision on many machines: the measured curve of as many parts, at simulated times."""
    curves = []
    for machines, time in found.forecast.shapes[0].epochs.items():
        if machines in _SHOWN:
            like = found.converges_like(machines)
            curves.append(
                {
                    "name": f"RoBiRank {machines:,}",
                    "workers": machines,
                    "parts": like.fit.parts,
                    "precision": like.precision,
                    "path": time.without_driver * np.arange(1, len(like.elapsed) + 1),
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
    workers, cores = most.fit.workers, found.forecast.cores
    if workers == 1:
        return ""
    text = (
        f"With a core for each of {workers} workers an epoch is "
        f"{one.path[-1] / most.path[-1]:.1f} times as fast as with one"
    )
    if workers > cores:
        text += f" (processor time of the longest chain of tasks; this machine has {cores} cores)"
    return text + "."


def _convergence(works: Sequence[Work]) -> str:
    first, last = works[0], works[-1]
    if first is last:
        return ""
    middle = len(first.elapsed) // 2
    begin, end = (
        [fraction(work.precision[e - 1], 3) for work in (first, last)] for e in (middle, 0)
    )
    return (
        f"Convergence depends on the number of parts: after {middle} epochs {LEAD} is "
        f"{begin[0]} with {_parts(first)} and {begin[1]} with {_parts(last)}, at the end {end[0]} "
        f"and {end[1]}."
    )


def _parts(work: Work) -> str:
    return "one part" if work.fit.parts == 1 else f"{work.fit.parts} parts"


def _accuracy(checks: Sequence[Check]) -> str:
    error = max(abs(check.predicted_path / check.path - 1) for check in checks)
    return (
        f"Calibrated on single tasks, the simulation is at most {100 * error:.0f} % off what was "
        f"measured with {checks[0].workers} to {checks[-1].workers} workers."
    )


def _far(shape: ShapeForecast) -> str:
    if not set(_SHOWN) <= set(shape.epochs):
        return ""
    one, near, far = (shape.epochs[p].without_driver for p in (1, *_SHOWN))
    parts = vars(shape.epochs[_SHOWN[-1]])
    largest = max(PARTS_OF_TIME, key=lambda name: float(parts[name]))
    return (
        f"At the Million Song shape it expects 32 machines to be {one / near:.0f} times as fast as "
        f"one, and 1,024 machines {one / far:.0f} times, where {100 * parts[largest] / far:.0f} % "
        f"of the time is {_NAMES[largest]}. Twice as many machines stop paying at "
        f"{shape.stops:,}, or at {shape.stops_driver:,} where one driver hands out every task."
    )


_NAMES = {
    "compute": "work",
    "waiting": "waiting for slower machines",
    "communication": "blocks of V on the way",
    "latency": "latency",
}


def _how(settings: ScalingSettings, found: ScalingRun) -> dict[str, Any]:
    forecast = found.forecast
    network = forecast.network
    return {
        "test_users": settings.data.test_users,
        "cores": forecast.cores,
        "core_share": f"{100 * forecast.core_share:.0f}\u00a0%",
        "ray": settings.ray,
        "bandwidth": f"{network.bandwidth * 8e-9:g}\u00a0Gb/s",
        "latency": f"{1000 * network.latency:g}\u00a0ms",
        "hand_out": f"{1000 * network.hand_out:.2g}\u00a0ms",
        "hand_out_measured": forecast.hand_out_measured,
        "most_parts": found.by_parts[-1].fit.parts,
        "iterations": settings.iterations,
    }
