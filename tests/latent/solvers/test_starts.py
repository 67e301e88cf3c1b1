"""Where factors begin: the leading singular vectors of the table."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix

import robirank as rr
from robirank.data.user_items import as_user_items
from robirank.latent.solvers import SOLVERS, start_of
from robirank.latent.solvers.starts import random_start, singular_start
from robirank.latent.tune.settle import settle_by_table


def dense(n_users, n_items, share=0.3, seed=0):
    rng = np.random.default_rng(seed)
    table = (rng.random((n_users, n_items)) < share).astype(np.float32)
    table[0, 0] = 1.0
    return table


def started(table, factors=4, start=singular_start, **settings):
    interactions = as_user_items(csr_matrix(table), "count")
    model = rr.LatentRoBiRank(factors, solver="exact", random_state=0, regularization=0.1)
    problem = replace(settle_by_table(model.request(), interactions), **settings)
    factors = start(problem, interactions)
    return problem, factors.users.rows, factors.items.rows


def size_of_scores(table, U, V):
    """The root of their mean square over interactions."""
    return np.sqrt(np.mean((U @ V.T)[table > 0] ** 2))


def formula(problem, table):
    """M, without its constant factor, and the inverse roots of the weights of rows and columns."""
    roots = []
    for weights, counts in (
        (problem.penalty.users, (table > 0).sum(axis=1)),
        (problem.penalty.items, (table > 0).sum(axis=0)),
    ):
        w = weights.of(counts)
        roots.append(np.where(w > 0, 1 / np.sqrt(np.where(w > 0, w, 1)), 0.0))
    a, b = roots
    return a[:, None] * (table - table.mean(axis=1, keepdims=True)) * b, a, b


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
def test_scores_are_those_of_the_leading_singular_vectors(shape):
    table = dense(*shape)
    problem, U, V = started(table)
    M, a, b = formula(problem, table)
    left, strengths, right = np.linalg.svd(M)
    wanted = a[:, None] * (left[:, :4] * strengths[:4]) @ right[:4] * b
    scores = U @ V.T
    assert_allclose(scores / np.linalg.norm(scores), wanted / np.linalg.norm(wanted), atol=1e-4)


def test_both_sides_have_the_same_share_of_each_strength():
    table = dense(40, 12)
    problem, U, V = started(table)
    _, a, b = formula(problem, table)
    of_users, of_items = (
        np.linalg.norm(rows[root > 0] / root[root > 0, None], axis=0)
        for rows, root in ((U, a), (V, b))
    )
    assert_allclose(of_users / of_users[0], of_items / of_items[0], rtol=1e-4)
    assert (np.diff(of_users) <= 0).all()


def test_of_a_larger_table_nearly_all_of_the_leading_strength_is_found():
    table = dense(300, 120, share=0.1)
    problem, U, V = started(table, factors=6)
    M, a, b = formula(problem, table)
    left, right = (np.linalg.qr(rows / root[:, None])[0] for rows, root in ((U, a), (V, b)))
    found = np.linalg.norm(left.T @ M @ right)
    best = np.linalg.norm(np.linalg.svd(M, compute_uv=False)[:6])
    assert 0.97 * best < found < best * (1 + 1e-5)


@pytest.mark.parametrize("shape", [(40, 12), (150, 60), (3, 500)])
def test_scores_of_interactions_have_the_size_eight(shape):
    table = dense(*shape)
    _, U, V = started(table)
    assert size_of_scores(table, U, V) == pytest.approx(8.0, rel=1e-3)


def test_of_many_interactions_a_sample_tells_the_size_of_scores(monkeypatch):
    monkeypatch.setattr("robirank.latent.solvers.starts._SAMPLE", 2000)
    table = dense(300, 120)
    _, U, V = started(table)
    assert size_of_scores(table, U, V) == pytest.approx(8.0, rel=0.05)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_weights_change_no_bit(unit):
    """A few that weigh a thousand times as much would fill the leading vectors."""
    table = dense(30, 35, share=0.5)
    weights = unit * (1 + np.random.default_rng(0).pareto(0.7, table.shape)).astype(np.float32)
    for rows, others in zip(started(table)[1:], started(table * weights)[1:], strict=True):
        assert_array_equal(rows, others)


def test_counts_begin_no_worse_than_factors_that_know_nothing():
    data = rr.make_interactions(40, 120, 600, factors=4, noise=0.1, random_state=0)
    table = data.matrix.toarray() * np.random.default_rng(0).geometric(0.5, data.shape)
    interactions = as_user_items(csr_matrix(table.astype(np.float32)), "count")
    model = rr.LatentRoBiRank(8, solver="exact", rho="identity", weighting="count", random_state=0)
    problem = settle_by_table(model.request(), interactions)
    model.set_params(iterations=1, learning_rate=1e-9).fit(csr_matrix(table), False)
    assert model.history_[0]["loss"] < problem.idle_loss


def test_rows_without_interactions_are_zero():
    table = dense(40, 30)
    table[[3, 7]], table[:, [5, 29]] = 0.0, 0.0
    _, U, V = started(table)
    for rows, empty in ((U, [3, 7]), (V, [5, 29])):
        assert not rows[empty].any()
        assert np.delete(rows, empty, axis=0).any(axis=1).all()


def test_columns_beyond_the_rank_are_random_and_short():
    table = np.maximum(dense(5, 6), np.eye(5, 6, 1, np.float32))
    table[0, 0] = 1.0
    _, U, V = started(table, factors=16)
    _, random_u, random_v = started(table, factors=16, start=random_start)
    for rows, random_rows in ((U, random_u), (V, random_v)):
        assert_allclose(rows[:, 5:], 0.1 * random_rows[:, 5:], rtol=1e-6)
    assert size_of_scores(table, U, V) == pytest.approx(8.0, abs=0.1)


@pytest.mark.parametrize("weight_of_users", [1.0, np.arange(1.0, 7.0)[:, None]])
def test_a_table_that_says_nothing_begins_at_random(weight_of_users):
    table = (np.ones((6, 9)) * weight_of_users).astype(np.float32)
    _, U, V = started(table)
    _, random_u, random_v = started(table, start=random_start)
    assert_array_equal(U, random_u)
    assert_array_equal(V, random_v)


def test_threads_change_no_bit():
    table = dense(900, 400, share=0.05)
    one, two = (started(table, factors=8, num_threads=n)[1:] for n in (1, 2))
    for rows, others in zip(one, two, strict=True):
        assert_array_equal(rows, others)


def test_a_seed_decides():
    table = dense(60, 50)
    for start in (random_start, singular_start):
        first, again = (started(table, start=start)[1:] for _ in range(2))
        assert_array_equal(first[0], again[0])
        assert_array_equal(first[1], again[1])
    assert (
        started(table, start=random_start, seed=1)[1] != started(table, start=random_start)[1]
    ).any()


@settings(max_examples=150)
@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    factors=st.integers(1, 6),
    share=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_tiny_tables_have_finite_rows(shape, factors, share, seed):
    table = dense(*shape, share=share, seed=seed)
    _, U, V = started(table, factors=factors)
    assert U.shape == (shape[0], factors)
    assert V.shape == (shape[1], factors)
    assert np.isfinite(U).all()
    assert np.isfinite(V).all()
    assert not U[table.sum(axis=1) == 0].any()


def test_each_solver_has_its_start():
    interactions = as_user_items(csr_matrix(dense(20, 10)))
    for name, start in (("exact", singular_start), ("sgd", random_start)):
        assert SOLVERS[name].start is start
        problem = settle_by_table(rr.LatentRoBiRank(4, solver=name).request(), interactions)
        wanted = start(problem, interactions)
        assert_array_equal(start_of(problem, interactions).items.rows, wanted.items.rows)


def test_random_rows_are_about_one_long():
    table = dense(50, 40)
    table[4] = 0.0
    _, U, V = started(table, factors=64, start=random_start)
    assert not U[4].any()
    assert_allclose(np.linalg.norm(np.delete(U, 4, axis=0), axis=1), 1.0, atol=0.4)
    assert_allclose(np.linalg.norm(V, axis=1), 1.0, atol=0.4)
