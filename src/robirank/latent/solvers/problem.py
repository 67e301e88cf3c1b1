"""What a solver is given: the shape of a table, and everything that a fit settled about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from robirank.data.records import Records, Weighting
from robirank.engine.interface import Sizes
from robirank.latent.solvers.penalty import Penalty, RowLengths
from robirank.losses import RHOS, RhoName

if TYPE_CHECKING:
    from robirank.data.partitions import Partitions


@dataclass(frozen=True)
class TableShape:
    """How many interactions the users and items of a table have, and what these weigh on average.

    Attributes
    ----------
    sizes : Sizes
    users, items : RowLengths
    mean_weight : float
    """

    sizes: Sizes
    users: RowLengths
    items: RowLengths
    mean_weight: float

    @classmethod
    def of_records(cls, records: Records) -> TableShape:
        """The shape of a table in memory."""
        users, items = records.user_counts(), records.item_counts()
        active = int(np.count_nonzero(users))
        return cls(
            Sizes(records.n_users, active, records.n_items, records.n_records),
            RowLengths.of_counts(users),
            RowLengths.of_counts(items),
            records.mean_weight(),
        )

    @classmethod
    def of_partitions(cls, data: Partitions, weighting: Weighting) -> TableShape:
        """The shape of a table in files, without reading its interactions."""
        lengths, times = data.manifest.lengths
        idle = times[0] if lengths[0] == 0 else 0
        return cls(
            Sizes(data.n_users, data.n_users - idle, data.n_items, data.n_records),
            RowLengths(lengths, times),
            RowLengths.of_counts(data.item_counts()),
            data.manifest.mean_weight[weighting],
        )


@dataclass(frozen=True)
class Problem:
    """What a solver minimises and how, with nothing left open.

    Attributes
    ----------
    solver : str
        A name of `robirank.latent.solvers.SOLVERS`.
    factors, epochs, seed : int
    rho : str or None
        None for a loss that is not of RoBiRank's family.
    sizes : Sizes
    penalty : Penalty
    learning_rate : float
        The step size of V.
    rate : float
        A factor of all step sizes; less than one when a model that is trained already goes on.
    samples : int
        Items that a solver samples for a record, at most.
    parts : int
    num_threads : int
    device : "cpu" or "cuda"
    mean_weight : float
        Of a record.
    noise_level : float
        Of the table; see `robirank.latent.tune.rule.noise_level`.
    """

    solver: str
    factors: int
    epochs: int
    seed: int
    rho: RhoName | None
    sizes: Sizes
    penalty: Penalty
    learning_rate: float
    rate: float = 1.0
    samples: int = 128
    parts: int = 8
    num_threads: int = 0
    device: str = "cpu"
    mean_weight: float = 1.0
    noise_level: float = 0.0

    @property
    def idle_loss(self) -> float:
        """The mean loss of a record where a model scores all items alike; 0 if it is unknown."""
        if self.rho is None:
            return 0.0
        return self.mean_weight * float(RHOS[self.rho].value(self.sizes.n_items - 1.0))
