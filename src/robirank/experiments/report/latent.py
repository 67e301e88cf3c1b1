"""What the report of a latent run knows and says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robirank.experiments.latent.curves import LearningCurve, learning_curves, lift
from robirank.experiments.latent.units import MEASURES
from robirank.experiments.report.methods import cases_of, method_states, n_missing, shown_fits
from robirank.experiments.report.sentences import (
    measure_name,
    share,
    what_is_lacking,
    who_leads,
)
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import LatentSettings

__all__ = ["latent_parts"]

EMPHASIS = "RoBiRank exact"
LEAD = "precision@1"


def latent_parts(run: RunDirectory[LatentSettings]) -> dict[str, Any]:
    """What the page of a latent run shows that differs from that of others."""
    settings = run.settings
    curves = learning_curves(run.results(), run.complete_methods())
    shown = [curves.get(name) for name in run.methods]
    states = method_states(run)
    return {
        "sections": ("learning", "reached", "settings", "times"),
        "overline": "Recommending, a comparison",
        "facts": _facts(settings),
        "findings": [*_findings(curves), *what_is_lacking(states, n_missing(run))],
        "how": _how(settings),
        "select": settings.select,
        "lead": LEAD,
        "emphasis": run.methods.index(EMPHASIS) if EMPHASIS in run.methods else 0,
        "methods": states,
        "cases": cases_of(run),
        "measures": MEASURES,
        "means": [{m: curve.last(m) for m in MEASURES} if curve else {} for curve in shown],
        "learning": [vars(curve) if curve else None for curve in shown],
        "fits": shown_fits(run),
    }


def _facts(settings: LatentSettings) -> dict[str, str]:
    counted = ("users", "items", "train", "valid", "test", "test_users")
    found = {
        name.capitalize().replace("_", " "): f"{getattr(settings.data, name):,}" for name in counted
    }
    return found | {"Factors": str(settings.factors), "Starting points": str(settings.seeds)}


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
    reached, value = robirank.seconds_to(LEAD, warp.last(LEAD)), share(warp.last(LEAD))
    if reached is None:
        return f"{EMPHASIS} does not reach WARP's {LEAD} of {value}."
    return (
        f"What WARP reaches after {warp.seconds[-1]:.2g} seconds, {value}, {EMPHASIS} has after "
        f"{reached:.2g}."
    )


def _how(settings: LatentSettings) -> dict[str, str]:
    data = settings.data
    left_out = (
        f" {data.left_out:,} test interactions of users or items that are in no other part are "
        "left out."
        if data.left_out
        else ""
    )
    penalty = (
        " Then half and twice its default penalty in the same way, with that step size."
        if settings.regularizations
        else ""
    )
    return {
        "Measures": (
            "For each user all items are ranked but those in the training and validation parts. "
            "Precision@k is the share of the first k that is in the user's test part, recall@20 "
            "the share of the test part that is among the first 20, and NDCG@20 weighs hits by "
            f"1 / log₂(1 + rank). Means over {data.test_users:,} users.{left_out}"
        ),
        "Start": (
            "All methods begin at the same random factors, which the seed decides, and see the "
            "same data."
        ),
        "Settings": (
            "Each method is searched alike: its default step size, a third and three times of it, "
            f"and on while the best is at the edge.{penalty} Every setting is fitted to the "
            f"training part for {settings.iterations} epochs; the one with the best "
            f"{measure_name(settings.select)} on the validation part is fitted to both parts, for "
            "as many. The test part decides nothing."
        ),
        "Times": (
            "Wall-clock seconds of training, ξ-steps included, without reading data and measuring. "
            "Methods run one after the other with the same number of threads."
        ),
        "Identity": (
            "The identity loss is the same objective with ρ(t) = t, the paper's baseline. WARP is "
            "the paper's other one (WSABIE)."
        ),
    }
