"""Minimise α/2 ‖w‖² + R(w) for a convex risk R with corners: the bundle method.

Every evaluation of R gives a plane that lies below it. The maximum over the planes, together with
the penalty, is a model of the objective that lies below it too. The model is minimised by a small
quadratic program. The objective of the best point seen exceeds the minimum by no more than it
exceeds that of the model; this difference, the duality gap, says when to stop.

References
----------
Teo, Vishwanathan, Smola, Le: Bundle Methods for Regularized Risk Minimization. JMLR 2010.
Franc, Sonnenburg: Optimized Cutting Plane Algorithm for Support Vector Machines. ICML 2008 (why
evaluating near the best point, and not only at the model's minimum, saves so many planes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robirank._types import Floats64

Risk = Callable[[Floats64], tuple[float, Floats64]]

#: Every second evaluation is so far on the way from the best point to the model's minimum.
_SHORT_STEP = 0.1

#: Reductions of the objective below this share of what is possible are taken for zero.
_NO_GAIN = 1e-3


def stopping_rule(
    at_zero: float, gradient: Floats64, alpha: float, tol: float
) -> Callable[[float, float], bool]:
    """Whether to stop: the gap is at most ``tol`` times the reduction of the objective since w = 0.

    Where w = 0 is the minimum, there never is a reduction. So it counts for at least a small share
    of the largest that ``at_zero`` and ``gradient``, the risk at w = 0 and a subgradient, allow.
    """
    most = float(gradient @ gradient) / (2.0 * alpha)
    least_gain = _NO_GAIN * min(most, max(1.0, abs(at_zero)))
    return lambda gap, objective: gap <= tol * max(at_zero - objective, least_gain)


class BundleResult(NamedTuple):
    """The best point seen, its objective, and the most by which the minimum can be lower."""

    w: Floats64
    objective: float
    gap: float
    n_iter: int
    converged: bool


class Bundle:
    """Planes below a convex risk, which maps w to R(w) and a subgradient; α must be above 0."""

    def __init__(self, risk: Risk, n_features: int, alpha: float) -> None:
        self._risk = risk
        self._alpha = alpha
        self._gradients: list[Floats64] = []
        self._offsets: list[float] = []
        self.at_zero = self._evaluate(np.zeros(n_features))

    def _evaluate(self, w: Floats64) -> float:
        """Return R(w) and keep the plane that touches it there."""
        value, gradient = self._risk(w)
        self._gradients.append(gradient)
        self._offsets.append(value - float(gradient @ w))
        return value

    def minimize(
        self,
        *,
        max_iter: int,
        tol: float,
        start: Floats64 | None = None,
        reward: Floats64 | None = None,
        report: Callable[[Floats64, float], None] | None = None,
    ) -> BundleResult:
        """Minimise α/2 ‖w‖² − ⟨reward, w⟩ + R(w); planes of earlier calls are used again.

        An iteration is an evaluation of the risk; ``report`` is given the best point and its
        objective after each.
        """
        n_features = len(self._gradients[0])
        tilt = np.zeros(n_features) if reward is None else reward

        def penalised(w: Floats64, risk: float) -> float:
            return risk - float(tilt @ w) + 0.5 * self._alpha * float(w @ w)

        best_w, best, n_iter = np.zeros(n_features), self.at_zero, 0
        if start is not None:
            best_w, best, n_iter = start, penalised(start, self._evaluate(start)), 1
        reached = stopping_rule(self.at_zero, self._gradients[0] - tilt, self._alpha, tol)
        model = _Model(np.array(self._gradients) - tilt, np.array(self._offsets), self._alpha)
        bound = -np.inf
        while True:
            if report is not None and n_iter > 0:
                report(best_w, best)
            lowest, value = model.minimize()
            bound = max(bound, value)
            converged = reached(best - bound, best)
            if converged or n_iter >= max_iter:
                gap = max(best - bound, 0.0)
                return BundleResult(best_w, best, gap, n_iter, converged)
            w = lowest if n_iter % 2 == 0 else best_w + _SHORT_STEP * (lowest - best_w)
            objective = penalised(w, self._evaluate(w))
            model.add(self._gradients[-1] - tilt, self._offsets[-1])
            n_iter += 1
            if objective < best:
                best_w, best = w, objective


class _Model:
    """α/2 ‖w‖² + max over planes of (⟨gradient, w⟩ + offset), minimised through its dual.

    With multipliers λ on the simplex, w = −gradientsᵀλ / α and the dual is
    ⟨offsets, λ⟩ − ½ λᵀ G λ with G = gradients · gradientsᵀ / α; λ is kept for the next time.
    """

    def __init__(self, gradients: Floats64, offsets: Floats64, alpha: float) -> None:
        self._alpha = alpha
        self._gradients, self._offsets = gradients, offsets
        self._gram = gradients @ gradients.T / alpha
        self._multipliers = np.zeros(len(offsets))
        self._multipliers[-1] = 1.0

    def add(self, gradient: Floats64, offset: float) -> None:
        """Take one more plane."""
        self._gradients = np.vstack([self._gradients, gradient])
        self._offsets = np.append(self._offsets, offset)
        self._multipliers = np.append(self._multipliers, 0.0)
        self._gram = np.pad(self._gram, (0, 1))
        self._gram[-1] = self._gram[:, -1] = self._gradients @ gradient / self._alpha

    def minimize(self) -> tuple[Floats64, float]:
        """The minimum of the model and its value, a lower bound also where λ is not exact."""
        self._multipliers = minimize_on_simplex(self._gram, self._offsets, self._multipliers)
        active = np.flatnonzero(self._multipliers)
        weight = self._multipliers[active]
        w = -(weight @ self._gradients[active]) / self._alpha
        return w, float(weight @ self._offsets[active]) - 0.5 * self._alpha * float(w @ w)


def minimize_on_simplex(gram: Floats64, reward: Floats64, start: Floats64) -> Floats64:
    """Minimise ½ xᵀ gram x − rewardᵀ x over x ≥ 0 with Σ x = 1, by an active set, from a point."""
    scale = float(np.max(np.diagonal(gram)))
    # Planes may depend on each other (there are more of them than features). The ridge turns the
    # direction in which the minimum is then not unique into a long one, and the walk ends at a
    # face of the simplex, with one plane less.
    ridge = 1e-14 * scale
    rounding = 1e-12 * max(scale, float(np.abs(reward).max()))
    x, support = start, np.flatnonzero(start)
    for _ in range(20 * len(reward) + 100):
        x, support = _minimize_on_face(gram, reward, x, support, ridge)
        gradient = gram[:, support] @ x[support] - reward
        entering = int(np.argmin(gradient))
        if gradient[entering] >= float(gradient @ x) - rounding or x[entering] > 0:
            break
        support = np.append(support, entering)
    return x


def _minimize_on_face(
    gram: Floats64, reward: Floats64, x: Floats64, support: NDArray[np.intp], ridge: float
) -> tuple[Floats64, NDArray[np.intp]]:
    """Walk to the minimum over the coordinates of the support, dropping those that reach zero."""
    current = x[support]
    while True:
        n = len(support)
        system = np.ones((n + 1, n + 1))
        system[:n, :n] = gram[np.ix_(support, support)]
        system[np.arange(n), np.arange(n)] += ridge
        system[n, n] = 0.0
        target = np.linalg.solve(system, np.append(reward[support], 1.0))[:n]
        falling = target <= 0.0
        if not falling.any():
            break
        steps = np.full(n, np.inf)
        steps[falling] = current[falling] / (current[falling] - target[falling])
        first = int(np.argmin(steps))
        current = np.maximum(current + steps[first] * (target - current), 0.0)
        current, support = np.delete(current, first), np.delete(support, first)
    minimum = np.zeros_like(x)
    minimum[support] = target / target.sum()
    return minimum, support
