"""What the report of a learning-to-rank run knows and says."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robirank.metrics import CONVENTIONS
from robirank_lab.ltr.results import LtrResults, mean_interval
from robirank_lab.ltr.tables import baseline_of
from robirank_lab.report.common import (
    method_states,
    metric_name,
    shown_fits,
    what_is_lacking,
    who_leads,
)
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import LtrExperiment
from robirank_lab.statistics import Comparison

# Per-query values travel as integers of 16 bits: the value times SCALE, or MISSING.
SCALE, MISSING = 10_000, 65_535
# Differences with an adjusted p-value below this are called differences.
_SIGNIFICANT = 0.05


def ltr_parts(run: RunDirectory) -> dict[str, Any]:
    """What the page of a learning-to-rank run shows that differs from that of others."""
    experiment, results = run.experiment, LtrResults(run)
    significance = run.significance()
    comparisons = significance.comparisons if significance else []
    emphasis = baseline_of(run.complete_methods() or run.methods)
    lead = lead_metric(experiment)
    means = [results.means(m) for m in run.methods]
    leading = {m: mean[lead] for m, mean in zip(run.methods, means, strict=True) if mean}
    return {
        "sections": ("curves", "table", "queries", "settings", "times"),
        "overline": "Learning to rank, a comparison",
        "facts": _facts(run, len(results.queries)),
        "findings": [*_findings(leading, lead, emphasis, comparisons), *what_is_lacking(run)],
        "how": {
            "convention": experiment.convention,
            **vars(CONVENTIONS[experiment.convention]),
            "queries": len(results.queries),
            "folds": len(results.folds) if len(results.folds) > 1 else None,
            "select": metric_name(experiment.select),
            "tested": bool(comparisons),
        },
        "select": experiment.select,
        "lead": lead,
        "kMax": experiment.k_max,
        "emphasis": run.methods.index(emphasis),
        "methods": method_states(run),
        "cases": results.folds,
        "metrics": results.metrics,
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


def lead_metric(experiment: LtrExperiment) -> str:
    """The metric that the page speaks of first: what chose the settings, where that is shown."""
    name, _, k = experiment.select.partition("@")
    shown = name == "ndcg" and k.isdigit() and 1 <= int(k) <= experiment.k_max
    if shown or experiment.select in ("mean_ndcg", "map"):
        return experiment.select
    return f"ndcg@{min(10, experiment.k_max)}"


def _scopes(results: LtrResults, emphasis: str) -> list[dict[str, Any]]:
    """Curves over all queries, and over those of each fold where there are several."""
    several = results.folds if len(results.folds) > 1 else ()
    return [_scope(results, emphasis, fold) for fold in (None, *several)]


def _scope(results: LtrResults, emphasis: str, fold: str | None) -> dict[str, Any]:
    inside = [fold in (None, of_query) for of_query, _ in results.queries]
    ndcg = dict(zip(results.methods, results.array[:, :-2, inside], strict=True))
    curves: list[dict[str, Any] | None] = []
    for method, values in ndcg.items():
        if not results.complete(method, fold):
            curves.append(None)
            continue
        mean, half = mean_interval(values)
        curve = {"mean": mean, "half": half}
        if results.complete(emphasis, fold):
            difference, width = mean_interval(values - ndcg[emphasis])
            curve |= {"difference": difference, "differenceHalf": width}
        curves.append(curve)
    return {"name": fold or "All queries", "queries": sum(inside), "curves": curves}


def _why(run: RunDirectory, results: LtrResults) -> list[dict[int, str]]:
    """What puts each method's first document above its second, by the place of the query."""
    place = {query: at for at, query in enumerate(results.queries)}
    reasons: list[dict[int, str]] = [{} for _ in run.methods]
    for fit in run.fits():
        told = reasons[run.methods.index(fit.method)]
        for qid, effects in fit.why.items():
            at = place.get((fit.case, qid))
            if at is not None and effects:
                told[at] = ", ".join(f"{name} {effect:+.3g}" for name, effect in effects)
    return reasons


def _encoded(results: LtrResults) -> str:
    """All values as integers of 16 bits, little-endian, in base 64."""
    whole = np.round(np.clip(results.array, 0, 1) * SCALE)
    packed = np.where(np.isnan(whole), MISSING, whole).astype("<u2")
    return base64.b64encode(packed.tobytes()).decode()


def _facts(run: RunDirectory, n_queries: int) -> dict[str, str]:
    """What there is to know about the data set."""
    data = run.data
    facts = {} if data.name == run.settings.title else {"Data": data.name}
    if n_queries:
        facts["Test queries"] = f"{n_queries:,}"
    if data.queries != n_queries:
        facts["Queries"] = f"{data.queries:,}"
    facts |= {"Documents": f"{data.documents:,}", "Features": f"{data.features:,}"}
    facts["Folds"] = str(len(data.folds))
    if run.experiment.seeds > 1:
        facts["Seeds"] = str(run.experiment.seeds)
    total = sum(data.labels.values())
    if total:
        shares = [f"{label}: {100 * n / total:.0f} %" for label, n in data.labels.items()]
        facts["Labels"] = " · ".join(shares)
    return facts


def _findings(
    leading: Mapping[str, float], lead: str, emphasis: str, comparisons: Sequence[Comparison]
) -> list[str]:
    """Say in a few sentences what came out."""
    if not leading:
        return []
    # MeanNDCG and MAP say themselves that they are means.
    mean = metric_name(lead) if lead in ("mean_ndcg", "map") else f"mean {metric_name(lead)}"
    sentences = [who_leads(leading, mean, emphasis)]
    against = [c for c in comparisons if c.metric == lead and c.baseline == emphasis]
    if against:
        certain = [c for c in against if c.p_adjusted < _SIGNIFICANT]
        behind = sum(c.difference > 0 for c in certain)
        sentences.append(
            f"Query by query, {emphasis} is ahead of {_count(len(certain) - behind)} and behind "
            f"{_count(behind)} at an adjusted p below .05; {_count(len(against) - len(certain))} "
            "cannot be told apart from it."
        )
    return sentences


def _count(n: int) -> str:
    return "none" if n == 0 else "one method" if n == 1 else f"{n} methods"
