"""The native inner sums of points against the formula in float64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from robirank import _core

TOLERANCE = {"auto": 1e-5, "direct": 1e-12, "grid": 1e-5}


@pytest.fixture(params=TOLERANCE)
def method(request):
    return request.param


def reference(scores, offsets, points):
    """Σ_j log2(1 + 2^(s_j − p)) as it is written, in float64."""
    rows = np.repeat(np.arange(len(scores)), np.diff(offsets))
    difference = scores[rows].astype(np.float64) - points.astype(np.float64)[:, None]
    return np.logaddexp2(0.0, difference).sum(axis=1)


def sums(scores, offsets, points, method="auto", num_threads=1):
    t = np.zeros(len(points))
    _core.point_sums(scores, offsets, points, t, method=method, num_threads=num_threads)
    return t


def random_rows(rng, rows, items, spread, most_points=9):
    scores = (spread * rng.standard_normal((rows, items))).astype(np.float32)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(0, most_points, rows))))
    points = (spread * rng.standard_normal(offsets[-1])).astype(np.float32)
    return scores, offsets, points


@pytest.mark.parametrize("items", [1, 7, 63, 600, 5000, 140_000])
@pytest.mark.parametrize("spread", [0.001, 1.0, 20.0])
def test_sums_agree_with_the_formula(instruction_set, method, items, spread):
    case = random_rows(np.random.default_rng(items), 4, items, spread)
    assert_allclose(1 + sums(*case, method), 1 + reference(*case), rtol=TOLERANCE[method])


@given(
    scores=st.lists(st.floats(-60, 60, width=32), min_size=1, max_size=40),
    points=st.lists(st.floats(-60, 60, width=32), min_size=1, max_size=9),
    method=st.sampled_from([*TOLERANCE]),
)
def test_any_row_agrees_with_the_formula(scores, points, method):
    case = np.array([scores], np.float32), np.array([0, len(points)]), np.array(points, np.float32)
    assert_allclose(1 + sums(*case, method), 1 + reference(*case), rtol=TOLERANCE[method])


@pytest.mark.parametrize(
    ("scores", "points"),
    [
        ([1e4, -1e4, 0.0], [1e4, 0.0, -1e4]),
        ([1e4, 1e4 + 1], [0.0]),
        ([-1e4, -1e4 + 1], [0.0]),
        ([0.0] * 700, [500.0, -500.0]),
        ([0.0] * 700 + [1e4, -1e4], [0.0, 3.0]),
        ([0.25] * 9000, [0.25]),
        ([31.9, 32.0, 32.1, -31.9, -32.0, -32.1], [0.0]),
        ([3e38, -3e38], [0.0]),
    ],
)
def test_extreme_scores(instruction_set, method, scores, points):
    case = np.array([scores], np.float32), np.array([0, len(points)]), np.array(points, np.float32)
    assert_allclose(1 + sums(*case, method), 1 + reference(*case), rtol=TOLERANCE[method])


def test_worked_by_hand(method):
    scores = np.array([[0.0, 1.0, np.log2(3.0)]], np.float32)
    t = sums(scores, np.array([0, 1]), np.zeros(1, np.float32), method)  # log2 of 2 · 3 · 4
    assert_allclose(t, [np.log2(24.0)], rtol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("items", [5, 3000])
def test_a_row_that_is_not_finite_gives_nan_and_spoils_no_other(method, bad, items):
    rng = np.random.default_rng(1)
    scores, offsets, points = random_rows(rng, 3, items, 2.0)
    offsets, points = np.array([0, 2, 4, 6]), np.resize(points, 6)
    clean = sums(scores, offsets, points, method)
    scores[1, items // 2] = bad
    spoilt = sums(scores, offsets, points, method)
    assert np.isnan(spoilt[2:4]).all()
    assert_array_equal(spoilt[[0, 1, 4, 5]], clean[[0, 1, 4, 5]])


def test_a_point_that_is_not_finite_gives_nan(method):
    scores, offsets = np.ones((1, 2000), np.float32), np.array([0, 1])
    assert np.isnan(sums(scores, offsets, np.array([np.nan], np.float32), method)).all()


def test_same_bits_for_any_number_of_threads(method):
    case = random_rows(np.random.default_rng(2), 60, 20_000, 3.0)
    one = sums(*case, method, num_threads=1)
    for num_threads in (2, 3):
        assert_array_equal(sums(*case, method, num_threads=num_threads), one)


def test_adds_to_t_and_takes_rows_with_gaps():
    scores, offsets, points = random_rows(np.random.default_rng(4), 5, 700, 3.0)
    wide = np.full((5, 800), np.nan, np.float32)
    wide[:, :700] = scores
    t = np.arange(len(points), dtype=np.float64)
    _core.point_sums(wide[:, :700], offsets, points, t)
    expected = np.arange(len(points)) + reference(scores, offsets, points)
    assert_allclose(t, expected, rtol=1e-5)


def test_nothing_to_do():
    assert sums(np.zeros((0, 3), np.float32), np.array([0]), np.zeros(0, np.float32)).size == 0
    none = sums(np.zeros((1, 0), np.float32), np.array([0, 2]), np.zeros(2, np.float32))
    assert none.tolist() == [0.0, 0.0]
