"""The exact solver: its gradient, its steps, its memory, its bits."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from latent.plain import objective as plain_objective
from latent.plain import random_problem, user_loss
from latent.tiny import as_factors, rows_of
from robirank import _core, listwise_loss
from robirank._workers import Workers
from robirank.data.user_items import UserItems
from robirank.latent.solvers.exact import BATCH_BYTES, ExactSolver, batch_users, users_that_fit
from robirank.latent.solvers.objective import objective
from robirank.latent.solvers.problem import Penalty
from robirank.latent.train.request import Request
from robirank.latent.tune.settle import settle_by_table

RHOS = ("log", "identity", "type2")


class Steps:
    """The exact solver, and how far it is."""

    def __init__(self, U, V, interactions, *, epochs=4, workers=None, **changes):
        settings = {"rho": "log", "regularization": 0.1, "learning_rate": 0.02, "seed": 0}
        size = {"factors": U.shape[1], "epochs": epochs, "params": {}}
        request = Request("LatentRoBiRank", "exact", **size, **settings | changes)
        problem = settle_by_table(request, interactions)
        start = as_factors(U.copy(), V.copy())
        self.solver = ExactSolver(problem, interactions, start, workers or Workers(1))
        self.epochs, self.done = epochs, 0

    def epoch(self, *arguments):
        self.done += 1
        return self.solver.epoch(self.done - 1, self.epochs, *arguments)

    def hold_users(self):
        """Leave U as it is; returns a list of users and gradients that grows with each step."""
        seen = []

        def of(users, gradient, *_):
            seen.append((users, gradient.copy()))
            return np.zeros_like(gradient)

        self.solver._user_steps.of = of
        return seen

    def __getattr__(self, name):
        return getattr(self.solver, name)


def solver(U, V, interactions, **changes):
    return Steps(U, V, interactions, **changes)


def penalty(interactions, reg):
    counts = interactions.user_counts(), interactions.item_counts()
    return Penalty.of_counts(reg, *counts, interactions.mean_weight())


def first_gradients(U, V, interactions, **changes):
    """What reaches U and V in a first step of all users, whose rows are held still.

    That of V is read from the optimiser's state.
    """
    steps = solver(U, V, interactions, **changes)
    seen = steps.hold_users()
    figures = steps.epoch()
    state = steps.state()
    assert state["steps"] == [1]
    ((users, gradient),) = seen
    by_users = np.zeros_like(U)
    by_users[users] = gradient
    return figures, by_users, state["first"] / 0.1


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    rho=st.sampled_from(RHOS),
    items=st.sampled_from([2, 30, 700]),
    counts=st.booleans(),
    reg=st.sampled_from([1e-3, 1.0]),
)
def test_gradient_is_that_of_the_formula(seed, rho, items, counts, reg):
    U, V, table, interactions = random_problem(seed, items=items, share=9 / items, counts=counts)
    figures, by_users, by_items = first_gradients(U, V, interactions, rho=rho, regularization=reg)
    loss = plain_objective(U, V, table, rho)[0]
    _, wanted_users, wanted_items = plain_objective(U, V, table, rho, reg)
    assert_allclose(figures["loss"] * interactions.n_interactions, loss, rtol=1e-4)
    assert figures["start"] == figures["loss"]
    for found, wanted in ((by_users, wanted_users), (by_items, wanted_items)):
        assert_allclose(found, wanted, rtol=2e-3, atol=2e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("rho", RHOS)
def test_gradient_against_finite_differences(rho):
    U, V, table, interactions = random_problem(1, items=60, counts=True)
    _, by_users, by_items = first_gradients(U, V, interactions, rho=rho, regularization=0.3)
    rng = np.random.default_rng(0)
    for _ in range(3):
        dU, dV = rng.standard_normal(U.shape), rng.standard_normal(V.shape)
        ahead, behind = (
            plain_objective(U + h * dU, V + h * dV, table, rho, 0.3)[0] for h in (1e-5, -1e-5)
        )
        slope = (by_users * dU).sum() + (by_items * dV).sum()
        assert_allclose(slope, (ahead - behind) / 2e-5, rtol=1e-3)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize(("factors", "share"), [(3, 1.0), (96, 0.5), (128, 0.0)])
def test_items_see_less_of_the_step_of_users_the_more_factors_there_are(factors, share, rho):
    U, V, table, interactions = random_problem(11, users=8, items=40, d=factors, counts=True)
    U, V = (rows / np.float32(np.sqrt(factors / 3)) for rows in (U, V))
    steps = solver(U, V, interactions, rho=rho, regularization=1e-6)
    steps.epoch()
    losses = [user_loss(u, V, weights, rho) for u, weights in zip(U, table, strict=True)]
    by_scores = np.array([gradient for _, gradient in losses])  # of the old scores
    moved = steps.state()["U"]
    assert np.abs(moved - U).max() > 0.1
    wanted = by_scores.T @ (U + share * (moved - U))
    assert_allclose(
        steps.state()["first"] / 0.1, wanted, rtol=2e-3, atol=1e-3 * np.abs(wanted).max()
    )


@pytest.mark.parametrize("rho", RHOS)
def test_loss_is_the_listwise_loss_of_the_scores(rho):
    U, V, table, interactions = random_problem(2, items=300, counts=True)
    figures, *_ = first_gradients(U, V, interactions, rho=rho)
    users = np.repeat(np.arange(8), 300)
    dense = listwise_loss(
        (U @ V.T).ravel(), table.ravel(), users, rho=rho, metric="dcg", gain="linear"
    )
    with_records = (table > 0).any(axis=1).sum()  # the listwise loss is the mean over those
    assert_allclose(
        figures["loss"] * interactions.n_interactions, dense.loss * with_records, rtol=1e-4
    )


@pytest.mark.parametrize("rho", RHOS)
def test_training_lowers_the_objective(rho):
    U, V, _, interactions = random_problem(3, users=150, items=80, d=4, share=0.05)
    steps = solver(U, V, interactions, rho=rho, regularization=0.01, epochs=6)
    before = objective(as_factors(U, V), interactions, rho=rho, penalty=penalty(interactions, 0.01))
    seen = [steps.epoch()["loss"] for _ in range(6)]
    assert (
        objective(steps.factors(), interactions, rho=rho, penalty=penalty(interactions, 0.01))
        < 0.97 * before
    )
    assert seen[-1] < seen[0]


def test_every_user_with_records_is_visited_once_and_others_stay():
    U, V, table, interactions = random_problem(4, users=700, items=40, share=0.03)
    steps = solver(U, V, interactions, learning_rate=1e-9)
    steps.hold_users()
    figures = steps.epoch()
    # Nothing moves, so the steps' losses add up to the objective's.
    assert_allclose(
        figures["loss"] * interactions.n_interactions,
        objective(as_factors(U, V), interactions),
        rtol=1e-5,
    )
    moving = solver(U, V, interactions)
    moving.epoch()
    idle = ~table.any(axis=1)
    assert 50 < idle.sum() < 650
    assert_array_equal(moving.U[idle], U[idle])
    assert (moving.U[~idle] != U[~idle]).any(axis=1).all()
    assert moving.state()["steps"][0] == -(-(~idle).sum() // 8)  # blocks of 8 users


def test_penalty_of_the_items_comes_once_an_epoch():
    # Factors of users are zero, so that the penalty alone moves V, by the shares of the steps.
    _, V, table, interactions = random_problem(5, users=20, items=30)
    U = np.zeros((20, 3), np.float32)
    steps = solver(U, V, interactions, regularization=0.5, learning_rate=1e-9)
    n_steps = -(-np.count_nonzero(table.any(axis=1)) // 8)
    pulls = []
    original = _core.adam

    def spy(rows, *, penalty, **rest):
        pulls.append(np.asarray(penalty).copy())
        original(rows, penalty=penalty, **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_core, "adam", spy)
        steps.epoch()
    assert len(pulls) == n_steps == 3
    by_items = plain_objective(U, V, table, "log", 0.5)[2]
    assert_allclose(sum(pulls)[:, None] * V, by_items, rtol=1e-5)


def trained(n_threads, epochs=2, restart=None):
    U, V, _, interactions = random_problem(6, users=60, items=9000, d=5, share=0.002)
    with Workers(n_threads) as workers:
        steps = solver(U, V, interactions, workers=workers)
        for epoch in range(epochs):
            if epoch == restart:
                state = {name: array.copy() for name, array in steps.state().items()}
                steps = solver(U, V, interactions, workers=workers)
                steps.restore(state)
                steps.done = epoch
            figures = steps.epoch()
    assert len(steps.products.ranges) > 3
    return steps.state(), figures["loss"]


def test_same_bits_for_any_number_of_threads():
    one, loss = trained(1)
    for n_threads in (2, 3):
        state, same_loss = trained(n_threads)
        assert same_loss == loss
        for name, array in state.items():
            assert_array_equal(array, one[name], err_msg=name)


@pytest.mark.parametrize("first_steps", [120, 0])  # in which the directions are always renewed
def test_restored_state_goes_on_with_the_same_bits(first_steps, monkeypatch):
    monkeypatch.setattr("robirank.latent.solvers.user_steps._FIRST_STEPS", first_steps)
    through, loss = trained(1, epochs=4)
    broken, same_loss = trained(2, epochs=4, restart=2)
    assert same_loss == loss
    for name, array in broken.items():
        assert_array_equal(array, through[name], err_msg=name)


def test_stops_between_two_steps():
    U, V, _, interactions = random_problem(7, users=100, items=30)
    steps = solver(U, V, interactions)
    asked = iter([False, True])
    steps.epoch(lambda: next(asked))
    assert steps.state()["steps"].tolist() == [2]


def test_million_song_shape_fits_into_its_memory():
    users, items = 1_129_318, 386_133
    size = batch_users(users, items, 64)
    assert size >= 100
    assert 4 * size * items <= BATCH_BYTES


@given(st.integers(1, 2**40), st.integers(1, 2**31 - 1))
def test_block_never_outgrows_its_memory(users, items):
    size = batch_users(users, items, 64)
    assert 1 <= size <= 512
    assert 4 * size * items <= max(BATCH_BYTES, 4 * items)
    assert 4 * users_that_fit(items) * items <= max(BATCH_BYTES, 4 * items)
    if 4 * 8 * items <= BATCH_BYTES:
        assert size >= 8  # too few users would make slow products


def test_an_epoch_allocates_little_beside_the_scores():
    U, V, _, interactions = random_problem(8, users=600, items=20_000, d=8, share=0.001)
    steps = solver(U, V, interactions)
    scores = 4 * batch_users(600, 20_000, 8) * 20_000
    steps.epoch()
    tracemalloc.start()
    try:
        steps.epoch()
        assert tracemalloc.get_traced_memory()[1] < scores  # the block itself was there before
    finally:
        tracemalloc.stop()


def test_adam_worked_by_hand():
    rows = np.array([[1.0, -2.0]], np.float32)
    first, second = np.array([[0.5, 0.0]], np.float32), np.array([[0.25, 1.0]], np.float32)
    gradient = np.array([[3.0, 4.0]], np.float32)
    # g = gradient + 0.5 · row = (3.5, 3); with b1 = 0.5 and b2 = 0.75 the averages are below.
    averages = {"first": first, "second": second, "b1": 0.5, "b2": 0.75, "correction": 4.0}
    penalty = np.array([0.5], np.float32)
    _core.adam(rows, gradient=gradient, penalty=penalty, rate=0.1, **averages)
    assert_allclose(first, [[2.0, 1.5]])
    assert_allclose(second, [[0.1875 + 0.25 * 12.25, 0.75 + 0.25 * 9.0]])
    assert_allclose(rows, [[1 - 0.1 * 2 / np.sqrt(13.0), -2 - 0.1 * 1.5 / np.sqrt(12.0)]])


def test_kernel_over_a_block_worked_by_hand():
    scores = np.zeros((2, 4), np.float32)
    losses, t = _core.listwise_block(
        scores,
        starts=np.array([0, 1, 3]),
        relevant=np.array([1, 0, 2], np.int32),
        weight=np.ones(3),
        rho="log",
        num_threads=1,
    )
    assert_allclose(t, 3.0, rtol=1e-6)  # three others, log2(1 + 2^0) = 1 each
    assert_allclose(losses, [2.0, 4.0], rtol=1e-6)  # log2(1 + 3) an interaction
    slope = 1 / (np.log(2) * 4)  # ρ'(3); every other item adds 1/2 of it
    assert_allclose(scores[0], slope * np.array([0.5, -1.5, 0.5, 0.5]), rtol=1e-5)
    assert_allclose(scores[1], slope * np.array([-1.0, 1.0, -1.0, 1.0]), rtol=1e-5)


def test_user_whose_scores_are_not_finite_shows_in_the_loss():
    U, V, _, interactions = random_problem(9)
    U[3, 0] = np.inf
    assert not np.isfinite(solver(U, V, interactions).epoch()["loss"])


def test_single_item_has_nothing_to_learn():
    one = UserItems(np.array([0, 1]), np.zeros(1, np.int32), None, 1)
    U, V = np.ones((1, 2), np.float32), np.ones((1, 2), np.float32)
    steps = solver(U, V, one)
    assert steps.epoch()["loss"] == pytest.approx(0.0, abs=1e-6)
    assert all(np.isfinite(array).all() for array in rows_of(steps.factors()))
