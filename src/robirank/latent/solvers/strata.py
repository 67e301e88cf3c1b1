"""What the solvers in strata share: the schedule of row-wise Adagrad, and the size of cells.

Users are cut once into parts. In every epoch the items are put in a new random order and cut into
as many blocks, and each part meets each block once; tasks that run side by side share no row, so
the bits do not depend on the number of threads (see `robirank.engine.strata`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank._types import Floats32, Ints32, Ints64
from robirank.engine.interface import Figures
from robirank.engine.state import (
    Block,
    FromCounts,
    FromMatrix,
    Part,
    Rows,
    StateArray,
    padded,
    zeros,
)
from robirank.latent.factors.factors import ITEMS, USERS, Factors, RandomRows
from robirank.latent.solvers.problem import Penalty, Problem

KEEP = 0.5  # the share of Adagrad's sums that the next epoch keeps: the first gradients are large
CELL_BYTES = 1 << 19  # rows of a cell: half of a usual second-level cache
MAX_CELL_ITEMS = 4096

#: The most that the native tasks take.
LIMITS = {"factors": 4096, "negatives": 1024, "max_trials": 1 << 20}

#: The figures of a pass that was stopped before its first task.
NO_FIGURES: Figures = {"done": 0, "loss": 0.0, "not_finite": 0}


#: The arrays that a task of a sweep changes, and those of the penalty.
CHANGED = ("U", "user_sums", "V", "item_sums")
PENALTY = ("user_penalty", "item_penalty")


@dataclass(frozen=True)
class StartRows:
    """Where the rows of both sides start."""

    users: Callable[[Sequence[Rows]], Sequence[NDArray[Any]]]
    items: Callable[[Sequence[Rows]], Sequence[NDArray[Any]]]

    @classmethod
    def of(cls, factors: Factors) -> StartRows:
        """Start from factors in the memory of this process."""
        return cls(FromMatrix(factors.users.rows), FromMatrix(factors.items.rows))

    @classmethod
    def random(cls, problem: Problem) -> StartRows:
        """Start from random rows, which any process can make for itself."""
        sizes, seed, d = problem.sizes, problem.seed, problem.factors
        return cls(
            RandomRows(seed, USERS, sizes.n_users, d), RandomRows(seed, ITEMS, sizes.n_items, d)
        )


def factor_arrays(problem: Problem, start: StartRows) -> list[StateArray]:
    """The arrays that all solvers in strata declare: factors, Adagrad's sums, penalties, counts."""
    d = problem.factors
    return [
        StateArray("U", "user", start.users, columns=d, saved_as="user_factors"),
        StateArray("user_sums", "user", zeros),
        StateArray("V", "item", start.items, columns=d, saved_as="item_factors"),
        StateArray("item_sums", "item", zeros),
        StateArray("item_counts", "item", FromCounts(_as_floats), is_constant=True),
        *penalty_arrays(problem.penalty),
    ]


def penalty_arrays(penalty: Penalty) -> list[StateArray]:
    """The shares of the rows' penalties that one interaction pays."""
    users, items = FromCounts(penalty.user_decay), FromCounts(penalty.item_decay)
    return [
        StateArray("user_penalty", "user", users, is_constant=True),
        StateArray("item_penalty", "item", items, is_constant=True),
    ]


def _as_floats(counts: Ints64) -> Floats32:
    return counts.astype(np.float32)


def adagrad_schedule(number: int, epochs: int, steps: int) -> list[tuple[float, float]]:
    """(share of the step size, share of Adagrad's sums to keep) for each sub-step of an epoch.

    The step size falls to zero over the epochs, in a straight line.

    Examples
    --------
    >>> adagrad_schedule(number=1, epochs=4, steps=2)
    [(0.75, 0.5), (0.625, 1.0)]
    """
    fades = [max(0.0, 1.0 - (number + step / steps) / epochs) for step in range(steps)]
    first = KEEP if number > 0 else 1.0
    return [(fade, first if step == 0 else 1.0) for step, fade in enumerate(fades)]


def keep_sums(part: Part, block: Block, share: float) -> None:
    """Keep a share of Adagrad's sums; in its first sub-step a sweep meets every row once."""
    if share != 1.0:
        part["user_sums"][:] *= np.float32(share)
        block["item_sums"][:] *= np.float32(share)


def check_limits(solver: str, **values: int) -> None:
    """Raise an error for a parameter that is larger than the native tasks can take."""
    for name, value in values.items():
        if value > LIMITS[name]:
            raise ValueError(
                f"{name} must be at most {LIMITS[name]} with the solver {solver!r}; got {value}"
            )


class AnyCentreRows(Protocol):
    """What the penalty pulls rows to, as the settings of a task name it: arrays, or their file."""

    def read(self) -> CentreRows:
        """The arrays."""


@dataclass(frozen=True, eq=False)
class CentreRows:
    """The rows that the penalty pulls users and items to, in the order of the data.

    None stands for zeros.
    """

    users: Floats32 | None
    items: Floats32 | None
    factors: int

    def read(self) -> CentreRows:
        """The arrays, which are here already."""
        return self

    def of_part(self, part: Part) -> Floats32:
        """The centres of the users of a part, padded as kernels ask for it."""
        centres = self._zeros(len(part.users))
        if self.users is not None:
            centres[:, : self.factors] = self.users[part.users]
        return centres

    def of_block(self, block: Block, position: Ints32) -> Floats32:
        """The centres of the items of a block, in its order."""
        centres, last = self._zeros(len(block)), block.first + len(block)
        if self.items is not None:
            items = np.flatnonzero((position >= block.first) & (position < last))
            centres[position[items] - block.first, : self.factors] = self.items[items]
        return centres

    def _zeros(self, n: int) -> Floats32:
        return np.zeros((n, padded(self.factors)), np.float32)


def task_rows(
    part: Part,
    block: Block,
    position: Ints32,
    weight: Floats32 | None,
    centres: AnyCentreRows | None = None,
) -> dict[str, Any]:
    """What the native tasks of all losses take: rows of both sides, and the interactions."""
    of_users = of_items = None
    if centres is not None:
        rows = centres.read()
        of_users, of_items = rows.of_part(part), rows.of_block(block, position)
    return {
        "users": _core.FactorRows(part["U"], part["user_sums"], part["user_penalty"], of_users),
        "items": _core.FactorRows(block["V"], block["item_sums"], block["item_penalty"], of_items),
        "user_items": _core.UserItems(
            indptr=part.interactions.indptr,
            items=part.interactions.items,
            weight=weight,
            n_items=len(position),
        ),
        "position": position,
        "first": block.first,
    }


def cell_size(factors: int) -> int:
    """Items a cell: as many as fit in half of a usual second-level cache.

    Examples
    --------
    >>> cell_size(64), cell_size(256)
    (2048, 512)
    """
    return int(np.clip(CELL_BYTES // (4 * padded(factors)), 64, MAX_CELL_ITEMS))
