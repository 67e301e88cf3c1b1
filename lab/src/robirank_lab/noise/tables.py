"""What a run on noise says: quality by share of noise, areas under the curves, tests."""

from __future__ import annotations

import numpy as np

from robirank_lab.files import write_whole
from robirank_lab.noise.results import NoiseResults, kind_words, metric_words
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import JudgedData
from robirank_lab.statistics import Comparison
from robirank_lab.text import markdown_table, markdown_text


def write_tables(run: RunDirectory) -> None:
    """Write ``table.md``."""
    write_whole(run.path / "table.md", table(run, NoiseResults(run)))


def table(run: RunDirectory, results: NoiseResults) -> str:
    """The whole table in Markdown: one for each kind of noise and metric."""
    lines = [f"# {markdown_text(run.settings.title)}", "", facts(run)]
    failed = [fit for fit in run.fits() if fit.error is not None]
    for fit in failed[:5]:
        reason = markdown_text((fit.error or "").splitlines()[0])
        lines += ["", f"Failed: {markdown_text(fit.method)} on {fit.case}: {reason}"]
    for kind, words in kind_words(results.kinds).items():
        lines += ["", f"## {kind}", "", f"With a share s of noise, {words}."]
        for metric in results.metrics:
            if results.methods_with(metric, kind):
                lines += ["", *_table(results, metric, kind)]
    return "\n".join(lines) + "\n"


def facts(run: RunDirectory) -> str:
    """What was measured, and how."""
    data, experiment = run.data, run.experiment
    measured = (
        f"{data.queries} test queries in {len(data.folds)} folds"
        if isinstance(data, JudgedData)
        else f"{data.test_users:,} test users, {data.items:,} items"
    )
    sample = "folds" if isinstance(data, JudgedData) and len(data.folds) > 1 else "seeds"
    return (
        f"{measured}, clean; training and validation part are spoiled, with {experiment.seeds} "
        f"seeds. The area is the mean height of the curve over the shares; kept is what is left of "
        f"the clean figure at the largest share. Intervals: 95 %, "
        f"Student's, paired over {sample}; p adjusted by Holm's procedure over the methods of a "
        f"table. Command: {markdown_text(run.settings.command)}"
    )


def _table(results: NoiseResults, metric: str, kind: str) -> list[str]:
    rows, compared = [], {c.method: c for c in results.comparisons(metric, kind)}
    quality = metric == results.metrics[0]
    for method in results.methods_with(metric, kind):
        curve = results.curve(metric, method, kind)
        assert curve is not None
        heights = (*curve.mean, results.areas(metric, method, kind).mean())
        cells = [f"{value:.4f}" for value in heights]
        kept = [f"{results.kept(metric, method, kind):.1%}"] if quality else []
        rows.append([markdown_text(method), *cells, *kept, *_test_cells(compared.get(method))])
    shares = [f"s = {share:g}" for share in results.shares]
    heads = [metric_words(metric), *shares, "area", *(["kept"] if quality else [])]
    return markdown_table([*heads, f"area less {results.baseline}'s", "p"], rows)


def _test_cells(c: Comparison | None) -> list[str]:
    """The difference with its interval, and the p-value; empty for the baseline itself."""
    if c is None:
        return ["", ""]
    if np.isnan(c.low):
        return [f"{c.difference:+.4f}", ""]
    p = "< 0.001" if c.p_adjusted < 0.001 else f"{c.p_adjusted:.3f}"
    return [f"{c.difference:+.4f} [{c.low:+.4f}, {c.high:+.4f}]", p]
