"""Held-out interactions in groups: those of old users and items, of new items, of new users."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

import robirank as rr
from latent.featured import shop
from latent.tiny import as_factors
from robirank.data.feature_rows import FeatureRows
from robirank.data.user_items import as_user_items
from robirank.latent.factors.content import Content
from robirank.latent.train.local import with_features
from robirank.latent.tune.judge import Judge, groups
from robirank.latent.tune.path import hold_out, value_of
from robirank.latent.tune.settle import settle_by_table
from robirank.latent.tune.split import Split

# Item 3 and user 2 have nothing to train on; user 3 has nothing held out.
TRAIN = [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0]]
HELD_OUT = [[0, 0, 1, 1], [1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]]


def table(rows, users=True, items=True):
    """A table whose users, items or both have features: one that says nothing."""
    interactions = as_user_items(sparse.csr_matrix(np.array(rows, np.float32)))
    known = [FeatureRows(None, sparse.csr_matrix(np.ones((n, 1), np.float32))) for n in (4, 4)]
    return replace(
        interactions,
        user_features=known[0] if users else None,
        item_features=known[1] if items else None,
    )


def split(users=True, items=True, metric="recall@1"):
    return Split(table(TRAIN, users, items), table(HELD_OUT, False, False), metric)


def problem(train, **params):
    return settle_by_table(rr.LatentRoBiRank(2, random_state=0, **params).request(), train)


def spelled(group):
    """The held-out items by user."""
    rows = np.split(group.held_out.items, group.held_out.indptr[1:-1])
    return {int(user): row.tolist() for user, row in zip(group.users, rows, strict=True)}


def test_groups_by_hand():
    found = groups(split(), 0, 100)
    assert list(found) == ["old", "new_items", "new_users"]
    assert spelled(found["old"]) == {0: [2], 1: [0]}
    assert spelled(found["new_items"]) == {0: [3]}
    assert spelled(found["new_users"]) == {2: [1]}  # and not 3: both would be new
    assert [group.candidates.tolist() for group in found.values()] == [[0, 1, 2], [3], [0, 1, 2]]
    assert found["old"].taken.items.tolist() == [0, 1, 1, 2]
    assert found["new_users"].taken.n_interactions == 0


@pytest.mark.parametrize(
    ("users", "items", "names"),
    [(True, False, ["old", "new_users"]), (False, True, ["old", "new_items"])],
)
def test_only_what_has_features_can_be_new(users, items, names):
    found = groups(split(users, items), 0, 100)
    assert list(found) == names
    if users:  # an item without interactions is an item like others
        assert spelled(found["old"]) == {0: [2, 3], 1: [0]}
        assert spelled(found["new_users"]) == {2: [1, 3]}
        assert found["old"].candidates.tolist() == [0, 1, 2, 3]
    else:
        assert spelled(found["old"]) == {0: [2], 1: [0], 2: [1]}
        assert spelled(found["new_items"]) == {0: [3], 2: [3]}


def test_a_group_without_interactions_is_left_out():
    held_out = np.array(HELD_OUT)
    held_out[:3, :3] = 0  # new items alone
    parts = Split(table(TRAIN), table(held_out, False, False), "recall@1")
    assert list(groups(parts, 0, 100)) == ["new_items"]


def test_values_by_hand():
    """Scores fall with the item; who has an item does not get it again."""
    factors = as_factors(np.ones((4, 1), np.float32), np.array([[4], [3], [2], [1]], np.float32))
    parts = Judge(split(), problem(split().train)).parts(factors)
    # User 0 gets item 2 and user 1 item 0; user 0 gets the only new item; user 2 gets item 0.
    assert parts == {"old": 1.0, "new_items": 1.0, "new_users": 0.0}
    assert value_of(parts) == 1.0
    assert value_of({"new_items": 0.25, "new_users": 0.75}) == 0.5
    two = split(metric="recall@2")
    assert Judge(two, problem(two.train)).parts(factors)["new_users"] == 1.0


def test_content_scores_count_where_weights_are_given():
    """Items 0 and 2 share a feature, and items 1 and 3: who has one gets the other."""
    F = np.array([[1, 0, 0.5], [0, 1, 0.5], [1, 0, 0.5], [0, 1, 0.5]], np.float32)
    train = replace(table([[1, 0, 0, 0], [0, 1, 0, 0]] * 2), user_features=None)
    train = replace(train, item_features=FeatureRows(None, sparse.csr_matrix(F)))
    held_out = table([[0, 0, 1, 0], [0, 0, 0, 1]] * 2, False, False)
    judge = Judge(Split(train, held_out, "recall@1"), problem(train))
    factors = as_factors(np.zeros((4, 2), np.float32), np.zeros((4, 2), np.float32))
    assert judge.parts(factors) == {"new_items": 0.5}  # of equal scores the first item wins
    assert judge.parts(factors, Content()) == {"new_items": 0.5}
    assert judge.parts(factors, Content(0.0, 5.0, 1.0)) == {"new_items": 1.0}


def test_without_features_there_is_one_group():
    parts = split(users=False, items=False)
    factors = as_factors(np.ones((4, 1), np.float32), np.array([[4], [3], [2], [1]], np.float32))
    found = Judge(parts, problem(parts.train)).parts(factors)
    # Users 0 and 1 get one of theirs, of two and of one; user 2 of two gets none.
    assert found == {"old": pytest.approx((0.5 + 1 + 0) / 3)}


@settings(max_examples=40)
@given(seed=st.integers(0, 999), share=st.floats(0.05, 0.9))
def test_every_held_out_interaction_is_in_one_group_unless_both_are_new(seed, share):
    rng = np.random.default_rng(seed)
    all_of_it = rng.random((20, 15)) < 0.3
    taken = all_of_it & (rng.random((20, 15)) < share)
    taken[rng.random(20) < 0.2], taken[:, rng.random(15) < 0.2] = True, True
    train, held_out = all_of_it & ~taken, all_of_it & taken
    rows = [sparse.csr_matrix(m.astype(np.float32)) for m in (train, held_out)]
    tables = [as_user_items(m) for m in rows]
    known = [FeatureRows(None, sparse.csr_matrix(np.ones((n, 1), np.float32))) for n in (20, 15)]
    tables[0] = replace(tables[0], user_features=known[0], item_features=known[1])
    found = groups(Split(*tables, "recall@5"), seed, 100)
    both_new = held_out & ~train.any(1)[:, None] & ~train.any(0)[None, :]
    seen = np.zeros_like(held_out)
    for name, group in found.items():
        for user, items in spelled(group).items():
            assert not seen[user, items].any()
            seen[user, items] = True
            assert set(items) <= set(group.candidates)
            assert train[user].any() == (name != "new_users")
            assert (train[:, items].any(0) == (name != "new_items")).all()
    assert_array_equal(seen, held_out & ~both_new)


def test_a_sample_of_users_stands_for_all():
    data, _, of_items = shop(300, 60, 3000)
    interactions = with_features(as_user_items(data), None, of_items)
    parts = hold_out(interactions, 0, "recall@5")
    whole, some = groups(parts, 0, 1000), groups(parts, 0, 50)
    for name, group in some.items():
        assert len(group.users) == 50
        assert set(group.users) <= set(whole[name].users)
        assert (np.diff(group.users) > 0).all()
        rows = spelled(whole[name])
        assert spelled(group) == {user: rows[user] for user in group.users.tolist()}
    assert_array_equal(groups(parts, 0, 50)["old"].users, some["old"].users)


@pytest.mark.parametrize(("users", "items"), [(True, False), (False, True), (True, True)])
def test_a_tenth_of_what_has_features_is_held_out_whole(users, items):
    data, of_users, of_items = shop(300, 200, 6000)
    interactions = with_features(
        as_user_items(data), of_users if users else None, of_items if items else None
    )
    parts = hold_out(interactions, 0, "recall@5")
    assert parts.train.n_interactions + parts.held_out.n_interactions == 6000
    had = interactions.item_counts() > 0, interactions.user_counts() > 0
    new_items = (parts.train.item_counts() == 0) & had[0]
    new_users = (parts.train.user_counts() == 0) & had[1]
    assert 0.03 < new_items.mean() < 0.2 if items else new_items.mean() < 0.03
    assert 0.05 < new_users.mean() < 0.16 if users else not new_users.any()
    other = hold_out(interactions, 1, "recall@5")
    assert not np.array_equal(other.held_out.items, parts.held_out.items)
