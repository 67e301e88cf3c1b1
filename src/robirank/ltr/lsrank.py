"""LSRank: direct optimisation of NDCG by structured estimation, after Le and Smola."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from robirank._checks import CountOrNone, Positive
from robirank._progress import FitProgress
from robirank._queries import Queries
from robirank._types import Floats64, Ints64
from robirank.errors import ArgumentError
from robirank.ltr._bundle import Bundle
from robirank.ltr._regularized import RegularizedRanker
from robirank.metrics._conventions import discounts, gains
from robirank.registry import register

Decay = Literal["log"] | float
Ties = Literal["best", "average"]


@register
@dataclass(eq=False, repr=False)
class LSRank(RegularizedRanker):
    r"""Structured estimation for NDCG: every other ranking must score less than the ideal one.

    A ranking π, which has document π(i) at place i, scores :math:`\sum_i c_i f_{\pi(i)}` with a
    decreasing sequence c, so that sorting by f finds the ranking of highest score. The ideal
    ranking π* shall score higher than each π by the loss of NDCG of π, Δ(π) = 1 − NDCG@k(π). So
    the ranker minimises, over the weights ω of a linear scoring function f,

    .. math::
        \frac{1}{|\mathcal{X}|} \sum_x \left\{ \max_\pi \Big[ \Delta(\pi)
        + \sum_i c_i f_{\pi(i)} \Big] - \sum_i c_i f_{\pi^*(i)} \right\}
        + \frac{\alpha}{2} \lVert\omega\rVert^2

    by a bundle method; the first term is never less than the mean of Δ of the rankings that f
    makes. The maximum over π is a linear assignment problem. With the default c, which decreases
    like the discount of NDCG, sorting by f minus the gain solves it.

    **Ties.** Documents of equal label can stand in any order in the ideal ranking; the original
    does not say which to take. ``ties="best"`` takes the ideal ranking that f scores highest. This
    bound of Δ is tighter, but not convex, and is minimised in rounds: π* is fixed, the convex
    problem is solved, π* is chosen anew, until the objective falls no more. In the first round,
    ties are ordered by the first step of steepest descent from ω = 0. ``ties="average"`` takes the
    mean over all ideal rankings, which is convex. But scores that differ within a label are then
    costly, so much that on all folds of OHSUMED and three of MQ2008 the minimum is ω = 0; hence the
    default.

    Graded labels enter through the gain 2^label − 1. The mean runs over the queries in which not
    all labels are the same.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the L2 penalty, > 0. A good value lies between 1e-2 and 1e2.
    k : int or None, default=None
        The places that count in NDCG@k, and the only ones with c_i > 0; all by default.
    decay : "log" or float, default="log"
        c_i = 1/log2(i + 1), or c_i = i^−decay; the method leaves the sequence open. A number, such
        as 0.25, makes each evaluation assign documents to the places that count, list by list,
        which takes ten times as long with ``k=10`` and is slow for long lists without ``k``.
    ties : {"best", "average"}, default="best"
        Which ideal ranking to compare with.
    max_iter : int, default=1000
        The most iterations of the bundle method, in all rounds together.
    tol : float, default=1e-2
        Stop a round when its objective is known to be within ``tol`` of its minimum, as a share of
        the reduction since ω = 0; stop altogether when a round reduces it by less than that.
    verbose : bool, default=False
        Show a progress line.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        The weights ω.
    n_iter_ : int
        The iterations of the bundle method.
    n_rounds_ : int
        The number of times that the ideal rankings were chosen; 1 if ``ties="average"``.
    loss_curve_ : list of float
        The objective at ω = 0 and the best after each iteration, for the ideal rankings as they
        were chosen then.
    gap_ : float
        The most by which the minimum can be lower, for the last choice of ideal rankings.

    References
    ----------
    Le, Smola: Direct Optimization of Ranking Measures. arXiv:0704.3359, 2007.
    Yuille, Rangarajan: The Concave-Convex Procedure. Neural Computation 2003.

    Examples
    --------
    >>> from robirank import LSRank, make_ranking
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = LSRank().fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    fitted_parts = RegularizedRanker.fitted_parts.plus(numbers={"n_rounds_": int})
    advice = "try ties='best', k=None and a smaller alpha"

    alpha: Positive = 1.0
    _: KW_ONLY
    tol: Positive = 1e-2
    k: CountOrNone = None
    decay: Decay = "log"
    ties: Ties = "best"

    def _check_params(self) -> None:
        super()._check_params()
        is_power = isinstance(self.decay, Real) and 0 < self.decay < np.inf
        if self.decay != "log" and not is_power:
            raise ArgumentError(
                "decay", f"must be 'log' or a finite number > 0; got {self.decay!r}"
            )

    def _minimise(self, X: Any, y: Floats64, queries: Queries, progress: FitProgress) -> bool:
        """Choose ideal rankings and solve the convex problem, in turn."""
        rankings = Rankings(X, y, queries, self.k, self.decay)
        bundle = Bundle(rankings.worst, X.shape[1], float(self.alpha))
        self.loss_curve_, self.n_rounds_ = [bundle.at_zero], 0
        ideal, start = rankings.ideal(self.coef_), None
        if self.ties == "best":
            ideal = rankings.ideal(ideal - rankings.worst(self.coef_)[1])
        while True:
            before = self.loss_curve_[-1]
            result = self._descend_bundle(bundle, progress, start=start, reward=ideal)
            self.n_rounds_ += 1
            gain = bundle.at_zero - result.objective
            settled = self.ties == "average" or before - result.objective <= self.tol * gain
            if settled or self.n_iter_ >= self.max_iter:
                return result.converged and settled
            ideal, start = rankings.ideal(self.coef_), self.coef_


