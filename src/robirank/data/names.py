"""Names of items and users, which people type and read in place of ids."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from robirank.data.nearest import did_you_mean, nearest
from robirank.errors import UnknownIdError
from robirank.storage.files import refuse_device

if TYPE_CHECKING:
    import polars as pl

    from robirank.data.ids import Ids

SEPARATORS = {".tsv": "\t", ".tab": "\t", ".csv": ","}


class Names:
    """Names of ids, read from a file with an id and a name in each line."""

    def __init__(self, pairs: dict[str, str]) -> None:
        self._pairs = pairs

    @classmethod
    def read(cls, path: Path, columns: str | None = None) -> Names:
        """Read CSV or TSV, plain or gzip: the id in the first column, then names.

        ``columns`` are the positions of those that make up the name, such as "1,2"; the second by
        default.
        """
        import polars as pl

        from robirank.data._layout import check_line_ends
        from robirank.data._line_chunks import line_chunks
        from robirank.data.interaction_files import POLARS_ERRORS

        sep = SEPARATORS.get(Path(path.name.removesuffix(".gz")).suffix)
        if sep is None:
            raise ValueError(f"a file of names must be .tsv or .csv (.gz too); got {path}")
        refuse_device(path)
        try:
            with path.open("rb") as file:
                content = b"".join(line_chunks(file, 1 << 20))
            check_line_ends(content, 1)
            frame = pl.read_csv(
                content,
                separator=sep,
                quote_char=None if sep == "\t" else '"',
                has_header=False,
                infer_schema=False,
                truncate_ragged_lines=True,
            )
        except (ValueError, *POLARS_ERRORS) as error:
            raise ValueError(f"{path} cannot be read: {error}") from None
        parts = [frame[:, position].fill_null("") for position in _positions(columns, frame, path)]
        joined = (" – ".join(part for part in row if part) for row in zip(*parts, strict=True))
        names = (" ".join(name.split()) for name in joined)
        return cls({id: name for id, name in zip(frame[:, 0], names, strict=True) if name})

    def get(self, value: object) -> str | None:
        """The name of an id; None for an id without a name."""
        return self._pairs.get(str(value))

    def find(self, text: str, ids: Ids) -> list[int]:
        """The positions of the ids with this name; case does not matter."""
        folded = text.casefold()
        named = [i for i, name in self._pairs.items() if name.casefold() == folded]
        return [position for position in map(ids.find, named) if position >= 0]

    def close_to(self, text: str) -> list[str]:
        """The names that are most similar to a mistyped one."""
        return nearest(text, self._pairs.values())


def _positions(columns: str | None, frame: pl.DataFrame, path: Path) -> list[int]:
    columns = "1" if columns is None else columns
    if not re.fullmatch(r"\d+(,\d+)*", columns):
        raise ValueError(f"name columns must be positions such as 1,2; got {columns!r}")
    positions = [int(position) for position in columns.split(",")]
    if max(positions) >= frame.width:
        raise ValueError(
            f"name columns {columns}: {path} has {frame.width} columns, counted from 0, "
            "the id first"
        )
    return positions


def look_up(
    kind: str, typed: list[str], ids: Ids, names: Names | None, *, where: Path | str, hint: str = ""
) -> list[int]:
    """The positions of typed ids or names; for an unknown one, the error suggests similar ones."""
    return [_look_up(kind, text.strip(), ids, names, where, hint) for text in typed]


def _look_up(
    kind: str, text: str, ids: Ids, names: Names | None, where: Path | str, hint: str
) -> int:
    position = ids.find(text)
    if position >= 0:
        return position
    named = [] if names is None else names.find(text, ids)
    if len(named) == 1:
        return named[0]
    if named:
        several = ", ".join(str(ids[position]) for position in named[:5])
        raise ValueError(f"{len(named)} {kind}s are called {text!r}; give one of the ids {several}")
    close = [] if names is None else names.close_to(text)
    meant = did_you_mean(close or ids.close_to(text))
    examples = ", ".join(str(ids[position]) for position in range(min(3, len(ids))))
    others = "" if meant else f", which knows {len(ids):,} {kind}s, such as {examples}"
    more = (" " if meant else ". ") + hint if hint else ""
    message = f"there is no {kind} {text!r} in {where}{others}{meant}{more}"
    raise UnknownIdError(message, text, kind)
