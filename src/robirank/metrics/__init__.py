"""How good is a ranking: DCG, NDCG, precision, recall, MAP, MRR and ERR.

Every metric takes labels, scores and query ids, one of each a row, in any order of rows::

    ndcg(y, scores, qid, k=10)                        # the mean over queries
    ndcg(y, scores, qid, k=(1, 5, 10))                # several cut-offs, one sort
    ndcg(y, scores, qid, k=10, per_query=True)        # one value a query
    ndcg(y, scores, qid, k=10, convention="letor")    # as LETOR's own script counts

Programs that print "NDCG" do not agree on what it is. What they disagree on is an argument here
(gain, discount, ties, empty lists), and the usual combinations have names: see
:data:`CONVENTIONS`.
"""

from robirank.metrics._conventions import CONVENTIONS, Convention
from robirank.metrics._evaluate import evaluate_ranking
from robirank.metrics._gains import dcg, mean_ndcg, ndcg
from robirank.metrics._relevant import average_precision, precision, recall
from robirank.metrics._stopping import err, reciprocal_rank

__all__ = [
    "CONVENTIONS",
    "Convention",
    "average_precision",
    "dcg",
    "err",
    "evaluate_ranking",
    "mean_ndcg",
    "ndcg",
    "precision",
    "recall",
    "reciprocal_rank",
]
