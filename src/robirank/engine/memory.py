"""Factors and records in the memory of this process, in the order that the strata need.

U lies part by part. V lies in the order of the present epoch, so that a block of it, and a cell of
a block, is one stretch of memory; turning to the next epoch costs one copy of V.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._sparse import places_of_rows
from robirank._types import Floats32, Ints64
from robirank.data.records import Records
from robirank.data.user_parts import count_parts, user_parts
from robirank.engine.parts import Block, Part, empty_rows
from robirank.engine.strata import Plan


class StrataMemory:
    """Parts of the users, and V in the order of an epoch.

    Parameters
    ----------
    records : Records
        Those of `robirank.data.partitions.Partitions` know their parts; others are cut here.
    U, V : arrays of shapes (n_users, d) and (n_items, d)
        Where to start; they are copied.
    decay_u, decay_v : arrays of shapes (n_users,) and (n_items,)
        The share of a row's penalty that one of its records pays.
    parts : int
        How many parts are wanted; fewer where there are too few users or items.
    seed : int
        Decides the order of the items in each epoch, and which users a part has.
    """

    def __init__(
        self,
        records: Records,
        U: Floats32,
        V: Floats32,
        decay_u: Floats32,
        decay_v: Floats32,
        *,
        parts: int,
        seed: int,
    ) -> None:
        n_users, self.n_factors = U.shape
        self.seed, self.n_items = seed, records.n_items
        self._indptr, self._decay = records.indptr, decay_v
        self._popularity = records.item_counts().astype(np.float32)
        wanted, part_seed = records.cut or (parts, seed)
        n_parts = count_parts(wanted, n_users, self.n_items)
        self.parts = []
        for users in user_parts(part_seed, n_users, n_parts):
            part = Part.empty(users, records.rows(users), decay_u[users], self.n_factors)
            part.start(U[users])
            self.parts.append(part)
        self.plan = Plan(seed, 0, self.n_items, n_parts)
        self._V = empty_rows(self.n_items, self.n_factors)
        self._V[:, : self.n_factors] = V[self.plan.order]
        self._sums = np.zeros(self.n_items, dtype=np.float32)

    def decay_by(self, decay_u: Floats32, decay_v: Floats32) -> None:
        """Take other decays from now on."""
        self._decay = decay_v
        for part in self.parts:
            part.decay[:] = decay_u[part.users]

    def turn(self, epoch: int) -> None:
        """Put V in the order of an epoch."""
        if epoch == self.plan.epoch:
            return
        plan = Plan(self.seed, epoch, self.n_items, len(self.parts))
        rows = self.plan.position[plan.order]
        V = empty_rows(self.n_items, self.n_factors)
        np.take(self._V, rows, axis=0, out=V)
        self._V, self._sums, self.plan = V, self._sums[rows], plan

    def blocks(self) -> list[Block]:
        """V in blocks, as many as parts: views, so that tasks change it in place."""
        decay, popularity = (a[self.plan.order] for a in (self._decay, self._popularity))
        return [
            Block(low, self._V[own], self._sums[own], decay[own], popularity[own])
            for low, high in pairwise(self.plan.bounds.tolist())
            for own in [slice(low, high)]
        ]

    def factors(self) -> tuple[Floats32, Floats32]:
        """U and V in the order of the data."""
        U = np.empty((len(self._indptr) - 1, self.n_factors), dtype=np.float32)
        for part in self.parts:
            U[part.users] = part.U[:, : self.n_factors]
        return U, self._V[self.plan.position, : self.n_factors]

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that changes, in the order of the data."""
        U, V = self.factors()
        sums = np.empty(len(U), dtype=np.float32)
        slope = np.empty(int(self._indptr[-1]), dtype=np.float32)
        for part in self.parts:
            sums[part.users] = part.sums
            slope[self._records_of(part)] = part.slope
        v_sums = self._sums[self.plan.position]
        return {"U": U, "V": V, "sums_u": sums, "sums_v": v_sums, "slope": slope}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state that `state` gave."""
        self._V[:, : self.n_factors] = state["V"][self.plan.order]
        self._sums[:] = state["sums_v"][self.plan.order]
        for part in self.parts:
            part.U[:, : self.n_factors] = state["U"][part.users]
            part.sums[:] = state["sums_u"][part.users]
            part.slope[:] = state["slope"][self._records_of(part)]

    def _records_of(self, part: Part) -> Ints64:
        """The places of a part's records in the data."""
        return places_of_rows(self._indptr, part.users)[1]
