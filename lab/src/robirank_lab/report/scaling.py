"""What the report of a scaling run knows and says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from robirank_lab.report.common import fraction, interaction_facts, what_is_lacking
from robirank_lab.run_dir import RunDirectory
from robirank_lab.scaling.results import CLOCKS, LEAD, by_parts, measured_runs


def scaling_parts(run: RunDirectory) -> dict[str, Any]:
    """What the page of a scaling run shows that differs from that of others."""
    runs, experiment = measured_runs(run), run.experiment
    facts = interaction_facts(run, "users", "items", "train", "test")
    return {
        "sections": ("speed", "work", "parts"),
        "overline": "The parallel algorithm on several workers",
        "facts": facts | {"Cores": str(run.settings.cores)},
        "findings": [*_speed_up(runs), *_convergence(by_parts(runs)), *what_is_lacking(run)],
        "how": {
            "test_users": run.data.test_users,
            "cores": run.settings.cores,
            "ray": experiment.ray,
            "iterations": experiment.iterations,
        },
        "clocks": CLOCKS,
        "runs": runs,
    }


def _speed_up(runs: Sequence[dict[str, Any]]) -> list[str]:
    """How much faster the most workers are than one, on each engine."""
    sentences = []
    for engine, words in (("threads", "threads"), ("ray", "workers of Ray")):
        ladder = [r for r in by_parts(runs, engine) if r["workers"] == r["parts"]]
        if len(ladder) > 1:
            times = ladder[0]["seconds"][-1] / ladder[-1]["seconds"][-1]
            sentences.append(
                f"{ladder[-1]['workers']} {words} are {times:.1f} times as fast as one."
            )
    return sentences


def _convergence(runs: Sequence[dict[str, Any]]) -> list[str]:
    if len(runs) < 2:
        return []
    middle = len(runs[0]["seconds"]) // 2
    (half, end), (half_many, end_many) = (
        [fraction(float(r["precision"][e - 1]), 3) for e in (middle, 0)]
        for r in (runs[0], runs[-1])
    )
    text = (
        f"Convergence depends on the number of parts, {runs[0]['parts']} or {runs[-1]['parts']}: "
        f"after {middle} epochs {LEAD} is {half} or {half_many}, at the end {end} or {end_many}."
    )
    return [text]
