r"""The exact ξ-step and the objective: inner sums over all items, one pass over the items a user.

With the scores of a user fixed, the inner sum of a record is a function of one number, the score
of its item. So a block of users is one matrix product, and the native grid then needs every score
once, however many records the user has (docs/method/latent.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from robirank import _core, losses
from robirank._threads import thread_count

__all__ = ["RecordArrays", "bound", "inner_sums", "objective", "xi_step"]

Factors = NDArray[np.float32]
Floats = NDArray[np.float64]

_USERS = 256  # of a block: with fewer, BLAS spends its time on packing V
_PAD = 48  # floats between rows: at a stride of a power of two all rows share a few cache lines
_RECORDS = 1 << 14  # whose two rows of factors are gathered at a time


class RecordArrays(Protocol):
    """Records as arrays: user x has ``items[indptr[x]:indptr[x + 1]]``, and perhaps weights."""

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where the records of each user begin, and the end."""

    @property
    def items(self) -> NDArray[np.int32]:
        """The item of each record."""

    @property
    def weight(self) -> NDArray[np.float32] | None:
        """The weight of each record; None means 1."""


def inner_sums(
    U: Factors,
    V: Factors,
    indptr: NDArray[np.int64],
    items: NDArray[np.int32],
    *,
    n_threads: int | None = None,
    block_bytes: int = 1 << 24,
) -> Floats:
    r"""The inner sum of every record, over all items.

    .. math:: t_{xy} = \sum_{y' \ne y} \log_2\big(1 + 2^{\langle U_x, V_{y'} - V_y \rangle}\big)

    The relative error of :math:`1 + t` is near 1e-7, at worst 1e-5. Users without records cost
    nothing.

    Parameters
    ----------
    U, V : float32 arrays of shape (n_users, d) and (n_items, d)
        Factors of users and items.
    indptr, items : arrays
        The records: user x has ``items[indptr[x]:indptr[x + 1]]``.
    n_threads : int, optional
        All cores by default; the result does not depend on it.
    block_bytes : int
        Memory that each thread may use for scores. It decides the blocks, and with them the last
        bits of the result.

    Returns
    -------
    float64 array, one value a record
        NaN for the records of users with a score that is not finite.

    References
    ----------
    Yun, Raman, Vishwanathan: Ranking via Robust Binary Classification. NeurIPS 2014, section 4.1.

    Examples
    --------
    One user likes item 1 of three; all scores are 0, and log2(1 + 2^0) = 1 for each other item.

    >>> U, V = np.zeros((1, 2), np.float32), np.ones((3, 2), np.float32)
    >>> inner_sums(U, V, np.array([0, 1]), np.array([1], np.int32)).round(6).tolist()
    [2.0]
    """
    t = np.empty(len(items))
    for own, sums in _sums_of_blocks(U, V, indptr, items, n_threads, block_bytes):
        t[own] = sums
    return t


def xi_step(t: ArrayLike) -> Floats:
    r"""The ξ-step: :math:`\xi_{xy} = 1 / (1 + t_{xy})` minimises the bound, record by record.

    Examples
    --------
    >>> xi_step([0.0, 3.0]).tolist()
    [1.0, 0.25]
    """
    return losses.xi(t)


def bound(t: ArrayLike, xi: ArrayLike, weight: ArrayLike | None = None) -> float:
    r"""The objective with the logarithm made linear, without the regulariser.

    .. math::
        L(U, V, \xi) = \sum_{(x,y) \in \Omega} w_{xy}
        \Big( -\log_2 \xi_{xy} + \frac{\xi_{xy} (1 + t_{xy}) - 1}{\ln 2} \Big)

    At least :math:`\sum w_{xy} \log_2(1 + t_{xy})` for every :math:`\xi > 0`, and equal to it after
    a ξ-step.

    Parameters
    ----------
    t, xi : array-like, one value a record
        The inner sums, and the auxiliary parameters ξ > 0.
    weight : array-like, optional
        Weights of the records.

    References
    ----------
    Yun, Raman, Vishwanathan: Ranking via Robust Binary Classification. NeurIPS 2014, section 4.1.

    Examples
    --------
    >>> bound([3.0], xi=[0.25])    # log2(1 + 3)
    2.0
    """
    step = np.asarray(xi, dtype=np.float64)
    if not (step > 0).all():
        raise ValueError(f"xi must be positive; the smallest is {step.min()}")
    return _weighted_sum(losses.xi_bound(t, step), weight)


