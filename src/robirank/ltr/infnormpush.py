"""InfNormPush: the p-norm push, which punishes irrelevant documents at the top of the list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robirank._types import Floats64
from robirank.ltr._push import PushLists, PushRanker
from robirank.registry import register


@register
@dataclass(eq=False, repr=False)
class InfNormPush(PushRanker):
    r"""The p-norm push with a large p, on the exponential loss.

    In a query with relevant documents i = 1 … m and irrelevant ones j = 1 … n, an irrelevant
    document costs :math:`h_j = \frac1m \sum_i e^{-(f_i - f_j)}`, and the push takes the p-norm of
    these costs: p = 1 counts all of them alike (the loss of RankBoost), p = ∞ only that of the
    irrelevant document with the highest score. Minimised is, over the weights ω of a linear
    scoring function f,

    .. math::
        \frac{1}{|\mathcal{X}|} \sum_x \log \Big(\frac1n \sum_j h_{xj}^p\Big)^{1/p}
        + \frac{\alpha}{2} \lVert\omega\rVert^2,
        \qquad \log \Big(\frac1n \sum_j h_j^p\Big)^{1/p}
        = \log \frac1m \sum_i e^{-f_i} + \frac1p \log \frac1n \sum_j e^{p f_j}.

    The logarithm is not in the original, which has one list only: there it leaves the minimum where
    it is, and turns products of exponentials into the sum on the right. With several lists it
    changes how they are weighed: no list can outweigh the others by a large loss, and none drops
    out when all is well with it.

    Relevant are documents with a label > 0; higher grades count like lower ones. (In a query
    without any document of label 0, those of its lowest label stand for the irrelevant ones.) The
    mean runs over the queries in which labels differ.

    Parameters
    ----------
    alpha : float, default=0.1
        Strength of the L2 penalty, > 0. With large p a good value lies between 1e-3 and 1e2.
    p : float, default=64
        How hard to push, from 1 to ``numpy.inf``. The p-norm is within log(n)/p of the maximum,
        on the scale on which a factor e of the loss is 1. The limit itself has a catch: if no
        weights put the mean relevant document of the mean query above its best irrelevant one,
        then ω = 0 is the minimum, whatever ``alpha`` is. That is so on all folds of
        OHSUMED and MQ2008, where p from 1 to 64 learns well; hence the default.
    max_iter : int, default=1000
        The most iterations of L-BFGS, or of the bundle method where p = ∞.
    tol : float, default=1e-3
        Stop when the objective is known to be within ``tol`` of its minimum, as a share of its
        reduction since ω = 0.
    verbose : bool, default=False
        Show a progress line.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        The weights ω.
    n_iter_ : int
        The iterations that were made.
    loss_curve_ : list of float
        The objective at ω = 0 and the best after each iteration.
    gap_ : float
        The most by which the minimum can be lower than the objective.

    References
    ----------
    Rudin: The P-Norm Push: A Simple Convex Ranking Algorithm that Concentrates at the Top of the
    List. JMLR 2009.

    Examples
    --------
    >>> from robirank import InfNormPush, make_ranking
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = InfNormPush().fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    def _score_loss(self, lists: PushLists, scores: Floats64) -> tuple[float, Floats64]:
        """The mean over lists of the logarithm of the p-norm of the irrelevant documents' costs."""
        f, g = lists.split(scores)
        bottom, by_f = lists.relevant.maximum(-f, 1.0)
        top, by_g = lists.irrelevant.maximum(g, float(self.p))
        return float(np.mean(bottom + top)), np.concatenate([-by_f, by_g]) / len(lists)
