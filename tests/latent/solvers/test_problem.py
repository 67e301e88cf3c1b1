"""Weights of the rows in the penalty."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from latent.tiny import as_factors
from robirank.latent.solvers.problem import Penalty, RowLengths, RowWeights

counts = st.lists(st.integers(0, 1000), min_size=1, max_size=50).map(np.array)


@given(counts, st.floats(0.0, 1.0))
def test_weights_add_up_to_the_records(counts, exponent):
    weights = RowWeights.scaled(exponent, RowLengths.of_counts(counts)).of(counts)
    assert_allclose(weights.sum(), counts.sum(), rtol=1e-9)
    assert (weights[counts == 0] == 0).all()
    if counts.any():  # a ∝ n^exponent
        some = counts > 0
        assert_allclose(
            weights[some] / weights[some][0],
            (counts[some] / counts[some][0]) ** exponent,
            rtol=1e-9,
        )


@given(counts, st.floats(0.0, 1.0))
def test_each_record_pays_its_share_of_the_rows_weight(counts, exponent):
    weights = RowWeights.scaled(exponent, RowLengths.of_counts(counts))
    expected = 0.3 * weights.of(counts) / np.maximum(counts, 1)
    assert_allclose(weights.per_interaction(counts, 0.3), expected, rtol=1e-5)


def test_exponent_of_one_gives_the_counts_themselves():
    counts = np.array([3, 0, 5])
    assert_allclose(RowWeights.scaled(1.0, RowLengths.of_counts(counts)).of(counts), [3, 0, 5])


def test_penalty_worked_by_hand():
    U, V = np.array([[1.0, 2.0]], np.float32), np.array([[3.0, 0.0], [1.0, 1.0]], np.float32)
    one = RowWeights(exponent=1.0, scale=1.0)
    # ½ · 0.1 · (2 · 5 + 1 · 9 + 4 · 2)
    value = Penalty(0.1, one, one).value(as_factors(U, V), np.array([2]), np.array([1, 4]))
    assert_allclose(value, 0.05 * 27)
