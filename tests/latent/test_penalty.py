"""Weights of the rows in the penalty."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from robirank.latent.penalty import penalty, row_weights

counts = st.lists(st.integers(0, 1000), min_size=1, max_size=50).map(np.array)


@given(counts, st.floats(0.0, 1.0))
def test_weights_add_up_to_the_records(counts, exponent):
    weights = row_weights(counts, exponent)
    assert_allclose(weights.sum(dtype=np.float64), counts.sum(), rtol=1e-5)
    assert (weights[counts == 0] == 0).all()
    if counts.any():  # a ∝ n^exponent
        some = counts > 0
        assert_allclose(
            weights[some] / weights[some][0],
            (counts[some] / counts[some][0]) ** exponent,
            rtol=1e-5,
        )


def test_exponent_of_one_gives_the_counts_themselves():
    assert_allclose(row_weights(np.array([3, 0, 5]), 1.0), [3, 0, 5])


def test_penalty_worked_by_hand():
    U, V = np.array([[1.0, 2.0]], np.float32), np.array([[3.0, 0.0], [1.0, 1.0]], np.float32)
    a, b = np.array([2.0], np.float32), np.array([1.0, 4.0], np.float32)
    # ½ · 0.1 · (2 · 5 + 1 · 9 + 4 · 2)
    assert_allclose(penalty(U, V, a, b, 0.1), 0.05 * 27)
