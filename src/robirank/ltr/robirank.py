"""RoBiRank over feature vectors: a linear model trained by L-BFGS."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from robirank._checks import Count, NotNegative, Positive, check_choice
from robirank._queries import Queries
from robirank._random import RandomStateLike, check_random_state_like
from robirank._types import Floats64
from robirank.errors import Argument, ArgumentError
from robirank.ltr.base import LinearRanker, ListwiseRanker
from robirank.objectives.linear import starting_weights
from robirank.objectives.listwise import QueryWeight
from robirank.registry import register

Init: TypeAlias = Literal["zeros", "random"] | ArrayLike | BaseEstimator


@register
@dataclass(eq=False, repr=False)
class RoBiRank(ListwiseRanker, LinearRanker):
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

    alpha: NotNegative = 1e-3
    _: KW_ONLY
    init: Init = "zeros"
    max_iter: Count = 500
    tol: Positive = 1e-5
    warm_start: bool = False
    random_state: RandomStateLike = None
    num_threads: int = 0

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
        weights = {"sample_weight": sample_weight, "query_weight": query_weight}
        return self._fit_queries(X, y, queries, **weights)

    def _fit_queries(self, X: Any, y: Floats64, queries: Queries, **weights: Any) -> Self:
        """Fit to validated data; ``queries`` may leave rows out, which costs no copy of X."""
        self._check_params()
        lists = self._lists(y, queries, **weights)
        if not isinstance(X, np.ndarray):
            X, lists = X[queries.rows()], lists.in_order()
        self._descend(X, lists, alpha=self.alpha, start=self._start(X.shape[1]))
        return self

    def _check_params(self) -> None:
        super()._check_params()
        check_random_state_like(self.random_state, below=2**32)
        if isinstance(self.init, str):
            check_choice("init", self.init, ("zeros", "random"))

    def _start(self, n_features: int) -> Floats64:
        """The weights to start from."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return starting_weights(self.init, n_features, self.random_state)
        if len(self.coef_) != n_features:
            raise ArgumentError(
                Argument("warm_start", True),
                f"goes on from a model of {len(self.coef_)} features; got {n_features}. "
                "Fit a new estimator instead",
            )
        return self.coef_.copy()
