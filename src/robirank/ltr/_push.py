"""What the two pushes share: the top of the irrelevant documents, and the ways to the minimum."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import minimize

from robirank._progress import FitProgress
from robirank._types import Floats64, Ints64
from robirank.ltr._bundle import Bundle, Stopping
from robirank.ltr._regularized import RegularizedRanker, TrainingLists

__all__ = ["Groups", "PushLists", "PushRanker"]


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


class PushRanker(RegularizedRanker):
    """A ranker that pushes the best irrelevant documents down; a subclass has the loss."""

    p: float

    def _loss(self, f: Floats64, g: Floats64, lists: PushLists) -> tuple[float, Floats64, Floats64]:
        """The mean loss of lists and its derivatives by the scores f (relevant), g (irrelevant)."""
        raise NotImplementedError

    def _is_smooth(self) -> bool:
        return bool(self.p < np.inf)

    def _check_params(self) -> None:
        super()._check_params()
        if not isinstance(self.p, Real) or not self.p >= 1:
            raise ValueError(f"p must be a number >= 1 or numpy.inf; got {self.p!r}")

    def _risk(self, w: Floats64, lists: PushLists) -> tuple[float, Floats64]:
        up, down = lists.relevant.X, lists.irrelevant.X
        loss, by_f, by_g = self._loss(up @ w, down @ w, lists)
        return loss, np.asarray(up.T @ by_f + down.T @ by_g)

    def _train(self, lists: TrainingLists) -> None:
        parts = PushLists.build(lists)
        self.coef_ = np.zeros(lists.X.shape[1])
        self.loss_curve_ = [self._risk(self.coef_, parts)[0]]
        self.n_iter_ = 0
        self.gap_ = np.inf
        name = type(self).__name__
        with FitProgress(bool(self.verbose), total=self.max_iter, title=name) as progress:
            descend = self._descend_smooth if self._is_smooth() else self._descend_bundle
            converged = descend(parts, progress)
        self._warn_of_outcome(converged, "a finite p, such as 64, looks past the very best one")

    def _record(self, w: Floats64, objective: float, progress: FitProgress) -> None:
        self.coef_ = np.array(w)
        self.loss_curve_.append(float(objective))
        self.n_iter_ += 1
        progress.update(self.n_iter_, loss=objective)

    def _descend_bundle(self, lists: PushLists, progress: FitProgress) -> bool:
        bundle = Bundle(lambda w: self._risk(w, lists), len(self.coef_), float(self.alpha))
        result = bundle.minimize(
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            report=lambda w, objective: self._record(w, objective, progress),
        )
        self.gap_ = result.gap
        return result.converged

    def _descend_smooth(self, lists: PushLists, progress: FitProgress) -> bool:
        """L-BFGS; the penalty makes the objective α-strongly convex, and that bounds the gap."""
        alpha = float(self.alpha)
        at_zero, slope = self._risk(self.coef_, lists)
        stopping = Stopping(at_zero, slope, alpha, float(self.tol))

        def objective(w: Floats64) -> tuple[float, Floats64]:
            nonlocal slope
            risk, slope = self._risk(w, lists)
            slope += alpha * w
            return risk + 0.5 * alpha * float(w @ w), slope

        def after_iteration(intermediate_result: Any) -> None:
            # What L-BFGS accepts is what it evaluated last.
            self._record(intermediate_result.x, float(intermediate_result.fun), progress)
            self.gap_ = float(slope @ slope) / (2.0 * alpha)
            if stopping.reached(self.gap_, self.loss_curve_[-1]):
                raise StopIteration

        minimize(
            objective,
            self.coef_,
            jac=True,
            method="L-BFGS-B",
            callback=after_iteration,
            options={"maxiter": int(self.max_iter), "gtol": 0.0, "ftol": 0.0},
        )
        # L-BFGS also ends where rounding leaves it no lower point: there is nothing more to win.
        return self.n_iter_ < self.max_iter or stopping.reached(self.gap_, self.loss_curve_[-1])
