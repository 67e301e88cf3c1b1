"""The top of the command line: the version, and the groups of commands."""

from __future__ import annotations

import sys

import typer

from robirank.cli import latent, ltr
from robirank.cli.console import INTERRUPTED
from robirank.cli.options import option
from robirank.cli.plugins import RootGroup
from robirank.cli.serve import serve

app = typer.Typer(
    cls=RootGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Ranking via robust binary classification.",
)
app.add_typer(ltr.app, name="ltr")
app.add_typer(latent.app, name="latent")
app.command()(serve)


def main() -> None:
    """Run the command ``robirank``."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


@app.callback(invoke_without_command=True)
def _root(
    show_version: bool = option(False, "Print the version and exit.", "--version"),
    verbose: bool = option(
        False,
        "With --version: also versions of packages, the instruction set, BLAS, threads and card.",
        "--verbose",
    ),
) -> None:
    if show_version:
        from robirank import __version__
        from robirank.cli.about import about

        print(about() if verbose else f"robirank {__version__}")
        raise typer.Exit
    if verbose:
        raise typer.BadParameter("--verbose goes with --version")
