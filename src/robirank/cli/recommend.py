"""Commands that answer with ranked lists: ``robirank latent recommend | similar``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from robirank.cli.console import check_output, escaped, note, step
from robirank.cli.interactions import (
    Columns,
    Count,
    Header,
    Item,
    Sep,
    User,
    known,
    load,
    read,
    read_known,
)
from robirank.cli.lists import check_format, print_lists, with_names, write_file
from robirank.cli.options import Device, Json, LatentModel, Quiet, Threads
from robirank.data.names import Names, look_up

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from robirank.data.ids import Ids
    from robirank.data.interactions import Interactions

_CHUNK_USERS = 4096  # users that are asked for at a time
_SHOWN = 5  # items of a user's own that a title names
_NEW = "new user"

Number = Annotated[int, typer.Option("--number", "-n", min=1, help="Length of each list.")]
NamesFile = Annotated[
    Path | None,
    typer.Option("--names", metavar="FILE", help="Items and their names, TSV or CSV (.gz too)."),
]
NameColumns = Annotated[
    str | None,
    typer.Option(metavar="1,2", help="Columns that make up a name; the second by default."),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="A .tsv, .csv, .jsonl or .parquet file."),
]


@dataclass(frozen=True)
class Asked:
    """Whose lists are wanted: some users of a model or of a table, and what they have already.

    The factors of ``new`` ones are found from what they have.
    """

    users: Ids
    positions: NDArray[Any]
    has: Interactions | None = None
    new: bool = False

    def items_of(self, user: Any) -> list[Any]:
        """The items of a user, most often first; none where that is not known."""
        if self.has is None:
            return []
        import numpy as np

        row = self.has.matrix[self.users.index(user)]
        return self.has.items[row.indices[np.argsort(-row.data, kind="stable")]].tolist()


def recommend(
    model_path: LatentModel,
    users: Annotated[list[str] | None, typer.Argument(metavar="USER", help="Outside ids.")] = None,
    users_file: Annotated[
        Path | None, typer.Option("--users", metavar="FILE", help="Ids, one a line.")
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every user of the model.")] = False,
    train: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What users have already, which is left out."),
    ] = None,
    likes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ITEM,ITEM",
            help="A new user who has these items, ids or names; may be repeated.",
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="New users and what they have; all, or the USERs."),
    ] = None,
    number: Number = 10,
    only: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Choose among these items only; ids, one a line."),
    ] = None,
    exclude: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Items that nobody gets; ids, one a line."),
    ] = None,
    unknown_users: Annotated[
        Literal["popular", "empty", "error"],
        typer.Option(
            help="What users without an interaction get: the most popular items, nothing, …"
        ),
    ] = "popular",
    names_file: NamesFile = None,
    name_columns: NameColumns = None,
    output: Output = None,
    user: User = None,
    item: Item = None,
    count: Count = None,
    sep: Sep = None,
    header: Header = None,
    device: Device = "cpu",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the best items for users of the model, or for new ones."""
    _check_who(users, users_file, everyone, train, likes, history)
    check_format(output)
    check_output(output, model_path, train, history, users_file, names_file, only, exclude)
    model, user_ids, item_ids = load(model_path, threads, device)
    names = None if names_file is None else Names.read(names_file, name_columns)
    columns = Columns(user, item, count, None, sep, header)
    if likes:
        typed = _items(likes, item_ids, names)
        liked = look_up("item", typed, item_ids, names, where=model_path)
        asked = _someone_new(liked, item_ids)
    elif history is not None:
        asked = _new_users(history, columns, users, item_ids, quiet)
    else:
        typed = _lines(users_file, "users") if users_file is not None else users or []
        positions = _positions(typed, everyone, user_ids, model_path)
        if train is None:
            note("without --train, items that a user has already may come back", quiet=quiet)
            asked = Asked(user_ids, positions)
        else:
            has = read_known(train, columns, user_ids, item_ids, quiet=quiet).data
            asked = Asked(user_ids, positions, has)
    strangers = _without_interactions(model, asked)
    _tell_of(strangers, len(asked.positions), unknown_users, quiet)
    rules = _rules(only, exclude, item_ids, quiet) | {"unknown_users": unknown_users}
    chunks = _recommended(model, asked, item_ids, number, names, rules)
    _give(chunks, _title(asked, names, set(strangers)), output, as_json, quiet)


