"""ListNet: a linear ranker by the cross entropy of top-one probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._checks import Count, NotNegative, Positive
from robirank._queries import Queries
from robirank._types import Floats64
from robirank.ltr.base import LinearRanker
from robirank.registry import register


@register
@dataclass(eq=False, repr=False)
class ListNet(LinearRanker):
    r"""ListNet with a linear scoring function and top-one probabilities.

    Labels and scores both say how likely each document is to be the first of its list, by a
    softmax. Minimises the cross entropy between the two, averaged over queries:

    .. math::
        -\frac{1}{|\mathcal{X}|} \sum_x \sum_y p_{xy} \log q_{xy}
        + \frac{\alpha}{2} \lVert\omega\rVert^2,
        \qquad
        p_{xy} = \frac{e^{W_{xy}}}{\sum_{y'} e^{W_{xy'}}},
        \quad
        q_{xy} = \frac{e^{\langle\phi(x,y), \omega\rangle}}
                      {\sum_{y'} e^{\langle\phi(x,y'), \omega\rangle}}

    For a linear model this is convex, so it is solved to convergence by L-BFGS. (RankLib takes
    1500 gradient steps of size 1e-5, which end far from the optimum; the number of steps then acts
    as the penalty does here.)

    Graded labels enter by the softmax: one grade more makes a document e times as likely to be
    first. Queries count alike. Those whose labels are all equal, also all 0, take part as in the
    paper: they ask for equal scores.

    Parameters
    ----------
    alpha : float, default=1e-2
        Strength of the L2 penalty. The paper has none.
    max_iter, tol, verbose
        As in `RoBiRank`.

    Attributes
    ----------
    coef_, n_iter_, loss_curve_
        As in `RoBiRank`.

    References
    ----------
    Cao, Qin, Liu, Tsai, Li: Learning to rank: from pairwise approach to listwise approach. ICML
    2007.

    Examples
    --------
    >>> from robirank import ListNet, make_ranking
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = ListNet(alpha=1e-2).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    alpha: NotNegative = 1e-2
    _: KW_ONLY
    max_iter: Count = 500
    tol: Positive = 1e-5

    def _train(self, X: Any, y: Floats64, queries: Queries) -> None:
        self._descend(X, TopOneEntropy(y, queries), alpha=self.alpha)


class TopOneEntropy:
    """The mean over lists of −Σ p log q, with p and q the softmax of labels and of scores."""

    def __init__(self, y: Floats64, queries: Queries) -> None:
        self._queries = queries
        self._p = np.exp(self._log_softmax(queries.sort(y)))

    def __call__(self, scores: Floats64) -> tuple[float, Floats64]:
        """Return the loss and its gradient by the scores, one a row."""
        log_q = self._log_softmax(self._queries.sort(scores))
        gradient = (np.exp(log_q) - self._p) / len(self._queries)
        loss = -float(np.sum(self._p * log_q)) / len(self._queries)
        return loss, self._queries.unsort(gradient)

    def _log_softmax(self, values: NDArray[Any]) -> Floats64:
        """Take the log of the softmax of each list, values being in the grouped order."""
        starts, sizes = self._queries.offsets[:-1], self._queries.sizes
        values = values - np.repeat(np.maximum.reduceat(values, starts), sizes)
        sums = np.add.reduceat(np.exp(values), starts)
        return np.asarray(values - np.repeat(np.log(sums), sizes))
