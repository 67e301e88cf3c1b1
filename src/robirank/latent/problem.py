"""What a fit was asked for, and the problem that a table makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from robirank.data.records import Records, Weighting
from robirank.engine.interface import Sizes
from robirank.latent.penalty import (
    EXPONENTS,
    Penalty,
    RowLengths,
    RowWeights,
    default_regularization,
    noise_level,
)
from robirank.losses import RHOS, RhoName

if TYPE_CHECKING:
    from robirank.data.partitions import Partitions


@dataclass(frozen=True)
class Request:
    """The parameters of a model, checked, with the seed drawn.

    Attributes
    ----------
    model : str
        The name of the model's class.
    solver : str
        A name of `robirank.latent.solvers.SOLVERS`, or "auto".
    factors, seed : int
    epochs : int or None
        None: as many as the solver takes.
    params : dict
        The model's parameters as they were given, to tell one fit from another.
    rho : str or None
        None for a loss that is not of RoBiRank's family.
    regularization, learning_rate : float or None
        None: the default of the problem, of the solver.
    samples : int
        Items that a solver samples for a record, at most.
    exponents : (float, float)
        How the weights of rows of U and V grow with their records.
    weighting : str
    parts : int
    num_threads : int
    engine : "local", "ray" or RayConfig
    device : "cpu" or "cuda"
    rate : float
        A factor of the solver's step sizes.
    """

    model: str
    solver: str
    factors: int
    epochs: int | None
    seed: int
    params: dict[str, Any]
    rho: RhoName | None = "log"
    regularization: float | None = None
    learning_rate: float | None = None
    samples: int = 128
    exponents: tuple[float, float] = EXPONENTS
    weighting: Weighting = "binary"
    parts: int = 8
    num_threads: int = 0
    engine: Any = "local"
    device: str = "cpu"
    rate: float = 1.0


@dataclass(frozen=True)
class Problem:
    """What a table makes of a request.

    Attributes
    ----------
    sizes : Sizes
    penalty : Penalty
    idle_loss : float
        The mean loss of a record of a model that scores all items alike; 0 if unknown.
    noise_level : float
        Of the table; see `robirank.latent.penalty.noise_level`.
    """

    sizes: Sizes
    penalty: Penalty
    idle_loss: float
    noise_level: float

    @classmethod
    def of_records(cls, request: Request, records: Records) -> Problem:
        """The problem of a table in memory."""
        users, items = records.user_counts(), records.item_counts()
        active = int(np.count_nonzero(users))
        sizes = Sizes(records.n_users, active, records.n_items, records.n_records)
        rows = RowLengths.of_counts(users), RowLengths.of_counts(items)
        return cls._of(request, sizes, rows, records.mean_weight())

    @classmethod
    def of_partitions(cls, request: Request, data: Partitions) -> Problem:
        """The problem of a table in files, without reading its records."""
        lengths, times = data.manifest.lengths
        idle = times[0] if lengths[0] == 0 else 0
        sizes = Sizes(data.n_users, data.n_users - idle, data.n_items, data.n_records)
        mean_weight = data.manifest.mean_weight[request.weighting]
        rows = RowLengths(lengths, times), RowLengths.of_counts(data.item_counts())
        return cls._of(request, sizes, rows, mean_weight)

    @classmethod
    def _of(
        cls,
        request: Request,
        sizes: Sizes,
        rows: tuple[RowLengths, RowLengths],
        mean_weight: float,
    ) -> Problem:
        reg = request.regularization
        if reg is None:
            reg = default_regularization(
                *rows,
                rho=request.rho,
                factors=request.factors,
                n_items=sizes.n_items,
                exponents=request.exponents,
            )
        weights = (
            RowWeights.scaled(exponent, side, mean_weight)
            for exponent, side in zip(request.exponents, rows, strict=True)
        )
        idle_loss = 0.0
        if request.rho is not None:
            idle_loss = mean_weight * float(RHOS[request.rho].value(sizes.n_items - 1.0))
        level = noise_level(*rows, request.exponents)
        return cls(sizes, Penalty(reg, *weights), idle_loss, level)
