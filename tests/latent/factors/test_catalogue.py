"""A catalogue that changes after the fit, and people of whom features are known."""

import datetime
import io
import warnings

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import robirank as rr
from latent.featured import TASTES, model, same_bits, shop, taste_of

CONTENT = (2.0, 8.0, 0.5)
SAY = {"show_progress": False}


@pytest.fixture(scope="module")
def tables():
    return shop()


@pytest.fixture(scope="module")
def saved(tables, tmp_path_factory):
    """Files of models that tests may change once they are loaded."""
    data, of_users, of_items = tables
    folder = tmp_path_factory.mktemp("models")
    both = {"user_features": of_users, "item_features": of_items}
    for name, estimator in (
        ("plain", model().fit(data, **SAY)),
        ("featured", model().fit(data, **SAY, **both)),
        ("content", model(content=CONTENT).fit(data, **SAY, **both)),
        ("warp", model("warp").fit(data, **SAY, **both)),
    ):
        estimator.save(folder / name)
    return folder


@pytest.fixture(params=["featured", "content", "warp"])
def shelf(request, saved):
    """A model that knows features of both sides; it may be changed."""
    return rr.load_model(saved / request.param)


@pytest.fixture
def featured(saved):
    return rr.load_model(saved / "featured")


def things(*names_and_tastes):
    names, tastes = zip(*names_and_tastes, strict=True)
    return rr.Features.from_frame({"id": [*names], "taste": [f"t{t}" for t in tastes]})


# --------------------------------------------------------------------------------- add_items


def test_added_items_are_where_items_of_their_kind_without_interactions_are(shelf, tables):
    """The fit knew new0 to new3, of the tastes 0 to 3; the same things come again."""
    data = tables[0]
    before = len(shelf.item_ids_)
    assert shelf.add_items(things(("a", 2), ("b", 0))) is shelf
    assert list(shelf.item_ids_)[before:] == ["a", "b"]
    assert_array_equal(shelf.item_factors[-2:], shelf.item_factors[[62, 60]])
    assert shelf.item_counts_[-2:].tolist() == [0, 0]
    ids, scores = shelf.recommend("u3", data, N=100)
    found = dict(zip(ids, scores, strict=True))
    assert (found["a"], found["b"]) == (found["new2"], found["new0"])
    # Of equal scores the item that came first is first.
    assert ids.tolist().index("new2") + 1 == ids.tolist().index("a")


def test_the_answers_about_other_items_stay(shelf, tables):
    data = tables[0]
    asked = data.users[:].tolist()
    among = data.items[:].tolist()
    before = shelf.recommend(asked, data, N=9, items=among)
    someone = shelf.recommend_for(["i1", "i2"], features={"taste": "t1"}, items=among)
    shelf.add_items(things(("a", 2), ("b", 0)))
    for answer, expected in (
        (shelf.recommend(asked, data, N=9, items=among), before),
        (shelf.recommend_for(["i1", "i2"], features={"taste": "t1"}, items=among), someone),
    ):
        assert_array_equal(answer[0], expected[0])
        assert_array_equal(answer[1], expected[1])


def test_an_added_item_can_be_asked_for_in_every_way(shelf, tables, tmp_path):
    data = tables[0]
    shelf.add_items(things(("a", 2)))
    assert shelf.similar_items("a", N=2)[0].tolist() == ["a", "new2"]
    assert_allclose(shelf.similar_items("a", N=2)[1], 1.0, rtol=1e-6)
    tastes = taste_of(tables[2])
    neighbours = shelf.similar_items("a", N=6, filter_items=["new2"])[0].tolist()
    assert [tastes[item] for item in neighbours[1:]].count(2) >= 4
    assert shelf.recommend("u0", data, items=["a"])[0].tolist() == ["a"]
    assert "a" not in shelf.recommend("u0", data, N=99, filter_items=["a"])[0]
    assert "a" not in shelf.recommend_for(["a"], N=99)[0]
    assert shelf.recommend_frame(["u0"], data, N=99).filter(pl.col("item") == "a").height == 1
    shelf.save(tmp_path / "model")
    same_bits(rr.load_model(tmp_path / "model"), shelf)
    assert rr.load_model(tmp_path / "model").recommend("u0", data, items=["a"])[0][0] == "a"


