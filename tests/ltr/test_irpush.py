"""IRPush: the loss by its definition, the optimum, and what a user sees of a fit."""

import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad, minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from robirank import make_ranking
from robirank._queries import group_queries
from robirank.ltr._push import Groups, PushLists
from robirank.ltr._regularized import lists_that_differ
from robirank.ltr.irpush import IRPush
from robirank.objectives.linear import LinearObjective

LOSSES = {"hinge": lambda t: max(0.0, 1 - t), "logistic": lambda t: np.log1p(np.exp(-t))}


@pytest.fixture(scope="module")
def data():
    """Lists that some weights can put almost right, so that p = ∞ has something to learn."""
    return make_ranking(n_queries=10, n_docs=8, n_features=3, noise=0.1, random_state=1)


def parts(data):
    queries = group_queries(data.qid, len(data))
    return PushLists(*lists_that_differ(data.X, data.y.astype(np.float64), queries))


def risk_of(model, lists):
    """The model's loss without the penalty, as a function of its weights."""
    return LinearObjective(lists.rows(), partial(model._score_loss, lists)).loss


def each_list(data):
    for q in np.unique(data.qid):
        rows = data.qid == q
        X, y = data.X[rows].astype(np.float64), data.y[rows]
        if (y > 0).any() and (y == 0).any():
            yield X[y > 0], X[y == 0]


def top(g, p):
    return g.max() if p == np.inf else np.log(np.mean(np.exp(p * g))) / p


def risk(w, data, loss, p):
    """The definition: the irrelevant document that costs most, or for p < ∞ the soft maximum."""
    values = []
    for up, down in each_list(data):
        f, g = up @ w, down @ w
        if p == np.inf:
            values.append(max(np.mean([LOSSES[loss](a - b) for a in f]) for b in g))
        else:
            values.append(np.mean([LOSSES[loss](a - top(g, p)) for a in f]))
    return np.mean(values)


@pytest.mark.parametrize("p", [1.0, 7.5, 16.0, np.inf])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_loss_is_that_of_the_worst_irrelevant_document(data, loss, p):
    model = IRPush(loss=loss, p=p)
    for seed in range(5):
        w = np.random.default_rng(seed).standard_normal(3)
        assert_allclose(risk_of(model, parts(data))(w)[0], risk(w, data, loss, p), rtol=1e-12)


@pytest.mark.parametrize("p", [1.0, 7.5])
def test_gradient_of_the_smooth_case(data, p):
    model = IRPush(loss="logistic", p=p)
    w = np.random.default_rng(0).standard_normal(3)
    lists = parts(data)
    loss = risk_of(model, lists)
    error = check_grad(lambda w: loss(w)[0], lambda w: loss(w)[1], w)
    assert error < 1e-6


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("p", [4.0, np.inf])
def test_slope_lies_below_the_risk(data, loss, p):
    model, lists = IRPush(loss=loss, p=p), parts(data)
    rng = np.random.default_rng(0)
    for w in [np.zeros(3), *rng.standard_normal((10, 3))]:
        value, slope = risk_of(model, lists)(w)
        for v in w + rng.standard_normal((10, 3)) * 10.0 ** rng.integers(-2, 3, (10, 1)):
            assert risk_of(model, lists)(v)[0] >= value + slope @ (v - w) - 1e-12


def test_soft_maximum_by_hand():
    groups = Groups(np.zeros((5, 1)), np.array([0, 0, 0, 1, 1]))
    scores = np.array([0.0, np.log(2), np.log(3), 5.0, 5.0])
    value, share = groups.maximum(scores, 1.0)
    assert_allclose(value, [np.log(2), 5.0])
    assert_allclose(share, [1 / 6, 2 / 6, 3 / 6, 0.5, 0.5])
    value, share = groups.maximum(scores, np.inf)
    assert_allclose(value, [np.log(3), 5.0])
    assert_allclose(share, [0, 0, 1, 0.5, 0.5])
    far = groups.maximum(1e6 * scores, 64.0)[0]
    assert (far <= 1e6 * np.array([np.log(3), 5.0])).all()
    assert_allclose(far, 1e6 * np.array([np.log(3), 5.0]), atol=np.log(3) / 64)


