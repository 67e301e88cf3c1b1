"""The plain PyTorch steps against the native kernel, which has tests of its own."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from robirank.data.user_items import as_user_items
from robirank.latent.gpu import plain
from robirank.latent.gpu.batch import (
    PLAIN_BINS,
    BatchInteractions,
    DeviceInteractions,
    Grid,
)
from robirank.losses import RHOS
from robirank.objectives.listwise import gradients_in_place

CPU = torch.device("cpu")


def block(n, m, d, share, size, seed=0):
    """Random factors and interactions; every user has one interaction at least."""
    rng = np.random.default_rng(seed)
    chosen = rng.random((n, m)) < share
    chosen[np.arange(n), rng.integers(0, m, n)] = True
    table = sp.csr_matrix(np.where(chosen, rng.integers(1, 9, (n, m)), 0))
    interactions = as_user_items(table, "log")
    U, V = ((size * rng.standard_normal((k, d))).astype(np.float32) for k in (n, m))
    return U, V, interactions


def native(U, V, interactions, rho):
    by_score = U @ V.T
    users = np.arange(len(U))
    losses = gradients_in_place(by_score, *interactions.of_users(users), rho=rho, num_threads=1)
    return losses, by_score


def found(U, V, interactions, rho):
    on_device = BatchInteractions.of_users(interactions, np.arange(len(U)), CPU)
    result = plain.gradients(torch.from_numpy(U), torch.from_numpy(V), on_device, rho)
    losses = np.bincount(on_device.rows.numpy(), result.losses.numpy(), minlength=len(U))
    return losses, result.users.numpy(), result.of_items(torch.from_numpy(U)).numpy()


def assert_close(actual, expected, beside):
    """To a thousandth, or to what cannot be seen in any entry beside a number."""
    unseen = 1e-6 * beside * np.sqrt(expected.size)
    assert np.linalg.norm(actual - expected) <= 1e-3 * np.linalg.norm(expected) + unseen


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize(
    ("n", "m", "share", "size"),
    [
        (5, 1, 1.0, 1.0),  # one item
        (4, 30, 0.0, 1.0),  # one positive each
        (4, 30, 1.0, 1.0),  # all positive
        (3, 400, 0.1, 0.0),  # equal scores
        (3, 400, 0.1, 0.01),
        (3, 400, 0.1, 5.0),
        (3, 400, 0.02, 500.0),  # scores of 1e6
        (20, 3000, 0.01, 0.7),
    ],
)
def test_losses_and_gradients_are_the_native_kernels(rho, n, m, share, size):
    U, V, interactions = block(n, m, 8, share, size)
    losses, by_score = native(U, V, interactions, rho)
    actual = found(U, V, interactions, rho)
    reach = max(1.0, float(np.abs(losses).max()))
    for one, other in zip(actual, (losses, by_score @ V, by_score.T @ U), strict=True):
        assert_close(one, other, reach * max(1.0, size))


def test_four_hundred_thousand_items():
    rng = np.random.default_rng(0)
    m = 400_000
    table = sp.csr_matrix((np.ones(40), (np.repeat([0, 1], 20), rng.integers(0, m, 40))), (2, m))
    U, V = (rng.standard_normal((k, 16)).astype(np.float32) for k in (2, m))
    interactions = as_user_items(table)
    losses, by_score = native(U, V, interactions, "log")
    actual = found(U, V, interactions, "log")
    for one, other in zip(actual, (losses, by_score @ V, by_score.T @ U), strict=True):
        assert_close(one, other, 1.0)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1, 80),
    st.floats(0, 1),
    st.floats(1e-3, 30),
    st.sampled_from(sorted(RHOS)),
    st.integers(0, 99),
)
@example(1, 3, 0.0, 2.0, "identity", 3)  # an item far below the others, and little beside it
def test_any_table(n, m, share, size, rho, seed):
    U, V, interactions = block(n, m, 3, share, size, seed)
    losses, by_score = native(U, V, interactions, rho)
    actual = found(U, V, interactions, rho)
    # Items far below are clamped: together 2^-13 of an interaction's gradient, times a row of
    # factors.
    longest = max(1.0, *(np.linalg.norm(rows, axis=1).max() for rows in (U, V)))
    clamped = 2.0**-13 * longest * interactions.weight.sum()
    for one, other in zip(actual, (losses, by_score @ V, by_score.T @ U), strict=True):
        assert_close(one, other, 1e6 * clamped)


@pytest.mark.parametrize("rho", RHOS)
def test_the_grid_and_the_direct_sums_agree(rho):
    U, V, interactions = block(6, 500, 8, 0.05, 0.8)
    on_device = BatchInteractions.of_users(interactions, np.arange(6), CPU)
    scores = torch.from_numpy(U @ V.T).double()
    wide = on_device._replace(weights=on_device.weights.double())
    losses, by_score = plain.direct_score_gradients(scores, wide, rho)
    reach = scores.abs().amax(1)
    by_grid = plain.score_gradients(scores, wide, rho, reach)
    torch.testing.assert_close(by_grid[0], losses, rtol=1e-4, atol=1e-6)
    assert (by_grid[1] - by_score).norm() < 3e-4 * by_score.norm()


def test_direct_score_gradients_are_the_derivatives():
    U, V, interactions = block(3, 25, 4, 0.2, 1.0)
    on_device = BatchInteractions.of_users(interactions, np.arange(3), CPU)
    on_device = on_device._replace(weights=on_device.weights.double())
    scores = torch.from_numpy(U @ V.T).double()
    _, by_score = plain.direct_score_gradients(scores, on_device, "log")
    for row, item in ((0, 3), (1, 0), (2, 24)):
        values = []
        for step in (1e-5, -1e-5):
            moved = scores.clone()
            moved[row, item] += step
            values.append(plain.direct_score_gradients(moved, on_device, "log")[0].sum())
        assert float(by_score[row, item]) == pytest.approx(
            float(values[0] - values[1]) / 2e-5, 1e-5
        )


def test_of_rows_keeps_the_records_of_some_users():
    _, _, interactions = block(5, 20, 2, 0.3, 1.0)
    whole = BatchInteractions.of_users(interactions, np.arange(5), CPU)
    part = whole.of_rows(torch.tensor([1, 4]))
    expected = BatchInteractions.of_users(interactions, np.array([1, 4]), CPU)
    for one, other in zip(part, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_a_grid_that_would_be_too_coarse_is_marked():
    interactions = BatchInteractions(
        torch.tensor([0, 1, 3]),
        torch.tensor([0, 1, 1], dtype=torch.int32),
        torch.tensor([0, 0, 1], dtype=torch.int32),
        torch.ones(3),
    )
    points = torch.tensor([1.0, 0.0, 1000.0])
    grid = Grid.around(points, interactions, torch.tensor([2.0, 2000.0]), n_items=100)
    assert grid.wide.tolist() == [False, True]
    place = points[0] * grid.bins[0] + grid.shift[0]
    assert 0 <= place <= PLAIN_BINS
    nothing = Grid.around(points * torch.nan, interactions, torch.tensor([2.0, 2.0]), n_items=100)
    assert nothing.wide.all()


def test_items_are_stepped_with_other_rows_than_scores_are_taken_with():
    """The derivative of Σ G (U' Vᵀ) by V, with G as it was."""
    U, V, interactions = block(6, 300, 8, 0.05, 0.8)
    _, by_score = native(U, V, interactions, "log")
    on_device = BatchInteractions.of_users(interactions, np.arange(6), CPU)
    found = plain.gradients(torch.from_numpy(U), torch.from_numpy(V), on_device, "log")
    rows = U + np.random.default_rng(1).standard_normal(U.shape).astype(np.float32)
    assert_close(found.of_items(torch.from_numpy(rows)).numpy(), by_score.T @ rows, 1.0)


class TakesRecords:
    """In place of the kernels: what take_interactions does."""

    def launch(self, name, grid, *arguments, threads):
        users, starts, begins, items, weights, size, rows, taken, taken_weights = arguments
        assert (name, grid) == ("take_interactions", (len(users), 1, 1))
        for number, user in enumerate(users.tolist()):
            to = slice(*starts[number : number + 2].tolist())
            of = slice(*begins[user : user + 2].tolist())
            rows[to] = number % size
            taken[to] = items[of]
            taken_weights[to] = 1.0 if weights is None else weights[of]


@pytest.mark.parametrize("weighting", ["binary", "log"])
@pytest.mark.parametrize("stretch", [1, 40, 10_000])
@pytest.mark.parametrize("size", [1, 7, 50])
def test_blocks_have_the_records_of_their_users(weighting, stretch, size, monkeypatch):
    monkeypatch.setattr("robirank.latent.gpu.batch._SORTED_TOGETHER", stretch)
    monkeypatch.setattr("robirank.latent.gpu.batch.free_memory", lambda _: 1 << 30)
    table = sp.random(40, 30, 0.2, random_state=0, format="csr")
    table.data[:] = 1 + np.arange(table.nnz) % 5
    interactions = as_user_items(table, weighting)
    order = np.random.default_rng(0).permutation(np.flatnonzero(interactions.user_counts()))
    blocks = list(DeviceInteractions(interactions, CPU, TakesRecords()).batches(order, size))
    assert_same = np.testing.assert_array_equal
    for number, block in enumerate(blocks):
        assert_same(block.users, np.sort(order[number * size : (number + 1) * size]))
        assert_same(block.places, block.users)
        expected = BatchInteractions.of_users(interactions, block.users, CPU)
        for one, other in zip(block.interactions[:4], expected[:4], strict=True):
            assert_same(one, other)
        assert_same(block.interactions.by_item, np.argsort(expected.items.numpy(), kind="stable"))
    assert sum(len(block.users) for block in blocks) == len(order)


@pytest.mark.parametrize("cells", [1, 50, 100])
def test_direct_sums_do_not_depend_on_how_many_are_taken_at_a_time(cells, monkeypatch):
    rng = np.random.default_rng(0)
    chosen = rng.random((9, 25)) < 0.4
    chosen[4] = False
    interactions = BatchInteractions.of_users(
        as_user_items(sp.csr_matrix(chosen)), np.arange(9), CPU
    )
    scores = torch.tensor(rng.standard_normal((9, 25)))
    expected = plain.direct_score_gradients(scores, interactions, "log")
    monkeypatch.setattr(plain, "_CELLS", cells)
    for one, other in zip(
        plain.direct_score_gradients(scores, interactions, "log"), expected, strict=True
    ):
        torch.testing.assert_close(one, other)
