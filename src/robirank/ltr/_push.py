"""What InfNormPush and IRPush share: soft maxima over lists, and the ways to the minimum."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from robirank._progress import FitProgress
from robirank._queries import Queries
from robirank._types import Floats64, Ints64
from robirank.errors import ArgumentError
from robirank.ltr._bundle import Bundle, stopping_rule
from robirank.ltr._regularized import RegularizedRanker
from robirank.objectives.linear import LinearObjective, minimize_lbfgs


class Groups:
    """The relevant or the irrelevant documents, list after list, of which none is empty."""

    def __init__(self, X: Any, codes: Ints64) -> None:
        self.X, self.codes = X, codes  # features, and the number of the list, of each row
        self.sizes = np.bincount(codes)
        self.starts = np.cumsum(self.sizes) - self.sizes

    def __len__(self) -> int:
        return len(self.codes)

    def sum(self, values: Floats64) -> Floats64:
        """The sum over the rows of each list."""
        return np.asarray(np.add.reduceat(values, self.starts))

    def maximum(self, scores: Floats64, p: float) -> tuple[Floats64, Floats64]:
        r"""The soft maximum of each list's scores, and its derivatives by them.

        .. math:: \tfrac1p \log \tfrac1n \sum_j e^{p f_j} \;\in\; [\max_j f_j - \tfrac{\log n}{p},
            \max_j f_j]

        With p = ∞ it is the maximum itself; documents that share it share its derivative.
        """
        largest = np.maximum.reduceat(scores, self.starts)
        below = scores - largest[self.codes]
        powers = np.equal(below, 0.0).astype(np.float64) if p == np.inf else np.exp(p * below)
        total = self.sum(powers)
        lift = 0.0 if p == np.inf else np.log(total / self.sizes) / p
        return largest + lift, powers / total[self.codes]


class PushLists:
    """The documents with the lowest label of each list, and those with a higher: the relevant."""

    def __init__(self, X: Any, y: Floats64, queries: Queries) -> None:
        codes = queries.codes()
        lowest = np.minimum.reduceat(y, queries.offsets[:-1])[codes]
        up, down = np.flatnonzero(y > lowest), np.flatnonzero(y == lowest)
        self.relevant = Groups(X[up], codes[up])
        self.irrelevant = Groups(X[down], codes[down])

    def __len__(self) -> int:
        return len(self.relevant.starts)

    def rows(self) -> LinearOperator:
        """The features of all documents, the relevant ones first, as one matrix."""
        up, down = self.relevant.X, self.irrelevant.X
        return LinearOperator(
            (len(self.relevant) + len(self.irrelevant), up.shape[1]),
            matvec=lambda w: np.concatenate([up @ w, down @ w]),
            rmatvec=lambda s: up.T @ s[: len(self.relevant)] + down.T @ s[len(self.relevant) :],
            dtype=np.float64,
        )

    def split(self, scores: Floats64) -> tuple[Floats64, Floats64]:
        """The scores of the relevant and of the irrelevant documents, from those of all rows."""
        return scores[: len(self.relevant)], scores[len(self.relevant) :]


@dataclass(eq=False, repr=False)
class PushRanker(RegularizedRanker):
    """A ranker that punishes the best irrelevant documents; a subclass gives the loss."""

    advice = "a finite p, such as 64, looks past the very best one"

    _: KW_ONLY
    p: float = 64.0

    def _score_loss(self, lists: PushLists, scores: Floats64) -> tuple[float, Floats64]:
        """The mean loss of the lists and its derivative by each score, relevant documents first."""
        raise NotImplementedError

    def _is_smooth(self) -> bool:
        return bool(self.p < np.inf)

    def _check_params(self) -> None:
        super()._check_params()
        if not isinstance(self.p, Real) or not self.p >= 1:
            raise ArgumentError("p", f"must be a number >= 1 or numpy.inf; got {self.p!r}")

    def _minimise(self, X: Any, y: Floats64, queries: Queries, progress: FitProgress) -> bool:
        lists = PushLists(X, y, queries)
        loss = partial(self._score_loss, lists)
        objective = LinearObjective(lists.rows(), loss, alpha=self.alpha)
        self.loss_curve_ = [objective.loss(self.coef_)[0]]
        if self._is_smooth():
            return self._descend_smooth(objective, progress)
        bundle = Bundle(objective.loss, len(self.coef_), float(self.alpha))
        return self._descend_bundle(bundle, progress).converged

    def _descend_smooth(self, objective: LinearObjective, progress: FitProgress) -> bool:
        """Minimise by L-BFGS; α-strong convexity bounds the gap by the gradient."""
        alpha = float(self.alpha)
        reached = stopping_rule(*objective.loss(self.coef_), alpha, float(self.tol))

        def after(w: Floats64, value: float, gradient: Floats64) -> bool:
            self._record(w, value, progress)
            self.gap_ = float(gradient @ gradient) / (2.0 * alpha)
            return reached(self.gap_, value)

        minimize_lbfgs(
            objective, self.coef_, max_iter=self.max_iter, gtol=0.0, after_iteration=after
        )
        # L-BFGS also ends where rounding leaves it no lower point: that is the minimum.
        return self.n_iter_ < self.max_iter or reached(self.gap_, self.loss_curve_[-1])
