"""Running an experiment: what is to be done, who is at it, how long it will take."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from robirank import __version__
from robirank._threads import thread_count
from robirank.data.folds import load_dataset
from robirank.experiments.ltr.methods import FIELD
from robirank.experiments.ltr.tables import write_tables
from robirank.experiments.ltr.units import (
    Experiment,
    describe_data,
    failed_fit,
    units_to_do,
    work,
)
from robirank.experiments.pool import Done, Started, run_units
from robirank.experiments.run_dir import RunDirectory

__all__ = ["run_experiment"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "polars", "lightgbm")


def run_experiment(
    experiment: Experiment,
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
    experiment : Experiment
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
    unknown = [m for m in methods if m not in FIELD]
    if unknown or not methods:
        raise ValueError(f"methods must be some of {', '.join(FIELD)}; got {list(methods)}")
    experiment.check()
    console = console or Console(stderr=True)
    run = RunDirectory.create(output, _settings(experiment, methods, title, command))
    folds = load_dataset(experiment.data).names
    todo = units_to_do(run, run.methods, folds)
    announce(console, run, len(todo), len(run.methods) * len(folds))
    jobs = thread_count(n_jobs or 0)
    with _progress(console, len(todo)) as (bar, task):
        _work_off(run, todo, experiment, jobs, bar, task)
    run.finish()
    write_tables(run)
    return run


def _settings(
    experiment: Experiment, methods: Sequence[str], title: str | None, command: str | None
) -> dict[str, Any]:
    return {
        "kind": "ltr",
        "title": title or experiment.data.resolve().name,
        "data": describe_data(experiment),
        "convention": experiment.convention,
        "select": experiment.select,
        "k_max": experiment.k_max,
        "seed": experiment.seed,
        "methods": list(methods),
        **circumstances(command),
    }


def circumstances(command: str | None) -> dict[str, Any]:
    """When, where and by which command a run was made."""
    return {
        "versions": _versions(),
        "machine": {"cores": thread_count(), "system": platform.system()},
        "command": command or " ".join(["robirank", *sys.argv[1:]]),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _versions() -> dict[str, str]:
    found = {"robirank": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def announce(console: Console, run: RunDirectory, todo: int, total: int) -> None:
    """Say how much there is to do."""
    before = f", {total - todo} done before" if total > todo else ""
    text = f"{run.settings['title']}: {todo} fits to do{before}; run in {run.path}"
    console.print(text, highlight=False, markup=False)


@contextmanager
def _progress(console: Console, total: int) -> Iterator[tuple[Progress, TaskID]]:
    bar = Progress(
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("[dim]{task.fields[now]}"),
        console=console,
        disable=not console.is_terminal,
    )
    with bar:
        yield bar, bar.add_task("", total=total, left="", now="")


def _work_off(
    run: RunDirectory,
    todo: Sequence[tuple[str, int, str]],
    experiment: Experiment,
    jobs: int,
    bar: Progress,
    task: TaskID,
) -> None:
    waiting, running = list(todo), dict[Any, float]()
    typical: dict[str, float] = {}
    events = run_units(
        work,
        todo,
        lambda unit: (run.path, FIELD[unit[0]], *unit[1:], experiment),
        n_jobs=jobs,
        preload=["robirank.experiments.ltr.units", "robirank.ltr.robirank"],
    )
    for event in events:
        if isinstance(event, Started):
            waiting.remove(event.unit)
            running[event.unit] = time.perf_counter()
        elif isinstance(event, Done):
            del running[event.unit]
            typical[event.unit[0]] = event.seconds
            _report(run, event, experiment, bar.console)
            bar.advance(task)
        left = _seconds_left(waiting, running, typical) / jobs
        now = ", ".join(f"{m} on {fold}" for m, _, fold in running)
        bar.update(task, left=f"about {_duration(left)} left", now=escape(now))


def _report(run: RunDirectory, event: Done, experiment: Experiment, console: Console) -> None:
    method, _, fold = event.unit
    fit = run.fit(method, fold)
    if fit is None or (event.crash and fit["status"] == "failed"):
        reason = event.crash or "the process left no result"
        fit = failed_fit(method, fold, reason, experiment)
        run.append_fit(fit)
    report_fit(fit, event.seconds, console)


def report_fit(fit: Mapping[str, Any], seconds: float, console: Console) -> None:
    """Say in one line how a unit came out."""
    who = f"{fit['fold']}  {fit['method']:16s} {seconds:6.1f} s"
    if fit["status"] == "failed":
        reason = fit["error"].splitlines()[0]
        console.print(f"  ✗ {who}  {reason}", highlight=False, markup=False, style="red")
        return
    setting = ", ".join(f"{k}={v}" for k, v in fit["params"].items())
    value = f"{fit['validation']['measure']} {fit['validation']['value']:.4f} on validation"
    console.print(f"  ✓ {who}  {value}  {setting}", highlight=False, markup=False, soft_wrap=True)


def _seconds_left(
    waiting: Sequence[Any], running: dict[Any, float], typical: dict[str, float]
) -> float:
    """Each unit takes as long as the last one of its method, or as the mean of all methods."""
    mean = sum(typical.values()) / len(typical) if typical else 20.0
    total = sum(typical.get(method, mean) for method, _, _ in waiting)
    now = time.perf_counter()
    for (method, _, _), begin in running.items():
        total += max(typical.get(method, mean) - (now - begin), 0.0)
    return total


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
