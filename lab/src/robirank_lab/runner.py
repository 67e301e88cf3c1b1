"""What every experiment does around its work: begin a run, say what goes on, note failures."""

from __future__ import annotations

import difflib
import os
import platform
import re
import sys
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import robirank as rr
from robirank_lab.pool import Done, run_units
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import Experiment, Fit, InteractionData, JudgedData, Settings
from robirank_lab.text import setting_text

_PACKAGES = ("numpy", "scipy", "scikit-learn", "polars", "lightgbm", "implicit", "lightfm-next")


def core_count() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_methods(methods: Sequence[str], known: Collection[str]) -> None:
    """Raise an error, before any work is done, if a method is unknown or there is none.

    The error names the nearest known ones, and lists those that differ by a number as one.
    """
    unknown = [name for name in methods if name not in known]
    if methods and not unknown:
        return
    listed = dict.fromkeys(re.sub(r"\d+$", "N", name) for name in known)
    close = [repr(c) for name in unknown for c in difflib.get_close_matches(name, known, 1)]
    hint = f"; did you mean {', '.join(close)}?" if close else ""
    raise rr.ArgumentError("methods", f"must be some of {', '.join(listed)}; got {unknown}{hint}")


def start_run(
    experiment: Experiment,
    output: Path,
    *,
    data: JudgedData | InteractionData,
    methods: Sequence[str],
    title: str | None = None,
    command: str | None = None,
) -> RunDirectory:
    """Make the run directory of an experiment, or open the one that is there.

    Parameters
    ----------
    experiment, data
        What decides the numbers.
    output : Path
        The run directory.
    methods : sequence of str
    title : str, optional
        What the report is called; the name of the data by default.
    command : str, optional
        How to repeat the run; the command line of this process by default.
    """
    settings = Settings(
        title=title or data.name,
        methods=list(methods),
        experiment=experiment,
        data=data,
        versions=_versions(),
        cores=core_count(),
        command=command or " ".join(["robirank", *sys.argv[1:]]),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return RunDirectory.create(output, settings)


def _versions() -> dict[str, str]:
    versions = {"robirank": rr.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def announce(console: Console, run: RunDirectory, todo: int) -> None:
    """Say how much there is to do."""
    total = len(run.settings.units)
    before = f", {total - todo} done before" if total > todo else ""
    text = f"{run.settings.title}: {todo} fits to do{before}; run in {run.path}"
    console.print(text, highlight=False, markup=False, soft_wrap=True)


Work = Callable[[str, str, Callable[[str], None]], tuple[Fit, pl.DataFrame]]


def run_in_turn(run: RunDirectory, work: Work, console: Console) -> None:
    """Do all units that are to do, one after the other, so that their times can be compared.

    Parameters
    ----------
    work : callable
        ``work(method, case, on_step)`` returns what `RunDirectory.append_fit` takes; on_step is to
        be called with what is being done.
    """
    todo = run.todo()
    announce(console, run, len(todo))
    for method, case in todo:
        begin = time.perf_counter()
        with console.status(f"{method} …") as status:

            def show(what: str, method: str = method, status: Any = status) -> None:
                status.update(f"{escape(method)}: {escape(what)} …")

            try:
                fit, results = work(method, case, show)
                run.append_fit(fit, results)
            except Exception as error:
                fit = Fit(method=method, case=case, error=failure_text(error))
                run.append_fit(fit)
        report_fit(fit, run, time.perf_counter() - begin, console)
    run.finish()


Unit = tuple[str, str]  # a method and a case


def run_side_by_side(
    run: RunDirectory,
    work: Callable[..., None],
    arguments: Callable[[Unit], tuple[Any, ...]],
    *,
    n_jobs: int | None,
    preload: Sequence[str],
    console: Console,
) -> None:
    """Do all units that are to do in processes of their own, and put their results together.

    Parameters
    ----------
    work : callable
        ``work(*arguments(unit))`` does a unit and writes it into the run directory.
    n_jobs : int, optional
        Processes at a time; one a core by default.
    preload : sequence of str
        Modules that the processes need.
    """
    todo = run.todo()
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
        bar.update(task, now=escape(", ".join(f"{method} on {case}" for method, case in running)))

    def begin(unit: Unit) -> None:
        running.append(unit)
        show()

    with bar:
        task = bar.add_task("", total=len(todo), now="")
        for done in run_units(
            work,
            todo,
            arguments,
            n_jobs=n_jobs or core_count(),
            preload=preload,
            on_start=begin,
        ):
            running.remove(done.unit)
            _report_done(run, done, console)
            bar.advance(task)
            show()
    run.finish()


def _report_done(run: RunDirectory, done: Done, console: Console) -> None:
    """Say how a unit came out; one whose process died has failed."""
    method, case = done.unit
    fit = run.fit(method, case)
    if fit is None or (done.crash and fit.error is not None):
        fit = Fit(method=method, case=case, error=done.crash or "the process left no result")
        run.append_fit(fit)
    report_fit(fit, run, done.seconds, console)


def report_fit(fit: Fit, run: RunDirectory, seconds: float, console: Console) -> None:
    """Say in one line how a unit came out."""
    unit = f"{fit.case:8s} {fit.method:16s} {seconds:6.1f} s"
    if fit.error is not None:
        text = f"  ✗ {unit}  {fit.error.splitlines()[0]}"
        console.print(text, highlight=False, markup=False, soft_wrap=True, style="red")
        return
    reached = ""
    if fit.validation is not None:
        select = getattr(run.settings.experiment, "select", "")
        reached = f"{select} {fit.validation:.4f} on validation  "
    text = f"  ✓ {unit}  {reached}{setting_text(fit.params)}"
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def failure_text(error: Exception) -> str:
    """What is noted of an exception that ended a unit: one line, and where it was raised."""
    return f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
