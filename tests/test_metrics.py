from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import dcg_score, ndcg_score

from robirank import metrics
from robirank.metrics import (
    CONVENTIONS,
    Convention,
    average_precision,
    dcg,
    err,
    evaluate_ranking,
    mean_ndcg,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)
from robirank.metrics._lists import batches

LOG2_3 = math.log2(3)

# --- the definitions, in plain Python: a list of labels in ranked order in, a number out ---------


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


MEASURES = [
    (dcg, plain_dcg),
    (ndcg, plain_ndcg),
    (precision, plain_precision),
    (recall, plain_recall),
    (average_precision, plain_ap),
    (reciprocal_rank, plain_rr),
    (err_to_3, plain_err),
]
FUNCTIONS = [f for f, _ in MEASURES]


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
@pytest.mark.parametrize(("measure", "plain"), MEASURES)
def test_rules_for_ties(ties, ranked, measure, plain):
    # Padded beside a longer list, and with a clear winner in front of the tie.
    y, qid = [3, 1, 0, 2, 3, 0, 0, 0, 0, 1], [0] * 4 + [1] * 6
    scores = [9, 5, 5, 5, 0, 1, 2, 3, 4, 5]
    for k in (None, 1, 2, 3, 4):
        values = measure(y, scores, qid, k=k, ties=ties, per_query=True)
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


