"""What a fit was asked for: the parameters of a model, some of them left open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from robirank.data.records import Weighting
from robirank.latent.solvers import ON_DEVICE, SOLVERS, choose_solver, robirank_solvers
from robirank.latent.solvers.penalty import EXPONENTS, Penalty, RowWeights
from robirank.latent.solvers.problem import Problem, TableShape
from robirank.losses import RhoName


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
        None: to be found, the default of the solver.
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

    def solver_for(self, n_users: int, n_items: int) -> str:
        """The solver that is meant: "auto" goes by device and size, a cluster needs strata."""
        if self.device != "cpu":
            return self._solver_on_device()
        if self.engine != "local":
            return self._solver_on_cluster()
        if self.solver == "auto":
            return choose_solver(n_users, n_items, self.factors)
        return self.solver

    def settled(self, shape: TableShape, regularization: float, noise_level: float) -> Problem:
        """What is asked for of a table of that shape, under that λ."""
        solver = self.solver_for(shape.sizes.n_users, shape.sizes.n_items)
        entry = SOLVERS[solver]
        weights = (
            RowWeights.scaled(exponent, rows, shape.mean_weight)
            for exponent, rows in zip(self.exponents, (shape.users, shape.items), strict=True)
        )
        return Problem(
            solver=solver,
            factors=self.factors,
            epochs=self.epochs or entry.epochs,
            seed=self.seed,
            rho=self.rho,
            sizes=shape.sizes,
            penalty=Penalty(regularization, *weights),
            learning_rate=self.learning_rate or entry.make.default_rate,
            rate=self.rate,
            samples=self.samples,
            parts=self.parts,
            num_threads=self.num_threads,
            device=self.device,
            mean_weight=shape.mean_weight,
            noise_level=noise_level,
        )

    def _solver_on_cluster(self) -> str:
        name = "sgd" if self.solver == "auto" else self.solver
        if not SOLVERS[name].in_strata:
            able = [other for other in robirank_solvers() if SOLVERS[other].in_strata]
            raise ValueError(f"solver must be one of {able} on a cluster; got {name!r}")
        return name

    def _solver_on_device(self) -> str:
        name = "exact" if self.solver == "auto" else self.solver
        if self.engine != "local":
            raise ValueError(
                "device must be 'cpu' on a cluster; its workers train on their processors"
            )
        if SOLVERS[name].on_device is None:
            raise ValueError(
                f"solver must be one of {ON_DEVICE} on device {self.device!r}; got {name!r}"
            )
        return name
