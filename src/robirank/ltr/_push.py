"""What the two pushes share: the top of the irrelevant documents, and the ways to the minimum."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from robirank._progress import FitProgress
from robirank._types import Floats64, Ints64
from robirank.ltr._bundle import Bundle, Stopping
from robirank.ltr._regularized import RegularizedRanker, TrainingLists
from robirank.objectives.linear import LinearObjective, minimize_lbfgs
from robirank.objectives.score_loss import ScoreLoss


@dataclass(frozen=True)
class Groups:
    """Rows of one kind, list after list: which list each belongs to, and where lists start."""

    X: Any
    codes: Ints64
    starts: Ints64
    sizes: Ints64

    @classmethod
    def build(cls, X: Any, codes: Ints64) -> Groups:
        """Collect rows that stand in the order of their lists, of which none is empty."""
        sizes = np.bincount(codes)
        return cls(X, codes, np.cumsum(sizes) - sizes, sizes)

    def __len__(self) -> int:
        return len(self.codes)

    def sum(self, values: Floats64) -> Floats64:
        """The sum of one value a row over each list."""
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


@dataclass(frozen=True)
class PushLists:
    """The relevant and the irrelevant documents of the same lists."""

    relevant: Groups
    irrelevant: Groups

    @classmethod
    def build(cls, lists: TrainingLists) -> PushLists:
        """Part each list in two: the documents with its lowest label, and those with a higher."""
        lowest = np.minimum.reduceat(lists.y, lists.starts)[lists.codes]
        up, down = np.flatnonzero(lists.y > lowest), np.flatnonzero(lists.y == lowest)
        return cls(
            Groups.build(lists.X[up], lists.codes[up]),
            Groups.build(lists.X[down], lists.codes[down]),
        )

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
        """The scores of the relevant and of the irrelevant documents, from one a row."""
        return scores[: len(self.relevant)], scores[len(self.relevant) :]


class PushRanker(RegularizedRanker):
    """A ranker that pushes the best irrelevant documents down; a subclass has the loss."""

    p: float

    def _score_loss(self, lists: PushLists) -> ScoreLoss:
        """The mean loss of the lists, for scores in the order of `PushLists.rows`."""
        raise NotImplementedError

    def _is_smooth(self) -> bool:
        return bool(self.p < np.inf)

    def _check_params(self) -> None:
        super()._check_params()
        if not isinstance(self.p, Real) or not self.p >= 1:
            raise ValueError(f"p must be a number >= 1 or numpy.inf; got {self.p!r}")

    def _train(self, lists: TrainingLists) -> None:
        parts = PushLists.build(lists)
        objective = LinearObjective(parts.rows(), self._score_loss(parts), alpha=self.alpha)
        self.coef_ = np.zeros(lists.X.shape[1])
        self.loss_curve_ = [objective.loss(self.coef_)[0]]
        self.n_iter_ = 0
        self.gap_ = np.inf
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
        """L-BFGS; the penalty makes the objective α-strongly convex, and that bounds the gap."""
        alpha = float(self.alpha)
        stopping = Stopping(*objective.loss(self.coef_), alpha, float(self.tol))

        def reached(w: Floats64, value: float, gradient: Floats64) -> bool:
            self._record(w, value, progress)
            self.gap_ = float(gradient @ gradient) / (2.0 * alpha)
            return stopping.reached(self.gap_, value)

        minimize_lbfgs(
            objective, self.coef_, max_iter=self.max_iter, gtol=0.0, after_iteration=reached
        )
        # L-BFGS also ends where rounding leaves it no lower point: there is nothing more to win.
        return self.n_iter_ < self.max_iter or stopping.reached(self.gap_, self.loss_curve_[-1])