@pytest.mark.parametrize("measure", [*FUNCTIONS[1:], mean_ndcg])
@pytest.mark.parametrize(("empty", "of_query"), [("zero", 0), ("one", 1), ("skip", math.nan)])
def test_a_query_with_nothing_relevant(measure, empty, of_query):
    y, scores, qid = [0, 0, 3, 3], [1, 2, 4, 3], [7, 7, 8, 8]
    full = measure([3, 3], [4, 3])
    values = measure(y, scores, qid, empty=empty, per_query=True)
    np.testing.assert_allclose(values, [of_query, full])
    expected = full if empty == "skip" else (of_query + full) / 2
    assert measure(y, scores, qid, empty=empty) == pytest.approx(expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("measure", [*FUNCTIONS, mean_ndcg])
def test_nothing_relevant_at_all_warns_about_nothing(measure):
    for convention, value in [("standard", 0), ("lightgbm", 1), (Convention(empty="skip"), None)]:
        got = measure([0, 0, 0], [1, 1, 2], [0, 0, 1], convention=convention)
        if measure is dcg:
            assert got == 0
        else:
            assert got == value or (value is None and math.isnan(got))


def test_named_conventions():
    assert dict(CONVENTIONS) == {
        "standard": Convention("exp", "log2", "average", "zero"),
        "letor": Convention("exp", "letor", "first", "zero"),
        "trec": Convention("linear", "log2", "last", "zero"),
        "lightgbm": Convention("exp", "log2", "first", "one"),
    }


def test_arguments_override_the_convention():
    own = Convention(gain="linear", discount="letor", ties="worst", empty="skip")
    data = random_data(levels=3)
    by_argument = ndcg(*data, k=5, gain="linear", discount="letor", ties="worst", empty="skip")
    assert ndcg(*data, k=5, convention=own) == by_argument
    assert ndcg(*data, k=5, convention=own) != ndcg(*data, k=5)
    assert ndcg(*data, k=5, convention=own, ties="best") > by_argument


# --- expectation over the orders of ties, by enumeration -----------------------------------------


@pytest.mark.parametrize(("measure", "plain"), MEASURES)
@given(data=tied_lists(), k=cutoffs)
@settings(max_examples=150, deadline=None)
def test_ties_against_all_orders(measure, plain, data, k):
    y, scores = data
    values = [plain(labels, k) for labels in orders_of_ties(y, scores)]
    mean = sum(values) / len(values)
    assert measure(y, scores, k=k) == pytest.approx(mean, rel=1e-12, abs=1e-14)
    assert measure(y, scores, k=k, ties="best") == pytest.approx(max(values), abs=1e-14)
    assert measure(y, scores, k=k, ties="worst") == pytest.approx(min(values), abs=1e-14)


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


# --- many queries --------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", [*FUNCTIONS, mean_ndcg])
@pytest.mark.parametrize("ties", ["average", "first", "last", "best", "worst"])
@pytest.mark.parametrize("levels", [None, 6])
def test_each_query_as_if_it_were_alone(measure, ties, levels, monkeypatch):
    """Many small blocks: lists of one to a hundred rows, padded, cut where a block is full."""
    monkeypatch.setattr("robirank.metrics._lists._CELLS", 1000)
    y, scores, qid = random_data(seed=3, n_queries=200, max_size=100, levels=levels)
    options = {"ties": ties} | ({} if measure is mean_ndcg else {"k": 20})
    values = measure(y, scores, qid, per_query=True, **options)
    ids = np.unique(qid)
    alone = [measure(y[qid == q], scores[qid == q], **options) for q in ids]
    np.testing.assert_allclose(values, alone, rtol=1e-12)
    assert measure(y, scores, qid, **options) == pytest.approx(np.mean(alone))


@given(st.lists(st.integers(1, 10_000), min_size=1))
def test_no_list_is_padded_to_more_than_twice_its_length(sizes):
    parts = [np.array(sizes)[part] for part in batches(np.array(sizes))]
    assert sorted(np.concatenate(parts)) == sorted(sizes)
    assert all(part.max() <= 2 * part.min() for part in parts)


@pytest.mark.parametrize("measure", FUNCTIONS)
def test_several_cutoffs_at_once(measure):
    data = random_data(levels=5)
    ks = [3, 1, 10, 100]
    table = measure(*data, k=ks, per_query=True)
    assert table.shape == (40, 4)
    for column, k in zip(table.T, ks, strict=True):
        np.testing.assert_allclose(column, measure(*data, k=k, per_query=True), rtol=1e-13)
    means = measure(*data, k=np.array(ks))
    assert means.shape == (4,)
    np.testing.assert_allclose(means, table.mean(axis=0))
    assert measure(*data, k=(3,)).shape == (1,)


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
    for measure in FUNCTIONS:
        value = measure(y, scores, qid, k=4, ties=ties)
        shuffled = measure(y[shuffle], scores[shuffle], names[shuffle], k=4, ties=ties)
        assert shuffled == pytest.approx(value, rel=1e-12)


@given(seed=st.integers(0, 2**32 - 1), ties=st.sampled_from(["first", "last"]))
@settings(max_examples=40, deadline=None)
def test_interleaved_queries_keep_the_order_within_each(seed, ties):
    y, scores, qid = random_data(seed, n_queries=8, max_size=9, levels=3)
    interleave = np.argsort(np.concatenate([np.arange(s) for s in np.bincount(qid)]), kind="stable")
    for measure in FUNCTIONS:
        value = measure(y, scores, qid, k=4, ties=ties, per_query=True)
        again = measure(
            y[interleave], scores[interleave], qid[interleave], k=4, ties=ties, per_query=True
        )
        np.testing.assert_allclose(again, value, rtol=1e-12)


@given(data=tied_lists(max_size=12), k=cutoffs)
@settings(max_examples=60, deadline=None)
def test_only_the_order_of_scores_counts(data, k):
    y, scores = data
    for measure, ties in itertools.product(FUNCTIONS, ["average", "first", "last", "best"]):
        value = measure(y, scores, k=k, ties=ties)
        for other in (np.exp(scores), np.array(scores) ** 3 - 1e6, np.array(scores, np.float32)):
            assert measure(y, other, k=k, ties=ties) == value


def test_a_perfect_ranking_scores_one_exactly():
    y, _, qid = random_data(empty_share=0)
    y[np.unique(qid, return_index=True)[1]] = 3
    for convention in CONVENTIONS:
        values = ndcg(y, y, qid, k=[1, 3, 10], convention=convention, per_query=True)
        assert (values == 1).all()


def test_rounding_does_not_lift_ndcg_above_one():
    # 0.1 + 0.1 + 0.1 is more than 0.3, so the mean of this tie is more than 0.1.
    assert ndcg([0.1, 0.1, 0.1], [0, 0, 0], gain="linear") == 1


# --- other programs ------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [None, 5])
@pytest.mark.parametrize("k", [None, 1, 5, 50])
def test_scikit_learn(levels, k):
    y, scores, qid = random_data(levels=levels)
    keep = np.isin(qid, np.flatnonzero(np.bincount(qid) > 1))  # it refuses lists of one row
    y, scores, qid = y[keep], scores[keep], qid[keep]
    lists = [(y[qid == q][None], scores[qid == q][None]) for q in np.unique(qid)]
    for mine, theirs in [(dcg, dcg_score), (ndcg, ndcg_score)]:
        linear = [theirs(a, s, k=k) for a, s in lists]
        exp = [theirs(2.0**a - 1, s, k=k) for a, s in lists]
        np.testing.assert_allclose(mine(y, scores, qid, k=k, gain="linear", per_query=True), linear)
        np.testing.assert_allclose(mine(y, scores, qid, k=k, per_query=True), exp)


@pytest.mark.parametrize("levels", [None, 4])
def test_trec_eval(levels):
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="compares with trec_eval")
    y, scores, qid = random_data(seed=11, levels=levels)
    scores = scores.astype(np.float32)  # trec_eval's own precision
    rng = np.random.default_rng(12)
    ids = np.concatenate([rng.choice(200, n, replace=False) for n in np.bincount(qid)]).astype(str)
    qrels, run = {}, {}
    for q, doc, label, score in zip(qid, ids, y, scores, strict=True):
        qrels.setdefault(str(q), {})[doc] = int(label)
        run.setdefault(str(q), {})[doc] = float(score)
    names = {"ndcg", "ndcg_cut.1,5,10", "P.1,5,10", "recall.1,5,10", "map", "recip_rank"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, names | {"map_cut.5"}).evaluate(run)
    assert len(theirs) == len(np.unique(qid))
    assert any(not sum(q.values()) for q in qrels.values())

    def compare(values, name):
        expected = [theirs[str(q)][name] for q in np.unique(qid)]
        np.testing.assert_allclose(values, expected, rtol=1e-9, err_msg=name)

    options = {"convention": "trec", "ids": ids, "per_query": True}
    compare(ndcg(y, scores, qid, **options), "ndcg")
    compare(average_precision(y, scores, qid, **options), "map")
    compare(average_precision(y, scores, qid, k=5, **options), "map_cut_5")
    compare(reciprocal_rank(y, scores, qid, **options), "recip_rank")
    for k in (1, 5, 10):
        compare(ndcg(y, scores, qid, k=k, **options), f"ndcg_cut_{k}")
        compare(precision(y, scores, qid, k=k, **options), f"P_{k}")
        compare(recall(y, scores, qid, k=k, **options), f"recall_{k}")


