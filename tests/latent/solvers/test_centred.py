"""Rows that are pulled to what their features say."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix

import robirank as rr
from robirank import _core
from robirank._workers import Workers
from robirank.data.user_items import as_user_items
from robirank.engine.interface import never
from robirank.latent.solvers import make_solver
from robirank.latent.solvers.starts import random_start
from robirank.latent.train.local import with_features
from robirank.latent.tune.settle import settle_by_table


def table(n_users=120, n_items=60, n_new=10, seed=0):
    """Items of four groups; a user takes those of one, and nobody has the last ones yet."""
    rng = np.random.default_rng(seed)
    groups = np.arange(n_items) % 4
    mask = (groups[None] == np.arange(n_users)[:, None] % 4) & (
        rng.random((n_users, n_items)) < 0.5
    )
    mask[:, n_items - n_new :] = False
    return csr_matrix(mask.astype(np.float32)), groups


def solved(data, features, solver="exact", epochs=12, regularization=0.2, **settings):
    model = rr.LatentRoBiRank(8, solver=solver, random_state=0, regularization=regularization)
    interactions = with_features(as_user_items(data), None, features)
    problem = replace(settle_by_table(model.request(), interactions), **settings)
    with Workers(1) as workers:
        made = make_solver(problem, interactions, random_start(problem, interactions), workers)
        for epoch in range(epochs):
            made.epoch(epoch, epochs, never)
        return made.factors()


def features_of(groups):
    return rr.Features.from_frame(
        {"id": np.arange(len(groups)), "group": [f"g{group}" for group in groups]}
    )


@pytest.mark.parametrize("solver", ["exact", "sgd"])
def test_new_items_are_where_their_features_say(solver):
    data, groups = table()
    factors = solved(data, features_of(groups), solver)
    scores = factors.users.rows @ factors.items.rows.T
    for user in range(4):
        best = np.argsort(-scores[user, 50:])[:2]
        assert (groups[50:][best] == user).all()


def test_new_items_are_nobodys_losers():
    """The trained rows do not depend on how many items nobody has yet."""
    data, groups = table()
    few = solved(data[:, :51], features_of(groups[:51]))
    many = solved(data, features_of(groups))
    assert_array_equal(few.users.rows, many.users.rows)
    assert_array_equal(few.items.rows[:50], many.items.rows[:50])


@pytest.mark.parametrize("solver", ["exact", "sgd"])
def test_a_strong_penalty_leaves_rows_at_their_centres(solver):
    """Under a strong pull rows with the same features end at the same place."""
    data, groups = table()
    pulled = solved(data, features_of(groups), solver, epochs=30, regularization=0.5)
    free = solved(
        data, rr.Features.from_array(np.random.default_rng(0).random((60, 2))), solver, 30
    )

    def spread_within(factors):
        rows = factors.items.rows[:50]
        means = np.array([rows[groups[:50] == g].mean(axis=0) for g in range(4)])
        return np.square(rows - means[groups[:50]]).sum() / np.square(rows).sum()

    assert spread_within(pulled) < 0.5 * spread_within(free)


def test_adam_pulls_rows_to_their_centres():
    rng = np.random.default_rng(0)
    rows, centre = (rng.standard_normal((5, 16)).astype(np.float32) for _ in range(2))
    gradient, penalty = np.zeros_like(rows), np.full(5, 0.3, np.float32)
    step = {"rate": 0.1, "b1": 0.9, "b2": 0.99, "correction": 1.0}

    def stepped(rows, gradient, **more):
        moments = {"first": np.zeros_like(rows), "second": np.zeros_like(rows)}
        rows = rows.copy()
        _core.adam(rows, **moments, gradient=gradient, penalty=penalty, **step, **more)
        return rows

    by_hand = stepped(rows, gradient - penalty[:, None] * centre)
    assert_allclose(stepped(rows, gradient, centre=centre), by_hand, rtol=1e-5, atol=1e-6)
    assert_array_equal(stepped(centre, gradient, centre=centre), centre)
    with pytest.raises(ValueError, match="centre"):
        stepped(rows, gradient, centre=centre[:3])


@pytest.mark.parametrize("solver", ["exact", "sgd"])
def test_features_that_say_nothing_change_little(solver):
    data, _ = table(300, 80, 0)
    noise = rr.Features.from_array(np.random.default_rng(1).standard_normal((80, 5)))
    plain = rr.LatentRoBiRank(8, solver=solver, random_state=0, regularization=0.2, iterations=20)
    plain.fit(data, show_progress=False)
    factors = solved(data, noise, solver, epochs=20)
    scores = [u @ v.T for u, v in ((plain.user_factors, plain.item_factors),)]
    with_noise = factors.users.rows @ factors.items.rows.T
    assert np.corrcoef(scores[0].ravel(), with_noise.ravel())[0, 1] > 0.98


@pytest.mark.parametrize("solver", ["exact", "sgd"])
def test_a_state_goes_on_with_the_same_bits(solver):
    data, groups = table()
    model = rr.LatentRoBiRank(8, solver=solver, random_state=0, regularization=0.2)
    interactions = with_features(as_user_items(data), None, features_of(groups))
    problem = settle_by_table(model.request(), interactions)
    with Workers(1) as workers:
        first, second = (
            make_solver(problem, interactions, random_start(problem, interactions), workers)
            for _ in range(2)
        )
        for epoch in range(3):
            first.epoch(epoch, 6, never)
        second.restore({name: array.copy() for name, array in first.state().items()})
        for epoch in range(3, 6):
            first.epoch(epoch, 6, never)
            second.epoch(epoch, 6, never)
        assert_array_equal(first.factors().items.rows, second.factors().items.rows)
        assert_array_equal(first.factors().users.rows, second.factors().users.rows)
