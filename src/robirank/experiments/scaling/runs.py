"""The scaling experiment: precision against seconds on p workers, as in the paper.

RoBiRank p cuts users and items into p parts, one for each of p workers. All runs begin at the same
factors and take turns epoch by epoch, so that whatever else the machine does meets all alike. After
every epoch the clocks stand still and precision is measured on the test part.

How fast the factors converge depends on the number of parts and on nothing else: p workers give the
same bits as one that does all p parts. So runs with many more parts than workers show what many
machines would reach after as many epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robirank._checks import check_count, check_positive
from robirank._types import Floats32
from robirank._workers import Workers
from robirank.data.interactions import Interactions
from robirank.data.make_interactions import make_interactions
from robirank.data.records import Records, as_records
from robirank.data.splits import split_ratio
from robirank.data.user_parts import count_parts
from robirank.engine.interface import never
from robirank.engine.threads import ThreadEngine
from robirank.experiments.latent.methods import LATENT_FIELD
from robirank.experiments.latent.units import LatentExperiment, data_name, load_parts
from robirank.experiments.scaling.calibration import calibrate
from robirank.experiments.scaling.clocks import EpochClock, TaskClock
from robirank.experiments.scaling.simulation import Rates, mean_rates
from robirank.latent.factors.evaluate import Evaluation, evaluate
from robirank.latent.factors.recommend import FactorModel
from robirank.latent.solvers import SOLVERS
from robirank.latent.solvers.in_memory import StrataInMemory
from robirank.latent.solvers.interface import Solver
from robirank.latent.solvers.start import random_start
from robirank.latent.tune.settle import settle_by_records

MEASURES = ("precision@1", "precision@10")
NEGATIVES = 128  # items that RoBiRank samples for a record by default
_TEST = 0.2
_TEST_USERS = 10_000  # whose precision is measured, at most
_LIGHT = 0.05  # penalty of both methods for made data, whose users have clear tastes


@dataclass(frozen=True)
class ScalingExperiment:
    """What decides the numbers of a run.

    Attributes
    ----------
    data : Path or None
        As for the latent experiment; None makes data of the given shape.
    shape : tuple of int
        Users, items and interactions of the data that are made.
    columns : dict
        Arguments of `load_interactions`.
    workers : tuple of int
        The numbers p of workers.
    parts : tuple of int
        More numbers of parts, on one worker, to see what many machines converge to.
    factors, iterations : int
    seed : int
    bandwidth, latency : float
        The network of the simulation, in bytes a second and seconds a message.
    ray : bool
        Whether to run RoBiRank on a Ray cluster of this machine too.
    """

    data: Path | None = None
    shape: tuple[int, int, int] = (12_000, 12_000, 600_000)
    columns: Mapping[str, Any] = field(default_factory=dict)
    workers: tuple[int, ...] = (1, 2, 4)
    parts: tuple[int, ...] = (32,)
    factors: int = 32
    iterations: int = 8
    seed: int = 0
    bandwidth: float = 1.25e9
    latency: float = 5e-4
    ray: bool = False

    def check(self) -> None:
        """Raise an error, before any work is done, if a setting is wrong."""
        for name in ("factors", "iterations"):
            check_count(name, getattr(self, name))
        for name in ("bandwidth", "latency"):
            check_positive(name, getattr(self, name))
        for name in ("workers", "parts"):
            values = getattr(self, name)
            for value in values:
                check_count(name, value)
            if len(set(values)) != len(values):
                raise ValueError(f"{name} must be different numbers; got {list(values)}")
        if 1 not in self.workers:
            raise ValueError(
                f"workers must hold 1, which the others are compared with; got {list(self.workers)}"
            )


@dataclass(frozen=True)
class ScalingData:
    """The data of a run, what they are called, and the users whose precision is measured."""

    name: str
    train: Interactions
    test: Interactions
    users: NDArray[np.int64]


def load(experiment: ScalingExperiment) -> ScalingData:
    """Make the data, or read them as the latent experiment does."""
    if experiment.data is None:
        whole = make_interactions(*experiment.shape, random_state=experiment.seed)
        name, parts = "made", split_ratio(whole, _TEST, random_state=experiment.seed)
    else:
        read = LatentExperiment(experiment.data, experiment.columns, seed=experiment.seed)
        found = load_parts(read)
        name, parts = data_name(experiment.data), (found.learned, found.test)
    users = np.flatnonzero(parts[1].lengths)
    rng = np.random.default_rng(experiment.seed)
    users = np.sort(rng.permutation(users)[:_TEST_USERS])
    return ScalingData(name, *parts, users)


@dataclass(frozen=True)
class ScalingRun:
    """A run that is measured.

    Attributes
    ----------
    name : str
    method : str
        A name of `LATENT_FIELD`.
    workers, parts : int
    engine : {"local", "ray"}
    """

    name: str
    method: str
    workers: int
    parts: int
    engine: Literal["local", "ray"] = "local"


def planned_runs(experiment: ScalingExperiment) -> list[ScalingRun]:
    """Who runs: RoBiRank on each number of workers, WARP on the fewest and the most, and parts.

    Examples
    --------
    >>> [c.name for c in planned_runs(ScalingExperiment(workers=(1, 2), parts=(2, 32)))]
    ['RoBiRank 1', 'RoBiRank 2', 'WARP 1', 'WARP 2', 'RoBiRank, 32 parts']
    """
    ends = dict.fromkeys((1, max(experiment.workers)))
    return [
        *(ScalingRun(f"RoBiRank {p}", "RoBiRank sgd", p, p) for p in experiment.workers),
        *(ScalingRun(f"WARP {p}", "WARP", p, p) for p in ends),
        *(
            ScalingRun(f"RoBiRank, {parts} parts", "RoBiRank sgd", 1, parts)
            for parts in experiment.parts
            if parts not in experiment.workers
        ),
        *(
            ScalingRun(f"RoBiRank {p}, Ray", "RoBiRank sgd", p, p, "ray")
            for p in experiment.workers
            if experiment.ray
        ),
    ]


@dataclass
class Result:
    """What became of a run.

    Attributes
    ----------
    run : ScalingRun
    clocks : list of EpochClock
    reached : list of Evaluation
        After each epoch.
    """

    run: ScalingRun
    clocks: list[EpochClock] = field(default_factory=list)
    reached: list[Evaluation] = field(default_factory=list)


def measure_runs(
    experiment: ScalingExperiment,
    data: ScalingData,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[list[Result], Rates]:
    """Let all local runs do their epochs, in turns, with a calibration in every round.

    Parameters
    ----------
    tell : callable, optional
        Is told what is being done.
    """
    records, epochs = as_records(data.train), experiment.iterations
    rates: list[Rates] = []
    with ExitStack() as stack:
        runners = list(_runners(experiment, records, stack))
        for epoch in range(epochs):
            for runner in runners:
                tell(f"epoch {epoch + 1} of {epochs}, {runner.result.run.name}")
                runner.one_epoch(epoch)
                runner.result.reached.append(measure(runner.engine.memory.factors(), data))
            tell(f"epoch {epoch + 1} of {epochs}, calibrating")
            rates.append(calibrate(data.train, experiment.factors, NEGATIVES))
    return [runner.result for runner in runners], mean_rates(rates)


def measure(factors: tuple[Floats32, Floats32], data: ScalingData) -> Evaluation:
    """What factors are good for, on the test part."""
    model = FactorModel.of(*factors)
    return evaluate(model, train=data.train, test=data.test, k=(1, 10), users=data.users)


def settings_of(
    experiment: ScalingExperiment, run: ScalingRun, records: Records
) -> dict[str, float]:
    """Step size and penalty: the defaults, where the latent experiment begins its search."""
    method = LATENT_FIELD[run.method]
    params = method.setting(0, 0, factors=experiment.factors, records=records)
    return params if experiment.data else params | {"regularization": _LIGHT}


@dataclass(frozen=True)
class _Runner:
    """A run under way."""

    result: Result
    clock: TaskClock
    engine: ThreadEngine
    solver: Solver
    epochs: int

    def one_epoch(self, number: int) -> None:
        clock = self.clock.measure(lambda: self.solver.epoch(number, self.epochs, never))
        self.result.clocks.append(clock)


def _runners(
    experiment: ScalingExperiment, records: Records, stack: ExitStack
) -> Iterator[_Runner]:
    """The local runs, all with the same start."""
    for run in planned_runs(experiment):
        if run.engine != "local":
            continue
        params = settings_of(experiment, run, records)
        sizes = {"factors": experiment.factors, "parts": run.parts}
        model = LATENT_FIELD[run.method].make(params, random_state=experiment.seed, **sizes)
        problem = settle_by_records(model.request(), records)
        workers = stack.enter_context(Workers(run.workers))
        start = random_start(problem, records)
        n_parts = count_parts(run.parts, records.n_users, records.n_items)
        clock = TaskClock(n_parts, run.workers)
        make = SOLVERS[problem.solver].make
        solver = StrataInMemory(make, problem, records, start, workers, clock)
        yield _Runner(Result(run), clock, solver.engine, solver, experiment.iterations)
