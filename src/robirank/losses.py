r"""The mathematics of the paper in one place: losses, transformations, and the loss of a list.

Everything here is plain NumPy, written in the order of the formulas. It is what the native kernel
is tested against, and what one reads to know what is computed. Logarithms are to base 2, as in
*Ranking via Robust Binary Classification* (Yun, Raman, Vishwanathan; NeurIPS 2014).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from robirank._checks import check_choice
from robirank._types import Floats64, Ints64
from robirank.errors import ArgumentError

RhoName = Literal["log", "identity", "type2"]

LN2 = float(np.log(2.0))


def sigma0(t: ArrayLike) -> Floats64:
    r"""Logistic loss, :math:`\sigma_0(t) = \log_2(1 + 2^{-t})` (paper, section 2).

    An upper bound of the 0-1 loss I(t < 0), convex, never overflows.

    Examples
    --------
    >>> sigma0([0.0, -1e6]).tolist()
    [1.0, 1000000.0]
    """
    return np.logaddexp2(0.0, -np.asarray(t, dtype=np.float64))


def sigma0_prime(t: ArrayLike) -> Floats64:
    r"""Derivative :math:`\sigma_0'(t) = -1 / (1 + 2^t)`.

    Examples
    --------
    >>> float(sigma0_prime(0.0))
    -0.5
    """
    return -np.asarray(expit(-np.asarray(t, dtype=np.float64) * LN2))


def rho1(t: ArrayLike) -> Floats64:
    r"""Type-I transformation, :math:`\rho_1(t) = \log_2(t + 1)` (paper, equation 2).

    Examples
    --------
    >>> rho1([0.0, 1.0, 3.0]).tolist()
    [0.0, 1.0, 2.0]
    """
    return np.log1p(np.asarray(t, dtype=np.float64)) / LN2


def rho1_prime(t: ArrayLike) -> Floats64:
    r"""Derivative :math:`\rho_1'(t) = 1 / (\ln 2 \, (t + 1))`.

    Examples
    --------
    >>> float(rho1_prime(0.0)) == 1 / LN2
    True
    """
    return 1.0 / (LN2 * (np.asarray(t, dtype=np.float64) + 1.0))


def _rho1_second(t: ArrayLike) -> Floats64:
    return -1.0 / (LN2 * (np.asarray(t, dtype=np.float64) + 1.0) ** 2)


def rho2(t: ArrayLike) -> Floats64:
    r"""Type-II transformation, :math:`\rho_2(t) = 1 - 1 / \log_2(t + 2)` (paper, equation 2).

    With t the rank of an item (from 0), :math:`1 - \rho_2(t)` is the discount of DCG.

    Examples
    --------
    >>> rho2([0.0, 2.0]).tolist()
    [0.0, 0.5]
    """
    # 1 - 1/L = (L - 1)/L, and L - 1 = log2(1 + t/2) keeps its digits where t is small.
    t = np.asarray(t, dtype=np.float64)
    above_one = np.log1p(t / 2.0) / LN2
    return above_one / (1.0 + above_one)


def rho2_prime(t: ArrayLike) -> Floats64:
    r"""Derivative :math:`\rho_2'(t) = 1 / (\ln 2 \, (t + 2) \log_2^2(t + 2))`.

    Examples
    --------
    >>> float(rho2_prime(0.0)) == 1 / (2 * LN2)
    True
    """
    t = np.asarray(t, dtype=np.float64)
    return 1.0 / (LN2 * (t + 2.0) * np.log2(t + 2.0) ** 2)


def _rho2_second(t: ArrayLike) -> Floats64:
    t = np.asarray(t, dtype=np.float64)
    log = np.log2(t + 2.0)
    return -(1.0 + 2.0 / (LN2 * log)) / (LN2 * ((t + 2.0) * log) ** 2)


def sigma1(t: ArrayLike) -> Floats64:
    r"""Type-I robust loss, :math:`\sigma_1(t) = \rho_1(\sigma_0(t))` (paper, equation 3).

    It grows without bound as :math:`t \to -\infty`, but its derivative vanishes.

    Examples
    --------
    >>> sigma1([0.0, -6.0]).round(2).tolist()
    [1.0, 2.81]
    """
    return rho1(sigma0(t))


def sigma1_prime(t: ArrayLike) -> Floats64:
    r"""Derivative :math:`\sigma_1'(t) = \rho_1'(\sigma_0(t))\,\sigma_0'(t)`.

    Examples
    --------
    >>> bool(abs(sigma1_prime(-100.0)) < abs(sigma1_prime(0.0)))
    True
    """
    return rho1_prime(sigma0(t)) * sigma0_prime(t)


def sigma2(t: ArrayLike) -> Floats64:
    r"""Type-II robust loss, :math:`\sigma_2(t) = \rho_2(\sigma_0(t))` (paper, equation 3).

    It converges to 1 as :math:`t \to -\infty`: the loss gives up on hopeless points.

    Examples
    --------
    >>> sigma2([0.0, -6.0, -60.0]).round(2).tolist()
    [0.37, 0.67, 0.83]
    """
    return rho2(sigma0(t))


def sigma2_prime(t: ArrayLike) -> Floats64:
    r"""Derivative :math:`\sigma_2'(t) = \rho_2'(\sigma_0(t))\,\sigma_0'(t)`.

    Examples
    --------
    >>> bool(abs(sigma2_prime(-100.0)) < abs(sigma1_prime(-100.0)))
    True
    """
    return rho2_prime(sigma0(t)) * sigma0_prime(t)


@dataclass(frozen=True)
class Rho:
    """A transformation ρ of a list's sum of losses, with its first two derivatives."""

    value: Callable[[ArrayLike], Floats64]
    prime: Callable[[ArrayLike], Floats64]
    second: Callable[[ArrayLike], Floats64]


