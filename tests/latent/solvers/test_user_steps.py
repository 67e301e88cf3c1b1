"""Newton's steps of users: the formula, its curvature, and that they lower the loss."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix

from latent.plain import random_problem, user_loss
from latent.tiny import as_factors
from robirank._workers import Workers
from robirank.data.user_items import as_user_items
from robirank.latent.solvers import user_steps
from robirank.latent.solvers.exact import ExactSolver
from robirank.latent.solvers.problem import Penalty
from robirank.latent.solvers.user_steps import (
    newton_steps,
    pair_weights,
    sampled_items,
    spectrum,
    weight_sums,
)
from robirank.latent.train.request import Request
from robirank.latent.tune.settle import settle_by_table
from robirank.losses import LN2, RHOS


@pytest.mark.parametrize("shape", [(5,), (3, 5)])
def test_a_step_solves_the_system_of_its_user(shape):
    """(θ 2 ln 2 κ C + λ a) step = gradient with θ = 2, for each user, and each fit side by side."""
    rng, d = np.random.default_rng(0), 4
    rows = rng.standard_normal((20, d))
    C = rows.T @ rows / 20
    gradient = rng.standard_normal((*shape, d)).astype(np.float32)
    kappa, penalty = (rng.uniform(0.1, 9, shape).astype(np.float32) for _ in range(2))
    steps = newton_steps(gradient, kappa, penalty, spectrum(C))
    for place in np.ndindex(*shape):
        system = 2.0 * 2 * LN2 * kappa[place] * C + penalty[place] * np.eye(d)
        assert_allclose(
            steps[place], np.linalg.solve(system, gradient[place]), rtol=1e-4, atol=1e-6
        )


def test_fits_side_by_side_have_a_curvature_each():
    rng, d = np.random.default_rng(0), 3
    gradient = rng.standard_normal((2, 5, d)).astype(np.float32)
    kappa, penalty = (rng.uniform(0.1, 9, (2, 5)).astype(np.float32) for _ in range(2))
    rows = rng.standard_normal((2, 9, d))
    both = spectrum(np.swapaxes(rows, 1, 2) @ rows / 9)
    steps = newton_steps(gradient, kappa, penalty, both)
    for fit in range(2):
        own = both[0][fit], both[1][fit]
        alone = newton_steps(gradient[fit], kappa[fit], penalty[fit], own)
        assert_allclose(steps[fit], alone, rtol=1e-5, atol=1e-7)


def test_steps_leave_the_gradient_as_it_was():
    gradient, one = np.ones((1, 2), np.float32), np.ones(1, np.float32)
    newton_steps(gradient, one, one, spectrum(np.diag([1.0, 2.0])))
    assert_array_equal(gradient, 1.0)


# κ


@pytest.mark.parametrize("rho", RHOS)
@given(t=st.floats(1e-3, 1e9), weight=st.floats(0.01, 100))
def test_kappa_is_that_of_the_inner_sum(rho, t, weight):
    """Of interactions with one inner sum t: their weights times ln 2 · t ρ'(t)."""
    found = pair_weights(np.array([weight * RHOS[rho].value(t)]), np.array([weight]), rho)
    wanted = weight * LN2 * t * RHOS[rho].prime(t)
    assert_allclose(found, wanted, rtol=1e-6, atol=1e-9 * weight)


@pytest.mark.parametrize("rho", RHOS)
def test_kappa_bounds_the_weights_of_pairs_of_equal_scores(rho):
    """Where h is 1/2 and σ0 is 1, it is 2 ln 2 times as large."""
    n = 50
    t = n - 1.0
    of_pairs = RHOS[rho].prime(t) * (n - 1) * 0.5
    kappa = pair_weights(np.array([RHOS[rho].value(t)]), np.ones(1), rho)[0]
    assert_allclose(kappa, 2 * LN2 * of_pairs, rtol=1e-6)


def test_no_loss_has_no_curvature():
    for rho in RHOS:
        assert pair_weights(np.zeros(1), np.ones(1), rho).tolist() == [0.0]


