"""The native measure of lists: the same values as robirank.metrics, along lines of scores."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from robirank._queries import group_queries
from robirank.ltr._list_metric import ListMetric, column
from robirank.metrics import Convention, average_precision, ndcg


def lists(seed, sizes=(1, 2, 7, 30, 150)):
    """Unsorted rows of several queries, with many tied scores and one query of nothing relevant."""
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    y = rng.integers(0, 4, len(qid)).astype(float)
    y[qid == 1] = 0.0
    y[qid == 0] = 2.0
    scores = rng.integers(0, 8, len(qid)).astype(float)
    return y, scores, qid


@pytest.mark.parametrize("ties", ["average", "first", "last", "best", "worst"])
@pytest.mark.parametrize("k", [1, 3, 10, 64, 65, 100, None])
def test_ndcg_is_that_of_the_metrics(ties, k):
    for seed, rule in enumerate(
        [Convention("exp", "log2", ties), Convention("linear", "letor", ties)]
    ):
        y, scores, qid = lists(seed)
        y = y / 64**seed  # labels need not be whole
        metric = ListMetric(y, group_queries(qid, len(y)), k=k, convention=rule)
        per_query = ndcg(y, scores, qid, k=k, convention=rule, empty="skip", per_query=True)
        expected = per_query[~np.isnan(per_query)]
        assert len(expected) == 4
        assert_allclose(metric.of(scores[metric.rows]), expected, rtol=1e-12)


@pytest.mark.parametrize("ties", ["average", "first", "last", "best", "worst"])
def test_average_precision_is_that_of_the_metrics(ties):
    rule = Convention(ties=ties)
    y, scores, qid = lists(3)
    metric = ListMetric(y, group_queries(qid, len(y)), metric="map", convention=rule)
    per_query = average_precision(y, scores, qid, convention=rule, empty="skip", per_query=True)
    assert_allclose(metric.of(scores[metric.rows]), per_query[~np.isnan(per_query)], rtol=1e-12)


@pytest.mark.parametrize("metric", ["ndcg", "map"])
def test_steps_along_a_line(metric):
    y, base, qid = lists(4)
    direction = np.random.default_rng(0).standard_normal(len(y))
    metric = ListMetric(y, group_queries(qid, len(y)), metric=metric)
    base, direction = base[metric.rows], direction[metric.rows]
    steps = [-3.0, 0.0, 0.25, 1e6]
    found = metric.along(base, direction, steps)
    assert found.shape == (4, 4)
    for t, step in enumerate(steps):
        assert_array_equal(found[:, t], metric.of(base + step * direction))


def test_threads_do_not_change_a_bit():
    y, base, qid = lists(5, sizes=[300] * 60)
    direction = np.random.default_rng(0).standard_normal(len(y))
    steps = np.linspace(-1, 1, 40)
    runs = []
    for n in (1, 2, 3):
        metric = ListMetric(y, group_queries(qid, len(y)), num_threads=n)
        runs.append(metric.along(base[metric.rows], direction[metric.rows], steps))
    assert_array_equal(runs[1], runs[0])
    assert_array_equal(runs[2], runs[0])


@pytest.mark.parametrize(("metric", "k"), [("ndcg", 3), ("ndcg", None), ("map", None)])
def test_scores_that_overflow_are_ranked_all_the_same(metric, k):
    y = np.tile([0.0, 1.0, 2.0], 10)
    metric = ListMetric(y, group_queries(None, 30), metric=metric, k=k)
    huge = np.full(30, 1e308)
    values = metric.along(huge, -huge, [0.0, 1e300])
    assert np.isfinite(values).all()
    infinite = metric.along(np.full(30, np.inf), np.full(30, -1e308), [1e300])  # inf - inf
    assert np.isfinite(infinite).all()


def test_average_precision_without_a_label_of_one_is_refused():
    queries = group_queries(None, 2)
    ListMetric(np.array([0.0, 0.5]), queries)
    with pytest.raises(ValueError, match=r"no relevant document.*metric='map'"):
        ListMetric(np.array([0.0, 0.5]), queries, metric="map")


def test_an_unknown_convention_is_named():
    with pytest.raises(ValueError, match=r"convention must be one of .*; got 'mine'"):
        ListMetric(np.array([0.0, 1.0]), group_queries(None, 2), convention="mine")


def test_columns_of_dense_and_sparse_features():
    X = np.random.default_rng(0).integers(0, 3, (6, 4)).astype(np.float32)
    for features in (X, sp.csr_matrix(X), sp.csc_matrix(X)):
        assert_array_equal(column(features, 2), X[:, 2])
        assert column(features, 2).dtype == np.float64
