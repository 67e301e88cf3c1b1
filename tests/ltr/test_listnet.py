"""ListNet: the loss by hand, the optimum, and what must not change it."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.optimize import check_grad, minimize
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from robirank import make_ranking
from robirank._queries import group_queries
from robirank.ltr.listnet import ListNet, TopOneEntropy


@pytest.fixture(scope="module")
def data():
    return make_ranking(
        n_queries=30,
        n_docs=(3, 12),
        n_features=4,
        noise=0.3,
        empty=0.2,
        dtype=float,
        random_state=1,
    )


def objective(w, data, alpha):
    """The paper's loss, list by list."""
    queries = np.unique(data.qid)
    total = 0.0
    for q in queries:
        rows = data.qid == q
        total -= softmax(data.y[rows].astype(float)) @ np.log(softmax(data.X[rows] @ w))
    return total / len(queries) + alpha / 2 * w @ w


def test_loss_of_two_documents_by_hand():
    # Labels 1 and 0: p = e/(e + 1), 1/(e + 1). Scores 0 and log 3: q = 1/4, 3/4.
    loss, gradient = TopOneEntropy(np.array([1.0, 0.0]), group_queries(None, 2))(
        np.array([0.0, np.log(3)])
    )
    e = np.e
    assert loss == pytest.approx((e * np.log(4) + np.log(4 / 3)) / (e + 1), rel=1e-12)
    assert_allclose(gradient, [1 / 4 - e / (e + 1), 3 / 4 - 1 / (e + 1)], rtol=1e-12)


def test_loss_is_the_mean_over_lists_in_any_order_of_rows():
    y, scores = np.array([1.0, 2.0, 0.0, 0.0, 0.0]), np.array([0.3, -1.0, 0.5, 2.0, 0.0])
    parts = [[0, 2], [1, 3, 4]]
    loss, gradient = TopOneEntropy(y, group_queries([0, 1, 0, 1, 1], 5))(scores)
    alone = [TopOneEntropy(y[p], group_queries(None, len(p)))(scores[p]) for p in parts]
    assert loss == pytest.approx((alone[0][0] + alone[1][0]) / 2)
    for part, (_, slope) in zip(parts, alone, strict=True):
        assert_allclose(gradient[part], slope / 2, rtol=1e-12)


def test_gradient_of_the_loss():
    rng = np.random.default_rng(0)
    loss_of = TopOneEntropy(rng.random(20) * 3, group_queries(rng.integers(0, 4, 20), 20))
    error = check_grad(lambda s: loss_of(s)[0], lambda s: loss_of(s)[1], rng.standard_normal(20))
    assert error < 1e-6


@pytest.mark.parametrize("alpha", [0.3, 0.01])
def test_optimum_is_that_of_a_generic_solver(data, alpha):
    model = ListNet(alpha, tol=1e-8).fit(data.X, data.y, qid=data.qid)
    generic = minimize(objective, np.ones(4), args=(data, alpha), tol=1e-10)
    assert_allclose(model.coef_, generic.x, atol=1e-4)
    assert model.loss_curve_[-1] == pytest.approx(generic.fun, rel=1e-9)
    assert model.loss_curve_[0] == pytest.approx(objective(np.zeros(4), data, alpha))


def test_labels_as_a_feature_get_weight_one():
    # Scores equal to the labels make q = p, which no other scores can beat.
    rng = np.random.default_rng(0)
    y, qid = rng.integers(0, 5, 60), np.repeat(np.arange(6), 10)
    X = np.column_stack([y, rng.standard_normal(60)])
    model = ListNet(0, tol=1e-9).fit(X, y, qid=qid)
    assert_allclose(model.coef_, [1.0, 0.0], atol=1e-6)


def test_what_queries_share_does_not_matter(data):
    plain = ListNet(0.1, tol=1e-8).fit(data.X, data.y, qid=data.qid).coef_
    shift = np.random.default_rng(0).standard_normal((data.qid.max() + 1, 4))[data.qid]
    features = ListNet(0.1, tol=1e-8).fit(data.X + 10 * shift, data.y, qid=data.qid).coef_
    assert_allclose(features, plain, atol=1e-5)
    labels = ListNet(0.1, tol=1e-8).fit(data.X, data.y + data.qid % 3, qid=data.qid).coef_
    assert_allclose(labels, plain, atol=1e-5)


def test_queries_count_alike_however_often_they_are_given(data):
    plain = ListNet(0.1, tol=1e-8).fit(data.X, data.y, qid=data.qid).coef_
    X, y = np.vstack([data.X, data.X]), np.append(data.y, data.y)
    twice = ListNet(0.1, tol=1e-8).fit(X, y, qid=np.append(data.qid, data.qid + 1000)).coef_
    assert_allclose(twice, plain, atol=1e-5)


def test_queries_of_equal_labels_ask_for_equal_scores(data):
    relevant = np.isin(data.qid, data.qid[data.y > 0])
    assert not relevant.all()
    everything = ListNet(0.01).fit(data.X, data.y, qid=data.qid).coef_
    some = ListNet(0.01).fit(data.X[relevant], data.y[relevant], qid=data.qid[relevant]).coef_
    assert np.linalg.norm(everything) < np.linalg.norm(some)


def test_separable_documents_are_ranked_perfectly():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    qid = np.repeat(np.arange(20), 10)
    y = np.clip(np.round(X[:, 1] + 1), 0, 3)
    y[::10] = 1
    X[:, 1] = y + rng.uniform(0, 0.4, 200)
    assert ListNet(1e-4).fit(X, y, qid=qid).score(X, y, qid=qid) == 1.0


def test_labels_and_scores_of_any_size_are_safe():
    loss_of = TopOneEntropy(np.array([1000.0, 0.0, 1.0]), group_queries(None, 3))
    scores = np.array([2000.0, 0.0, -2000.0])
    assert loss_of(scores)[0] == 0.0
    loss, gradient = loss_of(-scores)
    assert loss == 4000.0
    assert gradient.tolist() == [-1.0, 0.0, 1.0]


def test_sparse_features_give_the_same_weights(data):
    dense = ListNet(0.1, tol=1e-8).fit(data.X, data.y, qid=data.qid)
    sparse = ListNet(0.1, tol=1e-8).fit(sp.csr_matrix(data.X), data.y, qid=data.qid)
    assert_allclose(sparse.coef_, dense.coef_, atol=1e-6)


def test_stopping_early_warns_and_converging_does_not(data):
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        ListNet(max_iter=2).fit(data.X, data.y, qid=data.qid)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ListNet().fit(data.X, data.y, qid=data.qid)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": -1.0}, "alpha must be"),
        ({"alpha": "strong"}, "alpha must be"),
        ({"max_iter": 0}, "max_iter must be a positive integer"),
        ({"tol": 0.0}, "tol must be a positive number"),
    ],
)
def test_bad_parameters_are_named(data, params, message):
    with pytest.raises(ValueError, match=message):
        ListNet(**params).fit(data.X, data.y, qid=data.qid)
