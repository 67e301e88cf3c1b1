"""What the report of a run on noise knows and says."""

from __future__ import annotations

from typing import Any

from robirank_lab.noise.results import NoiseResults, kind_words, metric_words
from robirank_lab.report.common import (
    cases_of,
    fraction,
    interaction_facts,
    method_states,
    what_is_lacking,
)
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import JudgedData


def noise_parts(run: RunDirectory) -> dict[str, Any]:
    """What the page of a run on noise shows that differs from that of others."""
    results, data, experiment = NoiseResults(run), run.data, run.experiment
    is_lists = isinstance(data, JudgedData)
    words = kind_words(results.kinds)
    several = is_lists and len(data.folds) > 1
    return {
        "sections": ("noise", "areas"),
        "overline": "Robustness: spoiled training data, clean test data",
        "facts": _facts(run),
        "findings": [*_findings(results), *what_is_lacking(run)],
        "how": {
            "spoiled": " ".join(f"{kind}: with a share s, {text}." for kind, text in words.items()),
            "k": experiment.k,
            "lists": is_lists,
            "tables": not is_lists,
            "seeds": experiment.seeds,
            "folds": several,
            "sample": "folds" if several else "seeds",
        },
        "kinds": [{"name": kind, "words": text} for kind, text in words.items()],
        "shares": results.shares,
        "lead": results.metrics[0],
        "emphasis": run.methods.index(results.baseline),
        "levels": [],
        "methods": method_states(run),
        "cases": cases_of(run),
        "metrics": [{"id": m, "name": metric_words(m)} for m in results.metrics],
        "curves": [
            {"kind": kind, "metric": metric, "methods": _curves(run, results, metric, kind)}
            for kind in results.kinds
            for metric in results.metrics
            if results.methods_with(metric, kind)
        ],
    }


def _facts(run: RunDirectory) -> dict[str, str]:
    data, experiment = run.data, run.experiment
    seeds = {"Seeds": str(experiment.seeds)}
    if not isinstance(data, JudgedData):
        return interaction_facts(run, "users", "items", "train", "test", "test_users") | seeds
    counts = {"Folds": len(data.folds), "Test queries": data.queries, "Features": data.features}
    return {"Data": data.name} | {name: f"{n:,}" for name, n in counts.items()} | seeds


def _curves(
    run: RunDirectory, results: NoiseResults, metric: str, kind: str
) -> list[dict[str, Any] | None]:
    """For each method its curve, the area under it, and the test against the baseline."""
    tests = {c.method: c for c in results.comparisons(metric, kind)}
    shown: list[dict[str, Any] | None] = []
    for method in run.methods:
        curve = results.curve(metric, method, kind)
        if curve is None:
            shown.append(None)
            continue
        area = float(results.areas(metric, method, kind).mean())
        kept = results.kept(metric, method, kind)
        shown.append({**vars(curve), "area": area, "kept": kept, "test": tests.get(method)})
    return shown


def _findings(results: NoiseResults) -> list[str]:
    """Who has the largest area under each kind of noise, and where the baseline is."""
    quality, sentences = results.metrics[0], []
    for kind in results.kinds:
        methods = results.methods_with(quality, kind)
        if len(methods) < 2 or results.baseline not in methods:
            continue
        areas = {m: float(results.areas(quality, m, kind).mean()) for m in methods}
        order = sorted(methods, key=lambda m: -areas[m])
        place = order.index(results.baseline) + 1
        kept = results.kept(quality, results.baseline, kind)
        text = f"{kind}: {order[0]} has the largest area of {len(methods)} methods, "
        text += fraction(areas[order[0]])
        if place > 1:
            height = fraction(areas[results.baseline])
            text += f"; {results.baseline} has place {place} with {height}"
        most = 100 * results.shares[-1]
        sentences.append(f"{text}, and keeps {100 * kept:.0f} % where {most:g} % is spoiled.")
    return sentences
