"""The objective of a linear model with any loss over scores; starts and L-BFGS to minimise it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from robirank._features import dense
from robirank._random import RandomStateLike, as_random_state
from robirank._types import Floats64
from robirank.errors import Argument, ArgumentError
from robirank.objectives.score_loss import ScoreLoss

#: Features with larger values are scaled; the line search loses steps from about 1e7 on.
_LARGE = 2.0**20

Objective: TypeAlias = Callable[[Floats64], tuple[float, Floats64]]


class LinearObjective:
    r"""The loss of a linear model's scores plus an L2 penalty, as a function of its weights.

    .. math:: \ell(X w + b) + \frac{\alpha}{2} \lVert w \rVert^2

    The gradient by w is :math:`X^\top \ell' + \alpha w`. A loss that has ``of_linear`` does both
    products with a dense X in one native call.

    Parameters
    ----------
    X : array, sparse matrix or LinearOperator of shape (n_rows, n_features)
    loss : ScoreLoss
        Of scores, one for each row of X.
    alpha : float, default=0.0
        Strength of the penalty.
    intercept : bool, default=False
        Whether the last weight is b, which is not penalised.

    Examples
    --------
    Half the squared distance of the scores from 1:

    >>> squared = lambda s: (0.5 * float((s - 1.0) @ (s - 1.0)), s - 1.0)
    >>> objective = LinearObjective(np.array([[1.0], [2.0]]), squared, alpha=0.5)
    >>> value, gradient = objective(np.array([1.0]))
    >>> value, gradient.tolist()
    (0.75, [2.5])
    """

    def __init__(
        self, X: Any, loss: ScoreLoss, *, alpha: float = 0.0, intercept: bool = False
    ) -> None:
        self._X, self._loss, self._alpha = X, loss, float(alpha)
        self._n_features, self._intercept = X.shape[1], intercept
        one_pass = isinstance(X, np.ndarray) and not intercept
        self._of_linear: Any = getattr(loss, "of_linear", None) if one_pass else None

    def __call__(self, theta: Floats64) -> tuple[float, Floats64]:
        """Return the objective and its gradient."""
        loss, gradient = self.loss(theta)
        w = theta[: self._n_features]
        gradient[: self._n_features] += self._alpha * w
        return loss + 0.5 * self._alpha * float(w @ w), gradient

    def loss(self, theta: Floats64) -> tuple[float, Floats64]:
        """Return the loss without the penalty, and its gradient."""
        if self._of_linear is not None:
            result: tuple[float, Floats64] = self._of_linear(self._X, theta)
            return result
        scores = np.asarray(self._X @ theta[: self._n_features])
        if self._intercept:
            scores = scores + theta[-1]
        loss, by_score = self._loss(scores)
        gradient = np.empty_like(theta)
        gradient[: self._n_features] = self._X.T @ by_score
        if self._intercept:
            gradient[-1] = by_score.sum()
        return loss, gradient


def scale_of_columns(X: Any) -> Floats64:
    """Powers of two by which to divide columns so large that L-BFGS would fail; 1 for others."""
    most, least = dense(X.max(axis=0)), dense(X.min(axis=0))
    size = np.maximum(np.ravel(most), -np.ravel(least)).astype(np.float64)
    return np.where(size > _LARGE, np.exp2(np.frexp(size)[1].astype(np.float64)), 1.0)


def minimize_lbfgs(
    objective: Objective,
    start: Floats64,
    *,
    max_iter: int,
    gtol: float,
    ftol: float = 0.0,
    max_line_search: int = 20,
    after_iteration: Callable[[Floats64, float, Floats64], bool | None] | None = None,
) -> OptimizeResult:
    """Minimise a function that gives its value and gradient, by L-BFGS.

    Parameters
    ----------
    objective : callable
        From weights to value and gradient.
    start : array of shape (n_weights,)
    max_iter : int
        The most iterations.
    gtol : float
        Stop when no entry of the gradient is larger.
    ftol : float, default=0.0
        Stop when an iteration lowers the value by less than this share of it.
    max_line_search : int, default=20
        The most evaluations in one iteration.
    after_iteration : callable, optional
        Is given weights, value and gradient after each iteration; True ends the minimisation.

    Examples
    --------
    >>> square = lambda w: (float(w @ w), 2.0 * w)
    >>> minimize_lbfgs(square, np.ones(2), max_iter=9, gtol=1e-9).x.tolist()
    [0.0, 0.0]
    """
    latest = start

    def remember(w: Floats64) -> tuple[float, Floats64]:
        nonlocal latest
        value, latest = objective(w)
        return value, latest

    def callback(intermediate_result: OptimizeResult) -> None:
        # The point that an iteration ends at is the one that was evaluated last.
        w, value = np.array(intermediate_result.x), float(intermediate_result.fun)
        if after_iteration is not None and after_iteration(w, value, latest):
            raise StopIteration

    return minimize(
        remember,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=callback,
        options={
            "maxiter": int(max_iter),
            "maxfun": 50 * (int(max_iter) + 1),
            "gtol": float(gtol),
            "ftol": float(ftol),
            "maxls": int(max_line_search),
        },
    )


def starting_weights(
    init: Any, n_features: int, random_state: RandomStateLike, *, intercept: bool = False
) -> Floats64:
    """The weights that ``init`` stands for, with the intercept last where there is one."""
    start = np.zeros(n_features + intercept)
    if isinstance(init, str):
        if init == "random":
            draws = as_random_state(random_state).standard_normal(n_features)
            start[:n_features] = draws / np.sqrt(n_features)
        return start
    if hasattr(init, "fit"):
        if not hasattr(init, "coef_"):
            raise ArgumentError(
                Argument("init", init),
                "has no coef_: it must be a fitted linear model (wrapped in "
                "sklearn.frozen.FrozenEstimator where it will be cloned)",
            )
        weights = np.append(dense(init.coef_), np.ravel(getattr(init, "intercept_", 0.0))[:1])
        init = weights if intercept else weights[:-1]
    weights = np.ravel(np.asarray(init, dtype=np.float64))
    if len(weights) not in (n_features, len(start)):
        also = f" or {len(start)} (intercept last)" if intercept else ""
        raise ArgumentError(
            "init", f"must hold {n_features}{also} coefficients; got {len(weights)}"
        )
    if not np.isfinite(weights).all():
        raise ArgumentError("init", "must be finite; it contains NaN or infinity")
    start[: len(weights)] = weights
    return start
