"""Running the latent experiment: one method after the other, so that their times compare."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from robirank.experiments.latent.methods import LATENT_FIELD
from robirank.experiments.latent.tables import write_tables
from robirank.experiments.latent.units import (
    LatentExperiment,
    Parts,
    describe_parts,
    load_parts,
    run_unit,
)
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import LatentFit, LatentSettings
from robirank.experiments.runner import announce, check_methods, failure_text, report_fit, start_run


def run_latent(
    experiment: LatentExperiment,
    output: Path,
    methods: Sequence[str],
    *,
    title: str | None = None,
    console: Console | None = None,
) -> RunDirectory[LatentSettings]:
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
    """
    check_methods(methods, LATENT_FIELD)
    experiment.check()
    console = console or Console(stderr=True)
    parts = load_parts(experiment)
    data = describe_parts(experiment, parts)
    run = start_run(LatentSettings, experiment, output, data=data, methods=methods, title=title)
    todo = run.todo()
    announce(console, run, len(todo))
    for method, seed in todo:
        _run_one(run, method, seed, parts, experiment, console)
    run.finish()
    write_tables(run)
    return run


def _run_one(
    run: RunDirectory[LatentSettings],
    method: str,
    seed: int,
    parts: Parts,
    experiment: LatentExperiment,
    console: Console,
) -> None:
    """Do one unit and write it down; only the first seed's setting is searched."""
    begin = time.perf_counter()
    first = run.fit(method, experiment.seed) if seed != experiment.seed else None
    with console.status(f"{method} …") as status:
        try:
            fit, results = run_unit(
                LATENT_FIELD[method],
                parts,
                experiment,
                seed,
                chosen=first if first is not None and first.error is None else None,
                on_step=lambda what: status.update(f"{method}: {escape(what)} …"),
            )
            run.append_fit(fit, results)
        except Exception as error:
            fit = LatentFit(method=method, seed=seed, error=failure_text(error))
            run.append_fit(fit)
    report_fit(fit, experiment.select, time.perf_counter() - begin, console)
