"""What commands on interactions share: options for the columns, reading tables and models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robirank.cli.console import note, step

if TYPE_CHECKING:
    from robirank.data.ids import Ids
    from robirank.data.interactions import Interactions

_PANEL = "Columns of the files"
_HELP = "by name, or by position from 0 on."

User = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="COLUMN",
        help=f"Column of users, {_HELP} `user` by default, or the first without a header.",
        rich_help_panel=_PANEL,
    ),
]
Item = Annotated[
    str | None,
    typer.Option(
        "--item",
        metavar="COLUMN",
        help="Column of items. `item` by default, or the second without a header.",
        rich_help_panel=_PANEL,
    ),
]
Count = Annotated[
    str | None,
    typer.Option("--count", metavar="COLUMN", help="Column of how often.", rich_help_panel=_PANEL),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="COLUMN",
        help="Column of when; --hold-out then takes the latest.",
        rich_help_panel=_PANEL,
    ),
]
Sep = Annotated[
    str | None,
    typer.Option(
        "--sep", help="What separates columns, if not seen by itself.", rich_help_panel=_PANEL
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line names the columns, if not seen by itself.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class Columns:
    """Where in a file the columns are; see `robirank.load_interactions`."""

    user: str | None = None
    item: str | None = None
    count: str | None = None
    time: str | None = None
    sep: str | None = None
    header: bool | None = None

    def options(self) -> dict[str, Any]:
        """Arguments for `load_interactions`: a column that is a number is a position."""
        columns = {name: getattr(self, name) for name in ("user", "item", "count", "time")}
        places = {
            name: int(column) if column is not None and column.isdigit() else column
            for name, column in columns.items()
        }
        sep = {"\\t": "\t", "tab": "\t"}.get(self.sep or "", self.sep)
        return {**places, "sep": sep, "header": self.header}


@dataclass(frozen=True)
class Known:
    """Interactions in the ids of a model, and how much of a file they leave out."""

    data: Interactions
    unseen_users: int
    unseen_items: int
    left_out: int

    def report(self) -> dict[str, int]:
        """The counts, for JSON."""
        return {
            "interactions": self.data.n_interactions,
            "unseen_users": self.unseen_users,
            "unseen_items": self.unseen_items,
            "left_out": self.left_out,
        }


def read(path: Path, columns: Columns, *, quiet: bool) -> Interactions:
    """Read a file and say what is in it."""
    from robirank.data.interaction_files import load_interactions

    with step(f"read {path}", quiet=quiet) as details:
        data = load_interactions(path, **columns.options())
        details.append(
            f"{data.n_users:,} users, {data.n_items:,} items, {data.n_interactions:,} interactions"
        )
    return data


def load(path: Path, threads: int | None = None, device: str = "cpu") -> tuple[Any, Ids, Ids]:
    """A model of factors, its users and its items; 0, 1, 2, … where it was trained without ids."""
    from robirank.latent.factors.factor_model import FactorModel
    from robirank.storage.estimators import load_model

    model = load_model(path)
    if not isinstance(model, FactorModel):
        raise ValueError(f"{path} holds a {type(model).__name__}, which has no users and items")
    if threads is not None:
        model.num_threads = threads
    model.device = device
    names = model.by_id._names()
    return model, names.users.ids, names.items.ids


def read_known(path: Path, columns: Columns, users: Ids, items: Ids, *, quiet: bool) -> Known:
    """Read a file into given ids; what they do not have is left out, counted and reported."""
    return known(path, read(path, columns, quiet=quiet), users, items, quiet=quiet)


def known(path: Path, data: Interactions, users: Ids, items: Ids, *, quiet: bool) -> Known:
    """The interactions of given users and items, at their positions; says what is left out."""
    from robirank.data.interactions import recoded

    user, item = users.find(data.users[:]), items.find(data.items[:])
    part = recoded(data, users, items, user, item)
    left_out = len(data) - len(part)
    unseen_users, unseen_items = int((user < 0).sum()), int((item < 0).sum())
    if left_out:
        note(
            f"{path}: {left_out:,} interactions left out, for {unseen_users:,} users and "
            f"{unseen_items:,} items are not among those trained on",
            quiet=quiet,
        )
    return Known(part, unseen_users, unseen_items, left_out)
