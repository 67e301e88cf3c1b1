"""RoBiRank: the optimum, the starts, the weights, and what a user sees of a fit."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad, minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from robirank import RoBiRank, losses, make_ranking
from robirank._queries import group_queries
from robirank.objectives.linear import LinearObjective, scale_of_columns
from robirank.objectives.listwise import Lists


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=40, n_docs=12, n_features=5, noise=0.3, random_state=1)


def objective(w, data, alpha, rho="log"):
    """The paper's objective, list by list, with the reference loss."""
    total, used = 0.0, 0
    for q in np.unique(data.qid):
        rows = data.qid == q
        v = 2.0 ** data.y[rows] - 1
        if not v.any():
            continue
        used += 1
        best = np.sort(v)[::-1] @ (1 / np.log2(np.arange(len(v)) + 2))
        total += losses.list_loss(data.X[rows].astype(float) @ w, v / best, rho).loss
    return total / used + alpha / 2 * w @ w


@pytest.mark.parametrize("rho", ["log", "identity", "type2"])
def test_objective_is_the_papers(data, rho):
    model = RoBiRank(alpha=0.1, rho=rho, max_iter=1000, tol=1e-9).fit(data.X, data.y, qid=data.qid)
    assert_allclose(model.loss_curve_[-1], objective(model.coef_, data, 0.1, rho), rtol=1e-10)
    assert_allclose(model.loss_curve_[0], objective(np.zeros(5), data, 0.1, rho), rtol=1e-10)


@pytest.mark.parametrize("rho", ["log", "identity", "type2"])
def test_gradient_of_the_objective(data, rho):
    lists = Lists.build(data.y, group_queries(data.qid, len(data)), rho=rho)
    objective = LinearObjective(data.X.astype(np.float64), lists, alpha=0.1)
    w = np.random.default_rng(0).standard_normal(5)
    assert check_grad(lambda w: objective(w)[0], lambda w: objective(w)[1], w) < 1e-6


def test_convex_case_reaches_the_optimum_of_a_generic_solver(data):
    model = RoBiRank(alpha=0.1, rho="identity", tol=1e-8).fit(data.X, data.y, qid=data.qid)
    generic = minimize(objective, np.ones(5), args=(data, 0.1, "identity"), tol=1e-10)
    assert_allclose(model.coef_, generic.x, rtol=1e-3, atol=1e-4)


def test_identity_loss_on_pairs_is_logistic_regression():
    # Queries of two documents, one relevant: σ0 of the difference of features, base-2 logistic.
    rng = np.random.default_rng(0)
    difference = rng.standard_normal((200, 3)) + np.array([1.0, 0.5, 0.0])
    X = np.empty((400, 3))
    X[::2], X[1::2] = difference, 0.0
    y = np.tile([1, 0], 200)
    alpha = 0.05
    ours = RoBiRank(alpha, rho="identity", tol=1e-9).fit(X, y, qid=np.repeat(np.arange(200), 2))
    # With ω' = ω ln 2 the mean of ln(1 + exp(−xω')) / ln 2 + α/2 ‖ω'‖² / ln² 2 is the same.
    both = np.vstack([difference, -difference])
    signs = np.repeat([1, -1], 200)
    C = np.log(2) / (alpha * 400)
    peer = LogisticRegression(C=C, fit_intercept=False, tol=1e-10).fit(both, signs)
    assert_allclose(ours.coef_ * np.log(2), peer.coef_[0], rtol=1e-4)


def test_every_start_of_a_convex_problem_ends_at_the_same_place(data):
    fits = [
        RoBiRank(0.1, rho="identity", init=init, random_state=3, tol=1e-8)
        for init in ("zeros", "random", np.ones(5))
    ]
    ends = [fit.fit(data.X, data.y, qid=data.qid).coef_ for fit in fits]
    assert_allclose(ends[1], ends[0], atol=1e-5)
    assert_allclose(ends[2], ends[0], atol=1e-5)


def test_start_from_a_fitted_estimator(data):
    first = RoBiRank(0.1, tol=1e-7).fit(data.X, data.y, qid=data.qid)
    second = RoBiRank(0.1, init=first, tol=1e-4).fit(data.X, data.y, qid=data.qid)
    assert second.n_iter_ == 0
    assert_array_equal(second.coef_, first.coef_)