@pytest.mark.parametrize(("alpha", "weight"), [(0.5, 1.0), (2.0, 0.5), (8.0, 0.125)])
def test_two_documents_by_hand(alpha, weight):
    # max(0, 1 − w) + α/2 w² is least at min(1, 1/α).
    model = IRPush(alpha, p=np.inf, tol=1e-8).fit([[1.0], [0.0]], [1, 0])
    assert_allclose(model.coef_, [weight], rtol=1e-4)


def generic_optimum(data, alpha, p, loss="hinge"):
    """With slacks, so that a generic solver meets no corner: ξ_i ≥ 1 − f_i + m_x, m_x ≥ f_j."""
    lists = list(each_list(data))
    n_up, n_lists = sum(len(up) for up, _ in lists), len(lists)
    weight = np.concatenate([np.full(len(up), 1 / (len(up) * n_lists)) for up, _ in lists])
    code = np.concatenate([np.full(len(up), q) for q, (up, _) in enumerate(lists)])
    ups = np.vstack([up for up, _ in lists])

    def parts_of(v):
        return v[:3], v[3 : 3 + n_lists], v[3 + n_lists :]

    def value(v):
        w, _, slack = parts_of(v)
        return weight @ slack + alpha / 2 * w @ w

    def slope(v):
        return np.concatenate([alpha * v[:3], np.zeros(n_lists), weight])

    def feasible(v):
        w, m, slack = parts_of(v)
        tops = (
            np.concatenate([m[q] - down @ w for q, (_, down) in enumerate(lists)])
            if p == np.inf
            else m - [top(down @ w, p) for _, down in lists]
        )
        return np.concatenate([slack, slack - 1 + ups @ w - m[code], tops])

    start = np.concatenate([np.zeros(3), np.zeros(n_lists), np.ones(n_up)])
    result = minimize(
        value,
        start,
        jac=slope,
        method="SLSQP",
        constraints={"type": "ineq", "fun": feasible},
        options={"ftol": 1e-12, "maxiter": 300},
    )
    assert result.success
    return result.x[:3], result.fun


@pytest.mark.parametrize("p", [4.0, np.inf])
def test_hinge_reaches_the_optimum_of_a_generic_solver(data, p):
    model = IRPush(0.05, p=p, tol=1e-7).fit(data.X, data.y, qid=data.qid)
    w, least = generic_optimum(data, 0.05, p)
    assert np.linalg.norm(w) > 0.1
    assert_allclose(model.coef_, w, atol=2e-3)
    assert_allclose(model.loss_curve_[-1], least, rtol=1e-5)
    assert model.loss_curve_[-1] - model.gap_ <= least + 1e-7
    assert model.gap_ < 1e-6


def test_logistic_reaches_the_optimum_of_a_generic_solver(data):
    def objective(w, p):
        return risk(w, data, "logistic", p) + 0.01 * w @ w

    smooth = IRPush(0.02, p=4.0, loss="logistic", tol=1e-8).fit(data.X, data.y, qid=data.qid)
    generic = minimize(objective, np.ones(3), args=(4.0,), tol=1e-10)
    assert_allclose(smooth.coef_, generic.x, atol=1e-4)
    assert_allclose(smooth.loss_curve_[-1], generic.fun, rtol=1e-8)
    cornered = IRPush(0.02, p=np.inf, loss="logistic", tol=1e-6).fit(data.X, data.y, qid=data.qid)
    simplex = minimize(
        objective,
        cornered.coef_ + 0.3,
        args=(np.inf,),
        method="Nelder-Mead",
        options={"xatol": 1e-6, "fatol": 1e-10, "maxiter": 5000},
    )
    assert_allclose(cornered.loss_curve_[-1], simplex.fun, rtol=1e-5)


def test_logistic_loss_on_pairs_is_logistic_regression():
    rng = np.random.default_rng(0)
    difference = rng.standard_normal((200, 3)) + np.array([1.0, 0.5, 0.0])
    X = np.zeros((400, 3))
    X[::2] = difference
    y, qid = np.tile([1, 0], 200), np.repeat(np.arange(200), 2)
    ours = IRPush(0.05, loss="logistic", tol=1e-9).fit(X, y, qid=qid)
    both, signs = np.vstack([difference, -difference]), np.repeat([1, -1], 200)
    peer = LogisticRegression(C=1 / (0.05 * 400), fit_intercept=False, tol=1e-10).fit(both, signs)
    assert_allclose(ours.coef_, peer.coef_[0], rtol=1e-4)


def separable():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = (X @ [1.0, -1.0, 0.0] > 0.8).astype(float)
    return X, y, np.repeat(np.arange(20), 20)


