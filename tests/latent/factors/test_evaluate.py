"""Measures of recommendations, against hand-worked values, a plain count and the metrics room."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse import coo_matrix, csr_array, csr_matrix

import robirank as rr
from latent.tiny import tiny
from robirank.latent.factors.list_metrics import METRICS

# Scores fall with the item, so that the ranking of user 0 without item 0 is 1, 2, 3, 4.
FALLING = tiny(np.ones((3, 1)), [[5], [4], [3], [2], [1]])
TRAIN = csr_matrix([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0]])
TEST = csr_matrix([[0, 0, 1, 0, 1], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]])


def random_problem(seed, n_users=40, n_items=30, density=0.15):
    rng = np.random.default_rng(seed)
    model = tiny(rng.standard_normal((n_users, 4)), rng.standard_normal((n_items, 4)))
    kind = rng.random((n_users, n_items))
    return model, csr_matrix(kind < density), csr_matrix(kind > 1 - density)


def test_hand_worked():
    result = rr.evaluate(FALLING, train=TRAIN, test=TEST, k=(1, 2, 4))
    assert result.n_users == 2  # user 2 has nothing to find
    assert result.k == (1, 2, 4)
    # User 0 finds its two items at the ranks 2 and 4, user 1 its only one at rank 1.
    assert result["precision@1"] == (0 + 1) / 2
    assert result["precision@2"] == (1 / 2 + 1 / 2) / 2
    assert result["precision@4"] == (2 / 4 + 1 / 4) / 2
    assert result["recall@2"] == (1 / 2 + 1) / 2
    assert result["recall@4"] == 1
    assert result["hit_rate@1"] == 1 / 2
    assert result["map@4"] == pytest.approx(((1 / 2 + 2 / 4) / 2 + 1) / 2)
    ideal = 1 + 1 / math.log2(3)
    assert result["ndcg@4"] == pytest.approx(
        ((1 / math.log2(3) + 1 / math.log2(5)) / ideal + 1) / 2
    )
    # Two values a and b: the standard error of their mean is |a − b| / 2.
    assert result.errors["recall@2"] == pytest.approx(1 / 4)


def test_users_with_and_without_history_are_told_apart():
    """Of four users with a test item, two have no history; item 3 has no train interaction."""
    model = tiny([[1], [0], [1], [0], [1]], [[5], [4], [3], [2]])
    model.item_counts_ = np.array([1, 1, 2, 0], dtype=np.int32)
    train = csr_matrix([[1, 0, 1, 0], [0] * 4, [0, 1, 1, 0], [0] * 4, [0, 0, 0, 0]])
    test = csr_matrix([[0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0] * 4])
    result = rr.evaluate(model, train=train, test=test, k=1)
    # Users 0 and 2 get items 1 and 0; users 1 and 3 the most popular one, item 2.
    assert (result["hit_rate@1"], result.n_users) == (1 / 2, 4)
    assert (result.with_history["hit_rate@1"], result.with_history.n_users) == (1 / 2, 2)
    assert (result.without_history["hit_rate@1"], result.without_history.n_users) == (1 / 2, 2)
    assert result.with_history["recall@1"] == 1 / 4
    assert result.coverage == rr.Coverage(2, 2, 1, 5, 3)
    assert str(result).splitlines()[-1] == (
        "2 users with history and 2 without were measured, 1 left out; 3 of their 5 test "
        "interactions are on items without a train interaction."
    )
    known = rr.evaluate(model, train=train, test=test, k=1, users=[0, 2])
    assert known.without_history is None
    assert dict(known.with_history) == dict(known) == dict(result.with_history)
    assert known.coverage == rr.Coverage(2, 0, 3, 3, 2)


@pytest.mark.filterwarnings("error")
@given(seed=st.integers(0, 999), batch_size=st.integers(1, 50))
def test_both_kinds_of_users_make_up_the_mean(seed, batch_size):
    model, train, test = random_problem(seed)
    train = csr_matrix(train.multiply(np.random.default_rng(seed).random((40, 1)) < 0.5))
    result = rr.evaluate(model, train=train, test=test, k=(1, 5), batch_size=batch_size)
    parts = [part for part in (result.with_history, result.without_history) if part is not None]
    assert sum(part.n_users for part in parts) == result.n_users
    for name in result:
        mean = sum(part[name] * part.n_users for part in parts) / result.n_users
        assert result[name] == pytest.approx(mean, abs=1e-12)


def test_any_cut_off():
    """2·10⁹ was a MemoryError; a list ends with the last item."""
    result = rr.evaluate(FALLING, train=TRAIN, test=TEST, k=(5, 2 * 10**9, 10**30))
    for k in (2 * 10**9, 10**30):
        for name in ("recall", "ndcg", "map", "hit_rate"):
            assert result[f"{name}@{k}"] == result[f"{name}@5"]
    assert result["precision@2000000000"] == pytest.approx((2 + 1) / 2 / (2 * 10**9), abs=1e-11)


def counted_one_by_one(model, train, test, k):
    rows = []
    scores = model.user_factors @ model.item_factors.T
    for user in range(test.shape[0]):
        wanted = set(test[user].indices)
        if not wanted:
            continue
        seen = set(train[user].indices)
        left = [i for i in range(test.shape[1]) if i not in seen]
        top = sorted(left, key=lambda i: (-scores[user, i], i))[:k]
        hits = [item in wanted for item in top]
        gain = sum(1 / math.log2(r + 2) for r, hit in enumerate(hits) if hit)
        best = sum(1 / math.log2(r + 2) for r in range(min(k, len(wanted))))
        precise = sum(sum(hits[: r + 1]) / (r + 1) for r, hit in enumerate(hits) if hit)
        found = sum(hits)
        rows.append(
            [found / k, found / len(wanted), gain / best, precise / len(wanted), float(found > 0)]
        )
    return np.array(rows)


@given(seed=st.integers(0, 999), k=st.integers(1, 40), batch_size=st.integers(1, 50))
def test_agrees_with_a_count_one_by_one(seed, k, batch_size):
    model, train, test = random_problem(seed)
    result = rr.evaluate(model, train=train, test=test, k=k, batch_size=batch_size)
    values = counted_one_by_one(model, train, test, k)
    errors = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    assert result.n_users == len(values)
    for metric, mean, error in zip(METRICS, values.mean(axis=0), errors, strict=True):
        assert result[f"{metric}@{k}"] == pytest.approx(mean, abs=1e-12)
        assert result.errors[f"{metric}@{k}"] == pytest.approx(error, abs=1e-9)


def test_agrees_with_the_metrics_of_lists():
    model, train, test = random_problem(3)
    users, items = np.nonzero(~train.toarray() & (test.toarray().sum(axis=1) > 0)[:, None])
    scores = (model.user_factors @ model.item_factors.T)[users, items]
    relevant = test.toarray()[users, items].astype(int)
    names = [f"{m}@{k}" for m in ("precision", "recall", "ndcg", "map") for k in (1, 5, 10)]
    lists = rr.metrics.evaluate_ranking(relevant, scores, users, metrics=names)
    result = rr.evaluate(model, train=train, test=test, k=(1, 5, 10))
    assert_allclose([result[n] for n in names], [lists[n] for n in names], rtol=1e-6)


def test_models_of_the_implicit_package_are_evaluated_too():
    """It fills short lists up with items that were to be left out; they are not counted."""
    bpr = pytest.importorskip("implicit.cpu.bpr")
    model, train, test = random_problem(5, n_items=12, density=0.4)
    peer = bpr.BayesianPersonalizedRanking(factors=4)
    peer.user_factors, peer.item_factors = model.user_factors, model.item_factors
    both = csr_matrix(train + test)  # test items that are in train too are missed by both
    for seen in (train.astype(np.float32), both.astype(np.float32)):
        ours = rr.evaluate(model, train=seen, test=test, k=(1, 12, 20))
        theirs = rr.evaluate(peer, train=seen, test=test, k=(1, 12, 20))
        assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-12)
    assert ours["recall@20"] == 0


def test_some_users_only():
    alone = rr.evaluate(FALLING, train=TRAIN, test=TEST, k=2, users=[1, 2])
    assert alone.n_users == 1
    assert alone["precision@2"] == 1 / 2
    assert math.isnan(alone.errors["precision@2"])


def test_new_users_are_folded_in():
    model = tiny([[0, 1]], [[1, 0], [0.9, 0], [0, 1]])  # as it is, user 0 wants item 2
    train, test = csr_matrix([[1, 0, 0]]), csr_matrix([[0, 1, 0]])
    assert rr.evaluate(model, train=train, test=test, k=1)["hit_rate@1"] == 0
    folded = rr.evaluate(model, train=train, test=test, k=1, recalculate_user=True)
    assert folded["hit_rate@1"] == 1


@pytest.mark.parametrize("kind", [csr_array, coo_matrix, lambda m: SimpleNamespace(matrix=m)])
def test_kinds_of_matrices(kind):
    result = rr.evaluate(FALLING, train=kind(TRAIN), test=kind(TEST))
    assert dict(result) == dict(rr.evaluate(FALLING, train=TRAIN, test=TEST))


def test_an_item_that_is_stored_twice_is_one():
    twice = csr_matrix((np.ones(2), [2, 2], [0, 2, 2, 2]), shape=(3, 5))
    result = rr.evaluate(FALLING, train=TRAIN, test=twice, k=4)
    assert (result["recall@4"], result["precision@4"]) == (1, 1 / 4)
    assert twice.nnz == 2  # what was given stays as it is


def test_the_result_reads_well():
    result = rr.evaluate(FALLING, train=TRAIN, test=TEST, k=(10, 2, 2))
    assert list(result)[:3] == ["precision@2", "recall@2", "ndcg@2"]
    assert len(result) == 2 * len(METRICS)
    lines = str(result).splitlines()
    assert lines[0].split() == ["2", "users", "@2", "@10"]
    assert lines[2].split() == ["recall", "0.7500", "±", "0.2500", "1.0000", "±", "0.0000"]
    with pytest.raises(KeyError, match="no metric 'recall@3'; there are precision@2"):
        result["recall@3"]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"k": 0}, ValueError, "k must be an integer from 1 or a sequence of them; got 0"),
        ({"k": ()}, ValueError, r"got \(\)"),
        ({"k": 1.5}, ValueError, r"got 1\.5"),
        ({"train": [[1]]}, ValueError, "train must be a sparse matrix or Interactions.*got list"),
        ({"test": TEST.toarray()}, ValueError, "test must be a sparse matrix"),
        ({"test": TEST[:2]}, ValueError, r"shapes are \(3, 5\) and \(2, 5\)"),
        ({"test": csr_matrix((3, 5))}, ValueError, "at least one item of a user"),
        ({"users": [2]}, ValueError, "at least one item of a user"),
        ({"users": [3]}, IndexError, "users must be users of the model, 0 to 2; got 3"),
        ({"batch_size": 0}, ValueError, "batch_size must be a positive integer; got 0"),
    ],
)
def test_bad_arguments(change, error, message):
    with pytest.raises(error, match=message):
        rr.evaluate(FALLING, **({"train": TRAIN, "test": TEST} | change))


NAMED = rr.Interactions.from_arrays(["ann", "bob", "eve"] * 2, [*"xyz", *"yzx"])
REORDERED = rr.Interactions.from_arrays(["eve", "bob", "ann"], [*"yxz"])


@pytest.fixture
def named_model():
    return rr.LatentRoBiRank(4, iterations=3, random_state=0).fit(NAMED, False)


def test_tables_with_ids_in_another_order_are_an_error(named_model):
    with pytest.raises(ValueError, match=r"test must have the users of train.*test\.align\("):
        rr.evaluate(named_model, train=NAMED, test=REORDERED, k=1)
    with pytest.raises(ValueError, match="train must have the users of the model"):
        rr.evaluate(named_model, train=REORDERED, test=REORDERED, k=1)
    with pytest.raises(ValueError, match="user_items must have the items of the model"):
        named_model.fold_in(REORDERED)


def test_aligned_tables_and_positions_are_taken(named_model):
    test = REORDERED.align(NAMED)
    expected = rr.evaluate(named_model, train=NAMED.matrix, test=test.matrix, k=1)
    for train in (NAMED, rr.Interactions.from_matrix(NAMED.matrix)):
        assert rr.evaluate(named_model, train=train, test=test, k=1) == expected


def test_new_users_may_have_other_ids(named_model):
    new = rr.Interactions.from_arrays(["una", "una", "ulf"], [*"xyz"])
    part = rr.evaluate(named_model, train=new, test=new, k=3, recalculate_user=True)
    assert part["recall@3"] == 0.0  # they have all of it already


# ------------------------------------------------------------------------- old and new items


def featured(scores, n_new=0, seed=0):
    """A model with these scores, one row a user, that knows features of items.

    It was fitted to a table without the last items, which only their features brought in.
    """
    scores = np.asarray(scores, np.float32)
    n_users, n_items = scores.shape
    table = csr_matrix(np.ones((n_users, n_items - n_new), np.float32))
    features = rr.Features.from_array(np.random.default_rng(seed).random((n_items, 2)))
    params = {"regularization": 0.1, "content": (0, 0, 1), "random_state": 0}
    model = rr.LatentRoBiRank(n_items, iterations=1, **params)
    model.fit(table, False, item_features=features)
    model.user_factors, model.item_factors = scores, np.eye(n_items, dtype=np.float32)
    return model


# User 0 has item 0, user 1 item 1, user 2 nothing; items 3 and 4 have no train interaction.
OLD_TRAIN = csr_matrix([[1, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0]])
MIXED_TEST = csr_matrix([[0, 1, 0, 0, 1], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]])


def test_old_and_new_items_are_measured_apart():
    """Everybody's scores fall with the item."""
    model = featured(np.tile([5, 4, 3, 2, 1], (3, 1)))
    result = rr.evaluate(model, train=OLD_TRAIN, test=MIXED_TEST, k=(1, 2))
    # All items: user 0 gets 1, 3 and finds 1; user 1 gets 0, 2 and finds 2 at last; user 2 gets
    # 0 and 1 and looks for 3.
    assert (result.n_users, result.n_items) == (3, 5)
    assert result["recall@1"] == pytest.approx((1 / 2 + 0 + 0) / 3)
    assert result["recall@2"] == pytest.approx((1 / 2 + 1 + 0) / 3)
    # Old items, 0 to 2: user 0 looks for 1 and gets it, user 1 gets 0 and then 2.
    old = result.old_items
    assert (old.n_users, old.n_items, old.coverage) == (2, 3, None)
    assert (old["recall@1"], old["recall@2"]) == (1 / 2, 1.0)
    assert old["ndcg@2"] == pytest.approx((1 + 1 / math.log2(3)) / 2)
    # New items, 3 and 4: user 0 gets 3 and then 4, for which they look; user 2 gets 3 at once.
    new = result.new_items
    assert (new.n_users, new.n_items, new.coverage) == (2, 2, None)
    assert (new["recall@1"], new["recall@2"]) == (1 / 2, 1.0)
    assert new["precision@2"] == 1 / 2
    assert (new.with_history.n_users, new.without_history.n_users) == (1, 1)
    assert (new.with_history["recall@1"], new.without_history["recall@1"]) == (0.0, 1.0)
    assert (old.old_items, new.new_items) == (None, None)
    assert result.coverage == rr.Coverage(2, 1, 0, 4, 2)
    lines = str(result).splitlines()
    assert "3 old items alone, 2 users" in lines
    assert "2 new items alone, 2 users" in lines
    assert len(lines) == 1 + 5 + 5 + 2 * (1 + 3) + 1


