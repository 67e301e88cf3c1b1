"""What a latent run says: the table of what was reached, and the paper's figure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from robirank.experiments.latent.figures import draw_learning
from robirank.experiments.latent.results import LearningCurve, learning_curves, lift
from robirank.experiments.latent.units import MEASURES
from robirank.experiments.plotting import save_figures
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import LatentSettings
from robirank.experiments.tables import method_table
from robirank.experiments.text import markdown_code, markdown_table, markdown_text, setting_text
from robirank.storage.files import write_text

Run = RunDirectory[LatentSettings]


def write_tables(run: Run) -> None:
    """Write ``table.md`` and, where matplotlib is there, ``figures/``."""
    curves = learning_curves(run.results(), run.complete_methods())
    write_text(run.path / "table.md", table(run, curves))
    if curves:
        subtitle = f"{run.settings.title}: mean over {run.settings.data.test_users:,} users"
        draw = partial(draw_learning, curves, ("precision@1", "precision@10"), subtitle)
        save_figures(run.path / "figures", {"precision": draw})


def table(run: Run, curves: Mapping[str, LearningCurve]) -> str:
    """The whole table in Markdown."""
    fits = run.fits()
    reached = {
        measure: {method: curve.last(measure) for method, curve in curves.items()}
        for measure in MEASURES
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
        _facts(run.settings),
        "",
        *method_table(run, reached, seconds),
    ]
    ratio = lift(curves, "precision@1")
    if ratio is not None:
        lines += ["", f"RoBiRank's precision@1 is {ratio:.2f} times the identity loss's."]
    lines += ["", "## Chosen settings", "", *_settings(run)]
    return "\n".join(lines) + "\n"


def _facts(settings: LatentSettings) -> str:
    data = settings.data
    starts = "" if settings.seeds == 1 else f"; means over {settings.seeds} starting points"
    return (
        f"{data.users:,} users, {data.items:,} items; {data.train:,} interactions to "
        f"train, {data.valid:,} to validate, {data.test:,} to test, split {data.split}. "
        f"{settings.factors} factors{starts}. Step size and penalty chosen by "
        f"{settings.select} on the validation part; then fitted to both and measured on the "
        f"test part. Best in bold. Command: {markdown_code(settings.command)}"
    )


def _settings(run: Run) -> list[str]:
    chosen = {fit.method: fit for fit in reversed(run.fits()) if fit.error is None}
    rows = [
        (fit.method, setting_text(fit.params, " = "), f"{fit.validation:.4f}")
        for fit in (chosen[m] for m in run.methods if m in chosen)
    ]
    return markdown_table(("method", "setting", "validation"), rows)
