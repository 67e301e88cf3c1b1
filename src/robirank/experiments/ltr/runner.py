"""Running the learning-to-rank experiment: all methods on all folds, several at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from robirank._threads import thread_count
from robirank.experiments.ltr.methods import FIELD
from robirank.experiments.ltr.tables import write_tables
from robirank.experiments.ltr.units import LtrExperiment, describe_data, work
from robirank.experiments.pool import Done, run_units
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import LtrFit, LtrSettings
from robirank.experiments.runner import announce, check_methods, report_fit, start_run

Unit = tuple[Any, ...]  # a method and a fold


def run_ltr(
    experiment: LtrExperiment,
    output: Path,
    methods: Sequence[str],
    *,
    title: str | None = None,
    n_jobs: int | None = None,
    console: Console | None = None,
    command: str | None = None,
) -> RunDirectory[LtrSettings]:
    """Run methods over all folds of a data set and write a run directory.

    Units that an earlier run with the same settings has finished are not repeated; units that
    failed, and methods that it was asked for but did not get to, are done now.

    Parameters
    ----------
    experiment : LtrExperiment
        What decides the numbers.
    output : Path
        The run directory.
    methods : sequence of str
        Names from `FIELD`.
    title : str, optional
        What the report is called; the name of the data by default.
    n_jobs : int, optional
        Processes at a time; one a core by default.
    console : rich.console.Console, optional
        Where progress is shown.
    command : str, optional
        The command to write down for whoever wants to repeat the run.
    """
    check_methods(methods, FIELD)
    experiment.check()
    console = console or Console(stderr=True)
    data = describe_data(experiment)
    run = start_run(
        LtrSettings, experiment, output, data=data, methods=methods, title=title, command=command
    )
    todo = run.todo()
    announce(console, run, len(todo))
    _run_units(run, todo, experiment, thread_count(n_jobs or 0), console)
    run.finish()
    write_tables(run)
    return run


def _run_units(
    run: RunDirectory[LtrSettings],
    todo: Sequence[Unit],
    experiment: LtrExperiment,
    jobs: int,
    console: Console,
) -> None:
    bar = Progress(
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[now]}"),
        console=console,
        disable=not console.is_terminal,
        speed_estimate_period=3600,
    )
    running: list[Unit] = []

    def show() -> None:
        bar.update(task, now=escape(", ".join(f"{m} on {fold}" for m, fold in running)))

    def begin(unit: Unit) -> None:
        running.append(unit)
        show()

    with bar:
        task = bar.add_task("", total=len(todo), now="")
        for done in run_units(
            work,
            todo,
            lambda unit: (run.path, FIELD[unit[0]], unit[1], experiment),
            n_jobs=jobs,
            preload=["robirank.experiments.ltr.units", "robirank.ltr.robirank"],
            on_start=begin,
        ):
            running.remove(done.unit)
            _report(run, done, console)
            bar.advance(task)
            show()


def _report(run: RunDirectory[LtrSettings], done: Done, console: Console) -> None:
    """Say how a unit came out; one whose process died has failed."""
    method, fold = done.unit
    fit = run.fit(method, fold)
    if fit is None or (done.crash and fit.error is not None):
        error = done.crash or "the process left no result"
        fit = LtrFit(method=method, fold=fold, error=error)
        run.append_fit(fit)
    report_fit(fit, run.settings.select, done.seconds, console)