def test_features_of_a_known_item_take_the_place_of_the_old_ones(featured):
    rows = featured.item_factors.copy()
    featured.add_items(things(("new0", 3), ("i5", 1)))
    assert len(featured.item_ids_) == 64
    # Without interactions an item has the factors that its features say, with some it keeps its.
    assert_array_equal(featured.item_factors[60], rows[63])
    assert_array_equal(featured.item_factors[:60], rows[:60])
    same = featured.item_centres_.features.matrix
    assert_array_equal(same[5].toarray(), same[61].toarray())


def test_added_items_can_be_added_again_and_trained(featured, tables):
    featured.add_items(things(("a", 2)))
    featured.add_items(things(("a", 1), ("b", 2)))
    assert list(featured.item_ids_)[-2:] == ["a", "b"]
    assert_array_equal(featured.item_factors[-2:], featured.item_factors[[61, 62]])
    featured.partial_fit(tables[0].extend({"user": ["u0", "u1"], "item": ["b", "b"]}), iterations=1)
    assert featured.item_counts_[-2:].tolist() == [0, 2]
    assert not np.array_equal(featured.item_factors[65], featured.item_factors[62])


def test_a_model_of_positions_grows_by_the_next_positions(tables):
    data, _, of_items = tables
    frame = {"id": np.arange(64), "taste": of_items.columns["taste"]}
    estimator = model().fit(data.matrix, **SAY, item_features=rr.Features.from_frame(frame))
    estimator.add_items(things((65, 3), (64, 1)))
    assert estimator.item_factors.shape == (66, 8)
    assert_array_equal(estimator.item_factors[[64, 65]], estimator.item_factors[[61, 63]])
    # A matrix may have the columns of the fit, of all items, or any number between them.
    for n in (60, 64, 66):
        matrix = sp.csr_matrix(
            (data.matrix.data, data.matrix.indices, data.matrix.indptr), (120, n)
        )
        assert 65 in estimator.recommend(0, matrix[0], N=66)[0]
        assert 64 in estimator.recommend(0, matrix[0], N=66, recalculate_user=True)[0]
    assert 65 not in estimator.recommend(0, data.matrix[0], N=66, filter_items=[65])[0]
    with pytest.raises(rr.ArgumentError, match="new ones from 66 on without a gap; got 67"):
        estimator.add_items(things((67, 0)))
    with pytest.raises(rr.ArgumentError, match="features must have positions as ids"):
        estimator.add_items(things(("a", 0)))


def test_a_prepared_model_may_grow(featured, tables):
    data = tables[0]
    featured.prepare()
    before = featured.recommend("u0", data, N=64)
    featured.add_items(things(("a", 2)))
    after = featured.recommend("u0", data, N=65)
    assert set(after[0]) - set(before[0]) == {"a"}
    again = featured.prepare().recommend("u0", data, N=65)
    assert_array_equal(again[1], after[1])


def test_unknown_values_are_counted(featured):
    with pytest.warns(rr.UnknownValueWarning, match="features: values .* 2 of 'taste'"):
        featured.add_items(things(("a", 7), ("b", 9), ("c", 1)))
    # Nothing is known of them but that they are items.
    assert_array_equal(*featured.item_factors[-3:-1])


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        ({"taste": "t1"}, TypeError, "features must be Features, such as .*; got dict"),
        ([["a", "t1"]], TypeError, "features must be Features, such as .*; got list"),
        (None, TypeError, "features must be Features"),
        (
            rr.Features.from_frame({"id": ["a"], "colour": ["red"]}),
            ValueError,
            r"must have the columns \['taste'\] of the fit; 'colour' is none of them",
        ),
        (
            rr.Features.from_frame({"id": ["a"], "taste": ["t0"], "size": [3]}),
            ValueError,
            "'size' is none of them",
        ),
    ],
)
def test_what_cannot_be_added_is_refused_and_changes_nothing(
    featured, saved, features, error, message
):
    with pytest.raises(error, match=message):
        featured.add_items(features)
    same_bits(featured, rr.load_model(saved / "featured"))


