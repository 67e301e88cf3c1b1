"""What the stochastic solvers share: one pass over the records an epoch, in strata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._workers import Workers
from robirank.engine.decay import Decay
from robirank.engine.interface import Engine
from robirank.engine.local import LocalEngine
from robirank.engine.tasks import Report, Task, cell_size
from robirank.latent.penalty import ITEM_EXPONENT, USER_EXPONENT
from robirank.latent.records import Records
from robirank.latent.solvers.products import Floats

__all__ = ["StratifiedSolver", "local_engine"]


KEPT = 0.5  # of Adagrad's sums from one epoch to the next


class StratifiedSolver:
    """A solver that walks the records in strata; a subclass says what a task does.

    Users are cut once into parts. In every epoch the items are put in a new random order and cut
    into as many blocks, and each part meets each block once; tasks that run side by side share no
    row, so the bits do not depend on the number of threads (see `robirank.engine.strata`).

    Steps are those of row-wise Adagrad. Half of its sums is forgotten with every epoch, because
    the first gradients are the largest; the rate falls to zero over the epochs, in a straight line.
    """

    def __init__(
        self, engine: Engine, *, learning_rate: float, user_rate: float, epochs: int
    ) -> None:
        self.epochs, self.epoch_number = epochs, 0
        self._engine = engine
        self._rate, self._user_rate = learning_rate, user_rate
        self._cell_items = cell_size(engine.factors)

    def epoch(self, should_stop: Callable[[], bool] = lambda: False) -> dict[str, float]:
        """Do one pass over the records; returns at least the mean loss of a record."""
        raise NotImplementedError

    def _task(self, fade: float) -> tuple[Task, Any]:
        """The function of a task and its settings, at a share of the rate."""
        raise NotImplementedError

    def _pass(self, should_stop: Callable[[], bool]) -> Report:
        n = self._engine.n_parts
        progress = [(self.epoch_number + step / n) / self.epochs for step in range(n)]
        tasks = [self._task(max(0.0, 1.0 - share)) for share in progress]
        return self._engine.uv_pass(
            self.epoch_number,
            tasks[0][0],
            [settings for _, settings in tasks],
            KEPT if self.epoch_number > 0 else 1.0,
            should_stop,
        )

    def factors(self) -> tuple[Floats, Floats]:
        """U and V in the order of the data."""
        return self._engine.rows()

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that a later start needs to go on with the same bits."""
        return self._engine.state() | {"epoch": np.array(self.epoch_number)}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state that `state` gave."""
        self._engine.restore(state)
        self.epoch_number = int(state["epoch"])


def local_engine(
    records: Records,
    U: Floats,
    V: Floats,
    *,
    reg: float,
    parts: int,
    seed: int,
    workers: Workers,
    kind: type[LocalEngine] = LocalEngine,
) -> LocalEngine:
    """Strata in this process, with the penalty of `robirank.latent.penalty`."""
    parts, part_seed = records.cut or (parts, seed)
    users, items = records.user_counts(), records.item_counts()
    return kind(
        records,
        U,
        V,
        Decay.of_counts(reg, USER_EXPONENT, users).of(users),
        Decay.of_counts(reg, ITEM_EXPONENT, items).of(items),
        parts=parts,
        seed=seed,
        part_seed=part_seed,
        workers=workers,
    )