def test_lightgbm():
    lightgbm = pytest.importorskip("lightgbm", reason="compares with LightGBM's own NDCG")
    y, _, qid = random_data(seed=21, n_queries=60)
    X = np.random.default_rng(22).integers(0, 4, (len(y), 2)).astype(float) + y[:, None] * 0.3
    train = lightgbm.Dataset(X, y, group=np.bincount(qid), free_raw_data=False)
    ks, reported = [1, 3, 10, 40], {}
    model = lightgbm.train(
        {
            "objective": "lambdarank",
            "metric": "ndcg",
            "eval_at": ks,
            "num_leaves": 4,
            "min_data_in_leaf": 5,
            "num_threads": 1,
            "verbose": -1,
        },
        train,
        num_boost_round=2,
        valid_sets=[train],
        valid_names=["rows"],
        callbacks=[lightgbm.record_evaluation(reported)],
    )
    scores = model.predict(X)
    assert len(np.unique(scores)) < 20, "the point is to have ties"
    theirs = [reported["rows"][f"ndcg@{k}"][-1] for k in ks]
    np.testing.assert_allclose(ndcg(y, scores, qid, k=ks, convention="lightgbm"), theirs, rtol=1e-9)
    for other in ({"ties": "average"}, {"empty": "zero"}, {"gain": "linear"}):
        different = ndcg(y, scores, qid, k=ks, convention="lightgbm", **other)
        assert not np.allclose(different, theirs, rtol=1e-4)


