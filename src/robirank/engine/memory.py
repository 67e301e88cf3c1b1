"""The state of all parts and blocks in the memory of this process, in the order the strata need.

Arrays of users lie part by part. Those of items lie in the order of the present epoch, so that a
block, and a cell of a block, is one stretch of memory; turning to the next epoch costs one copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._sparse import places_of_rows
from robirank.data.user_items import UserItems
from robirank.data.user_parts import count_parts, user_parts
from robirank.engine.state import (
    Arrays,
    Block,
    Part,
    Rows,
    StateArray,
    constants_of_items,
    set_start,
    travelling,
)
from robirank.engine.strata import Plan


class StrataMemory:
    """Parts of the users, and arrays of items in the order of an epoch.

    Interactions of `robirank.data.partitions.Partitions` know their parts; others are cut here into
    as many as are wanted, or fewer where there are too few users or items. The seed decides that
    cut, and the order of the items in each epoch.
    """

    def __init__(
        self, interactions: UserItems, declared: Sequence[StateArray], *, parts: int, seed: int
    ) -> None:
        self.declared, self.seed, self._interactions = list(declared), seed, interactions
        self._counts = interactions.item_counts()
        n_wanted, part_seed = interactions.cut or (parts, seed)
        n_parts = count_parts(n_wanted, interactions.n_users, interactions.n_items)
        self.parts = [
            Part.empty(users, interactions.rows(users), declared)
            for users in user_parts(part_seed, interactions.n_users, n_parts)
        ]
        set_start(self.parts, declared)
        self.plan = Plan(seed, 0, interactions.n_items, n_parts)
        self._constants = constants_of_items(declared, self._counts)
        order = self.plan.order
        rows = Rows(order, self._counts[order])
        self._items = {a.name: a.filled(a.start([rows])[0]) for a in travelling(declared)}

    def restart(self, declared: Sequence[StateArray]) -> None:
        """Set constant arrays anew, from declarations that take the place of those before."""
        by_name = {array.name: array for array in declared}
        self.declared = [by_name.get(array.name, array) for array in self.declared]
        set_start(self.parts, declared)
        self._constants |= constants_of_items(declared, self._counts)

    def turn(self, epoch: int) -> None:
        """Put the items in the order of an epoch."""
        if epoch == self.plan.epoch:
            return
        plan = Plan(self.seed, epoch, self._interactions.n_items, len(self.parts))
        rows = self.plan.position[plan.order]
        for array in travelling(self.declared):
            reordered = array.empty(len(rows))
            np.take(self._items[array.name], rows, axis=0, out=reordered)
            self._items[array.name] = reordered
        self.plan = plan

    def blocks(self) -> list[Block]:
        """The items in blocks, as many as parts: views, so that tasks change them in place."""
        arrays = {name: values[self.plan.order] for name, values in self._constants.items()}
        arrays |= self._items
        return [
            Block(low, {name: array[low:high] for name, array in arrays.items()})
            for low, high in pairwise(self.plan.bounds.tolist())
        ]

    def state(self) -> Arrays:
        """Everything that changes, in the order of the data."""
        changing = [array for array in self.declared if not array.is_constant]
        return {array.name: self._in_order_of_data(array) for array in changing}

    def restore(self, state: Arrays) -> None:
        """Go back to a state that `state` gave."""
        for array in self.declared:
            if array.is_constant:
                continue
            values = state[array.name]
            if array.per == "item":
                array.content(self._items[array.name])[:] = values[self.plan.order]
            else:
                for part in self.parts:
                    array.content(part[array.name])[:] = values[self._places(array, part)]

    def model(self) -> Arrays:
        """The arrays that make up the model, by the names they are saved as."""
        return {a.saved_as: self._in_order_of_data(a) for a in self.declared if a.saved_as}

    def _in_order_of_data(self, array: StateArray) -> NDArray[Any]:
        if array.per == "item":
            return array.content(self._items[array.name])[self.plan.position]
        n = self._interactions.n_users if array.per == "user" else self._interactions.n_interactions
        values = np.empty(array.shape(n), np.float32)
        for part in self.parts:
            values[self._places(array, part)] = array.content(part[array.name])
        return values

    def _places(self, array: StateArray, part: Part) -> NDArray[Any]:
        """The places in the data of the users or the interactions of a part."""
        if array.per == "user":
            return part.users
        return places_of_rows(self._interactions.indptr, part.users)[1]
