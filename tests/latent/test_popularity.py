"""Popularity, overall and in the last days."""

from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from robirank import Interactions, Popularity, evaluate, load_model, make_interactions, split_ratio

USERS = ["ann", "ann", "bob", "bob", "eve", "dan"]
ITEMS = ["tea", "rum", "tea", "gin", "tea", "gin"]
DAYS = [datetime(2024, 5, 1) + timedelta(days=n) for n in (0, 1, 2, 29, 30, 31)]


@pytest.fixture
def plays():
    return Interactions.from_arrays(USERS, ITEMS, times=DAYS)


def test_what_most_users_have_comes_first(plays):
    model = Popularity().fit(plays)
    assert model.item_counts_.tolist() == [3, 1, 2]
    ids, scores = model.recommend(["ann", "dan", "eve"], plays, N=2)
    assert ids.tolist() == [["gin", None], ["tea", "rum"], ["gin", "rum"]]
    assert scores[1].tolist() == [3, 1]
    assert model.recommend_for(["tea"], N=2)[0].tolist() == ["gin", "rum"]


@pytest.mark.filterwarnings("error")
def test_a_user_without_interactions_gets_the_same():
    model = Popularity().fit(csr_matrix([[1, 0, 2], [0, 0, 7], [0, 0, 0]]), show_progress=False)
    ids, scores = model.recommend([2], csr_matrix((1, 3)), N=3)
    assert (ids.tolist(), scores.tolist()) == ([[2, 0, 1]], [[2, 1, 0]])


@pytest.mark.parametrize(
    ("window", "counts"),
    [("31d", [2, 1, 2]), ("4w", [1, 0, 2]), ("25h", [1, 0, 1]), ("24h", [0, 0, 1])],
)
def test_a_window_of_days_ends_with_the_latest_record(plays, window, counts):
    """An interaction as old as the window is outside of it."""
    assert Popularity(window).fit(plays).item_counts_.tolist() == counts


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.integers(1, 60))
def test_a_window_of_numbers(times, window):
    n = len(times)
    data = Interactions.from_arrays(range(n), [f"item {k % 3}" for k in range(n)], times=times)
    recent = [k % 3 for k in range(n) if max(times) - times[k] < window]
    expected = np.bincount(recent, minlength=data.n_items)
    assert Popularity(window).fit(data).item_counts_.tolist() == expected.tolist()


def test_it_is_a_model_like_the_others(plays, tmp_path):
    model = Popularity("4w").fit(plays)
    model.save(tmp_path / "model")
    for loaded in (load_model(tmp_path / "model"), Popularity.load(tmp_path / "model")):
        assert loaded.get_params() == model.get_params() == {"window": "4w", "num_threads": 0}
        assert (
            loaded.recommend("ann", plays)[0].tolist() == model.recommend("ann", plays)[0].tolist()
        )
        assert loaded.item_counts_.tolist() == [1, 0, 2]
    assert not hasattr(clone(model), "item_factors")
    with pytest.raises(NotFittedError, match="call fit first"):
        Popularity().recommend(0)
    with pytest.raises(NotImplementedError, match="knows no similar items"):
        model.similar_items("tea")
    with pytest.raises(NotImplementedError, match="knows no similar users"):
        model.similar_users("ann")


def test_new_users_are_measured_as_others_are():
    train, test = split_ratio(make_interactions(200, 50, 2000, random_state=0), random_state=0)
    model = Popularity().fit(train)
    known, new = (
        evaluate(model, train=train, test=test, k=10, recalculate_user=new) for new in (False, True)
    )
    assert dict(known) == dict(new)


@pytest.mark.parametrize("window", ["30", "d", "0d", "1.5d", "30 d", 30, True, timedelta(days=30)])
def test_windows_of_dates_are_text(plays, window):
    with pytest.raises(ValueError, match=r"window must be text such as.*times are dates; got"):
        Popularity(window).fit(plays)


@pytest.mark.parametrize(("window", "message"), [("30d", "number"), (0, "positive"), (-1, "pos")])
def test_windows_of_numbers_are_numbers(window, message):
    data = Interactions.from_arrays(USERS, ITEMS, times=range(6))
    with pytest.raises(ValueError, match=f"window must be a {message}.*got {window!r}"):
        Popularity(window).fit(data)


@pytest.mark.parametrize("table", [csr_matrix([[1]]), Interactions.from_arrays(USERS, ITEMS)])
def test_a_window_needs_times(table):
    with pytest.raises(ValueError, match="window='30d' needs a table with times"):
        Popularity("30d").fit(table)
