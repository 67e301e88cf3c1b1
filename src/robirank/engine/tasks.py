"""The tasks of the stratified algorithm: pure functions of a part, a block and numbers.

A `Part` owns what belongs to its users (rows of U, records, slopes) and never leaves its worker; a
`Block` of V travels. A task changes only the rows of the two it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank.losses import RHOS, RhoName

__all__ = [
    "Block",
    "Part",
    "Report",
    "Steps",
    "WarpSteps",
    "empty_rows",
    "padded",
    "uv_task",
    "warp_task",
    "xi_task",
]

Floats = NDArray[np.float32]

ROW_UNIT = 16  # floats; rows of factors are padded to a multiple, which the kernel asks for
CELL_BYTES = 1 << 19  # rows of a cell: half of a usual second-level cache
MAX_CELL_ITEMS = 4096
SCORES_AT_ONCE = 1 << 21  # of a chunk of users, 8 MB


@dataclass
class Part:
    """What belongs to one part of the users; user i of the part is user ``users[i]`` of the data.

    Attributes
    ----------
    users : array of shape (n,)
        The users of the part.
    indptr, items, weight
        Their records in CSR form; no weight: all 1.
    U, acc : arrays of shapes (n, width) and (n,)
        Their rows of U, padded with zeros, and Adagrad's sums.
    slope : array of shape (n_records,)
        weight · ρ'(t) of each record.
    """

    users: NDArray[np.int32]
    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    weight: Floats | None
    U: Floats
    acc: Floats
    slope: Floats


@dataclass
class Block:
    """Rows of V that stand together in the epoch's order, from place ``first`` on."""

    first: int
    V: Floats
    acc: Floats
    popularity: Floats


@dataclass(frozen=True)
class Steps:
    """How the (U,V)-step of RoBiRank moves."""

    factors: int
    negatives: int
    rate_u: float
    rate_v: float
    reg: float
    literal: bool


@dataclass(frozen=True)
class WarpSteps:
    """How WARP moves; ``weight_after[n]`` is Φ(rank) where the n-th trial found a violator."""

    factors: int
    weight_after: Floats
    margin: float
    rate_u: float
    rate_v: float
    reg: float


@dataclass(frozen=True)
class Report:
    """What a task has to say: sampled items, its estimate of the loss, steps left out."""

    draws: int = 0
    loss: float = 0.0
    not_finite: int = 0

    def __add__(self, other: Report) -> Report:
        return Report(
            self.draws + other.draws,
            self.loss + other.loss,
            self.not_finite + other.not_finite,
        )


def padded(factors: int) -> int:
    """Floats a row: a multiple of what the kernel handles at once."""
    return -(-factors // ROW_UNIT) * ROW_UNIT


def empty_rows(n: int, factors: int) -> Floats:
    """Rows of zeros, padded, each beginning on a cache line."""
    width = padded(factors)
    memory = np.zeros(n * width + ROW_UNIT, dtype=np.float32)
    begin = -memory.ctypes.data % 64 // 4
    return memory[begin : begin + n * width].reshape(n, width)


def uv_task(
    part: Part, block: Block, position: NDArray[np.int32], steps: Steps, key: int
) -> Report:
    """Visit once every record of the part whose item lies in the block (RoBiRank)."""
    return Report(
        *_core.sgd_task(
            part.U,
            part.acc,
            part.indptr,
            part.items,
            part.slope,
            block.V,
            block.acc,
            position,
            block.first,
            block.popularity,
            _cell_items(part.U),
            steps.factors,
            steps.negatives,
            steps.rate_u,
            steps.rate_v,
            steps.reg,
            steps.literal,
            key,
        )
    )


def warp_task(
    part: Part, block: Block, position: NDArray[np.int32], steps: WarpSteps, key: int
) -> Report:
    """Visit once every record of the part whose item lies in the block (WARP)."""
    return Report(
        *_core.warp_task(
            part.U,
            part.acc,
            part.indptr,
            part.items,
            part.weight,
            block.V,
            block.acc,
            position,
            block.first,
            steps.weight_after,
            _cell_items(part.U),
            steps.factors,
            steps.margin,
            steps.rate_u,
            steps.rate_v,
            steps.reg,
            key,
        )
    )


def _cell_items(rows: Floats) -> int:
    return int(np.clip(CELL_BYTES // (4 * rows.shape[1]), 64, MAX_CELL_ITEMS))


# ------------------------------------------------------------------------------ the ξ-step


def xi_task(
    part: Part,
    blocks: Sequence[Block],
    position: NDArray[np.int32],
    users: slice,
    rho: RhoName,
) -> float:
    """The ξ-step of some users of the part: set the slopes of their records from the exact t_xy.

    .. math:: t_{xy} = \\sum_{y' \\ne y} \\sigma_0(s_{xy} - s_{xy'})

    The blocks of V visit twice: once for the scores s_xy of the records, once for the sums, so
    that all of V need never be in one place. Returns the users' part of the loss, Σ weight · ρ(t).
    """
    first, last = part.indptr[users.start], part.indptr[users.stop]
    indptr = part.indptr[users.start : users.stop + 1] - first
    records = slice(first, last)
    scores = np.empty(last - first, dtype=np.float32)
    t = np.full(last - first, -1.0)  # the sums below hold the term of y itself, σ0(0) = 1
    for block in blocks:
        _core.record_scores(
            part.U[users], indptr, part.items[records], block.V, position, block.first, scores
        )
    for block in blocks:
        _add_sums(part.U[users], block.V, indptr, scores, t)
    np.maximum(t, 0.0, out=t)
    slope, loss = RHOS[rho].prime(t), RHOS[rho].value(t)
    if part.weight is not None:
        slope *= part.weight[records]
        loss *= part.weight[records]
    part.slope[records] = slope
    return float(loss.sum())


def _add_sums(
    U: Floats,
    V: Floats,
    indptr: NDArray[np.int64],
    scores: Floats,
    t: NDArray[np.float64],
) -> None:
    at_once = max(1, SCORES_AT_ONCE // len(V))
    for begin in range(0, len(U), at_once):
        offsets = indptr[begin : begin + at_once + 1]
        own = slice(offsets[0], offsets[-1])
        if own.start < own.stop:
            products = U[begin : begin + at_once] @ V.T
            _core.point_sums(products, offsets - own.start, scores[own], t[own], 1)
