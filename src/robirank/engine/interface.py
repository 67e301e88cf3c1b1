"""What a solver asks of an engine, whoever does the work: threads here, or workers elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robirank.engine.tasks import Report, Task, XiReport
from robirank.losses import RhoName

__all__ = ["Engine", "Sizes"]

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Sizes:
    """How large the data are; an active user has a record."""

    n_users: int
    active_users: int
    n_items: int
    n_records: int


class Engine(Protocol):
    """Holds U, V and the records in strata, and runs tasks on them.

    Every method is a pure function of what the engine holds and of its arguments; which thread,
    process or machine does a part of the work changes no bit.
    """

    sizes: Sizes
    n_parts: int
    factors: int

    def squares(self) -> tuple[float, float]:
        """The sums of squares of U and of V."""

    def scale_slopes(self, factor: float) -> None:
        """Multiply all slopes."""

    def uv_pass(
        self,
        epoch: int,
        task: Task,
        settings: Sequence[Any],
        kept: float,
        should_stop: Callable[[], bool],
    ) -> Report:
        """One pass over the records.

        V is put in the epoch's order, a share ``kept`` of Adagrad's sums is kept, and then every
        part meets every block, with the settings of each sub-step.
        """

    def xi_step(self, turn: int, of: int, rho: RhoName) -> XiReport:
        """Renew the slopes of every ``of``-th share of the users of each part."""

    def drift(self, turn: int, of: int, factor: float) -> None:
        """Multiply the slopes of all the other users."""

    def rows(self) -> tuple[Floats, Floats]:
        """U and V in the order of the data."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that changes, in the order of the data."""

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state that `state` gave."""
