"""What the report of a latent run knows and says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robirank_lab.latent.methods import POPULARITY
from robirank_lab.latent.results import LearningCurve, learning_curves, lift
from robirank_lab.latent.units import METRICS
from robirank_lab.report.common import (
    cases_of,
    fraction,
    interaction_facts,
    method_states,
    metric_name,
    shown_fits,
    what_is_lacking,
    who_leads,
)
from robirank_lab.run_dir import RunDirectory


def latent_parts(run: RunDirectory) -> dict[str, Any]:
    """What the page of a latent run shows that differs from that of others."""
    experiment, data = run.experiment, run.data
    curves = learning_curves(run.results(), run.complete_methods())
    metrics = list(experiment.published) or list(METRICS)
    emphasis = next((m for m in ("RoBiRank exact", "RoBiRank") if m in run.methods), run.methods[0])
    shown = [curves.get(name) for name in run.methods]
    counts = ("users", "items", "train", "valid", "test", "test_users")
    return {
        "sections": ("learning", "reached", "settings", "times"),
        "overline": "Recommending, a comparison",
        "facts": interaction_facts(run, *counts) | {"Starting points": str(experiment.seeds)},
        "findings": [*_findings(curves, emphasis, metrics[0]), *what_is_lacking(run)],
        "how": {
            "test_users": data.test_users,
            "left_out": data.left_out,
            "rates": experiment.rates,
            "iterations": experiment.iterations,
            "select": metric_name(experiment.select),
            "popular": POPULARITY in run.methods,
            "source": experiment.source,
            "searched": not experiment.published,
            "clock": experiment.clock,
        },
        "clock": experiment.clock,
        "published": experiment.published,
        "select": experiment.select,
        "lead": metrics[0],
        "levels": [i for i, name in enumerate(run.methods) if name == POPULARITY],
        "emphasis": run.methods.index(emphasis),
        "methods": method_states(run),
        "cases": cases_of(run),
        "metrics": metrics,
        "means": [{m: curve.last(m) for m in metrics} if curve else {} for curve in shown],
        "learning": [vars(curve) if curve else None for curve in shown],
        "fits": shown_fits(run),
    }


def _findings(curves: Mapping[str, LearningCurve], emphasis: str, lead: str) -> list[str]:
    sentences = []
    if len(curves) > 1:
        sentences.append(who_leads({m: c.last(lead) for m, c in curves.items()}, lead, emphasis))
    ratio = lift(curves, lead)
    if ratio is not None:
        sentences.append(
            f"RoBiRank's {lead} is {ratio:.2f} times that of the identity loss, the better solver "
            "of each."
        )
    rivals = [m for m in ("WARP", "implicit ALS") if m in curves and emphasis in curves]
    return sentences + [_time_to(rival, curves, emphasis, lead) for rival in rivals]


def _time_to(rival: str, curves: Mapping[str, LearningCurve], emphasis: str, lead: str) -> str:
    """When the method that the page is about is where a rival ends."""
    goal, seconds = curves[rival].last(lead), curves[rival].seconds[-1]
    reached = curves[emphasis].seconds_to(lead, goal)
    if reached is None:
        return f"{emphasis} does not reach {rival}'s {lead} of {fraction(goal)}."
    return (
        f"What {rival} reaches after {seconds:.2g} seconds, {fraction(goal)}, {emphasis} has after "
        f"{reached:.2g}."
    )
