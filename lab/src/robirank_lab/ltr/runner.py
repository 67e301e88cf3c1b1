"""Running the learning-to-rank experiment: all methods on all folds, several at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from robirank_lab.ltr.methods import all_methods
from robirank_lab.ltr.tables import write_tables
from robirank_lab.ltr.units import check_select, describe_data, work
from robirank_lab.run_dir import RunDirectory, checked
from robirank_lab.run_format import LtrExperiment
from robirank_lab.runner import check_methods, run_side_by_side, start_run


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
    known = all_methods()
    run_side_by_side(
        run,
        work,
        lambda unit: (run.path, data, known[unit[0]], unit[1], experiment),
        n_jobs=n_jobs,
        preload=["robirank_lab.ltr.units", "robirank_lab.ltr.starts"],
        console=console,
    )
    write_tables(run)
    return run