def test_the_largest_loss_of_type2_is_finite():
    assert np.isfinite(pair_weights(np.array([1.0]), np.ones(1), "type2")).all()


def test_weights_add_up_by_user():
    table = csr_matrix(np.array([[2.0, 0, 3], [0, 0, 0], [0, 1.5, 0]], np.float32))
    assert weight_sums(as_user_items(table, "count")).tolist() == [5.0, 1.0, 1.5]
    assert weight_sums(as_user_items(table)).tolist() == [2.0, 1.0, 1.0]


# C


def test_three_quarters_of_the_items_are_sampled_by_their_numbers_of_interactions():
    _, _, table, interactions = random_problem(0, users=500, items=60, share=0.5)
    assert interactions.n_interactions > 3 * 4096
    counts = table.sum(axis=0)
    samples = [sampled_items(interactions, step) for step in range(3)]
    assert all(4096 <= 0.75 * len(sample) < 2 * 4096 for sample in samples)
    assert not np.array_equal(samples[0][:100], samples[1][:100])
    for sample in samples:
        shares = np.bincount(sample, minlength=60) / len(sample)
        assert_allclose(shares, 0.75 * counts / counts.sum() + 0.25 / 60, atol=0.006)


def test_of_few_interactions_all_are_taken_and_some_items_evenly():
    *_, interactions = random_problem(0)
    n = interactions.n_interactions
    for step in (0, 7):
        sample = sampled_items(interactions, step)
        assert_array_equal(sample[:n], interactions.items)
        times = np.bincount(sample[n:], minlength=interactions.n_items)
        assert times.sum() == -(-n // 3)
        assert times.max() - times.min() <= 1


def test_spectrum_is_that_of_the_covariance():
    rows = np.random.default_rng(0).standard_normal((30, 6))
    C = rows.T @ rows / 30
    values, vectors = spectrum(C)
    assert_allclose((vectors * values) @ vectors.T, C, atol=1e-5)
    rank_one = spectrum(np.outer(rows[0], rows[0]))[0]
    assert (rank_one >= 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_under_a_covariance_that_is_not_finite_users_stay(bad):
    """Those of other fits do not."""
    covariances = np.array([np.diag([1.0, bad, 2.0]), np.eye(3)])
    one = np.ones((2, 1), np.float32)
    steps = newton_steps(np.ones((2, 1, 3), np.float32), one, one, spectrum(covariances))
    assert not steps[0].any()
    assert (steps[1] > 0).all()


def test_directions_that_are_kept_have_the_variances_of_now(monkeypatch):
    """C is then diagonal along the directions of before."""
    monkeypatch.setattr(user_steps, "_FIRST_STEPS", 0)
    _, V, _, interactions = random_problem(1, items=40, d=5)
    steps = user_steps.UserSteps(interactions, "log", factors=5)
    steps.renew(V, 0, 0)
    directions = steps._curvature[1]
    V = 2 * V
    steps.renew(V, 1, 1)
    assert_allclose(_covariance(steps), _covariance_of(V / 2, interactions), atol=1e-4)
    steps.renew(V, 4, interactions.n_items)  # the same sample again
    assert_array_equal(steps._curvature[1], directions)
    assert_allclose(_covariance(steps), _covariance_of(V, interactions), atol=1e-4)


def _covariance(steps):
    values, vectors = steps._curvature
    return (vectors * values) @ vectors.T


def _covariance_of(V, interactions):
    return np.cov(V[sampled_items(interactions, 0)], rowvar=False, bias=True)


# The loss


def losses_of_users(U, V, table, rho, penalty):
    """The objective of each user, items held still."""
    own = [user_loss(u, V, weights, rho)[0] for u, weights in zip(U, table, strict=True)]
    return np.array(own) + 0.5 * penalty * (U.astype(np.float64) ** 2).sum(axis=1)


def after_steps(U, V, interactions, rho, reg, epochs=1):
    """U after steps of all users, with V held still."""
    size = {"factors": U.shape[1], "epochs": epochs, "params": {}}
    request = Request(
        "LatentRoBiRank", "exact", **size, rho=rho, regularization=reg, learning_rate=1e-12, seed=0
    )
    problem = settle_by_table(request, interactions)
    with Workers(1) as workers:
        solver = ExactSolver(problem, interactions, as_factors(U.copy(), V.copy()), workers)
        for epoch in range(epochs):
            solver.epoch(epoch, epochs)
        return solver.U.copy()


def user_penalty(interactions, reg):
    counts = interactions.user_counts(), interactions.item_counts()
    return Penalty.of_counts(reg, *counts, interactions.mean_weight()).user_weights(counts[0])


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    rho=st.sampled_from(sorted(RHOS)),
    items=st.sampled_from([20, 60, 200]),
    share=st.sampled_from([0.1, 0.4]),
    counts=st.booleans(),
    reg=st.sampled_from([0.03, 0.3, 3.0]),
)
def test_a_step_lowers_the_objective_of_every_user(seed, rho, items, share, counts, reg):
    U, V, table, interactions = random_problem(seed, items=items, share=share, counts=counts)
    reg = reg * {"log": 1.0, "identity": 30.0, "type2": 0.1}[rho]
    penalty = user_penalty(interactions, reg)
    before = losses_of_users(U, V, table, rho, penalty)
    moved = after_steps(U, V, interactions, rho, reg)
    after = losses_of_users(moved, V, table, rho, penalty)
    assert (after <= before * (1 + 1e-4) + 1e-6).all()


def test_steps_lead_to_where_the_gradient_vanishes():
    U, V, table, interactions = random_problem(3, users=8, items=50, d=4, counts=True)
    penalty = user_penalty(interactions, 0.3)
    moved = after_steps(U, V, interactions, "log", 0.3, epochs=60)
    gradients = [
        user_loss(u, V, weights, "log")[1] @ V + a * u
        for u, weights, a in zip(moved, table, penalty, strict=True)
    ]
    first = [user_loss(u, V, weights, "log")[1] @ V for u, weights in zip(U, table, strict=True)]
    assert np.linalg.norm(gradients) < 1e-3 * np.linalg.norm(first)


def test_a_step_lowers_the_objective_of_a_user_of_an_item_that_nobody_else_takes():
    """Along the row of that item, items by their numbers of interactions hardly differ."""
    rng = np.random.default_rng(0)
    table = np.zeros((1001, 30), np.float32)
    table[np.arange(1000), rng.integers(0, 5, 1000)] = 1.0
    table[1000, 29] = 1.0
    V = (0.1 * rng.standard_normal((30, 6))).astype(np.float32)
    V[29, 5] = 4.0
    U = np.zeros((1001, 6), np.float32)
    interactions = as_user_items(csr_matrix(table))
    penalty = user_penalty(interactions, 0.05)
    before = losses_of_users(U, V, table, "log", penalty)
    after = losses_of_users(after_steps(U, V, interactions, "log", 0.05), V, table, "log", penalty)
    assert after[1000] < before[1000]


def test_items_that_nobody_takes_do_not_lead_users_astray():
    """They are everybody's losers, and no sample of interactions knows them."""
    rng = np.random.default_rng(0)
    table = np.zeros((300, 30), np.float32)
    table[np.arange(300), rng.integers(0, 10, 300)] = 1.0
    V = (0.3 * rng.standard_normal((30, 6))).astype(np.float32)
    V[10:, 5] -= 6.0
    U = (0.3 * rng.standard_normal((300, 6))).astype(np.float32)
    interactions = as_user_items(csr_matrix(table))
    penalty = user_penalty(interactions, 0.05)
    before = losses_of_users(U, V, table, "log", penalty)
    after = losses_of_users(after_steps(U, V, interactions, "log", 0.05), V, table, "log", penalty)
    assert after.sum() < before.sum()
    assert (after < before * 1.1).all()
