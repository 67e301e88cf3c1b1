"""Validation data at the door of an iterative fit."""

import numpy as np
import pytest

from robirank import AdaRank, RankingData
from robirank.metrics import ndcg

X = np.arange(12.0).reshape(6, 2)
Y = np.array([0, 1, 2, 0, 0, 1])
QID = np.array(["b", "a", "b", "a", "b", "a"])


def checked(data, **params):
    ranker = AdaRank(**params)
    ranker.n_features_in_ = 2
    return ranker._held_out(data)


@pytest.mark.parametrize("data", [(X, Y, QID), [X.tolist(), Y, QID], RankingData(X, Y, QID)])
def test_measure_is_the_one_asked_for(data):
    scores = np.array([3.0, 1.0, 2.0, 2.0, 1.0, 0.0])
    held_out = checked(data, k=2, convention="letor")
    assert held_out.ndcg(scores) == ndcg(Y, scores, QID, k=2, convention="letor")
    assert held_out.ndcg(scores) != checked(data, k=None).ndcg(scores)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, r"validation must be \(X, y, qid\) or RankingData"),
        ((X, Y), "validation must be"),
        ((X[:, :1], Y, QID), "the 2 features of the training data"),
        ((X, Y[:5], QID), "one label for each of its 6 rows"),
        ((X * np.nan, Y, QID), "NaN"),
        ((X, Y * 0, QID), "validation has no relevant document"),
        ((X, None, QID), r"validation must have one label .* got shape \(\)"),
        ((X, list("abcabc"), QID), "validation cannot be used: its labels must be numbers"),
        ((X, np.where(Y > 1, np.nan, Y), QID), r"validation .* labels\[2\] is nan"),
        ((X, Y - 1, QID), "validation must have labels that are not negative; found -1"),
    ],
)
def test_bad_validation_data_are_named(data, message):
    with pytest.raises(ValueError, match=message):
        checked(data)


def test_bad_cut_off_is_named():
    with pytest.raises(ValueError, match="k must be a positive integer"):
        checked((X, Y, QID), k=0)
