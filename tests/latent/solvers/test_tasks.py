"""Tasks: the native steps against plain NumPy ones, and their mean against the true gradient."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from latent.solvers import reference
from robirank import _core
from robirank.data.user_items import UserItems
from robirank.engine.state import Block, Part, empty_rows
from robirank.engine.strata import Plan, user_batches
from robirank.latent.solvers.sgd import (
    ScaleSettings,
    SgdSteps,
    XiSettings,
    scale_task,
    sgd_task,
    xi_task,
)
from robirank.latent.solvers.warp import WarpSteps, warp_task
from robirank.losses import RHOS, list_loss

STEPS = SgdSteps(factors=5, negatives=6, rate_u=0.1, rate_v=0.05, cell_items=7)
WARP = WarpSteps(
    factors=5,
    weight_after=np.array([0, 2.5, 2.0, 1.5, 1.0], np.float32),
    margin=1.0,
    rate_u=0.1,
    rate_v=0.05,
    cell_items=7,
)


def make_rows(rng, n, factors):
    rows = empty_rows(n, factors)
    rows[:, :factors] = rng.standard_normal((n, factors))
    return rows


def make_task(seed, n_users=6, n_items=23, factors=5, weighted=False):
    """A part of few users with some interactions, and the second of two blocks of items."""
    rng = np.random.default_rng(seed)
    likes = rng.random((n_users, n_items)) < 0.3
    indptr = np.concatenate([[0], np.cumsum(likes.sum(1))])
    items = np.nonzero(likes)[1].astype(np.int32)
    n = len(items)
    weight = rng.uniform(0.5, 2.0, n).astype(np.float32) if weighted else None
    part = Part(
        np.arange(n_users, dtype=np.int32),
        UserItems(indptr, items, weight, n_items),
        {
            "U": make_rows(rng, n_users, factors),
            "user_sums": rng.uniform(0, 1, n_users).astype(np.float32),
            "user_penalty": rng.uniform(0, 0.1, n_users).astype(np.float32),
            "rho_weight": rng.uniform(0.01, 0.3, n).astype(np.float32),
        },
    )
    plan = Plan(seed, 0, n_items, 2)
    first = int(plan.bounds[1])
    size = n_items - first
    counts = likes.sum(0).astype(np.float32)[plan.order[first:]]
    sums = rng.uniform(0, 1, size).astype(np.float32)
    penalty = rng.uniform(0, 0.1, size).astype(np.float32)
    return (
        part,
        make_block(first, make_rows(rng, size, factors), sums, penalty, counts),
        plan.position,
    )


def make_block(first, V, sums, penalty, counts):
    arrays = {"V": V, "item_sums": sums, "item_penalty": penalty, "item_counts": counts}
    return Block(int(first), arrays)


def in_doubles(part, block, factors):
    """Copies for the reference: float64, without padding."""
    part, block = deepcopy(part), deepcopy(block)
    for holder, rows, sums in ((part, "U", "user_sums"), (block, "V", "item_sums")):
        holder.arrays[rows] = holder[rows][:, :factors].astype(float)
        holder.arrays[sums] = holder[sums].astype(float)
    return part, block


def assert_same(part, block, plain_part, plain_block, factors):
    for ours, plain in (
        (part["U"][:, :factors], plain_part["U"]),
        (block["V"][:, :factors], plain_block["V"]),
        (part["user_sums"], plain_part["user_sums"]),
        (block["item_sums"], plain_block["item_sums"]),
    ):
        assert_allclose(ours, plain, rtol=2e-4, atol=2e-5)
    assert not part["U"][:, factors:].any()
    assert not block["V"][:, factors:].any()


@pytest.mark.parametrize("factors", [1, 16, 20, 32, 64, 128, 256])
def test_steps_are_those_of_the_formulas(factors, instruction_set):
    steps = replace(STEPS, factors=factors)
    part, block, position = make_task(factors, factors=factors)
    plain_part, plain_block = in_doubles(part, block, factors)
    draws, loss = reference.robirank_task(plain_part, plain_block, position, steps, 99, 7)
    report = sgd_task(part, block, position, steps, 99)
    assert_same(part, block, plain_part, plain_block, factors)
    assert (report["done"], report["not_finite"]) == (draws, 0)
    assert_allclose(report["loss"], loss, rtol=1e-4)


@given(
    seed=st.integers(0, 10**6),
    negatives=st.integers(1, 40),
    cell_items=st.integers(2, 30),
    n_items=st.integers(4, 40),
)
def test_steps_for_any_shape(seed, negatives, cell_items, n_items):
    steps = replace(STEPS, negatives=negatives, cell_items=cell_items)
    part, block, position = make_task(seed, n_items=n_items)
    plain_part, plain_block = in_doubles(part, block, 5)
    reference.robirank_task(plain_part, plain_block, position, steps, seed, cell_items)
    sgd_task(part, block, position, steps, seed)
    assert_same(part, block, plain_part, plain_block, 5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("factors", [1, 20, 32, 64, 128])
def test_warp_steps_are_those_of_the_formulas(factors, weighted, instruction_set):
    steps = replace(WARP, factors=factors)
    part, block, position = make_task(factors, factors=factors, weighted=weighted)
    plain_part, plain_block = in_doubles(part, block, factors)
    draws, loss = reference.warp_task(plain_part, plain_block, position, steps, 99, 7)
    report = warp_task(part, block, position, steps, 99)
    assert_same(part, block, plain_part, plain_block, factors)
    assert (report["done"], report["not_finite"]) == (draws, 0)
    assert_allclose(report["loss"], loss, rtol=1e-4)


def test_a_task_touches_only_its_interactions():
    part, block, position = make_task(1)
    before_u, before_v = part["U"].copy(), block["V"].copy()
    sgd_task(part, block, position, STEPS, 5)
    places = position[part.interactions.items] - block.first
    inside = (places >= 0) & (places < len(block["V"]))
    users = np.repeat(np.arange(len(part.users)), np.diff(part.interactions.indptr))[inside]
    moved = (before_u != part["U"]).any(1)
    assert_array_equal(np.flatnonzero(moved), np.unique(users))
    assert (before_v != block["V"]).any(1)[places[inside]].all()


def test_on_average_a_step_follows_the_true_gradient():
    """One interaction, many plans and draws; huge Adagrad sums make plain gradient steps."""
    n_items, factors, rho_weight, reg, eta = 9, 3, 0.7, 0.3, 1e-3
    rng = np.random.default_rng(0)
    u, V = rng.standard_normal(factors), rng.standard_normal((n_items, factors))
    y, sums, squares, n = 4, 0.0, 0.0, 4000
    steps = SgdSteps(factors, 4, eta * 1e6, eta * 1e6, cell_items=2)
    counts = rng.integers(1, 9, n_items).astype(np.float32)
    for epoch in range(n):
        plan = Plan(7, epoch, n_items, 2)
        part = Part(
            np.zeros(1, np.int32),
            UserItems(np.array([0, 1]), np.array([y], np.int32), None, n_items),
            {
                "U": empty_rows(1, factors),
                "user_sums": np.full(1, 1e12, np.float32),
                "user_penalty": np.full(1, reg, np.float32),
                "rho_weight": np.array([rho_weight], np.float32),
            },
        )
        part["U"][0, :factors] = u
        rows = empty_rows(n_items, factors)
        rows[:, :factors] = V[plan.order]
        acc = np.full(n_items, 1e12, np.float32)
        before = np.concatenate([part["U"], rows[plan.position]])
        for low, high in zip(plan.bounds[:-1], plan.bounds[1:], strict=True):
            own = slice(low, high)
            penalty = np.full(high - low, reg, np.float32)
            block = make_block(low, rows[own], acc[own], penalty, counts[plan.order[own]])
            sgd_task(part, block, plan.position, steps, epoch)
        after = np.concatenate([part["U"], rows[plan.position]])
        gradient = (before - after)[:, :factors] / eta
        sums, squares = sums + gradient, squares + gradient**2
    mean = sums / n
    error = np.sqrt(np.maximum(squares / n - mean**2, 0) / n)

    weights = np.zeros(n_items)
    weights[y] = 1.0
    by_score = rho_weight * list_loss(V @ u, weights, "identity").gradient
    true_u, true_v = by_score @ V + reg * u, np.outer(by_score, u)
    true_v[y] += reg * V[y]
    truth = np.vstack([true_u, true_v])
    assert (np.abs(mean - truth) <= 4.5 * error + 2e-3).all()
    assert np.abs(truth).max() > 0.5  # the tolerance above is small beside it
    assert error.max() < 0.1


def test_the_papers_pseudocode_is_not_the_gradient():
    """It updates U_x and V_y only; the gradient of σ0(⟨U_x, V_y − V_y'⟩) moves V_y' as well."""
    rows, eps = np.random.default_rng(0).standard_normal((3, 4)), 1e-6
    differences = np.zeros_like(rows)
    for place in np.ndindex(rows.shape):
        step = np.zeros_like(rows)
        step[place] = eps
        rise = reference.triple_loss(rows + step) - reference.triple_loss(rows - step)
        differences[place] = rise / (2 * eps)
    assert_allclose(reference.triple_gradient(rows), differences, rtol=1e-7)
    literal = reference.literal_gradient(rows)
    assert_allclose(literal[:2], differences[:2], rtol=1e-7)
    assert np.abs(literal[2] - differences[2]).max() > 0.1


@pytest.mark.parametrize("rho", ["log", "type2"])
@pytest.mark.parametrize("weighted", [False, True])
def test_xi_step_gives_the_rho_weight_at_the_exact_sum(rho, weighted, monkeypatch):
    monkeypatch.setattr("robirank.engine.strata.BATCH_USERS", 3)
    part, _, _ = make_task(2, weighted=weighted)
    before = part["rho_weight"].copy()
    n_items = 23
    plan = Plan(0, 0, n_items, 3)
    V = make_rows(np.random.default_rng(1), n_items, 5)
    blocks = [
        make_block(low, V[low:high], *np.ones((3, high - low), np.float32))
        for low, high in zip(plan.bounds[:-1], plan.bounds[1:], strict=True)
    ]
    assert user_batches(slice(0, 6))[1] == slice(3, 6)
    report = xi_task(part, blocks, plan.position, XiSettings(0, 1, 1, rho))
    expected, rho_weights = 0.0, before.copy()
    for x in range(3, 6):
        for r in range(part.interactions.indptr[x], part.interactions.indptr[x + 1]):
            weight = 1.0 if part.interactions.weight is None else part.interactions.weight[r]
            alone = np.zeros(n_items)
            alone[plan.position[part.interactions.items[r]]] = 1.0
            t = list_loss(V @ part["U"][x], alone).t.max()
            expected += weight * float(RHOS[rho].value(t))
            rho_weights[r] = weight * RHOS[rho].prime(t)
    assert_allclose(part["rho_weight"], rho_weights, rtol=1e-4)
    assert_allclose(report["loss"], expected, rtol=1e-5)
    assert report["done"] == part.interactions.indptr[6] - part.interactions.indptr[3]
    assert_allclose(report["drift"], np.log(rho_weights / before).sum(), rtol=1e-4)
    nothing = xi_task(part, blocks, plan.position, XiSettings(0, 1, 2, rho))
    assert nothing == {"done": 0, "loss": 0.0, "drift": 0.0}


def test_drift_moves_the_rho_weights_of_all_others():
    part, _, _ = make_task(2)
    before = part["rho_weight"].copy()
    scale_task(part, [], None, ScaleSettings(1.5, turn=1, turns=3))
    own = slice(part.interactions.indptr[2], part.interactions.indptr[4])
    expected = 1.5 * before
    expected[own] = before[own]
    assert_allclose(part["rho_weight"], expected, rtol=1e-6)
    scale_task(part, [], None, ScaleSettings(2.0))
    assert_allclose(part["rho_weight"], 2 * expected, rtol=1e-6)


def test_a_share_of_the_sums_is_kept():
    part, block, position = make_task(3)
    by_hand = deepcopy((part, block))
    for rows in by_hand:
        for name in ("user_sums", "item_sums"):
            if name in rows.arrays:
                rows[name][:] *= np.float32(0.5)
    sgd_task(*by_hand, position, STEPS, 5)
    sgd_task(part, block, position, replace(STEPS, keep=0.5), 5)
    assert_array_equal(part["user_sums"], by_hand[0]["user_sums"])
    assert_array_equal(block["V"], by_hand[1]["V"])


def test_draws_are_uniform():
    draws = [_core.sgd_draws(key=5, cell=0, interaction=r, n=40, bound=10) for r in range(1000)]
    drawn = np.concatenate(draws)
    counts = np.bincount(drawn, minlength=10)
    assert len(counts) == 10
    assert np.abs(counts - 4000).max() < 5 * np.sqrt(40_000 * 0.1 * 0.9)


def test_what_is_not_finite_is_left_out_and_counted():
    part, block, position = make_task(3)
    part["U"][2, 0] = np.inf
    V = block["V"].copy()
    report = sgd_task(part, block, position, STEPS, 5)
    places = position[part.interactions.items] - block.first
    users = np.repeat(np.arange(len(part.users)), np.diff(part.interactions.indptr))
    assert report["not_finite"] == ((users == 2) & (places >= 0)).sum() > 0
    assert np.isfinite(block["V"]).all()
    assert (block["V"] != V).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"negatives": 0}, "negatives must be between 1 and 1024"),
        ({"negatives": 1025}, "negatives must be between 1 and 1024"),
        ({"cell_items": 1}, "cell_items must be between 2 and 65536; got 1"),
        ({"factors": 17}, "factors must be between 1 and 16; got 17"),
    ],
)
def test_bad_settings_are_named(change, message):
    part, block, position = make_task(0)
    with pytest.raises(ValueError, match=message):
        sgd_task(part, block, position, replace(STEPS, **change), 0)
