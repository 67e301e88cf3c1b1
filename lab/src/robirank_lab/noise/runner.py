"""Running the experiment on noise: every method on every spoiled training set."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console

import robirank as rr
from robirank_lab.noise.data import Lists, NoiseData
from robirank_lab.noise.kinds import LIST_KINDS, TABLE_KINDS, Kind
from robirank_lab.noise.methods import LIST_FIELD, TABLE_FIELD, list_methods, table_methods
from robirank_lab.noise.tables import write_tables
from robirank_lab.noise.units import work
from robirank_lab.run_dir import RunDirectory, checked
from robirank_lab.run_format import NoiseExperiment
from robirank_lab.runner import check_methods, run_side_by_side, start_run


def kinds_for(data: NoiseData) -> dict[str, Kind]:
    """The kinds of noise for the data, by name."""
    return LIST_KINDS if isinstance(data, Lists) else TABLE_KINDS


def methods_for(data: NoiseData) -> dict[str, Any]:
    """The methods for the data, by name."""
    return list_methods() if isinstance(data, Lists) else table_methods()


def default_field(data: NoiseData) -> list[str]:
    """The methods that are compared where none are named: those whose packages are installed."""
    field, known = LIST_FIELD if isinstance(data, Lists) else TABLE_FIELD, methods_for(data)
    return [name for name in field if not known[name].missing]


def run_noise(
    data: NoiseData,
    experiment: NoiseExperiment,
    output: Path,
    methods: Sequence[str],
    *,
    title: str | None = None,
    n_jobs: int | None = None,
    console: Console | None = None,
) -> RunDirectory:
    """Fit methods to every spoiled training set and write a run directory.

    Units that an earlier run with the same settings has finished are not repeated.

    Parameters
    ----------
    data : Lists or Table
        See `robirank_lab.noise.data`.
    experiment : NoiseExperiment
        What decides the numbers.
    output, title, n_jobs, console
        As in `robirank_lab.ltr.runner.run_ltr`.
    methods : sequence of str
        Names of `methods_for`.
    """
    experiment = checked(experiment)
    known, console = methods_for(data), console or Console(stderr=True)
    check_methods(methods, known)
    _check_kinds(experiment.kinds, kinds_for(data))
    _check_shares(experiment.shares)
    run = start_run(experiment, output, data=data.describe(), methods=methods, title=title)
    run_side_by_side(
        run,
        work,
        lambda unit: (run.path, data, known[unit[0]], unit[1], experiment),
        n_jobs=n_jobs,
        preload=["robirank_lab.noise.units", "robirank_lab.noise.continued"],
        console=console,
    )
    write_tables(run)
    return run


def _check_kinds(kinds: Sequence[str], known: dict[str, Kind]) -> None:
    unknown = [name for name in kinds if name not in known]
    if unknown or not kinds:
        close = [repr(c) for name in unknown for c in difflib.get_close_matches(name, known, 1)]
        hint = f"; did you mean {', '.join(close)}?" if close else ""
        raise rr.ArgumentError("kinds", f"must be some of {', '.join(known)}; got {unknown}{hint}")


def _check_shares(shares: Sequence[float]) -> None:
    rises = all(a < b for a, b in pairwise(shares))
    if len(shares) < 2 or shares[0] != 0 or not rises:
        raise rr.ArgumentError(
            "shares", f"must begin with 0 and rise, such as 0, 0.2, 0.4; got {list(shares)}"
        )
