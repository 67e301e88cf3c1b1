"""The regression of rows on features, against the normal equations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from robirank.data.feature_rows import FeatureRows
from robirank.latent.solvers.design import HostDesign
from robirank.latent.solvers.ridge import choose_penalty, folds, ridge


def problem(n=200, columns=30, d=5, seed=0):
    rng = np.random.default_rng(seed)
    F = sparse.random(n, columns, 0.2, "csr", np.float32, random_state=seed)
    weights = rng.random(n).astype(np.float32)
    return F, weights, rng.standard_normal((n, d)).astype(np.float32)


def by_normal_equations(F, weights, rows, penalty):
    F = F.toarray().astype(np.float64)
    added = penalty * weights[weights > 0].mean()
    left = F.T @ (weights[:, None] * F) + added * np.eye(F.shape[1])
    return np.linalg.solve(left, F.T @ (weights[:, None] * rows))


@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("columns", [30, 500])
def test_it_solves_the_normal_equations(columns, penalty):
    F, weights, rows = problem(columns=columns)
    weights[::3] = 0.0
    found = ridge(HostDesign(FeatureRows(None, F)), weights, rows, penalty, steps=100)
    assert_allclose(found, by_normal_equations(F, weights, rows, penalty), atol=2e-4)


def test_a_few_steps_come_near():
    F, weights, rows = problem(2000, 100)
    exact = by_normal_equations(F, weights, rows, 1.0)
    found = ridge(HostDesign(FeatureRows(None, F)), weights, rows, 1.0, steps=8)
    assert np.linalg.norm(F @ (found - exact)) < 0.02 * np.linalg.norm(F @ exact)


def test_rows_without_weight_do_not_count():
    F, weights, rows = problem()
    weights[50:] = 0.0
    rows[50:] = 1e6
    alone = ridge(HostDesign(FeatureRows(None, F[:50])), weights[:50], rows[:50], 1.0)
    found = ridge(HostDesign(FeatureRows(None, F)), weights, rows, 1.0)
    assert_allclose(found, alone, atol=1e-5)


def test_nothing_to_regress_on_gives_zeros():
    F, weights, rows = problem()
    design = HostDesign(FeatureRows(None, F))
    assert_array_equal(ridge(design, 0 * weights, rows, 1.0), 0.0)
    assert_array_equal(ridge(design, weights, 0 * rows, 1.0), 0.0)


def test_threads_change_no_bit():
    F, weights, rows = problem(3000, 400, 40)
    one, two = (
        ridge(HostDesign(FeatureRows(None, F), n), weights, rows, 1.0, steps=8) for n in (1, 2)
    )
    assert_array_equal(one, two)


def test_a_million_columns():
    n = 1000
    columns = np.arange(n) * 1000
    ones = np.ones(n, np.float32)
    F = sparse.csr_matrix((ones, (np.arange(n), columns)), shape=(n, 1_000_000))
    rows = np.arange(n, dtype=np.float32)[:, None]
    W = ridge(HostDesign(FeatureRows(None, F)), ones, rows, 1.0, steps=2)
    assert_allclose(W[columns], rows / 2, rtol=1e-5)


def test_the_penalty_is_chosen_by_held_out_rows():
    F, weights, noise = problem(400, 60, 8)
    truth = (F @ np.random.default_rng(1).standard_normal((60, 8))).astype(np.float32)
    design = HostDesign(FeatureRows(None, F))
    assert choose_penalty(design, weights, truth) == 0.1
    assert choose_penalty(design, weights, noise) == 10.0


def test_a_fifth_of_the_rows_is_held_out():
    fitted, held_out = folds(np.ones(10, np.float32))
    assert held_out.tolist() == [1, 0, 0, 0, 0] * 2
    assert_array_equal(fitted + held_out, 1)
