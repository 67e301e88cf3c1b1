"""What the report of a learning-to-rank run knows and says."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robirank.experiments.ltr.results import LtrResults, mean_interval
from robirank.experiments.ltr.tables import baseline_of
from robirank.experiments.report.common import (
    measure_name,
    method_states,
    shown_fits,
    what_is_lacking,
    who_leads,
)
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import LtrSettings, Significance
from robirank.experiments.statistics import Comparison
from robirank.experiments.text import abbreviate
from robirank.metrics import CONVENTIONS

# Per-query values travel as integers of 16 bits: the value times SCALE, or MISSING.
SCALE, MISSING = 10_000, 65_535
# Differences with an adjusted p-value below this are called differences.
_SIGNIFICANT = 0.05
# A difference in significance.json may be off by the rounding to three digits, not by more.
_TOLERANCE = 6e-4


def ltr_parts(run: RunDirectory[LtrSettings]) -> dict[str, Any]:
    """What the page of a learning-to-rank run shows that differs from that of others."""
    settings, results = run.settings, LtrResults(run)
    significance = run.significance()
    comparisons = _checked_comparisons(run, results, significance)
    emphasis = baseline_of(run.complete_methods() or run.methods)
    lead = lead_measure(settings)
    means = [results.means(m) for m in run.methods]
    leading = {m: mean[lead] for m, mean in zip(run.methods, means, strict=True) if mean}
    return {
        "sections": ("curves", "table", "queries", "settings", "times"),
        "overline": "Learning to rank, a comparison",
        "facts": _facts(settings, len(results.queries)),
        "findings": [*_findings(leading, lead, emphasis, comparisons), *what_is_lacking(run)],
        "how": {
            "convention": settings.convention,
            **vars(CONVENTIONS[settings.convention]),
            "queries": len(results.queries),
            "folds": len(results.folds) if len(results.folds) > 1 else None,
            "select": measure_name(settings.select),
            "test": significance and significance.test,
            "correction": significance and significance.correction,
            "intervals": significance and significance.intervals,
        },
        "select": settings.select,
        "lead": lead,
        "kMax": settings.k_max,
        "emphasis": run.methods.index(emphasis),
        "methods": method_states(run),
        "cases": results.folds,
        "measures": results.measures,
        "means": means,
        "scopes": _scopes(results, emphasis),
        "queries": {
            "id": [qid for _, qid in results.queries],
            "fold": [results.folds.index(fold) for fold, _ in results.queries],
        },
        "why": _why(run, results),
        "values": _encoded(results),
        "scale": SCALE,
        "missing": MISSING,
        "comparisons": comparisons,
        "fits": shown_fits(run),
    }


def lead_measure(settings: LtrSettings) -> str:
    """The measure that the page speaks of first: what chose the settings, where that is shown."""
    name, _, k = settings.select.partition("@")
    shown = name == "ndcg" and k.isdigit() and 1 <= int(k) <= settings.k_max
    if shown or settings.select in ("mean_ndcg", "map"):
        return settings.select
    return f"ndcg@{min(10, settings.k_max)}"


def _checked_comparisons(
    run: RunDirectory[LtrSettings], results: LtrResults, significance: Significance | None
) -> list[Comparison]:
    """Check the comparisons against the results, which they may be older than."""
    file = run.path / "significance.json"
    comparisons = significance.comparisons if significance else []
    for c in comparisons:
        unknown = {c.method, c.baseline} - set(run.methods)
        if unknown:
            names = abbreviate(sorted(unknown))
            raise ValueError(f"{file} compares {names}, which run.json does not list")
        if c.measure not in results.measures or not (
            results.complete(c.method) and results.complete(c.baseline)
        ):
            continue
        difference = results.of(c.method, c.measure) - results.of(c.baseline, c.measure)
        found = float(np.nanmean(difference))
        if abs(found - c.difference) > _TOLERANCE:
            raise ValueError(
                f"{file} does not belong to these results: it says that {c.method} less "
                f"{c.baseline} is {c.difference:.4f} in {c.measure}, and the results say "
                f"{found:.4f}"
            )
    return comparisons


def _scopes(results: LtrResults, emphasis: str) -> list[dict[str, Any]]:
    """Curves over all queries, and over those of each fold where there are several."""
    several = results.folds if len(results.folds) > 1 else ()
    return [_scope(results, emphasis, fold) for fold in (None, *several)]


def _scope(results: LtrResults, emphasis: str, fold: str | None) -> dict[str, Any]:
    inside = [fold in (None, of_query) for of_query, _ in results.queries]
    ndcg = dict(zip(results.methods, results.array[:, :-2, inside], strict=True))
    curves: list[dict[str, Any] | None] = []
    for method, own in ndcg.items():
        if not results.complete(method, fold):
            curves.append(None)
            continue
        mean, half = mean_interval(own)
        curve = {"mean": mean, "half": half}
        if results.complete(emphasis, fold):
            difference, width = mean_interval(own - ndcg[emphasis])
            curve |= {"difference": difference, "differenceHalf": width}
        curves.append(curve)
    return {"name": fold or "All queries", "queries": sum(inside), "curves": curves}


def _why(run: RunDirectory[LtrSettings], results: LtrResults) -> list[dict[int, str]]:
    """What puts each method's first document above its second, by the place of the query."""
    place = {query: at for at, query in enumerate(results.queries)}
    found: list[dict[int, str]] = [{} for _ in run.methods]
    for fit in run.fits():
        told = found[run.methods.index(fit.method)]
        for qid, effects in fit.why.items():
            at = place.get((fit.fold, qid))
            if at is not None and effects:
                told[at] = ", ".join(f"{name} {effect:+.3g}" for name, effect in effects)
    return found


