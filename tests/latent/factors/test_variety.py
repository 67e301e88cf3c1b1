"""Varied answers against a greedy choice over all items, and damping against a regression."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix

import robirank as rr
from latent.factors.full_sort import Plain, full_sort
from latent.factors.test_content import made as made_with_content
from latent.factors.test_content import plain_scores
from latent.factors.test_rules import (
    PLAYS,
    SHOP,
    as_on_a_card,
    drawn_rules,
    recommended,
    threaded,
    unknown_of,
    whole_numbers,
)
from latent.factors.test_shards import write
from robirank.latent.factors.damping import centred_logs
from robirank.latent.factors.factor_model import FactorModel

# ------------------------------------------------------------ the same as a greedy choice of all


def greedy_value(model, user, variety, scores):
    """What an item is worth beside some others, as `FactorModel.recommend` defines it."""
    queries = model.factors_.users.queries(np.array([user], np.int32))
    spread = float(np.float32(model.factors_.items.spread_of(queries, 1)[0]))
    scale = 1 / 4 / spread if spread else 0.0
    V = model.factors_.items.rows.astype(np.float64)

    def value(item, taken):
        similarity = max((cosine(V[item], V[other]) for other in taken), default=0.0)
        return (1 - variety) * scale * float(scores[item]) - variety * max(similarity, 0.0)

    return value


def cosine(a, b):
    squares = float(a @ a) * float(b @ b)
    return float(a @ b) / np.sqrt(squares) if squares else 0.0


VARIETIES = st.sampled_from([0.03, 0.1, 0.2, 0.5, 1.0])


@settings(max_examples=200)
@given(data=st.data())
def test_agrees_with_a_greedy_choice_among_all_items(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    n, m, d = (data.draw(st.integers(*limits)) for limits in ((1, 5), (1, 80), (1, 4)))
    U, V = whole_numbers(rng, n, d), whole_numbers(rng, m, d)
    U[rng.random(n) < 0.2] = 0  # users without interactions
    counts = rng.integers(0, 4, m).astype(np.int32)
    length, variety = data.draw(st.integers(1, 12)), data.draw(VARIETIES)
    model = FactorModel.of(U, V, item_counts=counts)
    liked = rng.random((n, m)) < 0.2
    options = {"unknown_users": "popular", "variety": variety}
    plain, own = Plain(np.ones(m, bool)), np.ones((n, m), bool)
    try:
        if data.draw(st.booleans(), "rules"):
            options["rules"], plain, own = drawn_rules(data, rng, m, n)
        if data.draw(st.booleans()):
            options["filter_items"] = rng.permutation(m)[: m // 4]
            own[:, options["filter_items"]] = False
        got = recommended(model, np.arange(n), csr_matrix(liked), length, **options)
    except rr.ArgumentError as error:
        assume("contradict" not in str(error))
        raise
    own &= ~liked
    scores, wanted = U @ V.T, min(length, m)
    for x in range(n):
        if U[x].any():
            value = greedy_value(model, x, variety, scores[x])
            expected = full_sort(plain, scores[x], own[x], wanted, value=value)
        else:
            expected = full_sort(plain, counts.astype(float), own[x], wanted, counts > 0)
        assert_array_equal(got[0][x], expected[0])
        assert_array_equal(got[1][x], expected[1])
    same, others = csr_matrix(liked), [as_on_a_card(model), threaded(model), model.prepare()]
    for other, users in zip(others, (np.arange(n), np.arange(n)[::-1], [n - 1]), strict=True):
        again = recommended(other, users, same[users], length, **options)
        assert_array_equal(again[0], got[0][users])
        assert_array_equal(again[1], got[1][users])


@pytest.fixture
def random_model():
    rng = np.random.default_rng(0)
    U, V = (rng.standard_normal((n, 8)).astype(np.float32) for n in (40, 3000))
    return FactorModel.of(U, V, item_counts=rng.integers(0, 99, 3000).astype(np.int32))


@pytest.mark.parametrize("variety", [0.1, 0.3, 0.8])
def test_many_items_and_threads(random_model, variety):
    """Candidates are far fewer than items, and any number of threads has the same bits."""
    users = np.arange(40)
    expected = random_model.recommend(users, None, 10, False, variety=variety)
    scores = random_model.user_factors[3] @ random_model.item_factors.T
    value, plain = greedy_value(random_model, 3, variety, scores), Plain(np.ones(3000, bool))
    assert expected[0][3].tolist() == full_sort(plain, scores, True, 10, value=value)[0]
    for num_threads in (1, 3):
        random_model.num_threads = num_threads
        got = random_model.recommend(users, None, 10, False, variety=variety)
        assert_array_equal(got[0], expected[0])
        assert_array_equal(got[1], expected[1])
    alone = random_model.recommend(7, None, 10, False, variety=variety)
    assert_array_equal(alone[0], expected[0][7])
    shorter = random_model.recommend(users, None, 4, False, variety=variety)
    assert_array_equal(shorter[0], expected[0][:, :4])


def test_nothing_changes_without(random_model):
    users = np.arange(40)
    expected = random_model.recommend(users, None, 10, False)
    got = random_model.recommend(users, None, 10, False, variety=0, popularity=0)
    assert_array_equal(got[0], expected[0])
    assert_array_equal(got[1], expected[1])
    varied = random_model.recommend(users, None, 10, False, variety=0.2)
    assert (varied[0] != expected[0]).any()
    assert_array_equal(varied[0][:, 0], expected[0][:, 0])  # the first place is never another's


def test_lists_grow_apart_with_variety(random_model):
    V = random_model.item_factors
    unit = V / np.linalg.norm(V, axis=1, keepdims=True)

    def distance(variety):
        lists, _ = random_model.recommend(np.arange(40), None, 10, False, variety=variety)
        cosines = unit[lists] @ unit[lists].transpose(0, 2, 1)
        return 1 - (cosines.sum() - 40 * 10) / (40 * 10 * 9)

    distances = [distance(v) for v in (0, 0.05, 0.1, 0.2, 0.4)]
    assert distances == sorted(distances), distances
    assert distances[-1] > distances[0] + 0.1


# -------------------------------------------------------------------------------- popularity


def slope_of(scores, counts):
    """Of the line through scores over the logarithm of 1 + counts, of items that have any."""
    taken = counts > 0
    return np.polyfit(np.log1p(counts[taken]), scores[taken].astype(float), 1)[0]


@pytest.mark.parametrize("popularity", [0.3, 1.0])
def test_damping_takes_off_what_popularity_explains(random_model, popularity):
    counts, n = random_model.item_counts_, len(random_model.item_counts_)
    random_model.item_factors = random_model.item_factors + 0.3 * np.log1p(counts)[:, None]
    random_model.item_counts_ = counts
    users = np.arange(40)
    best, scores = random_model.recommend(users, None, n, False, popularity=popularity)
    before = random_model.user_factors @ random_model.item_factors.T
    for x in users:
        damped = np.empty(n)
        damped[best[x]] = scores[x]
        slope = slope_of(before[x], counts)
        assert slope_of(damped, counts) == pytest.approx((1 - popularity) * slope, abs=1e-4)
        expected = before[x] - popularity * slope * centred_logs(counts)
        assert_allclose(damped, expected, atol=1e-4)
        assert_array_equal(scores[x], np.sort(scores[x])[::-1])
    alone = random_model.recommend(5, None, 7, False, popularity=popularity)
    assert_array_equal(alone[0], best[5, :7])
    assert_array_equal(alone[1], scores[5, :7])
    again = (
        copy.copy(random_model).prepare().recommend(users, None, n, False, popularity=popularity)
    )
    assert_array_equal(again[1], scores)


def test_items_that_nobody_took_keep_their_scores():
    model = FactorModel.of(
        np.array([[2, 1]], np.float32),
        np.array([[1, 0], [2, 0], [3, 1], [1, 9]], np.float32),
        item_counts=np.array([1, 3, 7, 0], np.int32),
    )
    best, scores = model.recommend(0, None, 4, False, popularity=1)
    # 2, 4 and 7 for 1, 3 and 7 interactions, whose log2(1 + n) − 2 is
    # −1, 0 and 1: the slope is 5/2.
    assert dict(zip(best.tolist(), scores.tolist(), strict=True)) == pytest.approx(
        {3: 11, 0: 4.5, 1: 4, 2: 4.5}
    )


def test_items_of_equal_popularity_are_not_damped(random_model):
    random_model.item_counts_ = np.full(3000, 5, np.int32)
    expected = random_model.recommend(2, None, 9, False)
    got = random_model.recommend(2, None, 9, False, popularity=1)
    assert_array_equal(got[0], expected[0])
    assert_array_equal(got[1], expected[1])


@pytest.mark.parametrize("seed", range(3))
def test_content_scores(seed):
    """Scores that count what features say are damped and varied too."""
    factors = made_with_content(seed)
    model = FactorModel()
    model.factors_ = factors
    known = np.delete(np.arange(len(factors.users)), unknown_of(factors))
    scores, counts, m = plain_scores(factors), factors.items.counts, len(factors.items)
    best, values = model.recommend(known, None, m, False, popularity=0.7)
    for x, own, items in zip(known, values, best, strict=True):
        expected = scores[x] - 0.7 * slope_of(scores[x], counts) * centred_logs(counts)
        assert_allclose(own, expected[items], rtol=1e-4, atol=1e-4 * abs(expected).max())
    queries = factors.users.queries(known.astype(np.int32))
    assert_allclose(factors.items.spread_of(queries, 1), scores[known].std(axis=1), rtol=1e-4)
    varied, _ = model.recommend(known, None, 6, False, variety=0.5)
    for x, items in zip(known, varied, strict=True):
        value = greedy_value(model, x, 0.5, scores[x])
        expected = full_sort(Plain(np.ones(m, bool)), scores[x], True, 6, value=value)[0]
        reached = [value(i, items[:k].tolist()) for k, i in enumerate(items)]
        best = [value(i, expected[:k]) for k, i in enumerate(expected)]
        assert_allclose(reached, best, atol=1e-4)


@pytest.mark.parametrize(
    "options", [{"variety": 0.4}, {"popularity": 0.6}, {"variety": 0.3, "popularity": 1}]
)
def test_models_in_shards(tmp_path, options):
    rng = np.random.default_rng(1)
    U, V = whole_numbers(rng, 20, 2), whole_numbers(rng, 33, 2)
    one = rr.load_model(write(tmp_path, (U, V)))
    shards = rr.ShardedModel(tmp_path)
    counts = rng.integers(0, 9, 33).astype(np.int32)
    one.item_counts_ = shards.factors_.items.counts = counts
    options = {"filter_already_liked_items": False, "unknown_users": "empty"} | options
    expected = one.recommend(np.arange(20), None, 6, **options)
    got = shards.recommend(np.arange(20), None, 6, **options)
    assert_array_equal(got[0], expected[0])
    assert_array_equal(got[1], expected[1])
    if "popularity" in options:
        columns = pickle.loads(pickle.dumps(shards.factors_.damping)).items
        assert_array_equal(columns.rows, one.factors_.damping.items.rows)


# ---------------------------------------------------------------------- every way of asking


@pytest.fixture
def model():
    """Rum and gin are alike, ale is the next, then tea; oat and pie nobody had."""
    made = FactorModel.of(
        np.array([[3, 1], [1, 3], [0, 0]], np.float32),
        np.array([[0, 2], [2, 0], [1.9, 0], [1, 1], [0, 0], [0.1, 0]], np.float32),
        item_counts=np.array([4, 3, 2, 1, 0, 0], np.int32),
    )
    made.user_ids_, made.item_ids_ = PLAYS.users, PLAYS.items
    return made


def test_every_way_of_asking(model):
    options = {"variety": 0.8}
    assert model.recommend("ann", PLAYS, 3)[0].tolist() == ["rum", "gin", "ale"]
    assert model.recommend("ann", PLAYS, 3, **options)[0].tolist()[:2] == ["rum", "oat"]
    assert model.by_id.recommend("ann", PLAYS, 2, **options)[0].tolist() == ["rum", "oat"]
    frame = model.recommend_frame(["ann"], PLAYS, 2, **options)
    assert frame["item"].to_list() == ["rum", "oat"]
    rules = rr.Rules(SHOP, deny=["oat", "pie"], pin={1: "gin"})
    names, scores = model.recommend("ann", PLAYS, 3, rules=rules, variety=0.8)
    assert names.tolist() == ["gin", "ale", "rum"]
    assert scores.tolist() == pytest.approx([5.7, 4, 6])
    damped = model.recommend("ann", PLAYS, 3, popularity=1)
    assert damped[0].tolist() == ["rum", "gin", "ale"]
    with pytest.warns(rr.UnknownUserWarning):
        model.recommend("zoe", PLAYS, 3, **options)


def test_new_users():
    data = rr.make_interactions(60, 40, 900, random_state=0)
    fitted = rr.LatentRoBiRank(factors=4, random_state=0, iterations=3).fit(data, False)
    plain, _ = fitted.recommend_for([[1, 2], [3]], 6)
    varied, _ = fitted.recommend_for([[1, 2], [3]], 6, variety=0.5)
    damped, scores = fitted.recommend_for([[1, 2], [3]], 6, popularity=0.8)
    assert plain.tolist() != varied.tolist()
    assert plain.tolist() != damped.tolist()
    assert (np.diff(scores, axis=1) <= 0).all()
    folded, _ = fitted.recommend([0, 1], data.matrix[:2], 6, recalculate_user=True, variety=0.5)
    assert folded.shape == (2, 6)


def test_users_without_interactions_get_popular_items(model):
    for options in ({"variety": 1}, {"popularity": 1}, {"variety": 0.5, "rules": rr.Rules()}):
        names, scores = recommended(model, "zoe", PLAYS, 4, unknown_users="popular", **options)
        assert names.tolist() == ["tea", "rum", "gin", "ale"]
        assert scores.tolist() == [4, 3, 2, 1]


# --------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("value", [-0.1, 1.5, np.nan, "much", None])
@pytest.mark.parametrize("name", ["variety", "popularity"])
def test_what_is_no_fraction_is_refused(model, name, value):
    with pytest.raises(rr.ArgumentError, match=f"{name} must be a fraction from 0 to 1"):
        model.recommend("ann", PLAYS, 3, **{name: value})


def test_models_without_counts_cannot_be_damped():
    model = FactorModel.of(np.ones((1, 1), np.float32), np.ones((2, 1), np.float32))
    with pytest.raises(rr.ArgumentError, match="popularity cannot be used: this model does not"):
        model.recommend(0, None, 1, False, popularity=0.5)


def test_what_is_made_for_damping_goes_with_the_model(random_model):
    first = random_model.factors_.damping
    assert random_model.factors_.damping is first
    random_model.recommend(1, None, 5, False, popularity=1, variety=0.5)
    assert len(pickle.dumps(random_model)) < 1.1 * len(
        pickle.dumps(
            FactorModel.of(
                random_model.user_factors,
                random_model.item_factors,
                item_counts=random_model.item_counts_,
            )
        )
    )
    random_model.item_counts_ = random_model.item_counts_[::-1].copy()
    assert random_model.factors_.damping is not first