@pytest.mark.parametrize("p", [64.0, np.inf])
def test_separable_lists_have_every_relevant_document_on_top(p):
    X, y, qid = separable()
    scores = IRPush(1e-5, p=p).fit(X, y, qid=qid).predict(X)
    for q in np.unique(qid):
        assert scores[(qid == q) & (y > 0)].min() > scores[(qid == q) & (y == 0)].max()


def hopeless():
    """Relevant documents are better in the mean, but not than the best of many irrelevant ones."""
    rng = np.random.default_rng(1)
    y = np.tile([1.0] * 5 + [0.0] * 20, 30)
    X = rng.standard_normal((750, 2))
    X[:, 0] += y
    return X, y, np.repeat(np.arange(30), 25)


def test_the_limit_can_leave_nothing_to_learn_and_a_finite_p_learns():
    X, y, qid = hopeless()
    with pytest.warns(UserWarning, match="minimum is at coef_ = 0"):
        limit = IRPush(0.01, p=np.inf).fit(X, y, qid=qid)
    assert not limit.coef_.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = IRPush(0.01).fit(X, y, qid=qid)
    assert model.coef_[0] > 3 * abs(model.coef_[1])


def test_grades_above_zero_count_alike(data):
    binary = IRPush(0.1).fit(data.X, data.y > 0, qid=data.qid)
    graded = IRPush(0.1).fit(data.X, data.y, qid=data.qid)
    assert len(np.unique(data.y)) > 2
    assert_allclose(graded.coef_, binary.coef_, rtol=1e-12)


def test_lowest_label_stands_for_the_irrelevant(data):
    keep = data.qid < 10
    zero = IRPush(0.1).fit(data.X[keep], data.y[keep] > 0, qid=data.qid[keep])
    raised = IRPush(0.1).fit(data.X[keep], 1 + (data.y[keep] > 0), qid=data.qid[keep])
    assert_allclose(raised.coef_, zero.coef_, rtol=1e-12)


def test_lists_of_one_label_are_left_out(data):
    more = np.vstack([data.X, 5 * data.X])
    y = np.append(data.y, np.zeros(len(data)))
    one = IRPush(0.1).fit(data.X, data.y, qid=data.qid)
    other = IRPush(0.1).fit(more, y, qid=np.append(data.qid, data.qid + 1000))
    assert_allclose(other.coef_, one.coef_, rtol=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_loss_curve_falls_and_stops_near_the_minimum(data, loss):
    rough = IRPush(0.01, loss=loss, tol=0.1).fit(data.X, data.y, qid=data.qid)
    fine = IRPush(0.01, loss=loss, tol=1e-6).fit(data.X, data.y, qid=data.qid)
    for model in (rough, fine):
        assert len(model.loss_curve_) == model.n_iter_ + 1
        assert (np.diff(model.loss_curve_) <= 0).all()
    assert model.loss_curve_[0] == pytest.approx(risk(np.zeros(3), data, loss, 64.0))
    assert fine.n_iter_ > rough.n_iter_
    assert rough.loss_curve_[-1] - rough.gap_ <= fine.loss_curve_[-1]
    assert fine.loss_curve_[-1] <= rough.loss_curve_[-1]


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_stopping_early_warns(data, loss):
    with pytest.warns(ConvergenceWarning, match="max_iter=3 iterations with a gap of"):
        model = IRPush(1e-4, loss=loss, max_iter=3).fit(data.X, data.y, qid=data.qid)
    assert model.n_iter_ == 3


def test_progress_is_shown_only_on_request(data, capfd):
    IRPush().fit(data.X, data.y, qid=data.qid)
    assert capfd.readouterr() == ("", "")
    IRPush(verbose=True).fit(data.X, data.y, qid=data.qid)
    assert "IRPush" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a positive number; got 0.0"),
        ({"p": 0.5}, "p must be a number >= 1 or numpy.inf; got 0.5"),
        ({"p": np.nan}, "p must be"),
        ({"p": "inf"}, "p must be"),
        ({"loss": "exp"}, "loss must be one of"),
        ({"max_iter": 0}, "max_iter must be a positive integer"),
        ({"tol": 0.0}, "tol must be a positive number"),
    ],
)
def test_bad_parameters_are_named(data, params, message):
    with pytest.raises(ValueError, match=message):
        IRPush(**params).fit(data.X, data.y, qid=data.qid)
