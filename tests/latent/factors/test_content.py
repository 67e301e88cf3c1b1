"""Content scores, compared with a dense matrix of all scores in double precision."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import robirank as rr
from latent.featured import model, shop
from robirank.data.feature_rows import FeatureRows
from robirank.data.user_items import UserItems, as_user_items
from robirank.latent.factors import content as content_module
from robirank.latent.factors.centres import Centres
from robirank.latent.factors.content import Content, UserContent, check_content
from robirank.latent.factors.factors import Factors, Side
from robirank.latent.factors.topk import NOTHING

WEIGHTS = Content(old=3.0, new=20.0, scale=0.5)


def made(seed=0, n_users=30, n_items=25, d=4, n_features=6, weights=WEIGHTS, whole=False):
    """Factors with content scores; of whole numbers, many scores are equal."""
    rng = np.random.default_rng(seed)
    U, V = (rng.standard_normal((n, d)) for n in (n_users, n_items))
    F = rng.random((n_items, n_features)) * (rng.random((n_items, n_features)) < 0.4)
    if whole:
        U, V, F = np.rint(U), np.rint(V), np.ceil(F)
    F = np.column_stack([F, np.full(n_items, 0.5)]).astype(np.float32)
    taken = as_user_items(sparse.csr_matrix(rng.random((n_users, n_items)) < 0.2))
    taken = UserItems(taken.indptr, taken.items, None, n_items)
    features = FeatureRows(None, sparse.csr_matrix(F))
    counts = rng.integers(0, 6, n_items).astype(np.int32)
    centres = Centres(features, np.zeros((n_features + 1, d), np.float32))
    return Factors(
        Side(U.astype(np.float32), content=UserContent(weights, taken)),
        Side(V.astype(np.float32), counts=counts, centres=centres),
    )


def plain_scores(factors):
    """ρ ⟨U_x, V_y⟩ + g ⟨mean features of the items of x, F_y⟩, without the constant."""
    users, items = factors.users, factors.items
    (old, new, scale), taken = users.content.weights, users.content.taken
    share = 1 / (1 + 2 * items.counts.astype(float))
    F = items.centres.features.matrix.toarray().astype(float)[:, :-1]
    likeness = np.zeros((len(users), len(items)))
    for x in range(len(users)):
        own = taken.items[taken.indptr[x] : taken.indptr[x + 1]]
        if len(own):
            likeness[x] = F @ F[own].mean(axis=0)
    inner = users.rows.astype(float) @ items.rows.T.astype(float)
    return (1 - share + share * scale) * inner + (
        (1 - share) * old + share * scale * new
    ) * likeness


def best_of(scores, n_best, candidates=None, excluded=None):
    """The best of each row by sorting; of equal scores the lower position comes first."""
    n_items = scores.shape[1]
    allowed = np.zeros(n_items, bool)
    allowed[np.arange(n_items) if candidates is None else candidates] = True
    lists = []
    for x, row in enumerate(scores):
        left = allowed.copy()
        if excluded is not None:
            left[excluded.items[excluded.indptr[x] : excluded.indptr[x + 1]]] = False
        places = np.flatnonzero(left)
        best = places[np.lexsort((places, -row[places]))][:n_best]
        lists.append(np.pad(best, (0, n_best - len(best)), constant_values=-1))
    return np.array(lists)


def search(factors, users, n_best, **options):
    return factors.items.search(factors.users.queries(users), n_best, **options)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 9999),
    n_best=st.integers(1, 30),
    some=st.booleans(),
    left_out=st.booleans(),
    prepared=st.booleans(),
    alone=st.booleans(),
    threads=st.integers(1, 3),
)
def test_the_best_items_are_those_of_the_formula(
    seed, n_best, some, left_out, prepared, alone, threads
):
    """Also where new items have a scale of their own alone, and content scores no weight."""
    factors = made(seed, weights=Content(0.0, 0.0, 0.5) if alone else WEIGHTS)
    rng = np.random.default_rng(seed)
    users = rng.permutation(30)[:17].astype(np.int32)
    candidates = np.flatnonzero(rng.random(25) < 0.5).astype(np.int32) if some else None
    excluded = factors.users.content.taken.rows(users) if left_out else None
    scores = plain_scores(factors)[users]
    expected = best_of(scores, n_best, candidates, excluded)
    if prepared:
        factors = factors.prepared()
    ids, found = search(
        factors, users, n_best, candidates=candidates, excluded=excluded, num_threads=threads
    )
    there = expected >= 0
    assert_array_equal(ids >= 0, there)
    assert (found[~there] == NOTHING).all()
    exact = np.take_along_axis(scores, np.maximum(expected, 0), 1)
    assert_allclose(found[there], exact[there], rtol=1e-4, atol=1e-4)
    given_scores = np.take_along_axis(scores, np.maximum(ids, 0), 1)
    assert_allclose(found[there], given_scores[there], rtol=1e-4, atol=1e-4)
    for row in ids:  # none twice
        assert len(set(row[row >= 0])) == np.count_nonzero(row >= 0)


def test_of_equal_scores_the_lower_position_comes_first():
    """Items in pairs that are alike in everything have equal scores."""
    factors = made(3)
    rows, F = factors.items.rows.copy(), factors.items.centres.features.matrix.toarray()
    counts = factors.items.counts.copy()
    rows[1::2], F[1::2], counts[1::2] = rows[0:-1:2], F[0:-1:2], counts[0:-1:2]
    centres = Centres(FeatureRows(None, sparse.csr_matrix(F)), factors.items.centres.weights)
    factors = Factors(factors.users, Side(rows, counts=counts, centres=centres))
    everyone = np.arange(30, dtype=np.int32)
    for each in (factors, factors.prepared()):
        ids, scores = search(each, everyone, 25)
        for row, values in zip(ids.tolist(), scores, strict=True):
            for even in range(0, 24, 2):
                assert row.index(even) < row.index(even + 1)
                assert values[row.index(even)] == values[row.index(even + 1)]


@settings(max_examples=20)
@given(seed=st.integers(0, 999), weight=st.sampled_from([0.0, 1.0, 4.0]))
def test_whole_numbers_have_their_ties_in_order(seed, weight):
    """Nobody has an item, so scores are scaled inner products of small whole numbers: exact."""
    factors = made(seed, weights=Content(weight, weight, 1.0), whole=True)
    nothing = UserItems(np.zeros(31, np.int64), np.zeros(0, np.int32), None, 25)
    users = Side(factors.users.rows, content=UserContent(Content(weight, weight, 1.0), nothing))
    factors = Factors(users, factors.items)
    ids, scores = search(factors, np.arange(30, dtype=np.int32), 25)
    expected = factors.users.rows @ factors.items.rows.T
    assert_array_equal(ids, best_of(expected, 25))
    assert_array_equal(scores, np.take_along_axis(expected, ids, 1))


def test_batches_and_preparation_change_no_bit(monkeypatch):
    factors, everyone = made(1), np.arange(30, dtype=np.int32)
    excluded = factors.users.content.taken
    expected = search(factors, everyone, 9, excluded=excluded)
    assert_array_equal(search(factors.prepared(), everyone, 9, excluded=excluded)[0], expected[0])
    for cells in (1, 25, 80, 1 << 20):
        monkeypatch.setattr(content_module, "_CELLS", cells)
        batches = list(factors.users.content.batches(factors.items.centres.features))
        assert_array_equal(np.concatenate(batches), everyone)
        assert max(map(len, batches)) == min(30, max(1, cells // 25))
        for ids, one in zip(search(factors, everyone, 9, excluded=excluded), expected, strict=True):
            assert_array_equal(ids, one)
    alone = search(factors, everyone[7:8], 9, excluded=excluded.rows(np.array([7])))
    assert_array_equal(alone[0][0], expected[0][7])
    assert_array_equal(alone[1][0], expected[1][7])


def test_one_user_by_hand():
    """The user has item 0, with the features (1, 0); item 1 has (1, 1), item 2 has (0, 2)."""
    F = np.array([[1, 0, 0.5], [1, 1, 0.5], [0, 2, 0.5]], np.float32)
    centres = Centres(FeatureRows(None, sparse.csr_matrix(F)), np.zeros((3, 1), np.float32))
    counts = np.array([1, 0, 1], np.int32)
    items = Side(np.array([[1], [4], [2]], np.float32), counts=counts, centres=centres)
    taken = UserItems(np.array([0, 1]), np.array([0], np.int32), None, 3)
    user = Side(np.array([[1]], np.float32), content=UserContent(Content(3.0, 8.0, 0.5), taken))
    ids, scores = search(Factors(user, items), np.array([0], np.int32), 3)
    # Item 1 is new: 0.5 · 4 + 0.5 · 8 · 1. The others have w = 1 / 3, ρ = 2 / 3 + 1 / 6 and
    # g = 3 · 2 / 3 + 4 / 3: 5 / 6 · 1 + 10 / 3 · 1 and 5 / 6 · 2 + 10 / 3 · 0.
    assert ids.tolist() == [[1, 0, 2]]
    assert_allclose(scores, [[6.0, 25 / 6, 5 / 3]], rtol=1e-6)


def test_the_constant_counts_for_nothing():
    """All items have it, so it would make everything a little like everything."""
    likeness = made(0).users.content.likeness(made(0).items.centres.features)
    other = made(0).items.centres.features
    F = other.matrix.toarray()
    F[:, -1] = 7.0
    changed = made(0).users.content.likeness(FeatureRows(None, sparse.csr_matrix(F)))
    assert_allclose(changed, likeness, atol=1e-6)


@pytest.fixture(scope="module")
def tables():
    return shop()


@pytest.fixture(scope="module")
def fitted(tables):
    data, of_users, of_items = tables
    estimator = model(content=tuple(WEIGHTS))
    return estimator.fit(data, False, user_features=of_users, item_features=of_items)


@pytest.mark.parametrize("recalculate_user", [False, True])
def test_a_model_recommends_by_the_formula(fitted, tables, recalculate_user):
    data = tables[0]
    asked = np.array([3, 77, 8, 3], np.int32)
    table = data.matrix[asked]
    factors = fitted.factors_
    if recalculate_user:
        content = UserContent(WEIGHTS, as_user_items(table).extended(4, 64))
        factors = Factors(Side(fitted.fold_in(table), content=content), factors.items)
        scores = plain_scores(factors)
    else:
        scores = plain_scores(factors)[asked]
    for liked, excluded in ((False, None), (True, as_user_items(table))):
        ids, found = fitted.recommend(
            asked, table, N=64, filter_already_liked_items=liked, recalculate_user=recalculate_user
        )
        there = ids >= 0
        expected = np.take_along_axis(scores, np.maximum(ids, 0), 1)
        assert_allclose(found[there], expected[there], rtol=1e-4, atol=1e-4)
        assert (np.diff(found, axis=1) <= 0).all()
        n_left = 64 - (0 if excluded is None else excluded.user_counts())
        assert_array_equal(there.sum(axis=1), np.broadcast_to(n_left, 4))
    among = fitted.recommend(
        asked, table, N=9, items=[5, 63, 60], recalculate_user=recalculate_user
    )
    assert set(among[0].ravel()) <= {5, 60, 63, -1}


def test_someone_new_has_the_profile_of_their_basket(fitted):
    basket = ["i1", "i2", "i2", "new3"]
    ids, scores = fitted.recommend_for(basket, N=64, filter_already_liked_items=False)
    positions = fitted.item_ids_.index(["i1", "i2", "new3"])
    row = sparse.csr_matrix((np.ones(3), (np.zeros(3, int), positions)), shape=(1, 64))
    content = UserContent(WEIGHTS, as_user_items(row))
    expected = plain_scores(
        Factors(Side(fitted.fold_in(row), content=content), fitted.factors_.items)
    )[0]
    assert_allclose(scores, expected[fitted.item_ids_.index(ids.tolist())], rtol=1e-4, atol=1e-4)


def test_prepare_changes_no_bit_of_a_model(fitted, tables):
    data = tables[0]
    asked = data.users[:].tolist()
    before = fitted.recommend(asked, data, N=9)
    someone = fitted.recommend_for([["i1"], []], features=[{"taste": "t0"}, {"taste": "t1"}])
    fitted = copy.copy(fitted).prepare()
    for answer, expected in (
        (fitted.recommend(asked, data, N=9), before),
        (
            fitted.recommend_for([["i1"], []], features=[{"taste": "t0"}, {"taste": "t1"}]),
            someone,
        ),
    ):
        assert_array_equal(answer[0], expected[0])
        assert_array_equal(answer[1], expected[1])


def test_weights_that_say_nothing_are_no_content(tables):
    data, _, of_items = tables
    none = model(content=(0, 0, 1)).fit(data, False, item_features=of_items)
    assert none.user_content_ is None
    inner = none.user_factors @ none.item_factors.T
    ids, scores = none.recommend(np.arange(9), data.matrix[:9], N=5)
    assert_allclose(scores, np.take_along_axis(inner[:9], ids, 1), rtol=1e-5)


def test_the_more_content_counts_the_more_alike_the_items_are(tables):
    """Items of other tastes disappear from the lists as the weight rises."""
    data, _, of_items = tables
    shares = []
    for weight in (0.0, 5.0, 500.0):
        estimator = model(content=(weight, weight, 1)).fit(data, False, item_features=of_items)
        F = estimator.item_centres_.features.matrix.toarray()[:, :-1]
        ids = estimator.recommend(np.arange(120), data.matrix, N=5)[0]
        profiles = data.matrix @ F[:60] / data.lengths[:, None]
        shares.append(np.einsum("xf,xkf->xk", profiles, F[np.maximum(ids, 0)])[ids >= 0].mean())
    assert shares[0] < shares[1] < shares[2]


@given(st.floats(0, 50), st.floats(0, 500), st.floats(0.01, 2))
def test_weights_go_from_those_of_new_items_to_those_of_old_ones(old, new, scale):
    scales, weights = Content(old, new, scale).of_items(np.array([0, 10**9]))
    assert_allclose(scales, [scale, 1.0], rtol=1e-5)
    assert_allclose(weights, [scale * new, old], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("given_weights", [(0, 0, 1), [1, 2.5, 3], np.array([1, 2, 3]), WEIGHTS])
def test_three_numbers_are_weights(given_weights):
    assert check_content(given_weights) == tuple(given_weights)


@pytest.mark.parametrize(
    "wrong", ["123", (1, 2), (1, 2, 3, 4), 7, (1, 2, 0), (-1, 2, 3), (1, np.inf, 1)]
)
def test_other_things_are_not(wrong):
    with pytest.raises(rr.ArgumentError, match="content must be None or three numbers"):
        check_content(wrong)


def test_what_users_have_survives_a_file():
    content = made().users.content
    again = UserContent.from_tensors(content.to_tensors("x"), "x")
    assert again.weights == content.weights
    assert again.taken.shape == content.taken.shape
    assert_array_equal(again.taken.items, content.taken.items)
    assert_array_equal(
        again.take(np.array([3, 1])).taken.items, content.take(np.array([3, 1])).taken.items
    )
