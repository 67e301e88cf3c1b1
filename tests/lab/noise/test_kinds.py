"""What each kind of noise spoils, and what it leaves alone."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

import robirank as rr
from robirank_lab.noise.kinds import LIST_KINDS, TABLE_KINDS


@pytest.fixture(scope="module")
def lists():
    data = rr.make_ranking(40, n_docs=(5, 12), n_features=6, n_grades=3, random_state=0)
    mixed = np.random.default_rng(1).permutation(len(data))  # lists need not stand together
    return data.take(mixed)


@pytest.fixture(scope="module")
def table():
    return rr.make_interactions(80, 60, 1200, random_state=0).matrix


def spoiled(kinds, kind, data, share, seed=3):
    return kinds[kind].spoil(data, share, np.random.default_rng(seed))


def changed_lists(before, after):
    differs = (before.y != after.y) | (before.X != after.X).any(axis=1)
    return set(before.qid[differs].tolist())


@pytest.mark.parametrize("kind", LIST_KINDS)
def test_the_share_says_how_much_is_spoiled(kind, lists):
    before = lists.y.copy(), lists.X.copy()
    none, some, more = (spoiled(LIST_KINDS, kind, lists, share) for share in (0.0, 0.25, 0.5))
    assert changed_lists(lists, none) == set()
    if kind == "flipped":
        turned = lists.y != some.y
        assert 0 < turned.sum() <= round(0.25 * len(lists))
        assert (lists.y != more.y)[turned].all()
    else:
        assert 0 < len(changed_lists(lists, some)) <= 10
        assert changed_lists(lists, some) <= changed_lists(lists, more)
        assert len(changed_lists(lists, more)) <= 20
    assert_array_equal(lists.y, before[0])
    assert_array_equal(lists.X, before[1])


@pytest.mark.parametrize("kind", LIST_KINDS)
def test_the_generator_decides(kind, lists):
    one, same, other = (spoiled(LIST_KINDS, kind, lists, 0.5, seed) for seed in (1, 1, 2))
    assert_array_equal(one.y, same.y)
    assert_array_equal(one.X, same.X)
    assert (one.y != other.y).any()


def test_winners_were_irrelevant_and_nobody_else_is_left(lists):
    after = spoiled(LIST_KINDS, "winners", lists, 1.0)
    for query in np.unique(lists.qid):
        old, new = lists.y[lists.qid == query], after.y[lists.qid == query]
        assert set(new.tolist()) <= {0.0, 2.0}
        assert (old[new > 0] == 0).all()
        expected = min(max(1, (old > 0).sum()), (old == 0).sum())
        assert (new > 0).sum() == expected


def test_a_list_without_irrelevant_documents_has_no_winners_to_plant():
    data = rr.RankingData(np.zeros((2, 1)), np.array([1.0, 2.0]), np.zeros(2))
    assert_array_equal(spoiled(LIST_KINDS, "winners", data, 1.0).y, data.y)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_spam_shares_one_feature(form, lists):
    given = rr.RankingData(form(lists.X), lists.y, lists.qid)
    after = spoiled(LIST_KINDS, "spam", given, 1.0)
    dense = after.X.toarray() if sp.issparse(after.X) else after.X
    (feature,) = np.flatnonzero((dense != lists.X).any(axis=0))
    assert_array_equal(dense[after.y > 0, feature], lists.X[:, feature].max())
    assert set(after.y.tolist()) == {0.0, 2.0}


def test_flipped_grades_are_opposite(lists):
    after = spoiled(LIST_KINDS, "flipped", lists, 1.0)
    assert_array_equal(after.y, 2 - lists.y)


def test_shuffled_lists_keep_their_grades(lists):
    after = spoiled(LIST_KINDS, "shuffled", lists, 1.0)
    for query in np.unique(lists.qid):
        old, new = lists.y[lists.qid == query], after.y[lists.qid == query]
        assert sorted(old) == sorted(new)


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_honest_users_come_first_and_nothing_is_lost(kind, table):
    before = table.copy()
    assert (spoiled(TABLE_KINDS, kind, table, 0.0).table != table).nnz == 0
    after = spoiled(TABLE_KINDS, kind, table, 0.2).table
    assert after.shape[1] == table.shape[1]
    assert (after[: len(table.indptr) - 1].multiply(table) != table).nnz == 0
    assert set(after.data.tolist()) == {1.0}
    if kind != "random":
        assert (after[: table.shape[0]] != table).nnz == 0
    assert (table != before).nnz == 0


def test_random_records_are_as_many_as_asked_for(table):
    after = spoiled(TABLE_KINDS, "random", table, 0.2).table
    added = after.nnz - table.nnz
    assert 0.1 * table.nnz < added <= 0.2 * table.nnz  # some were there before


def test_bots_take_half_of_a_small_catalogue(table):
    after = spoiled(TABLE_KINDS, "bots", table, 0.2).table
    bots = np.diff(after.indptr)[table.shape[0] :]
    assert bots.tolist() == [30] * round(0.2 * table.nnz / 30)
    assert spoiled(TABLE_KINDS, "bots", table, 0.001).table.shape[0] == table.shape[0] + 1


def test_shills_all_have_the_pushed_item(table):
    some, more = (spoiled(TABLE_KINDS, "shilling", table, share) for share in (0.0, 0.25))
    assert some.pushed == more.pushed
    shills = more.table[table.shape[0] :]
    assert shills.shape[0] == 20
    assert (shills[:, [more.pushed]].toarray() == 1).all()
    counts = np.bincount(table.indices, minlength=table.shape[1])
    assert 0 < counts[more.pushed] <= np.median(counts[counts > 0])
    assert np.diff(shills.indptr).tolist() == [int(np.median(np.diff(table.indptr))) + 1] * 20
    beside = np.bincount(shills.indices, minlength=table.shape[1])
    beside[more.pushed] = 0
    popular = counts > np.median(counts)
    assert beside[popular].mean() > 1.5 * beside[~popular].mean()