# --- several measures by name --------------------------------------------------------------------


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_evaluate_ranking_agrees_with_the_functions(convention):
    data = random_data(levels=4)
    rule = {"convention": convention}
    by_function = {
        "ndcg@10": ndcg(*data, k=10, **rule),
        "ndcg": ndcg(*data, **rule),
        "NDCG@1": ndcg(*data, k=1, **rule),
        "mean_ndcg": mean_ndcg(*data, **rule),
        "p@5": precision(*data, k=5, **rule),
        "precision@5": precision(*data, k=5, **rule),
        "recall@20": recall(*data, k=20, **rule),
        "map": average_precision(*data, **rule),
        "map@3": average_precision(*data, k=3, **rule),
        "mrr": reciprocal_rank(*data, **rule),
        "mrr@2": reciprocal_rank(*data, k=2, **rule),
        "err@20": err(*data, k=20, **rule),
        "dcg@3": dcg(*data, k=3, **rule),
    }
    values = evaluate_ranking(*data, metrics=list(by_function), convention=convention)
    assert list(values) == list(by_function)
    assert values == pytest.approx(by_function, rel=1e-13)
    per_query = evaluate_ranking(*data, metrics="mrr", convention=convention, per_query=True)
    assert per_query["mrr"].tolist() == reciprocal_rank(*data, per_query=True, **rule).tolist()


def test_evaluate_ranking_by_default():
    values = evaluate_ranking([1, 0], [2, 1])
    assert values == {"ndcg@1": 1, "ndcg@5": 1, "ndcg@10": 1, "map": 1, "mrr": 1}


@pytest.mark.parametrize("name", ["auc", "ndcg@0", "ndcg@", "ndcg@-1", "@5", "mean_ndcg@5", 5])
def test_evaluate_ranking_names_what_it_knows(name):
    with pytest.raises(ValueError, match=r"metrics contains .*known are dcg, ndcg, mean_ndcg"):
        evaluate_ranking([1, 0], [2, 1], metrics=["ndcg", name])


