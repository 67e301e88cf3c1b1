"""Generated interactions: exact sizes, power laws, and tastes that can be found."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import svds

from robirank import _core, make_interactions, split_ratio
from robirank.data.make_interactions import list_lengths


@settings(max_examples=60)
@given(
    n_users=st.integers(1, 30),
    n_items=st.integers(1, 30),
    fill=st.floats(0, 1),
    factors=st.integers(1, 5),
    noise=st.sampled_from([0.0, 0.3, 1.0]),
    exponent=st.sampled_from([0.0, 1.0, 3.0]),
    seed=st.integers(0, 999),
)
def test_exactly_as_many_distinct_pairs_as_asked_for(
    n_users, n_items, fill, factors, noise, exponent, seed
):
    n = max(1, round(fill * n_users * n_items))
    data = make_interactions(
        n_users,
        n_items,
        n,
        factors=factors,
        noise=noise,
        popularity=exponent,
        activity=exponent,
        random_state=seed,
    )
    assert data.shape == (n_users, n_items)
    assert len(data) == n  # and Interactions checks that items rise within each user
    assert data.counts is None
    if n >= n_users:
        assert data.lengths.min() >= 1


@settings(max_examples=60)
@given(
    n_users=st.integers(1, 50),
    n_items=st.integers(1, 50),
    fill=st.floats(0, 1),
    activity=st.floats(0, 3),
)
def test_lengths_add_up_and_fit(n_users, n_items, fill, activity):
    n = max(1, round(fill * n_users * n_items))
    lengths = list_lengths(n_users, n_items, n, activity, np.random.default_rng(0))
    assert lengths.sum() == n
    assert lengths.min() >= (n >= n_users)
    assert lengths.max() <= n_items


def test_lengths_beyond_32_bits():
    lengths = list_lengths(1000, 10**7, 3 * 10**9, 0.6, np.random.default_rng(0))
    assert lengths.sum() == 3 * 10**9
    assert lengths.dtype == np.int64


def test_power_laws():
    data = make_interactions(20_000, 5_000, 400_000, factors=4, noise=0.3, random_state=0)
    popular = np.sort(np.bincount(data.indices, minlength=5_000))[::-1]
    expected = 1 / (np.arange(1, 5_001) + 20)
    expected *= 400_000 / expected.sum()
    # The top is somewhat lower, since nobody has an item twice.
    np.testing.assert_allclose(popular[100:2000].sum(), expected[100:2000].sum(), rtol=0.1)
    assert 0.05 < popular[0] / 20_000 < 0.25
    lengths = np.sort(data.lengths)[::-1]
    slope = np.polyfit(np.log(np.arange(200, 15_000) + 20), np.log(lengths[200:15_000]), 1)[0]
    assert slope == pytest.approx(-0.6, abs=0.05)
    even = make_interactions(200, 5_000, 2_000, activity=0, random_state=0)
    assert set(even.lengths) == {10}
    flat = make_interactions(20_000, 100, 100_000, popularity=0, noise=1.0, random_state=0)
    counts = np.bincount(flat.indices)
    assert abs(counts - 1_000).max() < 5 * np.sqrt(1_000)


def recall_at_20(scores, train, test):
    scores = np.where(train.matrix.toarray() > 0, -np.inf, scores)
    top = np.argpartition(-scores, 20, axis=1)[:, :20]
    relevant = test.matrix.toarray() > 0
    hits = np.take_along_axis(relevant, top, axis=1).sum(axis=1)
    some = relevant.any(axis=1)
    return (hits[some] / relevant.sum(axis=1)[some]).mean()


def test_a_model_that_finds_the_tastes_beats_the_most_popular():
    data, user_factors, item_factors = make_interactions(
        2_000, 1_000, 60_000, random_state=0, return_factors=True
    )
    train, test = split_ratio(data)
    popular = np.asarray(train.matrix.sum(axis=0)).ravel() + 1
    most_popular = recall_at_20(np.broadcast_to(popular, data.shape), train, test)
    scale = sp.diags_array(popular**-0.25)
    u, s, vt = svds(train.matrix.astype(float) @ scale, k=16, random_state=0)
    found = recall_at_20((u * s) @ vt * popular**0.25, train, test)
    planted = recall_at_20(user_factors @ item_factors.T, train, test)
    assert most_popular < 0.15
    assert found > 2 * most_popular
    assert planted > found


def test_without_taste_nothing_beats_the_most_popular():
    data = make_interactions(2_000, 1_000, 60_000, noise=1.0, random_state=0)
    train, test = split_ratio(data)
    popular = np.asarray(train.matrix.sum(axis=0)).ravel()
    most_popular = recall_at_20(np.broadcast_to(popular, data.shape), train, test)
    u, s, vt = svds(train.matrix.astype(float), k=16, random_state=0)
    assert recall_at_20((u * s) @ vt, train, test) < most_popular


def test_factors_are_shares():
    _, users, items = make_interactions(50, 40, 300, factors=3, random_state=0, return_factors=True)
    assert users.shape == (50, 3)
    assert items.shape == (40, 3)
    np.testing.assert_allclose(users.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(items.sum(axis=0), 1, rtol=1e-5)
    assert min(users.min(), items.min()) >= 0


def test_seed_decides_and_threads_do_not(monkeypatch):
    first = make_interactions(random_state=5)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    for state in (5, np.random.default_rng(5)):
        again = make_interactions(random_state=state)
        assert (again.indptr == first.indptr).all()
        assert (again.indices == first.indices).all()
    with_factors, *_ = make_interactions(random_state=5, return_factors=True)
    assert (with_factors.indices == first.indices).all()
    assert (make_interactions(random_state=6).indices != first.indices).any()
    one, two = make_interactions(), make_interactions()
    assert len(one.indices) == len(two.indices)
    assert (one.indices != two.indices).any()


def draw(indptr, share, tables, seed=0):
    return _core.draw_lists(
        np.asarray(indptr, dtype=np.int64),
        np.asarray(share, dtype=np.float32),
        np.asarray(tables, dtype=np.float32),
        seed=seed,
        num_threads=1,
    )


def test_single_draws_follow_the_mixture():
    n = 200_000
    tables = [[1, 2, 3, 4, 0], [0, 0, 0, 1, 3]]
    items = draw(np.arange(n + 1), np.tile([0.25, 0.75], (n, 1)), tables)
    expected = 0.25 * np.array(tables[0]) / 10 + 0.75 * np.array(tables[1]) / 4
    np.testing.assert_allclose(np.bincount(items, minlength=5) / n, expected, atol=0.005)


@pytest.mark.parametrize("rare", [0.2, 1e-6])
def test_draws_without_repetition_follow_the_weights(rare):
    """Two of three items, weights 1, 1, rare; with 1e-6 the second draw is made in one go."""
    n = 100_000
    weights = np.array([1.0, 1.0 - rare, rare])
    items = draw(np.arange(0, 2 * n + 1, 2), np.ones((n, 1)), weights[None]).reshape(n, 2)
    p = weights / weights.sum()
    for a, b in ((0, 1), (0, 2), (1, 2)):
        expected = p[a] * p[b] / (1 - p[a]) + p[b] * p[a] / (1 - p[b])
        assert ((items == (a, b)).all(axis=1)).mean() == pytest.approx(expected, abs=0.006)


def test_the_rest_is_drawn_by_weight_too():
    """All likely items are wanted, and one of two unlikely ones, the first thrice as likely."""
    n = 20_000
    weights = np.array([[1.0, 1.0, 3e-7, 1e-7]])
    items = draw(np.arange(0, 3 * n + 1, 3), np.ones((n, 1)), weights).reshape(n, 3)
    assert (items[:, :2] == (0, 1)).all()
    assert (items[:, 2] == 2).mean() == pytest.approx(0.75, abs=0.015)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_users": 0}, "n_users must be a positive integer; got 0"),
        ({"n_items": 2.5}, "n_items must be a positive integer; got 2.5"),
        ({"n_interactions": 500_001}, "n_interactions must be at most 500000; got 500001"),
        ({"factors": 0}, "factors must be a positive integer"),
        ({"noise": 1.1}, "noise must be a fraction from 0 to 1; got 1.1"),
        ({"popularity": -1}, "popularity must be a finite number >= 0; got -1"),
        ({"activity": np.nan}, "activity must be a finite number >= 0; got nan"),
        ({"random_state": "x"}, "random_state must be"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        make_interactions(**options)
