"""The bundle method: exact minima known by hand, honest gaps, and the program on the simplex."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from robirank.ltr._bundle import Bundle, minimize_on_simplex, stopping_rule

TARGET = np.array([0.3, -2.0, 1.5, 0.0])


def distance(w):
    """Σ |w − target|: with α/2 w² the minimum is the target, cut off at ±1/α."""
    return float(np.abs(w - TARGET).sum()), np.sign(w - TARGET)


def objective(w, alpha):
    return distance(w)[0] + alpha / 2 * w @ w


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 0.5, 0.8, 10.0])
def test_minimum_known_by_hand(alpha):
    result = Bundle(distance, 4, alpha).minimize(max_iter=500, tol=1e-10)
    expected = np.clip(TARGET, -1 / alpha, 1 / alpha)
    assert result.converged
    assert_allclose(result.w, expected, atol=1e-6)
    assert_allclose(result.objective, objective(expected, alpha), atol=1e-9)


def test_curved_risk():
    # ½ (w − 3)² + w² / 2 is least at 1.5.
    result = Bundle(lambda w: (0.5 * float((w - 3) @ (w - 3)), w - 3), 2, 1.0).minimize(
        max_iter=500, tol=1e-9
    )
    assert_allclose(result.w, 1.5, atol=1e-3)


def test_looking_near_the_best_point_saves_evaluations():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 10)) + 0.5

    def logistic(w):
        t = X @ w
        return float(np.logaddexp(0, -t).mean()), -X.T @ expit(-t) / 200

    result = Bundle(logistic, 10, 1e-3).minimize(max_iter=500, tol=1e-3)
    assert result.n_iter < 55  # measured: 40, and 71 with the minimum of the model alone


def test_gap_never_claims_too_much():
    alpha = 0.05
    least = objective(np.clip(TARGET, -1 / alpha, 1 / alpha), alpha)
    gaps = []
    for max_iter in range(1, 25):
        result = Bundle(distance, 4, alpha).minimize(max_iter=max_iter, tol=1e-12)
        assert result.n_iter <= max_iter
        assert least <= result.objective + 1e-12
        assert result.objective - result.gap <= least + 1e-9
        assert_allclose(result.objective, objective(result.w, alpha), rtol=1e-12)
        gaps.append(result.gap)
    assert gaps[0] > 1.0
    assert gaps[-1] < 1e-9


def test_reward_is_a_linear_term():
    reward = np.array([0.5, -0.2, 2.0, 0.1])
    tilted = Bundle(lambda w: (distance(w)[0] - reward @ w, distance(w)[1] - reward), 4, 0.3)
    expected = tilted.minimize(max_iter=500, tol=1e-10)
    result = Bundle(distance, 4, 0.3).minimize(max_iter=500, tol=1e-10, reward=reward)
    assert_allclose(result.w, expected.w, atol=1e-6)
    assert_allclose(result.objective, expected.objective, rtol=1e-9)


def test_planes_serve_the_next_problem():
    bundle = Bundle(distance, 4, 0.3)
    first = bundle.minimize(max_iter=500, tol=1e-8)
    again = bundle.minimize(max_iter=500, tol=1e-8, start=first.w)
    assert again.n_iter == 1  # the start itself
    assert again.objective == pytest.approx(first.objective)
    assert first.n_iter > 5


def test_report_sees_every_evaluation_and_the_objective_falls():
    seen = []
    result = Bundle(distance, 4, 0.1).minimize(
        max_iter=500, tol=1e-8, report=lambda w, value: seen.append((w, value))
    )
    assert len(seen) == result.n_iter
    values = [value for _, value in seen]
    assert values == sorted(values, reverse=True)
    assert_array_equal(seen[-1][0], result.w)


def test_zero_as_minimum_is_found_at_once():
    # No w is better than 0, and every subgradient but one says otherwise.
    result = Bundle(lambda w: (abs(float(w[0])), np.where(w >= 0, 1.0, -1.0)), 1, 0.01).minimize(
        max_iter=50, tol=1e-3
    )
    assert result.converged
    assert_array_equal(result.w, [0.0])


def test_stopping_is_relative_to_what_was_won():
    reached = stopping_rule(at_zero=1.0, gradient=np.ones(2), alpha=1.0, tol=0.1)
    assert reached(0.05, 0.5)
    assert not reached(0.06, 0.5)
    assert not reached(0.01, 1.0)
    assert reached(1e-4, 1.0)
    # A strong penalty leaves little to win, and little counts as nothing.
    assert not stopping_rule(1.0, np.ones(2), 1e6, 0.1)(1e-8, 1.0)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("rank", [2, 6, 40])
def test_simplex_program_meets_its_optimality_conditions(seed, rank):
    rng = np.random.default_rng(seed)
    planes = rng.standard_normal((25, rank))
    planes[5:8] = planes[4]  # depend on each other
    gram, reward = planes @ planes.T, rng.standard_normal(25)
    start = np.zeros(25)
    start[seed % 25] = 1.0
    x = minimize_on_simplex(gram, reward, start)
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1.0)
    slope = gram @ x - reward
    # Where x is positive the slope is the same, and nowhere is it less: x is a minimum.
    assert_allclose(slope[x > 0], slope.min(), atol=1e-7)