def objective(
    U: Factors,
    V: Factors,
    records: RecordArrays,
    *,
    rho: losses.RhoName = "log",
    reg: float = 0.0,
    per_record: bool = False,
    n_threads: int | None = None,
) -> float:
    r"""The true loss of the factors: every item is in every inner sum.

    .. math::
        \sum_{(x,y) \in \Omega} w_{xy} \, \rho(t_{xy})
        + \frac{\lambda}{2} \big( \|U\|_F^2 + \|V\|_F^2 \big)

    Parameters
    ----------
    U, V : float32 arrays of shape (n_users, d) and (n_items, d)
        Factors of users and items.
    records : object with ``indptr``, ``items`` and ``weight``
        The records Ω and their weights (None: all are 1).
    rho : {"log", "identity", "type2"}
        RoBiRank, the basic model, or the bound that is tight to DCG.
    reg : float
        λ.
    per_record : bool
        Count a row's norm once for each of its records,
        :math:`\frac{\lambda}{2} \sum_{(x,y) \in \Omega} \|U_x\|^2 + \|V_y\|^2`, in place of once.
    n_threads : int, optional
        All cores by default; the result does not depend on it.

    References
    ----------
    Yun, Raman, Vishwanathan: Ranking via Robust Binary Classification. NeurIPS 2014, section 4.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> one = SimpleNamespace(indptr=np.array([0, 1]), items=np.array([1], np.int32), weight=None)
    >>> U, V = np.zeros((1, 2), np.float32), np.ones((4, 2), np.float32)
    >>> round(objective(U, V, one), 6)    # log2(1 + 3)
    2.0
    >>> round(objective(U, V, one, reg=1.0), 6)    # and ½ · 8
    6.0
    """
    if rho not in losses.RHOS:
        raise ValueError(f"rho must be one of {[*losses.RHOS]}; got {rho!r}")
    if not 0.0 <= reg < np.inf:
        raise ValueError(f"reg must be a finite number >= 0; got {reg!r}")
    if records.weight is not None and np.shape(records.weight) != np.shape(records.items):
        raise ValueError(
            f"weight must have one value for each of the {len(records.items)} records; "
            f"got shape {np.shape(records.weight)}"
        )
    transform = losses.RHOS[rho].value
    loss = 0.0
    blocks = _sums_of_blocks(U, V, records.indptr, records.items, n_threads, 1 << 24)
    for own, sums in blocks:
        weight = None if records.weight is None else records.weight[own]
        loss += _weighted_sum(transform(sums), weight)
    return loss + 0.5 * reg * _squared_norms(U, V, records, per_record) if reg else loss


def _squared_norms(U: Factors, V: Factors, records: RecordArrays, per_record: bool) -> float:
    of_users, of_items = _row_products(U, U), _row_products(V, V)
    if not per_record:
        return float(of_users.sum() + of_items.sum())
    on_items = np.bincount(records.items, minlength=len(V))
    return float(of_users @ np.diff(records.indptr) + of_items @ on_items)


def _weighted_sum(values: Floats, weight: ArrayLike | None) -> float:
    if weight is None:
        return float(values.sum())
    return float(np.dot(values, np.asarray(weight, dtype=np.float64)))