RHOS: dict[RhoName, Rho] = {
    "log": Rho(rho1, rho1_prime, _rho1_second),
    "identity": Rho(
        lambda t: np.asarray(t, dtype=np.float64),
        lambda t: np.ones_like(np.asarray(t, dtype=np.float64)),
        lambda t: np.zeros_like(np.asarray(t, dtype=np.float64)),
    ),
    "type2": Rho(rho2, rho2_prime, _rho2_second),
}
"""``log`` is RoBiRank (Type-I), ``type2`` the bound tight to DCG, ``identity`` the basic model."""


def xi(t: ArrayLike) -> Floats64:
    r"""The ξ that makes the linear bound tight, :math:`\xi = 1 / (t + 1)` (paper, ξ-step).

    Examples
    --------
    >>> float(xi(3.0))
    0.25
    """
    return 1.0 / (np.asarray(t, dtype=np.float64) + 1.0)


def xi_bound(t: ArrayLike, xi: ArrayLike) -> Floats64:
    r"""Linear bound :math:`\rho_1(t) \le -\log_2 \xi + (\xi (t + 1) - 1) / \ln 2` (equation 13).

    It holds for every :math:`\xi > 0`, with equality at :math:`\xi = 1 / (t + 1)`.

    Examples
    --------
    >>> float(xi_bound(3.0, 0.25)), float(rho1(3.0))
    (2.0, 2.0)
    """
    t = np.asarray(t, dtype=np.float64)
    xi = np.asarray(xi, dtype=np.float64)
    return -np.log2(xi) + (xi * (t + 1.0) - 1.0) / LN2


def rank(scores: ArrayLike) -> Ints64:
    r"""Rank of every item of one list, counted from 0: how many others score strictly more.

    .. math:: \mathrm{rank}(y) = \sum_{y' \ne y} I(s_y - s_{y'} < 0)   \qquad (\text{equation 4})

    Examples
    --------
    >>> rank([0.3, 0.9, 0.3]).tolist()
    [1, 0, 1]
    """
    s = np.asarray(scores, dtype=np.float64)
    return len(s) - np.searchsorted(np.sort(s), s, side="right")


def rank_loss(scores: ArrayLike, weights: ArrayLike, rho: RhoName = "type2") -> float:
    r"""Discrete loss of one list, :math:`\sum_y w_y \, \rho(\mathrm{rank}(y))`.

    With ``rho="type2"`` this is the paper's L₂ (equation 9): the best possible sum of weights
    minus DCG. With ``rho="identity"`` it is the basic model's L (equation 5).

    Examples
    --------
    >>> rank_loss([2.0, 1.0, 0.0], weights=[0.0, 0.0, 3.0])    # 3 - 3 / log2(4)
    1.5
    """
    s, w = _checked(scores, weights)
    return float(np.dot(w, _named(rho).value(rank(s))))


