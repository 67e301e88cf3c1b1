"""Reasons add up to the score, and are what the gradient of the user's loss says."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix

import robirank as rr
from latent import featured
from latent.plain import random_problem, user_loss
from robirank.errors import ArgumentError, RobirankError, UnknownIdError
from robirank.latent.factors import reasons as module
from robirank.latent.factors.reasons import row_terms

CONTENT = (2.0, 8.0, 0.7)


@pytest.fixture(scope="module")
def plain():
    """A model without features, and its table of outside ids."""
    table, _, _ = featured.shop()
    return featured.model(iterations=24).fit(table, show_progress=False), table


@pytest.fixture(scope="module", params=["users", "items", "both", "content"])
def with_features(request):
    """Models that know features of users, of items, of both, and one with content scores."""
    table, users, items = featured.shop()
    known = {"user_features": users, "item_features": items}
    left_out = {"users": ["item_features"], "items": ["user_features"]}.get(request.param, [])
    known = {name: part for name, part in known.items() if name not in left_out}
    content = CONTENT if request.param == "content" else (0, 0, 1)
    model = featured.model(content=content, iterations=24)
    return model.fit(table, show_progress=False, **known), table


def total(why, side="user"):
    return why.frame().filter(pl.col("side") == side)["effect"].sum()


def assert_adds_up(why, score):
    """All reasons of each side are the score, but for rounding of float32."""
    assert why.score == pytest.approx(float(score), rel=1e-5, abs=1e-6)
    assert total(why) == pytest.approx(why.score, rel=1e-5, abs=1e-6)
    if why.item_features:
        assert total(why, "item") == pytest.approx(why.score, rel=1e-5, abs=1e-6)


# One user


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    rho=st.sampled_from(["log", "identity", "type2"]),
    n_items=st.sampled_from([2, 20, 300]),
    counts=st.booleans(),
    penalty=st.floats(0.01, 100),
    cells=st.sampled_from([1, 37, 1 << 22]),
)
def test_terms_are_the_gradient_of_the_loss(seed, rho, n_items, counts, penalty, cells):
    """The sum of the terms is c − (1 / λa) Σ g_y V_y, whatever the row and the size of a chunk."""
    U, V, table, taken = random_problem(seed, 3, n_items, d=4, share=0.3, counts=counts)
    centre = U[1]
    before, module._CELLS = module._CELLS, cells
    try:
        one = taken.rows(np.array([0]))
        terms = row_terms(U[0], V, one.items, one.weight, rho=rho, penalty=penalty, centre=centre)
    finally:
        module._CELLS = before
    _, gradient = user_loss(U[0].astype(float), V.astype(float), table[0].astype(float), rho)
    expected = centre - V.T.astype(float) @ gradient / penalty
    scale = np.abs(terms.own).sum() + np.abs(terms.others).sum() + np.abs(centre).sum()
    assert_allclose(terms.row - terms.rest, expected, atol=1e-11 * scale)
    assert_allclose(terms.centre + (terms.own - terms.others).sum(0) + terms.rest, U[0], atol=1e-6)


def test_an_item_of_the_user_alone_is_its_term_of_the_loss():
    """What an item adds is the gradient of its own term: other items of the user are its rivals."""
    U, V, _, _ = random_problem(3, 1, 30, d=4)
    items = np.array([4, 9], np.int32)
    both = row_terms(U[0], V, items, rho="log", penalty=0.5)
    for k, item in enumerate(items):
        alone = row_terms(U[0], V, items[[k]], rho="log", penalty=0.5)
        assert_allclose(both.own[k], alone.own[0], rtol=1e-12)
        assert_allclose(both.others[k], alone.others[0], rtol=1e-12)
        assert_allclose(both.own[k] / V[item], (both.own[k] / V[item])[0], rtol=1e-5)


def test_items_that_are_not_compared_take_nothing():
    _, V, _, _ = random_problem(0, 1, 12, d=3)
    u, items, among = np.ones(3, np.float32), np.array([1, 5], np.int32), np.array([0, 1, 4, 5])
    some = row_terms(u, V, items, rho="log", penalty=1.0, among=among)
    left = row_terms(u, V[among], np.array([1, 3], np.int32), rho="log", penalty=1.0)
    assert_allclose(some.own, left.own)
    assert_allclose(some.others, left.others)


def test_without_items_the_row_is_the_centre():
    none = np.zeros(0, np.int32)
    V, c = np.ones((3, 2), np.float32), np.array([1, 2], np.float32)
    assert row_terms(c, V, none, rho="log", penalty=0.0, centre=c).distance == 0
    assert row_terms(0 * c, V, none, rho="log", penalty=0.0).distance == 0
    assert row_terms(c, V, none, rho="log", penalty=0.0).distance == 1


# Models


@pytest.mark.parametrize("fold_in", [False, True])
def test_reasons_add_up_to_the_score_of_recommend(plain, fold_in):
    model, table = plain
    distances = []
    for user in range(0, table.n_users, 15):
        rows = table.matrix[[user]]
        ids, scores = model.recommend(
            user, rows[0], N=60, recalculate_user=fold_in, filter_already_liked_items=False
        )
        for place in (0, 7, 59):
            why = model.explain(user, table.matrix, ids[place], recalculate_user=fold_in)
            assert_adds_up(why, scores[place])
            assert (why.user, why.item) == (user, ids[place])
            assert set(why.items) == {*rows.indices.tolist()}
            assert (np.diff(why.effects) <= 0).all()
            distances.append(why.distance)
    assert np.median(distances) < (1e-3 if fold_in else 0.02)


@pytest.mark.parametrize("fold_in", [False, True])
def test_features_are_reasons_too(with_features, fold_in):
    """Of users, of items, by content scores; for old, new and folded-in ones."""
    model, table = with_features
    for user in ("u3", "u50"):
        options = {"recalculate_user": fold_in, "filter_already_liked_items": False}
        names, scores = model.recommend(user, table, N=len(model.item_ids_), **options)
        for place in (0, 5, len(names) - 1):
            why = model.explain(user, table, names[place], recalculate_user=fold_in)
            assert_adds_up(why, scores[place])
            assert bool(why.user_features) == (model.user_centres_ is not None and not fold_in)
            assert bool(why.item_features) == (model.item_centres_ is not None)
    users = [f"u{number}" for number in range(0, 120, 7)]
    reasons = [model.explain(user, table, "i3", recalculate_user=fold_in) for user in users]
    # Centres are taken anew after the last epoch, and some users wait for an item to leave its own.
    assert np.median([why.distance for why in reasons]) < (1e-3 if fold_in else 0.15)


def test_a_new_item_is_told_by_its_features(with_features):
    model, table = with_features
    if model.item_centres_ is None:
        with pytest.raises(UnknownIdError, match="no item 'new1'"):
            model.explain("u3", table, "new1")
        return
    why = model.explain("u3", table, "new1")
    assert [*why.item_features] == ["taste=t1", "constant"]
    assert why.item_rest is None
    assert model.explain("u3", table, "i1").item_rest is not None
    assert "Of the item: taste=t1" in str(why)


def test_someone_new_is_told_what_they_like_and_are(with_features):
    model, _ = with_features
    features = None if model.user_centres_ is None else {"taste": "t2"}
    for liked in (["i3", "i4"], []):
        if not liked and features is None:
            continue
        names, scores = model.recommend_for(
            liked, N=60, features=features, filter_already_liked_items=False
        )
        why = model.explain_for(liked, names[3], features=features)
        assert_adds_up(why, scores[3])
        assert set(why.items) == set(liked)
        assert why.user is None
        assert ("taste=t2" in why.user_features) == (features is not None)
        assert why.distance < 1e-3


def test_a_new_user_of_the_model_has_features_alone(with_features):
    model, table = with_features
    if model.user_centres_ is None:
        return
    why = model.explain("new1", table, "i5")
    assert why.items == ()
    assert why.distance < 1e-6
    assert_adds_up(why, total(why))
    assert "Because of what you are: " in str(why)
    assert "taste=t1" in str(why)


def test_users_and_items_by_position_by_name_and_by_id(plain):
    model, table = plain
    by_name = model.explain("u7", table, "i3")
    by_position = model.explain(7, table.matrix, 3)
    assert by_name.items == tuple(f"i{y}" for y in by_position.items)
    assert_array_equal(by_name.effects, by_position.effects)
    for other in (
        model.explain(7, table.matrix[[7]], 3),
        model.explain(7, table, 3),
        model.explain(np.int64(7), table.matrix, np.int64(3)),
        model.by_id.explain("u7", table, "i3"),
        model.explain("u7", table.matrix[[7]], "i3"),
    ):
        assert_array_equal(other.effects, by_name.effects)


def test_the_rest_says_how_far_a_row_is_from_its_optimum(plain):
    model, table = plain
    far = model.explain("u7", table, "i3")
    near = model.explain("u7", table, "i3", recalculate_user=True)
    assert near.distance < 1e-3 < far.distance
    assert abs(near.rest) < 1e-3
    stranger = model.explain(7, table.matrix[[8]], 3)  # has other things than the row knows
    assert stranger.distance > 2 * far.distance


def test_weights_of_interactions_count():
    table = rr.make_interactions(80, 40, 900, random_state=0)
    counts = csr_matrix(table.matrix, dtype=np.float32)
    counts.data[:] = np.random.default_rng(0).integers(1, 9, counts.nnz)
    model = featured.model(weighting="count").fit(counts, show_progress=False)
    why = model.explain(5, counts, 3, recalculate_user=True)
    assert why.distance < 1e-3
    assert model.explain(5, counts.sign(), 3).distance > why.distance


def test_what_is_named_matters_more_than_the_rest():
    """Without the first reason the score falls by more than without another item."""
    table = rr.make_interactions(300, 120, 6000, factors=6, random_state=0)
    model = rr.LatentRoBiRank(16, iterations=16, random_state=0).fit(table, show_progress=False)
    named, mean = [], []
    for user in range(0, 300, 10):
        row = table.matrix[[user]]
        item = model.recommend(user, row[0], N=1, recalculate_user=True)[0][0]
        why = model.explain(user, row, item, recalculate_user=True)
        baskets = [np.delete(row.indices, k) for k in range(row.nnz)]
        scores = model.fold_in(csr_of(baskets, 120)) @ model.item_factors[item]
        falls = why.score - scores
        named.append(falls[np.flatnonzero(row.indices == why.items[0])[0]])
        mean.append(falls.mean())
    assert np.mean(named) > 2 * np.mean(mean)


def csr_of(baskets, n_items):
    indptr = np.cumsum([0, *map(len, baskets)])
    ones = np.ones(indptr[-1], np.float32)
    return csr_matrix((ones, np.concatenate(baskets), indptr), shape=(len(baskets), n_items))


# Tables and texts


def test_a_frame_of_many_is_each_alone(with_features):
    model, table = with_features
    users, items = ["u9", "u3", "u9", "new1"], ["i3", "i4", "i5", "i6"]
    if model.user_centres_ is None:
        users[3] = "u1"
    frame = model.explain_frame(users, items, table)
    columns = ["user", "item", "score", "side", "kind", "name", "effect", "others", "follows"]
    assert frame.columns == columns
    alone = [model.explain(*pair) for pair in zip(users, [table] * 4, items, strict=True)]
    for why, (pair, part) in zip(
        alone, frame.group_by("user", "item", maintain_order=True), strict=True
    ):
        assert pair == (why.user, why.item)
        assert part[columns[3:]].equals(why.frame())
        assert part["score"].unique().to_list() == [why.score]
    assert model.explain_frame([], [], table).columns == columns


def test_a_frame_explains_the_lists_of_recommend_frame(plain):
    model, table = plain
    lists = model.recommend_frame(train=table, N=2)
    frame = model.explain_frame(lists["user"], lists["item"], table)
    sums = frame.group_by("user", "item", maintain_order=True).agg(pl.col("effect").sum())
    assert_allclose(sums["effect"], lists["score"], rtol=1e-5, atol=1e-6)
    by_position = model.explain_frame([3, 4], [1, 2], table.matrix)
    assert by_position["user"].dtype == pl.Int64


def test_a_text_names_the_strongest_reasons(plain):
    model, table = plain
    why = model.explain("u3", table, "i2")
    first, because, distance = str(why).splitlines()
    assert first == f"i2 for u3, score {why.score:.4g}"
    assert because.startswith(f"Because you have {why.items[0]} ({why.effects[0]:+.3g}), ")
    left = f"{len(why.items) - 3} others ({why.effects[3:].sum():+.3g})"
    assert f"{left}; all other items together {why.others.sum():+.3g}" in because
    assert distance.startswith(f"The row is {100 * why.distance:.2g} % from its optimum")
    loud = why.text(lambda value: value.upper(), top=1)
    assert loud.startswith("I2 for U3")
    assert f"{len(why.items) - 1} others" in loud


# What is refused


def test_models_without_an_optimum_say_so(plain):
    _, table = plain
    warp = featured.model("warp").fit(table, show_progress=False)
    given = rr.FactorModel.of(np.ones((120, 2), np.float32), np.ones((60, 2), np.float32))
    for model in (warp, given, rr.Popularity().fit(table)):
        for call in (
            lambda model: model.explain(0, table.matrix, 1),
            lambda model: model.explain_for([0], 1),
            lambda model: model.explain_frame([0], [1], table.matrix),
        ):
            with pytest.raises(RobirankError, match=f"{type(model).__name__} cannot explain"):
                call(model)


def test_errors_name_the_argument(plain):
    model, table = plain
    with pytest.raises(ArgumentError, match="userid must be one; explain_frame takes several"):
        model.explain([1, 2], table.matrix, 3)
    with pytest.raises(ArgumentError, match=r"itemid must be one.*got \[3\]"):
        model.explain(1, table.matrix, [3])
    with pytest.raises(
        ArgumentError, match=r"user_items must be a CSR matrix .* one row; got None"
    ):
        model.explain(1, None, 3)
    with pytest.raises(ArgumentError, match=r"user_items must .* of all 120 users or one row"):
        model.explain(1, table.matrix[:7], 3)
    with pytest.raises(ArgumentError, match="user_items must have one column for each of the 60"):
        model.explain(1, table.matrix[:, :9], 3)
    with pytest.raises(UnknownIdError, match="itemid must be items of the model, 0 to 59; got 60"):
        model.explain(1, table.matrix, 60)
    with pytest.raises(UnknownIdError, match="there is no user 'eve'"):
        model.explain("eve", table, "i3")
    with pytest.raises(ArgumentError, match=r"liked .*one person"):
        model.explain_for([[1], [2]], 3)
    with pytest.raises(ArgumentError, match="items must have one item for each of the 2 users"):
        model.explain_frame([1, 2], [3], table.matrix)
    with pytest.raises(ArgumentError, match="train must be a table"):
        model.explain_frame([1], [3], None)
