"""What a latent run says: the table of what was reached."""

from __future__ import annotations

from collections.abc import Mapping

from robirank_lab.files import write_whole
from robirank_lab.latent.results import LearningCurve, learning_curves, lift
from robirank_lab.latent.units import METRICS
from robirank_lab.run_dir import RunDirectory
from robirank_lab.tables import method_table
from robirank_lab.text import markdown_table, markdown_text, setting_text


def write_tables(run: RunDirectory) -> None:
    """Write ``table.md``."""
    curves = learning_curves(run.results(), run.complete_methods())
    write_whole(run.path / "table.md", table(run, curves))


def table(run: RunDirectory, curves: Mapping[str, LearningCurve]) -> str:
    """The whole table in Markdown."""
    fits = run.fits()
    reached = {
        metric: {method: curve.last(metric) for method, curve in curves.items()}
        for metric in METRICS
    }
    seconds = {
        "training, s": {method: f"{curve.seconds[-1]:.1f}" for method, curve in curves.items()},
        "search, s": {
            m: f"{sum(fit.search_seconds for fit in fits if fit.method == m):.1f}" for m in curves
        },
    }
    lines = [
        f"# {markdown_text(run.settings.title)}",
        "",
        _facts(run),
        "",
        *method_table(run, reached, seconds),
    ]
    ratio = lift(curves, "precision@1")
    if ratio is not None:
        lines += ["", f"RoBiRank's precision@1 is {ratio:.2f} times the identity loss's."]
    chosen = {fit.method: fit for fit in reversed(fits) if fit.error is None}
    rows = [
        (fit.method, setting_text(fit.params, " = "), f"{fit.validation:.4f}")
        for fit in (chosen[m] for m in run.methods if m in chosen)
    ]
    settings = markdown_table(("method", "setting", "validation"), rows)
    return "\n".join([*lines, "", "## Chosen settings", "", *settings]) + "\n"


def _facts(run: RunDirectory) -> str:
    data, experiment = run.data, run.experiment
    starts = "" if experiment.seeds == 1 else f"; means over {experiment.seeds} starting points"
    return (
        f"{data.users:,} users, {data.items:,} items; {data.train:,} interactions to "
        f"train, {data.valid:,} to validate, {data.test:,} to test, split {data.split}. "
        f"{experiment.factors} factors{starts}. Step size and penalty chosen by "
        f"{experiment.select} on the validation part; then fitted to both and measured on the "
        f"test part. Best in bold. Command: {markdown_text(run.settings.command)}"
    )
