"""What every experiment does around its work: begin a run, say what goes on, note failures."""

from __future__ import annotations

import platform
import re
import sys
import traceback
from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console

from robirank import __version__
from robirank._threads import thread_count
from robirank.data.nearest import did_you_mean, nearest
from robirank.experiments.run_dir import RunDirectory, S
from robirank.experiments.run_format import SearchedFit
from robirank.experiments.text import setting_text

_PACKAGES = ("numpy", "scipy", "scikit-learn", "polars", "lightgbm", "implicit", "lightfm-next")


def check_methods(methods: Sequence[str], known: Collection[str]) -> None:
    """Raise an error, before any work is done, if a method is unknown or there is none.

    The error names the nearest known ones, and lists those that differ by a number as one.
    """
    unknown = [name for name in methods if name not in known]
    if methods and not unknown:
        return
    listed = dict.fromkeys(re.sub(r"\d+$", "N", name) for name in known)
    close = [name for method in unknown for name in nearest(method, list(known), 1)]
    raise ValueError(
        f"methods must be some of {', '.join(listed)}; got {unknown}{did_you_mean(close)}"
    )


def start_run(
    kind: type[S],
    experiment: Any,
    output: Path,
    *,
    data: Any,
    methods: Sequence[str],
    title: str | None = None,
    command: str | None = None,
    **changes: Any,
) -> RunDirectory[S]:
    """Make the run directory of an experiment, or open the one that is there.

    Parameters
    ----------
    kind : type of Settings
        It has every field of the experiment.
    experiment : dataclass
        What decides the numbers.
    output : Path
        The run directory.
    data : LtrFacts or InteractionFacts
        The facts of the data set; the settings hold them in place of its path.
    methods : sequence of str
    title : str, optional
        What the report is called; the name of the data by default.
    command : str, optional
        How to repeat the run; the command line of this process by default.
    **changes
        Fields of the settings that differ from the experiment's.
    """
    fields = asdict(experiment) | {"data": data} | changes
    settings = kind(
        **fields,
        title=title or data.name,
        methods=list(methods),
        versions=_versions(),
        machine={"cores": thread_count(), "system": platform.system()},
        command=command or " ".join(["robirank", *sys.argv[1:]]),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return RunDirectory[S].create(output, settings)


def _versions() -> dict[str, str]:
    found = {"robirank": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def announce(console: Console, run: RunDirectory[Any], todo: int) -> None:
    """Say how much there is to do."""
    total = len(run.settings.units)
    before = f", {total - todo} done before" if total > todo else ""
    text = f"{run.settings.title}: {todo} fits to do{before}; run in {run.path}"
    console.print(text, highlight=False, markup=False)


def report_fit(fit: SearchedFit, select: str, seconds: float, console: Console) -> None:
    """Say in one line how a unit came out."""
    unit = f"{fit.case}  {fit.method:16s} {seconds:6.1f} s"
    if fit.error is not None:
        text = f"  ✗ {unit}  {fit.error.splitlines()[0]}"
        console.print(text, highlight=False, markup=False, style="red")
        return
    text = f"  ✓ {unit}  {select} {fit.validation:.4f} on validation  {setting_text(fit.params)}"
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def failure_text(error: Exception) -> str:
    """What is noted of an exception that ended a unit: one line, and where it was raised."""
    return f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
