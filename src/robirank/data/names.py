"""Names of items and users: what people type and read in place of ids."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from robirank.data.nearest import did_you_mean, nearest
from robirank.storage.files import refuse_device

if TYPE_CHECKING:
    from robirank.data.ids import Ids

SEPARATORS = {".tsv": "\t", ".tab": "\t", ".csv": ","}


class Names:
    """Names of ids, out of a file with an id and a name in each line.

    Parameters
    ----------
    pairs : dict from str to str
        The name of each id, as text.
    """

    def __init__(self, pairs: dict[str, str]) -> None:
        self._pairs = pairs

    @classmethod
    def read(cls, path: Path, columns: str | None = None) -> Names:
        """Read CSV or TSV, plain or gzip: the id in the first column, then names.

        Parameters
        ----------
        path : Path
        columns : str, optional
            Positions of the columns that make up the name, from 0 on, such as "1,2"; the second
            column by default.
        """
        import polars as pl

        from robirank.data._blocks import DamagedGzipError, line_blocks
        from robirank.data._layout import check_line_ends
        from robirank.data.interaction_files import POLARS_ERRORS

        suffix = Path(path.name.removesuffix(".gz")).suffix
        if suffix not in SEPARATORS:
            raise ValueError(f"a file of names must be .tsv or .csv (.gz too); got {path}")
        sep = SEPARATORS[suffix]
        refuse_device(path)
        try:
            with path.open("rb") as file:
                content = b"".join(map(bytes, line_blocks(file, 1 << 20)))
            check_line_ends(content)
            frame = pl.read_csv(
                content,
                separator=sep,
                quote_char=None if sep == "\t" else '"',
                has_header=False,
                infer_schema=False,
                truncate_ragged_lines=True,
            )
        except (ValueError, DamagedGzipError, *POLARS_ERRORS) as error:
            raise ValueError(f"{path} cannot be read: {error}") from None
        places = _places(columns, frame.width, path)
        parts = [frame[:, place].fill_null("") for place in places]
        rows = zip(*parts, strict=True)
        names = [" ".join(" – ".join(p for p in row if p).split()) for row in rows]
        return cls({i: n for i, n in zip(frame[:, 0].to_list(), names, strict=True) if n})

    def get(self, value: object) -> str | None:
        """The name of an id; None where there is none."""
        return self._pairs.get(str(value))

    def find(self, text: str, ids: Ids) -> list[int]:
        """The codes of the ids that have a name, in whatever case it is typed."""
        wanted = text.casefold()
        having = [i for i, name in self._pairs.items() if name.casefold() == wanted]
        return [code for code in map(ids.find, having) if code >= 0]

    def close_to(self, text: str) -> list[str]:
        """A few names that someone may have meant."""
        return nearest(text, self._pairs.values())


def _places(columns: str | None, width: int, path: Path) -> list[int]:
    if columns is None:
        columns = "1"
    if not re.fullmatch(r"\d+(,\d+)*", columns):
        raise ValueError(f"name columns must be positions such as 1,2; got {columns!r}")
    places = [int(place) for place in columns.split(",")]
    if max(places) >= width:
        raise ValueError(
            f"name columns {columns}: {path} has {width} columns, counted from 0, the id first"
        )
    return places


def look_up(
    what: str, typed: list[str], ids: Ids, names: Names | None, *, where: Path, hint: str = ""
) -> list[int]:
    """The codes of ids or names as typed; an unknown one is an error that helps."""
    return [_look_up(what, text.strip(), ids, names, where, hint) for text in typed]


def _look_up(what: str, text: str, ids: Ids, names: Names | None, where: Path, hint: str) -> int:
    code = ids.find(text)
    if code >= 0:
        return code
    found = [] if names is None else names.find(text, ids)
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(str(ids[c]) for c in found[:5])
        raise ValueError(f"{len(found)} {what}s are called {text!r}; give one of the ids {several}")
    close = [] if names is None else names.close_to(text)
    meant = did_you_mean(close or ids.close_to(text))
    some = ", ".join(str(ids[c]) for c in range(min(3, len(ids))))
    known = "" if meant else f", which knows {len(ids):,} {what}s, such as {some}"
    more = (" " if meant else ". ") + hint if hint else ""
    raise ValueError(f"there is no {what} {text!r} in {where}{known}{meant}{more}")
