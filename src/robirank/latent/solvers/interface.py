"""What the training loop asks of a solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

from robirank._types import Floats32
from robirank.engine.interface import Engine, Figures
from robirank.latent.solvers.penalty import Penalty
from robirank.latent.solvers.problem import Problem


class Solver(Protocol):
    """Improves factors, epoch after epoch."""

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool]) -> Figures:
        """Do epoch ``number`` (from 0) of ``epochs`` planned ones.

        Returns at least "loss", the mean loss of a record. "start" may say what it was before the
        first step, and "not_finite" how many steps were left out because they were not finite. The
        epoch ends early, between two steps, where ``should_stop()`` becomes true.
        """


class InMemorySolver(Solver, Protocol):
    """A solver that holds the factors itself, in the memory of this process or on its device.

    It is made as ``cls(problem, records, (U, V), workers)`` and may change U and V. The class has
    an attribute ``default_rate``, the learning rate of V where none is asked for.
    """

    def penalize(self, penalty: Penalty) -> None:
        """Go on under another penalty; a search for λ asks for one before every epoch."""

    def factors(self) -> tuple[Floats32, Floats32]:
        """U and V as they stand."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that a later start needs to go on with the same bits."""

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state that `state` gave."""


class InStrataSolver(Solver, Protocol):
    """A solver that only runs tasks on an engine, which holds the factors.

    It is made as ``cls(problem, engine)`` and has no state of its own. The class has an attribute
    ``default_rate``, the learning rate of V where none is asked for.
    """

    def __init__(self, problem: Problem, engine: Engine) -> None: ...