def test_items_that_features_brought_are_ranked_too():
    """The tables know three items, the model five; the new ones come first."""
    model = featured(np.tile([1, 2, 3, 4, 5], (3, 1)), n_new=2)
    train, test = OLD_TRAIN[:, :3], MIXED_TEST[:, :3]
    result = rr.evaluate(model, train=train, test=test, k=(1, 2, 3))
    assert result.n_items == 5
    assert (result["recall@2"], result["recall@3"]) == (0.0, 1.0)
    assert result.new_items is None  # nothing of them was held out
    assert result.old_items["recall@1"] == 1.0
    whole = rr.evaluate(model, train=OLD_TRAIN, test=widened(test), k=(1, 2, 3))
    assert whole == result
    among = rr.evaluate(model, train=train, test=test, k=1, items=[0, 1, 2])
    assert (among.old_items, among.new_items) == (None, None)
    assert dict(among) == {name: result.old_items[name] for name in among}


def widened(test):
    """The same with two more items, in which nobody has anything."""
    return csr_matrix((test.data, test.indices, test.indptr), shape=(3, 5))


def test_one_kind_of_items_may_be_missing():
    model = featured(np.tile([5, 4, 3, 2, 1], (3, 1)))
    only_new = csr_matrix([[0, 0, 0, 1, 0], [0] * 5, [0] * 5])
    result = rr.evaluate(model, train=OLD_TRAIN, test=only_new, k=1)
    assert result.old_items is None
    assert dict(result.new_items) != dict(result)
    assert result.new_items["recall@1"] == 1.0
    full = csr_matrix(np.eye(5)[:3])
    everything = rr.evaluate(model, train=csr_matrix(np.ones((3, 5))), test=full, k=1)
    assert everything.new_items is None
    assert everything.old_items["recall@1"] == 0.0  # they have all of it


