"""The order of records as tables, against plain loops."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from robirank.data.sequences import LAST, WINDOW, followers, hold_out_last, last_items
from robirank.data.user_items import UserItems


@st.composite
def tables(draw, distinct: bool = False):
    """A table with times, of which some are equal unless they are to be distinct."""
    n_items = draw(st.integers(1, 15))
    rows = draw(st.lists(st.sets(st.integers(0, n_items - 1)), min_size=1, max_size=5))
    items = np.array([y for row in rows for y in sorted(row)], np.int32)
    indptr = np.cumsum([0, *map(len, rows)])
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    times = rng.permutation(len(items)) if distinct else rng.integers(0, 3, len(items))
    return UserItems(indptr, items, None, n_items, times=times)


def dense(table: UserItems):
    matrix = sparse.csr_matrix((table.weight, table.items, table.indptr), shape=table.shape)
    return matrix.toarray()


@given(tables(distinct=True), st.booleans())
def test_followers_are_those_of_a_loop(table, weighted):
    weight = np.linspace(0.5, 1, len(table.items)).astype(np.float32) if weighted else None
    expected = np.zeros((table.n_items, table.n_items))
    for begin, end in zip(table.indptr[:-1], table.indptr[1:], strict=True):
        order = begin + np.argsort(table.times[begin:end])
        for i, lead in enumerate(order):
            for gap, then in enumerate(order[i + 1 : i + 1 + WINDOW], 1):
                value = (1.0 if weight is None else weight[then]) / gap
                expected[table.items[lead], table.items[then]] += value
    found = followers(table, 0, weight)
    assert_allclose(dense(found), expected, rtol=1e-5)
    assert (found.weight > 0).all()


@given(tables(), st.integers(0, 9))
def test_records_at_one_time_follow_each_other_in_some_order(table, seed):
    found = dense(followers(table, seed))
    by_another = dense(followers(table, seed + 1))
    # Whichever comes first, a pair counts once.
    assert_allclose(found.sum(), by_another.sum(), rtol=1e-5)
    assert_array_equal(found, dense(followers(table, seed)))
    for begin, end in zip(table.indptr[:-1], table.indptr[1:], strict=True):
        if end - begin == 2 and len(table.items) == 2:
            a, b = table.items
            assert found[a, b] + found[b, a] == 1.0


@given(tables())
def test_last_items_share_the_weights_of_their_places(table):
    found = dense(last_items(table))
    for user, (begin, end) in enumerate(zip(table.indptr[:-1], table.indptr[1:], strict=True)):
        times = table.times[begin:end]
        by_place = np.array([1 / (1 + k) if k < LAST else 0.0 for k in range(end - begin)])
        place_of = np.argsort(np.argsort(-times, kind="stable"))
        share = np.array([by_place[place_of[times == t]].mean() for t in times])
        expected = np.zeros(table.n_items)
        expected[table.items[begin:end]] = share / share.sum() if end > begin else 0.0
        assert_allclose(found[user], expected, atol=1e-6)


@given(tables())
def test_without_times_all_items_are_the_last(table):
    found = dense(last_items(replace(table, times=None)))
    counts = table.user_counts()
    assert_allclose(found.sum(axis=1), counts > 0, atol=1e-6)
    for user in np.flatnonzero(counts):
        assert_allclose(found[user][found[user] > 0], 1 / counts[user], rtol=1e-6)


def test_the_latest_records_are_held_out():
    indptr = np.array([0, 2, 5, 35])
    items = np.concatenate([np.arange(2), np.arange(3), np.arange(30)]).astype(np.int32)
    times = np.concatenate([[1, 2], [9, 8, 7], np.arange(30)])
    held = hold_out_last(UserItems(indptr, items, None, 30, times=times))
    assert_array_equal(np.flatnonzero(held), [2, 32, 33, 34])  # none of two, one of three
