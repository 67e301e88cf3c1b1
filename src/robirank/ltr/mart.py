"""MART: boosted regression trees on the labels."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from robirank._queries import Queries
from robirank.ltr._boosting import BoostedRanker
from robirank.registry import register


@register
class MART(BoostedRanker):
    r"""Multiple additive regression trees: a pointwise ranker.

    The score is a sum of regression trees that minimises

    .. math:: \sum_{x, y} \tfrac12 \big(W_{xy} - s_{xy}\big)^2

    by gradient boosting: it starts from the mean label, and each tree is fitted to what the trees
    before it left over, shrunk by the learning rate. Trees are grown by LightGBM, best leaf first
    (``pip install 'robirank[trees]'``), and kept as plain arrays.

    Graded labels are regressed on as they are. Queries play no part in the loss: all documents
    count the same, so long lists weigh more. They do decide when to stop.

    Parameters
    ----------
    n_estimators : int, default=1000
        The most trees. The defaults of this and the next four parameters are RankLib's.
    learning_rate : float, default=0.1
    max_leaf_nodes : int, default=10
    min_samples_leaf : int, default=1
    max_bins : int, default=255
        As in `RoBiRankBooster`. (RankLib has 256 thresholds at equal distances.)
    l2_regularization, max_features, subsample, patience, k, convention
        As in `RoBiRankBooster`.
    random_state, num_threads, verbose
        As in `RoBiRankBooster`.

    Attributes
    ----------
    n_iter_, best_iter_, validation_scores_
        As in `RoBiRankBooster`.
    tree_offsets_, split_feature_, threshold_, left_child_, leaf_value_ : arrays
        The trees; see `robirank.ltr._forest.Forest`.

    References
    ----------
    Friedman: Greedy function approximation: a gradient boosting machine. Annals of Statistics
    29(5), 2001.

    Examples
    --------
    >>> from robirank import MART, make_ranking
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = MART(n_estimators=50).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    def _loss(self, y: NDArray[Any], queries: Queries) -> tuple[NDArray[Any], dict[str, Any]]:  # noqa: ARG002
        return y, {"objective": "regression"}