def test_without_features_items_are_not_told_apart():
    result = rr.evaluate(FALLING, train=TRAIN, test=TEST, k=1)
    assert (result.old_items, result.new_items) == (None, None)
    assert "alone" not in str(result)


@settings(max_examples=25)
@given(seed=st.integers(0, 999), k=st.integers(1, 12))
def test_parts_are_evaluations_among_their_items(seed, k):
    rng = np.random.default_rng(seed)
    model = featured(rng.standard_normal((12, 10)))
    kind = rng.random((12, 10)) + 1.0 * (rng.random(10) < 0.3)
    train, test = csr_matrix(kind < 0.3), csr_matrix(kind > 0.7)
    result = rr.evaluate(model, train=train, test=test, k=k)
    is_old = np.asarray(train.sum(axis=0)).ravel() > 0
    for part, chosen in ((result.old_items, is_old), (result.new_items, ~is_old)):
        wanted = test[:, np.flatnonzero(chosen)]
        if not wanted.nnz:
            assert part is None
            continue
        assert part.n_users == np.count_nonzero(np.diff(wanted.indptr))
        assert part.n_items == np.count_nonzero(chosen)
        among = rr.evaluate(model, train=train, test=test, k=k, items=np.flatnonzero(chosen))
        assert dict(part) == dict(among)
        assert part.errors == pytest.approx(among.errors, nan_ok=True)
    some = rr.evaluate(model, train=train, test=test, k=k, users=np.arange(12), batch_size=5)
    assert dict(some) == dict(result)