def test_a_model_without_features_of_items_has_a_fixed_catalogue(saved, tables):
    data, of_users, _ = tables
    only_users = model().fit(data, **SAY, user_features=of_users)
    for estimator in (rr.load_model(saved / "plain"), only_users, rr.Popularity().fit(data)):
        with pytest.raises(rr.ArgumentError, match="fitted without features of items"):
            estimator.add_items(things(("a", 1)))


# ------------------------------------------------------------------------------ remove_items


@pytest.mark.parametrize("name", ["plain", "featured", "content", "warp"])
def test_removed_items_are_gone_and_nothing_else_changes(saved, tables, tmp_path, name):
    data = tables[0]
    whole, part = (rr.load_model(saved / name) for _ in range(2))
    gone = ["i0", "i7", "i59"]
    assert part.remove_items(gone) is part
    left = [item for item in whole.item_ids_ if item not in gone]
    assert list(part.item_ids_) == left
    asked = data.users[:20].tolist()
    if name != "content":  # there, what users had counts, and is less now
        for answer, expected in zip(
            part.recommend(asked, data, N=9),
            whole.recommend(asked, data, N=9, items=left),
            strict=True,
        ):
            assert_array_equal(answer, expected)
    assert_array_equal(
        part.similar_items("i1", N=9)[0], whole.similar_items("i1", N=9, items=left)[0]
    )
    with pytest.raises(rr.UnknownIdError, match="itemid: there is no item 'i7' in the model"):
        part.similar_items("i7")
    with pytest.raises(rr.UnknownIdError, match="liked: there is no item 'i7' in the model"):
        part.recommend_for(["i7"])
    with pytest.warns(rr.UnknownIdWarning, match="1 of 2 items unknown"):
        part.recommend_for(["i7", "i8"], unknown="ignore")
    part.save(tmp_path / "model")
    same_bits(rr.load_model(tmp_path / "model"), part)


def test_what_users_had_of_removed_items_says_nothing_any_more(saved):
    estimator = rr.load_model(saved / "content")
    taken = estimator.user_content_.taken
    liked = estimator.item_ids_[taken.items[: taken.indptr[1]]].tolist()
    estimator.remove_items(liked[1:])
    taken = estimator.user_content_.taken
    assert taken.n_items == len(estimator.item_ids_)
    assert estimator.item_ids_[taken.items[: taken.indptr[1]]].tolist() == liked[:1]


def test_positions_after_a_removed_item_change(tables):
    data = tables[0]
    estimator = model().fit(data.matrix, **SAY)
    rows = estimator.item_factors.copy()
    estimator.remove_items([3, 5])
    assert_array_equal(estimator.item_factors, np.delete(rows, [3, 5], axis=0))
    estimator.remove_items(0)
    assert_array_equal(estimator.item_factors, np.delete(rows, [0, 3, 5], axis=0))
    assert estimator.remove_items([]).item_factors.shape == (57, 8)


