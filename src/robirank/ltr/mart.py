"""MART: boosted regression trees on the labels."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from robirank._queries import Queries
from robirank.ltr._boosting import GRID, BoostedRanker
from robirank.registry import Comparison, register


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
        The most trees. The defaults of this and the next five parameters are RankLib's.
    learning_rate : float, default=0.1
        What a tree is shrunk by.
    max_leaf_nodes : int, default=10
        The most leaves of a tree.
    min_samples_leaf : int, default=1
        The fewest documents of a leaf.
    l2_regularization : float, default=0.0
        What is added to the sum of second derivatives of a leaf.
    max_features : float, default=1.0
        The share of the features that a tree looks at, drawn at random.
    subsample : float, default=1.0
        The share of the queries that a tree is grown on, drawn at random.
    max_bins : int, default=255
        Features are cut into so many bins of about equally many documents, and bins are told
        apart by thresholds. (RankLib has 256 thresholds at equal distances.)
    patience : int or None, default=100
        With validation data: stop after so many rounds without progress. None: grow all trees.
    k : int or None, default=10
        Progress is measured by mean NDCG@k (None: the full list) on the validation data.
    convention : str, default="standard"
        The convention of that NDCG; see `robirank.metrics`.
    random_state : int, Generator, RandomState or None, default=None
        Decides what ``max_features`` and ``subsample`` draw, and which documents the bins are made
        from where there are more than 200,000; nothing else is random.
    num_threads : int, default=0
        0: every core; one for little work. The result does not depend on it, to the last bit.
    verbose : bool, default=False
        Show a progress line.

    Attributes
    ----------
    n_iter_ : int
        The rounds that were run.
    best_iter_ : int
        The number of trees that were kept.
    validation_scores_ : list of float
        NDCG@k on the validation data after each round; empty without.
    tree_offsets_, split_feature_, threshold_, left_child_, leaf_value_ : arrays
        The trees; see `robirank.ltr._forest.Forest`.

    References
    ----------
    Friedman: Greedy function approximation: a gradient boosting machine. Annals of Statistics
    29(5), 2001.

    Examples
    --------
    >>> from robirank import make_ranking
    >>> from robirank.ltr.mart import MART
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = MART(n_estimators=50).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    comparison = Comparison("MART", GRID)
    test_settings = ({"n_estimators": 100, "num_threads": 1},)

    def _loss(self, y: NDArray[Any], queries: Queries) -> tuple[NDArray[Any], dict[str, Any]]:  # noqa: ARG002
        return y, {"objective": "regression"}
