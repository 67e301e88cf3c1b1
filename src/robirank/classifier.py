r"""Robust binary classification: the paper's section 2 as a scikit-learn classifier."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal, Self, cast, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from robirank._callers import warn
from robirank._checks import Count, NotNegative, check_choice, check_params
from robirank._features import feature_type
from robirank._random import RandomStateLike
from robirank._sparse import check_sparse
from robirank._types import Floats64
from robirank.errors import Argument, ArgumentError
from robirank.losses import LN2, RHOS, RhoName, sigma0, sigma0_prime
from robirank.objectives.linear import LinearObjective, minimize_lbfgs, starting_weights
from robirank.registry import register
from robirank.storage.estimators import SaveMixin
from robirank.storage.fitted_parts import FittedArray, FittedParts

LossName = Literal["logistic", "type1", "type2"]
InitName = Literal["zeros", "random", "logistic"]

#: A loss is ρ(σ0(t)).
_RHO: dict[LossName, RhoName] = {"logistic": "identity", "type1": "log", "type2": "type2"}
_CHUNK_ROWS = 16_384


def _has_probabilities(estimator: Any) -> bool:
    if estimator.loss != "logistic":
        raise AttributeError(
            f"predict_proba needs loss='logistic'; loss={estimator.loss!r} estimates no probability"
        )
    return True


@register
@dataclass(eq=False, repr=False)
class RobustClassifier(SaveMixin, ClassifierMixin, BaseEstimator):
    r"""Linear binary classifier that can give up on hopeless points (paper, section 2).

    Minimises, over :math:`f(x) = \langle x, \omega \rangle + b` and labels
    :math:`y_i \in \{-1, +1\}`,

    .. math::
        \frac{1}{\sum_i w_i} \sum_i w_i \, \sigma\big(y_i f(x_i)\big)
        + \frac{\alpha}{2} \lVert \omega \rVert^2

    with L-BFGS and the exact gradient. The intercept :math:`b` is not penalised. The loss σ is

    ============  ======================================================  ====================
    ``loss``      σ(t)                                                    as t → −∞
    ============  ======================================================  ====================
    ``logistic``  :math:`\sigma_0(t) = \log_2(1 + 2^{-t})`                grows like −t
    ``type1``     :math:`\sigma_1(t) = \log_2(\sigma_0(t) + 1)`           grows like log₂(−t)
    ``type2``     :math:`\sigma_2(t) = 1 - 1 / \log_2(\sigma_0(t) + 2)`   tends to 1
    ============  ======================================================  ====================

    σ0 and σ1 bound the 0-1 loss from above, σ2 does so when divided by σ2(0) ≈ 0.37. Only
    ``logistic`` is convex: it has one minimum, and one bad point far away can move it anywhere.
    The other two may have several minima, so that the start matters (`init`), most of all for
    Type-II, whose gradient almost vanishes on points that are badly wrong.

    Parameters
    ----------
    loss : {"logistic", "type1", "type2"}, default="type1"
        The loss σ of one point.
    alpha : float, default=1e-3
        Strength of the L2 penalty, ≥ 0. The loss is a mean, so that one value of alpha means the
        same for few points and for many.
    fit_intercept : bool, default=True
        Whether f has an intercept.
    init : {"zeros", "random", "logistic"}, array-like or fitted estimator, default="zeros"
        Where the minimisation starts: at zero; at independent draws from a normal distribution
        of variance 1 / n_features; at the minimum of the convex logistic objective with the same
        alpha; at the given coefficients (n_features values, or n_features + 1 with the intercept
        last); or at the ``coef_`` (and ``intercept_``) of a fitted linear model. Ding (2013)
        found Type-I models more stable under the choice than Type-II models. "logistic" helps
        where the convex solution is reasonable; where outliers have ruined it, "zeros" and
        "logistic" lead to the same bad minimum, and a few "random" starts, of which the one with
        the lowest ``loss_curve_[-1]`` is kept, can do better. Cloning, as in ``GridSearchCV``,
        makes a fitted estimator forget; ``sklearn.frozen.FrozenEstimator`` prevents that.
    max_iter : int, default=1000
        The most iterations of L-BFGS. Stopping before `tol` gives a ``ConvergenceWarning``.
    tol : float, default=1e-6
        Stop when no component of the gradient is larger.
    warm_start : bool, default=False
        Whether a second call of `fit` starts from the solution of the first, whatever `init` is.
    random_state : int, Generator, RandomState or None, default=None
        Decides the start when ``init="random"``.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
        ω.
    intercept_ : array of shape (1,)
        b; zero without intercept.
    classes_ : array of shape (2,)
        The two labels; ``classes_[1]`` is the paper's +1.
    n_iter_ : int
        Iterations of the last `fit`, not counting those that found a logistic start.
    loss_curve_ : list of float
        The objective at the start and after each iteration.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where X had names that are all strings.

    References
    ----------
    H. Yun, P. Raman, S. V. N. Vishwanathan, *Ranking via Robust Binary Classification*, NeurIPS
    2014, section 2. N. Ding, *Statistical Machine Learning in T-Exponential Family of
    Distributions*, PhD thesis, Purdue University, 2013. P. M. Long, R. A. Servedio, *Random
    classification noise defeats all convex potential boosters*, Machine Learning 78, 2010.

    Examples
    --------
    Twenty points that a threshold at 0 separates, and one far away with the wrong label:

    >>> import numpy as np
    >>> X = np.append(np.linspace(-1, 1, 20), -10.0).reshape(-1, 1)
    >>> y = np.where(X.ravel() > 0, "yes", "no")
    >>> y[-1] = "yes"
    >>> RobustClassifier(loss="logistic").fit(X, y).score(X[:-1], y[:-1])
    0.5
    >>> RobustClassifier(loss="type1").fit(X, y).score(X[:-1], y[:-1])
    1.0
    """

    fitted_parts = FittedParts(
        {
            "coef_": FittedArray((1, "features")),
            "intercept_": FittedArray((1,)),
            "loss_curve_": FittedArray(("iterations",), is_list=True),
        },
        {"n_iter_": int},
        {"classes_": 2},
        required=("coef_", "intercept_", "classes_"),
    )

    loss: LossName = "type1"
    _: KW_ONLY
    alpha: NotNegative = 1e-3
    fit_intercept: bool = True
    init: InitName | ArrayLike | BaseEstimator = "zeros"
    max_iter: Count = 1000
    tol: NotNegative = 1e-6
    warm_start: bool = False
    random_state: RandomStateLike = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn ω and b.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The points. float32 is not copied; sums are always in double precision.
        y : array-like of shape (n_samples,)
            Labels of two kinds, numbers or strings.
        sample_weight : array-like of shape (n_samples,), optional
            Weights ≥ 0 of the points, not all 0; a weight of 2 counts as two points.

        Returns
        -------
        RobustClassifier
            Itself.
        """
        check_params(self)
        if isinstance(self.init, str):
            names = get_args(InitName)
            check_choice("init", self.init, names, ", an array or a fitted linear model")
        X, labels = validate_data(
            self, check_sparse("X", X), y, accept_sparse="csr", dtype=feature_type(X)
        )
        classes, sign = _signs(labels)
        weight = _shares(sample_weight, X)
        start = self._start(X, classes, sign, weight)
        theta = self._minimise(X, sign, weight, self.loss, start)
        self.classes_ = classes
        self.coef_ = theta[None, : X.shape[1]]
        self.intercept_ = theta[X.shape[1] :] if self.fit_intercept else np.zeros(1)
        return self

    def decision_function(self, X: Any) -> Floats64:
        """Return f(x) of every point; ``classes_[1]`` is predicted where it is ≥ 0."""
        check_is_fitted(self)
        X = validate_data(
            self, check_sparse("X", X), accept_sparse="csr", dtype=feature_type(X), reset=False
        )
        return _in_double(X) @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of every point."""
        positive = self.decision_function(X) >= 0
        return self.classes_[positive.astype(np.intp)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Floats64:
        r"""Return the probability of each class, :math:`1 / (1 + 2^{-f(x)})` for the second.

        Only for ``loss="logistic"``: the minimum of that loss is the log-odds to base 2. The
        robust losses estimate no probability.

        Returns
        -------
        array of shape (n_samples, 2)
            In the order of ``classes_``.
        """
        f = self.decision_function(X) * LN2
        return np.column_stack([expit(-f), expit(f)])

    def _start(self, X: Any, classes: NDArray[Any], sign: Floats64, weight: Floats64) -> Floats64:
        """The coefficients to start from, the intercept last."""
        d = X.shape[1]
        init: Any = self.init
        if self.warm_start and hasattr(self, "coef_"):
            if self.coef_.shape[1] != d or not np.array_equal(self.classes_, classes):
                raise ArgumentError(
                    Argument("warm_start", True),
                    f"goes on from a model of {self.coef_.shape[1]} features and the classes "
                    f"{self.classes_.tolist()}; got {d} features and the classes "
                    f"{classes.tolist()}. Fit a new estimator instead",
                )
            init = self
        start = starting_weights(init, d, self.random_state, intercept=self.fit_intercept)
        if isinstance(init, str) and init == "logistic" and self.loss != "logistic":
            return self._minimise(X, sign, weight, "logistic", start)
        return start

    def _minimise(
        self, X: Any, sign: Floats64, weight: Floats64, loss: LossName, start: Floats64
    ) -> Floats64:
        objective = LinearObjective(
            _in_double(X),
            partial(margin_loss, sign, weight, loss),
            alpha=self.alpha,
            intercept=self.fit_intercept,
        )
        self.loss_curve_ = [objective(start)[0]]
        result = minimize_lbfgs(
            objective,
            start,
            max_iter=self.max_iter,
            gtol=self.tol,
            max_line_search=50,
            after_iteration=lambda _, value, __: self.loss_curve_.append(value),
        )
        self.n_iter_ = int(result.nit)
        # L-BFGS-B also reports success where rounding hides any progress, as with features of
        # wildly different scales; the gradient does not lie.
        steepest = float(np.abs(result.jac).max())
        if steepest > self.tol:
            advice = "L-BFGS found no better point: scale the features, or raise tol"
            if result.nit >= self.max_iter:
                advice = f"max_iter={self.max_iter} was reached: raise it, or scale the features"
            warn(
                f"The largest entry of the gradient is {steepest:.2g}, above tol={self.tol}. "
                + advice,
                ConvergenceWarning,
            )
        return np.asarray(result.x, dtype=np.float64)


def _signs(y: NDArray[Any]) -> tuple[NDArray[Any], Floats64]:
    """The two classes, and −1 or +1 for every label."""
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"{type_of_target(y)}; y must hold two classes, got {len(classes)}"
        )
    if len(classes) < 2:
        raise ArgumentError("y", f"must hold two classes; got one class, {classes.tolist()}")
    return classes, np.where(codes == 1, 1.0, -1.0)


def _shares(sample_weight: ArrayLike | None, X: Any) -> Floats64:
    """Every point's share of the mean: weights that sum to 1."""
    weight = cast(Floats64, _check_sample_weight(sample_weight, X, dtype=np.float64))
    if (weight < 0).any():
        raise ArgumentError("sample_weight", f"must be ≥ 0; its smallest value is {weight.min()}")
    if not (weight > 0).any():
        raise ArgumentError("sample_weight", "must be positive for at least one sample; all are 0")
    return weight / weight.sum()


def margin_loss(
    sign: Floats64, weight: Floats64, loss: LossName, scores: Floats64
) -> tuple[float, Floats64]:
    r"""The weighted mean of :math:`\sigma(y_i f(x_i))`, and its derivative by each score f."""
    rho, margin = RHOS[_RHO[loss]], sign * scores
    t = sigma0(margin)
    derivative = rho.prime(t) * sigma0_prime(margin)
    return float(weight @ rho.value(t)), weight * sign * derivative


def _in_double(X: Any) -> Any:
    """X for products in double precision; a float32 array is converted one chunk at a time."""
    if sp.issparse(X) or X.dtype == np.float64:
        return X
    chunks = [slice(i, i + _CHUNK_ROWS) for i in range(0, len(X), _CHUNK_ROWS)]
    return LinearOperator(
        X.shape,
        matvec=lambda w: np.concatenate([X[rows].astype(np.float64) @ w for rows in chunks]),
        rmatvec=lambda s: sum(X[rows].astype(np.float64).T @ s[rows] for rows in chunks),
        dtype=np.float64,
    )
