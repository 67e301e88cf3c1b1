"""The exact ξ-step and the objective: bounds, equalities, and the formula in float64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from latent.tiny import as_factors
from robirank import listwise_loss, losses
from robirank.data.user_items import UserItems
from robirank.latent.solvers.objective import bound, inner_sums, objective
from robirank.latent.solvers.problem import Penalty

RHOS = ("log", "identity", "type2")


def random_problem(seed, users=30, items=900, d=8, spread=1.0, share=0.01):
    rng = np.random.default_rng(seed)
    U = (spread * rng.standard_normal((users, d))).astype(np.float32)
    V = rng.standard_normal((items, d)).astype(np.float32)
    liked = rng.random((users, items)) < share
    liked[::5] = False  # some users have no interactions
    indptr = np.concatenate(([0], np.cumsum(liked.sum(axis=1))))
    return U, V, UserItems(indptr, np.nonzero(liked)[1].astype(np.int32), None, items), liked


def reference(U, V, interactions):
    """t of every interaction as the paper writes it, in float64."""
    t = []
    for x in range(len(U)):
        scores = V.astype(np.float64) @ U[x].astype(np.float64)
        own = interactions.items[interactions.indptr[x] : interactions.indptr[x + 1]]
        t += [np.delete(losses.sigma0(scores[y] - scores), y).sum() for y in own]
    return np.array(t)


@pytest.mark.parametrize("items", [1, 2, 40, 900, 3000])
@pytest.mark.parametrize("spread", [0.01, 1.0, 5.0])
def test_inner_sums_agree_with_the_formula(items, spread):
    U, V, interactions, _ = random_problem(
        items, items=items, spread=spread, share=min(1, 9 / items)
    )
    t = inner_sums(U, V, interactions.indptr, interactions.items)
    assert len(t) > 0
    assert_allclose(1 + t, 1 + reference(U, V, interactions), rtol=1e-5)


def test_users_in_several_blocks():
    U, V, interactions, _ = random_problem(1, users=600, items=700, share=0.005)
    t = inner_sums(U, V, interactions.indptr, interactions.items)
    assert_allclose(1 + t, 1 + reference(U, V, interactions), rtol=1e-5)


def test_columns_of_a_wider_array():
    U, V, interactions, _ = random_problem(1)
    wide = np.full((len(V), 11), np.nan, np.float32)
    wide[:, 2:10] = V
    t = inner_sums(U, wide[:, 2:10], interactions.indptr, interactions.items)
    assert_array_equal(t, inner_sums(U, V, interactions.indptr, interactions.items))


def test_same_bits_for_any_number_of_threads():
    U, V, interactions, _ = random_problem(2, users=1500, items=800)
    one = inner_sums(U, V, interactions.indptr, interactions.items, num_threads=1)
    loss = objective(as_factors(U, V), interactions, num_threads=1)
    for n_threads in (2, 3):
        again = inner_sums(U, V, interactions.indptr, interactions.items, num_threads=n_threads)
        assert_array_equal(again, one)
        assert objective(as_factors(U, V), interactions, num_threads=n_threads) == loss


@pytest.mark.parametrize("rho", RHOS)
def test_objective_is_the_listwise_loss_of_the_dense_scores(rho):
    U, V, interactions, liked = random_problem(3, users=20, items=300, share=0.03)
    scores, users = (U @ V.T).ravel(), np.repeat(np.arange(20), 300)
    dense = listwise_loss(
        scores, liked.ravel(), users, rho=rho, metric="dcg", gain="linear", method="direct"
    )
    with_records = liked.any(axis=1).sum()  # the listwise loss is the mean over those
    assert_allclose(
        objective(as_factors(U, V), interactions, rho=rho), dense.loss * with_records, rtol=1e-5
    )


def test_objective_worked_by_hand():
    # Scores 0, 1 and log2(3) of one user who likes the first: t = log2(3 · 4).
    U, V = np.ones((1, 1), np.float32), np.array([[0.0], [1.0], [np.log2(3)]], np.float32)
    one, t = UserItems(np.array([0, 1]), np.array([0], np.int32), None, 3), np.log2(12.0)
    assert_allclose(inner_sums(U, V, one.indptr, one.items), [t], rtol=1e-6)
    assert_allclose(objective(as_factors(U, V), one), np.log2(1 + t), rtol=1e-6)
    assert_allclose(objective(as_factors(U, V), one, rho="identity"), t, rtol=1e-6)
    weighted = UserItems(one.indptr, one.items, np.array([3.0], np.float32), 3)
    assert_allclose(objective(as_factors(U, V), weighted), 3 * np.log2(1 + t), rtol=1e-6)


def test_regularisation():
    U, V, interactions, liked = random_problem(4)
    users, items = liked.sum(axis=1), liked.sum(axis=0)
    penalty = Penalty.of_counts(0.3, users, items)
    a_x, a_y = penalty.users.of(users), penalty.items.of(items)
    squares = a_x @ (U.astype(float) ** 2).sum(axis=1) + a_y @ (V.astype(float) ** 2).sum(axis=1)
    more = objective(as_factors(U, V), interactions, penalty=penalty) - objective(
        as_factors(U, V), interactions
    )
    assert_allclose(more, 0.5 * 0.3 * squares, rtol=1e-6)


positive = st.floats(1e-6, 1e6)


@given(st.lists(st.tuples(st.floats(0, 1e6), positive, positive), min_size=1, max_size=20))
def test_bound_holds_for_every_xi(interactions):
    t, xi, weight = np.array(interactions).T
    loss = float(weight @ losses.rho1(t))
    assert bound(t, xi, weight) >= loss * (1 - 1e-12) - 1e-9
    assert_allclose(bound(t, losses.xi(t), weight), loss, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 3.0), st.floats(0.0, 2.0))
def test_bound_of_factors_and_the_step_that_closes_it(seed, spread, haste):
    U, V, interactions, _ = random_problem(seed, users=6, items=60, d=3, spread=spread, share=0.1)
    t = inner_sums(U, V, interactions.indptr, interactions.items)
    loss = objective(as_factors(U, V), interactions)
    rng = np.random.default_rng(seed)
    xi = losses.xi(t) * np.exp(haste * rng.standard_normal(len(t)))
    assert bound(t, xi) >= loss * (1 - 1e-12)
    assert_allclose(bound(t, losses.xi(t)), loss, rtol=1e-9, atol=1e-12)
    assert bound(t, losses.xi(t)) <= bound(t, xi) * (1 + 1e-12)  # never a step up


@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_extreme_scores(scale):
    V = np.array([[-scale], [0.0], [0.0], [scale]], np.float32)
    U, indptr, items = np.ones((1, 1), np.float32), np.array([0, 4]), np.arange(4, dtype=np.int32)
    t = inner_sums(U, V, indptr, items)
    assert_allclose(t, [4 * scale, scale + 1, scale + 1, 0.0], rtol=1e-6, atol=1e-6)


def test_equal_scores_count_the_other_items():
    U, V = np.full((2, 4), 0.3, np.float32), np.full((5000, 4), 0.7, np.float32)
    t = inner_sums(U, V, np.array([0, 1, 3]), np.array([7, 0, 4999], np.int32))
    assert_allclose(t, np.full(3, 4999.0), rtol=1e-5)


def test_only_item_has_nothing_to_be_compared_with():
    U, V = np.full((1, 4), 0.3, np.float32), np.full((1, 4), 0.7, np.float32)
    assert_allclose(inner_sums(U, V, np.array([0, 1]), np.zeros(1, np.int32)), [0.0], atol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_user_that_is_not_finite_gives_nan_and_spoils_no_other(bad):
    U, V, interactions, _ = random_problem(5)
    clean = inner_sums(U, V, interactions.indptr, interactions.items)
    U[1, 0] = bad
    t = inner_sums(U, V, interactions.indptr, interactions.items)
    own = slice(interactions.indptr[1], interactions.indptr[2])
    assert own.stop > own.start
    assert np.isnan(t[own]).all()
    assert_array_equal(np.delete(t, own), np.delete(clean, own))
    assert np.isnan(objective(as_factors(U, V), interactions))


def test_no_records():
    U, V = np.ones((3, 2), np.float32), np.ones((4, 2), np.float32)
    none = UserItems(np.zeros(4, np.int64), np.zeros(0, np.int32), None, 4)
    assert inner_sums(U, V, none.indptr, none.items).size == 0
    assert objective(as_factors(U, V), none) == 0.0


def test_wrong_arguments_are_named():
    U, V, interactions, _ = random_problem(6)
    indptr, items = interactions.indptr, interactions.items
    with pytest.raises(ValueError, match=r"U must be a float32 matrix.*float64"):
        inner_sums(U.astype(np.float64), V, indptr, items)
    with pytest.raises(ValueError, match="equally wide; got 8 and 7 columns"):
        inner_sums(U, V[:, :7], indptr, items)
    with pytest.raises(ValueError, match="indptr must have 31 entries"):
        inner_sums(U, V, indptr[:-1], items)
    with pytest.raises(ValueError, match="indptr must rise from 0 to the number of interactions"):
        inner_sums(U, V, indptr, items[:-1])
    with pytest.raises(
        ValueError, match=r"items must be rows of V, 0 to 899; they run from .* 900"
    ):
        inner_sums(U, V, indptr, np.append(items[:-1], np.int32(900)))
    with pytest.raises(ValueError, match=r"rho must be one of .* got 'square'"):
        objective(as_factors(U, V), interactions, rho="square")
    with pytest.raises(ValueError, match="xi must be positive; the smallest is 0"):
        bound([1.0], [0.0])