# --- wrong input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ndcg([], []), "y is empty"),
        (lambda: ndcg([1, 0], [1.0]), "one score for each of the 2 labels in y; got 1"),
        (lambda: ndcg([[1, 0]], [[1.0, 2.0]]), r"y must be one-dimensional.*\(1, 2\)"),
        (lambda: ndcg([1, 0], [[1.0, 2.0]]), r"scores must be one-dimensional.*\(1, 2\)"),
        (lambda: ndcg([1, 0], [1.0, np.nan]), r"scores must be finite; scores\[1\] is nan"),
        (lambda: ndcg([1, 0], [-np.inf, 1.0]), r"scores must be finite; scores\[0\] is -inf"),
        (lambda: ndcg([1, np.nan], [1.0, 2.0]), r"y must be finite; y\[1\] is nan"),
        (lambda: ndcg(["a", "b"], [1.0, 2.0]), "y must be numbers"),
        (lambda: ndcg([None, {}], [1.0, 2.0]), "y must be numbers"),
        (lambda: ndcg([1, 0], [1.0, 2.0], [1]), "qid must hold one query id for each of the 2"),
        (
            lambda: ndcg([1, -1], [1.0, 2.0]),
            r"y must not be negative with gain='exp'; y\[1\] is -1",
        ),
        (lambda: ndcg([1, -1], [1.0, 2.0], gain="linear"), r"gain must not be negative.*y\[1\]"),
        (lambda: ndcg([1, 2000], [1, 2]), r"gain must be finite; it is inf .* y\[1\] = 2000"),
        (lambda: dcg([1, 0], [1, 2], gain=lambda y: y / 0 * 0), r"it is nan for .* y\[0\] = 1"),
        (lambda: dcg([1, 0], [1, 2], gain=np.sum), "gain must return one value for each of the 2"),
        (lambda: err([1, -1], [1.0, 2.0]), r"y must not be negative for ERR; y\[1\] is -1"),
        (lambda: err([1, 3], [1, 2], max_grade=2), "max_grade=2 must be .* largest label in y, 3"),
        (lambda: err([1, 3], [1, 2], max_grade="4"), "max_grade='4' must be a finite number"),
        (lambda: precision([1], [1], relevant_from=None), "relevant_from=None must be a finite"),
        (lambda: precision([1], [1], relevant_from="1"), "relevant_from='1' must be a finite"),
        (lambda: ndcg([1], [1], k=0), "k=0 is not a cut-off; use an integer from 1"),
        (lambda: ndcg([1], [1], k=-3), "k=-3 is not a cut-off"),
        (lambda: ndcg([1], [1], k=2.0), "k=2.0 is not a cut-off"),
        (lambda: ndcg([1], [1], k=True), "k=True is not a cut-off"),
        (lambda: ndcg([1], [1], k="10"), "k='10' is not a cut-off"),
        (lambda: ndcg([1], [1], k=[]), r"k=\[\] is not a cut-off"),
        (lambda: ndcg([1], [1], k=[1, 0]), r"k=\[1, 0\] is not a cut-off"),
        (lambda: ndcg([1], [1], convention="ltr"), "convention must be .*'letor'.*; got 'ltr'"),
        (
            lambda: ndcg([1], [1], gain="square"),
            "gain must be .* or a callable; got 'square'",
        ),
        (lambda: ndcg([1], [1], discount="ln"), "discount must be .*'log2', 'letor'.; got 'ln'"),
        (lambda: ndcg([1], [1], ties="random"), "ties must be one of .*'average'.; got 'random'"),
        (lambda: ndcg([1], [1], empty=0), "empty must be one of .'zero', 'one', 'skip'.; got 0"),
        (lambda: ndcg([1], [1], ids=["a"]), "ids only matter with ties='first'.*ties='average'"),
        (lambda: ndcg([1], [1], ties="last", ids=["a", "b"]), "ids must hold one id for each of"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_wrong_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_negative_labels_where_they_have_a_meaning():
    assert dcg([-1, 0], [2.0, 1.0], gain="linear") == -1
    assert precision([-2, 1], [2.0, 1.0], k=2) == 0.5
    assert ndcg([-1, 1], [2.0, 1.0], gain=lambda y: y + 1) == pytest.approx(1 / LOG2_3)


def test_conventions_are_read_only():
    with pytest.raises(TypeError):
        metrics.CONVENTIONS["standard"] = Convention()  # type: ignore[index]


# --- speed and documentation ---------------------------------------------------------------------


@pytest.mark.parametrize("n_queries", [10_000, 100_000])
def test_a_million_rows_are_fast(n_queries):
    rng = np.random.default_rng(0)
    qid = np.sort(rng.integers(0, n_queries, 1_000_000))
    y, scores = rng.integers(0, 5, len(qid)), rng.normal(size=len(qid))
    start = time.perf_counter()
    ndcg(y, scores, qid, k=10)
    assert time.perf_counter() - start < 3  # takes about 0.05 s
