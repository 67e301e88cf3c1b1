"""The tasks of the stratified algorithm: pure functions of a part, a block and numbers.

A `Part` owns what belongs to its users (rows of U, records, slopes) and never leaves its worker; a
`Block` of V travels. A task changes only the rows of the two it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank.losses import RHOS, RhoName

__all__ = [
    "Block",
    "Part",
    "Report",
    "Steps",
    "Task",
    "WarpSteps",
    "XiReport",
    "cell_size",
    "drift_task",
    "empty_rows",
    "padded",
    "squares",
    "uv_task",
    "warp_task",
    "xi_task",
]

Floats = NDArray[np.float32]

ROW_UNIT = 16  # floats; rows of factors are padded to a multiple, which the kernel asks for
CELL_BYTES = 1 << 19  # rows of a cell: half of a usual second-level cache
MAX_CELL_ITEMS = 4096


@dataclass
class Part:
    """What belongs to one part of the users; user i of the part is user ``users[i]`` of the data.

    Attributes
    ----------
    users : array of shape (n,)
        The users of the part.
    indptr, items, weight
        Their records in CSR form; no weight: all 1.
    U, acc, decay : arrays of shapes (n, width), (n,) and (n,)
        Their rows of U, padded with zeros, Adagrad's sums, and what each record of a row pays of
        the row's penalty.
    slope : array of shape (n_records,)
        weight · ρ'(t) of each record.
    """

    users: NDArray[np.int32]
    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    weight: Floats | None
    U: Floats
    acc: Floats
    decay: Floats
    slope: Floats


@dataclass
class Block:
    """Rows of V that stand together in the epoch's order, from place ``first`` on."""

    first: int
    V: Floats
    acc: Floats
    decay: Floats
    popularity: Floats


@dataclass(frozen=True)
class Steps:
    """How the (U,V)-step of RoBiRank moves."""

    factors: int
    negatives: int
    rate_u: float
    rate_v: float
    cell_items: int


@dataclass(frozen=True)
class WarpSteps:
    """How WARP moves; ``weight_after[n]`` is Φ(rank) where the n-th trial found a violator."""

    factors: int
    weight_after: Floats
    margin: float
    rate_u: float
    rate_v: float
    cell_items: int


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


#: What visits the records of a part in a block: `uv_task` or `warp_task`.
Task = Callable[[Part, Block, NDArray[np.int32], Any, int], Report]


def squares(rows: Floats) -> float:
    """The sum of squares, in double precision."""
    return float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))


def padded(factors: int) -> int:
    """Floats a row: a multiple of what the kernel handles at once."""
    return -(-factors // ROW_UNIT) * ROW_UNIT


def empty_rows(n: int, factors: int) -> Floats:
    """Rows of zeros, padded, each beginning on a cache line."""
    width = padded(factors)
    memory = np.zeros(n * width + ROW_UNIT, dtype=np.float32)
    begin = -memory.ctypes.data % 64 // 4
    return memory[begin : begin + n * width].reshape(n, width)


def cell_size(factors: int) -> int:
    """Items a cell: as many as fit in half of a usual second-level cache.

    Examples
    --------
    >>> cell_size(64), cell_size(256)
    (2048, 512)
    """
    return int(np.clip(CELL_BYTES // (4 * padded(factors)), 64, MAX_CELL_ITEMS))


def uv_task(
    part: Part, block: Block, position: NDArray[np.int32], steps: Steps, key: int
) -> Report:
    """Visit once every record of the part whose item lies in the block (RoBiRank)."""
    return Report(
        *_core.sgd_task(
            users=_core.FactorRows(part.U, part.acc, part.decay),
            items=_core.FactorRows(block.V, block.acc, block.decay),
            records=_core.Records(
                indptr=part.indptr, items=part.items, weight=part.slope, n_items=len(position)
            ),
            popularity=block.popularity,
            position=position,
            first=block.first,
            steps=_core.SgdSteps(**vars(steps)),
            key=key,
        )
    )


def warp_task(
    part: Part, block: Block, position: NDArray[np.int32], steps: WarpSteps, key: int
) -> Report:
    """Visit once every record of the part whose item lies in the block (WARP)."""
    return Report(
        *_core.warp_task(
            users=_core.FactorRows(part.U, part.acc, part.decay),
            items=_core.FactorRows(block.V, block.acc, block.decay),
            records=_core.Records(
                indptr=part.indptr, items=part.items, weight=part.weight, n_items=len(position)
            ),
            position=position,
            first=block.first,
            steps=_core.WarpSteps(**vars(steps)),
            key=key,
        )
    )


# ------------------------------------------------------------------------------ the ξ-step


@dataclass(frozen=True)
class XiReport:
    """What a ξ-step has to say of the records it renewed.

    Attributes
    ----------
    records : int
    loss : float
        Σ weight · ρ(t).
    drift : float
        Σ log(new slope / old slope).
    """

    records: int = 0
    loss: float = 0.0
    drift: float = 0.0

    def __add__(self, other: XiReport) -> XiReport:
        return XiReport(
            self.records + other.records, self.loss + other.loss, self.drift + other.drift
        )


def xi_task(
    part: Part,
    blocks: Iterable[Block],
    position: NDArray[np.int32],
    users: slice,
    rho: RhoName,
) -> XiReport:
    r"""The ξ-step of some users of the part: set the slopes of their records from the exact t_xy.

    .. math:: t_{xy} = \sum_{y' \ne y} \sigma_0(s_{xy} - s_{xy'})

    The blocks of V visit twice: once for the scores s_xy of the records, once for the sums, so
    that all of V need never be in one place.
    """
    indptr, records = _own(part, users)
    scores = np.empty(records.stop - records.start, dtype=np.float32)
    own = _core.Records(indptr=indptr, items=part.items[records], n_items=len(position))
    for block in blocks:
        _core.record_scores(
            U=part.U[users],
            V=block.V,
            records=own,
            position=position,
            first=block.first,
            out=scores,
        )
    t = _inner_sums(part.U[users], blocks, indptr, scores)
    slope, loss = RHOS[rho].prime(t), RHOS[rho].value(t)
    if part.weight is not None:
        slope *= part.weight[records]
        loss *= part.weight[records]
    old = part.slope[records]
    moved = np.log(slope, where=old > 0, out=np.zeros_like(t))
    moved -= np.log(old, where=old > 0, out=np.zeros_like(old))
    part.slope[records] = slope
    return XiReport(len(t), float(loss.sum()), float(moved.sum()))


def drift_task(part: Part, users: slice, factor: float) -> None:
    """Multiply the slopes of all records of the part by a factor, but for those of some users."""
    _, records = _own(part, users)
    part.slope[: records.start] *= np.float32(factor)
    part.slope[records.stop :] *= np.float32(factor)


def _own(part: Part, users: slice) -> tuple[NDArray[np.int64], slice]:
    """Where the records of some users begin among their own, and which those are."""
    indptr = part.indptr[users.start : users.stop + 1]
    return indptr - indptr[0], slice(int(indptr[0]), int(indptr[-1]))


def _inner_sums(
    U: Floats, blocks: Iterable[Block], indptr: NDArray[np.int64], scores: Floats
) -> NDArray[np.float64]:
    active = np.flatnonzero(np.diff(indptr))
    sums = _core.InnerSums(U[active], np.append(indptr[active], len(scores)), scores)
    for block in blocks:
        sums.add(block.V)
    return np.maximum(sums.sums() - 1.0, 0.0)  # without the term of y itself, σ0(0) = 1
