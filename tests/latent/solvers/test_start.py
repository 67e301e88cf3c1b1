"""Where factors start: the same rows wherever they are made."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from robirank.latent.solvers.start import random_rows, some_random_rows


@given(st.integers(1, 60_000), st.integers(1, 5), st.integers(0, 99))
def test_some_rows_are_those_of_all(n, d, seed):
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(n)[: rng.integers(0, 30)].astype(np.int32) for _ in range(3)]
    whole = random_rows(seed, 1, n, d)
    for rows, found in zip(chosen, some_random_rows(seed, 1, n, d, chosen), strict=True):
        assert_array_equal(found, whole[rows])


def test_rows_have_length_about_one():
    assert_allclose(np.linalg.norm(random_rows(0, 0, 5000, 64), axis=1).mean(), 1.0, atol=0.01)
