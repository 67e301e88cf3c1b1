"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Rho(StrEnum):
    """The transformation ρ."""

    log = "log"
    identity = "identity"
    type2 = "type2"


LatentModel = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file, from `latent train`.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]
Threads = Annotated[int | None, typer.Option(min=1, help="All cores by default.")]
