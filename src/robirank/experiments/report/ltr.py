"""What the report of a learning-to-rank run knows and says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robirank.experiments.ltr.tables import baseline_of
from robirank.experiments.report.common import (
    measure_name,
    method_states,
    shown_fits,
    what_is_lacking,
    who_leads,
)
from robirank.experiments.report.query_values import MISSING, SCALE, QueryValues
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import LtrSettings, Significance
from robirank.experiments.statistics import Comparison
from robirank.experiments.text import abbreviate
from robirank.metrics import CONVENTIONS

# Differences with an adjusted p-value below this are called differences.
_SIGNIFICANT = 0.05
# A difference in significance.json may be off by the rounding to three digits, not by more.
_TOLERANCE = 6e-4


def ltr_parts(run: RunDirectory[LtrSettings]) -> dict[str, Any]:
    """What the page of a learning-to-rank run shows that differs from that of others."""
    settings, values = run.settings, QueryValues(run)
    significance = run.significance()
    comparisons = _checked_comparisons(run, values, significance)
    emphasis = baseline_of(run.complete_methods() or run.methods)
    lead = lead_measure(settings)
    means = [values.means(i) for i in range(len(run.methods))]
    leading = {m: mean[lead] for m, mean in zip(run.methods, means, strict=True) if mean}
    return {
        "sections": ("curves", "table", "queries", "settings", "times"),
        "overline": "Learning to rank, a comparison",
        "facts": _facts(settings, len(values.queries)),
        "findings": [*_findings(leading, lead, emphasis, comparisons), *what_is_lacking(run)],
        "how": {
            "convention": settings.convention,
            **vars(CONVENTIONS[settings.convention]),
            "queries": len(values.queries),
            "folds": len(values.folds) if len(values.folds) > 1 else None,
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
        "cases": values.folds,
        "measures": values.measures,
        "means": means,
        "scopes": values.scopes(run.methods.index(emphasis)),
        "queries": {
            "id": [qid for _, qid in values.queries],
            "fold": [values.folds.index(fold) for fold, _ in values.queries],
        },
        "values": values.encoded(),
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
    run: RunDirectory[LtrSettings], values: QueryValues, significance: Significance | None
) -> list[Comparison]:
    """Check the comparisons against the results, which they may be older than."""
    file = run.path / "significance.json"
    comparisons = significance.comparisons if significance else []
    for c in comparisons:
        unknown = {c.method, c.baseline} - set(run.methods)
        if unknown:
            names = abbreviate(sorted(unknown))
            raise ValueError(f"{file} compares {names}, which run.json does not list")
        found = values.difference(c.measure, c.method, c.baseline)
        if found is not None and abs(found - c.difference) > _TOLERANCE:
            raise ValueError(
                f"{file} does not belong to these results: it says that {c.method} less "
                f"{c.baseline} is {c.difference:.4f} in {c.measure}, and the results say "
                f"{found:.4f}"
            )
    return comparisons


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
    found = [who_leads(leading, f"mean {measure_name(lead)}", emphasis)]
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
