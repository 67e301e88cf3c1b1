"""Random forests: regression trees on bags of queries, averaged."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from robirank._checks import AtLeastTwo, Count, Share
from robirank._features import settled_order
from robirank._queries import Queries
from robirank._random import RandomStateLike, as_random_state
from robirank._threads import threads_for_cells
from robirank._types import Floats64
from robirank.ltr._forest import Forest, ForestRanker, join_forests
from robirank.ltr._lightgbm import import_lightgbm, read_forest, tree_params
from robirank.registry import register


@register
@dataclass(eq=False, repr=False)
class RandomForests(ForestRanker):
    r"""Random forests: the mean of many deep regression trees, each grown on other queries.

    For each tree a bag of queries is drawn with replacement, and the tree is grown, best leaf
    first, to minimise the squared error of the labels,

    .. math:: \sum_{x \in \text{bag}} \sum_y \big(W_{xy} - t(x, y)\big)^2

    where each split looks at a fresh random choice of the features. The score is the mean over
    trees. This is what RankLib calls random forests: bags of one MART tree each. Trees are grown
    by LightGBM (``pip install 'robirank[trees]'``), and kept as plain arrays.

    Graded labels are regressed on as they are. Queries are drawn, or left out, as a whole; within
    a bag all documents count the same. Where there is a single query, documents are drawn.

    Parameters
    ----------
    n_estimators : int, default=300
        The number of bags, and of trees. The defaults are RankLib's.
    max_samples : float, default=1.0
        The number of queries drawn for a bag, relative to all queries; above 0, at most 1.
    max_features : float, default=0.3
        The share of the features that a split looks at (two at least).
    max_leaf_nodes : int, default=100
        The most leaves of a tree.
    min_samples_leaf : int, default=1
        The fewest documents of a leaf, each as often as its query is in the bag.
    max_bins, num_threads, verbose
        As in `MART`.
    random_state : int, Generator, RandomState or None, default=None
        Decides the bags and the features.

    Attributes
    ----------
    tree_offsets_, split_feature_, threshold_, left_child_, leaf_value_ : arrays
        The trees; see `robirank.ltr._forest.Forest`.

    References
    ----------
    Breiman: Random forests. Machine Learning 45(1), 2001.

    Examples
    --------
    >>> from robirank import RandomForests, make_ranking
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = RandomForests(20, random_state=0).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    averages = True

    n_estimators: Count = 300
    _: KW_ONLY
    max_samples: Share = 1.0
    max_features: Share = 0.3
    max_leaf_nodes: AtLeastTwo = 100
    min_samples_leaf: Count = 1
    max_bins: AtLeastTwo = 255
    random_state: RandomStateLike = None
    num_threads: int = 0

    def _train(self, X: Any, y: Floats64, queries: Queries) -> None:
        lightgbm = import_lightgbm()
        rng = as_random_state(self.random_state)
        params = self._params(rng)
        params["num_threads"] = threads_for_cells(X.size, self.num_threads)
        trees: list[Forest] = []
        with self._progress(self.n_estimators) as progress:
            rows = settled_order(X, y, queries)
            train = lightgbm.Dataset(X[rows], y[rows], params=params).construct()
            for number in range(1, self.n_estimators + 1):
                train.set_weight(draw_bag(queries, float(self.max_samples), rng))
                params["feature_fraction_seed"] = rng.randint(2**31 - 1)
                booster = lightgbm.Booster(params, train)
                booster.update()
                trees.append(read_forest(booster))
                progress.update(number)
        self._keep(join_forests(trees))

    def _params(self, rng: np.random.RandomState) -> dict[str, Any]:
        return tree_params(self.max_leaf_nodes, self.max_bins, rng.randint(2**31 - 1)) | {
            "objective": "regression",
            "learning_rate": 1.0,
            "feature_fraction_bynode": float(self.max_features),
            # The second derivative of the squared error is the weight of a document, so this
            # counts a leaf's documents as the bag does; half a document against rounding.
            "min_sum_hessian_in_leaf": self.min_samples_leaf - 0.5,
            "min_data_in_leaf": 0,
        }


def draw_bag(queries: Queries, share: float, rng: np.random.RandomState) -> Floats64:
    """Draw queries with replacement; return how often the document at each place is in the bag."""
    alone = len(queries) == 1
    n = queries.n_rows if alone else len(queries)
    drawn = rng.randint(n, size=max(1, round(share * n)))
    times = np.bincount(drawn, minlength=n).astype(np.float64)
    return times if alone else np.repeat(times, queries.sizes)
