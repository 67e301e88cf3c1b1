"""What a scaling run says: the table and the figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from robirank.experiments.plotting import save_figures
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import ScalingSettings
from robirank.experiments.scaling.figures import draw_precision, draw_where
from robirank.experiments.scaling.forecast import Check, ShapeForecast
from robirank.experiments.scaling.results import PARTS_OF_TIME, ScalingRun, Work, read_scaling
from robirank.experiments.text import markdown_code, markdown_table, markdown_text
from robirank.storage.files import write_text


def write_tables(run: RunDirectory[ScalingSettings]) -> None:
    """Write ``table.md`` and, where matplotlib is there, ``figures/``."""
    found = read_scaling(run)
    assert found is not None
    write_text(run.path / "table.md", table(run.settings, found))
    figures = {
        "scaling": partial(draw_precision, found, run.settings.title),
        "where": partial(draw_where, found.forecast.shapes),
    }
    save_figures(run.path / "figures", figures)


def table(settings: ScalingSettings, found: ScalingRun) -> str:
    """The whole table in Markdown."""
    works = [
        (
            work.fit.method,
            work.fit.workers,
            work.fit.parts,
            f"{work.precision[-1]:.4f}",
            *_times(work),
        )
        for work in found.works
    ]
    lines = [
        f"# {markdown_text(settings.title)}",
        "",
        _facts(settings),
        "",
        f"## Measured, on {found.forecast.cores} cores",
        "",
        _CLOCKS,
        "",
        *markdown_table(
            ("run", "workers", "parts", "precision@1", *_TIMES),
            works,
        ),
        "",
        "## Convergence by the number of parts (precision@1)",
        "",
        *_by_parts(found.by_parts),
        "",
        "## The simulation beside what was measured (seconds an epoch)",
        "",
        *markdown_table(
            ("workers", "work", "simulated", "error", "own cores", "simulated", "error"),
            [_checked(check) for check in found.forecast.checks],
        ),
    ]
    for shape in found.forecast.shapes:
        lines += ["", *_simulated(shape)]
    return "\n".join(lines) + "\n"


_TIMES = ("elapsed", "work", "waits for others", "waits for a core")
_CLOCKS = (
    "Seconds of a worker for the whole run. *Work* is processor time. *Waits for others* is "
    "waiting for slower parts, with a core for each worker. *Waits for a core* is the rest of "
    "what elapsed: waiting for a core, and for whatever else the machine does."
)


def _times(work: Work) -> list[str]:
    """The times of a run under the names and with the gaps that the page has."""
    shares = work.shares
    others = _short(max(0.0, shares["waiting"])) if work.fit.workers == work.fit.parts else "–"
    found = (work.elapsed[-1], shares["compute"])
    return [*map(_short, found), others, _short(max(0.0, shares["core"]))]


def _facts(settings: ScalingSettings) -> str:
    data = settings.data
    return (
        f"{data.users:,} users, {data.items:,} items, {data.train:,} interactions to train and "
        f"{data.test:,} to test; {settings.factors} factors, {settings.iterations} epochs. "
        f"Command: {markdown_code(settings.command)}"
    )


def _by_parts(works: Sequence[Work]) -> list[str]:
    epochs = len(works[0].elapsed)
    shown = sorted({round(e) for e in np.geomspace(1, epochs, 6)})
    rows = [(w.fit.parts, *(f"{w.precision[e - 1]:.4f}" for e in shown)) for w in works]
    return markdown_table(("parts", *(f"epoch {e}" for e in shown)), rows)


def _checked(check: Check) -> list[Any]:
    cells: list[Any] = [check.workers]
    for measured, predicted in (
        (check.busy, check.predicted_busy),
        (check.path, check.predicted_path),
    ):
        error = f"{100 * (predicted / measured - 1):+.0f} %"
        cells += [_short(measured), _short(predicted), error]
    return cells


def _simulated(shape: ShapeForecast) -> list[str]:
    alone = shape.epochs[1].total
    rows = [
        (
            f"{machines:,}",
            _short(time.without_driver),
            *(_short(getattr(time, name)) for name in PARTS_OF_TIME),
            f"{alone / time.without_driver:.0f} ×",
            _short(time.total),
        )
        for machines, time in shape.epochs.items()
    ]
    heads = ("machines", "an epoch", *PARTS_OF_TIME, "faster by", "with a driver")
    facts = (
        f"{shape.users:,} users, {shape.items:,} items, {shape.records:,} records, "
        f"{shape.factors} factors; seconds an epoch. Twice as many machines stop paying at "
        f"{shape.stops:,}; where one driver hands out every task, at {shape.stops_driver:,}."
    )
    return [f"## Simulated: {shape.name}", "", facts, "", *markdown_table(heads, rows)]


def _short(seconds: float) -> str:
    """Three digits.

    Examples
    --------
    >>> _short(123.456), _short(1.23456), _short(0.000123456)
    ('123', '1.23', '0.000123')
    """
    return f"{seconds:.0f}" if seconds >= 100 else f"{seconds:.3g}"
