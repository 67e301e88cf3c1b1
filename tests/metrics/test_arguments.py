"""Wrong input of metrics is named."""

import math

import numpy as np
import pytest

from robirank.metrics import dcg, err, ndcg, precision

LOG2_3 = math.log2(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ndcg([], []), "y is empty"),
        (lambda: ndcg([1, 0], [1.0]), "one score for each of the 2 labels in y; got 1"),
        (lambda: ndcg([[1, 0]], [[1.0, 2.0]]), r"y must be one-dimensional.*\(1, 2\)"),
        (lambda: ndcg([1, 0], [[1.0, 2.0]]), r"scores must be one-dimensional.*\(1, 2\)"),
        (lambda: ndcg([1, 0], [1.0, np.nan]), r"scores must be finite; scores\[1\] is nan"),
        (lambda: ndcg([1, 0], [-np.inf, 1.0]), r"scores must be finite; scores\[0\] is -inf"),
        (lambda: ndcg([1, np.nan], [1.0, 2.0]), r"y must be finite; y\[1\] is nan"),
        (lambda: ndcg(["a", "b"], [1.0, 2.0]), "y must be numbers"),
        (lambda: ndcg([None, {}], [1.0, 2.0]), "y must be numbers"),
        (lambda: ndcg([1, 0], [1.0, 2.0], [1]), "qid must hold one query id for each of the 2"),
        (
            lambda: ndcg([1, -1], [1.0, 2.0]),
            r"y must not be negative with gain='exp'; y\[1\] is -1",
        ),
        (lambda: ndcg([1, -1], [1.0, 2.0], gain="linear"), r"gain must not be negative.*y\[1\]"),
        (lambda: ndcg([1, 2000], [1, 2]), r"gain must be finite; it is inf .* y\[1\] = 2000"),
        (lambda: dcg([1, 0], [1, 2], gain=lambda y: y / 0 * 0), r"it is nan for .* y\[0\] = 1"),
        (lambda: dcg([1, 0], [1, 2], gain=np.sum), "gain must return one value for each of the 2"),
        (lambda: err([1, -1], [1.0, 2.0]), r"y must not be negative for ERR; y\[1\] is -1"),
        (lambda: err([1, 3], [1, 2], max_grade=2), "max_grade=2 must be .* largest label in y, 3"),
        (lambda: err([1, 3], [1, 2], max_grade="4"), "max_grade='4' must be a finite number"),
        (lambda: precision([1], [1], relevant_from=None), "relevant_from=None must be a finite"),
        (lambda: precision([1], [1], relevant_from="1"), "relevant_from='1' must be a finite"),
        (lambda: ndcg([1], [1], k=0), "k=0 is not a cut-off; use an integer from 1"),
        (lambda: ndcg([1], [1], k=-3), "k=-3 is not a cut-off"),
        (lambda: ndcg([1], [1], k=2.0), "k=2.0 is not a cut-off"),
        (lambda: ndcg([1], [1], k=True), "k=True is not a cut-off"),
        (lambda: ndcg([1], [1], k="10"), "k='10' is not a cut-off"),
        (lambda: ndcg([1], [1], k=[]), r"k=\[\] is not a cut-off"),
        (lambda: ndcg([1], [1], k=[1, 0]), r"k=\[1, 0\] is not a cut-off"),
        (lambda: ndcg([1], [1], convention="ltr"), "convention must be .*'letor'.*; got 'ltr'"),
        (
            lambda: ndcg([1], [1], gain="square"),
            "gain must be .* or a callable; got 'square'",
        ),
        (lambda: ndcg([1], [1], discount="ln"), "discount must be .*'log2', 'letor'.; got 'ln'"),
        (lambda: ndcg([1], [1], ties="random"), "ties must be one of .*'average'.; got 'random'"),
        (lambda: ndcg([1], [1], empty=0), "empty must be one of .'zero', 'one', 'skip'.; got 0"),
        (lambda: ndcg([1], [1], ids=["a"]), "ids only matter with ties='first'.*ties='average'"),
        (lambda: ndcg([1], [1], ties="last", ids=["a", "b"]), "ids must hold one id for each of"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_wrong_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_negative_labels_where_they_have_a_meaning():
    assert dcg([-1, 0], [2.0, 1.0], gain="linear") == -1
    assert precision([-2, 1], [2.0, 1.0], k=2) == 0.5
    assert ndcg([-1, 1], [2.0, 1.0], gain=lambda y: y + 1) == pytest.approx(1 / LOG2_3)
