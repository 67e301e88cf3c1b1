"""LSRank: every ranking by brute force, the optimum, ties, and what a user sees of a fit."""

import itertools
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from robirank import make_ranking
from robirank._queries import group_queries
from robirank.ltr._regularized import lists_that_differ
from robirank.ltr.lsrank import LSRank, Rankings
from robirank.metrics import ndcg


@pytest.fixture(scope="module")
def small():
    """Four lists of five documents, two features, labels with ties."""
    rng = np.random.default_rng(3)
    y = np.array([2, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 2, 2, 1, 1, 0, 1, 0, 0, 3], dtype=float)
    X = rng.standard_normal((20, 2)) + 0.8 * y[:, None] * [1.0, 0.3]
    return X, y, np.repeat([7, 3, 5, 1], 5)


def places(n, k, decay):
    """Discount and c of each place."""
    place = np.arange(1, n + 1)
    counts = place <= (k or n)
    discount = counts / np.log2(place + 1)
    return discount, discount if decay == "log" else counts * place ** -float(decay)


def each_list(X, y, qid, k, decay):
    """Gains, discounts, c, and the ideal rankings of each list."""
    for q in np.unique(qid):
        rows = qid == q
        gain = 2.0 ** y[rows] - 1
        discount, c = places(len(gain), k, decay)
        best = max(gain[list(p)] @ discount for p in itertools.permutations(range(len(gain))))
        descending = np.sort(gain)[::-1]
        ideal = [
            list(p)
            for p in itertools.permutations(range(len(gain)))
            if (gain[list(p)] == descending).all()
        ]
        yield X[rows], gain / best, discount, c, ideal


def brute_force(w, X, y, qid, k=None, decay="log", ties="best"):
    """The risk, one ranking at a time."""
    total, n_lists = 0.0, 0
    for features, gain, discount, c, ideal in each_list(X, y, qid, k, decay):
        f = features @ w
        worst = max(
            1 - gain[list(p)] @ discount + c @ f[list(p)]
            for p in itertools.permutations(range(len(f)))
        )
        scores = [c @ f[p] for p in ideal]
        total += worst - (max(scores) if ties == "best" else np.mean(scores))
        n_lists += 1
    return total / n_lists


def rankings(X, y, qid, k=None, decay="log"):
    return Rankings(*lists_that_differ(X, y, group_queries(qid, len(y))), k, decay)


settings = pytest.mark.parametrize(
    ("k", "decay"), [(None, "log"), (2, "log"), (None, 0.25), (3, 0.25), (3, 2.0), (9, 0.5)]
)


@settings
@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 10.0])
def test_risk_is_that_of_the_worst_ranking(small, k, decay, scale):
    X, y, qid = small
    r = rankings(X, y, qid, k, decay)
    for seed in range(3):
        w = scale * np.random.default_rng(seed).standard_normal(2)
        risk = r.worst(w)[0] - r.ideal(w) @ w
        assert_allclose(risk, brute_force(w, X, y, qid, k, decay, "best"), atol=1e-12)
        average = r.worst(w)[0] - r.ideal(np.zeros(2)) @ w
        assert_allclose(average, brute_force(w, X, y, qid, k, decay, "average"), atol=1e-12)


@settings
def test_plane_of_the_gradient_lies_below_the_risk(small, k, decay):
    r = rankings(*small, k, decay)
    rng = np.random.default_rng(0)
    for w in [np.zeros(2), *rng.standard_normal((10, 2))]:
        value, slope = r.worst(w)
        for v in w + rng.standard_normal((10, 2)) * 10.0 ** rng.integers(-2, 3, (10, 1)):
            assert r.worst(v)[0] >= value + slope @ (v - w) - 1e-12


