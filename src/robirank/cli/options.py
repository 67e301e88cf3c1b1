"""Arguments and options of commands, and those that several commands share.

They are the defaults of the parameters of the functions that do the commands.
"""

from __future__ import annotations

from typing import Any, Literal

import typer

from robirank.cli.console import set_quiet

RhoName = Literal["log", "identity", "type2"]
DeviceName = Literal["cpu", "cuda", "auto"]


def argument(metavar: str, help: str, default: Any = ...) -> Any:
    """An argument of a command; it must be given where it has no default."""
    return typer.Argument(default, metavar=metavar, help=help)


def option(default: Any, help: str, *names: str, **more: Any) -> Any:
    """An option of a command, with names that are not that of the parameter."""
    return typer.Option(default, *names, help=help, **more)


def file(help: str, *names: str) -> Any:
    """An option that names a file, which need not be given."""
    return option(None, help, *names, metavar="FILE")


DEVICE = option("cpu", "Where to compute; auto takes a CUDA card where there is one.")
JSON = option(False, "Print JSON instead of a table.", "--json")
QUIET = option(False, "No progress on standard error.", "--quiet", "-q", callback=set_quiet)
POPULARITY = option(
    0.0, "How much of what popularity alone explains is taken off the scores.", min=0, max=1
)
RHO = option("log", "log is RoBiRank.")
SEED = option(0, "Decides everything that is random.", min=0)
THREADS = option(None, "All cores by default.", min=1)
VARIETY = option(0.0, "How much what is like items before it is put back.", min=0, max=1)
