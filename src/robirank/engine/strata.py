"""The plan of the stratified algorithm (appendix of the paper): who works on what, and when.

Users are cut once, at random, into P parts. For every epoch the items are put in a new random order
and cut into P blocks. In sub-step r part q works on block (q + r) mod P, so no two tasks of a
sub-step touch the same row, and after P sub-steps every interaction has been visited once.

Everything here is a pure function of (seed, epoch): any worker can compute it again, and the order
in which the tasks of a sub-step run cannot matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from robirank._types import Ints32, Ints64
from robirank.data.user_parts import random_stream

DATA_ORDER = -1  # the epoch whose plan leaves the items as they are
BATCH_USERS = 1024  # of a part that one task of a scan works on, at most

_ITEMS, _DRAWS = 1, 2  # what a stream of random numbers is for; 0 cuts the users


def visiting_order(part: int, parts: int) -> list[int]:
    """The order in which a scan shows the blocks to a part: each part begins with its own."""
    return [(part + shift) % parts for shift in range(parts)]


def share(n_users: int, turn: int, turns: int) -> slice:
    """The users of a part whose turn it is, where all have had a turn after ``turns``."""
    return slice(n_users * turn // turns, n_users * (turn + 1) // turns)


def user_batches(users: slice) -> list[slice]:
    """Some users of a part in pieces of bounded size, one for each task of a scan."""
    firsts = range(users.start, users.stop, BATCH_USERS)
    return [slice(first, min(first + BATCH_USERS, users.stop)) for first in firsts]


def task_key(seed: int, epoch: int, part: int, block: int) -> int:
    """The key of all random numbers that one task draws."""
    state = np.random.SeedSequence([seed, _DRAWS, epoch, part, block])
    return int(state.generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class Plan:
    """The order of the items in one epoch, and its blocks."""

    seed: int
    epoch: int
    n_items: int
    parts: int

    @cached_property
    def order(self) -> Ints32:
        """The item at each place of the epoch's order."""
        if self.epoch == DATA_ORDER:
            return np.arange(self.n_items, dtype=np.int32)
        stream = random_stream(self.seed, _ITEMS, self.epoch)
        return stream.permutation(self.n_items).astype(np.int32)

    @cached_property
    def position(self) -> Ints32:
        """The place of each item in the epoch's order."""
        position = np.empty(self.n_items, dtype=np.int32)
        position[self.order] = np.arange(self.n_items, dtype=np.int32)
        return position

    @property
    def bounds(self) -> Ints64:
        """Block b holds the places ``bounds[b]:bounds[b + 1]``."""
        return np.arange(self.parts + 1, dtype=np.int64) * self.n_items // self.parts

    def items(self, block: int) -> Ints32:
        """The items of a block, in the epoch's order."""
        return self.order[self.bounds[block] : self.bounds[block + 1]]
