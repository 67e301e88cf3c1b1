"""How factors and records lie in memory for the stratified algorithm.

U lies part by part. V lies in the order of the present epoch, so that a block of it, and a cell of
a block, is one stretch of memory; turning to the next epoch costs one copy of V.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robirank.data.user_parts import count_parts, user_parts
from robirank.engine.strata import Plan
from robirank.engine.tasks import Block, Part, empty_rows

__all__ = ["Layout", "RecordTable"]

Floats = NDArray[np.float32]


class RecordTable(Protocol):
    """Records in CSR form: user x has ``items[indptr[x]:indptr[x + 1]]``."""

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where the records of each user begin, and the end."""

    @property
    def items(self) -> NDArray[np.int32]:
        """The item of each record."""

    @property
    def weight(self) -> Floats | None:
        """The weight of each record; None means 1."""

    @property
    def n_items(self) -> int:
        """The number of items."""


class Layout:
    """Parts of the users and the rows of V, in the order of an epoch.

    Parameters
    ----------
    records : RecordTable
    U, V : arrays of shapes (n_users, d) and (n_items, d)
        Where to start.
    decay_u, decay_v : arrays of shapes (n_users,) and (n_items,)
        What each record of a row pays of the row's penalty.
    parts : int
        How many parts are wanted; fewer where there is less to share.
    seed : int
        Decides the orders.
    part_seed : int
        Decides which users a part has.
    """

    def __init__(
        self,
        records: RecordTable,
        U: Floats,
        V: Floats,
        decay_u: Floats,
        decay_v: Floats,
        *,
        parts: int,
        seed: int,
        part_seed: int,
    ) -> None:
        n_users, self.factors = U.shape
        self.seed, self.n_items = seed, records.n_items
        self._indptr, self._decay = records.indptr, decay_v
        self._counts = np.bincount(records.items, minlength=self.n_items).astype(np.float32)
        n_parts = count_parts(parts, n_users, self.n_items)
        self.parts = [
            _make_part(records, users, U, decay_u)
            for users in user_parts(part_seed, n_users, n_parts)
        ]
        self.plan = Plan(seed, 0, self.n_items, n_parts)
        self._V = empty_rows(self.n_items, self.factors)
        self._V[:, : self.factors] = V[self.plan.order]
        self._acc = np.zeros(self.n_items, dtype=np.float32)

    def turn(self, epoch: int) -> None:
        """Put V in the order of an epoch."""
        if epoch == self.plan.epoch:
            return
        plan = Plan(self.seed, epoch, self.n_items, len(self.parts))
        rows = self.plan.position[plan.order]
        V = empty_rows(self.n_items, self.factors)
        np.take(self._V, rows, axis=0, out=V)
        self._V, self._acc, self.plan = V, self._acc[rows], plan

    def forget(self, kept: float) -> None:
        """Keep a share of all of Adagrad's sums."""
        self._acc *= np.float32(kept)
        for part in self.parts:
            part.acc *= np.float32(kept)

    def blocks(self) -> list[Block]:
        """V in blocks, as many as parts: views, so that tasks change it in place."""
        decay, counts = self._decay[self.plan.order], self._counts[self.plan.order]
        return [
            Block(low, self._V[low:high], self._acc[low:high], decay[low:high], counts[low:high])
            for low, high in pairwise(self.plan.bounds.tolist())
        ]

    def rows(self) -> tuple[Floats, Floats]:
        """U and V in the order of the data."""
        U = np.empty((len(self._indptr) - 1, self.factors), dtype=np.float32)
        for part in self.parts:
            U[part.users] = part.U[:, : self.factors]
        return U, self._V[self.plan.position, : self.factors]

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that changes, in the order of the data."""
        U, V = self.rows()
        acc = np.empty(len(U), dtype=np.float32)
        slope = np.empty(int(self._indptr[-1]), dtype=np.float32)
        for part in self.parts:
            acc[part.users] = part.acc
            slope[_records_of(self._indptr, part.users)] = part.slope
        return {
            "U": U,
            "V": V,
            "acc_u": acc,
            "acc_v": self._acc[self.plan.position],
            "slope": slope,
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state that `state` gave."""
        self._V[:, : self.factors] = state["V"][self.plan.order]
        self._acc[:] = state["acc_v"][self.plan.order]
        for part in self.parts:
            part.U[:, : self.factors] = state["U"][part.users]
            part.acc[:] = state["acc_u"][part.users]
            part.slope[:] = state["slope"][_records_of(self._indptr, part.users)]


def _records_of(indptr: NDArray[np.int64], users: NDArray[np.int32]) -> NDArray[np.int64]:
    """The places of the records of some users, one user after the other."""
    lengths = indptr[users + 1] - indptr[users]
    ends = np.cumsum(lengths)
    return np.repeat(indptr[users] - (ends - lengths), lengths) + np.arange(lengths.sum())


def _make_part(records: RecordTable, users: NDArray[np.int32], U: Floats, decay: Floats) -> Part:
    where = _records_of(records.indptr, users)
    own = empty_rows(len(users), U.shape[1])
    own[:, : U.shape[1]] = U[users]
    lengths = records.indptr[users + 1] - records.indptr[users]
    return Part(
        users=users,
        indptr=np.concatenate([[0], np.cumsum(lengths)]),
        items=records.items[where],
        weight=None if records.weight is None else records.weight[where],
        U=own,
        acc=np.zeros(len(users), dtype=np.float32),
        decay=decay[users],
        slope=np.ones(len(where), dtype=np.float32)
        if records.weight is None
        else records.weight[where],
    )