def test_a_removed_item_can_come_back(featured, tables):
    row = featured.item_factors[60].copy()
    featured.remove_items(["new0"]).add_items(things(("new0", 0)))
    assert list(featured.item_ids_)[-1] == "new0"
    assert_array_equal(featured.item_factors[-1], row)
    featured.remove_items(["i3"])
    featured.partial_fit(tables[0], iterations=1)  # the table has it still
    assert list(featured.item_ids_)[-1] == "i3"
    assert featured.item_counts_[-1] == np.count_nonzero(tables[0].indices == 3)


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        (["i0", "i99"], rr.UnknownIdError, "items: there is no item 'i99' in the model"),
        ([64], rr.UnknownIdError, "items must be items of the model, 0 to 63; got 64"),
        ([-1], rr.UnknownIdError, "0 to 63; got -1"),
        (np.arange(64), rr.ArgumentError, "items must leave at least one item in the model"),
        ([1.5], IndexError, "items must be a list of integers; got float64"),
        (["i0", 3], TypeError, "ids must be all text"),
    ],
)
def test_what_cannot_be_removed_is_refused_and_changes_nothing(
    featured, saved, items, error, message
):
    with pytest.raises(error, match=message):
        featured.remove_items(items)
    same_bits(featured, rr.load_model(saved / "featured"))


def test_integers_that_are_ids_are_meant_by_id(tables):
    """What is asked `by_id` is the model itself: it has the new catalogue too."""
    data, _, of_items = tables
    ids = np.arange(100, 164)
    plays = rr.Interactions.from_matrix(data.matrix, data.users, ids[:60])
    about = rr.Features.from_frame({"id": ids, "taste": of_items.columns["taste"]})
    estimator = model().fit(plays, **SAY, item_features=about)
    asked = estimator.by_id
    assert asked.remove_items([103, 161]) is asked
    asked.by_id.add_items(things((200, 1)))
    for each in (estimator, asked):
        assert list(each.item_ids_)[-3:] == [162, 163, 200]
        assert 103 not in each.by_id.recommend("u0", plays, N=99)[0]
        assert 200 in each.by_id.recommend("u0", plays, N=99)[0]
    assert estimator.by_id.recommend_for([100, 200], N=2)[0].shape == (2,)
    with pytest.raises(rr.UnknownIdError, match="there is no item 103 in the model"):
        estimator.by_id.remove_items([103])


def test_ids_may_be_tuples(tables):
    data, _, of_items = tables
    ids = [("shop", y) for y in range(64)]
    plays = rr.Interactions.from_matrix(data.matrix, data.users, ids[:60])
    about = rr.Features.from_frame({"id": ids, "taste": of_items.columns["taste"]})
    estimator = model().fit(plays, **SAY, item_features=about)
    estimator.by_id.remove_items([("shop", 3)])
    estimator.add_items(rr.Features.from_frame({"id": [("shop", 99)], "taste": ["t1"]}))
    assert ("shop", 3) not in list(estimator.item_ids_)
    assert estimator.by_id.similar_items([("shop", 99)], N=2)[0].tolist() == [
        [("shop", 99), ("shop", 61)]
    ]


def test_evaluate_after_the_catalogue_has_changed(shelf, tables):
    """Items that were added are ranked; of items that were removed no table may speak."""
    data = tables[0]
    train, test = rr.split_ratio(data, 0.3, random_state=0)
    before = rr.evaluate(shelf, train=train, test=test, k=5)
    assert (before.n_items, before.old_items.n_items) == (64, 60)
    shelf.add_items(things(("a", 0), ("b", 1)))
    after = rr.evaluate(shelf, train=train, test=test, k=5)
    assert (after.n_items, after.old_items.n_items, after.new_items) == (66, 60, None)
    assert dict(after.old_items) == dict(before.old_items)
    shelf.remove_items(["a", "b"])
    assert rr.evaluate(shelf, train=train, test=test, k=5) == before
    shelf.remove_items(["i3"])
    with pytest.raises(rr.ArgumentError, match="train must have the items of the model"):
        rr.evaluate(shelf, train=train, test=test, k=5)
    with pytest.raises(rr.ArgumentError, match="train must have a column for each of the 63 items"):
        rr.evaluate(shelf, train=sp.csr_matrix((120, 64)), test=sp.csr_matrix((120, 64)), k=5)
    names = rr.Interactions.from_matrix(sp.csr_matrix((124, 63)), shelf.user_ids_, shelf.item_ids_)
    parts = [part.align(names, unseen="drop") for part in (train, test)]
    assert rr.evaluate(shelf, train=parts[0], test=parts[1], k=5).n_items == 63