def test_warm_start_continues(data):
    model = RoBiRank(0.1, warm_start=True, tol=1e-6, max_iter=3)
    with pytest.warns(ConvergenceWarning):
        model.fit(data.X, data.y, qid=data.qid)
    halfway = model.loss_curve_[-1]
    model.set_params(max_iter=500).fit(data.X, data.y, qid=data.qid)
    assert model.loss_curve_[0] == pytest.approx(halfway)
    straight = RoBiRank(0.1, tol=1e-6).fit(data.X, data.y, qid=data.qid)
    assert_allclose(model.coef_, straight.coef_, atol=1e-3)


def test_loss_curve_falls(data):
    model = RoBiRank(0.01).fit(data.X, data.y, qid=data.qid)
    assert len(model.loss_curve_) == model.n_iter_ + 1
    assert (np.diff(model.loss_curve_) <= 0).all()


def test_stopping_early_warns_and_converging_does_not(data):
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        RoBiRank(max_iter=2).fit(data.X, data.y, qid=data.qid)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RoBiRank().fit(data.X, data.y, qid=data.qid)


def test_interrupted_fit_can_go_on(data, monkeypatch):
    model = RoBiRank(0.1, warm_start=True)
    calls = iter(range(100))
    original = LinearObjective.__call__

    def interrupt(self, w):
        if next(calls) == 6:
            raise KeyboardInterrupt
        return original(self, w)

    monkeypatch.setattr(LinearObjective, "__call__", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(data.X, data.y, qid=data.qid)
    assert 0 < model.n_iter_ < 6
    left = model.loss_curve_[-1]
    monkeypatch.undo()
    model.fit(data.X, data.y, qid=data.qid)
    assert model.loss_curve_[0] == pytest.approx(left)


def test_query_of_weight_zero_is_as_good_as_absent(data):
    keep = data.qid != data.qid[0]
    weighted = RoBiRank(0.1, tol=1e-8).fit(
        data.X, data.y, qid=data.qid, query_weight=keep.astype(float)
    )
    absent = RoBiRank(0.1, tol=1e-8).fit(data.X[keep], data.y[keep], qid=data.qid[keep])
    assert_allclose(weighted.coef_, absent.coef_, atol=1e-5)


def test_query_weights_by_name(data):
    weights = {q: 1.0 + (q % 3) for q in np.unique(data.qid).tolist()}
    by_name = RoBiRank(0.1).fit(data.X, data.y, qid=data.qid, query_weight=weights)
    by_row = RoBiRank(0.1).fit(
        data.X, data.y, qid=data.qid, query_weight=[weights[q] for q in data.qid.tolist()]
    )
    assert_array_equal(by_name.coef_, by_row.coef_)


def test_gain_may_be_a_function(data):
    named = RoBiRank(0.1, gain="linear").fit(data.X, data.y, qid=data.qid)
    given = RoBiRank(0.1, gain=lambda labels: labels).fit(data.X, data.y, qid=data.qid)
    assert_array_equal(named.coef_, given.coef_)


def queries_with_outliers(seed, share):
    """Documents are relevant where the first feature is large, the second one is noise.

    In a share of the queries one more document is called relevant whose first feature is far
    below all others; only the second feature could lift it.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 10, 2))
    y = (X[:, :, 0] > 1.0).astype(float)
    outlying = rng.choice(200, int(share * 200), replace=False)
    X[outlying, 0], y[outlying, 0] = [-5.0, 5.0], 1.0
    return X.reshape(-1, 2), y.reshape(-1), np.repeat(np.arange(200), 10)


def test_robust_loss_gives_up_on_the_hopeless():
    X, y, qid = queries_with_outliers(0, share=0.1)
    clean_X, clean_y, clean_qid = queries_with_outliers(1, share=0.0)
    perfect = (np.bincount(clean_qid, weights=clean_y) > 0).mean()
    score = {}
    for rho in ("log", "identity"):
        model = RoBiRank(1e-3, rho=rho).fit(X, y, qid=qid)
        score[rho] = model.score(clean_X, clean_y, qid=clean_qid) / perfect
    assert score["log"] > 0.99  # measured: 1.000
    assert score["identity"] < 0.9  # measured: 0.858


def test_progress_is_shown_only_on_request(data, capfd):
    RoBiRank(verbose=False).fit(data.X, data.y, qid=data.qid)
    assert capfd.readouterr() == ("", "")
    RoBiRank(verbose=True).fit(data.X, data.y, qid=data.qid)
    out, err = capfd.readouterr()
    assert out == ""
    assert "RoBiRank" in err
    assert "loss" in err


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": -1.0}, "alpha must be a finite number >= 0; got -1.0"),
        ({"alpha": "strong"}, "alpha must be"),
        ({"rho": "hinge"}, "rho must be one of"),
        ({"metric": "map"}, "metric must be one of"),
        ({"init": "ones"}, "init must be one of"),
        ({"init": np.ones(3)}, "init must hold 5 coefficients; got 3"),
        ({"init": RoBiRank()}, "must be a fitted linear model"),
        ({"init": np.full(5, np.nan)}, "init must be finite"),
        ({"max_iter": 0}, "max_iter must be a positive integer"),
        ({"tol": 0.0}, "tol must be a positive number"),
        ({"num_threads": -2}, r"num_threads must be 0 \(all cores\) or more"),
    ],
)
def test_bad_parameters_are_named(data, params, message):
    with pytest.raises(ValueError, match=message):
        RoBiRank(**params).fit(data.X, data.y, qid=data.qid)


# Features of any size


@pytest.mark.parametrize("size", [1e8, 1e15, 1e30])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_features_of_any_size_are_learned_from(size, form):
    """One unit for a feature is as good as another."""
    data = make_ranking(n_queries=40, n_features=5, random_state=0)
    X, units = data.X.astype(np.float64), np.array([size, 1.0, size, 1.0, 1.0])
    small = RoBiRank(alpha=0).fit(X, data.y, qid=data.qid)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large = RoBiRank(alpha=0).fit(form(X * units), data.y, qid=data.qid)
    np.testing.assert_allclose(large.coef_ * units, small.coef_, rtol=0.05, atol=0.01)
    assert large.loss_curve_[-1] == pytest.approx(small.loss_curve_[-1], rel=1e-4)


def test_ordinary_features_are_taken_as_they_are():
    X = np.array([[2.0**20, -3.0], [1.0, 2.0**20]])
    assert (scale_of_columns(X) == 1).all()
    assert (scale_of_columns(sp.csr_matrix(X)) == 1).all()


def test_a_random_state_that_is_none():
    with pytest.raises(ValueError, match="random_state must be an integer"):
        RoBiRank(random_state=object()).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("what", ["features", "weights", "gains"])
def test_small_numbers_are_learned_from(what, size):
    data = make_ranking(n_queries=40, n_features=5, random_state=0)
    X, y, weight, model = data.X.astype(float), data.y, None, RoBiRank()
    if what == "features":
        X = X * size
    elif what == "weights":
        weight = np.full(len(y), size)
    else:
        model, y = RoBiRank(metric="dcg"), y * size
    model.fit(X, y, qid=data.qid, sample_weight=weight)
    assert model.coef_.any()
    assert model.score(X, data.y, qid=data.qid) > 0.86


def test_a_fit_that_goes_on_at_the_minimum_stays_there():
    data = make_ranking(n_queries=40, n_features=5, random_state=0)
    model = RoBiRank(warm_start=True).fit(data.X, data.y, qid=data.qid)
    assert model.fit(data.X, data.y, qid=data.qid).n_iter_ == 0


def test_a_qid_without_two_documents_is_warned_of():
    data = make_ranking(n_queries=4, random_state=0)
    with pytest.warns(UserWarning, match="y differs within no query .* is qid the query"):
        RoBiRank().fit(data.X, data.y, qid=np.arange(len(data.y)))


@pytest.mark.parametrize("span", [60, 1_400, 86_400])
def test_times_in_seconds_that_differ_by_little(span):
    """The gradient at zero is compared with ``tol`` as the features are scaled inside."""
    times = 1.7e9 + np.random.default_rng(0).permutation(400) * (span / 400)
    y, qid = np.arange(400) % 2, np.repeat(np.arange(20), 20)
    times[y == 1] += 2 * span
    model = RoBiRank().fit(times[:, None], y, qid=qid)
    assert model.score(times[:, None], y, qid=qid) == 1.0
