"""Positions of outside ids, found one at a time and in little memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank._types import Ints32
from robirank.data.ids import Ids


class IdIndex:
    """Finds the positions of a few ids among many, in microseconds.

    `Ids` finds one id by a dict, which takes about 150 bytes an id, and several by a join of all.
    Here the hashes of all ids are sorted once, 12 bytes an id, and one is found by bisection. An
    integer and its text are the same id, as in `Ids.find`.

    Examples
    --------
    >>> index = IdIndex(Ids(["tea", "rum"]))
    >>> index.find("rum"), index.find("gin"), IdIndex(Ids([7, 9])).find("9")
    (1, -1, 1)
    """

    def __init__(self, ids: Ids) -> None:
        self.ids = ids
        values = ids.portable() if ids.kind != "object" else None
        self._is_range = isinstance(values, range)
        self._hashes: NDArray[Any] | None = None
        if values is not None and not isinstance(values, range):
            hashes = _hashes(values)
            self._order: Ints32 = np.argsort(hashes, kind="stable").astype(np.int32)
            self._hashes = hashes[self._order]

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, id: str | int) -> int:
        """The position of an id; −1 for one that is not there."""
        if self._hashes is None:  # a range, or objects, which a dict finds
            return int(self.ids.find(id))
        value = _as_kind(self.ids.kind, id)
        if value is None:
            return -1
        wanted = _hashes(pl.Series([value]))[0]
        place = int(np.searchsorted(self._hashes, wanted))
        while place < len(self._hashes) and self._hashes[place] == wanted:
            position = int(self._order[place])
            if self.ids[position] == value:
                return position
            place += 1
        return -1

    def called(self, position: int) -> Any:
        """The id at a position."""
        return self.ids[position]


def _hashes(values: pl.Series) -> NDArray[Any]:
    if values.dtype == pl.Int64:
        return values.to_numpy()
    return values.hash(seed=0).to_numpy()


def _as_kind(kind: str, id: str | int) -> str | int | None:
    """The id as ids of a kind are written; None where none of them can be meant."""
    if kind == "str":
        return str(id)
    if isinstance(id, str):
        return int(id) if _is_integer(id) else None
    return id if -(2**63) <= id < 2**63 else None


def _is_integer(text: str) -> bool:
    """Whether Python prints this text for a 64-bit integer."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19 or str(int(text)) != text:
        return False
    return -(2**63) <= int(text) < 2**63