# ----------------------------------------------------------------------------- recommend_for


@pytest.mark.parametrize("name", ["featured", "content", "warp"])
def test_features_alone_are_enough(saved, tables, name):
    """Someone of a taste gets what a new user of this taste gets, and items of the taste."""
    shelf, tastes = rr.load_model(saved / name), taste_of(tables[2])
    for taste in range(TASTES):
        ids, scores = shelf.recommend_for(features={"taste": f"t{taste}"}, N=8)
        assert [tastes[item] for item in ids].count(taste) >= 6
        known = shelf.recommend(f"new{taste}", N=8, filter_already_liked_items=False)
        assert ids.tolist() == known[0].tolist()
        assert_array_equal(scores, known[1])


def test_a_basket_and_features_count_together(shelf, tables):
    """The more a basket has of another taste, the less features count."""
    tastes = taste_of(tables[2])
    of_taste_0 = [item for item in tables[0].items if tastes[item] == 0][:6]

    def share_of_taste_0(basket, features):
        ids = shelf.recommend_for(basket, features=features, N=8)[0]
        return np.mean([tastes[item] == 0 for item in ids])

    alone = share_of_taste_0([], {"taste": "t1"})
    both = share_of_taste_0(of_taste_0, {"taste": "t1"})
    assert alone < both
    assert share_of_taste_0(of_taste_0, None) > 0.5
    assert share_of_taste_0(of_taste_0[:1], {"taste": "t0"}) > 0.5


@pytest.mark.filterwarnings("error")
def test_a_batch_gives_what_each_gets_alone(saved):
    """Others may have items that nobody had in the fit: they are nobody else's losers."""
    shelf = rr.load_model(saved / "content")
    shelf.add_items(things(("a", 2)))
    baskets = [["i1", "i2"], [], ["new1", "i3"], ["a"], ["new1", "i8", "i9"]]
    about = [{"taste": "t1"}, {"taste": "t0"}, {}, {"taste": "t3"}, {"taste": None}]
    together = shelf.recommend_for(baskets, features=about, N=12)
    for i in range(5):
        alone = shelf.recommend_for(baskets[i], features=about[i], N=12)
        assert together[0][i].tolist() == alone[0].tolist()
        assert_allclose(together[1][i], alone[1], rtol=1e-5, atol=1e-6)


def test_features_may_be_dicts_or_features(shelf):
    frame = rr.Features.from_frame({"id": ["p", "q"], "taste": ["t2", "t0"]})
    dicts = [{"taste": "t2"}, {"taste": "t0"}]
    expected = shelf.recommend_for([[], []], features=dicts, N=5)
    for answer in (
        shelf.recommend_for([[], []], features=frame, N=5),
        shelf.recommend_for(features=frame, N=5),
        shelf.recommend_for(features=dicts, N=5),
        shelf.recommend_for([], features=tuple(dicts), N=5),
    ):
        assert_array_equal(answer[0], expected[0])
        assert_array_equal(answer[1], expected[1])
    one = shelf.recommend_for(features={"taste": "t0"}, N=5)[0]
    assert one.tolist() == expected[0][1].tolist()
    assert shelf.recommend_for(features=dicts[:1], N=5)[0].shape == (1, 5)


def test_the_answer_is_in_the_words_of_the_question(shelf):
    """Nothing but features was said, so ids are what the model was fitted to: text."""
    assert isinstance(shelf.recommend_for(features={"taste": "t1"}, N=1)[0][0], str)
    assert shelf.recommend_for([3], features={"taste": "t1"}, N=1)[0].dtype == np.int32
    assert isinstance(shelf.by_id.recommend_for(features={"taste": "t1"}, N=1)[0][0], str)


