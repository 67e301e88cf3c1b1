"""What the training loop asks of a solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from robirank.engine.interface import Engine, Figures
from robirank.engine.state import Arrays, StateArray
from robirank.latent.factors.factors import Factors
from robirank.latent.solvers.problem import Penalty, Problem
from robirank.latent.solvers.strata import AnyCentreRows, StartRows


class Solver(Protocol):
    """Improves factors, epoch after epoch."""

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool]) -> Figures:
        """Do epoch ``number`` (from 0) of ``epochs`` planned ones.

        Returns at least "loss", the mean loss of an interaction. "start" may say what it was before
        the first step, and "not_finite" how many steps were left out because they were not finite.
        The epoch ends early, between two steps, where ``should_stop()`` becomes true.
        """


class InMemorySolver(Solver, Protocol):
    """A solver that holds the factors itself, in the memory of this process or on its device.

    It is made as ``cls(problem, interactions, start, workers)`` and may change the rows of
    ``start``, a `Factors`.
    """

    def penalize(self, penalty: Penalty) -> None:
        """Go on under another penalty; a search for λ asks for one before every epoch."""

    def factors(self) -> Factors:
        """The factors as they stand."""

    def state(self) -> Arrays:
        """Everything that a later start needs to go on with the same bits."""

    def restore(self, state: Arrays) -> None:
        """Go back to a state that `state` gave."""


class PullableSolver(InMemorySolver, Protocol):
    """A solver for tables with features; see `robirank.latent.solvers.centred`."""

    def pull_to(self, user_centres: Any, item_centres: Any) -> None:
        """Go on with a penalty that pulls rows to these centres; None stands for zero.

        Centres are arrays of the kind that the rows of `factors` are.
        """


class InStrataSolver(Solver, Protocol):
    """A solver that only runs tasks on an engine, which holds the arrays that it declares.

    It has no state of its own but for what it is pulled to.
    """

    def __init__(self, problem: Problem, engine: Engine) -> None: ...

    def pull_to(self, centres: AnyCentreRows) -> None:
        """Go on with a penalty that pulls rows to these centres, for tables with features."""

    @staticmethod
    def arrays(problem: Problem, start: StartRows) -> list[StateArray]:
        """The arrays that its tasks read and change."""
