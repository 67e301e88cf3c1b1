"""The top of the command line: version, demonstration, and the groups of commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from robirank.cli import experiment, latent, ltr
from robirank.cli.console import INTERRUPTED, GuardedGroup, print_json

app = typer.Typer(
    cls=GuardedGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Ranking via robust binary classification.",
)
app.add_typer(ltr.app, name="ltr")
app.add_typer(latent.app, name="latent")
app.add_typer(experiment.app, name="experiment")
app.command()(experiment.report)


def main() -> None:
    """Run the command ``robirank``."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _print_version(wanted: bool) -> None:
    if wanted:
        from robirank import __version__

        print(f"robirank {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Folder for plots, model and data.")] = Path(
        "demo-output"
    ),
    queries: Annotated[int, typer.Option(min=10, help="Queries to train on.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Decides the data and all else.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; all cores by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train RoBiRank on generated data, compare it, recommend, print tables, draw plots."""
    from rich.console import Console

    from robirank.experiments.demo.run import run_demo

    result = run_demo(
        output,
        n_queries=queries,
        random_state=seed,
        num_threads=threads or 0,
        console=Console(stderr=as_json),
    )
    if as_json:
        print_json(result.summary())
