"""Ranked lists as a table, a row for each place of each list."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank._types import Floats32
from robirank.data.ids import Ids

_TYPES: dict[str, Any] = {"int": pl.Int64, "str": pl.String}


def lists_frame(
    asked: pl.Series, lists: NDArray[Any], scores: Floats32, items: Ids, column: str = "item"
) -> pl.DataFrame:
    """A table of who asked, rank, id and score.

    Parameters
    ----------
    asked : Series
        Whose list each row of ``lists`` is; its name is that of the first column.
    lists : int array of shape (n_lists, N)
        Positions, best first; −1 where nothing is left, which has no row in the table.
    scores : array of the same shape
    items : Ids
        What the positions are called outside.
    column : str
        The name of the column of ids.

    Examples
    --------
    >>> asked, lists = pl.Series("user", ["ann", "bob"]), np.array([[1, 0], [0, -1]])
    >>> lists_frame(asked, lists, np.array([[2.5, 1], [7, 0]]), Ids(["tea", "rum"])).rows()
    [('ann', 1, 'rum', 2.5), ('ann', 2, 'tea', 1.0), ('bob', 1, 'tea', 7.0)]
    """
    numbers, places = np.nonzero(lists >= 0)
    return pl.DataFrame(
        [
            asked.gather(numbers),
            pl.Series("rank", (places + 1).astype(np.int32)),
            id_series(column, items, lists[numbers, places]),
            pl.Series("score", scores[numbers, places]),
        ]
    )


def id_series(name: str, ids: Ids, positions: NDArray[Any]) -> pl.Series:
    """The outside ids of positions as a column."""
    return pl.Series(name, ids[positions].tolist(), dtype=_TYPES.get(ids.kind))