def _encoded(results: LtrResults) -> str:
    """All values as integers of 16 bits, little-endian, in base 64."""
    whole = np.round(np.clip(results.array, 0, 1) * SCALE)
    packed = np.where(np.isnan(whole), MISSING, whole).astype("<u2")
    return base64.b64encode(packed.tobytes()).decode()


def _facts(settings: LtrSettings, n_queries: int) -> dict[str, str]:
    """What there is to know about the data set."""
    data = settings.data
    found = {} if data.name == settings.title else {"Data": data.name}
    if n_queries:
        found["Test queries"] = f"{n_queries:,}"
    if data.queries != n_queries:
        found["Queries"] = f"{data.queries:,}"
    found |= {"Documents": f"{data.documents:,}", "Features": f"{data.features:,}"}
    found["Folds"] = str(len(data.folds))
    if settings.seeds > 1:
        found["Seeds"] = str(settings.seeds)
    total = sum(data.labels.values())
    if total:
        shares = [f"{label}: {100 * n / total:.0f} %" for label, n in data.labels.items()]
        found["Labels"] = " · ".join(shares)
    return found


def _findings(
    leading: Mapping[str, float], lead: str, emphasis: str, comparisons: Sequence[Comparison]
) -> list[str]:
    """Say in a few sentences what came out."""
    if not leading:
        return []
    # MeanNDCG and MAP say themselves that they are means.
    mean = measure_name(lead) if lead in ("mean_ndcg", "map") else f"mean {measure_name(lead)}"
    found = [who_leads(leading, mean, emphasis)]
    against = [c for c in comparisons if c.measure == lead and c.baseline == emphasis]
    if against:
        certain = [c for c in against if c.p_adjusted < _SIGNIFICANT]
        behind = sum(c.difference > 0 for c in certain)
        found.append(
            f"Query by query, {emphasis} is ahead of {_count(len(certain) - behind)} and behind "
            f"{_count(behind)} at an adjusted p below .05; {_count(len(against) - len(certain))} "
            "cannot be told apart from it."
        )
    return found


def _count(n: int) -> str:
    return "none" if n == 0 else "one method" if n == 1 else f"{n} methods"
