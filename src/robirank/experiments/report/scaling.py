"""What the report of a scaling run knows and says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.scaling.tables import PARTS_OF_TIME, ScalingRun, Work, read_scaling

__all__ = ["scaling_parts"]

LEAD = "precision@1"
_SHOWN = (32, 1024)  # machines whose precision is simulated


def scaling_parts(run: RunDirectory) -> dict[str, Any]:
    """What the page of a scaling run shows that differs from that of others."""
    found = read_scaling(run)
    settings = run.settings
    return {
        "overline": "The parallel algorithm, measured and simulated",
        "facts": _facts(settings, found),
        "findings": _findings(found) if found else ["This run is not finished."],
        "how": _how(settings, found) if found else [],
        "lead": LEAD,
        "emphasis": 0,
        "methods": [{"name": name, "state": "ok"} for name in run.methods],
        "folds": sorted({fit["fold"] for fit in run.fits()}),
        "scaling": None if found is None else _numbers(found),
    }


def _numbers(found: ScalingRun) -> dict[str, Any]:
    simulation = found.simulation
    return {
        "cores": simulation["cores"],
        "works": [_work(work) for work in found.works],
        "simulated": _simulated(found),
        "checks": simulation["checks"],
        "shapes": simulation["shapes"],
        "kinds": list(PARTS_OF_TIME),
        "handOut": simulation["network"]["hand_out"],
    }


def _work(work: Work) -> dict[str, Any]:
    return {
        "name": work.name,
        "engine": work.engine,
        "workers": work.workers,
        "parts": work.parts,
        "precision": _rounded(work.precision[LEAD]),
        "elapsed": _rounded(work.elapsed),
        "path": _rounded(work.path),
        "shares": {name: round(seconds, 4) for name, seconds in work.shares.items()},
    }


def _simulated(found: ScalingRun) -> list[dict[str, Any]]:
    """Precision on many machines: the measured curve of as many parts, at simulated times."""
    here = found.simulation["shapes"][0]["epochs"]
    curves = []
    for epoch in here:
        if epoch["machines"] in _SHOWN:
            like = found.converges_like(epoch["machines"])
            n = len(like.elapsed)
            curves.append(
                {
                    "name": f"RoBiRank {epoch['machines']:,}",
                    "workers": epoch["machines"],
                    "parts": like.parts,
                    "precision": _rounded(like.precision[LEAD]),
                    "path": [round(epoch["total"] * (i + 1), 5) for i in range(n)],
                }
            )
    return curves


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 5) for value in values]


def _facts(settings: Mapping[str, Any], found: ScalingRun | None) -> list[dict[str, str]]:
    data, options = settings["data"], settings["options"]
    facts = [
        {"term": name.capitalize(), "value": f"{data[name]:,}"}
        for name in ("users", "items", "train", "test")
    ]
    facts.append({"term": "Factors", "value": str(options["factors"])})
    facts.append({"term": "Workers", "value": ", ".join(map(str, options["workers"]))})
    if found:
        facts.append({"term": "Cores", "value": str(found.simulation["cores"])})
    return facts


def _findings(found: ScalingRun) -> list[str]:
    return [
        sentence
        for sentence in (
            _speed_up(found),
            _convergence(found.by_parts),
            _accuracy(found.simulation["checks"]),
            _far(found.simulation["shapes"][-1]),
        )
        if sentence
    ]


def _speed_up(found: ScalingRun) -> str:
    one, most = found.ladder[0], found.ladder[-1]
    if most.workers == 1:
        return ""
    ratio = float(one.path[-1] / most.path[-1])
    cores = found.simulation["cores"]
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
    return (
        f"Convergence depends on the number of parts: after {middle} epochs {LEAD} is "
        f"{_told(first, middle)} with {_parts(first)} and {_told(last, middle)} with "
        f"{_parts(last)}, at the end {_told(first, 0)} and {_told(last, 0)}."
    )


def _parts(work: Work) -> str:
    return "one part" if work.parts == 1 else f"{work.parts} parts"


def _told(work: Work, epoch: int) -> str:
    return f"{work.precision[LEAD][epoch - 1]:.3f}".removeprefix("0")


def _accuracy(checks: Sequence[Mapping[str, float]]) -> str:
    worst = max(checks, key=lambda c: abs(c["predicted_path"] / c["path"] - 1))
    error = 100 * (worst["predicted_path"] / worst["path"] - 1)
    return (
        "Calibrated on single tasks, the simulation is at most "
        f"{abs(error):.0f} % off what was measured with {checks[0]['workers']} to "
        f"{checks[-1]['workers']} workers."
    )


def _far(shape: Mapping[str, Any]) -> str:
    epochs = {epoch["machines"]: epoch for epoch in shape["epochs"]}
    if not set(_SHOWN) <= set(epochs):
        return ""
    one = epochs[1]["total"]
    near, far = (epochs[p] for p in _SHOWN)
    largest = max(PARTS_OF_TIME, key=lambda name: float(far[name]))
    return (
        f"At the Million Song shape it expects 32 machines to be {one / near['total']:.0f} times "
        f"as fast as one, and 1,024 machines {one / far['total']:.0f} times, where "
        f"{100 * far[largest] / far['total']:.0f} % of the time is {_NAMES[largest]}. Twice as "
        f"many machines stop paying at {shape['stops']:,}, or at {shape['stops_driver']:,} where "
        "one driver hands out every task."
    )


_NAMES = {
    "compute": "work",
    "waiting": "waiting for slower machines",
    "communication": "blocks of V on the way",
    "latency": "latency",
}


def _how(settings: Mapping[str, Any], found: ScalingRun) -> list[dict[str, str]]:
    options, simulation = settings["options"], found.simulation
    network, share = simulation["network"], simulation["core_share"]
    return [
        {
            "term": "Measured",
            "text": "RoBiRank p has its users and items cut into p parts, one for each of p "
            "threads. All runs begin at the same factors and take turns epoch by epoch, so that "
            "whatever else the machine does meets all alike. Precision is measured on "
            f"{settings['data']['test_users']:,} users while the clocks stand still.",
        },
        {
            "term": "Clocks",
            "text": "The processor time of a task stands still while its thread waits. With a core "
            "for each worker, an epoch takes as long as the longest chain of tasks, in which each "
            "waits for its part and for its block of V. What elapsed beyond that went into waiting "
            f"for one of {simulation['cores']} cores: a thread that ran alone got "
            f"{100 * share:.0f} % of one.",
        },
        *_ray(found),
        {
            "term": "Convergence",
            "text": "The factors after an epoch depend on the number of parts, not on the number "
            "of workers. So one worker with many parts shows what as many machines reach.",
        },
        {
            "term": "Simulated",
            "text": "What a record, a task and a pair of the ξ-step cost is measured on single "
            "tasks, for the Million Song shape on one of 32 parts of it. Users and items are cut "
            "at random as the algorithm does it; popular items make slow blocks, and machines wait "
            f"for them. Between machines there are {network['bandwidth'] * 8e-9:g} Gb/s, and a "
            f"message takes {1000 * network['latency']:g} ms. A driver that hands out every task "
            f"takes {1000 * network['hand_out']:.2g} ms for each"
            + (", as measured with Ray." if simulation["hand_out_measured"] else "."),
        },
        {
            "term": "Precision on many machines",
            "text": "Dashed curves are simulated: the precision measured with as many parts (with "
            f"the most that were measured, {found.by_parts[-1].parts}, beyond), at simulated "
            "times.",
        },
        {
            "term": "WARP",
            "text": "Weston et al. have no parallel algorithm; here WARP runs in the same strata. "
            f"Step sizes are the defaults, for {options['iterations']} epochs.",
        },
    ]


def _ray(found: ScalingRun) -> list[dict[str, str]]:
    if not any(work.engine == "ray" for work in found.works):
        return []
    return [
        {
            "term": "Ray",
            "text": "The same runs with p processes of a Ray cluster on this machine, one after "
            "the other. They end with the same precision to the last digit, which was checked; so "
            "only their times were taken. Elapsed seconds hold all that Ray itself does.",
        }
    ]
