"""The stochastic solver: it learns, goes on where it stopped, and threads change no bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from latent.tiny import as_factors
from robirank._workers import Workers
from robirank.data.user_items import UserItems
from robirank.engine.interface import Sizes
from robirank.latent.solvers.in_memory import StrataInMemory
from robirank.latent.solvers.objective import inner_sums, objective
from robirank.latent.solvers.sgd import SgdSolver, xi_turns
from robirank.latent.solvers.warp import WarpSolver, weights_after
from robirank.latent.train.request import Request
from robirank.latent.tune.settle import settle_by_table
from robirank.losses import RHOS


def planted(n_users=60, n_items=80, groups=4, seed=0):
    """Users like items of their own group, and have half of them."""
    rng = np.random.default_rng(seed)
    alike = np.arange(n_users)[:, None] % groups == np.arange(n_items) % groups
    has = alike & (rng.random((n_users, n_items)) < 0.5)
    indptr = np.concatenate([[0], np.cumsum(has.sum(1))])
    return UserItems(indptr, np.nonzero(has)[1].astype(np.int32), None, n_items), alike, has


def start(interactions, factors=8, seed=0):
    rng = np.random.default_rng(seed)
    shape = interactions.n_users + interactions.n_items, factors
    rows = (rng.standard_normal(shape) / np.sqrt(factors)).astype(np.float32)
    return rows[: interactions.n_users], rows[interactions.n_users :]


class Run:
    """A solver on threads, and how far it is."""

    def __init__(
        self, interactions, workers, kind=SgdSolver, factors=8, rows=None, epochs=12, **options
    ):
        turns = options.pop("xi_every", None)
        settings = {"regularization": 0.02, "parts": 4, "seed": 3, "learning_rate": 0.1}
        if kind is WarpSolver:
            settings |= {"rho": None, "samples": 20}
        else:
            settings |= {"rho": "log", "samples": 8}
        request = Request(
            "LatentRoBiRank", "sgd", factors=factors, epochs=epochs, params={}, **settings | options
        )
        problem = settle_by_table(request, interactions)
        start_rows = as_factors(*(rows or start(interactions, factors)))
        strata = StrataInMemory(kind, problem, interactions, start_rows, workers)
        self.engine, self.solver = strata.engine, strata._solver
        if turns is not None:
            self.solver._turns = turns
        self.epochs, self.done = epochs, 0

    def epoch(self):
        self.done += 1
        return self.solver.epoch(self.done - 1, self.epochs)

    def factors(self):
        model = self.engine.memory.model()
        return model["user_factors"], model["item_factors"]


def train(interactions, epochs=12, n_threads=1, **options):
    with Workers(n_threads) as workers:
        run = Run(interactions, workers, epochs=epochs, **options)
        reports = [run.epoch() for _ in range(epochs)]
    return run.factors(), reports


def unseen_of_own_group(factors, alike, has):
    """The share of the items on top, of those a user does not have, that are of his group."""
    U, V = factors
    scores = np.where(has, -np.inf, U @ V.T)
    return np.take_along_axis(alike, scores.argsort(axis=1)[:, -3:], axis=1).mean()


KINDS = [
    pytest.param({"kind": SgdSolver}, id="robirank"),
    pytest.param({"kind": SgdSolver, "rho": "identity"}, id="identity"),
    pytest.param({"kind": WarpSolver}, id="warp"),
]


@pytest.mark.parametrize("options", KINDS)
def test_it_finds_planted_groups(options):
    interactions, alike, has = planted()
    assert unseen_of_own_group(start(interactions), alike, has) < 0.4
    factors, reports = train(interactions, **options)
    assert unseen_of_own_group(factors, alike, has) > 0.95
    assert reports[-1]["loss"] < 0.8 * reports[0]["loss"]


@pytest.mark.parametrize("options", KINDS)
@pytest.mark.parametrize("n_threads", [2, 5])
def test_threads_change_no_bit(options, n_threads):
    interactions, _, _ = planted()
    one, several = (train(interactions, n_threads=n, **options)[0] for n in (1, n_threads))
    assert_array_equal(one[0], several[0])
    assert_array_equal(one[1], several[1])


def test_the_seed_and_the_parts_decide():
    interactions, _, _ = planted()
    first = train(interactions, epochs=2)[0][1]
    assert_array_equal(first, train(interactions, epochs=2)[0][1])
    assert (first != train(interactions, epochs=2, seed=4)[0][1]).any()
    assert (first != train(interactions, epochs=2, parts=3)[0][1]).any()


@pytest.mark.parametrize("options", KINDS)
def test_a_restored_solver_goes_on_to_the_same_bits(options):
    interactions, _, _ = planted()
    whole, _ = train(interactions, **options | {"epochs": 7})
    with Workers(1) as workers:
        before, after = (Run(interactions, workers, **options | {"epochs": 7}) for _ in range(2))
        for _ in range(3):
            before.epoch()
        after.engine.memory.restore(before.engine.memory.state())
        after.done = 3
        for _ in range(4):
            after.epoch()
    assert_array_equal(after.factors()[0], whole[0])
    assert_array_equal(after.factors()[1], whole[1])


def test_the_loss_is_the_exact_one_where_all_of_xi_is_renewed():
    interactions, _, _ = planted()
    with Workers(1) as workers:
        solver = Run(interactions, workers, xi_every=1)
        for _ in range(3):
            report = solver.epoch()
    exact = (
        objective(as_factors(*solver.factors()), interactions, rho="log")
        / interactions.n_interactions
    )
    assert_allclose(report["loss"], exact, rtol=1e-4)


@settings(max_examples=25)
@given(
    st.integers(1, 7),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 40),
    st.integers(0, 10**6),
)
def test_any_small_table_can_be_trained_on(n_users, n_items, parts, factors, seed):
    """Users and items without interactions, one user, one item: finite, idle rows untouched."""
    rng = np.random.default_rng(seed)
    has = rng.random((n_users, n_items)) < 0.5
    indptr = np.concatenate([[0], np.cumsum(has.sum(1))])
    weight = rng.uniform(0.5, 2, has.sum()).astype(np.float32)
    interactions = UserItems(indptr, np.nonzero(has)[1].astype(np.int32), weight, n_items)
    U, _ = start(interactions, factors)
    with Workers(1) as workers:
        for kind in (SgdSolver, WarpSolver):
            solver = Run(interactions, workers, kind=kind, factors=factors, parts=parts)
            report = solver.epoch()
            assert np.isfinite(report["loss"])
            assert report["not_finite"] == 0
            after_u, after_v = solver.factors()
            assert np.isfinite(after_u).all()
            assert np.isfinite(after_v).all()
            assert_array_equal(after_u[~has.any(1)], U[~has.any(1)])


def test_stale_slopes_follow_the_drift():
    """Users take turns in the ξ-step; meanwhile all slopes stay near their exact values."""
    interactions, _, _ = planted()
    with Workers(1) as workers:
        solver = Run(interactions, workers, xi_every=4, epochs=40)
        for _ in range(6):
            solver.epoch()
        U, V = solver.factors()
        exact = RHOS["log"].prime(inner_sums(U, V, interactions.indptr, interactions.items))
        off = np.log(solver.engine.memory.state()["rho_weight"] / exact)
    start_weight = RHOS["log"].prime(interactions.n_items - 1.0)
    assert abs(off.mean()) < 0.25 * abs(np.log(start_weight / exact).mean())
    assert np.abs(off).min() < 1e-4  # those whose turn it was


def test_the_xi_step_starts_from_the_factors_given():
    """Rows as long as a trained model's: the first slopes are the exact ones."""
    interactions, _, _ = planted()
    U, V = (4 * rows for rows in start(interactions))
    with Workers(1) as workers:
        solver = Run(interactions, workers, rows=(U, V), rate=0.0, xi_every=60)
        solver.epoch()
    exact = RHOS["log"].prime(inner_sums(U, V, interactions.indptr, interactions.items))
    assert_allclose(solver.engine.memory.state()["rho_weight"], exact, rtol=1e-3)


def test_the_xi_step_takes_turns_where_it_is_dear():
    assert xi_turns(Sizes(60, 60, 80, 600), factors=64, negatives=32) == 1
    million_song = Sizes(1_129_318, 1_129_318, 386_133, 49_824_519)
    assert 5 <= xi_turns(million_song, factors=64, negatives=32) <= 15


def test_weights_of_warp_are_sums_of_reciprocals():
    assert_allclose(weights_after(4, 13), [0, 86021 / 27720, 2.45, 25 / 12, 11 / 6], rtol=1e-6)
    assert_array_equal(weights_after(3, 1), np.zeros(4))
