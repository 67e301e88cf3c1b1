"""LambdaMART: boosted trees whose gradients know NDCG."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._queries import Queries
from robirank.ltr._boosting import BoostedRanker
from robirank.metrics._conventions import gains
from robirank.registry import register

_LONGEST_LIST = 10_000  # LightGBM's table of discounts ends here


@register
class LambdaMART(BoostedRanker):
    r"""LambdaMART: trees boosted on pairs of documents, weighted by what their swap is worth.

    There is no loss but its gradient. A document i of query x is pushed by

    .. math::
        \lambda_i = \sum_{j:\, W_i > W_j} \frac{|\Delta_{ij}|}{1 + e^{s_i - s_j}}
                  - \sum_{j:\, W_i < W_j} \frac{|\Delta_{ij}|}{1 + e^{s_j - s_i}},
        \qquad
        |\Delta_{ij}| = \frac{|2^{W_i} - 2^{W_j}|}{\mathrm{maxDCG@}k}
        \Big|\frac{1}{\log_2(1 + r_i)} - \frac{1}{\log_2(1 + r_j)}\Big|

    where r are the present ranks, and only pairs count of which one document stands among the
    first k. Each tree is fitted to the λ, and its leaves take a Newton step, shrunk by the
    learning rate. Trees are grown by LightGBM, best leaf first (``pip install
    'robirank[trees]'``), and kept as plain arrays. LightGBM's own normalisation of the λ is off.

    Graded labels enter by their gain :math:`2^W - 1` and need not be integers. Queries count
    alike, as NDCG has it. The order of rows within a query has no influence, although all scores
    tie at first. A query has at most 10,000 documents, which is LightGBM's limit.

    Parameters
    ----------
    k : int or None, default=10
        The k above (None: the full list), and of the NDCG@k on validation data.
    min_samples_leaf : int, default=1
        The fewest documents of a leaf, which LightGBM estimates from their second derivatives.
        (Its bound on the sum of those, 0.001, holds as well.)
    n_estimators, learning_rate, max_leaf_nodes, l2_regularization, max_features, subsample
        As in `MART`.
    max_bins, patience, convention, random_state, num_threads, verbose
        As in `MART`.

    Attributes
    ----------
    n_iter_, best_iter_, validation_scores_
        As in `RoBiRankBooster`.
    tree_offsets_, split_feature_, threshold_, left_child_, leaf_value_ : arrays
        The trees; see `robirank.ltr._forest.Forest`.

    References
    ----------
    Wu, Burges, Svore, Gao: Adapting boosting for information retrieval measures. Information
    Retrieval 13(3), 2010. Burges: From RankNet to LambdaRank to LambdaMART: an overview. MSR-TR
    2010-82.

    Examples
    --------
    >>> from robirank import LambdaMART, make_ranking
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = LambdaMART(n_estimators=50).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    def _loss(self, y: NDArray[Any], queries: Queries) -> tuple[NDArray[Any], dict[str, Any]]:
        longest = int(np.argmax(queries.sizes))
        if queries.sizes[longest] > _LONGEST_LIST:
            raise ValueError(
                f"LambdaMART takes at most {_LONGEST_LIST:,} documents a query; query "
                f"{queries.ids[longest]!r} has {queries.sizes[longest]:,}"
            )
        # LightGBM wants labels 0, 1, … and a table of their gains; so any labels will do.
        grades, codes = np.unique(y, return_inverse=True)
        return codes.reshape(-1).astype(np.float64), {
            "objective": "lambdarank",
            "label_gain": gains(grades, "exp").tolist(),
            "lambdarank_truncation_level": _LONGEST_LIST if self.k is None else int(self.k),
            "lambdarank_norm": False,
        }