def test_a_value_that_the_fit_had_not_seen_is_counted(shelf):
    about = [{"taste": taste} for taste in ("t9", "t8", None, "t1")]
    with pytest.warns(rr.UnknownValueWarning, match="features: .* 2 of 'taste'"):
        scores = shelf.recommend_for(features=about)[1]
    assert_array_equal(scores[0], scores[1])
    assert_array_equal(scores[0], scores[2])
    assert not np.array_equal(scores[0], scores[3])


@pytest.mark.parametrize(
    ("question", "error", "message"),
    [
        ({"features": 5}, TypeError, "^features must be Features, a dict .*; got int"),
        ({"features": "t1"}, TypeError, "^features must be Features, a dict .*; got str"),
        ({"features": ["t1"]}, TypeError, "^features must be Features, a dict .*; got list"),
        ({"features": []}, ValueError, "^features must have a row for each person"),
        ({"features": {"colour": "red"}}, ValueError, r"the columns \['taste'\].*'colour'"),
        (
            {"liked": ["i1"], "features": [{"taste": "t1"}] * 2},
            ValueError,
            "^features must have a row for each person; it has 2 for 1 lists of liked",
        ),
        (
            {"liked": [["i1"], []], "features": {"taste": "t1"}},
            ValueError,
            "^features must have a row for each person; it has 1 for 2 lists of liked",
        ),
    ],
)
def test_wrong_features_of_someone_are_refused(shelf, question, error, message):
    with pytest.raises(error, match=message):
        shelf.recommend_for(**question)


def test_features_need_a_fit_with_features_of_users(saved, tables):
    data, _, of_items = tables
    only_items = model().fit(data, **SAY, item_features=of_items)
    for estimator in (rr.load_model(saved / "plain"), only_items, rr.Popularity().fit(data)):
        with pytest.raises(rr.ArgumentError, match=r"^features cannot be used: the \w+ was fitted"):
            estimator.recommend_for(["i1"], features={"taste": "t1"})
    with pytest.raises(
        rr.ArgumentError, match=r"^user_features cannot be used: the \w+ was fitted"
    ):
        only_items.fold_in(data, {"taste": "t1"})


def test_without_features_someone_is_known_by_what_they_like(shelf):
    """A model that knows features answers about people of whom it is told none."""
    ids, _ = shelf.recommend_for(["i1", "i2"], N=5)
    assert len(set(ids)) == 5
    with pytest.warns(rr.UnknownUserWarning, match="the answer is the most popular items"):
        popular = shelf.recommend_for([], N=3)[0]
    counts = dict(zip(shelf.item_ids_, shelf.item_counts_, strict=True))
    assert [counts[item] for item in popular] == sorted(counts.values())[:-4:-1]


def test_fold_in_begins_at_what_features_say(shelf):
    n = len(shelf.item_ids_)
    taken = sp.csr_matrix(([1.0, 1.0], ([1, 1], [4, 8])), shape=(3, n))
    about = [{"taste": "t1"}, {"taste": "t2"}, {}]
    rows = shelf.fold_in(taken, about)
    centres = shelf.user_centres_.of(shelf.user_centres_.features.rows_of("x", about))
    assert_array_equal(rows[[0, 2]], centres[[0, 2]])
    assert not np.allclose(rows[1], centres[1])
    assert_array_equal(shelf.fold_in(taken)[0], 0.0)
    with pytest.raises(rr.ArgumentError, match="user_features must have a row for each of the 3"):
        shelf.fold_in(taken, about[:2])
    with pytest.raises(rr.ArgumentError, match="user_items must have one column for each of the"):
        shelf.fold_in(sp.csr_matrix((1, n + 1)))