def test_a_table_with_more_items_than_the_model_is_an_error():
    wide = csr_matrix((3, 6))
    for model in (featured(np.eye(3, 5)), FALLING):
        with pytest.raises(ValueError, match="train must have a column for each of the 5 items"):
            rr.evaluate(model, train=wide, test=wide, k=1)


# ----------------------------------------------------------------------- what lists show


def test_what_lists_show_hand_worked():
    """Lists are 1, 2, 3, 4 and 0, 2, 3, 4 of items with 1, 1, 0, 0, 0 interactions of 3 users."""
    model = tiny(np.ones((3, 2)), [[5, 5], [4, 4], [3, 0], [0, 2], [0, 0]])
    shown = rr.evaluate(model, train=TRAIN, test=TEST, k=(1, 2, 4)).shown
    assert [shown[f"item_coverage@{k}"] for k in (1, 2, 4)] == [2 / 5, 3 / 5, 1]
    # Shown twice, once, once, never and never: the mean difference of two over twice the mean.
    times = np.array([1, 1, 2, 0, 0])
    differences = np.abs(times[:, None] - times).mean()
    assert shown["gini@2"] == pytest.approx(differences / (2 * times.mean()))
    assert shown["novelty@4"] == pytest.approx(math.log2(3))  # all as good as taken once
    assert shown["tail@1"] == 0
    assert shown["tail@2"] == 1 / 2  # items 0 and 1 make up 80 % of two interactions
    # Items 1 and 2, or 0 and 2, are at an angle of 45°, 2 and 3 at 90°, and item 4 has no row.
    half = 1 - math.sqrt(1 / 2)
    assert shown["distance@2"] == pytest.approx(half)
    assert shown["distance@4"] == pytest.approx((half + half + 1 + 1 + 1 + 1) / 6)
    assert "distance@1" not in shown


