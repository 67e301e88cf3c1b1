"""What users have: the table of interactions that the server was given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._types import Ints32, Ints64
from robirank.data.ids import Ids
from robirank.data.interactions import Interactions
from robirank.serve.id_index import IdIndex


class History:
    """The items of each user, as rising positions of the items of a model.

    Users need not be users of the model; items that the model does not know are left out.

    Examples
    --------
    >>> plays = Interactions.from_arrays(["ann", "ann", "bob"], ["tea", "rum", "gin"])
    >>> history = History.of_table(plays, Ids(["rum", "tea"]))
    >>> history.items("ann").tolist(), history.items("bob").tolist(), history.items("zoe").tolist()
    ([0, 1], [], [])
    """

    def __init__(
        self, users: IdIndex, indptr: Ints64, items: Ints32, times: NDArray[Any] | None = None
    ) -> None:
        self.users, self._indptr, self._items, self._times = users, indptr, items, times

    @classmethod
    def of_table(cls, table: Interactions, items: Ids, users: IdIndex | None = None) -> History:
        """The rows of a table; an index of the same users may be given, to be shared."""
        if users is None or users.ids != table.users:
            users = IdIndex(table.users)
        if table.items == items:
            return cls(users, table.indptr, table.indices, table.timestamps)
        codes = items.find(table.items[:])[table.indices]
        is_known = codes >= 0
        owners = table.user_codes()[is_known]
        order = np.lexsort((codes[is_known], owners))
        lengths = np.bincount(owners, minlength=table.n_users)
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        times = None if table.timestamps is None else table.timestamps[is_known][order]
        return cls(users, indptr, codes[is_known][order].astype(np.int32), times)

    def items(self, user: Any) -> Ints32:
        """What a user has; nothing for one who is not in the table."""
        begin, end = self._bounds(user)
        return self._items[begin:end]

    def times(self, user: Any) -> NDArray[Any] | None:
        """When a user took each of these; None where the table has no times."""
        begin, end = self._bounds(user)
        return None if self._times is None else self._times[begin:end]

    def _bounds(self, user: Any) -> tuple[int, int]:
        row = self.users.find(user)
        return (0, 0) if row < 0 else (int(self._indptr[row]), int(self._indptr[row + 1]))

    def __len__(self) -> int:
        """The number of users."""
        return len(self._indptr) - 1

    def takers(self, item: int) -> Ints64:
        """The rows of the users who have the item at a position."""
        return np.searchsorted(self._indptr, np.flatnonzero(self._items == item), "right") - 1

    def items_of_rows(self, rows: Ints64) -> Ints32:
        """The items of the users in some rows, one after the other."""
        parts = [self._items[self._indptr[row] : self._indptr[row + 1]] for row in rows]
        return np.concatenate(parts) if parts else self._items[:0]

    def counts(self, n_items: int) -> Ints64:
        """How many users have each item."""
        return np.bincount(self._items, minlength=n_items)
