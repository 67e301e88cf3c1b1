"""A ranker in one file: all that it takes to add one.

It is registered, so it appears in the contract tests, can be saved and loaded, and takes part in
``robirank experiment ltr`` with its defaults. Nothing else knows of it.
"""

import numpy as np

from robirank._checks import check_positive
from robirank.ltr.base import LinearRanker
from robirank.registry import register


class CentredSquares:
    """Half the mean squared error of scores, both they and the labels centred in each query."""

    def __init__(self, y, queries):
        self._queries = queries
        self._target = self._centred(queries.sort(y))

    def __call__(self, scores):
        error = self._centred(self._queries.sort(scores)) - self._target
        return 0.5 * float(np.mean(error**2)), self._queries.unsort(error / len(error))

    def _centred(self, values):
        means = np.add.reduceat(values, self._queries.offsets[:-1]) / self._queries.sizes
        return values - np.repeat(means, self._queries.sizes)


@register
class LeastSquares(LinearRanker):
    """Linear regression on what distinguishes the documents of a query."""

    def __init__(self, alpha=1e-2, *, max_iter=500, tol=1e-5, verbose=False):
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def _check_params(self):
        check_positive("alpha", self.alpha)

    def _train(self, X, y, queries):
        self._descend(X, CentredSquares(y, queries), alpha=self.alpha)
