"""The loop over epochs that every kind of training shares."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from robirank.engine.interface import never


class Plan(Protocol):
    """How many epochs are planned, and how many are done."""

    epochs: int
    epoch: int


@dataclass
class Epochs:
    """A plan of so many epochs, from the first one on."""

    epochs: int
    epoch: int = 0


def run_epochs(
    solver: Any, plan: Plan, should_stop: Callable[[], bool] = never
) -> Iterator[tuple[Any, float]]:
    """Run the epochs of a plan; yields what each epoch reported, and its seconds.

    The plan may change between two epochs, and the caller may leave the loop.

    Examples
    --------
    >>> class Counts:
    ...     def epoch(self, number, epochs, should_stop):
    ...         return {"loss": epochs - number}
    >>> [figures["loss"] for figures, _ in run_epochs(Counts(), Epochs(3))]
    [3, 2, 1]
    """
    while plan.epoch < plan.epochs:
        begin = time.perf_counter()
        figures = solver.epoch(plan.epoch, plan.epochs, should_stop)
        plan.epoch += 1
        yield figures, time.perf_counter() - begin
