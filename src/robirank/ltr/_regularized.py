"""What linear rankers share that minimise a penalty and a mean of losses of single lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from robirank._blas import one_blas_thread
from robirank._callers import warn
from robirank._checks import check_count, check_positive
from robirank._queries import Queries
from robirank._types import Floats64, Ints64
from robirank.ltr.base import LinearRanker, check_labels


@dataclass(frozen=True)
class TrainingLists:
    """The lists in which labels differ, row after row.

    Attributes
    ----------
    X : array or CSR matrix of shape (n_rows, n_features)
        Features in double precision.
    y : array of shape (n_rows,)
        Labels; no list has only one label.
    codes : array of shape (n_rows,)
        The number of the list, 0, 1, …, that each row belongs to.
    starts : array of shape (n_lists,)
        The first row of each list.
    """

    X: Any
    y: Floats64
    codes: Ints64
    starts: Ints64

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def build(cls, X: Any, y: Floats64, queries: Queries) -> TrainingLists:
        """Keep the queries in which labels differ."""
        kept = queries.take(np.flatnonzero(queries.differ(y)))
        if len(kept) == 0:
            raise ValueError(
                "y must differ within some query; in each of them all documents have the same "
                f"label, so there is nothing to learn (n_samples={len(y)}, "
                f"n_queries={len(queries)})"
            )
        rows = kept.rows()
        return cls(X[rows].astype(np.float64), y[rows], kept.codes(), kept.offsets[:-1])


class RegularizedRanker(LinearRanker):
    """A linear ranker with parameters ``alpha``, ``max_iter`` and ``tol``; see its subclasses.

    A subclass learns from lists in `_train`.
    """

    fitted_parts = LinearRanker.fitted_parts.plus(numbers={"gap_": float})

    alpha: float
    gap_: float

    def fit(self, X: Any, y: ArrayLike | None = None, *, qid: ArrayLike | None = None) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features), or RankingData
            Features of the documents.
        y : array-like of shape (n_rows,), optional
            Relevance labels, 0 for irrelevant; a RankingData has its own, and its own qid.
        qid : array-like of shape (n_rows,), optional
            The query of each row, of any type, sorted or not; without it all rows are one query.
        """
        X, y, queries = self._check_fit(X, y, qid)
        self._check_params()
        check_labels(y)
        with one_blas_thread():
            self._train(TrainingLists.build(X, y, queries))
        return self

    def _train(self, lists: TrainingLists) -> None:
        """Set ``coef_`` and what goes with it."""
        raise NotImplementedError

    def _check_params(self) -> None:
        check_positive("alpha", self.alpha)
        check_count("max_iter", self.max_iter)
        check_positive("tol", self.tol)

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
                UserWarning,
            )