def test_a_table_may_have_fewer_users_than_features_have(featured, tables):
    """Features brought four users; a table of the fit says nothing of them."""
    data = tables[0]
    by_position = featured.recommend_frame([0, 123], data.matrix, N=2)
    assert by_position["user"].to_list() == [0, 0, 123, 123]
    by_name = featured.recommend_frame(["u0", "new3"], data, N=2)
    positions = featured.item_ids_.index(by_name["item"].to_list())
    assert positions.tolist() == by_position["item"].to_list()
    assert featured.recommend_frame(train=data, N=1).height == 124
    with pytest.raises(rr.ArgumentError, match="train must be a CSR matrix of all 124 users"):
        featured.recommend_frame([0], sp.csr_matrix((125, 60)))


def test_a_list_may_be_text_in_one_row_and_a_list_in_another(tables):
    data = tables[0]
    tags = {"id": data.users[:].tolist(), "tags": ["red|small", "red", "old|blue"] * 40}
    estimator = model().fit(data, **SAY, user_features=rr.Features.from_frame(tags))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        about = [{"tags": "red|small"}, {"tags": ["red", "small"]}, {"tags": None}, {}]
        scores = estimator.recommend_for(features=about)[1]
    assert_array_equal(scores[0], scores[1])
    assert_array_equal(scores[2], scores[3])
    assert not np.array_equal(scores[0], scores[2])


def test_values_of_every_kind_describe_someone(tables):
    """A row of the fit, given as a dict, is the same row again."""
    data = tables[0]
    n = data.n_users
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=d) for d in range(n)]
    table = {
        "id": data.users[:].tolist(),
        "brand": ["Acme", "Bolt"] * (n // 2),
        "tags": ["x|y", "y"] * (n // 2),
        "price": np.arange(n) * 1.5,
        "since": days,
        "title": ["a red ball", "some blue bolt"] * (n // 2),
        "picture": [[float(i), 2.0] for i in range(n)],
    }
    features = rr.Features.from_frame(table)
    assert list(features.kinds.values()) == ["category", "list", "number", "date", "text", "vector"]
    estimator = model().fit(data, **SAY, user_features=features)
    rows = estimator.user_centres_.features
    someone = {name: table[name][4] for name in features.columns}
    for same in (
        someone,
        someone | {"since": "2020-01-05", "price": "6", "tags": ["y", "x"]},
        someone | {"picture": np.array([4.0, 2.0]), "since": datetime.datetime(2020, 1, 5)},
    ):
        found = rows.rows_of("features", same).matrix.toarray()
        assert_allclose(found, rows.matrix[4].toarray(), atol=1e-6)
        assert estimator.recommend_for(features=same, N=3)[0].shape == (3,)
    for wrong, message in (
        ({"price": "dear"}, "price must hold finite numbers; row 0 has 'dear'"),
        ({"price": np.inf}, "price must hold finite numbers; row 0 has inf"),
        ({"since": "soon"}, "since must hold numbers or dates such as .*; got 'soon'"),
        ({"picture": [1.0]}, "picture must have 2 entries a row, as in the fit; got 1"),
        ({"picture": [1.0, np.nan]}, "picture must hold finite numbers; row 0 has nan at 1"),
        ({"picture": "red"}, "picture must hold vectors of numbers; row 0 has 'red'"),
        ({5: "red"}, "5 is none of them"),
    ):
        with pytest.raises(rr.ArgumentError, match=message):
            estimator.recommend_for(features=wrong)


def test_a_sparse_matrix_describes_people_by_a_sparse_matrix(tables):
    data = tables[0]
    counts = sp.random(120, 12, 0.3, "csr", random_state=0)
    about = rr.Features.from_matrix(counts, data.users[:])
    estimator = model().fit(data, **SAY, user_features=about)
    ids, _ = estimator.recommend_for(features=rr.Features.from_matrix(counts[:5]), N=3)
    assert ids.shape == (5, 3)
    with pytest.raises(rr.ArgumentError, match=r"counts must be a sparse matrix, as .*; got list"):
        estimator.recommend_for(features={"counts": [0] * 12})
    with pytest.raises(rr.ArgumentError, match="counts must have 12 entries a row, as in the fit"):
        estimator.recommend_for(features=rr.Features.from_matrix(counts[:5, :7]))


def test_another_fit_forgets_the_features(tables):
    data, of_users, of_items = tables
    estimator = model(content=CONTENT)
    estimator.fit(data, **SAY, user_features=of_users, item_features=of_items)
    before = estimator.item_factors.copy()
    with pytest.raises(rr.ArgumentError, match="item_features must have rows for some"):
        estimator.fit(data, **SAY, item_features=of_users)
    assert_array_equal(estimator.item_factors, before)  # what fails changes nothing
    same_bits(estimator.fit(data, **SAY), model().fit(data, **SAY))
    assert "new0" not in list(estimator.item_ids_)


def test_an_index_of_a_model_with_content_scores_is_warned_of(saved, tmp_path):
    pytest.importorskip("usearch.index")
    with pytest.warns(UserWarning, match="the index has factors alone, and the model adds content"):
        rr.export_index(rr.load_model(saved / "content"), tmp_path / "items.usearch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rr.export_index(rr.load_model(saved / "featured"), tmp_path / "items.usearch")
        rr.export_index(rr.load_model(saved / "content"), tmp_path / "users.usearch", what="users")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "train", "save"]),
        st.lists(st.integers(0, 69), min_size=1, max_size=4, unique=True),
    ),
    max_size=6,
)


