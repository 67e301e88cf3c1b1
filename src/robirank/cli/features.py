"""Features on the command line: the options that name them, and the files they are read from."""

from __future__ import annotations

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

SIDES = ("item", "user")
_KINDS = ("category", "list", "text", "number", "date", "vector")  # that a file can hold


def _feature_option(help: str, *names: str, metavar: str = "COLUMN") -> Any:
    return option(
        None, help, *names, metavar=metavar, rich_help_panel="What is known of items and users"
    )


ITEM_FEATURES = _feature_option("A row for each item: CSV, TSV (.gz) or Parquet.", metavar="FILE")
USER_FEATURES = _feature_option("The same for users.", metavar="FILE")
ITEM_ID = _feature_option("Column of ids; by default `id`, else `item`, else the first.")
USER_ID = _feature_option("Column of ids; by default `id`, else `user`, else the first.")
KINDS = _feature_option(
    f"Kinds of columns that are not what they look like: {', '.join(_KINDS)}.",
    metavar="genres=list,zip=category",
)
WEIGHTS = _feature_option(
    "How much columns count beside the others, 1 by default; 0 leaves a column out.",
    metavar="title=0.5",
)
LIST_SEPARATOR = option(
    "|",
    "What separates the values of a list.",
    metavar="TEXT",
    rich_help_panel="What is known of items and users",
)


@dataclass(frozen=True)
class FeatureFiles:
    """The files of features that a fit is given, and what options say of their columns.

    Both mappings are from a side, "item" or "user", to its file and to its column of ids.
    """

    paths: Mapping[str, Path | None]
    ids: Mapping[str, str | None]
    kinds: str | None = None
    weights: str | None = None
    separator: str = "|"

    def check(self) -> None:
        """Refuse options that say something of a file that is not given."""
        for side in SIDES:
            if self.ids[side] is not None and self.paths[side] is None:
                raise typer.BadParameter(f"--{side}-id needs --{side}-features")
        for name, text in (("kinds", self.kinds), ("feature-weights", self.weights)):
            if text is not None and not any(self.paths.values()):
                raise typer.BadParameter(f"--{name} needs --item-features or --user-features")

    def read(self) -> dict[str, Features]:
        """The features of each side that has a file."""
        kinds, weights = _kinds(self.kinds), _weights(self.weights)
        files = {side: path for side, path in self.paths.items() if path is not None}
        columns = {side: column_names(f"--{side}-features", path) for side, path in files.items()}
        for name, given in (("kinds", kinds), ("feature-weights", weights)):
            _check_known(f"--{name}", given, columns)
        return {
            side: read_features(
                f"--{side}-features",
                path,
                side,
                self.ids[side],
                columns=[name for name in columns[side] if weights.get(name) != 0],
                kinds=kinds,
                weights=weights,
                separator=self.separator,
            )
            for side, path in files.items()
        }

    @contextmanager
    def named_in_errors(self, tables: Mapping[str, Features]) -> Iterator[None]:
        """Let an error that names a column say which file has it."""
        with naming_files({f"--{s}-features {self.paths[s]}": t for s, t in tables.items()}):
            yield


def read_features(
    flag: str,
    path: Path,
    side: str,
    id: str | None = None,
    *,
    columns: Sequence[str],
    **options: Any,
) -> Features:
    """Read some columns of a file, and say what is in it.

    ``options`` are those of `Features.from_file`; ``kinds`` and ``weights`` may name columns that
    the file does not have.
    """
    from robirank.data.features import Features

    id = id_column(flag, path, side, id)
    columns = [name for name in columns if name != id]
    for name in ("kinds", "weights"):
        given = options.get(name, {})
        options[name] = {column: given[column] for column in columns if column in given}
    where = f"{flag} {path}"
    if not columns:
        raise ValueError(f"{where}: must have a column of features beside the ids in {id!r}")
    with step(f"read {path}") as details, naming_files({where: {"id", "values", "separator"}}):
        features = Features.from_file(path, id, columns=columns, **options)
        shown = ", ".join(f"{name} ({kind})" for name, kind in features.kinds.items())
        details.append(f"{len(features):,} {side}s, ids in {id!r}: {shown}")
    _note_constant_columns(path, features)
    return features


def read_for_model(
    model: Any, flag: str, path: Path, side: str, id: str | None
) -> tuple[Features, int]:
    """Read features of new items or users, and count the values that the fit had not seen.

    Columns that the fit had not are passed over. Items must have all that it had; of users, those
    that are missing are unknown.
    """
    fitted = _fitted_features(model, flag, side)
    kinds = {column.settings.name: column.settings.kind for column in fitted.encoder.columns}
    present = column_names(flag, path)
    missing = [name for name in kinds if name not in present]
    if missing and (side == "item" or len(missing) == len(kinds)):
        raise ValueError(
            f"{flag} {path}: must have the columns {[*kinds]} of the fit; {missing[0]!r} is "
            f"missing, it has {present}"
        )
    id = id_column(flag, path, side, id)
    for name in missing:
        note(f"{path}: there is no column {name!r}, which is then unknown of all {side}s")
    strange = [name for name in present if name not in (*kinds, id)]
    if strange:
        note(f"{path}: passed over {', '.join(strange)}, which the fit had not")
    columns = [name for name in kinds if name in present]
    features = read_features(flag, path, side, id, columns=columns, kinds=kinds)
    return features, _count_unknown(f"{flag} {path}", features, fitted)