def shown_one_by_one(lists, counts, n_users, vectors, k, n_items):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    order, head, total = sorted(range(n_items), key=lambda i: (-counts[i], i)), set(), 0
    for item in order:
        if total >= 0.8 * counts.sum():
            break
        head.add(item)
        total += counts[item]
    times, novelty, distance, tail = np.zeros(n_items), [], [], []
    for shown in lists:
        shown = [item for item in shown[:k] if item >= 0]
        times[shown] += 1
        pairs = [1 - unit[a] @ unit[b] for a in shown for b in shown if a < b]
        distance += [np.mean(pairs)] if pairs else []
        if shown:
            novelty.append(np.mean([-math.log2(max(counts[i], 1) / n_users) for i in shown]))
            tail.append(np.mean([item not in head for item in shown]))
    gini = np.abs(times[:, None] - times).mean() / (2 * times.mean())
    values = np.mean(times > 0), gini, np.mean(novelty), np.mean(distance), np.mean(tail)
    return dict(zip(("item_coverage", "gini", "novelty", "distance", "tail"), values, strict=True))


@settings(max_examples=40)
@given(seed=st.integers(0, 999), k=st.integers(2, 40), batch_size=st.integers(1, 50))
def test_what_lists_show_counted_one_by_one(seed, k, batch_size):
    model, train, test = random_problem(seed)
    result = rr.evaluate(model, train=train, test=test, k=(1, k), batch_size=batch_size)
    users = np.flatnonzero(np.diff(test.indptr))
    lists, _ = model.recommend(users, train[users], min(k, 30))
    counts = np.asarray(train.sum(axis=0)).ravel()
    expected = shown_one_by_one(lists, counts, 40, model.item_factors, k, 30)
    for name, value in expected.items():
        assert result.shown[f"{name}@{k}"] == pytest.approx(value, abs=1e-5)


