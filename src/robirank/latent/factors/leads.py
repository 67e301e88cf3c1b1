"""What each item says of the next one: the part of a model that is added up over last items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from robirank._types import Floats32, Floats64, Ints32
from robirank.data.sequences import last_items
from robirank.data.user_items import UserItems


class Upcoming(NamedTuple):
    """What the last items of a user say of the next one.

    Attributes
    ----------
    row : array of shape (factors,)
        The user's row √ω q.
    items : int32 array
        The last items.
    leads : array of shape (n, factors)
        What each adds to the row.
    """

    row: Floats64
    items: Ints32
    leads: Floats64


@dataclass(frozen=True, eq=False)
class Leads:
    r"""The rows √ω P of items that were taken before; see `robirank.latent.factors.order`.

    Attributes
    ----------
    rows : float32 array of shape (n_items, factors)
    weight : float
        ω.
    regularization : float
        λ of the rows of leads and followers.
    """

    rows: Floats32
    weight: float
    regularization: float

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        """The number of factors."""
        return int(self.rows.shape[1])

    def take(self, items: NDArray[Any]) -> Leads:
        """Those of some items."""
        return replace(self, rows=self.rows[items])

    def extended(self, n_items: int) -> Leads:
        """The same with items after the present ones, which say nothing of the next."""
        added = np.zeros((n_items - len(self), self.width), np.float32)
        return replace(self, rows=np.concatenate([self.rows, added]))

    def next_rows(self, table: UserItems) -> Floats32:
        """The rows √ω q of the users of a table: the mean of the leads of their last items.

        Examples
        --------
        >>> table = UserItems(np.array([0, 2]), np.array([0, 1], np.int32), None, 2)
        >>> table = replace(table, times=np.array([7, 3]))
        >>> leads = Leads(np.array([[3.0], [6.0]], np.float32), weight=1.0, regularization=0.1)
        >>> leads.next_rows(table).tolist()
        [[4.0]]
        """
        last = last_items(table)
        entries: Any = (last.weight, last.items, last.indptr)
        rows: Floats32 = sparse.csr_matrix(entries, shape=last.shape) @ self.rows
        return rows

    def upcoming(self, row: Floats32, table: UserItems, *, is_known: bool) -> Upcoming:
        """The row √ω q of one user as a sum over their last items, where these are known."""
        last = last_items(table if is_known else table.take(np.zeros(len(table.items), bool)))
        assert last.weight is not None
        leads = last.weight[:, None].astype(np.float64) * self.rows[last.items]
        return Upcoming(row.astype(np.float64), last.items, leads)

    def to_tensors(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays that a file keeps."""
        numbers = np.array([self.weight, self.regularization])
        return {f"{prefix}.rows": self.rows, f"{prefix}.numbers": numbers}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> Leads:
        """The inverse of `to_tensors`; a ValueError unless the arrays can be leads."""
        rows, numbers = (arrays.get(f"{prefix}.{name}") for name in ("rows", "numbers"))
        if rows is None or rows.dtype != np.float32 or rows.ndim != 2:
            raise ValueError(f"{prefix}.rows must be a float32 matrix")
        if not np.isfinite(rows).all():
            raise ValueError(f"{prefix}.rows must be finite")
        if numbers is None or numbers.dtype != np.float64 or numbers.shape != (2,):
            raise ValueError(f"{prefix}.numbers must be two float64 numbers")
        if not ((numbers > 0) & np.isfinite(numbers)).all():
            raise ValueError(f"{prefix}.numbers must be positive")
        return cls(rows, *numbers.tolist())
