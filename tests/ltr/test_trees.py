"""MART, LambdaMART and RandomForests: what each tree must be, worked out without LightGBM."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from robirank import make_ranking
from robirank._features import settled_order
from robirank._queries import group_queries
from robirank.ltr._lightgbm import read_forest
from robirank.ltr.lambdamart import LambdaMART
from robirank.ltr.mart import MART
from robirank.ltr.random_forests import RandomForests, draw_bag
from robirank.metrics import ndcg

lightgbm = pytest.importorskip("lightgbm")

SMALL = [MART(30), LambdaMART(30), RandomForests(10, random_state=0)]
each_method = pytest.mark.parametrize("method", SMALL, ids=lambda m: type(m).__name__)


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch):
    # These lists are too short to share, and LightGBM's threads wait for each other busily.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=30, n_docs=(5, 15), n_features=5, nonlinear=True, random_state=3)


def fresh(method, **params):
    return type(method)(**(method.get_params() | params))


# What LightGBM grew and what we predict.


@pytest.mark.parametrize("objective", ["regression", "lambdarank"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forest_predicts_what_lightgbm_predicts(objective, dtype):
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [
            rng.standard_normal(800),
            rng.integers(-2, 3, 800),  # zeros, and few values
            rng.standard_normal(800) * 1e-40,  # what LightGBM takes for zero
            np.where(rng.random(800) < 0.9, 0, rng.standard_normal(800) * 1e30),
        ]
    ).astype(dtype)
    y = np.clip(np.round(X[:, 0] + X[:, 1]), 0, 3)
    # The parameters of `tree_params` that matter for what a question is.
    params = {"objective": objective, "num_leaves": 20, "use_missing": False, "verbosity": -1}
    params["num_threads"] = 1
    train = lightgbm.Dataset(X, y, group=[80] * 10, params=params)
    booster = lightgbm.train(params, train, 25)
    forest = read_forest(booster)
    assert forest.n_trees == 25
    assert_allclose(forest.sum(X), booster.predict(X), rtol=1e-12, atol=1e-14)
    # Exactly at the thresholds, and next to them; but not at those around zero, ±1e-35, where
    # LightGBM's trees and its rounding of inputs to zero do not agree.
    edges = forest.threshold[np.abs(forest.threshold) > 1e-30]
    edges = np.repeat(edges[:, None], 4, axis=1)
    for probe in (edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), -X * 1e3):
        assert_allclose(forest.sum(probe), booster.predict(probe), rtol=1e-12, atol=1e-14)
    first = read_forest(booster, 7)
    assert_allclose(first.sum(X), booster.predict(X, num_iteration=7), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("values", [[-1, 0, 1], [-2, -1, 0], [0, 1, 2]])
@pytest.mark.parametrize("y", [[0, 0, 2], [0, 2, 0], [0, 2, 1]])
def test_zeros_are_numbers_like_others(values, y):
    X, y = np.repeat(values, 8)[:, None].astype(float), np.repeat(y, 8).astype(float)
    assert_allclose(MART(1, learning_rate=1.0).fit(X, y).predict(X), y, atol=1e-6)
    forest = RandomForests(100, random_state=0, max_leaf_nodes=3).fit(X, y)
    assert_allclose(forest.predict(X), y, atol=0.1)


@each_method
def test_model_is_nothing_but_its_arrays(method, data):
    model = fresh(method).fit(data.X, data.y, qid=data.qid)
    twin = fresh(method)
    for name in ("tree_offsets_", "split_feature_", "threshold_", "left_child_", "leaf_value_"):
        setattr(twin, name, np.array(getattr(model, name)))
    twin.n_features_in_ = 5
    assert_array_equal(twin.predict(data.X), model.predict(data.X))
    assert model.split_feature_.dtype == model.left_child_.dtype == np.int32
    assert model.tree_offsets_.dtype == np.int32
    twin.left_child_[0] = 0  # a circle
    with pytest.raises(ValueError, match="behind their parent"):
        twin.predict(data.X)


@each_method
def test_without_lightgbm_the_error_names_the_extra(method, data, monkeypatch):
    model = fresh(method).fit(data.X, data.y, qid=data.qid)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match=r"pip install 'robirank\[trees\]'"):
        fresh(method).fit(data.X, data.y, qid=data.qid)
    assert model.predict(data.X).shape == (len(data),)


@each_method
def test_order_within_a_query_has_no_influence(method, data):
    model = fresh(method).fit(data.X, data.y, qid=data.qid)
    best_first = np.lexsort((-data.y, data.qid))
    sorted_in = fresh(method).fit(data.X[best_first], data.y[best_first], qid=data.qid[best_first])
    assert_array_equal(sorted_in.predict(data.X), model.predict(data.X))
    assert_array_equal(sorted_in.threshold_, model.threshold_)


def test_settled_order_tells_short_numbers_apart():
    # Small integers differ in the upper bits of a float only.
    X = np.stack(np.meshgrid(*[np.arange(6.0)] * 4), axis=-1).reshape(-1, 4)
    queries = group_queries(None, len(X))
    y = np.zeros(len(X))
    order = settled_order(X, y, queries)
    shuffle = np.random.default_rng(0).permutation(len(X))
    assert_array_equal(X[shuffle][settled_order(X[shuffle], y, queries)], X[order])
    assert_array_equal(np.sort(order), np.arange(len(X)))
    signed = np.where((X == 0) & (np.indices(X.shape).sum(axis=0) % 2 == 0), -0.0, X)
    assert_array_equal(settled_order(signed, y, queries), order)
    assert abs(np.corrcoef(X[order, 0], np.arange(len(X)))[0, 1]) < 0.2


@each_method
def test_threads_do_not_change_a_bit(method):
    data = make_ranking(n_queries=40, n_docs=30, n_features=4, random_state=0)
    one, three = (
        fresh(method, n_estimators=3, max_leaf_nodes=8, num_threads=n).fit(
            data.X, data.y, qid=data.qid
        )
        for n in (1, 3)
    )
    for name in ("split_feature_", "threshold_", "leaf_value_"):
        assert_array_equal(getattr(three, name), getattr(one, name))


@each_method
def test_features_without_information_leave_a_constant(method):
    y = np.array([0.0, 1.0, 2.0, 1.0])
    model = fresh(method).fit(np.ones((4, 2)), y)
    scores = model.predict(np.arange(6.0).reshape(3, 2))
    assert (scores == scores[0]).all()
    assert type(method) is LambdaMART or 0.5 < scores[0] < 1.5  # about the mean label


def test_bag_of_one_label_predicts_it():
    model = RandomForests(3, random_state=0).fit(np.arange(8.0).reshape(4, 2), np.ones(4))
    assert_allclose(model.predict(np.zeros((1, 2))), 1.0, rtol=1e-6)


@each_method
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be a positive integer; got 0"),
        ({"max_leaf_nodes": 1}, "max_leaf_nodes must be at least 2; got 1"),
        ({"max_leaf_nodes": 2.5}, "max_leaf_nodes must be a positive integer"),
        ({"min_samples_leaf": 0}, "min_samples_leaf must be a positive integer"),
        ({"max_bins": 1}, "max_bins must be at least 2"),
        ({"num_threads": None}, r"num_threads must be 0 \(all cores\) or more"),
    ],
)
def test_bad_parameters_are_named(method, params, message, data):
    with pytest.raises(ValueError, match=message):
        fresh(method, **params).fit(data.X, data.y, qid=data.qid)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (MART(learning_rate=0.0), "learning_rate must be a positive number"),
        (MART(patience=0), "patience must be a positive integer"),
        (LambdaMART(k=0), "k must be a positive integer"),
        (RandomForests(max_samples=1.5), "max_samples must be a positive number, at most 1"),
        (RandomForests(max_features=0.0), "max_features must be a positive number, at most 1"),
    ],
)
def test_bad_parameters_of_one_method_are_named(method, message, data):
    with pytest.raises(ValueError, match=message):
        method.fit(data.X, data.y, qid=data.qid)


# MART.


def best_split(X, y, weight=None):
    """The squared error of every split; the feature and the two sides of the best one."""
    weight = np.ones(len(y)) if weight is None else weight
    found = (np.inf,)
    for f in range(X.shape[1]):
        for t in np.unique(X[:, f])[:-1]:
            left = X[:, f] <= t
            if not weight[left].any() or not weight[~left].any():
                continue
            mean = [np.average(y[side], weights=weight[side]) for side in (left, ~left)]
            error = weight @ (y - np.where(left, *mean)) ** 2
            if error < found[0] - 1e-9:
                found = (error, f, left, mean)
    return found[1:]


def test_mart_two_rounds_by_hand():
    # Mean 2. Residuals −2 −2 0 4; the best split parts off the last (leaves −4/3 and 4).
    # Half of that: scores 4/3, 4/3, 4/3, 4; residuals −4/3 −4/3 2/3 2, whose best split is in the
    # middle (leaves −4/3 and 4/3).
    X, y = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([0.0, 0.0, 2.0, 6.0])
    one = MART(1, learning_rate=0.5, max_leaf_nodes=2).fit(X, y)
    assert_allclose(one.predict(X), [4 / 3, 4 / 3, 4 / 3, 4], rtol=1e-6)
    two = MART(2, learning_rate=0.5, max_leaf_nodes=2).fit(X, y)
    assert_allclose(two.predict(X), [2 / 3, 2 / 3, 2, 14 / 3], rtol=1e-6)
    assert (two.n_iter_, two.best_iter_, two.validation_scores_) == (2, 2, [])


def test_mart_takes_the_best_split_of_all():
    rng = np.random.default_rng(1)
    for _ in range(10):
        X, y = rng.standard_normal((40, 3)), rng.integers(0, 4, 40).astype(float)
        model = MART(1, learning_rate=1.0, max_leaf_nodes=2).fit(X, y)
        feature, left, mean = best_split(X, y)
        assert model.split_feature_[0] == feature
        assert_allclose(model.predict(X), np.where(left, *mean), rtol=1e-5, atol=1e-6)


def test_mart_ends_when_nothing_is_left_to_split():
    # Mean 1/2, then a tree that takes the rest: sums of halves, so nothing remains.
    X, y = np.repeat([[1.0], [2.0], [3.0]], 16, axis=0), np.repeat([0.0, 1.0, 0.5], 16)
    alone = MART(50, learning_rate=1.0).fit(X, y)
    assert_array_equal(alone.predict(X), y)
    assert (alone.n_iter_, alone.best_iter_) == (1, 1)
    model = MART(50, learning_rate=1.0).fit(X, y, validation=(X, y, None))
    assert (model.n_iter_, model.best_iter_, model.validation_scores_) == (1, 1, [1.0])
    constant = MART(50).fit(np.ones((48, 1)), y, validation=(X, y, None))
    assert (constant.n_iter_, constant.best_iter_) == (1, 1)
    assert_allclose(constant.predict(X), 0.5)


def test_mart_leaves_hold_enough_documents(data):
    model = MART(1, max_leaf_nodes=20, min_samples_leaf=25).fit(data.X, data.y, qid=data.qid)
    sizes = np.unique(model.predict(data.X), return_counts=True)[1]
    assert sizes.min() >= 25
    assert 2 < len(sizes) <= 20


def test_bins_limit_the_thresholds(data):
    few = MART(200, max_bins=4).fit(data.X, data.y, qid=data.qid)
    inner = few.split_feature_ >= 0
    for f in range(5):
        assert len(np.unique(few.threshold_[inner & (few.split_feature_ == f)])) <= 3


# LambdaMART.


def lambda_rounds(y, order, k, rounds, rate):
    """LambdaMART where every document of a single list has a leaf of its own."""
    s, n = np.zeros(len(y)), len(y)
    k = n if k is None else k
    gain = 2.0**y - 1
    ideal = np.sort(gain)[::-1][:k] @ (1 / np.log2(np.arange(min(k, n)) + 2))
    for _ in range(rounds):
        rank = np.empty(n, dtype=int)
        rank[order[np.argsort(-s[order], kind="stable")]] = np.arange(n)
        slope, bend = np.zeros(n), np.zeros(n)
        for i in range(n):
            for j in range(n):
                if y[i] > y[j] and min(rank[i], rank[j]) < k:
                    discount = abs(1 / np.log2(rank[i] + 2) - 1 / np.log2(rank[j] + 2))
                    delta = (gain[i] - gain[j]) * discount / ideal
                    p = 1 / (1 + np.exp(s[i] - s[j]))
                    slope[i] += delta * p
                    slope[j] -= delta * p
                    bend[[i, j]] += delta * p * (1 - p)
        s += rate * slope / bend
    return s


@pytest.mark.parametrize("k", [2, 10, None])
@pytest.mark.parametrize("y", [[2, 0, 1, 0, 1], [0.5, 0, 2.25, 1.0, 0.0]], ids=["whole", "part"])
def test_lambdamart_rounds_by_hand(y, k):
    X, y = np.array([[3.0], [1.0], [4.0], [1.5], [5.0]]), np.array(y, dtype=float)
    order = settled_order(X, y, group_queries(None, 5))
    for rounds in (1, 4):
        model = LambdaMART(rounds, learning_rate=0.3, max_leaf_nodes=5, k=k).fit(X, y)
        expected = lambda_rounds(y, order, k, rounds, 0.3)
        assert_allclose(model.predict(X), expected, rtol=1e-4, atol=1e-5)


def test_lambdamart_only_gains_matter():
    # Labels 0, 1, 2 and others in the same order have other gains, hence other trees; adding a
    # query without relevant documents changes nothing at all.
    data = make_ranking(n_queries=20, n_docs=10, n_features=4, n_grades=3, random_state=0)
    plain = LambdaMART(10).fit(data.X, data.y, qid=data.qid).predict(data.X)
    steep = LambdaMART(10).fit(data.X, 3 * data.y, qid=data.qid).predict(data.X)
    assert np.abs(steep - plain).max() > 0.01
    # Same values of the features, so that the bins stay.
    X = np.vstack([data.X, data.X[:10]])
    y, qid = np.append(data.y, np.zeros(10)), np.append(data.qid, np.full(10, -1))
    more = LambdaMART(10).fit(X, y, qid=qid).predict(data.X)
    assert_allclose(more, plain, rtol=1e-6)


def test_lambdamart_ranks_what_no_line_ranks():
    # Relevant in the middle: a linear score puts an end first.
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    y = (np.abs(X[:, 0]) < 0.3).astype(int)
    qid = np.repeat(np.arange(20), 20)
    model = LambdaMART(100, max_leaf_nodes=3).fit(X, y, qid=qid)
    assert model.score(X, y, qid=qid) == 1.0


def test_lambdamart_says_which_list_is_too_long():
    X = np.zeros((10_003, 1))
    y = np.arange(10_003) % 2
    qid = np.array(["short"] * 2 + ["long"] * 10_001)
    with pytest.raises(
        ValueError, match=r"at most 10,000 documents a query; query .*long.* has 10,001"
    ):
        LambdaMART(1).fit(X, y, qid=qid)
    LambdaMART(1).fit(X[:-1], y[:-1], qid=qid[:-1])


# Early stopping.


@pytest.mark.parametrize("kind", [MART, LambdaMART])
def test_best_round_on_validation_data_is_kept(kind):
    data = make_ranking(n_queries=60, n_docs=10, n_features=5, noise=1.5, random_state=5)
    train, vali = data.take(data.qid <= 20), data.take(data.qid > 20)
    params = {"learning_rate": 0.3, "k": 3, "convention": "letor"}
    model = kind(200, patience=15, **params)
    model.fit(train.X, train.y, qid=train.qid, validation=vali)
    scores = model.validation_scores_
    assert 1 < model.best_iter_ == int(np.argmax(scores)) + 1
    assert model.n_iter_ == len(scores) == model.best_iter_ + 15
    for rounds in (1, 2, model.best_iter_, model.n_iter_):
        prefix = kind(rounds, **params).fit(train.X, train.y, qid=train.qid)
        measured = ndcg(vali.y, prefix.predict(vali.X), vali.qid, k=3, convention="letor")
        assert measured == pytest.approx(scores[rounds - 1], abs=1e-12)
        if rounds == model.best_iter_:
            assert_array_equal(model.predict(vali.X), prefix.predict(vali.X))


def test_sparse_validation_data_are_fine(data):
    import scipy.sparse as sp

    dense = MART(20).fit(data.X, data.y, qid=data.qid, validation=data)
    sparse = MART(20).fit(
        sp.csr_matrix(data.X),
        data.y,
        qid=data.qid,
        validation=(sp.csr_matrix(data.X), data.y, data.qid),
    )
    assert_allclose(sparse.validation_scores_, dense.validation_scores_, rtol=1e-6)


# Random forests.


def test_bag_holds_whole_queries():
    queries = group_queries(["b", "a", "b", "c", "c", "c"], 6)
    rng = np.random.RandomState(0)
    bags = np.array([draw_bag(queries, 1.0, rng) for _ in range(2000)])
    assert (bags[:, 0] == bags[:, 1]).all()  # grouped: b b a c c c
    assert (bags[:, 3:] == bags[:, 3:4]).all()
    drawn = bags[:, [0, 2, 3]]
    assert (drawn.sum(axis=1) == 3).all()
    assert_allclose(drawn.mean(axis=0), 1.0, atol=0.06)
    assert np.mean(drawn == 0) == pytest.approx((2 / 3) ** 3, abs=0.03)  # with replacement
    assert (draw_bag(queries, 0.6, rng)[[0, 2, 3]]).sum() == 2


def test_bag_of_a_single_query_holds_documents():
    bag = draw_bag(group_queries(None, 500), 0.5, np.random.RandomState(0))
    assert bag.sum() == 250
    assert len(np.unique(bag)) > 2


def with_bag(monkeypatch, weight):
    """Let every bag hold the documents of a single query so often, in the order of its rows."""

    def draw(queries, share, rng):
        return weight[settled_order(draw.X, draw.y, queries)]

    monkeypatch.setattr("robirank.ltr.random_forests.draw_bag", draw)
    return draw


def test_tree_of_a_bag_is_the_best_one(monkeypatch):
    rng = np.random.default_rng(2)
    for _ in range(10):
        weight = rng.poisson(1.0, 40).astype(float)
        draw = with_bag(monkeypatch, weight)
        X, y = rng.standard_normal((40, 3)), rng.integers(0, 4, 40).astype(float)
        draw.X, draw.y = X, y
        model = RandomForests(1, max_features=1.0, max_leaf_nodes=2).fit(X, y)
        feature, left, mean = best_split(X, y, weight)
        assert model.split_feature_[0] == feature
        inside = weight > 0  # where a document left out falls depends on the threshold
        assert_allclose(model.predict(X)[inside], np.where(left, *mean)[inside], atol=1e-5)


@pytest.mark.parametrize("least", [1, 3])
def test_leaves_count_documents_as_the_bag_does(monkeypatch, least):
    rng = np.random.default_rng(3)
    weight = rng.poisson(1.0, 60).astype(float)
    draw = with_bag(monkeypatch, weight)
    X, y = rng.standard_normal((60, 2)), rng.random(60)
    draw.X, draw.y = X, y
    model = RandomForests(1, max_features=1.0, min_samples_leaf=least).fit(X, y)
    leaf = np.unique(model.predict(X), return_inverse=True)[1]
    inside = np.bincount(leaf, weights=weight)
    assert inside.min() == least
    if least == 1:
        assert_allclose(model.predict(X)[weight > 0], y[weight > 0], atol=1e-6)


def test_forest_is_the_mean_of_its_trees(data):
    model = RandomForests(7, random_state=1).fit(data.X, data.y, qid=data.qid)
    trees = []
    for start, end in zip(model.tree_offsets_[:-1], model.tree_offsets_[1:], strict=True):
        tree = RandomForests()
        tree.n_features_in_ = 5
        tree.tree_offsets_ = np.array([0, end - start], dtype=np.int32)
        tree.left_child_ = model.left_child_[start:end] - start
        for name in ("split_feature_", "threshold_", "leaf_value_"):
            setattr(tree, name, getattr(model, name)[start:end])
        trees.append(tree.predict(data.X))
    assert len(trees) == 7
    assert len({t.tobytes() for t in trees}) == 7
    assert_allclose(model.predict(data.X), np.mean(trees, axis=0), rtol=1e-12)
    # A mean of means of labels stays among the labels.
    assert model.predict(data.X * 100).min() >= data.y.min() - 1e-6
    assert model.predict(data.X * 100).max() <= data.y.max() + 1e-6


def test_each_split_looks_at_other_features():
    # One of ten features decides; a root sees it only if it is drawn.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 10))
    y = (X[:, 4] > 0).astype(float)
    qid = np.repeat(np.arange(40), 10)
    some = RandomForests(150, max_leaf_nodes=8, random_state=0).fit(X, y, qid=qid)
    roots = some.split_feature_[some.tree_offsets_[:-1]]
    assert np.mean(roots == 4) == pytest.approx(0.3, abs=0.12)
    every = RandomForests(5, max_features=1.0, random_state=0).fit(X, y, qid=qid)
    assert (every.split_feature_[every.tree_offsets_[:-1]] == 4).all()
    used = [
        len(np.unique(some.split_feature_[a:b][some.split_feature_[a:b] >= 0]))
        for a, b in zip(some.tree_offsets_[:-1], some.tree_offsets_[1:], strict=True)
    ]
    assert max(used) > 3  # drawn for each split, not for each tree


def test_seed_decides_the_forest(data):
    fits = [
        RandomForests(5, random_state=seed).fit(data.X, data.y, qid=data.qid).predict(data.X)
        for seed in (0, 0, 1)
    ]
    assert_array_equal(fits[0], fits[1])
    assert (fits[0] != fits[2]).any()


@each_method
def test_progress_is_shown_only_on_request(method, data, capfd):
    fresh(method, verbose=False).fit(data.X, data.y, qid=data.qid)
    assert capfd.readouterr() == ("", "")
    fresh(method, verbose=True).fit(data.X, data.y, qid=data.qid)
    out, err = capfd.readouterr()
    assert out == ""
    assert type(method).__name__ in err