class Rankings:
    """The rankings of training lists, with what each place counts.

    Rows of a list are sorted by gain, so that the places of its ideal ranking are its rows. A gain
    is a share of the best DCG of the list; ``discount`` and ``c`` are what the place of each row
    counts, in NDCG and in the score of a ranking. Rows of one list and label share a group.
    """

    def __init__(self, X: Any, y: Floats64, queries: Queries, k: int | None, decay: Decay) -> None:
        self.codes, self.starts = queries.codes(), queries.offsets[:-1]
        place = np.arange(1, len(y) + 1) - self.starts[self.codes]
        counts = place <= (np.inf if k is None else k)
        self.discount = counts * discounts(int(place.max()), "log2")[place - 1]
        power_law = decay != "log"
        self.c = counts * (1.0 * place) ** -float(decay) if power_law else self.discount
        best = np.lexsort((-y, self.codes))
        self.X, y = X[best], y[best]
        gain = gains(y, "exp")
        self.gain = gain / np.add.reduceat(gain * self.discount, self.starts)[self.codes]
        new = (np.diff(self.codes, prepend=0) != 0) | (np.diff(y, prepend=y[0]) != 0)
        self.label_group = np.cumsum(new)

    def worst(self, w: Floats64) -> tuple[float, Floats64]:
        """The mean of max over π of Δ(π) + Σ c_i f_π(i), and a subgradient."""
        f = np.asarray(self.X @ w)
        if self.c is self.discount:
            row = np.lexsort((self.gain - f, self.codes))
        else:
            lists = zip(self.starts, [*self.starts[1:], len(f)], strict=True)
            row = np.concatenate([self._assign(slice(*ends), f) for ends in lists])
        total = float(self.c @ f[row] - self.discount @ self.gain[row])
        return 1.0 + total / len(self.starts), self._mean_score(row, f)

    def _assign(self, part: slice, f: Floats64) -> Ints64:
        """The row that the worst ranking has at each place of one list.

        Among documents of equal gain, those with the highest f stand first; so as many of each gain
        as there are places that count are enough to choose from. The others follow in any order.
        """
        f, gain, discount = f[part], self.gain[part], self.discount[part]
        n_counting = int(np.count_nonzero(discount))
        order = np.lexsort((-f, -gain))
        _, first, size = np.unique(-gain[order], return_index=True, return_counts=True)
        rank = np.arange(len(f)) - np.repeat(first, size)
        candidates = order[rank < n_counting]
        worth = np.outer(self.c[part][:n_counting], f[candidates])
        worth -= np.outer(discount[:n_counting], gain[candidates])
        chosen = candidates[linear_sum_assignment(worth, maximize=True)[1]]
        rest = np.setdiff1d(np.arange(len(f)), chosen)
        return part.start + np.concatenate([chosen, rest])

    def ideal(self, w: Floats64) -> Floats64:
        """The mean of Σ c_i x_π*(i) for the ideal rankings that score highest with weights w."""
        f = np.asarray(self.X @ w)
        return self._mean_score(np.lexsort((-f, self.label_group)), f)

    def _mean_score(self, row: Ints64, f: Floats64) -> Floats64:
        """The mean over lists of Σ c_i x_π(i), where ``row[i]`` is π(i).

        Rows of one label with equal scores could change places, so they share the mean of their
        weights c: the only choice that does not depend on the order of rows.
        """
        weight, shared = np.empty_like(f), np.empty_like(f)
        weight[row] = self.c
        order = np.lexsort((f, self.label_group))
        other_label = np.diff(self.label_group[order], prepend=self.label_group[0]) != 0
        other_score = np.diff(f[order], prepend=np.nan) != 0
        group = np.cumsum(other_label | other_score) - 1
        mean = np.bincount(group, weights=weight[order]) / np.bincount(group)
        shared[order] = mean[group]
        return np.asarray(self.X.T @ shared) / len(self.starts)
