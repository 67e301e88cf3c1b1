"""What LSRank, InfNormPush and IRPush share: a penalty and a mean of losses of lists."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from robirank._blas import one_blas_thread
from robirank._callers import warn
from robirank._params import Count, Positive
from robirank._queries import Queries
from robirank._types import Floats64
from robirank.errors import ArgumentError
from robirank.ltr.base import LinearRanker


def lists_that_differ(X: Any, y: Floats64, queries: Queries) -> tuple[Any, Floats64, Queries]:
    """Features (float64), labels and queries, without the queries whose labels are all the same."""
    chosen = queries.take(np.flatnonzero(queries.differ(y)))
    if len(chosen) == 0:
        raise ArgumentError(
            "y",
            "must differ within some query; in each of them all documents have the same label, so "
            f"there is nothing to learn (n_samples={len(y)}, n_queries={len(queries)})",
        )
    rows = chosen.rows()
    return X[rows].astype(np.float64), y[rows], replace(chosen, order=None)


@dataclass(eq=False, repr=False)
class RegularizedRanker(LinearRanker):
    """A linear ranker with a penalty; a subclass minimises its objective in `_minimise`."""

    fitted_parts = LinearRanker.fitted_parts.plus(numbers={"gap_": float})

    alpha: Positive = 0.1
    _: KW_ONLY
    max_iter: Count = 1000
    tol: Positive = 1e-3
    verbose: bool = False

    def _train(self, X: Any, y: Floats64, queries: Queries) -> None:
        X, y, queries = lists_that_differ(X, y, queries)
        self.coef_, self.n_iter_, self.gap_ = np.zeros(X.shape[1]), 0, np.inf
        with one_blas_thread():
            self._minimise(X, y, queries)

    def _minimise(self, X: Any, y: Floats64, queries: Queries) -> None:
        """Set ``coef_``, ``n_iter_``, ``loss_curve_`` and ``gap_``; rows come query by query."""
        raise NotImplementedError

    def _warn_of_outcome(self, converged: bool, advice: str) -> None:
        """Warn if the minimum was not reached, or if it is at zero."""
        if not converged:
            warn(
                f"stopped after max_iter={self.max_iter} iterations with a gap of {self.gap_:.2g} "
                f"to the minimum (objective {self.loss_curve_[-1]:.6g}); raise max_iter, tol or "
                "alpha",
                ConvergenceWarning,
            )
        elif not self.coef_.any():
            warn(
                "the minimum is at coef_ = 0, so every document has the same score: no weights "
                f"put relevant documents far enough above the best irrelevant ones; {advice}",
            )