def similar(
    model_path: LatentModel,
    typed: Annotated[list[str], typer.Argument(metavar="ITEM", help="Ids, or names with --names.")],
    users: Annotated[bool, typer.Option("--users", help="These are users: similar users.")] = False,
    number: Number = 10,
    names_file: NamesFile = None,
    name_columns: NameColumns = None,
    output: Output = None,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the items, or users, whose factors point the same way."""
    import numpy as np

    from robirank.latent.factors.frame import id_series, lists_frame

    check_format(output)
    check_output(output, model_path, names_file)
    model, user_ids, item_ids = load(model_path, threads)
    what, ids = ("user", user_ids) if users else ("item", item_ids)
    names = None if names_file is None else Names.read(names_file, name_columns)
    positions = np.array([*dict.fromkeys(look_up(what, typed, ids, names, where=model_path))])
    find = model.similar_users if users else model.similar_items
    neighbours, scores = find(positions, N=number + 1)
    asked = id_series("like", ids, positions)
    lists = with_names(lists_frame(asked, neighbours[:, 1:], scores[:, 1:], ids, what), names)
    for unknown in asked.filter(neighbours[:, 0] < 0):
        note(f"{what} {unknown!r} has no interaction, so that nothing is like it", quiet=quiet)

    def title(asked: Any) -> str:
        return f"[bold]Similar to {_called(asked, names)}[/bold]"

    _give(iter([lists]), title, output, as_json, quiet)


def _check_who(
    users: list[str] | None,
    users_file: Path | None,
    everyone: bool,
    train: Path | None,
    likes: list[str] | None,
    history: Path | None,
) -> None:
    named = bool(users)
    ways = [named and history is None, users_file is not None, everyone]
    ways += [bool(likes), history is not None]
    if sum(ways) != 1:
        raise typer.BadParameter(
            "say whose lists: USER..., --users FILE, --all, or for new users --likes or --history"
        )
    if train is not None and (likes or history is not None):
        raise typer.BadParameter("--train is for users of the model; new ones have --history")


def _lines(path: Path, what: str) -> list[str]:
    lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    ids = [line for line in lines if line]
    if not ids:
        raise ValueError(f"{path} must hold ids of {what}, one a line; it is empty")
    return ids


def _positions(typed: list[str], everyone: bool, ids: Ids, model_path: Path) -> NDArray[Any]:
    """The positions of all users of the model, or of those that were typed, each once."""
    import numpy as np

    if everyone:
        return np.arange(len(ids))
    hint = "A new user can be given with --likes or --history"
    typed_users = look_up("user", typed, ids, None, where=model_path, hint=hint)
    return np.array(list(dict.fromkeys(typed_users)))


def _without_interactions(model: Any, asked: Asked) -> list[Any]:
    """The ids of those users of the model of whom it knows nothing."""
    from robirank.latent.factors.factors import zero_rows

    if asked.new:
        return []
    return asked.users[asked.positions[zero_rows(model.user_factors, asked.positions)]].tolist()


def _tell_of(strangers: list[Any], asked: int, unknown_users: str, quiet: bool) -> None:
    """Say what users without an interaction get."""
    if not strangers:
        return
    who = f"{len(strangers):,} of {asked:,} users have no interaction that the model was trained on"
    if unknown_users == "error":
        raise ValueError(
            f"{who}, such as {strangers[0]!r}; leave them out, or give --unknown-users popular or "
            "empty"
        )
    what = "the most popular items" if unknown_users == "popular" else "no items"
    note(f"{who} and get {what}", quiet=quiet)


def _rules(only: Path | None, exclude: Path | None, ids: Ids, quiet: bool) -> dict[str, Any]:
    """Which items may come, as arguments of `recommend`."""
    import numpy as np

    chosen, left_out = (_known_items(path, ids, quiet) for path in (only, exclude))
    if chosen is None:
        return {"filter_items": left_out}
    allowed = chosen if left_out is None else np.setdiff1d(chosen, left_out)
    if not len(allowed):
        raise ValueError(f"{only} must name an item of the model that may come; it has none")
    return {"items": allowed}


def _known_items(path: Path | None, ids: Ids, quiet: bool) -> NDArray[Any] | None:
    """The items of a file that the model knows; the others are counted."""
    if path is None:
        return None
    positions = ids.find(_lines(path, "items"))
    n_unknown = int((positions < 0).sum())
    if n_unknown:
        note(f"{path}: {n_unknown:,} of {len(positions):,} items are not in the model", quiet=quiet)
    return positions[positions >= 0]


def _items(likes: list[str], ids: Ids, names: Names | None) -> list[str]:
    """Items as typed, one by one; a name may have commas of its own."""
    whole = [names is not None and len(names.find(text.strip(), ids)) > 0 for text in likes]
    return [
        item
        for text, is_name in zip(likes, whole, strict=True)
        for item in ([text] if is_name else text.split(","))
    ]


def _someone_new(positions: list[int], items: Ids) -> Asked:
    import numpy as np

    from robirank.data.ids import Ids
    from robirank.data.interactions import Interactions

    users, liked = Ids([_NEW]), np.unique(positions)
    has = Interactions(users, items, np.array([0, len(liked)]), liked.astype(np.int32))
    return Asked(users, np.array([0]), has, new=True)


def _new_users(
    history: Path, columns: Columns, users: list[str] | None, items: Ids, quiet: bool
) -> Asked:
    import numpy as np

    whole = read(history, columns, quiet=quiet)
    has = known(history, whole, whole.users, items, quiet=quiet).data
    positions = np.flatnonzero(has.lengths)
    if users:
        positions = np.array(look_up("user", users, whole.users, None, where=history))
        without = positions[has.lengths[positions] == 0]
        if len(without):
            raise ValueError(
                f"user {whole.users[int(without[0])]!r} of {history} has no item that the model "
                "knows, so nothing can be learned about them"
            )
    return Asked(whole.users, positions, has, new=True)


def _recommended(
    model: Any,
    asked: Asked,
    items: Ids,
    number: int,
    names: Names | None,
    rules: dict[str, Any],
) -> Iterator[pl.DataFrame]:
    import numpy as np

    from robirank.latent.factors.frame import id_series, lists_frame

    for begin in range(0, len(asked.positions), _CHUNK_USERS):
        positions = asked.positions[begin : begin + _CHUNK_USERS]
        best, scores = model.recommend(
            np.arange(len(positions)) if asked.new else positions,
            None if asked.has is None else asked.has.matrix[positions],
            N=number,
            filter_already_liked_items=asked.has is not None,
            recalculate_user=asked.new,
            **rules,
        )
        users = id_series("user", asked.users, positions)
        yield with_names(lists_frame(users, best, scores, items), names)


def _title(asked: Asked, names: Names | None, strangers: set[Any]) -> Callable[[Any], str]:
    def title(user: Any) -> str:
        who = "a new user" if user == _NEW and asked.new else f"user {_called(user, None)}"
        if user in strangers:
            return (
                f"[bold]For {who}[/bold], [dim]without an interaction: the most popular items[/dim]"
            )
        items = asked.items_of(user)
        if not items:
            return f"[bold]For {who}[/bold]"
        shown = ", ".join(_called(item, names) for item in items[:_SHOWN])
        dots = " …" if len(items) > _SHOWN else ""
        return f"[bold]For {who}[/bold], [dim]who has {shown}{dots}[/dim]"

    return title


def _called(value: Any, names: Names | None) -> str:
    from rich.markup import escape

    name = None if names is None else names.get(value)
    return escape(escaped(str(value) if name is None else name))


def _give(
    chunks: Iterator[pl.DataFrame],
    title: Callable[[Any], str],
    output: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    if output is None:
        print_lists(chunks, title, as_json=as_json)
        return
    with step(f"wrote {output}", quiet=quiet) as details:
        details.append(f"{write_file(output, chunks):,} lines")
