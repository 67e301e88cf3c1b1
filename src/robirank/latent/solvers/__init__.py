"""The solvers, one class each, and the table that finds them by name.

To add one, write a class that follows a protocol of `robirank.latent.solvers.interface` and give it
to `register_solver`; models, the loop and the engines stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from robirank._threads import thread_count
from robirank._workers import Workers
from robirank.data.user_items import UserItems
from robirank.errors import ArgumentError
from robirank.latent.factors.factors import Factors
from robirank.latent.solvers import sgd
from robirank.latent.solvers.centred import CentredSolver
from robirank.latent.solvers.exact import ExactSolver
from robirank.latent.solvers.in_memory import StrataInMemory
from robirank.latent.solvers.interface import InMemorySolver
from robirank.latent.solvers.problem import Problem
from robirank.latent.solvers.sgd import SgdSolver
from robirank.latent.solvers.speed import measured_speed
from robirank.latent.solvers.starts import Start, random_start, singular_start
from robirank.latent.solvers.user_steps import USUAL_STEPS, StepSettings
from robirank.latent.solvers.warp import WarpSolver

#: Floating-point operations of an epoch up to which "auto" takes the exact solver: about a minute
#: on two cores.
EXACT_LIMIT = 1e13
_USUAL_FACTORS = 64  # for which the learning rates were chosen
_KERNEL_FLOPS = 200  # what the listwise kernel costs an item, counted as if it were a product
# Of the exact solver on a card, as measured on an H200: operations and bytes a second, seconds in
# which the kernels of a step are launched, and users in a step at most.
_CARD_FLOPS, _CARD_BYTES, _CARD_STEP, _CARD_USERS = 2.4e14, 4e12, 3.5e-4, 8192
_BYTES_OF_A_NUMBER = 56  # of V, that a step on a card moves


@dataclass(frozen=True)
class SolverEntry:
    """A solver in the table.

    Attributes
    ----------
    make : class
        An `InStrataSolver` where ``in_strata`` is true, else an `InMemorySolver`.
    in_strata : bool
        Whether it runs on an engine; only such a solver can train on a cluster.
    on_device : callable or None
        Makes the solver for a CUDA device, an `InMemorySolver`; None where there is none.
    side_by_side : callable or None
        Yields fits that run at once on a CUDA device, as many as have room at a time: from
        problems that differ in λ, interactions and a start.
    epochs : int
        The number of epochs where none is asked for.
    learning_rate : float
        The step size of V where none is asked for.
    rate_share : callable
        What is left of that with so many factors.
    searches : bool
        Whether a fit without a λ looks for one; see `robirank.latent.tune.settle`.
    seconds : callable or None
        Estimates the seconds of an epoch of a `Problem`; None where nobody knows.
    dislikes : bool
        Whether it learns from what users dislike, on the CPU.
    start : callable
        Gives the factors to begin with, of a problem and interactions.
    """

    make: Any
    in_strata: bool = False
    on_device: Any = None
    side_by_side: Any = None
    epochs: int = 64
    learning_rate: float = 0.1
    rate_share: Callable[[int], float] = lambda _: 1.0
    searches: bool = False
    seconds: Callable[[Problem], float] | None = None
    dislikes: bool = False
    start: Start = random_start

    def rate_of(self, factors: int) -> float:
        """The step size of V where none is asked for."""
        return self.learning_rate * self.rate_share(factors)


def _exact_rate_share(factors: int) -> float:
    """What is left of the step size of V with more than 64 factors.

    Adam moves every number of a row by about the step size, however little its gradient says, so
    the noise of a row grows with the root of its length, and of the number of steps.
    """
    share = min(1.0, _USUAL_FACTORS / factors) * USUAL_STEPS / StepSettings.of(factors).steps
    return float(share**0.5)


def _exact_flops(n_users: int, n_items: int, factors: int) -> float:
    """Floating-point operations of an epoch of the exact solver."""
    return n_users * n_items * (6.0 * factors + _KERNEL_FLOPS)


def _exact_seconds(problem: Problem) -> float:
    sizes = problem.sizes
    if problem.device != "cpu":
        users, items, factors = sizes.active_users, sizes.n_items, problem.factors
        steps = max(StepSettings.of(factors).steps, users / _CARD_USERS)
        step = _CARD_STEP + _BYTES_OF_A_NUMBER * items * factors / _CARD_BYTES
        return steps * step + _exact_flops(users, items, factors) / _CARD_FLOPS
    assert problem.rho is not None
    speed = measured_speed(problem.factors, problem.rho, thread_count(problem.num_threads))
    return speed.of_epoch(sizes.active_users, sizes.n_items, problem.factors)


def _sgd_seconds(problem: Problem) -> float:
    seconds = sgd.epoch_seconds(problem.sizes, problem.factors, problem.samples)
    return seconds / min(problem.parts, thread_count(problem.num_threads))


def _exact_on_device(*arguments: Any) -> InMemorySolver:
    from robirank.latent.solvers.exact_on_card import DeviceExactSolver

    return DeviceExactSolver(*arguments)


def _exact_fits(problems: Any, interactions: Any, start: Any) -> Any:
    from robirank.latent.solvers.exact_on_card import DeviceExactFits, most_fits

    size = most_fits(problems[0], interactions)
    for first in range(0, len(problems), size):
        yield DeviceExactFits(problems[first : first + size], interactions, start)


SOLVERS: dict[str, SolverEntry] = {
    "exact": SolverEntry(
        ExactSolver,
        on_device=_exact_on_device,
        side_by_side=_exact_fits,
        epochs=16,
        learning_rate=0.07,
        rate_share=_exact_rate_share,
        searches=True,
        seconds=_exact_seconds,
        dislikes=True,
        start=singular_start,
    ),
    "sgd": SolverEntry(SgdSolver, in_strata=True, seconds=_sgd_seconds),
    "warp": SolverEntry(WarpSolver, in_strata=True),
}


#: The values of ``solver`` that a CUDA device can train with.
ON_DEVICE = ("auto", *(name for name, entry in SOLVERS.items() if entry.on_device))


def register_solver(name: str, make: Any, **options: Any) -> None:
    """Add a solver; ``LatentRoBiRank(solver=name)`` then uses it.

    Parameters
    ----------
    name : str
    make : class
        An `InMemorySolver`, or an `InStrataSolver` with ``in_strata=True``.
    options
        The other attributes of `SolverEntry`.
    """
    if name == "auto" or name in SOLVERS:
        raise ValueError(f"there is a solver {name!r} already; choose another name")
    SOLVERS[name] = SolverEntry(make, **options)


def make_solver(
    problem: Problem, interactions: UserItems, start: Factors, workers: Workers
) -> InMemorySolver:
    """The solver of a problem in the memory of this process, or on its device."""
    entry = SOLVERS[problem.solver]
    make: Any = entry.make
    if problem.device != "cpu":
        make = entry.on_device
    elif entry.in_strata:
        make = partial(StrataInMemory, entry.make)
    if interactions.disliked is not None and not (entry.dislikes and problem.device == "cpu"):
        able = [name for name, other in SOLVERS.items() if other.dislikes]
        raise ArgumentError(
            "dislikes",
            f"can be learned from by solvers {able} on device 'cpu' alone; this fit takes "
            f"{problem.solver!r} on {problem.device!r}",
        )
    if interactions.has_features:
        if not hasattr(entry.make, "pull_to"):
            raise ArgumentError(
                "solver",
                f"must be one that knows features; {problem.solver!r} has no pull_to (see "
                "PullableSolver of robirank.latent.solvers.interface)",
            )
        return CentredSolver(make, problem, interactions, start, workers)
    solver: InMemorySolver = make(problem, interactions, start, workers)
    return solver


def start_of(problem: Problem, interactions: UserItems) -> Factors:
    """The factors with which the solver of a problem begins."""
    start = random_start if problem.random_start else SOLVERS[problem.solver].start
    return start(problem, interactions)


def robirank_solvers() -> list[str]:
    """The names of the solvers of `robirank.LatentRoBiRank`."""
    return [name for name in SOLVERS if name != "warp"]


def choose_solver(n_users: int, n_items: int, factors: int) -> str:
    """The solver that "auto" stands for: "exact" where an epoch of it takes up to about a minute.

    Examples
    --------
    >>> choose_solver(30_000, 41_000, factors=64), choose_solver(10**6, 10**5, factors=64)
    ('exact', 'sgd')
    """
    return "exact" if _exact_flops(n_users, n_items, factors) <= EXACT_LIMIT else "sgd"


def epoch_seconds(problem: Problem) -> float | None:
    """How long an epoch takes on this machine, about; None where nobody knows."""
    estimate = SOLVERS[problem.solver].seconds
    return None if estimate is None else estimate(problem)
