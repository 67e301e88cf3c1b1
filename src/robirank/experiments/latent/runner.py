"""Running the latent experiment: one method after the other, so that their times compare."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from robirank.experiments.latent.methods import LATENT_FIELD
from robirank.experiments.latent.tables import write_latent_tables
from robirank.experiments.latent.units import (
    LatentExperiment,
    Parts,
    describe_parts,
    load_parts,
    run_unit,
)
from robirank.experiments.ltr.runner import announce, circumstances, report_fit
from robirank.experiments.ltr.units import failed_fit
from robirank.experiments.run_dir import RunDirectory

__all__ = ["run_latent"]


def run_latent(
    experiment: LatentExperiment,
    output: Path,
    methods: Sequence[str],
    *,
    title: str | None = None,
    console: Console | None = None,
    command: str | None = None,
) -> RunDirectory:
    """Run latent methods from each starting point and write a run directory.

    Units that an earlier run with the same settings has finished are not repeated.

    Parameters
    ----------
    experiment : LatentExperiment
        What decides the numbers.
    output : Path
        The run directory.
    methods : sequence of str
        Names from `LATENT_FIELD`.
    title : str, optional
        What the report is called; the name of the data by default.
    console : rich.console.Console, optional
        Where progress is shown.
    command : str, optional
        The command to write down for whoever wants to repeat the run.
    """
    unknown = [m for m in methods if m not in LATENT_FIELD]
    if unknown or not methods:
        raise ValueError(f"methods must be some of {', '.join(LATENT_FIELD)}; got {list(methods)}")
    experiment.check()
    console = console or Console(stderr=True)
    parts = load_parts(experiment)
    run = RunDirectory.create(output, _settings(experiment, parts, methods, title, command))
    todo = [
        (method, start)
        for start in experiment.starts
        for method in run.methods
        if not _is_done(run, method, start)
    ]
    announce(console, run, len(todo), len(run.methods) * experiment.seeds)
    for method, start in todo:
        _do(run, method, start, parts, experiment, console)
    run.finish()
    write_latent_tables(run)
    return run


def _settings(
    experiment: LatentExperiment,
    parts: Parts,
    methods: Sequence[str],
    title: str | None,
    command: str | None,
) -> dict[str, Any]:
    decides = {
        name: value
        for name, value in asdict(experiment).items()
        if name not in ("data", "select", "seed", "seeds")
    }
    data = describe_parts(experiment, parts)
    return {
        "kind": "latent",
        "title": title or data["name"],
        "data": data,
        "convention": "binary",
        "select": experiment.select,
        "k_max": 20,
        "seed": experiment.seed,
        "methods": list(methods),
        "options": decides,
        **circumstances(command),
    }


def _is_done(run: RunDirectory, method: str, start: str) -> bool:
    fit = run.fit(method, start)
    return fit is not None and fit["status"] == "ok"


def _do(
    run: RunDirectory,
    method: str,
    start: str,
    parts: Parts,
    experiment: LatentExperiment,
    console: Console,
) -> None:
    """Do one unit and write it down."""
    begin = time.perf_counter()
    first = run.fit(method, experiment.starts[0]) if start != experiment.starts[0] else None
    with console.status(f"{method} …") as status:
        try:
            fit, results = run_unit(
                LATENT_FIELD[method],
                parts,
                experiment,
                start,
                chosen=first if first is not None and first["status"] == "ok" else None,
                tell=lambda what: status.update(f"{method}: {escape(what)} …"),
            )
            run.append_fit(fit, results)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
            fit = failed_fit(method, start, reason, experiment)
            run.append_fit(fit)
    report_fit(fit, time.perf_counter() - begin, console)
