"""What RoBiRank is compared with on LETOR: a pairwise model from scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state

from robirank._queries import Queries
from robirank.ltr.base import LinearRanker


class PairwiseLogistic(LinearRanker):
    """Pairwise logistic regression: tell the better of two documents of a query from the worse.

    Pairs of documents of different labels are drawn at random within each query, and scikit-learn's
    ``LogisticRegression`` is fitted to the differences of their features. Every pair counts the
    same, whether it stands at the top of the list or at its end.

    Parameters
    ----------
    alpha : float, default=1e-3
        Strength of the L2 penalty on the mean loss of a pair, > 0.
    pairs_per_query : int, default=50
        How many pairs are drawn for each query.
    random_state : int, RandomState or None, default=None
        Decides the draw.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        The weights.

    Examples
    --------
    >>> from robirank import make_ranking
    >>> data = make_ranking(n_queries=50, n_features=5, random_state=0)
    >>> model = PairwiseLogistic(random_state=0).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    takes_sparse = False

    def __init__(
        self, alpha: float = 1e-3, *, pairs_per_query: int = 50, random_state: Any = None
    ) -> None:
        self.alpha = alpha
        self.pairs_per_query = pairs_per_query
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike | None = None, *, qid: ArrayLike | None = None) -> Self:
        """Draw pairs and learn ``coef_``."""
        if not self.alpha > 0:
            raise ValueError(f"alpha must be a number > 0; got {self.alpha!r}")
        X, y, queries = self._check_fit(X, y, qid)
        rng = check_random_state(self.random_state)
        better, worse = draw_pairs(np.asarray(y), queries, self.pairs_per_query, rng)
        if len(better) == 0:
            raise ValueError("y must differ within some query; there is no pair to learn from")
        sign = np.where(rng.random(len(better)) < 0.5, 1.0, -1.0)
        sign[:2] = [1.0, -1.0][: len(sign)]  # both classes, however few pairs there are
        difference = sign[:, None] * (X[better] - X[worse])
        logistic = LogisticRegression(
            C=1.0 / (self.alpha * len(sign)), fit_intercept=False, max_iter=1000
        )
        self.coef_ = np.ravel(logistic.fit(difference, sign).coef_).astype(np.float64)
        return self


def draw_pairs(
    y: NDArray[Any], queries: Queries, per_query: int, rng: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw rows (better, worse) of different labels; a query draws ``per_query`` pairs at most.

    Two documents are drawn for each pair, and pairs of equal labels are dropped.
    """
    first = np.repeat(queries.offsets[:-1], per_query)
    size = np.repeat(queries.sizes, per_query)
    places = first + np.floor(rng.random((2, len(size))) * size).astype(np.int64)
    one, other = places if queries.order is None else queries.order[places]
    keep = y[one] != y[other]
    one, other = one[keep], other[keep]
    up = y[one] > y[other]
    return np.where(up, one, other), np.where(up, other, one)
