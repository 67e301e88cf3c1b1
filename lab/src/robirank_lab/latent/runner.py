"""Running the latent experiment: one method after the other, so that their times compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from robirank_lab.latent.data import describe_parts, load_parts
from robirank_lab.latent.methods import LATENT_FIELD
from robirank_lab.latent.tables import write_tables
from robirank_lab.latent.units import check_select, run_unit
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import Fit, LatentExperiment
from robirank_lab.runner import check_methods, run_in_turn, start_run


def run_latent(
    data: Path,
    experiment: LatentExperiment,
    output: Path,
    methods: Sequence[str],
    *,
    columns: Mapping[str, Any] | None = None,
    title: str | None = None,
    console: Console | None = None,
) -> RunDirectory:
    """Run latent methods from each starting point and write a run directory.

    Units that an earlier run with the same settings has finished are not repeated.

    Parameters
    ----------
    data : Path
        A folder with train, valid and test files, or one file that is split.
    experiment : LatentExperiment
        What decides the numbers.
    output, title, console
        As in `robirank_lab.ltr.runner.run_ltr`.
    methods : sequence of str
        Names from `LATENT_FIELD`.
    columns : dict, optional
        Arguments of `robirank.load_interactions`.
    """
    check_methods(methods, LATENT_FIELD)
    check_select(experiment.select)
    parts = load_parts(data, columns or {}, experiment.seed)
    facts = describe_parts(data, parts)
    run = start_run(experiment, output, data=facts, methods=methods, title=title)

    def work(method: str, case: str, on_step: Callable[[str], None]) -> tuple[Fit, pl.DataFrame]:
        # Only the setting of the first starting point is searched.
        first = run.fit(method, run.settings.cases[0]) if case != run.settings.cases[0] else None
        chosen = first if first is not None and first.error is None else None
        return run_unit(
            LATENT_FIELD[method], parts, experiment, case, chosen=chosen, on_step=on_step
        )

    run_in_turn(run, work, console or Console(stderr=True))
    write_tables(run)
    return run
