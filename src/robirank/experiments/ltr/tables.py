"""What a finished run says: means with intervals, paired tests, the table, the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from robirank.experiments.ltr.figures import figures
from robirank.experiments.ltr.results import LtrResults
from robirank.experiments.plotting import save_figures
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import LtrSettings, Significance
from robirank.experiments.statistics import bootstrap_interval, compare
from robirank.experiments.tables import method_table
from robirank.experiments.text import markdown_code, markdown_table, markdown_text, setting_text
from robirank.storage.files import write_text

Run = RunDirectory[LtrSettings]

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


def write_tables(run: Run) -> None:
    """Write ``significance.json``, ``table.md`` and, where matplotlib is there, ``figures/``."""
    results = LtrResults(run)
    # A method that failed on a fold has other queries than the rest: it has no mean to compare.
    methods = run.complete_methods()
    if methods:
        run.write_significance(_significance(results, methods, run.settings.seed))
        save_figures(run.path / "figures", figures(run, results, methods))
    write_text(run.path / "table.md", table(run, results, methods))


def _significance(results: LtrResults, methods: Sequence[str], seed: int) -> Significance:
    comparisons = []
    for measure in TESTED:
        values = {m: results.of(m, measure) for m in methods}
        comparisons += compare(values, baseline_of(methods), measure=measure, random_state=seed)
    return Significance(comparisons=comparisons)


def table(run: Run, results: LtrResults, methods: Sequence[str]) -> str:
    """The whole table in Markdown, with the means of the given methods."""
    by_method = {m: results.means(m) for m in methods}
    means = {label: {m: by_method[m][name] for m in methods} for label, name in COLUMNS.items()}
    fits = run.fits()
    seconds = {
        m: f"{np.mean([f.search_seconds for f in fits if f.method == m]):.1f}" for m in methods
    }
    more = {"seconds a fold": seconds}
    if run.settings.seeds > 1:
        more = {"sd of seeds": {m: _spread_of_seeds(run, results, m) for m in methods}, **more}
    lines = [
        f"# {markdown_text(run.settings.title)}",
        "",
        _facts(run.settings),
        "",
        *method_table(run, means, more),
        *_spread_of_starts(methods, means),
    ]
    significance = run.significance()
    if significance and methods:
        lines += ["", *_comparison_lines(significance, baseline_of(methods))]
    lines += ["", "## Chosen settings", "", *_setting_lines(run)]
    if methods:
        baseline = baseline_of(methods)
        low, high = bootstrap_interval(results.of(baseline, "ndcg@10"))
        lines += [
            "",
            f"95 % interval of {markdown_text(baseline)}'s NDCG@10: {low:.4f} to {high:.4f}.",
        ]
    return "\n".join(lines) + "\n"


def _facts(settings: LtrSettings) -> str:
    data = settings.data
    seeds = "" if settings.seeds == 1 else f" and over {settings.seeds} seeds"
    return (
        f"{data.queries} test queries of {len(data.folds)} folds; convention "
        f"`{settings.convention}`; settings chosen by {settings.select} on the validation part. "
        f"Means over queries{seeds}; best in bold. Command: {markdown_code(settings.command)}"
    )


def _spread_of_seeds(run: Run, results: LtrResults, method: str) -> str:
    """The standard deviation, over seeds, of NDCG@10 over all queries; of one that takes a seed."""
    by_fold = {fit.fold: fit.by_seed for fit in run.fits() if fit.method == method}
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
        by_method.setdefault(c.method, {})[c.measure] = text
    how = (
        f"{significance.intervals}; p by {significance.test}, adjusted by "
        f"{significance.correction}'s procedure over all methods of a column."
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


def _setting_lines(run: Run) -> list[str]:
    fits = run.fits()
    folds = list(dict.fromkeys(fit.fold for fit in fits))
    chosen = {fit.unit: markdown_text(setting_text(fit.params, " = ")) for fit in fits}
    rows = [
        [markdown_text(m), *(chosen.get((m, fold)) or "–" for fold in folds)] for m in run.methods
    ]
    return markdown_table(["method", *map(markdown_text, folds)], rows)
