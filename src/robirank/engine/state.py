"""What tasks work on: named arrays of parts and blocks, as a solver declares them.

A `Part` owns everything that belongs to its users and never leaves its process. A `Block` holds
everything that belongs to some items, and travels from part to part. A solver declares each array
once, as a `StateArray`; what engines hold, move, save and restore follows from the declarations. A
task declares what it reads and what it changes, and sees these arrays alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from robirank._types import Floats32, Ints32, Ints64
from robirank.data.user_items import UserItems

ROW_UNIT = 16  # floats; rows of matrices are padded to a multiple, which the kernels ask for

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Rows:
    """Some users or items of the data, for which the first values of an array are asked."""

    numbers: Ints32  # their positions in the data
    counts: Ints64  # of interactions that each has
    interactions: UserItems | None = None  # where they are at hand: those of users are


@dataclass(frozen=True)
class StateArray:
    """The declaration of a float32 array that parts or blocks hold.

    A part holds an entry for each of its users or interactions, a block one for each of its items;
    an entry has so many ``columns``, or is a single number where that is 0. ``start(rows)``, which
    must be picklable, gives the first values for a sequence of `Rows`, an array for each. A
    constant array is neither saved nor sent, but made anew. ``saved_as`` is its name in a saved
    model, where it is part of one.
    """

    name: str
    per: Literal["user", "item", "interaction"]
    start: Callable[[Sequence[Rows]], Sequence[NDArray[Any]]]
    columns: int = 0
    is_constant: bool = False
    saved_as: str | None = None

    def shape(self, n: int) -> tuple[int, ...]:
        """The shape of n entries, without padding."""
        return (n, self.columns) if self.columns else (n,)

    def empty(self, n: int) -> Floats32:
        """Memory for n entries: zeros, with padded rows that begin on cache lines."""
        return empty_rows(n, self.columns) if self.columns else np.zeros(n, np.float32)

    def filled(self, values: NDArray[Any]) -> Floats32:
        """Memory that holds values."""
        memory = self.empty(len(values))
        self.content(memory)[:] = values
        return memory

    def content(self, array: NDArray[Any]) -> NDArray[Any]:
        """A view of an array without its padding."""
        return array[:, : self.columns] if self.columns else array


@dataclass
class Part:
    """What belongs to one part of the users; user i of the part is user ``users[i]`` of the data.

    ``part["U"]`` is the array that is declared by that name, and ``held_out`` has the users'
    interactions in the validation part.
    """

    users: Ints32
    interactions: UserItems
    arrays: Arrays
    held_out: UserItems | None = None

    @classmethod
    def empty(cls, users: Ints32, interactions: UserItems, declared: Sequence[StateArray]) -> Part:
        """A part with zeros in all arrays of users and interactions."""
        sizes = {"user": len(users), "interaction": len(interactions.items)}
        arrays = {a.name: a.empty(sizes[a.per]) for a in declared if a.per in sizes}
        return cls(users, interactions, arrays)

    def __getitem__(self, name: str) -> Floats32:
        return self.arrays[name]

    def rows(self) -> Rows:
        """The users of the part, for the start of an array."""
        return Rows(self.users, self.interactions.user_counts(), self.interactions)

    def interactions_of(self, users: slice) -> tuple[Ints64, slice]:
        """Offsets of the interactions of consecutive users, and the slice that holds them all."""
        indptr = self.interactions.indptr[users.start : users.stop + 1]
        return indptr - indptr[0], slice(int(indptr[0]), int(indptr[-1]))


@dataclass
class Block:
    """Items that stand together in the epoch's order, from place ``first`` on.

    ``block["V"]`` is the array that is declared by that name.
    """

    first: int
    arrays: Arrays

    def __getitem__(self, name: str) -> Floats32:
        return self.arrays[name]

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))


_Holder = TypeVar("_Holder", Part, Block)


def seen_by(task: Any, holder: _Holder) -> _Holder:
    """What a task sees of a part or a block: the arrays it declares, most of them read-only."""
    arrays = {
        name: array if name in task.changes else _read_only(array)
        for name, array in holder.arrays.items()
        if name in task.reads
    }
    return replace(holder, arrays=arrays)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def set_start(holders: Sequence[Part], declared: Sequence[StateArray]) -> None:
    """Set arrays of parts to the values that their declarations start with."""
    rows = [part.rows() for part in holders]
    for array in declared:
        if array.per != "item":
            for part, values in zip(holders, array.start(rows), strict=True):
                array.content(part[array.name])[:] = values


def travelling(declared: Sequence[StateArray]) -> list[StateArray]:
    """The arrays of items that tasks change, which a block takes along."""
    return [array for array in declared if array.per == "item" and not array.is_constant]


def constants_of_items(declared: Sequence[StateArray], counts: Ints64) -> Arrays:
    """The arrays of items that no task changes, in the order of the data."""
    rows = Rows(np.arange(len(counts), dtype=np.int32), counts)
    constant = [array for array in declared if array.per == "item" and array.is_constant]
    return {array.name: array.start([rows])[0] for array in constant}


# --------------------------------------------------------------------- values to start with


def zeros(rows: Sequence[Rows]) -> list[Floats32]:
    """Zero for each user or item."""
    return [np.zeros(len(part.numbers), np.float32) for part in rows]


def weights(rows: Sequence[Rows]) -> list[Floats32]:
    """The weight of each interaction; one where none is given."""
    tables = [part.interactions for part in rows if part.interactions is not None]
    return [
        np.ones(len(table.items), np.float32) if table.weight is None else table.weight
        for table in tables
    ]


@dataclass(frozen=True)
class FromCounts:
    """Values that follow from the number of interactions of a user or an item."""

    function: Callable[[Ints64], NDArray[Any]]

    def __call__(self, rows: Sequence[Rows]) -> list[NDArray[Any]]:
        """Compute the values of several groups of users or items."""
        return [self.function(part.counts) for part in rows]


@dataclass(frozen=True)
class FromMatrix:
    """Rows of a matrix that has one for each user or item of the data."""

    matrix: Floats32

    def __call__(self, rows: Sequence[Rows]) -> list[Floats32]:
        """Look up the rows of several groups of users or items."""
        return [self.matrix[part.numbers] for part in rows]


def padded(factors: int) -> int:
    """The number of floats of a padded row: a multiple of what the kernels handle at once."""
    return -(-factors // ROW_UNIT) * ROW_UNIT


def empty_rows(n: int, factors: int) -> Floats32:
    """Rows of zeros, padded, each beginning on a cache line."""
    width = padded(factors)
    memory = np.zeros(n * width + ROW_UNIT, dtype=np.float32)
    begin = -memory.ctypes.data % 64 // 4
    return memory[begin : begin + n * width].reshape(n, width)
