"""ListNet: a linear ranker by the cross entropy of top-one probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank._checks import check_count, check_not_negative, check_positive
from robirank._queries import Queries
from robirank._types import Floats64
from robirank.ltr.base import LinearRanker, check_labels
from robirank.registry import Comparison, log_grid, register


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
    max_iter : int, default=500
        The most iterations of L-BFGS.
    tol : float, default=1e-5
        Stop when no entry of the gradient is larger.
    verbose : bool, default=False
        Show a progress line.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        The weights ω.
    n_iter_ : int
        Iterations of L-BFGS.
    loss_curve_ : list of float
        The objective at the start and after each iteration.

    References
    ----------
    Cao, Qin, Liu, Tsai, Li: Learning to rank: from pairwise approach to listwise approach. ICML
    2007.

    Examples
    --------
    >>> from robirank import make_ranking
    >>> from robirank.ltr.listnet import ListNet
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = ListNet(alpha=1e-2).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    comparison = Comparison("ListNet", log_grid("alpha", 0, -4, 9), {"max_iter": 2000})

    alpha: float = 1e-2
    _: KW_ONLY
    max_iter: int = 500
    tol: float = 1e-5
    verbose: bool = False

    def fit(self, X: Any, y: ArrayLike | None = None, *, qid: ArrayLike | None = None) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features), or RankingData
            Features of the documents.
        y : array-like of shape (n_rows,), optional
            Relevance labels, 0 for irrelevant; a RankingData has its own, and its own qid.
        qid : array-like of shape (n_rows,), optional
            The query of each row; without it all rows are one query.
        """
        check_not_negative("alpha", self.alpha)
        check_count("max_iter", self.max_iter)
        check_positive("tol", self.tol)
        X, y, queries = self._check_fit(X, y, qid)
        check_labels(y)
        self._descend(X, TopOneEntropy(y, queries), alpha=self.alpha)
        return self


class TopOneEntropy:
    r"""The mean over lists of −Σ p log q, with p and q the softmax of labels and of scores.

    Examples
    --------
    Labels log 3 and 0 make p = (3/4, 1/4); equal scores make q = (1/2, 1/2).

    >>> import math
    >>> import numpy as np
    >>> from robirank._queries import group_queries
    >>> entropy = TopOneEntropy(np.log([3.0, 1.0]), group_queries(None, 2))
    >>> loss, gradient = entropy(np.zeros(2))
    >>> round(loss / math.log(2), 12), gradient.round(12).tolist()
    (1.0, [-0.25, 0.25])
    """

    def __init__(self, y: Floats64, queries: Queries) -> None:
        self._queries = queries
        self._p = np.exp(self._log_softmax(queries.sort(y)))

    def __call__(self, scores: Floats64) -> tuple[float, Floats64]:
        """Return the loss and its gradient by the scores, one a row."""
        log_q = self._log_softmax(self._queries.sort(scores))
        slope = (np.exp(log_q) - self._p) / len(self._queries)
        loss = -float(np.sum(self._p * log_q)) / len(self._queries)
        return loss, np.asarray(self._queries.unsort(slope))

    def _log_softmax(self, values: NDArray[Any]) -> Floats64:
        """Take the log of the softmax of each list, values being in the grouped order."""
        starts, sizes = self._queries.offsets[:-1], self._queries.sizes
        values = values - np.repeat(np.maximum.reduceat(values, starts), sizes)
        sums = np.add.reduceat(np.exp(values), starts)
        return np.asarray(values - np.repeat(np.log(sums), sizes))
