"""Everything that is random takes the same kinds of random_state."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from robirank import (
    RankNet,
    RoBiRank,
    RobustClassifier,
    make_interactions,
    make_ranking,
    split_ratio,
)

DATA = make_ranking(n_queries=10, n_docs=8, n_features=3, random_state=0)
TABLE = make_interactions(60, 40, 600, random_state=0)


def start_of_robirank(random_state):
    model = RoBiRank(init="random", max_iter=1, tol=1e9, random_state=random_state)
    return model.fit(DATA.X, DATA.y, qid=DATA.qid).coef_


def ranknet(random_state):
    model = RankNet(max_iter=1, random_state=random_state)
    return model.fit(DATA.X, DATA.y, qid=DATA.qid).predict(DATA.X)


def start_of_classifier(random_state):
    model = RobustClassifier(init="random", tol=1e9, random_state=random_state)
    return model.fit(DATA.X, DATA.y > 0).coef_


DRAWS = {
    "make_ranking": lambda r: make_ranking(5, n_docs=6, n_features=2, random_state=r).X,
    "make_interactions": lambda r: make_interactions(50, 40, 500, random_state=r).indices,
    "split_ratio": lambda r: split_ratio(TABLE, random_state=r)[0].indices,
    "RoBiRank": start_of_robirank,
    "RankNet": ranknet,
    "RobustClassifier": start_of_classifier,
}
each_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())


@each_draw
@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_a_source_of_random_numbers_decides_and_moves_on(draw, kind):
    first, other = kind(3), kind(3)
    drawn = draw(first)
    assert_array_equal(draw(other), drawn)
    assert not np.array_equal(draw(first), drawn)


@each_draw
def test_an_integer_decides_and_none_does_not(draw):
    assert_array_equal(draw(4), draw(np.int64(4)))
    assert not np.array_equal(draw(4), draw(5))
    assert not np.array_equal(draw(None), draw(None))


@each_draw
@pytest.mark.parametrize("value", [-1, "now", 0.5])
def test_anything_else_is_refused_by_name(draw, value):
    with pytest.raises(ValueError, match=f"random_state must be an integer ≥ 0.*{value}"):
        draw(value)
