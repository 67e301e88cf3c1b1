"""The table of items that rules speak of: which rows meet a condition, which are of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from robirank._types import Ints32, Ints64
from robirank.data._columns import as_frame, as_series, check_columns, column_names
from robirank.data.ids import Ids, distinct_ids
from robirank.data.nearest import did_you_mean, nearest
from robirank.data.user_items import Mask
from robirank.errors import Argument, ArgumentError
from robirank.latent.factors.memberships import Memberships


class ItemTable:
    """A row for each item, under its outside id.

    Parameters
    ----------
    frame : DataFrame or dict of arrays
    id : str
        The column with the ids, which must differ.

    Examples
    --------
    >>> table = ItemTable({"id": ["tea", "rum", "gin"], "stock": [3, 0, None]}, "id")
    >>> table.meets("allow", pl.col("stock") > 0).tolist()
    [True, False, False]
    >>> table.meets("deny", {"stock": [0, 3]}).tolist()
    [True, True, False]
    """

    def __init__(self, frame: Any, id: str) -> None:
        if not isinstance(frame, dict):
            frame = as_frame(frame, "a DataFrame or a dict of arrays")
        check_columns(column_names(frame), [("id", id)])
        if isinstance(frame, pl.LazyFrame):
            frame = frame.collect()
        self.ids: Ids = distinct_ids(frame[id], id)
        # Missing values are null then, NaN too, with which comparisons would be true.
        columns = [as_series(frame[name], str(name)) for name in column_names(frame)]
        self._frame = pl.DataFrame([*map(_lists_of_objects, columns)])

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def columns(self) -> dict[str, pl.DataType]:
        """The names of the columns, and what they hold."""
        return dict(self._frame.schema)

    def row(self, number: int) -> dict[str, Any]:
        """The values of a row, by column."""
        return self._frame.row(number, named=True)

    def column(self, name: str) -> pl.Series:
        """The values of a column, row by row."""
        return self._frame[name]

    def has(self, column: str) -> bool:
        """Whether there is a column of this name."""
        return column in self._frame.columns

    def meets(self, argument: str, condition: Any) -> Mask:
        """Which rows meet a condition: an expression of polars, or allowed values by column.

        Where a value is missing, a condition is not met. Of a list, one of its values is enough.
        """
        if isinstance(condition, Mapping):
            masks = [self._is_one_of(argument, *entry) for entry in condition.items()]
            return np.logical_and.reduce(masks, axis=0) if masks else np.ones(len(self), bool)
        column = self._computed(argument, condition)
        if column.dtype != pl.Boolean:
            raise ArgumentError(
                argument,
                f"must be a condition such as pl.col('stock') > 0; it gives {column.dtype}",
            )
        return column.fill_null(False).to_numpy()

    def order(self, argument: str, ties: Any) -> Ints32:
        """The place of each row when rows are sorted by a column or an expression of polars.

        Equal rows have equal places; those without a value come last.
        """
        if isinstance(ties, str):
            ties = pl.col(ties)
        column = self._computed(argument, ties)
        try:
            places = column.rank("dense").fill_null(len(self) + 1)
        except pl.exceptions.PolarsError as error:
            raise _cannot_be_computed(argument, error) from None
        return places.to_numpy().astype(np.int32)

    def groups(self, argument: str, key: str) -> tuple[str, Memberships]:
        """The column that a key names, and the groups of each row.

        The key "brand" has a group for each brand, and "brand:Acme" one for this brand alone. Where
        a column holds lists, a row is in the groups of all of its values.
        """
        name, value = self._column_and_value(argument, key)
        rows, values = self._values(name)
        if values.dtype.is_nested() or values.dtype == pl.Object:
            raise ArgumentError(
                Argument(argument, key),
                "needs one value for each item, or a list of them; column "
                f"{name!r} holds {self._frame[name].dtype}",
            )
        if value is not None:
            is_member = np.zeros(len(self), bool)
            is_member[rows[(values.cast(pl.String) == value).to_numpy()]] = True
            return name, Memberships.of_mask(is_member)
        places = values.rank("dense").to_numpy().astype(np.int64)
        pairs = np.unique(rows * (len(places) + 1) + places)
        rows, places = np.divmod(pairs, len(values) + 1)
        n_groups = int(places.max(initial=0))
        return name, Memberships.of_pairs(rows, places - 1, len(self), n_groups)

    def _values(self, name: str) -> tuple[Ints64, pl.Series]:
        """The rows and values of a column, without missing ones; each value of a list by itself."""
        column = self._frame[name].alias("value")
        frame = pl.DataFrame({"row": np.arange(len(self)), "value": column})
        if isinstance(column.dtype, pl.List | pl.Array):
            frame = frame.explode("value")
        if frame["value"].dtype.is_float():
            frame = frame.with_columns(pl.col("value").fill_nan(None))
        frame = frame.drop_nulls("value")
        return frame["row"].to_numpy(), frame["value"]

    def _column_and_value(self, argument: str, key: str) -> tuple[str, str | None]:
        if self.has(key):
            return key, None
        for end in (i for i, letter in enumerate(key) if letter == ":"):
            if self.has(key[:end]):
                return key[:end], key[end + 1 :]
        raise self._no_column(Argument(argument, key), key.split(":")[0])

    def _is_one_of(self, argument: str, name: str, values: Any) -> Mask:
        if not self.has(name):
            raise self._no_column(argument, name)
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            values = [values]
        rows, column = self._values(name)
        meets = np.zeros(len(self), bool)
        try:
            meets[rows[column.is_in([*values]).to_numpy()]] = True
        except (pl.exceptions.PolarsError, TypeError):
            kind = self._frame[name].dtype
            raise ArgumentError(
                argument, f"must name values of column {name!r}, which holds {kind}; got {values}"
            ) from None
        return meets

    def _computed(self, argument: str, expression: Any) -> pl.Series:
        """What an expression gives for each row."""
        for name in expression.meta.root_names():
            if not self.has(name):
                raise self._no_column(argument, name)
        try:
            return self._frame.select(pl.col(self._frame.columns[0]), _=expression)["_"]
        except pl.exceptions.PolarsError as error:
            raise _cannot_be_computed(argument, error) from None

    def _no_column(self, argument: str | Argument, name: str) -> ArgumentError:
        columns = self._frame.columns
        meant = did_you_mean(nearest(name, pl.Series(columns, dtype=pl.String)))
        return ArgumentError(
            argument,
            f"names the column {name!r}, which the table of items does not have"
            + (meant or f"; it has {columns}"),
        )


def _lists_of_objects(column: pl.Series) -> pl.Series:
    """A column of lists as polars holds them, where they are objects of Python; others as is."""
    if column.dtype != pl.Object:
        return column
    values = column.to_list()
    if not all(value is None or isinstance(value, list | tuple | np.ndarray) for value in values):
        return column
    try:
        return pl.Series(column.name, [None if value is None else [*value] for value in values])
    except (TypeError, pl.exceptions.PolarsError):
        return column


def _cannot_be_computed(argument: str, error: Exception) -> ArgumentError:
    reason = str(error).splitlines()[0]
    return ArgumentError(argument, f"cannot be computed from the table of items: {reason}")
