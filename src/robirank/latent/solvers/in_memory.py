"""A solver of tasks, with the parts and blocks that it works on in the memory of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from robirank._types import Floats32
from robirank._workers import Workers
from robirank.data.records import Records
from robirank.engine.interface import Figures, never
from robirank.engine.memory import StrataMemory
from robirank.engine.threads import TaskTime, ThreadEngine
from robirank.latent.solvers.penalty import Penalty
from robirank.latent.solvers.problem import Problem


class StrataInMemory:
    """An `InMemorySolver` made of an `InStrataSolver` and the engine that runs its tasks.

    Parameters
    ----------
    make : callable
        Makes the `InStrataSolver` from the problem and the engine.
    problem : Problem
    records : Records
    start : (U, V), float32 arrays
    workers : Workers
    on_task : callable, optional
        Is given the `TaskTime` of every task.
    """

    def __init__(
        self,
        make: Callable[[Problem, ThreadEngine], Any],
        problem: Problem,
        records: Records,
        start: tuple[Floats32, Floats32],
        workers: Workers,
        on_task: Callable[[TaskTime], None] | None = None,
    ) -> None:
        self._counts = records.user_counts(), records.item_counts()
        users, items = self._counts
        self.memory = StrataMemory(
            records,
            *start,
            problem.penalty.user_decay(users),
            problem.penalty.item_decay(items),
            parts=problem.parts,
            seed=problem.seed,
        )
        self.engine = ThreadEngine(self.memory, problem.sizes, workers, on_task)
        self._solver = make(problem, self.engine)

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool] = never) -> Figures:
        """One epoch of the solver."""
        figures: Figures = self._solver.epoch(number, epochs, should_stop)
        return figures

    def penalize(self, penalty: Penalty) -> None:
        """Go on under another penalty."""
        users, items = self._counts
        self.memory.decay_by(penalty.user_decay(users), penalty.item_decay(items))

    def factors(self) -> tuple[Floats32, Floats32]:
        """U and V in the order of the data."""
        return self.memory.factors()

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that a later start needs to go on with the same bits."""
        return self.memory.state()

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state that `state` gave."""
        self.memory.restore(state)
