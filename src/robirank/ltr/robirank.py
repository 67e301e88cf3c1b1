"""RoBiRank over feature vectors: a linear model trained by L-BFGS."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from robirank._checks import check_choice, check_count, check_not_negative, check_positive
from robirank._queries import Queries
from robirank._random import RandomStateLike, as_random_state, check_random_state_like
from robirank._types import Floats64
from robirank.losses import RHOS, RhoName
from robirank.ltr.base import LinearRanker
from robirank.metrics._conventions import Gain
from robirank.objectives.listwise import Lists, Metric, QueryWeight
from robirank.registry import Comparison, log_grid, register

Init: TypeAlias = Literal["zeros", "random"] | ArrayLike | BaseEstimator


@register
@dataclass(eq=False, repr=False)
class RoBiRank(LinearRanker):
    r"""Linear ranking by robust binary classification.

    Minimises, over the weights ω of a linear scoring function,

    .. math::
        \frac{1}{|\mathcal{X}|} \sum_{x} c_x \sum_{y} v(W_{xy}) \,
        \rho\Big(\sum_{y' \ne y} \sigma_0\big(\langle\phi(x,y) - \phi(x,y'), \omega\rangle\big)\Big)
        + \frac{\alpha}{2} \lVert\omega\rVert^2,
        \qquad \sigma_0(t) = \log_2(1 + 2^{-t})

    by L-BFGS. The mean runs over the queries that have a relevant document. Graded labels enter
    through v: a document of label r is an outer term with weight :math:`2^r - 1`.

    Parameters
    ----------
    alpha : float, default=1e-3
        Strength of the L2 penalty.
    rho : {"log", "identity", "type2"}, default="log"
        The transformation of a list's sum of losses: ``log`` is RoBiRank (Type-I robust), ``type2``
        the bound that is tight to DCG but hard to optimise, ``identity`` the convex basic model.
    metric : {"ndcg", "dcg"}, default="ndcg"
        The metric to bound: c_x is one over the best DCG of the query, or 1.
    gain : {"exp", "linear"} or callable, default="exp"
        v(·): 2^W − 1, W, or a function from an array of labels to an array of weights.
    init : {"zeros", "random"}, array of shape (n_features,), or fitted linear estimator
        Where to start; the objective is not convex unless ``rho="identity"``.
    max_iter : int, default=500
        The most iterations of L-BFGS.
    tol : float, default=1e-5
        Stop when no entry of the gradient is larger.
    warm_start : bool, default=False
        Start from the solution of the previous fit instead of ``init``.
    random_state : int, Generator, RandomState or None, default=None
        For ``init="random"``.
    num_threads : int, default=0
        0: every core; one for little work. The result does not depend on it, to the last bit.
    verbose : bool, default=False
        Show a progress line.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        The weights ω.
    n_iter_ : int
        Iterations of L-BFGS.
    loss_curve_ : list of float
        The objective at the start and after each iteration.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    References
    ----------
    Yun, Raman, Vishwanathan: Ranking via Robust Binary Classification. NeurIPS 2014.

    Examples
    --------
    >>> from robirank import RoBiRank, make_ranking
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = RoBiRank(alpha=1e-3).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    comparison = Comparison("RoBiRank", log_grid("alpha", 0.5, -4.5, 11))
    test_settings = (
        {},
        {"rho": "identity"},
        {"rho": "type2", "init": "random", "random_state": 0},
    )

    alpha: float = 1e-3
    _: KW_ONLY
    rho: RhoName = "log"
    metric: Metric = "ndcg"
    gain: Gain = "exp"
    init: Init = "zeros"
    max_iter: int = 500
    tol: float = 1e-5
    warm_start: bool = False
    random_state: RandomStateLike = None
    num_threads: int = 0
    verbose: bool = False

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: QueryWeight | None = None,
    ) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features), or RankingData
            Features of the documents; float32 and float64 are used as they are.
        y : array-like of shape (n_rows,), optional
            Relevance labels, 0 for irrelevant; a RankingData has its own, and its own qid.
        qid : array-like of shape (n_rows,), optional
            The query of each row, of any type, sorted or not; without it all rows are one query.
        sample_weight : array-like of shape (n_rows,), optional
            Factors for v(W_xy) of single documents.
        query_weight : mapping from query id to weight, or array-like of shape (n_rows,), optional
            Weights of queries; an array holds one weight a row, equal within each query.
        """
        X, y, queries = self._check_fit(X, y, qid)
        return self._fit_queries(X, y, queries, sample_weight, query_weight)

    def _fit_queries(
        self,
        X: Any,
        y: NDArray[Any],
        queries: Queries,
        sample_weight: ArrayLike | None,
        query_weight: QueryWeight | None,
    ) -> Self:
        """Fit to validated data; ``queries`` may leave rows out, which costs no copy of X."""
        self._check_params()
        lists = Lists.build(
            y,
            queries,
            metric=self.metric,
            gain=self.gain,
            sample_weight=sample_weight,
            query_weight=query_weight,
            rho=self.rho,
            num_threads=self.num_threads,
        )
        if len(lists.weight) == 0:
            raise ValueError(
                "y has no relevant document in any query (every label or weight is 0), "
                "so there is nothing to learn"
            )
        if not isinstance(X, np.ndarray):
            X, lists = X[queries.rows()], lists.in_order()
        self._descend(X, lists, alpha=self.alpha, start=self._start(X.shape[1]))
        return self

    def _check_params(self) -> None:
        check_not_negative("alpha", self.alpha)
        check_choice("rho", self.rho, RHOS)
        check_count("max_iter", self.max_iter)
        check_positive("tol", self.tol)
        check_random_state_like(self.random_state, below=2**32)

    def _start(self, n_features: int) -> Floats64:
        """The weights to start from."""
        if self.warm_start and hasattr(self, "coef_"):
            start, source = self.coef_, "the previous fit (warm_start=True)"
        elif isinstance(self.init, str):
            check_choice("init", self.init, ("zeros", "random"))
            if self.init == "zeros":
                return np.zeros(n_features)
            noise = as_random_state(self.random_state).standard_normal(n_features)
            return noise / np.sqrt(n_features)
        elif isinstance(self.init, BaseEstimator):
            if not hasattr(self.init, "coef_"):
                raise ValueError(f"init={self.init!r} must be fitted and have coef_")
            start, source = np.ravel(self.init.coef_), "init.coef_"
        else:
            start, source = np.asarray(self.init, dtype=np.float64), "init"
        if np.shape(start) != (n_features,):
            raise ValueError(
                f"{source} must have one weight for each of the {n_features} features; "
                f"got shape {np.shape(start)}"
            )
        if not np.isfinite(start).all():
            raise ValueError(f"{source} must be finite; it contains NaN or infinity")
        return np.array(start, dtype=np.float64)
