"""What a finished run says: means with intervals, paired tests, the table, the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import asdict
from numpy.typing import NDArray

from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.statistics import bootstrap_interval, compare
from robirank.storage.files import write_text

__all__ = ["baseline_of", "query_values", "write_tables"]

COLUMNS: tuple[tuple[str, str, int], ...] = (
    ("NDCG@1", "ndcg", 1),
    ("NDCG@3", "ndcg", 3),
    ("NDCG@5", "ndcg", 5),
    ("NDCG@10", "ndcg", 10),
    ("MeanNDCG", "mean_ndcg", 0),
    ("MAP", "map", 0),
)
TESTED: tuple[tuple[str, str, int], ...] = (
    ("ndcg@1", "ndcg", 1),
    ("ndcg@10", "ndcg", 10),
    ("mean_ndcg", "mean_ndcg", 0),
)


def baseline_of(methods: Sequence[str]) -> str:
    """The method that the others are compared with: RoBiRank where it takes part."""
    return "RoBiRank" if "RoBiRank" in methods else methods[0]


def query_values(results: pl.DataFrame, measure: str, k: int) -> dict[str, NDArray[np.float64]]:
    """Values of every method on the same queries in the same order; methods in that of the file."""
    wanted = results.filter((pl.col("measure") == measure) & (pl.col("k") == k))
    wanted = wanted.sort("fold", "qid")
    return {
        str(method): group["value"].to_numpy()
        for (method,), group in wanted.group_by(["method"], maintain_order=True)
    }


def complete_methods(run: RunDirectory) -> list[str]:
    """Methods without a failed fold, in the order of the run."""
    failed = {fit["method"] for fit in run.fits() if fit["status"] == "failed"}
    return [m for m in run.methods if m not in failed]


def write_tables(run: RunDirectory) -> None:
    """Write ``significance.json``, ``table.md`` and, where matplotlib is there, ``figures/``."""
    results = run.results()
    methods = complete_methods(run)
    if methods:
        run.write_significance(_significance(results, methods, run.settings["seed"]))
    write_text(run.path / "table.md", table(run, results))
    try:
        from robirank.experiments.ltr.figures import write_figures
    except ImportError:
        return
    if methods:
        write_figures(run, results, methods)


def _significance(results: pl.DataFrame, methods: Sequence[str], seed: int) -> dict[str, Any]:
    baseline = baseline_of(methods)
    comparisons = []
    for label, measure, k in TESTED:
        values = query_values(results, measure, k)
        shown = {m: values[m] for m in methods}
        found = compare(shown, baseline, measure=label, random_state=seed)
        comparisons += [asdict(c) for c in found]
    return {
        "comparisons": comparisons,
        "test": "paired sign-flip randomisation test over queries",
        "correction": "Holm",
        "intervals": "95 % paired bootstrap over queries",
    }


def table(run: RunDirectory, results: pl.DataFrame) -> str:
    """The whole table in Markdown."""
    settings = run.settings
    # A method that failed on a fold has other queries than the rest: it has no mean to compare.
    complete = complete_methods(run)
    values = {
        label: {m: v for m, v in query_values(results, measure, k).items() if m in complete}
        for label, measure, k in COLUMNS
    }
    means = {label: {m: float(v.mean()) for m, v in by.items()} for label, by in values.items()}
    significance = run.significance()
    lines = [
        f"# {settings['title']}",
        "",
        _facts(settings),
        "",
        "| method | " + " | ".join(label for label, _, _ in COLUMNS) + " | seconds a fold |",
        "|---|" + "---|" * (len(COLUMNS) + 1),
    ]
    lines += [_row(run, method, means) for method in run.methods]
    lines += _spread_of_starts(run.methods, means)
    if significance and complete:
        lines += ["", *_comparison_lines(significance, baseline_of(complete))]
    lines += ["", "## Chosen settings", "", *_setting_lines(run)]
    if complete:
        baseline = baseline_of(complete)
        low, high = bootstrap_interval(values["NDCG@10"][baseline])
        lines += ["", f"95 % interval of {baseline}'s NDCG@10: {low:.4f} to {high:.4f}."]
    return "\n".join(lines) + "\n"


def _facts(settings: Mapping[str, Any]) -> str:
    data = settings["data"]
    return (
        f"{data.get('queries', '?')} test queries of {data.get('folds')} folds; convention "
        f"`{settings['convention']}`; settings chosen by {settings['select']} on the validation "
        f"part. Means over queries; best in bold. Command: `{settings['command']}`"
    )


def _how_tested(significance: Mapping[str, Any]) -> str:
    return (
        f"{significance['intervals']}; p by {significance['test']}, adjusted by "
        f"{significance['correction']}'s procedure over all methods of a column."
    )


def _row(run: RunDirectory, method: str, means: Mapping[str, Mapping[str, float]]) -> str:
    fits = [f for f in run.fits() if f["method"] == method]
    failed = [f for f in fits if f["status"] == "failed"]
    if failed:
        reason = str(failed[0]["error"]).splitlines()[0].replace("|", "\\|")
        return f"| {method} | failed on {len(failed)} of {len(fits)} folds: {reason} |"
    cells = []
    for label, _, _ in COLUMNS:
        value = means[label][method]
        best = max(means[label].values())
        cells.append(f"**{value:.4f}**" if value == best else f"{value:.4f}")
    seconds = np.mean([f["seconds"]["search"] for f in fits])
    return f"| {method} | " + " | ".join(cells) + f" | {seconds:.1f} |"


def _spread_of_starts(
    methods: Sequence[str], means: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Mean and standard deviation over random starts, where the run has some."""
    starts = [m for m in methods if m.startswith("random start")]
    if len(starts) < 2 or not all(m in means["NDCG@1"] for m in starts):
        return []
    cells = []
    for label, _, _ in COLUMNS:
        values = np.array([means[label][m] for m in starts])
        cells.append(f"{values.mean():.4f} ± {values.std(ddof=1):.4f}")
    return [f"| *{len(starts)} random starts, mean ± sd* | " + " | ".join(cells) + " | |"]


def _comparison_lines(significance: Mapping[str, Any], baseline: str) -> list[str]:
    lines = [
        f"## Differences to {baseline}",
        "",
        _how_tested(significance),
        "",
        "| method | " + " | ".join(label for label, _, _ in TESTED) + " |",
        "|---|" + "---|" * len(TESTED),
    ]
    by_method: dict[str, dict[str, str]] = {}
    for c in significance["comparisons"]:
        text = f"{c['difference']:+.4f} [{c['low']:+.4f}, {c['high']:+.4f}], p = "
        text += "< 0.001" if c["p_adjusted"] < 0.001 else f"{c['p_adjusted']:.3f}"
        by_method.setdefault(c["method"], {})[c["measure"]] = text.replace("p = <", "p <")
    for method, cells in by_method.items():
        lines.append(f"| {method} | " + " | ".join(cells[label] for label, _, _ in TESTED) + " |")
    return lines


def _setting_lines(run: RunDirectory) -> list[str]:
    fits = run.fits()
    folds = list(dict.fromkeys(f["fold"] for f in fits))
    lines = ["| method | " + " | ".join(folds) + " |", "|---|" + "---|" * len(folds)]
    for method in run.methods:
        chosen = {f["fold"]: f["params"] for f in fits if f["method"] == method}
        cells = [
            ", ".join(f"{k} = {_number(v)}" for k, v in chosen.get(fold, {}).items()) or "–"
            for fold in folds
        ]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return lines


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
