"""Running the learning-to-rank experiment: all methods on all folds, several at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from robirank_lab.ltr.methods import all_methods
from robirank_lab.ltr.tables import write_tables
from robirank_lab.ltr.units import check_select, describe_data, work
from robirank_lab.pool import Done, run_units
from robirank_lab.run_dir import RunDirectory, checked
from robirank_lab.run_format import Fit, LtrExperiment
from robirank_lab.runner import announce, check_methods, core_count, report_fit, start_run

Unit = tuple[str, str]  # a method and a fold


def run_ltr(
    data: Path,
    experiment: LtrExperiment,
    output: Path,
    methods: Sequence[str],
    *,
    title: str | None = None,
    n_jobs: int | None = None,
    console: Console | None = None,
    command: str | None = None,
) -> RunDirectory:
    """Run methods over all folds of a data set and write a run directory.

    Units that an earlier run with the same settings has finished are not repeated; units that
    failed, and methods that it was asked for but did not get to, are done now.

    Parameters
    ----------
    data : Path
        A folder that `robirank.load_dataset` reads.
    experiment : LtrExperiment
        What decides the numbers.
    output : Path
        The run directory.
    methods : sequence of str
        Names of `all_methods`.
    title, command : str, optional
        What the report is called, the name of the data by default; how to repeat the run.
    n_jobs : int, optional
        Processes at a time; one a core by default.
    console : rich.console.Console, optional
        Where progress is shown.
    """
    check_methods(methods, all_methods())
    check_select(checked(experiment))
    console = console or Console(stderr=True)
    run = start_run(
        experiment,
        output,
        data=describe_data(data, experiment),
        methods=methods,
        title=title,
        command=command,
    )
    _run_units(run, data, experiment, n_jobs or core_count(), console)
    run.finish()
    write_tables(run)
    return run


def _run_units(
    run: RunDirectory, data: Path, experiment: LtrExperiment, jobs: int, console: Console
) -> None:
    todo, methods = run.todo(), all_methods()
    announce(console, run, len(todo))
    bar = Progress(
        *(BarColumn(24), MofNCompleteColumn(), TimeRemainingColumn()),
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
            lambda unit: (run.path, data, methods[unit[0]], unit[1], experiment),
            n_jobs=jobs,
            preload=["robirank_lab.ltr.units", "robirank_lab.ltr.starts"],
            on_start=begin,
        ):
            running.remove(done.unit)
            _report(run, done, console)
            bar.advance(task)
            show()


def _report(run: RunDirectory, done: Done, console: Console) -> None:
    """Say how a unit came out; one whose process died has failed."""
    method, fold = done.unit
    fit = run.fit(method, fold)
    if fit is None or (done.crash and fit.error is not None):
        fit = Fit(method=method, case=fold, error=done.crash or "the process left no result")
        run.append_fit(fit)
    report_fit(fit, run, done.seconds, console)
