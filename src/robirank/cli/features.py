"""Features on the command line: the options that name them, and the files they are read from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from robirank.cli.console import note, step
from robirank.cli.options import option

if TYPE_CHECKING:
    from robirank.data.feature_rows import FeatureRows
    from robirank.data.features import Features


def feature_option(help: str, *names: str, metavar: str = "COLUMN") -> Any:
    """An option that says something of features."""
    return option(
        None, help, *names, metavar=metavar, rich_help_panel="What is known of items and users"
    )


ITEM_FEATURES = feature_option("A row for each item: CSV, TSV (.gz) or Parquet.", metavar="FILE")
USER_FEATURES = feature_option("The same for users.", metavar="FILE")
ITEM_ID = feature_option("Column of item ids; by default `id`, else `item`, else the first.")
USER_ID = feature_option("Column of user ids; by default `id`, else `user`, else the first.")
_KINDS = ("category", "list", "text", "number", "date", "vector")  # that a file can hold
KINDS = feature_option(
    f"Kinds of columns that are not what they look like: {', '.join(_KINDS)}.",
    metavar="genres=list,zip=category",
)
WEIGHTS = feature_option(
    "How much columns count beside the others, 1 by default; 0 leaves a column out.",
    metavar="title=0.5",
)
LIST_SEPARATOR = feature_option(
    "What separates the values of a list; | by default.", metavar="TEXT"
)


@dataclass(frozen=True)
class FeatureFile:
    """A file with a row for each item or user.

    Attributes
    ----------
    side : str
        "item" or "user".
    path : Path
    where : str
        What errors call it.
    id : str
        The column of ids.
    columns : list of str
        The other columns.
    """

    side: str
    path: Path
    where: str
    id: str
    columns: list[str]

    @classmethod
    def open(cls, side: str, path: Path, id: str | None, flag: str = "") -> FeatureFile:
        """See which columns a file has; ``flag`` is the option that names it."""
        where = f"{flag} {path}".strip()
        names = _column_names(where, path)
        if id is None:
            id = next((name for name in ("id", side) if name in names), names[0])
        elif id not in names:
            raise ValueError(f"--{side}-id {id} is not a column of {path}; it has {names}")
        return cls(side, path, where, id, [name for name in names if name != id])

    def read(self, columns: Sequence[str], **options: Any) -> Features:
        """Read some columns, and say what is in them; the options are those of `Features`."""
        from robirank.data.features import Features

        with step(f"read {self.path}") as details, naming(self.where):
            features = Features.from_file(self.path, self.id, columns=columns, **options)
            shown = ", ".join(f"{name} ({kind})" for name, kind in features.kinds.items())
            details.append(f"{len(features):,} {self.side}s, ids in {self.id!r}: {shown}")
        return features


def read_to_train(
    paths: Mapping[str, Path | None],
    ids: Mapping[str, str | None],
    kinds: str | None,
    weights: str | None,
    separator: str | None,
) -> dict[str, Features]:
    """The features of each side that has a file, checked.

    ``paths`` and ``ids``, the columns of ids, are by side. ``kinds`` and ``weights`` are as typed,
    and may be of columns of either file.
    """
    for side, path in paths.items():
        if ids[side] is not None and path is None:
            raise typer.BadParameter(f"--{side}-id needs --{side}-features")
    for flag, value in (
        ("--kinds", kinds),
        ("--feature-weights", weights),
        ("--list-separator", separator),
    ):
        if value is not None and not any(paths.values()):
            raise typer.BadParameter(f"{flag} needs --item-features or --user-features")
    files = [
        FeatureFile.open(side, path, ids[side], f"--{side}-features")
        for side, path in paths.items()
        if path is not None
    ]
    kind_of = _by_column("--kinds", kinds, "genres=list,zip=category", files)
    for name, kind in kind_of.items():
        if kind not in _KINDS:
            raise ValueError(f"--kinds {name}={kind}: a kind is one of {', '.join(_KINDS)}")
    typed = _by_column("--feature-weights", weights, "title=0.5", files)
    weight_of = {name: _number(f"--feature-weights {name}", text) for name, text in typed.items()}
    options = {} if separator is None else {"separator": separator}
    return {file.side: _read_to_train(file, kind_of, weight_of, options) for file in files}


def _read_to_train(
    file: FeatureFile, kinds: dict[str, str], weights: dict[str, float], options: dict[str, Any]
) -> Features:
    from robirank.data.feature_encoder import FeatureEncoder

    columns = [name for name in file.columns if weights.get(name) != 0]
    if not columns:
        why = " to which --feature-weights gives no weight of 0" if file.columns else ""
        raise ValueError(f"{file.where}: must have a column beside the ids in {file.id!r}{why}")
    for argument, given in (("kinds", kinds), ("weights", weights)):
        options = options | {argument: {n: given[n] for n in columns if n in given}}
    features = file.read(columns, **options)
    with naming(file.where):
        FeatureEncoder.learn(features)  # so that errors in values name the file
    for name, column in features.columns.items():
        if len(features) > 1 and not column.dtype.is_nested() and column.n_unique() < 2:
            note(f"{file.path}: column {name!r} has the same value in all rows, which says nothing")
    return features


def read_for_model(
    model: Any, side: str, path: Path, id: str | None, flag: str = ""
) -> tuple[Features, FeatureRows, int]:
    """Read features of other items or users than those of the fit.

    Columns that the fit did not have are passed over. Items must have all that it had; of users,
    those that are missing are unknown.

    Returns
    -------
    features : Features
    rows : FeatureRows
        The same as numbers.
    n_unknown : int
        How many values the fit did not see; a warning counts them too.
    """
    from robirank.data.feature_rows import FeatureRows, warn_of_unknown

    file = FeatureFile.open(side, path, id, flag)
    encoder = _fitted_features(model, side, file.where).encoder
    kinds = {column.settings.name: column.settings.kind for column in encoder.columns}
    columns = [name for name in kinds if name in file.columns]
    missing = [name for name in kinds if name not in columns]
    if missing and (side == "item" or not columns):
        raise ValueError(
            f"{file.where}: must have the columns {[*kinds]} that the model was trained with; it "
            f"has {file.columns} beside the ids in {file.id!r}"
        )
    strange = [name for name in file.columns if name not in kinds]
    if strange:
        note(f"{path}: passed over the columns {strange}, which the model was not trained with")
    if missing:
        note(f"{path}: without the columns {missing}, which count as unknown")
    features = file.read(columns, kinds={name: kinds[name] for name in columns})
    with naming(file.where):
        matrix, unknown = encoder.encode(features, partly=True)
    warn_of_unknown(str(path), unknown)
    return features, FeatureRows(encoder, matrix), sum(unknown.values())


def typed_features(model: Any, typed: Sequence[str]) -> FeatureRows:
    """The features of one user, from texts such as "country=France"."""
    fitted = _fitted_features(model, "user", "--feature")
    kinds = {column.settings.name: column.settings.kind for column in fitted.encoder.columns}
    values: dict[str, str] = {}
    for text in typed:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"--feature must be COLUMN=VALUE; got {text!r}")
        if name not in kinds:
            raise ValueError(f"--feature {text}: there is no column {name!r}; there are {[*kinds]}")
        if name in values:
            raise ValueError(f"--feature {text}: {name!r} is given twice")
        if kinds[name] in ("vector", "counts"):
            raise ValueError(f"--feature {text}: {name!r} holds vectors; give a file to --features")
        if kinds[name] == "number" and value:
            _number(f"--feature {name}", value)
        values[name] = value
    with naming("--feature"):
        return fitted.rows_of("--feature", values)


def _fitted_features(model: Any, side: str, where: str) -> FeatureRows:
    """The features that a model knows of its items or users; an error if it knows none."""
    centres = model.item_centres_ if side == "item" else model.user_centres_
    if centres is None:
        raise ValueError(
            f"{where} cannot be used: the model was trained without features of {side}s; "
            f"`latent train --{side}-features` takes them"
        )
    rows: FeatureRows = centres.features
    return rows


def with_text_ids(table: Any, tables: Mapping[str, Features]) -> Any:
    """Interactions whose integer ids are text where those of features are text."""
    from robirank.data.interactions import Interactions

    if not isinstance(table, Interactions):
        return table
    ids = {"item": table.items, "user": table.users}
    for side, features in tables.items():
        if features.ids.kind == "str":
            ids[side] = ids[side].as_text()
    return replace(table, users=ids["user"], items=ids["item"])


def known_by_features(model: Any, tables: Mapping[str, Features]) -> dict[str, int]:
    """How many users and items a model has, of how many there are features, and nothing else."""
    names, facts = model.by_id._names(), {}
    for side, ids in (("user", names.users.ids), ("item", names.items.ids)):
        facts[f"{side}s"] = len(ids)
        if side in tables:
            described = ids.find(tables[side].ids[:])
            counts = getattr(model, f"{side}_counts_")[described]
            facts[f"{side}s_with_features"] = len(counts)
            facts[f"{side}s_by_features_alone"] = int((counts == 0).sum())
    return facts


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Let errors say where something is wrong; those of damaged files say so themselves."""
    from robirank.errors import TableError

    try:
        yield
    except TableError:
        raise
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _column_names(where: str, path: Path) -> list[str]:
    import polars as pl

    from robirank.data.interaction_files import POLARS_ERRORS

    if not path.is_file():
        raise FileNotFoundError(f"{where}: there is no such file")
    try:
        if path.name.endswith((".parquet", ".pq")):
            names = [*pl.read_parquet_schema(path)]
        else:
            sep = "\t" if ".tsv" in path.suffixes else ","
            names = pl.read_csv(path, separator=sep, n_rows=0, infer_schema=False).columns
    except (OSError, *POLARS_ERRORS) as error:
        raise ValueError(f"{where}: cannot be read: {error}") from None
    if not names:
        raise ValueError(f"{where}: must have columns; it has none")
    return names


def _by_column(
    flag: str, text: str | None, example: str, files: Sequence[FeatureFile]
) -> dict[str, str]:
    """Read NAME=VALUE,NAME=VALUE, where the names are columns of some file."""
    values: dict[str, str] = {}
    for part in [] if text is None else text.split(","):
        name, equals, value = (piece.strip() for piece in part.rpartition("="))
        if not equals or not name:
            raise ValueError(f"{flag} must be such as {example}; got {text!r}")
        if not any(name in file.columns for file in files):
            having = " and ".join(f"{file.path} has {file.columns}" for file in files)
            raise ValueError(f"{flag} {part}: there is no column {name!r} of features; {having}")
        values[name] = value
    return values


def _number(what: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{what}={text} must be a finite number")
    return value
