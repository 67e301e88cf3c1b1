"""``robirank latent explain``: why a user gets an item."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from robirank.cli.console import escaped, print_json, print_text
from robirank.cli.features import feature_option, typed_features
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
)
from robirank.cli.options import JSON, QUIET, THREADS, argument, file, option
from robirank.cli.recommend import MODEL, NAME_COLUMNS, NAMES, items_as_typed
from robirank.data.names import Names, look_up

if TYPE_CHECKING:
    from robirank.latent.factors.reasons import Reasons

_FEATURE = feature_option(
    "What is known of a new user, who may have --likes too; may be repeated.",
    metavar="COLUMN=VALUE",
)


def explain(
    model_path: Path = MODEL,
    typed: list[str] = argument("[USER] ITEM", "Ids; an item may be a name, with --names."),
    train: Path | None = file("What the user has."),
    likes: list[str] | None = option(
        None,
        "A new user who has these items, ids or names; may be repeated.",
        metavar="ITEM,ITEM",
    ),
    feature: list[str] | None = _FEATURE,
    fold_in: bool = option(
        False, "Find the user's factors from --train, in place of those of the fit.", "--fold-in"
    ),
    top: int = option(3, "Items, and features, to name.", min=1),
    names_file: Path | None = NAMES,
    name_columns: str | None = NAME_COLUMNS,
    user: str | None = USER,
    item: str | None = ITEM,
    count: str | None = COUNT,
    time_column: str | None = TIME,
    sep: str | None = SEP,
    header: bool | None = HEADER,
    threads: int | None = THREADS,
    as_json: bool = JSON,
    _quiet: bool = QUIET,
) -> None:
    """Say why a user gets an item: which of their items and features speak for it."""
    is_new = bool(likes or feature)
    if len(typed) != (1 if is_new else 2):
        raise typer.BadParameter(
            "give MODEL USER ITEM, or for a new user MODEL ITEM with --likes or --feature"
        )
    if is_new == (train is not None):
        raise typer.BadParameter("--train is what a user of the model has; new ones have --likes")
    model, users, items = load(model_path, threads)
    names = None if names_file is None else Names.read(names_file, name_columns)
    (wanted,) = look_up("item", typed[-1:], items, names, where=model_path)
    if train is None:
        liked = look_up(
            "item", items_as_typed(likes or [], items, names), items, names, where=model_path
        )
        about = typed_features(model, feature) if feature else None
        why = model.by_id.explain_for(items[liked].tolist(), items[wanted], features=about)
    else:
        columns = Columns(user, item, count, time_column, sep, header)
        (who,) = look_up("user", typed[:1], users, None, where=model_path)
        has, _ = known(train, read(train, columns), users, items)
        why = model.by_id.explain(users[who], has, items[wanted], recalculate_user=fold_in)
    if as_json:
        print_json(_as_object(why))
        return

    def called(value: Any) -> str:
        name = None if names is None else names.get(value)
        return escaped(str(value) if name is None else name)

    print_text(why.text(called, top) + "\n")


def _as_object(why: Reasons) -> dict[str, Any]:
    """The reasons as a JSON object."""
    about = {"user": why.user, "item": why.item, "score": why.score, "distance": why.distance}
    return about | {"reasons": why.frame().to_dicts()}