def epigraph_optimum(X, y, qid, alpha, k, decay):
    """The convex problem with one constraint a ranking, by a generic solver."""
    rows = []
    lists = list(each_list(X, y, qid, k, decay))
    for q, (features, gain, discount, c, ideal) in enumerate(lists):
        mean_ideal = np.mean([c @ features[p] for p in ideal], axis=0)
        for p in map(list, itertools.permutations(range(len(gain)))):
            # slack_q >= 1 − gain·discount + (c·features − ideal)·w
            slack = np.eye(len(lists))[q]
            rows.append([*slack, *(mean_ideal - c @ features[p]), gain[p] @ discount - 1])
    rows = np.array(rows)
    n = len(lists)
    start = np.ones(n + 2)

    def value(v):
        return v[:n].mean() + alpha / 2 * v[n:] @ v[n:]

    result = minimize(
        value,
        start,
        method="SLSQP",
        constraints={
            "type": "ineq",
            "fun": lambda v: rows[:, :-1] @ v + rows[:, -1],
            "jac": lambda v: rows[:, :-1],
        },
        options={"ftol": 1e-12, "maxiter": 500},
    )
    return result.x[n:], result.fun


@pytest.mark.parametrize(("k", "decay"), [(None, "log"), (2, "log"), (3, 0.25)])
@pytest.mark.parametrize("alpha", [0.03, 0.5])
def test_convex_case_reaches_the_optimum_of_a_generic_solver(small, k, decay, alpha):
    X, y, qid = small
    model = LSRank(alpha, k=k, decay=decay, ties="average", tol=1e-8).fit(X, y, qid=qid)
    w, least = epigraph_optimum(X, y, qid, alpha, k, decay)
    assert w.any()
    assert_allclose(model.coef_, w, atol=1e-3)
    assert_allclose(model.loss_curve_[-1], least, rtol=1e-6)
    assert model.n_rounds_ == 1


@pytest.mark.parametrize("alpha", [0.03, 0.5])
def test_best_ties_reach_the_lowest_point_of_a_grid(small, alpha):
    X, y, qid = small
    model = LSRank(alpha, tol=1e-6).fit(X, y, qid=qid)

    def objective(w):
        return brute_force(w, X, y, qid) + alpha / 2 * w @ w

    assert objective(model.coef_) <= model.loss_curve_[-1] + 1e-12
    around = np.linalg.norm(model.coef_) * np.linspace(-2, 2, 7)
    lowest = min(objective(np.array([a, b])) for a in around for b in around)
    assert objective(model.coef_) <= lowest + 1e-6
    assert model.n_rounds_ >= 2


def test_risk_bounds_the_loss_of_ndcg():
    data = make_ranking(n_queries=30, n_docs=12, n_features=4, noise=0.5, random_state=2)
    queries = group_queries(data.qid, len(data))
    X, y, queries = lists_that_differ(data.X, data.y.astype(float), queries)
    for k in (None, 3):
        r = Rankings(X, y, queries, k, "log")
        for w in np.random.default_rng(0).standard_normal((10, 4)):
            loss = 1 - np.mean(ndcg(y, X @ w, queries.codes(), k=k, per_query=True))
            assert loss <= r.worst(w)[0] - r.ideal(w) @ w + 1e-12


def test_separable_lists_are_ranked_perfectly():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    qid = np.repeat(np.arange(30), 10)
    y = np.digitize(X @ [2.0, -1.0, 0.0], [-1.0, 2.0]).astype(float)
    model = LSRank(1e-4, tol=1e-3).fit(X, y, qid=qid)
    assert ndcg(y, model.predict(X), qid, k=10) > 0.999 * ndcg(y, y, qid, k=10)


def noisy_lists():
    """Relevant documents are better in the mean, but not than the best of many irrelevant ones."""
    rng = np.random.default_rng(1)
    y = np.tile([1.0] * 5 + [0.0] * 20, 30)
    X = rng.standard_normal((750, 2))
    X[:, 0] += y
    return X, y, np.repeat(np.arange(30), 25)


