"""Every loss over scores: one value, one gradient entry a row, and it is the derivative."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from robirank import make_ranking
from robirank._queries import group_queries
from robirank.classifier import margin_loss
from robirank.ltr._push import PushLists
from robirank.ltr._regularized import lists_that_differ
from robirank.ltr.infnormpush import InfNormPush
from robirank.ltr.irpush import IRPush
from robirank.ltr.listnet import TopOneEntropy
from robirank.ltr.rankboost import ExponentialPairs
from robirank.ltr.ranknet import PairList
from robirank.ltr.ranksvm import PairSum
from robirank.objectives.listwise import Lists

DATA = make_ranking(n_queries=6, n_docs=7, n_features=3, noise=0.5, random_state=0)
SHUFFLE = np.random.default_rng(0).permutation(len(DATA))
Y = DATA.y[SHUFFLE].astype(np.float64)
QUERIES = group_queries(DATA.qid[SHUFFLE], len(Y))
PARTS = PushLists(*lists_that_differ(DATA.X[SHUFFLE], Y, QUERIES))
SIGN = np.where(Y > 0, 1.0, -1.0)

LOSSES = {
    "Lists": Lists.build(Y, QUERIES, method="direct"),
    "Lists, type2": Lists.build(Y, QUERIES, rho="type2", method="direct"),
    "PairSum": PairSum(Y, QUERIES),
    "TopOneEntropy": TopOneEntropy(Y, QUERIES),
    "ExponentialPairs": ExponentialPairs(Y, QUERIES),
    "ExponentialPairs, queries": ExponentialPairs(Y, QUERIES, balance="queries"),
    "PairList": PairList(np.arange(len(Y)), np.array([5, 20, len(Y)])),
    "InfNormPush": partial(InfNormPush(p=4.0)._score_loss, PARTS),
    "IRPush": partial(IRPush(p=4.0, loss="logistic")._score_loss, PARTS),
    "margin_loss": partial(margin_loss, SIGN, np.full(len(Y), 1 / len(Y)), "type1"),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_the_slope_is_the_derivative(loss):
    n_rows = PARTS.rows().shape[0] if hasattr(loss, "lists") else len(Y)
    scores = np.random.default_rng(1).standard_normal(n_rows)
    before = scores.copy()
    value, slope = loss(scores)
    assert isinstance(value, float)
    assert slope.shape == scores.shape
    assert_array_equal(scores, before)
    h = 1e-5
    rises = [(loss(scores + h * e)[0] - loss(scores - h * e)[0]) / (2 * h) for e in np.eye(n_rows)]
    assert_allclose(slope, rises, rtol=1e-5, atol=1e-8)
