"""What the solvers in strata share: the schedule of row-wise Adagrad, and the size of cells.

Users are cut once into parts. In every epoch the items are put in a new random order and cut into
as many blocks, and each part meets each block once; tasks that run side by side share no row, so
the bits do not depend on the number of threads (see `robirank.engine.strata`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from robirank import _core
from robirank._types import Floats32, Ints32
from robirank.engine.interface import Figures
from robirank.engine.parts import Block, Part, padded

KEPT = 0.5  # of Adagrad's sums from one epoch to the next, because the first gradients are large
CELL_BYTES = 1 << 19  # rows of a cell: half of a usual second-level cache
MAX_CELL_ITEMS = 4096

#: The most that the native tasks take.
LIMITS = {"factors": 4096, "negatives": 1024, "max_trials": 1 << 20}

#: The figures of a pass that was stopped before its first task.
NO_FIGURES: Figures = {"done": 0, "loss": 0.0, "not_finite": 0}


def adagrad_schedule(number: int, epochs: int, steps: int) -> list[tuple[float, float]]:
    """(share of the step size, share of Adagrad's sums to keep) for each sub-step of an epoch.

    The step size falls to zero over the epochs, in a straight line.

    Examples
    --------
    >>> adagrad_schedule(number=1, epochs=4, steps=2)
    [(0.75, 0.5), (0.625, 1.0)]
    """
    fades = [max(0.0, 1.0 - (number + step / steps) / epochs) for step in range(steps)]
    first = KEPT if number > 0 else 1.0
    return [(fade, first if step == 0 else 1.0) for step, fade in enumerate(fades)]


def keep_sums(part: Part, block: Block, share: float) -> None:
    """Keep a share of Adagrad's sums; in its first sub-step a sweep meets every row once."""
    if share != 1.0:
        part.sums *= np.float32(share)
        block.sums *= np.float32(share)


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
    """What the native tasks of all losses take: rows of both sides, and the part's records."""
    return {
        "users": _core.FactorRows(part.U, part.sums, part.decay),
        "items": _core.FactorRows(block.V, block.sums, block.decay),
        "records": _core.Records(
            indptr=part.indptr, items=part.items, weight=weight, n_items=len(position)
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