def test_items_that_are_ranked_alone_are_the_catalogue():
    model, train, test = random_problem(2)
    result = rr.evaluate(model, train=train, test=test, k=30, items=np.arange(10))
    assert result.shown["item_coverage@30"] == 1
    assert 0 <= result.shown["gini@30"] < 0.5


def test_without_a_table_the_counts_are_those_of_the_fit():
    model = tiny(np.ones((3, 1)), [[5], [4], [3], [2], [1]])
    model.item_counts_ = np.array([3, 1, 0, 0, 0], np.int32)
    result = rr.evaluate(model, train=csr_matrix((3, 5)), test=TEST, k=1)
    assert result.shown["novelty@1"] == 0  # everyone has item 0


def test_models_of_others_have_what_can_be_told():
    class Fixed:
        def recommend(self, userid, user_items, N=10, recalculate_user=False, items=None):
            return np.tile(np.arange(N), (len(userid), 1)), np.ones((len(userid), N))

    result = rr.evaluate(Fixed(), train=TRAIN, test=TEST, k=2)
    assert "distance@2" not in result.shown
    assert "distance" not in result.table()
    assert result.shown["item_coverage@2"] == 2 / 5
    with pytest.raises(rr.ArgumentError, match="variety cannot be used: Fixed does not take it"):
        rr.evaluate(Fixed(), train=TRAIN, test=TEST, k=2, variety=0.5)


@pytest.mark.parametrize(
    "options", [{"variety": 0.3}, {"popularity": 1.0}, {"rules": rr.Rules(deny=[3, 4])}]
)
@pytest.mark.filterwarnings("ignore")
def test_lists_that_are_wanted_otherwise(options):
    model, train, test = random_problem(4)
    model.item_counts_ = np.asarray(train.sum(axis=0)).ravel().astype(np.int32)
    result = rr.evaluate(model, train=train, test=test, k=5, **options)
    users = np.flatnonzero(np.diff(test.indptr))
    lists, _ = model.recommend(users, train[users], 5, **options)
    hits = [
        len(set(shown) & set(test[x].indices)) / 5 for x, shown in zip(users, lists, strict=True)
    ]
    assert result["precision@5"] == pytest.approx(np.mean(hits))
    assert dict(result) != dict(rr.evaluate(model, train=train, test=test, k=5))


def test_wrong_knobs_are_refused():
    model, train, test = random_problem(4)
    with pytest.raises(rr.ArgumentError, match="variety must be a fraction from 0 to 1; got 2"):
        rr.evaluate(model, train=train, test=test, variety=2)
    with pytest.raises(rr.ArgumentError, match="popularity cannot be used"):
        rr.evaluate(model, train=train, test=test, popularity=0.5)
