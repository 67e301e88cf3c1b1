"""What the stochastic solvers share: one pass over the records an epoch, in strata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._workers import Workers
from robirank.engine.layout import Layout
from robirank.engine.local import LocalEngine
from robirank.engine.strata import schedule, task_key
from robirank.engine.tasks import Report, cell_size
from robirank.latent.penalty import ITEM_EXPONENT, USER_EXPONENT, row_weights
from robirank.latent.products import Floats
from robirank.latent.records import Records

__all__ = ["StratifiedSolver"]


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
        self,
        records: Records,
        U: Floats,
        V: Floats,
        *,
        reg: float,
        learning_rate: float,
        user_rate: float,
        epochs: int,
        parts: int,
        seed: int,
        workers: Workers,
    ) -> None:
        self.epochs, self.epoch_number = epochs, 0
        self._n_records = max(1, records.n_records)
        self._rate, self._user_rate = learning_rate, user_rate
        self._cell_items = cell_size(U.shape[1])
        self._engine = LocalEngine(workers)
        self._layout = Layout(
            records,
            U,
            V,
            reg * _per_record(records.user_counts(), USER_EXPONENT),
            reg * _per_record(records.item_counts(), ITEM_EXPONENT),
            parts=parts,
            seed=seed,
        )

    def _task(self, fade: float) -> tuple[Callable[..., Report], Any]:
        """The function of a task and its settings, at a share of the rate."""
        raise NotImplementedError

    def _pass(self, should_stop: Callable[[], bool]) -> Report:
        layout = self._layout
        layout.turn(self.epoch_number)
        if self.epoch_number > 0:
            layout.forget(KEPT)
        parts, blocks = layout.parts, layout.blocks(len(layout.parts))
        total = Report()
        for step, pairs in enumerate(schedule(len(parts))):
            progress = (self.epoch_number + step / len(parts)) / self.epochs
            task, settings = self._task(max(0.0, 1.0 - progress))
            reports = self._engine.run(
                task,
                [
                    (
                        parts[part],
                        blocks[block],
                        layout.plan.position,
                        settings,
                        task_key(layout.seed, self.epoch_number, part, block),
                    )
                    for part, block in pairs
                ],
            )
            total = sum(reports, total)
            if should_stop():
                break
        return total

    def factors(self) -> tuple[Floats, Floats]:
        """U and V in the order of the data."""
        return self._layout.rows()

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that a later start needs to go on with the same bits."""
        return self._layout.state() | {"epoch": np.array(self.epoch_number)}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state that `state` gave."""
        self._layout.restore(state)
        self.epoch_number = int(state["epoch"])


def _per_record(counts: NDArray[np.int64], exponent: float) -> Floats:
    """What one record of a row pays of the row's penalty."""
    each = np.maximum(counts, 1).astype(np.float32)
    return np.divide(row_weights(counts, exponent), each, dtype=np.float32)
