"""Rules on the command line: the options that say them, and why lists are short."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from robirank.cli.console import note, step
from robirank.cli.features import FeatureFile
from robirank.cli.options import option
from robirank.data.where import condition

if TYPE_CHECKING:
    import polars as pl

    from robirank.latent.factors.rules import Rules


def _rule(help: str, *names: str, metavar: str) -> Any:
    return option(None, help, *names, metavar=metavar, rich_help_panel="Rules")


ITEMS_TABLE = _rule("A row for each item: CSV, TSV (.gz) or Parquet.", metavar="FILE")
ITEM_ID = _rule(
    "Its column of ids; by default `id`, else `item`, else the first.", metavar="COLUMN"
)
WHERE = _rule(
    "Items for which this holds alone: columns, = != < <= > >= in, and, or, not, parentheses.",
    metavar="'stock > 0'",
)
AT_MOST = _rule(
    "So many items of each value of a column, or of one value; may be repeated.",
    metavar="brand=2",
)
AT_LEAST = _rule(
    "So many items, where there are such, that have a value; may be repeated.",
    metavar="category:new=1",
)
PIN = _rule("The item at a place, from 1 on; may be repeated.", metavar="1=ID")
TIES = _rule("Of equal scores, the item with the lower value here comes first.", metavar="COLUMN")

#: What takes items away, by the names that `Rules.explain` has for it.
_CALLED = {
    "user_items": "what the user has",
    "items": "--only, --exclude, --new-only or --old-only",
    "allow": "--where",
    "no interactions": "items without interactions",
}


@dataclass(frozen=True)
class Typed:
    """The options as they were typed."""

    table: Path | None
    item_id: str | None
    where: str | None
    at_most: Sequence[str] | None
    at_least: Sequence[str] | None
    pin: Sequence[str] | None
    ties: str | None

    def check(self) -> None:
        """Raise an error where an option needs the table of items, before any work."""
        for flag, value in (
            ("--item-id", self.item_id),
            ("--where", self.where),
            ("--at-most", self.at_most),
            ("--at-least", self.at_least),
            ("--ties", self.ties),
        ):
            if value and self.table is None:
                raise typer.BadParameter(f"{flag} needs --items-table")
        if self.table is not None and not self._is_any():
            raise typer.BadParameter(
                "--items-table needs a rule: --where, --at-most, --at-least, --pin or --ties"
            )

    def _is_any(self) -> bool:
        return any((self.where, self.at_most, self.at_least, self.pin, self.ties))

    def rules(self) -> Rules | None:
        """The rules; None where none is given."""
        from robirank.latent.factors.rules import Rules

        if not self._is_any():
            return None
        if self.table is None:
            return Rules(pin=pins_of(self.pin))
        frame, id = _read(self.table, self.item_id)
        return Rules(
            frame,
            id,
            allow=None if self.where is None else condition(self.where, frame.schema),
            at_most=limits_of("--at-most", self.at_most),
            at_least=limits_of("--at-least", self.at_least),
            pin=pins_of(self.pin),
            ties=self.ties,
        )


def _read(path: Path, id: str | None) -> tuple[pl.DataFrame, str]:
    from robirank.data.features import read_rows

    file = FeatureFile.open("item", path, id, "--items-table")
    with step(f"read {path}") as details:
        frame = read_rows(path, file.id, [])
        details.append(f"{len(frame):,} items, ids in {file.id!r}")
    return frame, file.id


def limits_of(flag: str, typed: Sequence[str] | None) -> dict[str, int]:
    """Numbers by column, or by column and value, from texts such as "brand=2"."""
    return {key: _whole(flag, text, n) for text, key, n in _split(flag, typed, "brand=2")}


def pins_of(typed: Sequence[str] | None) -> dict[int, str]:
    """Ids by place, from texts such as "1=p003"."""
    return {_whole("--pin", text, n): id for text, id, n in _split("--pin", typed, "1=p003", True)}


def _split(
    flag: str, typed: Sequence[str] | None, example: str, number_first: bool = False
) -> Iterator[tuple[str, str, str]]:
    """Each text, what it names, and its number; nothing may be named twice."""
    seen: set[str] = set()
    for text in typed or ():
        first, equals, last = text.partition("=") if number_first else text.rpartition("=")
        name, number = (last, first) if number_first else (first, last)
        if not equals or not name:
            raise typer.BadParameter(f"{flag} must be such as {example}; got {text!r}")
        if first in seen:
            raise ValueError(f"{flag} {text}: {first!r} is given twice")
        seen.add(first)
        yield text, name, number


def _whole(flag: str, text: str, number: str) -> int:
    try:
        return int(number)
    except ValueError:
        raise ValueError(f"{flag} {text}: {number!r} is no whole number") from None


@contextmanager
def noting_short_lists(users: Any) -> Iterator[None]:
    """Say which of some users have short lists, and why, by the options of the command."""
    from robirank.latent.factors.ruled_answers import ShortAnswerWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ShortAnswerWarning)
        yield
    for one in caught:
        if isinstance(one.message, ShortAnswerWarning):
            note(_reason(one.message, users))
        else:
            warnings.showwarning(one.message, one.category, one.filename, one.lineno)


def _reason(short: Any, users: Any) -> str:
    items = short.counts["all items"]
    why = [f"{_called(name)} {n:,}" for name, n in short.taken_away.items()]
    who = f"{short.n_short:,} of {len(users):,} users got {_called(short.what)}"
    return f"{who}; taken away of {items:,} items for {users[short.first]!r}: {', '.join(why)}"


def _called(name: str) -> str:
    for argument in ("at_most", "at_least"):
        name = name.replace(f"{argument} ", f"--{argument.replace('_', '-')} ")
    return _CALLED.get(name, name)
