"""RoBiRank from particular starting points, for the experiments on initialisation."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import ArrayLike

from robirank import RankSVM, RoBiRank


class FromRankSVM(RoBiRank):
    """RoBiRank, started from RankSVM's solution."""

    def fit(
        self, X: Any, y: ArrayLike | None = None, *, qid: ArrayLike | None = None, **weights: Any
    ) -> Self:
        """Fit RankSVM, then RoBiRank from there."""
        self.init = RankSVM(C=1e-3, num_threads=self.num_threads).fit(X, y, qid=qid)
        return super().fit(X, y, qid=qid, **weights)


class TypeTwo(RoBiRank):
    """RoBiRank with ρ₂, started from the convex solution.

    The gradient of ρ₂ vanishes where ranks are bad, so from a poor start it learns nothing.
    """

    def fit(
        self, X: Any, y: ArrayLike | None = None, *, qid: ArrayLike | None = None, **weights: Any
    ) -> Self:
        """Fit the identity loss, then ρ₂ from there."""
        convex = RoBiRank(self.alpha, rho="identity", num_threads=self.num_threads)
        self.rho, self.init = "type2", convex.fit(X, y, qid=qid, **weights)
        return super().fit(X, y, qid=qid, **weights)
