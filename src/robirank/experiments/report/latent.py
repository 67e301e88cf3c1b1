"""What the report of a latent run knows and says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robirank.experiments._run_format import natural, some
from robirank.experiments.latent.tables import LearningCurve, learning_curves, lift
from robirank.experiments.latent.units import MEASURES
from robirank.experiments.ltr.tables import complete_methods
from robirank.experiments.report.words import measure_name, ordinal
from robirank.experiments.run_dir import RunDirectory

__all__ = ["latent_parts"]

EMPHASIS = "RoBiRank exact"
LEAD = "precision@1"


def latent_parts(run: RunDirectory) -> dict[str, Any]:
    """What the page of a latent run shows that differs from that of others."""
    settings, fits = run.settings, run.fits()
    curves = learning_curves(run.results(), complete_methods(run))
    folds = sorted({fit["fold"] for fit in fits}, key=natural)
    missing = len(run.methods) * settings["data"]["folds"] - len(fits)
    states = [_state(name, curves, fits) for name in run.methods]
    return {
        "overline": "Recommending, a comparison",
        "facts": _facts(settings),
        "findings": _findings(run.methods, curves, states, missing),
        "how": _how(settings),
        "lead": LEAD,
        "emphasis": run.methods.index(EMPHASIS) if EMPHASIS in run.methods else 0,
        "methods": states,
        "folds": folds,
        "measures": list(MEASURES),
        "means": [_means(curves.get(name)) for name in run.methods],
        "learning": [_learning(curves.get(name)) for name in run.methods],
    }


def _state(
    name: str, curves: Mapping[str, LearningCurve], fits: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    if name in curves:
        return {"name": name, "state": "ok"}
    failed = any(fit["method"] == name and fit["status"] == "failed" for fit in fits)
    if failed:
        return {"name": name, "state": "failed", "note": "failed"}
    return {"name": name, "state": "missing", "note": "not yet run"}


def _means(curve: LearningCurve | None) -> dict[str, float]:
    return {} if curve is None else {m: round(curve.last(m), 6) for m in MEASURES}


def _learning(curve: LearningCurve | None) -> dict[str, Any] | None:
    if curve is None:
        return None
    return {
        "epochs": curve.epochs,
        "seconds": [round(float(s), 4) for s in curve.seconds],
        "values": {m: [round(float(v), 6) for v in curve.values[m]] for m in MEASURES},
        "error": {m: _finite(curve.error[m]) for m in MEASURES},
        "spread": {m: _finite(curve.spread[m]) for m in MEASURES},
    }


def _finite(value: float) -> float | None:
    return round(value, 6) if value == value else None


def _facts(settings: Mapping[str, Any]) -> list[dict[str, str]]:
    data, options = settings["data"], settings["options"]
    counted = ("users", "items", "train", "valid", "test")
    found = [{"term": name.capitalize(), "value": f"{data[name]:,}"} for name in counted]
    found.append({"term": "Test users", "value": f"{data['test_users']:,}"})
    found.append({"term": "Factors", "value": str(options["factors"])})
    found.append({"term": "Starting points", "value": str(data["folds"])})
    return found


def _findings(
    methods: Sequence[str],
    curves: Mapping[str, LearningCurve],
    states: Sequence[Mapping[str, Any]],
    missing: int,
) -> list[str]:
    sentences = []
    ranking = sorted(curves, key=lambda m: -curves[m].last(LEAD))
    if len(ranking) > 1:
        sentences.append(_who_leads(ranking, curves))
    ratio = lift(curves, LEAD)
    if ratio is not None:
        sentences.append(
            f"RoBiRank's {LEAD} is {ratio:.2f} times that of the identity loss, the better solver "
            "of each."
        )
    race = _race(curves)
    if race:
        sentences.append(race)
    failed = [m["name"] for m in states if m["state"] == "failed"]
    if failed:
        sentences.append(f"Failed, and so without a curve: {some(failed)}.")
    if missing > 0:
        fits = "one fit is" if missing == 1 else f"{missing} fits are"
        sentences.append(f"This run is not finished: {fits} still to be done.")
    elif not ranking:
        sentences.append(f"None of {len(methods)} methods has a result.")
    return sentences


def _who_leads(ranking: Sequence[str], curves: Mapping[str, LearningCurve]) -> str:
    first = f"{ranking[0]} has the highest {LEAD}, {_told(curves[ranking[0]])}"
    if EMPHASIS not in ranking or ranking[0] == EMPHASIS:
        return f"{first}; {ranking[1]} follows with {_told(curves[ranking[1]])}."
    place = ordinal(ranking.index(EMPHASIS) + 1)
    return f"{first}; {EMPHASIS} is {place} with {_told(curves[EMPHASIS])}."


def _told(curve: LearningCurve) -> str:
    return f"{curve.last(LEAD):.4f}".removeprefix("0")


def _race(curves: Mapping[str, LearningCurve]) -> str:
    """When RoBiRank is where WARP ends."""
    if EMPHASIS not in curves or "WARP" not in curves:
        return ""
    warp = curves["WARP"]
    reached = curves[EMPHASIS].seconds_to(LEAD, warp.last(LEAD))
    if reached is None:
        return f"{EMPHASIS} does not reach WARP's {LEAD} of {_told(warp)}."
    return (
        f"What WARP reaches after {warp.seconds[-1]:.2g} seconds, {_told(warp)}, {EMPHASIS} has "
        f"after {reached:.2g}."
    )


def _how(settings: Mapping[str, Any]) -> list[dict[str, str]]:
    data, options = settings["data"], settings["options"]
    left_out = (
        f" {data['left_out']:,} test interactions of users or items that are in no other part are "
        "left out."
        if data["left_out"]
        else ""
    )
    penalty = (
        " Then half and twice its default penalty in the same way, with that step size."
        if options["regularizations"]
        else ""
    )
    return [
        {
            "term": "Measures",
            "text": "For each user all items are ranked but those in the training and validation "
            "parts. Precision@k is the share of the first k that is in the user's test part, "
            "recall@20 the share of the test part that is among the first 20, and NDCG@20 weighs "
            f"hits by 1 / log₂(1 + rank). Means over {data['test_users']:,} users.{left_out}",
        },
        {
            "term": "Start",
            "text": "All methods begin at the same random factors, which the seed decides, and "
            "see the same data.",
        },
        {
            "term": "Settings",
            "text": "Each method is searched alike: its default step size, a third and three "
            "times of it, and on while the best is at the edge." + penalty + " Every setting is "
            f"fitted to the training part for {options['iterations']} epochs; the one with the "
            f"best {measure_name(settings['select'])} on the validation part is fitted to "
            "both parts, for as many. The test part decides nothing.",
        },
        {
            "term": "Times",
            "text": "Wall-clock seconds of training, ξ-steps included, without reading data and "
            "measuring. Methods run one after the other with the same number of threads.",
        },
        {
            "term": "Identity",
            "text": "The identity loss is the same objective with ρ(t) = t, the paper's baseline. "
            "WARP is the paper's other one (WSABIE).",
        },
    ]
