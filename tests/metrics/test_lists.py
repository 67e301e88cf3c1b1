"""Many queries at once, in any order of rows."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics.plain import FUNCTIONS, cutoffs, random_data, tied_lists
from robirank.metrics import CONVENTIONS, mean_ndcg, ndcg, precision, recall
from robirank.metrics._lists import batches


@pytest.mark.parametrize("metric", [*FUNCTIONS, mean_ndcg])
@pytest.mark.parametrize("ties", ["average", "first", "last", "best", "worst"])
@pytest.mark.parametrize("levels", [None, 6])
def test_each_query_as_if_it_were_alone(metric, ties, levels, monkeypatch):
    """Many small chunks: lists of one to a hundred rows, padded, cut where a chunk is full."""
    monkeypatch.setattr("robirank.metrics._lists._CELLS", 1000)
    y, scores, qid = random_data(seed=3, n_queries=200, max_size=100, levels=levels)
    options = {"ties": ties} | ({} if metric is mean_ndcg else {"k": 20})
    values = metric(y, scores, qid, per_query=True, **options)
    ids = np.unique(qid)
    alone = [metric(y[qid == q], scores[qid == q], **options) for q in ids]
    np.testing.assert_allclose(values, alone, rtol=1e-12)
    assert metric(y, scores, qid, **options) == pytest.approx(np.mean(alone))


@given(st.lists(st.integers(1, 10_000), min_size=1))
def test_no_list_is_padded_to_more_than_twice_its_length(sizes):
    parts = [np.array(sizes)[part] for part in batches(np.array(sizes))]
    assert sorted(np.concatenate(parts)) == sorted(sizes)
    assert all(part.max() <= 2 * part.min() for part in parts)


@pytest.mark.parametrize("metric", FUNCTIONS)
def test_several_cutoffs_at_once(metric):
    data = random_data(levels=5)
    ks = [3, 1, 10, 100]
    table = metric(*data, k=ks, per_query=True)
    assert table.shape == (40, 4)
    for column, k in zip(table.T, ks, strict=True):
        np.testing.assert_allclose(column, metric(*data, k=k, per_query=True), rtol=1e-13)
    means = metric(*data, k=np.array(ks))
    assert means.shape == (4,)
    np.testing.assert_allclose(means, table.mean(axis=0))
    assert metric(*data, k=(3,)).shape == (1,)


def test_queries_come_in_the_order_of_first_appearance():
    y, scores, qid = [1, 0, 0, 1], [1.0, 1.0, 2.0, 2.0], ["z", "a", "z", "m"]
    assert precision(y, scores, qid, k=1, per_query=True).tolist() == [0, 0, 1]
    assert recall(y, scores, qid, k=2, per_query=True).tolist() == [1, 0, 1]


@given(seed=st.integers(0, 2**32 - 1), ties=st.sampled_from(["average", "best", "worst"]))
@settings(max_examples=40, deadline=None)
def test_rows_in_any_order_and_any_query_ids(seed, ties):
    y, scores, qid = random_data(seed, n_queries=8, max_size=9, levels=3)
    shuffle = np.random.default_rng(seed).permutation(len(y))
    names = np.array([f"q{i}" for i in qid])
    for metric in FUNCTIONS:
        value = metric(y, scores, qid, k=4, ties=ties)
        shuffled = metric(y[shuffle], scores[shuffle], names[shuffle], k=4, ties=ties)
        assert shuffled == pytest.approx(value, rel=1e-12)


@given(seed=st.integers(0, 2**32 - 1), ties=st.sampled_from(["first", "last"]))
@settings(max_examples=40, deadline=None)
def test_interleaved_queries_keep_the_order_within_each(seed, ties):
    y, scores, qid = random_data(seed, n_queries=8, max_size=9, levels=3)
    interleave = np.argsort(np.concatenate([np.arange(s) for s in np.bincount(qid)]), kind="stable")
    for metric in FUNCTIONS:
        value = metric(y, scores, qid, k=4, ties=ties, per_query=True)
        again = metric(
            y[interleave], scores[interleave], qid[interleave], k=4, ties=ties, per_query=True
        )
        np.testing.assert_allclose(again, value, rtol=1e-12)


@given(data=tied_lists(max_size=12), k=cutoffs)
@settings(max_examples=60, deadline=None)
def test_only_the_order_of_scores_counts(data, k):
    y, scores = data
    for metric, ties in itertools.product(FUNCTIONS, ["average", "first", "last", "best"]):
        value = metric(y, scores, k=k, ties=ties)
        for other in (np.exp(scores), np.array(scores) ** 3 - 1e6, np.array(scores, np.float32)):
            assert metric(y, other, k=k, ties=ties) == value


def test_a_perfect_ranking_scores_one_exactly():
    y, _, qid = random_data(empty_share=0)
    y[np.unique(qid, return_index=True)[1]] = 3
    for convention in CONVENTIONS:
        values = ndcg(y, y, qid, k=[1, 3, 10], convention=convention, per_query=True)
        assert (values == 1).all()


def test_rounding_does_not_lift_ndcg_above_one():
    # 0.1 + 0.1 + 0.1 is more than 0.3, so the mean of this tie is more than 0.1.
    assert ndcg([0.1, 0.1, 0.1], [0, 0, 0], gain="linear") == 1


@pytest.mark.parametrize("n_queries", [10_000, 100_000])
def test_a_million_rows_are_fast(n_queries):
    rng = np.random.default_rng(0)
    qid = np.sort(rng.integers(0, n_queries, 1_000_000))
    y, scores = rng.integers(0, 5, len(qid)), rng.normal(size=len(qid))
    start = time.perf_counter()
    ndcg(y, scores, qid, k=10)
    assert time.perf_counter() - start < 3  # takes about 0.05 s
