"""What a fitted model is, and where its rows start: the same rows wherever they are made."""

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from robirank.data.ids import Ids
from robirank.data.user_items import UserItems
from robirank.engine.state import Rows
from robirank.latent.factors.factors import ITEMS, USERS, Factors, RandomRows, Side, random_rows


@given(st.integers(1, 60_000), st.integers(1, 5), st.integers(0, 99))
def test_some_random_rows_are_those_of_all(n, d, seed):
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(n)[: rng.integers(0, 30)].astype(np.int32) for _ in range(3)]
    whole = random_rows(seed, ITEMS, n, d)
    counts = [rng.integers(0, 2, len(numbers)) for numbers in chosen]
    wanted = [Rows(*pair) for pair in zip(chosen, counts, strict=True)]
    for numbers, rows in zip(chosen, RandomRows(seed, ITEMS, n, d)(wanted), strict=True):
        assert_array_equal(rows, whole[numbers])
    users = random_rows(seed, USERS, n, d)
    for part, rows in zip(wanted, RandomRows(seed, USERS, n, d)(wanted), strict=True):
        assert_array_equal(rows, users[part.numbers] * (part.counts > 0)[:, None])


def test_random_rows_have_length_about_one():
    lengths = np.linalg.norm(random_rows(0, USERS, 5000, 64), axis=1)
    assert_allclose(lengths.mean(), 1.0, atol=0.01)


def make(n_users=40, n_items=300, d=5):
    rng = np.random.default_rng(0)
    U, V = (rng.standard_normal((n, d)).astype(np.float32) for n in (n_users, n_items))
    U[3] = 0
    counts = rng.integers(0, 9, n_items).astype(np.int32)
    return Factors(Side(U, Ids([f"u{i}" for i in range(n_users)])), Side(V, counts=counts))


def excluded(n_users):
    rows = [np.sort(np.random.default_rng(u).permutation(300)[:u]) for u in range(n_users)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return UserItems(indptr, np.concatenate(rows).astype(np.int32), None, 300)


def test_best_items_are_those_of_a_sort_and_popular_ones_for_users_without_interactions():
    model, without = make(), excluded(40)
    best, scores = model.best_items(np.arange(40, dtype=np.int32), 7, excluded=without)
    for user in range(40):
        by_score = model.items.rows @ model.users.rows[user] if user != 3 else model.items.counts
        by_score = by_score.astype(np.float64)
        by_score[without.items[without.indptr[user] : without.indptr[user + 1]]] = -np.inf
        expected = np.lexsort((np.arange(300), -by_score))[:7]
        assert_array_equal(best[user], expected)
        assert_allclose(scores[user], by_score[expected], rtol=1e-5, atol=1e-6)


def test_prepared_factors_give_the_same_bits_and_are_pickled_without():
    model = make()
    prepared = model.prepared()
    users = np.arange(40, dtype=np.int32)
    for ours, theirs in zip(prepared.best_items(users, 9), model.best_items(users, 9), strict=True):
        assert_array_equal(ours, theirs)
    again = pickle.loads(pickle.dumps(prepared))
    assert prepared.items.prepared is not None
    assert again.items.prepared is None
    assert again.users.ids == model.users.ids
    assert_array_equal(again.items.rows, model.items.rows)


def test_other_rows_of_the_same_users_and_items():
    model = make()
    other = model.with_rows(model.users.rows + 1, model.items.rows)
    assert other.users.ids is model.users.ids
    assert other.items.counts is model.items.counts
    copied = model.copy()
    copied.users.rows[:] = np.nan
    assert model.is_finite()
    assert not copied.is_finite()
