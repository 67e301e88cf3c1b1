"""What LSRank, InfNormPush and IRPush share: a penalty and a mean of losses of lists."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from robirank._blas import one_blas_thread
from robirank._callers import warn
from robirank._checks import Count, Positive
from robirank._progress import FitProgress
from robirank._queries import Queries
from robirank._types import Floats64
from robirank.errors import ArgumentError
from robirank.ltr._bundle import Bundle, BundleResult
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

    #: What to try where the minimum is at zero.
    advice: ClassVar[str]

    def _train(self, X: Any, y: Floats64, queries: Queries) -> None:
        X, y, queries = lists_that_differ(X, y, queries)
        self.coef_, self.n_iter_, self.gap_ = np.zeros(X.shape[1]), 0, np.inf
        with one_blas_thread(), self._progress(self.max_iter) as progress:
            converged = self._minimise(X, y, queries, progress)
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
                f"put relevant documents far enough above the best irrelevant ones; {self.advice}",
            )

    def _minimise(self, X: Any, y: Floats64, queries: Queries, progress: FitProgress) -> bool:
        """Learn from rows that come query by query; return whether the minimum was reached."""
        raise NotImplementedError

    def _descend_bundle(self, bundle: Bundle, progress: FitProgress, **convex: Any) -> BundleResult:
        """Minimise by the bundle method, with the iterations that are left."""
        result = bundle.minimize(
            max_iter=int(self.max_iter) - self.n_iter_,
            tol=float(self.tol),
            report=lambda w, value: self._record(w, value, progress),
            **convex,
        )
        self.gap_ = result.gap
        return result