def _sums_of_blocks(
    U: Factors,
    V: Factors,
    indptr: NDArray[np.int64],
    items: NDArray[np.int32],
    n_threads: int | None,
    block_bytes: int,
) -> Iterator[tuple[slice, Floats]]:
    """The inner sums of one block of users after the other, and which records they belong to."""
    indptr, items = _checked(U, V, indptr, items)
    width = _block_width(block_bytes, len(V))
    active = np.flatnonzero(np.diff(indptr))
    blocks = (active[i : i + _USERS] for i in range(0, len(active), _USERS))
    sums_of = partial(_block_sums, U, V, indptr, items, width)
    # Blocks do not depend on the number of threads, and BLAS runs on one: the same bits always.
    with (
        threadpool_limits(1, user_api="blas"),
        ThreadPoolExecutor(thread_count(n_threads)) as threads,
    ):
        yield from threads.map(sums_of, blocks)


def _block_width(block_bytes: int, n_items: int) -> int:
    width = block_bytes // (_USERS * np.dtype(np.float32).itemsize) - _PAD
    if width < 1:
        raise ValueError(
            f"block_bytes must be at least {(_PAD + 1) * _USERS * 4}; got {block_bytes!r}"
        )
    return min(width, n_items)


def _block_sums(
    U: Factors,
    V: Factors,
    indptr: NDArray[np.int64],
    items: NDArray[np.int32],
    width: int,
    users: NDArray[np.int64],
) -> tuple[slice, Floats]:
    own = slice(int(indptr[users[0]]), int(indptr[users[-1] + 1]))
    offsets = np.append(indptr[users], own.stop) - own.start
    rows = U[users]
    points = _record_scores(rows, V, offsets, items[own])
    sums = _core.PointSums(offsets, points)
    memory = np.empty((len(users), width + _PAD), dtype=np.float32)
    for begin in range(0, len(V), width):
        block = V[begin : begin + width]
        sums.add(np.matmul(rows, block.T, out=memory[:, : len(block)]), 1)
    # The item itself added log2(1 + 2^0) = 1. NaN stays NaN.
    return own, np.maximum(sums.sums(1) - 1.0, 0.0)


def _record_scores(
    rows: Factors, V: Factors, offsets: NDArray[np.int64], items: NDArray[np.int32]
) -> NDArray[np.float32]:
    """⟨U_x, V_y⟩ of every record of a block of users."""
    row_of = np.repeat(np.arange(len(rows)), np.diff(offsets))
    scores = np.empty(len(items), dtype=np.float32)
    for begin in range(0, len(items), _RECORDS):
        own = slice(begin, begin + _RECORDS)
        scores[own] = _row_products(rows[row_of[own]], V[items[own]])
    return scores


def _row_products(A: Factors, B: Factors) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", A, B, dtype=np.float64))


def _checked(
    U: Factors, V: Factors, indptr: Any, items: Any
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    for name, factors in (("U", U), ("V", V)):
        if factors.ndim != 2 or factors.dtype != np.float32:
            raise ValueError(
                f"{name} must be a float32 matrix, one row for each user or item; "
                f"got {factors.dtype} of shape {factors.shape}"
            )
    if U.shape[1] != V.shape[1]:
        raise ValueError(f"U and V must be equally wide; got {U.shape[1]} and {V.shape[1]} columns")
    indptr = np.asarray(indptr, dtype=np.int64)
    items = np.asarray(items)
    if indptr.shape != (len(U) + 1,):
        raise ValueError(
            f"indptr must have {len(U) + 1} entries, one more than U has rows; "
            f"got shape {indptr.shape}"
        )
    if indptr[0] != 0 or indptr[-1] != len(items) or (np.diff(indptr) < 0).any():
        raise ValueError(f"indptr must rise from 0 to the number of records, {len(items)}")
    if len(items) and not (items.min() >= 0 and items.max() < len(V)):
        raise ValueError(
            f"items must be rows of V, 0 to {len(V) - 1}; "
            f"they run from {items.min()} to {items.max()}"
        )
    return indptr, items
