"""What a scaling run found: for its table and for its report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robirank_lab.latent.results import learning_curves
from robirank_lab.run_dir import RunDirectory
from robirank_lab.text import markdown_table, markdown_text

LEAD = "precision@1"
CLOCKS = (
    "Seconds of the whole run: elapsed, and of a worker on the mean its work (processor time) and "
    "the rest, in which it waits for others, for a core or for blocks of V."
)


def measured_runs(run: RunDirectory) -> list[dict[str, Any]]:
    """All runs that are done.

    Each has a name, engine, workers and parts; precision and seconds after each epoch; and the
    seconds that a worker works and waits, on the mean.
    """
    curves = learning_curves(run.results(), run.complete_methods())
    runs = []
    for fit in run.fits():
        if fit.error is None:
            curve = curves[fit.method]
            work = (fit.processor_seconds or 0.0) / fit.params["workers"]
            times = {"work": work, "waiting": max(0.0, float(curve.seconds[-1]) - work)}
            reached = {"precision": curve.values[LEAD], "seconds": curve.seconds}
            runs.append({"name": fit.method, **fit.params, **reached, **times})
    return runs


def by_parts(runs: Sequence[dict[str, Any]], engine: str = "threads") -> list[dict[str, Any]]:
    """RoBiRank on an engine, the fewest parts first."""
    ours = [r for r in runs if r["engine"] == engine and r["name"].startswith("RoBiRank")]
    return sorted(ours, key=lambda r: int(r["parts"]))


def table(run: RunDirectory) -> str:
    """The whole table in Markdown."""
    runs, data, experiment = measured_runs(run), run.data, run.experiment
    rows = [
        (
            markdown_text(r["name"]),
            r["workers"],
            r["parts"],
            f"{r['precision'][-1]:.4f}",
            *(f"{seconds:.3g}" for seconds in (r["seconds"][-1], r["work"], r["waiting"])),
        )
        for r in runs
    ]
    shown = sorted({round(e) for e in np.geomspace(1, experiment.iterations, 6)})
    epochs = [
        (r["parts"], *(f"{r['precision'][e - 1]:.4f}" for e in shown)) for r in by_parts(runs)
    ]
    facts = (
        f"{data.users:,} users, {data.items:,} items, {data.train:,} interactions to train and "
        f"{data.test:,} to test; {experiment.factors} factors, {experiment.iterations} epochs; "
        f"{run.settings.cores} cores. Command: {markdown_text(run.settings.command)}"
    )
    lines = [
        f"# {markdown_text(run.settings.title)}",
        facts,
        CLOCKS,
        "\n".join(
            markdown_table(("run", "workers", "parts", LEAD, "elapsed", "work", "waiting"), rows)
        ),
        f"## Convergence by the number of parts ({LEAD})",
        "\n".join(markdown_table(("parts", *(f"epoch {e}" for e in shown)), epochs)),
    ]
    return "\n\n".join(lines) + "\n"
