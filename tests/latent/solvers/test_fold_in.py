"""Factors for new users: each one's own problem, solved to where its slope vanishes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from latent.plain import random_problem, user_loss
from robirank import LatentRoBiRank, make_interactions
from robirank.latent.solvers import fold_in as module
from robirank.latent.solvers.fold_in import fold_in

RHOS = ("log", "identity", "type2")


def problem(u, V, weights, rho, decay):
    """f(u) and its gradient, in float64."""
    loss, gradient = user_loss(u, V, weights, rho)
    return loss + 0.5 * decay * u @ u, V.T @ gradient + decay * u


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    rho=st.sampled_from(RHOS),
    items=st.sampled_from([2, 20, 1500]),
    spread=st.sampled_from([0.3, 1.0, 3.0]),
    counts=st.booleans(),
)
def test_slope_vanishes_and_scipy_finds_no_lower_point(seed, rho, items, spread, counts):
    _, V, table, interactions = random_problem(seed, 4, items, d=5, share=5 / items, counts=counts)
    V *= np.float32(spread)
    decay = np.linspace(0.2, 3.0, 4) * (items if rho == "identity" else 1)
    U = fold_in(V, interactions, rho=rho, penalty=decay).astype(np.float64)
    V, table = V.astype(np.float64), table.astype(np.float64)
    for u, weights, a in zip(U, table, decay, strict=True):
        if not weights.any():
            assert_array_equal(u, 0)
            continue
        at_zero, slope_at_zero = problem(np.zeros(5), V, weights, rho, a)
        value, slope = problem(u, V, weights, rho, a)
        assert np.linalg.norm(slope) <= 5e-3 * np.linalg.norm(slope_at_zero) + 1e-9
        best = minimize(problem, u, (V, weights, rho, a), method="L-BFGS-B", jac=True)
        assert value - best.fun <= 1e-5 * (at_zero - best.fun) + 1e-9


def test_scipy_from_zero_ends_at_the_same_point():
    # Strong regularisation makes the problem convex, so there is one answer.
    _, V, table, interactions = random_problem(1, users=6, items=40, d=4)
    decay = np.full(6, 20.0)
    U = fold_in(V, interactions, rho="log", penalty=decay)
    for u, weights in zip(U, table.astype(np.float64), strict=True):
        arguments = (V.astype(np.float64), weights, "log", 20.0)
        best = minimize(problem, np.zeros(4), arguments, method="L-BFGS-B", jac=True, tol=1e-14)
        assert_allclose(u, best.x, atol=1e-3 * np.abs(best.x).max())


def test_answer_worked_by_hand():
    # One factor, items at 1 and 0, the first is liked, identity loss: f(u) = log2(1 + 2^−u) + u²/4.
    # f' = −1/(1 + 2^u) + u/2 = 0.
    _, _, _, interactions = random_problem(0, users=1, items=2, share=0.0)  # user 0 has item 0
    V = np.array([[1.0], [0.0]], np.float32)
    u = fold_in(V, interactions, rho="identity", penalty=np.array([0.5]))[0, 0]
    assert u / 2 == pytest.approx(1 / (1 + 2.0**u), rel=1e-3)


def test_blocks_of_users_change_nothing_but_rounding(monkeypatch):
    _, V, _, interactions = random_problem(2, users=50, items=300, d=6, share=0.03)
    decay = np.full(50, 2.0)
    whole = fold_in(V, interactions, rho="log", penalty=decay)
    monkeypatch.setattr(module, "_MOST_USERS", 7)
    assert_allclose(fold_in(V, interactions, rho="log", penalty=decay), whole, atol=1e-3)


def test_same_bits_for_any_number_of_threads():
    _, V, _, interactions = random_problem(3, users=40, items=7000, d=6, share=0.001)
    decay = np.full(40, 1.0)
    one = fold_in(V, interactions, rho="log", penalty=decay, num_threads=1)
    for n_threads in (2, 3):
        again = fold_in(V, interactions, rho="log", penalty=decay, num_threads=n_threads)
        assert_array_equal(again, one)


@pytest.fixture(scope="module")
def fitted():
    data = make_interactions(300, 150, 5000, random_state=0)
    model = LatentRoBiRank(8, iterations=10, random_state=0)
    return model.fit(data, show_progress=False), data


def test_folding_in_the_training_users_lowers_their_loss(fitted):
    model, data = fitted
    folded = LatentRoBiRank(8, random_state=0)
    vars(folded).update(vars(model) | {"user_factors": model.fold_in(data)})
    assert folded.objective(data) <= model.objective(data)


def test_recommend_for_recalculated_users(fitted):
    model, data = fitted
    some = np.array([7, 8, 200])
    rows = data.matrix[some]
    ids, scores = model.recommend(some, rows, N=4, recalculate_user=True)
    wanted = model.fold_in(rows) @ model.item_factors.T
    wanted[rows.toarray() > 0] = -np.inf
    assert_array_equal(ids, np.argsort(-wanted, axis=1, kind="stable")[:, :4])
    assert_allclose(scores, np.take_along_axis(wanted, ids, axis=1), rtol=1e-5)
    one, _ = model.recommend(10**6, rows[1], N=4, recalculate_user=True)  # not a known user
    assert_array_equal(one, ids[1])


def test_user_without_items(fitted):
    model, data = fitted
    rows = data.matrix[:3].tolil()
    rows[1] = 0
    U = model.fold_in(rows.tocsr())
    assert_array_equal(U[1], 0)
    assert_allclose(U[[0, 2]], model.fold_in(data.matrix[[0, 2]]), atol=1e-3)


def test_wrong_number_of_items(fitted):
    model, data = fitted
    with pytest.raises(ValueError, match="each of the 150 items; it has 149"):
        model.fold_in(data.matrix[:, :149])
