r"""The objective of given factors, with every item in every inner sum.

With the scores of a user fixed, the inner sum of an interaction is a function of one number, the
score of its item. So the native grid needs every score once, however many interactions the user
has, and counts it while the next ones are multiplied (docs/method/latent.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from robirank import _core, losses
from robirank._types import Floats32, Floats64, Ints32, Ints64
from robirank._workers import Workers
from robirank.data.user_items import UserItems
from robirank.errors import ArgumentError
from robirank.latent.factors.factors import Factors
from robirank.latent.solvers.problem import Penalty

_Result = TypeVar("_Result")

_USERS = 512  # of a batch: V is packed once for them
_INTERACTIONS = 1 << 14  # whose two rows of factors are gathered at a time


def inner_sums(
    U: Floats32,
    V: Floats32,
    indptr: Ints64,
    items: Ints32,
    *,
    num_threads: int = 0,
) -> Floats64:
    r"""The inner sum of every interaction, over all items.

    .. math:: t_{xy} = \sum_{y' \ne y} \log_2\big(1 + 2^{\langle U_x, V_{y'} - V_y \rangle}\big)

    The relative error of :math:`1 + t` is near 1e-7, at worst 1e-5. Users without interactions cost
    nothing.

    Parameters
    ----------
    U, V : float32 arrays of shape (n_users, d) and (n_items, d)
        Factors of users and items.
    indptr, items : arrays
        The interactions: user x has ``items[indptr[x]:indptr[x + 1]]``.
    num_threads : int, default=0
        0: every core; the result does not depend on it.

    Returns
    -------
    float64 array, one value an interaction
        NaN for the interactions of users with a score that is not finite.

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

    def keep(where: slice, sums: Floats64) -> None:
        t[where] = sums

    _for_each_batch(keep, U, V, indptr, items, num_threads)
    return t


def bound(t: ArrayLike, xi: ArrayLike, weight: ArrayLike | None = None) -> float:
    r"""The objective with the logarithm made linear, without the regulariser.

    .. math::
        L(U, V, \xi) = \sum_{(x,y) \in \Omega} w_{xy}
        \Big( -\log_2 \xi_{xy} + \frac{\xi_{xy} (1 + t_{xy}) - 1}{\ln 2} \Big)

    At least :math:`\sum w_{xy} \log_2(1 + t_{xy})` for every :math:`\xi > 0`, and equal to it after
    a ξ-step.

    Parameters
    ----------
    t, xi : array-like, one value an interaction
        The inner sums, and the auxiliary parameters ξ > 0.
    weight : array-like, optional
        Weights of the interactions.

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
    terms = losses.xi_bound(t, step)
    return float(terms.sum() if weight is None else np.dot(terms, np.asarray(weight, np.float64)))


def objective(
    factors: Factors,
    interactions: UserItems,
    *,
    rho: losses.RhoName = "log",
    penalty: Penalty | None = None,
    num_threads: int = 0,
) -> float:
    r"""The true loss of the factors: every item is in every inner sum.

    .. math::
        \sum_{(x,y) \in \Omega} w_{xy} \, \rho(t_{xy})
        + \frac{\lambda}{2} \Big( \sum_x a_x \|U_x\|^2 + \sum_y b_y \|V_y\|^2 \Big)

    Parameters
    ----------
    factors : Factors
    interactions : UserItems
        The pairs Ω and their weights.
    rho : {"log", "identity", "type2"}
        RoBiRank, the basic model, or the bound that is tight to DCG.
    penalty : Penalty, optional
        λ and the weights a and b of the rows; none by default.
    num_threads : int, default=0
        0: every core; the result does not depend on it.

    References
    ----------
    Yun, Raman, Vishwanathan: Ranking via Robust Binary Classification. NeurIPS 2014, section 4.

    Examples
    --------
    >>> from robirank.latent.factors.factors import Side
    >>> pair = UserItems(np.array([0, 1]), np.array([1], np.int32), None, 4)
    >>> flat = Factors(Side(np.zeros((1, 2), np.float32)), Side(np.ones((4, 2), np.float32)))
    >>> round(objective(flat, pair), 6)    # log2(1 + 3)
    2.0
    >>> penalty = Penalty.of_counts(1.0, pair.user_counts(), pair.item_counts())
    >>> round(objective(flat, pair, penalty=penalty), 6)    # and ½ · ‖V_1‖² = 1
    3.0
    """
    if rho not in losses.RHOS:
        raise ArgumentError("rho", f"must be one of {[*losses.RHOS]}; got {rho!r}")
    transform = losses.RHOS[rho].value

    def loss_of(where: slice, sums: Floats64) -> float:
        return float(transform(sums) @ interactions.weights_of(where))

    U, V = factors.users.rows, factors.items.rows
    total = sum(
        _for_each_batch(loss_of, U, V, interactions.indptr, interactions.items, num_threads)
    )
    if penalty is None:
        return total
    return total + penalty.value(factors, interactions.user_counts(), interactions.item_counts())


def _for_each_batch(
    use: Callable[[slice, Floats64], _Result],
    U: Floats32,
    V: Floats32,
    indptr: Ints64,
    items: Ints32,
    num_threads: int,
) -> list[_Result]:
    """Hand the inner sums of each batch of users to `use`, with the interactions they belong to."""
    indptr, items = _checked(U, V, indptr, items)
    V = np.ascontiguousarray(V)
    active = np.flatnonzero(np.diff(indptr))

    def work(begin: int) -> _Result:
        users = active[begin : begin + _USERS]
        where = slice(int(indptr[users[0]]), int(indptr[users[-1] + 1]))
        offsets = np.append(indptr[users], where.stop) - where.start
        return use(where, _batch_sums(U[users], V, offsets, items[where]))

    with Workers(num_threads) as workers:
        return workers.map(work, range(0, len(active), _USERS))


def _batch_sums(rows: Floats32, V: Floats32, offsets: Ints64, items: Ints32) -> Floats64:
    sums = _core.InnerSums(rows, offsets, _interaction_scores(rows, V, offsets, items))
    sums.add(V)
    # The item itself added log2(1 + 2^0) = 1. NaN stays NaN.
    return np.maximum(sums.sums() - 1.0, 0.0)


def _interaction_scores(rows: Floats32, V: Floats32, offsets: Ints64, items: Ints32) -> Floats32:
    """⟨U_x, V_y⟩ of every interaction of a batch of users."""
    row_of = np.repeat(np.arange(len(rows)), np.diff(offsets))
    scores = np.empty(len(items), dtype=np.float32)
    for begin in range(0, len(items), _INTERACTIONS):
        where = slice(begin, begin + _INTERACTIONS)
        scores[where] = np.einsum("ij,ij->i", rows[row_of[where]], V[items[where]])
    return scores


def _checked(U: Floats32, V: Floats32, indptr: Any, items: Any) -> tuple[Ints64, Ints32]:
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
        raise ValueError(f"indptr must rise from 0 to the number of interactions, {len(items)}")
    if len(items) and not (items.min() >= 0 and items.max() < len(V)):
        raise ValueError(
            f"items must be rows of V, 0 to {len(V) - 1}; "
            f"they run from {items.min()} to {items.max()}"
        )
    return indptr, items
