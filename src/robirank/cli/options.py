"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Rho = Literal["log", "identity", "type2"]
LatentModel = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file, from `latent train`.")
]
Device = Annotated[
    Literal["cpu", "cuda", "auto"],
    typer.Option(help="Where to compute; auto takes a CUDA card where there is one."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]
Threads = Annotated[int | None, typer.Option(min=1, help="All cores by default.")]
