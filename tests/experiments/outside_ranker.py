"""A ranker that lives outside the package; worker processes import this module."""

import numpy as np

from robirank.ltr.base import LinearRanker


class FirstFeature(LinearRanker):
    """Ranks by the first feature, times a factor."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def fit(self, X, y, *, qid=None):
        X, _, _ = self._check_fit(X, y, qid, accept_sparse=False)
        self.coef_ = np.zeros(X.shape[1])
        self.coef_[0] = self.factor
        return self
