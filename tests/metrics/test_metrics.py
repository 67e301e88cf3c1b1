"""Values of metrics: worked out by hand, and by enumeration of the orders of ties."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from metrics.plain import (
    FUNCTIONS,
    METRICS,
    cutoffs,
    orders_of_ties,
    plain_dcg,
    plain_mean_ndcg,
    random_data,
    tied_lists,
)
from robirank.metrics import (
    Convention,
    average_precision,
    dcg,
    err,
    mean_ndcg,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)

LOG2_3 = math.log2(3)

# --- values worked out by hand -------------------------------------------------------------------

# Ranked, the labels are 0, 2, 1, 0 (the rows come in another order).
Y, S = [1, 0, 0, 2], [0.3, 0.9, -1.0, 0.5]


@pytest.mark.parametrize(
    ("value", "by_hand"),
    [
        (dcg(Y, S), 3 / LOG2_3 + 1 / 2),
        (dcg(Y, S, gain="linear"), 2 / LOG2_3 + 1 / 2),
        (dcg(Y, S, discount="letor"), 3 + 1 / LOG2_3),
        (dcg(Y, S, k=2, convention="letor"), 3),
        (dcg(Y, S, gain=np.sqrt), math.sqrt(2) / LOG2_3 + 1 / 2),
        (ndcg(Y, S), (3 / LOG2_3 + 1 / 2) / (3 + 1 / LOG2_3)),
        (ndcg(Y, S, k=1), 0),
        (ndcg(Y, S, k=2), (3 / LOG2_3) / (3 + 1 / LOG2_3)),
        (ndcg(Y, S, convention="letor"), (3 + 1 / LOG2_3) / (3 + 1)),
        (ndcg(Y, S, convention="trec"), (2 / LOG2_3 + 1 / 2) / (2 + 1 / LOG2_3)),
        (ndcg(Y, S, convention="lightgbm", k=100), (3 / LOG2_3 + 1 / 2) / (3 + 1 / LOG2_3)),
        # NDCG@1 to @4: 0, 3/4, (3 + 1/log2 3)/4 twice
        (mean_ndcg(Y, S, convention="letor"), (3 / 4 + 2 * (3 + 1 / LOG2_3) / 4) / 4),
        (precision(Y, S), 2 / 4),
        (precision(Y, S, k=2), 1 / 2),
        (precision(Y, S, k=8), 2 / 8),
        (precision(Y, S, k=3, relevant_from=2), 1 / 3),
        (recall(Y, S, k=2), 1 / 2),
        (recall(Y, S, k=2, relevant_from=2), 1),
        (recall(Y, S), 1),
        (average_precision(Y, S), (1 / 2 + 2 / 3) / 2),
        (average_precision(Y, S, k=2), (1 / 2) / 2),
        (average_precision(Y, S, relevant_from=2), 1 / 2),
        (reciprocal_rank(Y, S), 1 / 2),
        (reciprocal_rank(Y, S, k=1), 0),
        (reciprocal_rank(Y, S, relevant_from=1.5), 1 / 2),
        (err(Y, S), 3 / 4 / 2 + 1 / 4 * 1 / 4 / 3),
        (err(Y, S, k=2), 3 / 4 / 2),
        (err(Y, S, max_grade=4), 3 / 16 / 2 + 13 / 16 * 1 / 16 / 3),
    ],
)
def test_values_worked_by_hand(value, by_hand):
    assert isinstance(value, float)
    assert value == pytest.approx(by_hand, rel=1e-14)


@pytest.mark.parametrize(
    ("ties", "ranked"),
    [("first", [1, 0, 2]), ("last", [2, 0, 1]), ("best", [2, 1, 0]), ("worst", [0, 1, 2])],
)
@pytest.mark.parametrize(("metric", "plain"), METRICS)
def test_rules_for_ties(ties, ranked, metric, plain):
    # Padded beside a longer list, and with a clear winner in front of the tie.
    y, qid = [3, 1, 0, 2, 3, 0, 0, 0, 0, 1], [0] * 4 + [1] * 6
    scores = [9, 5, 5, 5, 0, 1, 2, 3, 4, 5]
    for k in (None, 1, 2, 3, 4):
        values = metric(y, scores, qid, k=k, ties=ties, per_query=True)
        assert values[0] == pytest.approx(plain([3, *ranked], k))
        assert values[1] == pytest.approx(plain([1, 0, 0, 0, 0, 3], k))


def test_ids_break_ties_as_strings():
    y, scores, ids = [0, 1, 2], [1.0, 1.0, 1.0], [9, 10, 100]  # "10" < "100" < "9"
    assert dcg(y, scores, ids=ids, ties="first") == pytest.approx(plain_dcg([1, 2, 0], None))
    assert dcg(y, scores, ids=ids, ties="last") == pytest.approx(plain_dcg([0, 2, 1], None))
    as_bytes = np.array([b"9", b"10", b"\xff"])
    assert dcg(y, scores, ids=as_bytes, ties="last") == pytest.approx(plain_dcg([2, 0, 1], None))


def test_ids_do_not_matter_without_ties():
    y, scores, qid = random_data()
    ids = np.random.default_rng(1).permutation(len(y))
    assert ndcg(y, scores, qid, ids=ids, ties="last") == ndcg(y, scores, qid)


def test_equal_ids_keep_the_order_of_rows():
    y = np.random.default_rng(0).integers(0, 4, 60)
    ids = np.repeat(["b", "a"], 30)
    first, last = [*y[30:], *y[:30]], [*y[29::-1], *y[:29:-1]]
    assert dcg(y, y * 0, ids=ids, ties="first") == pytest.approx(plain_dcg(first, None))
    assert dcg(y, y * 0, ids=ids, ties="last") == pytest.approx(plain_dcg(last, None))


def test_minus_zero_ties_with_zero():
    assert precision([0, 1], [0.0, -0.0], k=1) == 0.5


def test_float32_scores_tie_as_float32():
    scores = np.array([1.0, 1.0 + 1e-12])
    assert precision([1, 0], scores, k=1) == 0
    assert precision([1, 0], scores.astype(np.float32), k=1) == 0.5


@pytest.mark.parametrize("metric", [*FUNCTIONS[1:], mean_ndcg])
@pytest.mark.parametrize(("empty", "of_query"), [("zero", 0), ("one", 1), ("skip", math.nan)])
def test_a_query_with_nothing_relevant(metric, empty, of_query):
    y, scores, qid = [0, 0, 3, 3], [1, 2, 4, 3], [7, 7, 8, 8]
    full = metric([3, 3], [4, 3])
    values = metric(y, scores, qid, empty=empty, per_query=True)
    np.testing.assert_allclose(values, [of_query, full])
    expected = full if empty == "skip" else (of_query + full) / 2
    assert metric(y, scores, qid, empty=empty) == pytest.approx(expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", [*FUNCTIONS, mean_ndcg])
def test_nothing_relevant_at_all_warns_about_nothing(metric):
    for convention, value in [("standard", 0), ("lightgbm", 1), (Convention(empty="skip"), None)]:
        got = metric([0, 0, 0], [1, 1, 2], [0, 0, 1], convention=convention)
        if metric is dcg:
            assert got == 0
        else:
            assert got == value or (value is None and math.isnan(got))


# --- expectation over the orders of ties, by enumeration -----------------------------------------


@pytest.mark.parametrize(("metric", "plain"), METRICS)
@given(data=tied_lists(), k=cutoffs)
@settings(max_examples=150, deadline=None)
def test_ties_against_all_orders(metric, plain, data, k):
    y, scores = data
    values = [plain(labels, k) for labels in orders_of_ties(y, scores)]
    mean = sum(values) / len(values)
    assert metric(y, scores, k=k) == pytest.approx(mean, rel=1e-12, abs=1e-14)
    assert metric(y, scores, k=k, ties="best") == pytest.approx(max(values), abs=1e-14)
    assert metric(y, scores, k=k, ties="worst") == pytest.approx(min(values), abs=1e-14)


@given(data=tied_lists())
@settings(max_examples=150, deadline=None)
def test_mean_ndcg_against_all_orders(data):
    y, scores = data
    values = [plain_mean_ndcg(labels, None) for labels in orders_of_ties(y, scores)]
    assert mean_ndcg(y, scores) == pytest.approx(sum(values) / len(values), rel=1e-12, abs=1e-14)
    assert mean_ndcg(y, scores, ties="best") == pytest.approx(max(values), abs=1e-14)


def test_err_of_a_large_tie_is_exact():
    """Elementary symmetric polynomials in exact fractions, for a tie of 120 behind 3 rows."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 5, 120)
    stop = [Fraction(2 ** int(g) - 1, 16) for g in y]
    e = [Fraction(1)]
    for r in stop:
        e = [a + b * (1 - r) for a, b in zip([*e, 0], [0, *e], strict=True)]
    means = [e_j / math.comb(len(y), j) for j, e_j in enumerate(e)]
    head, reached = Fraction(1, 16) + Fraction(15, 16) * Fraction(3, 16) / 2, Fraction(15 * 13, 256)
    tail = sum((means[j - 1] - means[j]) / (3 + j) for j in range(1, len(y) + 1))
    expected = float(head + reached * tail)
    labels, scores = [1, 2, 0, *y], [9, 8, 7, *[0] * 120]
    assert err(labels, scores, max_grade=4) == pytest.approx(expected, rel=1e-13)
    at_5 = head + reached * sum((means[j - 1] - means[j]) / (3 + j) for j in (1, 2))
    assert err(labels, scores, max_grade=4, k=5) == pytest.approx(float(at_5), rel=1e-13)