def typed_features(model: Any, typed: Sequence[str]) -> Features:
    """The features of one user, from texts such as "country=France"."""
    fitted = _fitted_features(model, "--feature", "user")
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
        values[name] = value
    features = fitted.encoder.table_of([values])
    _count_unknown("--feature", features, fitted)
    return features


def _fitted_features(model: Any, flag: str, side: str) -> FeatureRows:
    """The features that a model knows of its items or users; an error if it knows none."""
    centres = model.item_centres_ if side == "item" else model.user_centres_
    if centres is None:
        raise ValueError(
            f"{flag} cannot be used: the model was trained without features of {side}s; "
            f"`latent train --{side}-features` takes them"
        )
    rows: FeatureRows = centres.features
    return rows


def _count_unknown(where: str, features: Features, fitted: FeatureRows) -> int:
    """The number of values that the fit had not seen; one warning for all of them.

    An error in a value names ``where`` it stands.
    """
    import warnings

    from robirank.data.feature_rows import UnknownValueWarning, warn_of_unknown

    with naming_files({where: features}):
        unknown = fitted.encoder.encode(features, partly=True)[1]
    warn_of_unknown(where, unknown)
    # The same rows are encoded again, chunk by chunk. The filter ends with the command.
    warnings.simplefilter("ignore", UnknownValueWarning)
    return sum(unknown.values())


def rows_of(features: Features, positions: Any) -> Features:
    """The rows at some positions; all is unknown in a row at −1."""
    import polars as pl

    from robirank.data.ids import Ids

    places = pl.Series(positions, dtype=pl.Int64).replace(-1, None)
    columns = {name: pl.Series(column).gather(places) for name, column in features.columns.items()}
    return replace(features, ids=Ids.range(len(places)), columns=columns)


def known_by_features(model: Any, tables: Mapping[str, Features]) -> dict[str, int]:
    """How many items and users of a model have features, and how many have nothing else."""
    facts = {}
    for side, features in tables.items():
        names = model.by_id._names()
        ids, counts = (
            (names.items.ids, model.item_counts_)
            if side == "item"
            else (names.users.ids, model.user_counts_)
        )
        alone = counts[ids.find(features.ids[:])] == 0
        facts[f"{side}s_with_features"] = len(features)
        facts[f"{side}s_by_features_alone"] = int(alone.sum())
    return facts


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


def column_names(flag: str, path: Path) -> list[str]:
    """The names of the columns of a file."""
    import polars as pl

    if not path.is_file():
        raise FileNotFoundError(f"{flag} {path}: there is no such file")
    try:
        if path.name.endswith((".parquet", ".pq")):
            return [*pl.read_parquet_schema(path)]
        sep = "\t" if ".tsv" in path.suffixes else ","
        return pl.read_csv(path, separator=sep, n_rows=0, infer_schema=False).columns
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{flag} {path}: cannot be read: {error}") from None


def id_column(flag: str, path: Path, side: str, id: str | None) -> str:
    """The column of ids: the given one, `id`, one that is called like the side, or the first."""
    columns = column_names(flag, path)
    if id is None:
        return next((name for name in ("id", side) if name in columns), columns[0])
    if id not in columns:
        raise ValueError(f"--{side}-id {id} is not a column of {path}; it has {columns}")
    return id


@contextmanager
def naming_files(columns: Mapping[str, Any]) -> Iterator[None]:
    """Let errors about columns say where they are.

    ``columns`` are the names of columns, or `Features`, by what errors call the file.
    """
    from robirank.errors import ArgumentError, TableError

    try:
        yield
    except TableError as error:
        raise ValueError(f"{next(iter(columns))}: {error}") from None
    except ArgumentError as error:
        having = [
            where
            for where, names in columns.items()
            if error.subject.name in getattr(names, "columns", names)
        ]
        if not having:
            raise
        raise ValueError(f"{' or '.join(having)}: {error}") from None


def _note_constant_columns(path: Path, features: Features) -> None:
    for name, column in features.columns.items():
        if len(features) > 1 and not column.dtype.is_nested() and column.n_unique() < 2:
            note(f"{path}: column {name!r} has the same value in all rows, which says nothing")


def _check_known(flag: str, given: Mapping[str, Any], columns: Mapping[str, list[str]]) -> None:
    for name in given:
        if not any(name in names for names in columns.values()):
            files = " and ".join(f"--{side}-features has {c}" for side, c in columns.items())
            raise ValueError(f"{flag}: there is no column {name!r}; {files}")


def _kinds(text: str | None) -> dict[str, Any]:
    kinds = _pairs("--kinds", text, "genres=list,zip=category")
    for name, kind in kinds.items():
        if kind not in _KINDS:
            raise ValueError(f"--kinds {name}={kind}: a kind is one of {', '.join(_KINDS)}")
    return kinds


def _weights(text: str | None) -> dict[str, float]:
    weights = {}
    for name, value in _pairs("--feature-weights", text, "title=0.5").items():
        try:
            weights[name] = float(value)
        except ValueError:
            weights[name] = -1.0
        if not 0 <= weights[name] < float("inf"):
            raise ValueError(f"--feature-weights {name}={value}: a weight is a number from 0 on")
    return weights


def _pairs(flag: str, text: str | None, example: str) -> dict[str, str]:
    """Read NAME=VALUE,NAME=VALUE."""
    pairs: dict[str, str] = {}
    for part in [] if text is None else text.split(","):
        name, equals, value = part.rpartition("=")
        if not equals or not name.strip():
            raise ValueError(f"{flag} must be such as {example}; got {text!r}")
        pairs[name.strip()] = value.strip()
    return pairs
