"""What a finished run says: means, paired tests with intervals, chosen settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from robirank_lab.files import write_whole
from robirank_lab.ltr.results import LtrResults
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import Significance
from robirank_lab.statistics import compare
from robirank_lab.tables import method_table
from robirank_lab.text import markdown_table, markdown_text, setting_text

COLUMNS = {
    "NDCG@1": "ndcg@1",
    "NDCG@3": "ndcg@3",
    "NDCG@5": "ndcg@5",
    "NDCG@10": "ndcg@10",
    "MeanNDCG": "mean_ndcg",
    "MAP": "map",
}
TESTED = ("ndcg@1", "ndcg@10", "mean_ndcg")


def baseline_of(methods: Sequence[str]) -> str:
    """The method that the others are compared with: RoBiRank where it takes part."""
    return "RoBiRank" if "RoBiRank" in methods else methods[0]


def write_tables(run: RunDirectory) -> None:
    """Write ``significance.json`` and ``table.md``."""
    results = LtrResults(run)
    # A method that failed on a fold has other queries than the rest: it has no mean to compare.
    methods = run.complete_methods()
    if methods:
        run.write_significance(_significance(results, methods, run.experiment.seed))
    write_whole(run.path / "table.md", table(run, results, methods))


def _significance(results: LtrResults, methods: Sequence[str], seed: int) -> Significance:
    comparisons = []
    for metric in TESTED:
        values = {m: results.of(m, metric) for m in methods}
        comparisons += compare(values, baseline_of(methods), metric=metric, random_state=seed)
    return Significance(comparisons=comparisons)


def table(run: RunDirectory, results: LtrResults, methods: Sequence[str]) -> str:
    """The whole table in Markdown, with the means of the given methods."""
    by_method = {m: results.means(m) for m in methods}
    means = {label: {m: by_method[m][name] for m in methods} for label, name in COLUMNS.items()}
    fits = run.fits()
    seconds = {
        m: f"{np.mean([f.search_seconds for f in fits if f.method == m]):.1f}" for m in methods
    }
    more = {"seconds a fold": seconds}
    if run.experiment.seeds > 1:
        more = {"sd of seeds": {m: _spread_of_seeds(run, results, m) for m in methods}, **more}
    lines = [
        f"# {markdown_text(run.settings.title)}",
        "",
        _facts(run),
        "",
        *method_table(run, means, more),
        *_spread_of_starts(methods, means),
    ]
    significance = run.significance()
    if significance and methods:
        lines += ["", *_comparison_lines(significance, baseline_of(methods))]
    lines += ["", "## Chosen settings", "", *_setting_lines(run)]
    return "\n".join(lines) + "\n"


def _facts(run: RunDirectory) -> str:
    data, experiment = run.data, run.experiment
    seeds = "" if experiment.seeds == 1 else f" and over {experiment.seeds} seeds"
    return (
        f"{data.queries} test queries of {len(data.folds)} folds; convention "
        f"`{experiment.convention}`; settings chosen by {experiment.select} on the validation "
        f"part. Means over queries{seeds}; best in bold. "
        f"Command: {markdown_text(run.settings.command)}"
    )


def _spread_of_seeds(run: RunDirectory, results: LtrResults, method: str) -> str:
    """The standard deviation, over seeds, of NDCG@10 over all queries; of one that takes a seed."""
    by_fold = {fit.case: fit.by_seed for fit in run.fits() if fit.method == method}
    if not all(by_fold.values()):
        return "–"
    judged = np.isfinite(results.of(method, "ndcg@10"))
    at = [fold for (fold, _), there in zip(results.queries, judged, strict=True) if there]
    by_seed = np.mean([by_fold[fold] for fold in at], axis=0)
    return f"{by_seed.std(ddof=1):.4f}"


def _spread_of_starts(
    methods: Sequence[str], means: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Mean and standard deviation over random starts, where the run has some."""
    starts = [m for m in methods if m.startswith("random start")]
    if len(starts) < 2:
        return []
    cells = []
    for by_method in means.values():
        values = np.array([by_method[m] for m in starts])
        cells.append(f"{values.mean():.4f} ± {values.std(ddof=1):.4f}")
    return [f"| *{len(starts)} random starts, mean ± sd* | " + " | ".join(cells) + " | |"]


def _comparison_lines(significance: Significance, baseline: str) -> list[str]:
    by_method: dict[str, dict[str, str]] = {}
    for c in significance.comparisons:
        p = "p < 0.001" if c.p_adjusted < 0.001 else f"p = {c.p_adjusted:.3f}"
        text = f"{c.difference:+.4f} [{c.low:+.4f}, {c.high:+.4f}], {p}"
        by_method.setdefault(c.method, {})[c.metric] = text
    how = (
        "95 % paired bootstrap over queries; p by paired sign-flip randomisation test over "
        "queries, adjusted by Holm's procedure over all methods of a column."
    )
    return [
        f"## Differences to {markdown_text(baseline)}",
        "",
        how,
        "",
        *markdown_table(
            ["method", *TESTED],
            [
                [markdown_text(method), *(texts[x] for x in TESTED)]
                for method, texts in by_method.items()
            ],
        ),
    ]


def _setting_lines(run: RunDirectory) -> list[str]:
    fits = run.fits()
    folds = list(dict.fromkeys(fit.case for fit in fits))
    chosen = {fit.unit: markdown_text(setting_text(fit.params, " = ")) for fit in fits}
    rows = [
        [markdown_text(m), *(chosen.get((m, fold)) or "–" for fold in folds)] for m in run.methods
    ]
    return markdown_table(["method", *map(markdown_text, folds)], rows)
