"""What a task works on: a part of the users, and a block of the items.

A `Part` owns everything that belongs to its users (rows of U, records, slopes) and never leaves its
process; a `Block` of V travels from part to part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robirank._types import Floats32, Ints32, Ints64
from robirank.data.records import SparseRows

ROW_UNIT = 16  # floats; rows of factors are padded to a multiple, which the kernels ask for


@dataclass
class Part:
    """What belongs to one part of the users; user i of the part is user ``users[i]`` of the data.

    Attributes
    ----------
    users : array of shape (n,)
        The users of the part.
    indptr, items, weight
        Their records in CSR form; no weight means that all are 1.
    U : array of shape (n, width)
        Their rows of U, padded with zeros.
    sums : array of shape (n,)
        Adagrad's sums of squares of the rows.
    decay : array of shape (n,)
        The share of a row's penalty that one of its records pays.
    slope : array of shape (n_records,)
        weight · ρ'(t) of each record.
    held_out : SparseRows or None
        Their validation records.
    """

    users: Ints32
    indptr: Ints64
    items: Ints32
    weight: Floats32 | None
    U: Floats32
    sums: Floats32
    decay: Floats32
    slope: Floats32
    held_out: SparseRows | None = None

    @classmethod
    def empty(cls, users: Ints32, records: SparseRows, decay: Floats32, factors: int) -> Part:
        """A part whose rows are zero and whose slopes are the weights."""
        weight = records.weight
        return cls(
            users,
            records.indptr,
            records.items,
            weight,
            U=empty_rows(len(users), factors),
            sums=np.zeros(len(users), dtype=np.float32),
            decay=decay,
            slope=np.ones_like(records.items, np.float32) if weight is None else weight.copy(),
        )

    def start(self, rows: Floats32) -> None:
        """Set everything that changes to what it is before the first step."""
        self.U[:, : rows.shape[1]] = rows
        self.sums[:] = 0.0
        self.slope[:] = 1.0 if self.weight is None else self.weight

    def records_of(self, users: slice) -> tuple[Ints64, slice]:
        """Where the records of some users begin among their own, and which those are."""
        indptr = self.indptr[users.start : users.stop + 1]
        return indptr - indptr[0], slice(int(indptr[0]), int(indptr[-1]))


@dataclass
class Block:
    """Rows of V that stand together in the epoch's order, from place ``first`` on.

    Attributes
    ----------
    first : int
    V, sums, decay
        As in `Part`, for the items of the block.
    popularity : array
        How many records each item has.
    """

    first: int
    V: Floats32
    sums: Floats32
    decay: Floats32
    popularity: Floats32


def padded(factors: int) -> int:
    """Floats a row: a multiple of what the kernels handle at once."""
    return -(-factors // ROW_UNIT) * ROW_UNIT


def empty_rows(n: int, factors: int) -> Floats32:
    """Rows of zeros, padded, each beginning on a cache line."""
    width = padded(factors)
    memory = np.zeros(n * width + ROW_UNIT, dtype=np.float32)
    begin = -memory.ctypes.data % 64 // 4
    return memory[begin : begin + n * width].reshape(n, width)
