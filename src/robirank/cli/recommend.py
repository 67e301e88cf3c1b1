"""Commands that answer with ranked lists: ``robirank latent recommend | similar``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from robirank.cli.console import check_output, escaped, note, step
from robirank.cli.interactions import COUNT, HEADER, ITEM, SEP, USER, Columns, known, load, read
from robirank.cli.lists import check_format, print_lists, with_names, write_file
from robirank.cli.options import DEVICE, JSON, QUIET, THREADS, DeviceName, argument, file, option
from robirank.data.names import Names, look_up

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from robirank.data.ids import Ids
    from robirank.data.interactions import Interactions

_CHUNK_USERS = 4096  # users that are asked for at a time
_SHOWN = 5  # items of a user's own that a title names
_NEW = "new user"

MODEL = argument("MODEL", "A model file, from `latent train`.")
_NUMBER = option(10, "Length of each list.", "--number", "-n", min=1)
_NAMES = file("Items and their names, TSV or CSV (.gz too).", "--names")
_NAME_COLUMNS = option(None, "Columns that make up a name; the second by default.", metavar="1,2")
_OUTPUT = file("A .tsv, .csv, .jsonl or .parquet file.", "--output", "-o")


@dataclass(frozen=True)
class Asked:
    """Whose lists are wanted: some users of a model or of a table, and what they have already.

    The factors of ``new`` ones are found from what they have.
    """

    users: Ids
    positions: NDArray[Any]
    has: Interactions | None = None
    new: bool = False


def recommend(
    model_path: Path = MODEL,
    users: list[str] | None = argument("USER", "Outside ids.", None),
    users_file: Path | None = file("Ids, one a line.", "--users"),
    everyone: bool = option(False, "Every user of the model.", "--all"),
    train: Path | None = file("What users have already, which is left out."),
    likes: list[str] | None = option(
        None,
        "A new user who has these items, ids or names; may be repeated.",
        metavar="ITEM,ITEM",
    ),
    history: Path | None = file("New users and what they have; all, or the USERs."),
    number: int = _NUMBER,
    only: Path | None = file("Choose among these items only; ids, one a line."),
    exclude: Path | None = file("Items that nobody gets; ids, one a line."),
    unknown_users: Literal["popular", "empty", "error"] = option(
        "popular", "What users without an interaction get: the most popular items, nothing, …"
    ),
    names_file: Path | None = _NAMES,
    name_columns: str | None = _NAME_COLUMNS,
    output: Path | None = _OUTPUT,
    user: str | None = USER,
    item: str | None = ITEM,
    count: str | None = COUNT,
    sep: str | None = SEP,
    header: bool | None = HEADER,
    device: DeviceName = DEVICE,
    threads: int | None = THREADS,
    as_json: bool = JSON,
    _quiet: bool = QUIET,
) -> None:
    """Find the best items for users of the model, or for new ones."""
    by_history, by_likes = history is not None, bool(likes)
    of_model = [bool(users) and not by_history, users_file is not None, everyone]
    if sum([*of_model, by_likes, by_history]) != 1:
        raise typer.BadParameter(
            "say whose lists: USER..., --users FILE, --all, or for new users --likes or --history"
        )
    if train is not None and (by_likes or by_history):
        raise typer.BadParameter("--train is for users of the model; new ones have --history")
    check_format(output)
    check_output(output, model_path, train, history, users_file, names_file, only, exclude)
    model, user_ids, item_ids = load(model_path, threads, device)
    names = None if names_file is None else Names.read(names_file, name_columns)
    columns = Columns(user, item, count, None, sep, header)
    if likes:
        typed = _items(likes, item_ids, names)
        asked = _someone_new(look_up("item", typed, item_ids, names, where=model_path), item_ids)
    elif history is not None:
        asked = _new_users(history, columns, users, item_ids)
    else:
        typed = _lines(users_file, "users") if users_file is not None else users or []
        positions = _positions(typed, everyone, user_ids, model_path)
        has = None
        if train is None:
            note("without --train, items that a user has already may come back")
        else:
            has, _ = known(train, read(train, columns), user_ids, item_ids)
        asked = Asked(user_ids, positions, has)
    strangers = _without_interactions(model, asked, unknown_users)
    rules = _rules(only, exclude, item_ids) | {"unknown_users": unknown_users, "N": number}
    chunks = _recommended(model, asked, item_ids, names, rules)
    _give(chunks, _title(asked, names, strangers), output, as_json)


def similar(
    model_path: Path = MODEL,
    typed: list[str] = argument("ITEM", "Ids, or names with --names."),
    users: bool = option(False, "These are users: similar users.", "--users"),
    number: int = _NUMBER,
    names_file: Path | None = _NAMES,
    name_columns: str | None = _NAME_COLUMNS,
    output: Path | None = _OUTPUT,
    threads: int | None = THREADS,
    as_json: bool = JSON,
    _quiet: bool = QUIET,
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
        note(f"{what} {unknown!r} has no interaction, so that nothing is like it")

    def title(asked: Any) -> str:
        return f"[bold]Similar to {_called(asked, names)}[/bold]"

    _give([lists], title, output, as_json)


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


def _without_interactions(model: Any, asked: Asked, unknown_users: str) -> list[Any]:
    """The users of the model of whom it knows nothing; says what they get."""
    if asked.new:
        return []
    is_unknown = model.factors_.users.queries(asked.positions).without_knowledge()
    strangers = asked.users[asked.positions[is_unknown]].tolist()
    if strangers:
        who = (
            f"{len(strangers):,} of {len(asked.positions):,} users have no interaction that the "
            "model was trained on"
        )
        if unknown_users == "error":
            raise ValueError(
                f"{who}, such as {strangers[0]!r}; leave them out, or give --unknown-users popular "
                "or empty"
            )
        what = "the most popular items" if unknown_users == "popular" else "no items"
        note(f"{who} and get {what}")
    return strangers


def _rules(only: Path | None, exclude: Path | None, ids: Ids) -> dict[str, Any]:
    """Which items may come, as arguments of `recommend`."""
    import numpy as np

    chosen, left_out = (_known_items(path, ids) for path in (only, exclude))
    if chosen is None:
        return {"filter_items": left_out}
    allowed = chosen if left_out is None else np.setdiff1d(chosen, left_out)
    if not len(allowed):
        raise ValueError(f"{only} must name an item of the model that may come; it has none")
    return {"items": allowed}


def _known_items(path: Path | None, ids: Ids) -> NDArray[Any] | None:
    """The items of a file that the model knows; the others are counted."""
    if path is None:
        return None
    positions = ids.find(_lines(path, "items"))
    n_unknown = int((positions < 0).sum())
    if n_unknown:
        note(f"{path}: {n_unknown:,} of {len(positions):,} items are not in the model")
    return positions[positions >= 0]


def _items(likes: list[str], ids: Ids, names: Names | None) -> list[str]:
    """Items as typed, one by one; a name may have commas of its own."""
    items = []
    for text in likes:
        is_name = names is not None and names.find(text.strip(), ids)
        items += [text] if is_name else text.split(",")
    return items


def _someone_new(positions: list[int], items: Ids) -> Asked:
    import numpy as np

    from robirank.data.ids import Ids
    from robirank.data.interactions import Interactions

    users, liked = Ids([_NEW]), np.unique(positions)
    has = Interactions(users, items, np.array([0, len(liked)]), liked.astype(np.int32))
    return Asked(users, np.array([0]), has, new=True)


def _new_users(history: Path, columns: Columns, users: list[str] | None, items: Ids) -> Asked:
    import numpy as np

    whole = read(history, columns)
    has, _ = known(history, whole, whole.users, items)
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
    model: Any, asked: Asked, items: Ids, names: Names | None, rules: dict[str, Any]
) -> Iterator[pl.DataFrame]:
    import numpy as np

    from robirank.latent.factors.frame import id_series, lists_frame

    for begin in range(0, len(asked.positions), _CHUNK_USERS):
        positions = asked.positions[begin : begin + _CHUNK_USERS]
        best, scores = model.recommend(
            np.arange(len(positions)) if asked.new else positions,
            None if asked.has is None else asked.has.matrix[positions],
            filter_already_liked_items=asked.has is not None,
            recalculate_user=asked.new,
            **rules,
        )
        users = id_series("user", asked.users, positions)
        yield with_names(lists_frame(users, best, scores, items), names)


def _title(asked: Asked, names: Names | None, strangers: list[Any]) -> Callable[[Any], str]:
    unknown = set(strangers)

    def title(user: Any) -> str:
        who = "a new user" if user == _NEW and asked.new else f"user {_called(user, None)}"
        about = ""
        if user in unknown:
            about = "without an interaction: the most popular items"
        elif asked.has is not None:
            row = asked.has.matrix[asked.users.index(user)]
            items = asked.has.items[row.indices[(-row.data).argsort(kind="stable")]].tolist()
            shown = ", ".join(_called(item, names) for item in items[:_SHOWN])
            about = f"who has {shown}{' …' * (len(items) > _SHOWN)}" if items else ""
        return f"[bold]For {who}[/bold]" + (f", [dim]{about}[/dim]" if about else "")

    return title


def _called(value: Any, names: Names | None) -> str:
    from rich.markup import escape

    name = None if names is None else names.get(value)
    return escape(escaped(str(value) if name is None else name))


def _give(
    chunks: Iterable[pl.DataFrame], title: Callable[[Any], str], output: Path | None, as_json: bool
) -> None:
    if output is None:
        print_lists(chunks, title, as_json=as_json)
        return
    with step(f"wrote {output}") as details:
        details.append(f"{write_file(output, chunks):,} lines")
