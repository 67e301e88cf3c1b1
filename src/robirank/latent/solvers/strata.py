"""What the solvers in strata share: the schedule of row-wise Adagrad, and the size of cells.

Users are cut once into parts. In every epoch the items are put in a new random order and cut into
as many blocks, and each part meets each block once; tasks that run side by side share no row, so
the bits do not depend on the number of threads (see `robirank.engine.strata`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
    ZeroRows,
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


#: The arrays that a task of a sweep changes, those of the penalty, and those of its centres.
CHANGED = ("U", "user_sums", "V", "item_sums")
PENALTY = ("user_penalty", "item_penalty")
CENTRES = ("user_centre", "item_centre")


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
        *(centre_arrays(d) if problem.has_features else []),
    ]


def penalty_arrays(penalty: Penalty) -> list[StateArray]:
    """The shares of the rows' penalties that one interaction pays."""
    users, items = FromCounts(penalty.user_decay), FromCounts(penalty.item_decay)
    return [
        StateArray("user_penalty", "user", users, is_constant=True),
        StateArray("item_penalty", "item", items, is_constant=True),
    ]


def centre_arrays(
    factors: int, user_centres: Floats32 | None = None, item_centres: Floats32 | None = None
) -> list[StateArray]:
    """The rows that the penalty pulls to; zeros for None."""
    users, items = (
        ZeroRows(factors) if rows is None else FromMatrix(rows)
        for rows in (user_centres, item_centres)
    )
    return [
        StateArray("user_centre", "user", users, columns=factors, is_constant=True),
        StateArray("item_centre", "item", items, columns=factors, is_constant=True),
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


def task_rows(
    part: Part, block: Block, position: Ints32, weight: Floats32 | None
) -> dict[str, Any]:
    """What the native tasks of all losses take: rows of both sides, and the interactions."""
    return {
        "users": _core.FactorRows(
            part["U"], part["user_sums"], part["user_penalty"], part.get("user_centre")
        ),
        "items": _core.FactorRows(
            block["V"], block["item_sums"], block["item_penalty"], block.get("item_centre")
        ),
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
