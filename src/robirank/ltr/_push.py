"""What InfNormPush and IRPush share: soft maxima over lists, and the ways to the minimum."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from robirank._progress import FitProgress
from robirank._queries import Queries
from robirank._types import Floats64, Ints64
from robirank.errors import ArgumentError
from robirank.ltr._bundle import Bundle, Stopping
from robirank.ltr._regularized import RegularizedRanker
from robirank.objectives.linear import LinearObjective, minimize_lbfgs
from robirank.objectives.score_loss import ScoreLoss


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

    _: KW_ONLY
    p: float = 64.0

    def _score_loss(self, lists: PushLists) -> ScoreLoss:
        """The mean loss of the lists, for scores in the order of `PushLists.rows`."""
        raise NotImplementedError

    def _is_smooth(self) -> bool:
        return bool(self.p < np.inf)

    def _check_params(self) -> None:
        super()._check_params()
        if not isinstance(self.p, Real) or not self.p >= 1:
            raise ArgumentError("p", f"must be a number >= 1 or numpy.inf; got {self.p!r}")

    def _minimise(self, X: Any, y: Floats64, queries: Queries) -> None:
        lists = PushLists(X, y, queries)
        objective = LinearObjective(lists.rows(), self._score_loss(lists), alpha=self.alpha)
        self.loss_curve_ = [objective.loss(self.coef_)[0]]
        with self._progress(self.max_iter) as progress:
            descend = self._descend_smooth if self._is_smooth() else self._descend_bundle
            converged = descend(objective, progress)
        self._warn_of_outcome(converged, "a finite p, such as 64, looks past the very best one")

    def _descend_bundle(self, objective: LinearObjective, progress: FitProgress) -> bool:
        bundle = Bundle(objective.loss, len(self.coef_), float(self.alpha))
        result = bundle.minimize(
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            report=lambda w, value: self._record(w, value, progress),
        )
        self.gap_ = result.gap
        return result.converged

    def _descend_smooth(self, objective: LinearObjective, progress: FitProgress) -> bool:
        """Minimise by L-BFGS; α-strong convexity bounds the gap by the gradient."""
        alpha = float(self.alpha)
        stopping = Stopping(*objective.loss(self.coef_), alpha, float(self.tol))

        def reached(w: Floats64, value: float, gradient: Floats64) -> bool:
            self._record(w, value, progress)
            self.gap_ = float(gradient @ gradient) / (2.0 * alpha)
            return stopping.reached(self.gap_, value)

        minimize_lbfgs(
            objective, self.coef_, max_iter=self.max_iter, gtol=0.0, after_iteration=reached
        )
        # L-BFGS also ends where rounding leaves it no lower point: that is the minimum.
        return self.n_iter_ < self.max_iter or stopping.reached(self.gap_, self.loss_curve_[-1])
