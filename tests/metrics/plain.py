"""The metrics in plain Python, a list of labels in ranked order in and a number out; drawn data."""

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from robirank.metrics import average_precision, dcg, err, ndcg, precision, recall, reciprocal_rank


def plain_dcg(labels, k, gain="exp", discount="log2"):
    total = 0.0
    for rank, label in enumerate(labels[:k], start=1):
        weight = 1 / math.log2(rank + 1 if discount == "log2" else max(rank, 2))
        total += weight * (2**label - 1 if gain == "exp" else label)
    return total


def plain_ndcg(labels, k, gain="exp", discount="log2"):
    ideal = plain_dcg(sorted(labels, reverse=True), k, gain, discount)
    return plain_dcg(labels, k, gain, discount) / ideal if ideal else 0.0


def plain_mean_ndcg(labels, k):
    return sum(plain_ndcg(labels, c) for c in range(1, len(labels) + 1)) / len(labels)


def plain_precision(labels, k):
    return sum(label >= 1 for label in labels[:k]) / (k or len(labels))


def plain_recall(labels, k):
    found = sum(label >= 1 for label in labels)
    return sum(label >= 1 for label in labels[:k]) / found if found else 0.0


def plain_ap(labels, k):
    found = sum(label >= 1 for label in labels)
    tops = [plain_precision(labels, r + 1) for r, lab in enumerate(labels[:k]) if lab >= 1]
    return sum(tops) / found if found else 0.0


def plain_rr(labels, k):
    return next((1 / r for r, lab in enumerate(labels[:k], start=1) if lab >= 1), 0.0)


def plain_err(labels, k, top=3):
    total, reached = 0.0, 1.0
    for rank, label in enumerate(labels[:k], start=1):
        stop = (2**label - 1) / 2**top
        total += reached * stop / rank
        reached *= 1 - stop
    return total


def err_to_3(y, scores, qid=None, **options):
    return err(y, scores, qid, max_grade=3, **options)


METRICS = [
    (dcg, plain_dcg),
    (ndcg, plain_ndcg),
    (precision, plain_precision),
    (recall, plain_recall),
    (average_precision, plain_ap),
    (reciprocal_rank, plain_rr),
    (err_to_3, plain_err),
]
FUNCTIONS = [f for f, _ in METRICS]


def orders_of_ties(y, scores):
    """Every ranked order of the labels that the scores allow, each as likely as any other."""
    groups = [
        [label for label, s in zip(y, scores, strict=True) if s == score]
        for score in sorted(set(scores), reverse=True)
    ]
    for parts in itertools.product(*(itertools.permutations(g) for g in groups)):
        yield [label for part in parts for label in part]


@st.composite
def tied_lists(draw, max_size=6):
    n = draw(st.integers(1, max_size))
    y = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    scores = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    return y, [float(s) for s in scores]


cutoffs = st.none() | st.integers(1, 8)


def random_data(seed=0, n_queries=40, max_size=30, levels=None, empty_share=0.2):
    """Contiguous queries of many sizes; some without relevant rows, scores with ties if levels."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, max_size + 1, n_queries)
    qid = np.repeat(np.arange(n_queries), sizes)
    y = rng.integers(0, 4, len(qid)) * (rng.random(len(qid)) < 0.5)
    y[np.isin(qid, np.flatnonzero(rng.random(n_queries) < empty_share))] = 0
    scores = rng.integers(0, levels, len(qid)) / 4 if levels else rng.normal(size=len(qid))
    return y, scores, qid
