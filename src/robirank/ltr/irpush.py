"""IRPush: the infinite push, a support vector machine for the absolute top of the list."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from robirank._types import Floats64
from robirank.ltr._push import PushLists, PushRanker
from robirank.registry import register

LossName = Literal["hinge", "logistic"]


@register
@dataclass(eq=False, repr=False)
class IRPush(PushRanker):
    r"""The infinite push with the loss of support vector machines.

    In a query with relevant documents i = 1 … m and irrelevant ones j = 1 … n, the infinite push
    takes the irrelevant document that costs most, :math:`\max_j \frac1m \sum_i \ell(f_i - f_j)`.
    As ℓ does not increase, that is the one with the highest score, so that an evaluation costs
    m + n and not m · n. Minimised is, over the weights ω of a linear scoring function f,

    .. math::
        \frac{1}{|\mathcal{X}|} \sum_x \frac1m \sum_i \ell\big(f_{xi} - \max_j{}^{\!(p)}
        f_{xj}\big) + \frac{\alpha}{2} \lVert\omega\rVert^2,
        \qquad \max_j{}^{\!(p)} f_j = \frac1p \log \frac1n \sum_j e^{p f_j},

    which is the infinite push for p = ∞, and close to it for large p: the soft maximum is within
    log(n)/p of the maximum, where the hinge wants a margin of 1.

    Relevant are documents with a label > 0; higher grades count like lower ones. (In a query
    without any document of label 0, those of its lowest label stand for the irrelevant ones.) The
    mean runs over the queries in which labels differ; the original has one list.

    Parameters
    ----------
    alpha : float, default=0.1
        Strength of the L2 penalty, > 0. With large p a good value lies between 1e-3 and 1e2.
    p : float, default=64
        Sharpness of the maximum, from 1 to ``numpy.inf``. The infinite push itself has a catch:
        if no weights put the mean relevant document of the mean query above its best irrelevant
        one, then ω = 0 is the minimum, whatever ``alpha`` is. That is so on all folds of
        OHSUMED and MQ2008, where p from 1 to 64 learns well; hence the default.
    loss : {"hinge", "logistic"}, default="hinge"
        ℓ(t): max(0, 1 − t), as in the original, or log(1 + e^−t).
    max_iter : int, default=1000
        The most iterations of the bundle method, or of L-BFGS where the objective is smooth (the
        logistic loss with a finite p).
    tol, verbose
        As in `InfNormPush`.

    Attributes
    ----------
    coef_, n_iter_, loss_curve_, gap_
        As in `InfNormPush`.

    References
    ----------
    Agarwal: The Infinite Push: A New Support Vector Ranking Algorithm that Directly Optimizes
    Accuracy at the Absolute Top of the List. SDM 2011.

    Examples
    --------
    >>> from robirank import IRPush, make_ranking
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = IRPush().fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    _: KW_ONLY
    loss: LossName = "hinge"

    def _is_smooth(self) -> bool:
        return super()._is_smooth() and self.loss == "logistic"

    def _score_loss(self, lists: PushLists, scores: Floats64) -> tuple[float, Floats64]:
        """The mean over lists of the loss of relevant documents against the top irrelevant one."""
        f, g = lists.split(scores)
        up, down = lists.relevant, lists.irrelevant
        top, share = down.maximum(g, float(self.p))
        margin = f - top[up.codes]
        if self.loss == "hinge":
            losses, by_margin = np.maximum(0.0, 1.0 - margin), np.where(margin < 1.0, -1.0, 0.0)
        else:
            losses, by_margin = np.logaddexp(0.0, -margin), -expit(-margin)
        weight = 1.0 / (len(lists) * up.sizes[up.codes])
        by_f = by_margin * weight
        by_g = -up.sum(by_f)[down.codes] * share
        return float(losses @ weight), np.concatenate([by_f, by_g])
