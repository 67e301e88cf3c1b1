"""A solver in strata, with the parts and blocks that it works on in the memory of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from robirank._types import Floats32
from robirank._workers import Workers
from robirank.data.user_items import UserItems
from robirank.engine.interface import Figures, never
from robirank.engine.memory import StrataMemory
from robirank.engine.state import Arrays
from robirank.engine.threads import ThreadEngine
from robirank.latent.factors.factors import Factors
from robirank.latent.solvers.problem import Penalty, Problem
from robirank.latent.solvers.strata import CentreRows, StartRows, penalty_arrays


class StrataInMemory:
    """An `InMemorySolver` made of an `InStrataSolver` and the engine that runs its tasks.

    Parameters
    ----------
    make : class
        The `InStrataSolver`.
    problem : Problem
    interactions : UserItems
    start : Factors
    workers : Workers
    **options : Any
        Further arguments of the solver.
    """

    def __init__(
        self,
        make: Any,
        problem: Problem,
        interactions: UserItems,
        start: Factors,
        workers: Workers,
        **options: Any,
    ) -> None:
        self._start, self._factors = start, problem.factors
        declared = make.arrays(problem, StartRows.of(start))
        self.memory = StrataMemory(interactions, declared, parts=problem.parts, seed=problem.seed)
        self.engine = ThreadEngine(self.memory, problem.sizes, workers)
        self._solver = make(problem, self.engine, **options)

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool] = never) -> Figures:
        """One epoch of the solver."""
        figures: Figures = self._solver.epoch(number, epochs, should_stop)
        return figures

    def penalize(self, penalty: Penalty) -> None:
        """Go on under another penalty."""
        self.memory.restart(penalty_arrays(penalty))

    def pull_to(self, user_centres: Floats32 | None, item_centres: Floats32 | None) -> None:
        """Go on with a penalty that pulls rows to these centres; None stands for zero."""
        self._solver.pull_to(CentreRows(user_centres, item_centres, self._factors))

    def factors(self) -> Factors:
        """The factors as they stand."""
        model = self.memory.model()
        return self._start.with_rows(model["user_factors"], model["item_factors"])

    def state(self) -> Arrays:
        """Everything that a later start needs to go on with the same bits."""
        return self.memory.state()

    def restore(self, state: Arrays) -> None:
        """Go back to a state that `state` gave."""
        self.memory.restore(state)
