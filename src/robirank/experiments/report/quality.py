"""What the report of quality against time knows and says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robirank.experiments.latent.results import LearningCurve, learning_curves
from robirank.experiments.report.common import (
    cases_of,
    fraction,
    interaction_facts,
    measure_name,
    method_states,
    shown_fits,
    what_is_lacking,
)
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import QualitySettings

Curves = Mapping[str, LearningCurve]

#: What the page is about; methods whose names begin so are variants of it, the others are rivals.
EMPHASIS = "RoBiRank"


def quality_parts(run: RunDirectory[QualitySettings]) -> dict[str, Any]:
    """What the page of quality against time shows that differs from that of others."""
    settings = run.settings
    measures = list(settings.published)
    curves = learning_curves(run.results(), run.complete_methods())
    goals = _goals(run, curves, measures[0])
    return {
        "sections": ("learning", "goals"),
        "overline": "Recommending, quality against time",
        "facts": interaction_facts(settings),
        "findings": [*_findings(run, curves, goals), *what_is_lacking(run)],
        "how": {
            "test_users": settings.data.test_users,
            "left_out": settings.data.left_out,
            "threads": settings.threads,
            "source": settings.source,
        },
        "about": "On the test part, after some of the epochs; a dot marks the end of a fit. "
        f"Time is processor time divided by {settings.threads}, the number of threads. The dashed "
        f"line is the best published figure ({settings.source}). The band is the 95 % confidence "
        f"interval of a mean over users, of {EMPHASIS} or of the method pointed at.",
        "clock": f"processor time ÷ {settings.threads}",
        "published": settings.published,
        "emphasis": run.methods.index(EMPHASIS) if EMPHASIS in run.methods else 0,
        "methods": method_states(run),
        "cases": cases_of(run),
        "measures": measures,
        "learning": [vars(curves[m]) if m in curves else None for m in run.methods],
        "goals": goals,
        "fits": shown_fits(run),
    }


def _goals(
    run: RunDirectory[QualitySettings], curves: Curves, measure: str
) -> list[dict[str, Any]]:
    """The best of each rival and the best published: when each method reaches them."""
    rivals = [m for m in curves if not m.startswith(EMPHASIS)]
    values = {m: float(curves[m].values[measure].max()) for m in rivals}
    values["best published"] = run.settings.published[measure]
    reach = [curves[m].seconds_to if m in curves else None for m in run.methods]
    return [
        {"name": name, "value": value, "seconds": [to and to(measure, value) for to in reach]}
        for name, value in values.items()
    ]


def _findings(
    run: RunDirectory[QualitySettings], curves: Curves, goals: list[dict[str, Any]]
) -> list[str]:
    if EMPHASIS not in curves:
        return []
    measure, place = next(iter(run.settings.published)), run.methods.index(EMPHASIS)
    own = curves[EMPHASIS]
    end, value = _seconds(float(own.seconds[-1])), fraction(own.last(measure))
    found = [f"{EMPHASIS} ends with a {measure_name(measure)} of {value} after {end} seconds."]
    for goal in goals:
        name, value = goal["name"], fraction(goal["value"])
        if name in curves:
            theirs = _seconds(curves[name].seconds_to(measure, goal["value"]) or 0.0)
            what = f"What {name} has at best, {value} after {theirs} seconds,"
        else:
            what = f"The best published figure, {value} ({run.settings.source}),"
        after = goal["seconds"][place]
        when = "does not reach" if after is None else f"has after {_seconds(after)}"
        found.append(f"{what} {EMPHASIS} {when}.")
    return found


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
