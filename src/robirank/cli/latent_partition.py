"""``robirank latent partition``: interactions cut into parts, for training on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from robirank.cli.console import print_facts, step
from robirank.cli.interactions import Columns, Count, Header, Item, Sep, User
from robirank.cli.options import Quiet


def partition(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="One interaction a line: CSV, TSV (.gz) or Parquet."),
    ],
    out: Annotated[
        str, typer.Argument(metavar="OUT", help="A folder, or a URL such as s3://bucket/plays.")
    ],
    parts: Annotated[
        int, typer.Option(min=1, help="How many; a multiple of the number of workers.")
    ] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Decides which users come together.")] = 0,
    quiet: Quiet = False,
    user: User = None,
    item: Item = None,
    count: Count = None,
    sep: Sep = None,
    header: Header = None,
) -> None:
    """Cut interactions into parts, which the workers of a cluster read each for itself.

    Memory is needed for the ids and for one part, not for the whole file.
    """
    from robirank.data.partitions import partition as cut

    columns = Columns(user, item, count, None, sep, header).options()
    with step(f"cut {data}", quiet=quiet):
        partitions = cut(data, out, parts=parts, random_state=seed, **columns)
    n_users, n_items = partitions.shape
    print_facts(
        out,
        {
            "parts": partitions.parts,
            "users": n_users,
            "items": n_items,
            "interactions": partitions.n_interactions,
        },
    )
