"""The pairwise model that `benchmarks/letor.py` compares RoBiRank with."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from robirank._queries import group_queries

module = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "_pairwise.py"))
PairwiseLogistic, draw_pairs = module["PairwiseLogistic"], module["draw_pairs"]


def test_pairs_are_of_one_query_and_the_better_comes_first():
    rng = np.random.default_rng(0)
    qid = rng.permutation(np.repeat(np.arange(6), 5))
    y = rng.integers(0, 3, len(qid))
    better, worse = draw_pairs(y, group_queries(qid, len(qid)), 200, rng)
    assert len(better) > 300
    assert (qid[better] == qid[worse]).all()
    assert (y[better] > y[worse]).all()
    possible = {(i, j) for i in range(30) for j in range(30) if qid[i] == qid[j] and y[i] > y[j]}
    assert set(zip(better.tolist(), worse.tolist(), strict=True)) == possible


def test_pairwise_model_finds_the_direction():
    X = np.array([[1.0, 0.0], [0.0, 0.0], [5.0, 1.0], [4.0, 1.0]])
    model = PairwiseLogistic(random_state=0).fit(X, [1, 0, 1, 0], qid=[1, 1, 2, 2])
    assert model.coef_[0] > 0
    assert model.coef_[1] == pytest.approx(0, abs=1e-6)


def test_pairwise_model_needs_a_pair_and_a_penalty():
    X = [[1.0], [2.0]]
    with pytest.raises(ValueError, match="no pair to learn from"):
        PairwiseLogistic().fit(X, [1, 1])
    with pytest.raises(ValueError, match="alpha must be a number > 0; got 0"):
        PairwiseLogistic(alpha=0).fit(X, [1, 0])