def _checked(scores: ArrayLike, weights: ArrayLike) -> tuple[Floats64, Floats64]:
    s = np.asarray(scores, dtype=np.float64)
    w = np.asarray(weights, dtype=np.float64)
    if s.ndim != 1 or s.shape != w.shape:
        raise ValueError(
            "scores and weights must be one-dimensional and of one length; "
            f"got shapes {s.shape} and {w.shape}"
        )
    if not (w >= 0).all():
        raise ArgumentError("weights", f"must be ≥ 0; the smallest is {w.min()}")
    return s, w


def _named(rho: RhoName) -> Rho:
    check_choice("rho", rho, RHOS)
    return RHOS[rho]


@dataclass(frozen=True)
class ListLoss:
    """Loss of one list with its derivatives by the scores.

    Attributes
    ----------
    loss : float
        Σ_y w_y ρ(t_y).
    gradient : array of shape (n_items,)
        Derivative of the loss by every score.
    hessian : array of shape (n_items,)
        Diagonal of the Hessian; entries may be negative, because ρ is concave.
    majorant : array of shape (n_items,)
        Diagonal of the Hessian of the bound that is linear in t (ξ fixed at its best value): the
        Hessian without the term in ρ″. Never negative, hence what boosters should use.
    t : array of shape (n_items,)
        The inner sums; 0 for items without a weight, whose sums do not enter the loss.
    """

    loss: float
    gradient: Floats64
    hessian: Floats64
    majorant: Floats64
    t: Floats64


def list_loss(scores: ArrayLike, weights: ArrayLike, rho: RhoName = "log") -> ListLoss:
    r"""Loss of one list of items, with gradient and diagonal Hessian (paper, equation 11).

    .. math::
        \sum_y w_y \, \rho\Big(\underbrace{\sum_{y' \ne y} \sigma_0(s_y - s_{y'})}_{t_y}\Big),
        \qquad w_y = c_x \, v(W_{xy})

    Only items with :math:`w_y > 0` are outer terms; the inner sum runs over every other item.

    Parameters
    ----------
    scores : array-like of shape (n_items,)
        The scores of the items of one context.
    weights : array-like of shape (n_items,)
        :math:`c_x v(W_{xy}) \ge 0`.
    rho : {"log", "identity", "type2"}
        The transformation of the inner sum.

    Examples
    --------
    >>> one_pair = list_loss([0.0, 0.0], weights=[1.0, 0.0])    # log2(1 + σ0(0)) = log2(2)
    >>> one_pair.loss, one_pair.gradient.round(4).tolist()
    (1.0, [-0.3607, 0.3607])
    """
    s, w = _checked(scores, weights)
    transform = _named(rho)
    relevant = np.flatnonzero(w > 0)
    difference = s[relevant, None] - s[None, :]
    other = np.arange(len(s))[None, :] != relevant[:, None]

    terms = np.where(other, sigma0(difference), 0.0)
    h = np.where(other, -sigma0_prime(difference), 0.0)  # ∂t_y/∂s_y' for y' ≠ y
    h_prime = LN2 * h * (1.0 - h)
    inner = terms.sum(axis=1)
    h_sum = h.sum(axis=1)  # −∂t_y/∂s_y

    rho_weight = w[relevant] * transform.prime(inner)
    rho_curvature = w[relevant] * transform.second(inner)

    gradient = rho_weight @ h
    np.subtract.at(gradient, relevant, rho_weight * h_sum)
    majorant = rho_weight @ h_prime
    np.add.at(majorant, relevant, rho_weight * h_prime.sum(axis=1))
    hessian = majorant + rho_curvature @ h**2
    np.add.at(hessian, relevant, rho_curvature * h_sum**2)

    t = np.zeros_like(s)
    t[relevant] = inner
    loss = float(np.dot(w[relevant], transform.value(inner)))
    return ListLoss(loss, gradient, hessian, majorant, t)
