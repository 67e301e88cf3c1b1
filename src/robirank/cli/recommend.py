"""Commands that answer with ranked lists: ``robirank latent recommend | similar``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from robirank.cli.console import check_output, escaped, note, step
from robirank.cli.features import USER_ID, feature_option, read_for_model, typed_features
from robirank.cli.interactions import (
    COUNT,
    HEADER,
    ITEM,
    SEP,
    TIME,
    USER,
    Columns,
    known,
    load,
    read,
    read_ids,
    read_items,
)
from robirank.cli.lists import check_format, print_lists, with_names, write_file
from robirank.cli.options import (
    DEVICE,
    JSON,
    POPULARITY,
    QUIET,
    THREADS,
    VARIETY,
    DeviceName,
    argument,
    file,
    option,
)
from robirank.cli.rules import (
    AT_LEAST,
    AT_MOST,
    ITEM_ID,
    ITEMS_TABLE,
    PIN,
    TIES,
    WHERE,
    Typed,
    noting_short_lists,
)
from robirank.data.names import Names, look_up

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from robirank.data.feature_rows import FeatureRows
    from robirank.data.ids import Ids
    from robirank.data.interactions import Interactions

_CHUNK_USERS = 4096  # users that are asked for at a time
_SHOWN = 5  # items of a user's own that a title names
_NEW = "new user"

MODEL = argument("MODEL", "A model file, from `latent train`.")
_NUMBER = option(10, "Length of each list.", "--number", "-n", min=1)
NAMES = file("Items and their names, TSV or CSV (.gz too).", "--names")
NAME_COLUMNS = option(None, "Columns that make up a name; the second by default.", metavar="1,2")
_FEATURE = feature_option(
    "What is known of a new user, who may have --likes too; may be repeated.",
    metavar="COLUMN=VALUE",
)
_FEATURES = feature_option(
    "New users, a row each: CSV, TSV (.gz) or Parquet. --history may say what they have.",
    "--features",
    metavar="FILE",
)
_OUTPUT = file("A .tsv, .csv, .jsonl or .parquet file.", "--output", "-o")


@dataclass(frozen=True)
class Asked:
    """Whose lists are wanted: some users of a model or of a table, and what they have already.

    The factors of ``new`` ones are found from what they have, and from what ``features`` say of
    them, a row for each.
    """

    users: Ids
    positions: NDArray[Any]
    has: Interactions | None = None
    new: bool = False
    features: FeatureRows | None = None


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
    feature: list[str] | None = _FEATURE,
    features_file: Path | None = _FEATURES,
    user_id: str | None = USER_ID,
    number: int = _NUMBER,
    only: Path | None = file("Choose among these items only; ids, one a line."),
    exclude: Path | None = file("Items that nobody gets; ids, one a line."),
    new_only: bool = option(False, "Choose among items without an interaction.", "--new-only"),
    old_only: bool = option(False, "Choose among items with interactions.", "--old-only"),
    unknown_users: Literal["popular", "empty", "error"] = option(
        "popular", "What users without an interaction get: the most popular items, nothing, …"
    ),
    variety: float = VARIETY,
    popularity: float = POPULARITY,
    items_table: Path | None = ITEMS_TABLE,
    item_id: str | None = ITEM_ID,
    where: str | None = WHERE,
    at_most: list[str] | None = AT_MOST,
    at_least: list[str] | None = AT_LEAST,
    pin: list[str] | None = PIN,
    ties: str | None = TIES,
    names_file: Path | None = NAMES,
    name_columns: str | None = NAME_COLUMNS,
    output: Path | None = _OUTPUT,
    user: str | None = USER,
    item: str | None = ITEM,
    count: str | None = COUNT,
    time_column: str | None = TIME,
    sep: str | None = SEP,
    header: bool | None = HEADER,
    device: DeviceName = DEVICE,
    threads: int | None = THREADS,
    as_json: bool = JSON,
    _quiet: bool = QUIET,
) -> None:
    """Find the best items for users of the model, or for new ones."""
    is_someone = bool(likes or feature)
    of_files = history is not None or features_file is not None
    of_model = [bool(users) and not of_files, users_file is not None, everyone]
    if sum([*of_model, is_someone, of_files]) != 1:
        raise typer.BadParameter(
            "say whose lists: USER..., --users FILE, --all, or for new users --likes or --history, "
            "--feature or --features"
        )
    if train is not None and (is_someone or of_files):
        raise typer.BadParameter("--train is for users of the model; new ones have --history")
    if user_id is not None and features_file is None:
        raise typer.BadParameter("--user-id needs --features")
    if new_only and old_only:
        raise typer.BadParameter("give --new-only or --old-only, not both")
    typed_rules = Typed(items_table, item_id, where, at_most, at_least, pin, ties)
    typed_rules.check()
    check_format(output)
    sources = train, history, features_file, users_file, names_file, only, exclude, items_table
    check_output(output, model_path, *sources)
    model, user_ids, item_ids = load(model_path, threads, device)
    names = None if names_file is None else Names.read(names_file, name_columns)
    columns = Columns(user, item, count, time_column, sep, header)
    if is_someone:
        typed = items_as_typed(likes or [], item_ids, names)
        liked = look_up("item", typed, item_ids, names, where=model_path)
        asked = _someone_new(liked, item_ids, typed_features(model, feature) if feature else None)
    elif of_files:
        about = None
        if features_file is not None:
            table, rows, _ = read_for_model(model, "user", features_file, user_id, "--features")
            about = table.ids, rows
        asked = _new_users(history, features_file, about, columns, users, item_ids)
    else:
        typed = read_ids(users_file, "users") if users_file is not None else users or []
        positions = _positions(typed, everyone, user_ids, model_path)
        has = None
        if train is None:
            note("without --train, items that a user has already may come back")
        else:
            has, _ = known(train, read(train, columns), user_ids, item_ids)
        asked = Asked(user_ids, positions, has)
    strangers = _without_interactions(model, asked, unknown_users)
    of_age = "--new-only" if new_only else "--old-only" if old_only else None
    allowed = _allowed(model, only, exclude, of_age, item_ids)
    wanted: dict[str, Any] = {"N": number, "items": allowed, "rules": typed_rules.rules()}
    wanted |= {"unknown_users": unknown_users, "variety": variety, "popularity": popularity}
    _note_counts(model, asked)
    _note_times(model, asked)
    chunks = _recommended(model, asked, item_ids, names, wanted)
    _give(chunks, _title(asked, names, strangers), output, as_json)


def similar(
    model_path: Path = MODEL,
    typed: list[str] = argument("ITEM", "Ids, or names with --names."),
    users: bool = option(False, "These are users: similar users.", "--users"),
    number: int = _NUMBER,
    names_file: Path | None = NAMES,
    name_columns: str | None = NAME_COLUMNS,
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


def _allowed(
    model: Any, only: Path | None, exclude: Path | None, of_age: str | None, ids: Ids
) -> NDArray[Any] | None:
    """The positions of the items that may come; None for all.

    ``of_age`` is the option that wants items without interactions alone, or with.
    """
    import numpy as np

    if only is None and exclude is None and of_age is None:
        return None
    is_allowed = np.ones(len(ids), bool)
    if only is not None:
        is_allowed[:] = False
        is_allowed[read_items(only, ids)[0]] = True
    if exclude is not None:
        is_allowed[read_items(exclude, ids)[0]] = False
    if of_age is not None:
        is_allowed &= (model.item_counts_ == 0) == (of_age == "--new-only")
    if not is_allowed.any():
        where = "the model must have an item"
        if only is not None:
            where = f"{only} must name an item of the model"
        rule = "" if of_age is None else f" with {of_age}"
        raise ValueError(f"{where} that may come{rule}; it has none")
    return np.flatnonzero(is_allowed).astype(np.int32)


def items_as_typed(likes: list[str], ids: Ids, names: Names | None) -> list[str]:
    """Items as typed, one by one; a name may have commas of its own."""
    items = []
    for text in likes:
        is_name = names is not None and names.find(text.strip(), ids)
        items += [text] if is_name else text.split(",")
    return items


def _someone_new(positions: list[int], items: Ids, features: FeatureRows | None) -> Asked:
    import numpy as np

    from robirank.data.ages import NOW
    from robirank.data.ids import Ids
    from robirank.data.interactions import Interactions

    # An item that is typed twice counts where it is typed last.
    users, typed = Ids([_NEW]), np.array(positions, np.int32)[::-1]
    liked, places = np.unique(typed, return_index=True)
    has = Interactions(users, items, np.array([0, len(liked)]), liked, None, NOW - places)
    return Asked(users, np.array([0]), has, new=True, features=features)


def _new_users(
    history: Path | None,
    features_file: Path | None,
    described: tuple[Ids, FeatureRows] | None,
    columns: Columns,
    typed: list[str] | None,
    items: Ids,
) -> Asked:
    """The new users of a history, of a file of features, or of both.

    ``described`` are the users of the second and what is known of them.
    """
    import numpy as np

    from robirank.data.ids import Ids
    from robirank.data.interactions import grouped

    users = Ids([]) if described is None else described[0]
    has = grouped(users, items)
    if history is not None:
        whole = read(history, columns)
        users = whole.users if described is None else _both(whole.users, users)
        has, _ = known(history, whole, users, items)
    is_known, features = has.lengths > 0, None
    if described is not None:
        ids, rows = described
        places = ids.find(users[:])
        is_known |= places >= 0
        features = rows.extended(len(rows) + 1).take(np.where(places < 0, len(rows), places))
    positions = np.flatnonzero(is_known)
    if typed:
        where = " and ".join(str(path) for path in (history, features_file) if path is not None)
        positions = np.array(look_up("user", typed, users, None, where=where), np.int64)
        without = positions[~is_known[positions]]
        if len(without):
            raise ValueError(
                f"user {users[int(without[0])]!r} of {where} has no item that the model "
                "knows, so nothing can be learned about them"
            )
    return Asked(users, positions, has, new=True, features=features)


def _both(users: Ids, others: Ids) -> Ids:
    """All users of two tables; an integer and its text are the same user."""
    if users.kind != others.kind:
        users, others = users.as_text(), others.as_text()
    return users.extend(others[:])


def _recommended(
    model: Any, asked: Asked, items: Ids, names: Names | None, wanted: dict[str, Any]
) -> Iterator[pl.DataFrame]:
    from robirank.latent.factors.frame import id_series, lists_frame

    for begin in range(0, len(asked.positions), _CHUNK_USERS):
        positions = asked.positions[begin : begin + _CHUNK_USERS]
        find = _by_interactions if asked.features is None else _by_features
        with noting_short_lists(asked.users[positions]):
            best, scores = find(model, asked, positions, wanted)
        users = id_series("user", asked.users, positions)
        yield with_names(lists_frame(users, best, scores, items), names)


def _note_counts(model: Any, asked: Asked) -> None:
    """Say that counts do not count beside features, where they would without."""
    counts = None if asked.features is None or asked.has is None else asked.has.counts
    if counts is not None and getattr(model, "weighting", "binary") != "binary":
        note("with --features, an item of --history counts once, however often a user has it")


def _note_times(model: Any, asked: Asked) -> None:
    """Say that a history without times has no order, in a model that looks at the order."""
    has_no_times = asked.has is not None and asked.has.timestamps is None
    if asked.new and has_no_times and getattr(model, "item_leads_", None) is not None:
        note("without --time, all records of --history count as the latest")


def _by_interactions(model: Any, asked: Asked, positions: Any, wanted: dict[str, Any]) -> Any:
    """The best items of users of the model, or of new ones by what they have, and scores."""
    import numpy as np

    from robirank.data.user_items import rows_of

    return model.recommend(
        np.arange(len(positions)) if asked.new else positions,
        None if asked.has is None else rows_of(asked.has, positions),
        filter_already_liked_items=asked.has is not None,
        recalculate_user=asked.new,
        **wanted,
    )


def _by_features(model: Any, asked: Asked, positions: Any, wanted: dict[str, Any]) -> Any:
    """The best items of new users by what they have and are, and scores."""
    import numpy as np

    from robirank.data.user_items import rows_of

    assert asked.has is not None
    assert asked.features is not None
    rows = rows_of(asked.has, positions)
    liked, times = (
        None if column is None else np.split(column, rows.indptr[1:-1])
        for column in (rows.items, rows.times)
    )
    if wanted["items"] is None:  # positions, for without any the answer is in outside ids
        wanted = wanted | {"items": np.arange(len(asked.has.items), dtype=np.int32)}
    features = asked.features.take(positions)
    return model.recommend_for(liked, features=features, times=times, **wanted)


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
