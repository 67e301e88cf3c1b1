"""InfNormPush: the loss by its definition, the optimum, and the push itself."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad, minimize
from sklearn.exceptions import ConvergenceWarning

from robirank import make_ranking
from robirank._queries import group_queries
from robirank.ltr._push import PushLists
from robirank.ltr._regularized import lists_that_differ
from robirank.ltr.infnormpush import InfNormPush
from robirank.objectives.linear import LinearObjective


@pytest.fixture(scope="module")
def data():
    """Lists that some weights can put almost right, so that p = ∞ has something to learn."""
    return make_ranking(n_queries=15, n_docs=8, n_features=3, noise=0.1, random_state=1)


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


def costs(w, up, down):
    """What each irrelevant document costs: the mean of exp(−(f_i − f_j))."""
    return np.array([np.mean([np.exp(-(a - b)) for a in up @ w]) for b in down @ w])


def risk(w, data, p):
    values = []
    for up, down in each_list(data):
        h = costs(w, up, down)
        values.append(np.log(h.max() if p == np.inf else np.mean(h**p) ** (1 / p)))
    return np.mean(values)


@pytest.mark.parametrize("p", [1.0, 3.5, 16.0, np.inf])
def test_loss_is_the_logarithm_of_a_p_norm(data, p):
    model = InfNormPush(p=p)
    for seed in range(5):
        w = np.random.default_rng(seed).standard_normal(3)
        assert_allclose(risk_of(model, parts(data))(w)[0], risk(w, data, p), rtol=1e-12)


@pytest.mark.parametrize("p", [1.0, 3.5, 16.0])
def test_gradient(data, p):
    model, lists = InfNormPush(p=p), parts(data)
    w = np.random.default_rng(0).standard_normal(3)
    loss = risk_of(model, lists)
    error = check_grad(lambda w: loss(w)[0], lambda w: loss(w)[1], w)
    assert error < 1e-6


def test_slope_of_the_limit_lies_below_the_risk(data):
    model, lists = InfNormPush(p=np.inf), parts(data)
    rng = np.random.default_rng(0)
    for w in [np.zeros(3), *rng.standard_normal((10, 3))]:
        value, slope = risk_of(model, lists)(w)
        for v in w + rng.standard_normal((10, 3)) * 10.0 ** rng.integers(-2, 3, (10, 1)):
            assert risk_of(model, lists)(v)[0] >= value + slope @ (v - w) - 1e-12


@pytest.mark.parametrize(("alpha", "weight"), [(0.5, 2.0), (2.0, 0.5)])
@pytest.mark.parametrize("p", [1.0, 64.0, np.inf])
def test_two_documents_by_hand(alpha, weight, p):
    # The loss is log exp(−w) = −w, so that −w + α/2 w² is least at 1/α.
    model = InfNormPush(alpha, p=p, tol=1e-8).fit([[1.0], [0.0]], [1, 0])
    assert_allclose(model.coef_, [weight], rtol=1e-4)


@pytest.mark.parametrize("p", [1.0, 4.0])
def test_optimum_of_a_generic_solver(data, p):
    model = InfNormPush(0.1, p=p, tol=1e-9).fit(data.X, data.y, qid=data.qid)
    generic = minimize(
        lambda w: risk(w, data, p) + 0.05 * w @ w, np.ones(3), tol=1e-10, method="BFGS"
    )
    assert_allclose(model.coef_, generic.x, atol=1e-4)
    assert_allclose(model.loss_curve_[-1], generic.fun, rtol=1e-8)


def test_optimum_of_the_limit_by_a_generic_solver(data):
    # With one more variable a list, m_x >= f_j, a generic solver meets no corner.
    alpha, lists = 0.1, list(each_list(data))
    n = len(lists)

    def value(v):
        w, m = v[:3], v[3:]
        bottom = [np.log(np.mean(np.exp(-(up @ w)))) for up, _ in lists]
        return np.mean(m + bottom) + alpha / 2 * w @ w

    def feasible(v):
        return np.concatenate([v[3 + q] - down @ v[:3] for q, (_, down) in enumerate(lists)])

    generic = minimize(
        value,
        np.zeros(3 + n),
        method="SLSQP",
        constraints={"type": "ineq", "fun": feasible},
        options={"ftol": 1e-12, "maxiter": 300},
    )
    model = InfNormPush(alpha, p=np.inf, tol=1e-7).fit(data.X, data.y, qid=data.qid)
    assert np.linalg.norm(generic.x[:3]) > 0.1
    assert_allclose(model.coef_, generic.x[:3], atol=2e-3)
    assert_allclose(model.loss_curve_[-1], generic.fun, atol=1e-6)
    assert model.loss_curve_[-1] - model.gap_ <= generic.fun + 1e-7


def test_a_larger_p_bears_down_on_the_best_irrelevant_document():
    data = make_ranking(n_queries=40, n_docs=30, n_features=5, noise=0.3, random_state=0)
    direction = {}
    for p in (1.0, 64.0):
        w = InfNormPush(1e-3, p=p).fit(data.X, data.y, qid=data.qid).coef_
        direction[p] = w / np.linalg.norm(w)
    # Lengths set aside, the mean over lists of the highest irrelevant score above the mean
    # relevant one is what p = ∞ looks at.
    lead = {
        p: np.mean([(down @ w).max() - (up @ w).mean() for up, down in each_list(data)])
        for p, w in direction.items()
    }
    assert lead[64.0] < lead[1.0]


def test_finite_p_tends_to_the_limit(data):
    limit = InfNormPush(0.1, p=np.inf, tol=1e-6).fit(data.X, data.y, qid=data.qid)
    ends = [InfNormPush(0.1, p=p, tol=1e-6) for p in (4.0, 64.0, 1024.0)]
    far = [np.linalg.norm(m.fit(data.X, data.y, qid=data.qid).coef_ - limit.coef_) for m in ends]
    assert far[0] > far[1] > far[2]
    assert far[2] < 0.01 * np.linalg.norm(limit.coef_)


def test_large_features_do_not_overflow(data):
    with np.errstate(over="raise", invalid="raise"):
        model = InfNormPush(1e5).fit(1e4 * data.X, data.y, qid=data.qid)
    assert np.isfinite(model.coef_).all()
    small = InfNormPush(1e-3).fit(data.X, data.y, qid=data.qid)
    assert_allclose(1e4 * model.coef_, small.coef_, rtol=0.05)


def test_separable_lists_have_every_relevant_document_on_top():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y, qid = (X @ [1.0, -1.0, 0.0] > 0.8).astype(float), np.repeat(np.arange(20), 20)
    scores = InfNormPush(1e-3).fit(X, y, qid=qid).predict(X)
    for q in np.unique(qid):
        assert scores[(qid == q) & (y > 0)].min() > scores[(qid == q) & (y == 0)].max()


def test_the_limit_can_leave_nothing_to_learn_and_a_finite_p_learns():
    rng = np.random.default_rng(1)
    y, qid = np.tile([1.0] * 5 + [0.0] * 20, 30), np.repeat(np.arange(30), 25)
    X = rng.standard_normal((750, 2))
    X[:, 0] += y
    with pytest.warns(UserWarning, match="minimum is at coef_ = 0"):
        InfNormPush(0.01, p=np.inf).fit(X, y, qid=qid)
    model = InfNormPush(0.01).fit(X, y, qid=qid)
    assert model.coef_[0] > 3 * abs(model.coef_[1])


def test_gap_bounds_what_is_left_to_win(data):
    rough = InfNormPush(0.01, tol=0.1).fit(data.X, data.y, qid=data.qid)
    fine = InfNormPush(0.01, tol=1e-8).fit(data.X, data.y, qid=data.qid)
    assert rough.n_iter_ < fine.n_iter_
    assert fine.loss_curve_[-1] < rough.loss_curve_[-1]
    assert rough.loss_curve_[-1] - rough.gap_ <= fine.loss_curve_[-1]
    assert len(fine.loss_curve_) == fine.n_iter_ + 1
    assert fine.loss_curve_[0] == pytest.approx(0.0)


def test_stopping_early_warns(data):
    with pytest.warns(ConvergenceWarning, match="max_iter=2 iterations with a gap of"):
        InfNormPush(1e-4, max_iter=2).fit(data.X, data.y, qid=data.qid)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": -1.0}, "alpha must be a positive number; got -1.0"),
        ({"p": 0.9}, "p must be a number >= 1 or numpy.inf; got 0.9"),
        ({"max_iter": 1.5}, "max_iter must be a positive integer"),
        ({"tol": "small"}, "tol must be a positive number"),
    ],
)
def test_bad_parameters_are_named(data, params, message):
    with pytest.raises(ValueError, match=message):
        InfNormPush(**params).fit(data.X, data.y, qid=data.qid)
