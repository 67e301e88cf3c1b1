"""Inner sums with the product in the same native loop, against the formula in float64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from robirank import _core


def problem(seed, users, items, d, spread=1.0, most_points=9):
    """Factors whose scores have about the given spread, and points among them."""
    rng = np.random.default_rng(seed)
    U = (spread * rng.standard_normal((users, d)) / max(d, 1) ** 0.5).astype(np.float32)
    V = rng.standard_normal((items, d)).astype(np.float32)
    sizes = rng.integers(1, most_points, users)
    sizes[1:2] = 0  # the second user has no points
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    points = (spread * rng.standard_normal(offsets[-1])).astype(np.float32)
    return U, V, offsets, points


def reference(U, V, offsets, points):
    """Σ_y log2(1 + 2^(⟨U_b, V_y⟩ − p)) as it is written, in float64."""
    rows = np.repeat(np.arange(len(U)), np.diff(offsets))
    scores = U.astype(np.float64) @ V.astype(np.float64).T
    return np.logaddexp2(0.0, scores[rows] - points.astype(np.float64)[:, None]).sum(axis=1)


def sums(U, V, offsets, points, width=None):
    found = _core.InnerSums(U, offsets, points)
    for begin in range(0, len(V), width or max(len(V), 1)):
        found.add(V[begin : begin + (width or len(V))])
    return found.sums()


def check(case, rtol=1e-5):
    assert_allclose(1 + sums(*case), 1 + reference(*case), rtol=rtol)


@pytest.mark.parametrize("users", [1, 8, 13])
@pytest.mark.parametrize("items", [1, 47, 600, 5000])
@pytest.mark.parametrize("d", [1, 7, 64, 100])
def test_sums_agree_with_the_formula(instruction_set, users, items, d):
    check(problem(items + d, users, items, d, spread=2.0))


@pytest.mark.parametrize("spread", [1e-3, 8.0, 40.0, 400.0])
def test_narrow_and_wide_scores(instruction_set, spread):
    """Items outside the grid, and users without one, share a tile with others."""
    case = problem(1, 16, 4000, 16, spread)
    check(case)
    case[0][3] *= 1e-3 / spread
    check(case)


@pytest.mark.parametrize("spread", [1.0, 40.0])
@pytest.mark.parametrize("items", [33_000, 70_001])  # 33,000: a chunk, and a few more
def test_more_items_than_a_chunk(instruction_set, items, spread):
    check(problem(2, 9, items, 3, spread))


def test_wide_factors():
    check(problem(8, 3, 5000, 2500))


@given(
    users=st.integers(1, 20), items=st.integers(1, 1500), d=st.integers(1, 40), seed=st.integers(0)
)
def test_any_shape(users, items, d, seed):
    check(problem(seed % 2**32, users, items, d, spread=3.0))


@pytest.mark.parametrize("width", [1, 31, 4096, 33_000])
def test_bits_do_not_depend_on_how_the_items_come(width):
    case = problem(3, 10, 40_000 if width > 1 else 700, 8)
    assert_array_equal(sums(*case, width=width), sums(*case))


@pytest.mark.parametrize("wide", [False, True])
def test_bits_do_not_depend_on_who_else_is_asked_for(instruction_set, wide):
    U, V, offsets, points = problem(4, 21, 3000, 16)
    if wide:
        points[offsets[9]] = 1e4  # the tenth user has no grid
    whole = sums(U, V, offsets, points)
    for b in range(len(U)):
        own = slice(offsets[b], offsets[b + 1])
        alone = sums(U[b : b + 1], V, np.array([0, own.stop - own.start]), points[own])
        assert_array_equal(alone, whole[own])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("items", [40, 3000])
@pytest.mark.parametrize("user", [5, 11])  # the last one fills up the tile
def test_a_user_that_is_not_finite_gives_nan_and_spoils_no_other(instruction_set, bad, items, user):
    U, V, _, points = problem(5, 12, items, 8)
    offsets, points = np.arange(13) * 2, np.resize(points, 24)
    clean = sums(U, V, offsets, points)
    U[user, 2] = bad
    spoilt = sums(U, V, offsets, points)
    own = [2 * user, 2 * user + 1]
    assert np.isnan(spoilt[own]).all()
    assert_array_equal(np.delete(spoilt, own), np.delete(clean, own))


def test_an_item_that_is_not_finite_gives_nan():
    U, V, offsets, points = problem(6, 3, 3001, 8)
    V[-1, 0] = np.nan  # the last tile is filled up beside it
    assert np.isnan(sums(U, V, offsets, points)).all()


def test_asking_in_between_loses_nothing():
    U, V, offsets, points = problem(7, 5, 2000, 8)
    found = _core.InnerSums(U, offsets, points)
    found.add(V[:900])
    found.sums()
    found.add(V[900:])
    assert_allclose(1 + found.sums(), 1 + reference(U, V, offsets, points), rtol=1e-5)
    assert_array_equal(found.sums(), found.sums())


def test_nothing_to_do():
    none = np.zeros((0, 4), np.float32), np.ones((3, 4), np.float32), np.array([0])
    assert sums(*none, np.zeros(0, np.float32)).size == 0
    U, offsets, points = np.ones((2, 4), np.float32), np.array([0, 1, 2]), np.zeros(2, np.float32)
    assert sums(U, np.zeros((0, 4), np.float32), offsets, points).tolist() == [0.0, 0.0]
