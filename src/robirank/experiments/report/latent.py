"""What the report of a latent run knows and says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robirank.experiments.latent.methods import POPULARITY
from robirank.experiments.latent.results import LearningCurve, learning_curves, lift
from robirank.experiments.latent.units import MEASURES
from robirank.experiments.report.common import (
    cases_of,
    fraction,
    interaction_facts,
    measure_name,
    method_states,
    shown_fits,
    what_is_lacking,
    who_leads,
)
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import LatentSettings

EMPHASIS = "RoBiRank exact"
LEAD = "precision@1"


def latent_parts(run: RunDirectory[LatentSettings]) -> dict[str, Any]:
    """What the page of a latent run shows that differs from that of others."""
    settings = run.settings
    curves = learning_curves(run.results(), run.complete_methods())
    shown = [curves.get(name) for name in run.methods]
    return {
        "sections": ("learning", "reached", "settings", "times"),
        "overline": "Recommending, a comparison",
        "facts": interaction_facts(settings) | {"Starting points": str(settings.seeds)},
        "findings": [*_findings(curves), *what_is_lacking(run)],
        "how": {
            "test_users": settings.data.test_users,
            "left_out": settings.data.left_out,
            "rates": settings.rates,
            "iterations": settings.iterations,
            "select": measure_name(settings.select),
            "popular": POPULARITY in run.methods,
        },
        "about": "On the test part, after some of the epochs of the final fit; a dot marks the end "
        "of training. All methods begin at the same random factors. The band is the 95 % "
        f"confidence interval of a mean over users, of {EMPHASIS} or of the method pointed at.",
        "clock": "training time",
        "select": settings.select,
        "lead": LEAD,
        "levels": [i for i, name in enumerate(run.methods) if name == POPULARITY],
        "emphasis": run.methods.index(EMPHASIS) if EMPHASIS in run.methods else 0,
        "methods": method_states(run),
        "cases": cases_of(run),
        "measures": MEASURES,
        "means": [{m: curve.last(m) for m in MEASURES} if curve else {} for curve in shown],
        "learning": [vars(curve) if curve else None for curve in shown],
        "fits": shown_fits(run),
    }


def _findings(curves: Mapping[str, LearningCurve]) -> list[str]:
    found = []
    if len(curves) > 1:
        found.append(who_leads({m: c.last(LEAD) for m, c in curves.items()}, LEAD, EMPHASIS))
    ratio = lift(curves, LEAD)
    if ratio is not None:
        found.append(
            f"RoBiRank's {LEAD} is {ratio:.2f} times that of the identity loss, the better solver "
            "of each."
        )
    if EMPHASIS in curves and "WARP" in curves:
        found.append(_time_to_warp(curves[EMPHASIS], curves["WARP"]))
    return found


def _time_to_warp(robirank: LearningCurve, warp: LearningCurve) -> str:
    """When RoBiRank is where WARP ends."""
    reached, value = robirank.seconds_to(LEAD, warp.last(LEAD)), fraction(warp.last(LEAD))
    if reached is None:
        return f"{EMPHASIS} does not reach WARP's {LEAD} of {value}."
    return (
        f"What WARP reaches after {warp.seconds[-1]:.2g} seconds, {value}, {EMPHASIS} has after "
        f"{reached:.2g}."
    )
