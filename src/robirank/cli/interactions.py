"""What commands on interactions share: options for the columns, reading tables, ids and models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robirank.cli.console import note, step
from robirank.cli.options import option

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from robirank.data.ids import Ids
    from robirank.data.interactions import Interactions


def _column(help: str, *names: str, metavar: str | None = "COLUMN") -> Any:
    return option(None, help, *names, metavar=metavar, rich_help_panel="Columns of the files")


USER = _column(
    "Column of users, by name, or by position from 0 on. `user` by default, or the first without a "
    "header."
)
ITEM = _column("Column of items. `item` by default, or the second without a header.")
COUNT = _column("Column of how often.")
TIME = _column("Column of when.", "--time")
SEP = _column("What separates columns, if not seen by itself.", metavar=None)
HEADER = _column("Whether the first line names the columns, if not seen by itself.", metavar=None)


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


def read(path: Path, columns: Columns) -> Interactions:
    """Read a file and say what is in it."""
    from robirank.data.interaction_files import load_interactions

    with step(f"read {path}") as details:
        data = load_interactions(path, **columns.options())
        details.append(
            f"{data.n_users:,} users, {data.n_items:,} items, {data.n_interactions:,} interactions"
        )
    return data


def load(path: Path, threads: int | None = None, device: str = "cpu") -> tuple[Any, Ids, Ids]:
    """A model of factors, its users and its items; 0, 1, 2, … where it was trained without ids."""
    model = load_factors(path)
    if threads is not None:
        model.num_threads = threads
    model.device = device
    names = model.by_id._names()
    return model, names.users.ids, names.items.ids


def load_factors(path: Path) -> Any:
    """A model of factors as it was saved."""
    from robirank.latent.factors.factor_model import FactorModel
    from robirank.storage.estimators import load_model

    model = load_model(path)
    if not isinstance(model, FactorModel):
        raise ValueError(f"{path} holds a {type(model).__name__}, which has no users and items")
    return model


def read_ids(path: Path, what: str) -> list[str]:
    """The ids of a file, one a line."""
    lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    ids = [line for line in lines if line]
    if not ids:
        raise ValueError(f"{path} must hold ids of {what}, one a line; it is empty")
    return ids


def read_items(path: Path, ids: Ids) -> tuple[NDArray[Any], int]:
    """The positions of the items of a file, and how many of its ids the model does not know."""
    positions = ids.find(read_ids(path, "items"))
    n_unknown = int((positions < 0).sum())
    if n_unknown:
        note(f"{path}: {n_unknown:,} of {len(positions):,} items are not in the model")
    return positions[positions >= 0], n_unknown


def known(
    path: Path, data: Interactions, users: Ids, items: Ids
) -> tuple[Interactions, dict[str, int]]:
    """The interactions of given users and items, at their positions, and how many are left out."""
    from robirank.data.interactions import recoded

    user, item = users.find(data.users[:]), items.find(data.items[:])
    part = recoded(data, users, items, user, item)
    left_out = len(data) - len(part)
    unseen_users, unseen_items = int((user < 0).sum()), int((item < 0).sum())
    if left_out:
        note(
            f"{path}: {left_out:,} interactions left out, for {unseen_users:,} users and "
            f"{unseen_items:,} items are not among those trained on"
        )
    return part, {
        "interactions": len(part),
        "unseen_users": unseen_users,
        "unseen_items": unseen_items,
        "left_out": left_out,
    }