@settings(max_examples=15)
@given(steps=STEPS, name=st.sampled_from(["featured", "content"]))
def test_whatever_happens_to_the_catalogue_its_parts_fit_together(saved, tables, steps, name):
    """The tastes of the items are written down beside; i60 to i69 are not in the table."""
    estimator, data = rr.load_model(saved / name), tables[0]
    tastes = taste_of(tables[2])
    for step, numbers in steps:
        items = [f"i{number}" for number in numbers]
        if step == "add":
            new = {item: number % TASTES for item, number in zip(items, numbers, strict=True)}
            estimator.add_items(things(*new.items()))
            tastes |= new
        elif step == "remove":
            items = [item for item in items if item in tastes]
            estimator.remove_items(items)
            tastes = {item: taste for item, taste in tastes.items() if item not in items}
        elif step == "train":
            plays = rr.Interactions.from_arrays(["u1", "una"] * len(items), items * 2)
            estimator.partial_fit(plays, iterations=1)
            tastes = dict.fromkeys(items, None) | tastes  # of new ones nothing is known
        else:
            file = io.BytesIO()
            estimator.save(file)
            file.seek(0)
            same_bits(rr.load_model(file), estimator)
    ids, n = list(estimator.item_ids_), len(tastes)
    assert set(ids) == tastes.keys()
    assert len(ids) == n
    centres = estimator.item_centres_
    assert estimator.item_factors.shape == (n, 8)
    assert len(estimator.item_counts_) == len(centres) == n
    names, matrix = centres.features.encoder.names, centres.features.matrix.toarray()
    for item, row in zip(ids, matrix, strict=True):
        words = {name for name, value in zip(names, row, strict=True) if value} - {"constant"}
        assert words == (set() if tastes[item] is None else {f"taste=t{tastes[item]}"})
    untrained = estimator.item_counts_ == 0
    expected = centres.of(centres.features)[untrained]
    assert_array_equal(estimator.item_factors[untrained], expected)
    if name == "content":
        assert estimator.user_content_.taken.shape == (len(estimator.user_ids_), n)
    found = estimator.recommend("u1", data, N=n, filter_already_liked_items=False)[0]
    assert sorted(found) == sorted(ids)
