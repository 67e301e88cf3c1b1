"""What all rankers share: the errors of `fit` and `score` name the argument that is meant."""

import numpy as np
import pytest

from robirank import ArgumentError, RankSVM, RoBiRank, make_ranking

DATA = make_ranking(n_queries=4, n_docs=5, n_features=3, random_state=0)
X, Y, QID = DATA.X, DATA.y, DATA.qid


@pytest.fixture(scope="module")
def model():
    return RoBiRank().fit(DATA)


@pytest.mark.parametrize("y", [None, 1, ["a"] * len(Y), np.where(Y > 0, np.nan, Y)])
def test_labels_that_cannot_be_scored_are_named(model, y):
    with pytest.raises(ArgumentError, match=r"^y must be ") as caught:
        model.score(X, y, qid=QID)
    assert caught.value.subject.name == "y"


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0, 2.0], r"must have one value for each of the 20 rows; got shape \(2,\)"),
        (-np.ones(len(Y)), "must be finite and non-negative"),
        (np.zeros(len(Y)), "is zero everywhere"),
    ],
)
def test_weights_that_cannot_be_used_are_named(model, weight, message):
    with pytest.raises(ArgumentError, match=f"^sample_weight {message}"):
        model.score(X, Y, qid=QID, sample_weight=weight)


def test_negative_labels_are_named():
    with pytest.raises(ArgumentError, match=r"^y must hold labels that .* found -1"):
        RankSVM().fit(X, Y - 1.0, qid=QID)