def test_average_ties_can_leave_nothing_to_learn_and_best_ties_learn():
    X, y, qid = noisy_lists()
    with pytest.warns(UserWarning, match="minimum is at coef_ = 0"):
        convex = LSRank(0.01, ties="average").fit(X, y, qid=qid)
    assert not convex.coef_.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LSRank(0.01).fit(X, y, qid=qid)
    assert model.coef_[0] > 3 * abs(model.coef_[1])


def test_the_ideal_rankings_are_those_of_the_model_in_the_end():
    X, y, qid = noisy_lists()
    model = LSRank(0.01, tol=1e-3).fit(X, y, qid=qid)
    r = rankings(X, y, qid)
    risk = r.worst(model.coef_)[0] - r.ideal(model.coef_) @ model.coef_
    objective = risk + 0.005 * model.coef_ @ model.coef_
    gain = model.loss_curve_[0] - objective
    assert model.n_rounds_ > 2
    assert objective <= model.loss_curve_[-1] <= objective + 2e-3 * gain


@pytest.mark.parametrize("alpha", [1.0, 1e4])
def test_a_strong_penalty_shrinks_but_does_not_erase(alpha):
    X, y, qid = noisy_lists()
    model = LSRank(alpha).fit(X, y, qid=qid)
    assert model.coef_[0] > 0
    assert np.linalg.norm(model.coef_) < 5 / alpha


@pytest.mark.parametrize("ties", ["best", "average"])
def test_order_of_rows_does_not_matter(small, ties):
    X, y, qid = small
    shuffle = np.random.default_rng(0).permutation(20)
    for decay in ("log", 0.25):
        model = LSRank(0.1, decay=decay, ties=ties, tol=1e-6)
        one = model.fit(X, y, qid=qid).coef_
        other = model.fit(X[shuffle], y[shuffle], qid=qid[shuffle]).coef_
        assert_allclose(other, one, atol=1e-4)


def test_lists_of_one_label_are_left_out(small):
    X, y, qid = small
    more = np.vstack([X, 5 * X]), np.append(y, np.ones(20)), np.append(qid, qid + 100)
    one = LSRank(0.1).fit(X, y, qid=qid)
    other = LSRank(0.1).fit(more[0], more[1], qid=more[2])
    assert_allclose(other.coef_, one.coef_, rtol=1e-9)


def test_labels_that_never_differ_are_an_error(small):
    X, _, qid = small
    with pytest.raises(ValueError, match="y must differ within some query"):
        LSRank().fit(X, np.ones(20), qid=qid)


def test_loss_curve_falls_and_stops_near_the_minimum():
    data = make_ranking(n_queries=40, n_docs=12, n_features=5, noise=0.3, random_state=1)
    rough = LSRank(0.1, tol=0.1).fit(data.X, data.y, qid=data.qid)
    fine = LSRank(0.1, tol=1e-4).fit(data.X, data.y, qid=data.qid)
    for model in (rough, fine):
        assert len(model.loss_curve_) == model.n_iter_ + 1
        assert (np.diff(model.loss_curve_) <= 0).all()
    assert fine.n_iter_ > rough.n_iter_
    assert fine.gap_ < 0.01 * rough.gap_


def test_stopping_early_warns():
    data = make_ranking(n_queries=20, n_docs=12, n_features=5, random_state=1)
    with pytest.warns(ConvergenceWarning, match="max_iter=3 iterations with a gap of"):
        model = LSRank(max_iter=3).fit(data.X, data.y, qid=data.qid)
    assert model.n_iter_ == 3


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a positive number; got 0.0"),
        ({"k": 0}, "k must be a positive integer or None; got 0"),
        ({"decay": "linear"}, "decay must be 'log' or a finite number > 0; got 'linear'"),
        ({"decay": -1.0}, "decay must be"),
        ({"ties": "first"}, "ties must be one of"),
        ({"max_iter": 0}, "max_iter must be a positive integer"),
        ({"tol": 0.0}, "tol must be a positive number"),
    ],
)
def test_bad_parameters_are_named(small, params, message):
    X, y, qid = small
    with pytest.raises(ValueError, match=message):
        LSRank(**params).fit(X, y, qid=qid)
