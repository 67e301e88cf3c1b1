"""What a fit was asked for: the parameters of a model, some left open, and how to run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from robirank._checks import check_count, check_positive
from robirank._types import Floats32
from robirank.data.ages import Ages, check_times, length_of_time
from robirank.data.user_items import UserItems, Weighting, as_user_items
from robirank.errors import Argument, ArgumentError
from robirank.latent.factors.content import Content
from robirank.latent.factors.list_metrics import check_metric
from robirank.latent.solvers import ON_DEVICE, SOLVERS, choose_solver, robirank_solvers
from robirank.latent.solvers.problem import EXPONENTS, Penalty, Problem, RowWeights, TableShape
from robirank.losses import RhoName

DEFAULT_METRIC = "ndcg@20"
_MOST_FACTORS = 65_536  # more would only fill the memory


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
        The number of items that a solver samples for an interaction, at most.
    exponents : (float, float)
        How the weights of rows of U and V grow with their interactions.
    weighting : str
    parts : int
    num_threads : int
    engine : "local", "ray" or RayConfig
    device : "cpu" or "cuda"
    rate : float
        A factor of the solver's step sizes.
    content : Content or None
        The weights of content scores; None: to be found.
    order : bool
        Whether what follows what is learned too.
    order_weight : float or None
        ω of `robirank.latent.factors.order`; None: to be found.
    half_life : float, str or None
        The age at which a record weighs half.
    random_start : bool
        Whether factors begin at random rows, whatever the start of the solver.
    counts_factors : bool
        Whether the table says how many factors there are (`robirank.latent.tune.width`);
        ``factors`` is then the least number, with which λ is searched.
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
    content: Content | None = None
    order: bool = False
    order_weight: float | None = None
    half_life: float | str | None = None
    random_start: bool = False
    counts_factors: bool = False

    def table(self, data: Any) -> UserItems:
        """A table with the weights of its records; with times where their order is learned."""
        if self.order:
            check_times(data, Argument("order", True))
        table = self.ages(data).weigh(as_user_items(data, self.weighting))
        return table if self.order else replace(table, times=None)

    def ages(self, data: Any) -> Ages:
        """How records of a table weigh by their age."""
        if self.half_life is None:
            return Ages()
        named = Argument("half_life", self.half_life)
        check_times(data, named)
        half_life = length_of_time("half_life", self.half_life, data.has_dates)
        times = data.timestamps
        return Ages(half_life, float(times.max()) if len(times) else 0.0)

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
            learning_rate=self.learning_rate or entry.rate_of(self.factors),
            rate=self.rate,
            samples=self.samples,
            parts=self.parts,
            num_threads=self.num_threads,
            device=self.device,
            mean_weight=shape.mean_weight,
            noise_level=noise_level,
            has_features=shape.has_features,
            random_start=self.random_start,
        )

    def _solver_on_cluster(self) -> str:
        name = "sgd" if self.solver == "auto" else self.solver
        if not SOLVERS[name].in_strata:
            able = [other for other in robirank_solvers() if SOLVERS[other].in_strata]
            raise ArgumentError("solver", f"must be one of {able} on a cluster; got {name!r}")
        return name

    def _solver_on_device(self) -> str:
        name = "exact" if self.solver == "auto" else self.solver
        if self.engine != "local":
            raise ArgumentError(
                "device", "must be 'cpu' on a cluster; its workers train on their processors"
            )
        if SOLVERS[name].on_device is None:
            raise ArgumentError(
                "solver", f"must be one of {ON_DEVICE} on device {self.device!r}; got {name!r}"
            )
        return name


def check_factors(factors: Any, *, or_auto: bool = False) -> None:
    """Raise an error unless the parameter is a number of factors, or perhaps "auto"."""
    if isinstance(factors, str) and or_auto:
        if factors != "auto":
            raise ArgumentError("factors", f'must be a positive integer or "auto"; got {factors!r}')
        return
    check_count("factors", factors, at_most=_MOST_FACTORS)


@dataclass(frozen=True)
class EpochReport:
    """What a callback is given after every epoch.

    Attributes
    ----------
    epoch, epochs : int
        How many are done, of how many planned.
    seconds : float
        Of training, without validation and callbacks.
    loss : float
        The solver's mean loss of an interaction in this epoch.
    validation : float or None
        The validation metric, where it was computed after this epoch.
    user_factors, item_factors : arrays, or None
        As they stand; copy them to keep them. None on a cluster, where no process has them all.
    """

    epoch: int
    epochs: int
    seconds: float
    loss: float
    validation: float | None
    user_factors: Floats32 | None = field(repr=False)
    item_factors: Floats32 | None = field(repr=False)


class FitKeywords(TypedDict, total=False):
    """The keyword arguments that `fit` and `partial_fit` share."""

    user_features: Any
    item_features: Any
    dislikes: Any
    validation: Any
    metric: str | None
    patience: int | None
    time_limit: float | None
    checkpoint: str | os.PathLike[str] | None
    checkpoint_minutes: float | None
    resume: bool
    callbacks: Sequence[Callable[[EpochReport], Any]]


@dataclass(frozen=True)
class FitOptions:
    """See `robirank.LatentRoBiRank.fit`; everything that needs no data is checked here."""

    show_progress: bool = True
    callback: Callable[[int, float, float], Any] | None = None
    callbacks: Sequence[Callable[[EpochReport], Any]] = ()
    user_features: Any = None
    item_features: Any = None
    dislikes: Any = None
    validation: Any = None
    metric: str | None = None
    patience: int | None = None
    time_limit: float | None = None
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_minutes: float | None = None
    resume: bool = False
    begun: float = field(default_factory=time.perf_counter, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.time_limit is not None:
            check_positive("time_limit", self.time_limit)
        if self.patience is not None:
            check_count("patience", self.patience)
        if self.metric is not None:
            check_metric(self.metric)
        for name in ("patience", "metric"):
            if getattr(self, name) is not None and self.validation is None:
                raise ArgumentError(
                    name, "needs a validation set to watch; give ", Argument("validation")
                )
        if self.checkpoint_minutes is not None:
            check_positive("checkpoint_minutes", self.checkpoint_minutes)
        _check_callable("callback", self.callback)
        if callable(self.callbacks):
            raise ArgumentError("callbacks", f"must be a list of functions; got {self.callbacks!r}")
        for tell in self.callbacks:
            _check_callable("callbacks", tell)

    def seconds_left(self) -> float:
        """Seconds until the time limit is reached; infinity without one."""
        if self.time_limit is None:
            return float("inf")
        return self.time_limit - (time.perf_counter() - self.begun)

    def limited_to(self, share: float) -> FitOptions:
        """The same with a share of the time that is left; messages name the whole limit."""
        if self.time_limit is None:
            return self
        seconds = max(1e-3, self.seconds_left() * share)
        return replace(self, begun=time.perf_counter() + seconds - self.time_limit)

    @property
    def watched(self) -> str:
        """The metric that is watched on validation data."""
        return self.metric or DEFAULT_METRIC

    @property
    def has_features(self) -> bool:
        """Whether features of users or items are given."""
        return self.user_features is not None or self.item_features is not None

    def refuse(self, where: str, **advice: str) -> None:
        """Raise an error for an option that is set and cannot be honoured, with advice for it."""
        for name, instead in advice.items():
            value = getattr(self, name)
            if value is not None and value is not False:
                raise ArgumentError(name, f"must be left out {where}; {instead}")


def _check_callable(name: str, value: Any) -> None:
    if value is not None and not callable(value):
        raise ArgumentError(name, f"must be a function; got {value!r}")
