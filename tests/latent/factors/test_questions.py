"""Outside ids in questions and answers."""

from collections import Counter
from datetime import date

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix

from latent.tiny import tiny
from robirank import (
    Interactions,
    LatentRoBiRank,
    UnknownIdWarning,
    UnknownUserWarning,
    load_model,
)

#: Who has what; codes of users and items follow the order of appearance.
PLAYS = [
    ("ann", "Metallica"),
    ("ann", "Slayer"),
    ("bob", "Metallica"),
    ("bob", "Megadeth"),
    ("eve", "ABBA"),
    ("eve", "Queen"),
    ("dan", "ABBA"),
]
USERS, ITEMS = ["ann", "bob", "eve", "dan"], ["Metallica", "Slayer", "Megadeth", "ABBA", "Queen"]


@pytest.fixture(scope="module")
def plays() -> Interactions:
    return Interactions.from_arrays(*zip(*PLAYS, strict=True))


@pytest.fixture(scope="module")
def model(plays):
    return LatentRoBiRank(factors=4, random_state=0).fit(plays, show_progress=False)


@pytest.fixture(scope="module")
def numbered():
    """The same people and bands with integers for ids, none of them its position."""
    data = Interactions.from_arrays(
        [{"ann": 3, "bob": 0, "eve": 17, "dan": 2}[user] for user, _ in PLAYS],
        [{"Metallica": 4, "Slayer": 3, "Megadeth": 2, "ABBA": 1, "Queen": 0}[i] for _, i in PLAYS],
    )
    return data, LatentRoBiRank(factors=4, random_state=0).fit(data, show_progress=False)


def named(found):
    """Positions as ids, None where there is none."""
    return [[None if code < 0 else ITEMS[code] for code in row] for row in found.tolist()]


def test_the_answer_is_in_the_language_of_the_question(model, plays):
    found, scores = model.recommend([0, 2], plays.matrix[[0, 2]], N=4)
    ids, their_scores = model.recommend(["ann", "eve"], plays, N=4)
    assert ids.tolist() == named(found)
    assert ids.dtype == object
    assert found.dtype == np.int32
    assert_array_equal(scores, their_scores)
    one, _ = model.recommend("eve", plays, N=4)
    assert one.tolist() == ids[1].tolist()
    assert one[-1] is None  # three bands are left


@pytest.mark.parametrize(
    "users", [["bob", "eve"], ("bob", "eve"), np.array(["bob", "eve"]), pl.Series(["bob", "eve"])]
)
def test_lists_of_text(model, plays, users):
    assert model.recommend(users, plays, N=1)[0].shape == (2, 1)


def test_rows_are_looked_up_by_id(model, plays):
    other = Interactions.from_arrays(
        ["zoe", "bob", "bob"], ["Queen", "Nobody", "Slayer"]
    )  # other codes
    ids, _ = model.recommend(["bob", "ann"], other, N=5)
    assert set(ids[0]) == {None, *ITEMS} - {"Slayer"}
    assert set(ids[1]) == set(ITEMS)  # ann is not there and has nothing
    rows = csr_matrix(([1.0], ([0], [1])), shape=(1, 5))
    assert "Slayer" not in model.recommend("bob", rows, N=5)[0]


def test_user_items_is_left_out_where_it_is_not_needed(model):
    ids, _ = model.recommend("ann", filter_already_liked_items=False, N=5)
    assert set(ids) == set(ITEMS)
    assert model.recommend(0, filter_already_liked_items=False)[0].shape == (5,)
    with pytest.raises(ValueError, match=r"user_items is missing.*already_liked_items=False"):
        model.recommend("ann")


def test_filters(model, plays):
    ids, _ = model.recommend("ann", plays, N=5, filter_items=["Megadeth"])
    assert set(ids) == {"ABBA", "Queen", None}
    ids, _ = model.recommend(["ann"], plays, items=["Queen", "ABBA"])
    assert ids.shape == (1, 2)
    assert set(ids[0]) == {"ABBA", "Queen"}
    ids, _ = model.similar_items("ABBA", N=2, filter_items=["ABBA"])
    assert ids[0] == "Queen"
    ids, _ = model.similar_users("ann", N=2, users=["bob", "eve"])
    assert ids.tolist() == ["bob", "eve"]


def test_similar(model):
    for ask, names in ((model.similar_items, ITEMS), (model.similar_users, USERS)):
        found, scores = ask(range(len(names)), N=3)
        ids, their_scores = ask(names, N=3)
        assert ids.tolist() == [[names[code] for code in row] for row in found]
        assert ids[:, 0].tolist() == names
        assert_array_equal(scores, their_scores)


def test_strangers(model, plays):
    ids, scores = model.recommend_for(["Metallica", "Slayer"], N=3)
    assert ids[0] == "Megadeth"
    assert not {"Metallica", "Slayer"} & set(ids)
    row = csr_matrix(np.array([[1, 1, 0, 0, 0]], dtype=np.float32))
    found, expected = model.recommend(0, row, N=3, recalculate_user=True)
    assert ids.tolist() == named(found[None])[0]
    assert_array_equal(scores, expected)
    assert_array_equal(model.recommend_for([1, 0, 1], N=3)[0], found)
    several, _ = model.recommend_for([["Queen"], ["Metallica", "Slayer"]], N=3)
    assert several[1].tolist() == ids.tolist()
    assert several[0, 0] == "ABBA"
    assert model.recommend_for(["Queen"], items=["ABBA"])[0].tolist() == ["ABBA"]
    kept, _ = model.recommend_for(["Queen"], N=5, filter_already_liked_items=False)
    assert "Queen" in kept
    # A table of new users, by their ids.
    new = Interactions.from_arrays(["zoe", "zoe"], ["Metallica", "Slayer"])
    assert model.recommend("zoe", new, N=3, recalculate_user=True)[0].tolist() == ids.tolist()


def test_integers_are_positions_and_by_id_takes_integer_ids(numbered):
    data, model = numbered
    found, _ = model.recommend(0, data.matrix[0], N=3)  # the first user, called 3
    assert found.dtype == np.int32
    ids, _ = model.by_id.recommend(3, data, N=3)
    assert ids.tolist() == data.items[found].tolist()
    assert all(type(value) is int for value in ids)
    batch, _ = model.by_id.recommend(np.array([17, 3]), data, N=3, filter_items=[2])
    assert batch.shape == (2, 3)
    assert 2 not in batch
    assert model.by_id.similar_items(4, N=1)[0].tolist() == [4]
    assert model.by_id.similar_users([0], N=1)[0].tolist() == [[0]]
    assert model.by_id.recommend_for([4, 3], N=1)[0].tolist() == [2]
    with pytest.raises(ValueError, match="no user 1 in the model, which has users such as 3, 0"):
        model.by_id.recommend(1, data)


def test_a_table_whose_ids_are_all_integers_means_the_same_ids(numbered):
    """Out of a file, ids are integers if all of them are; 7 and "7" are one id."""
    data, model = numbered
    text = Interactions.from_matrix(
        data.matrix, users=list(map(str, data.users)), items=list(map(str, data.items))
    )
    named = LatentRoBiRank(factors=4, random_state=0).fit(text, show_progress=False)
    expected = model.by_id.recommend(3, data, N=3)[0].tolist()
    assert expected[-1] is not None
    assert model.by_id.recommend(3, text, N=3)[0].tolist() == expected
    assert model.recommend("3", data, N=3)[0].tolist() == expected
    for table in (data, text):
        found = named.recommend("3", table, N=3)[0].tolist()
        assert found == list(map(str, expected))
    for text in ("03", "1٧"):  # int("1٧") is 17, which is a user
        with pytest.raises(ValueError, match=f"no user '{text}' in the model"):
            model.recommend(text, data)


def test_the_largest_integer_is_asked_for_as_text():
    data = Interactions.from_arrays([2**63 - 1, 5], [1, 2])
    model = LatentRoBiRank(factors=2, random_state=0).fit(data, show_progress=False)
    assert model.recommend(str(2**63 - 1), data, N=1)[0].tolist() == [2]


def test_ids_of_any_kind():
    days = [date(2024, 5, n) for n in (1, 2, 3)]
    data = Interactions.from_arrays([("a", 1), ("a", 1), ("b", 2)], days)
    model = tiny(np.eye(2), [[3, 0], [2, 1], [1, 2]])
    model.user_ids_, model.item_ids_ = data.users, data.items
    assert model.by_id.recommend(("b", 2), data, N=1)[0].tolist() == [days[1]]
    assert model.by_id.recommend([("b", 2)], data, N=1)[0].tolist() == [[days[1]]]
    assert model.by_id.similar_items(days, N=1)[0][:, 0].tolist() == days


def test_a_model_without_ids_knows_positions_only(plays):
    model = tiny(np.eye(2), np.ones((3, 2)))
    assert model.by_id.similar_items(2, N=1)[0].tolist() == [2]
    with pytest.raises(ValueError, match=r"userid: there is no user 'ann' in the model.* 0, 1"):
        model.recommend("ann", plays)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda m, d: m.recommend("Ann", d), ValueError, "userid: there is no user 'Ann'"),
        (lambda m, d: m.recommend(["ann", "x"], d), ValueError, "no user 'x' in the model"),
        (lambda m, d: m.similar_items("x"), ValueError, "itemid: there is no item 'x'"),
        (lambda m, d: m.recommend_for(["x"]), ValueError, "liked: there is no item 'x'"),
        (
            lambda m, d: m.recommend_for(["ABBA"], unknown="drop"),
            ValueError,
            r"unknown must be one of \['error', 'ignore'\]; got 'drop'",
        ),
        (lambda m, d: m.recommend_for("ABBA"), TypeError, "liked must be a list of items.*'ABBA'"),
        (lambda m, d: m.recommend_for(3), TypeError, "liked must be a list of items"),
        (lambda m, d: m.recommend_for([5]), IndexError, "liked must be items of the model"),
        (
            lambda m, d: m.recommend("zoe", d, recalculate_user=True),
            ValueError,
            "no user 'zoe' in user_items",
        ),
        (
            lambda m, d: m.recommend("ann", d, filter_items=[0]),
            TypeError,
            "userid is text.*filter_items is a position.*by_id",
        ),
        (lambda m, d: m.recommend(["ann", 1], d), TypeError, "all text.*or all integers"),
        (lambda m, d: m.recommend_for(["ABBA", 1]), TypeError, "all text.*or all integers"),
    ],
)
def test_mistakes(model, plays, ask, error, message):
    with pytest.raises(error, match=message):
        ask(model, plays)


def test_filters_pass_over_unknown_ids(model, plays):
    with pytest.warns(UnknownIdWarning, match="filter_items: 2 of 3 items unknown to the model"):
        ids, _ = model.recommend("ann", plays, N=5, filter_items=["gone", "Megadeth", "never"])
    assert set(ids) == {"ABBA", "Queen", None}
    with pytest.warns(UnknownIdWarning, match="items: 1 of 2 items unknown to the model"):
        ids, _ = model.recommend("ann", plays, items=["gone", "Queen"])
    assert ids.tolist() == ["Queen"]
    with pytest.warns(UnknownIdWarning):
        assert model.recommend("ann", plays, items=["gone"])[0].shape == (0,)
    with pytest.warns(UnknownIdWarning, match="items: 1 of 2"):
        ids, _ = model.similar_items("ABBA", items=["Queen", "gone"])
    assert ids[0] == "Queen"
    with pytest.warns(UnknownIdWarning, match="filter_users: 1 of 2 users"):
        ids, _ = model.similar_users("ann", N=1, filter_users=["zoe", "ann"])
    assert ids.tolist() == ["bob"]
    with pytest.warns(UnknownIdWarning, match="filter_items: 1 of 2"):
        frame = model.recommend_frame(["ann"], plays, filter_items=["gone", "Megadeth"])
    assert set(frame["item"]) == {"ABBA", "Queen"}


def test_baskets_pass_over_unknown_ids_when_asked_to(model):
    expected, scores = model.recommend_for(["Metallica", "Slayer"], N=3)
    with pytest.warns(UnknownIdWarning, match="liked: 2 of 5 items unknown to the model"):
        ids, their_scores = model.recommend_for(
            [["Metallica", "gone", "Slayer"], ["Queen", "never"]], N=3, unknown="ignore"
        )
    assert ids[0].tolist() == expected.tolist()
    assert_array_equal(their_scores[0], scores)
    assert ids[1, 0] == "ABBA"


@pytest.mark.parametrize("liked", [["gone"], []])
@pytest.mark.filterwarnings("ignore::robirank.UnknownIdWarning")
def test_an_empty_basket_gets_the_popular_items_by_name(model, liked):
    with pytest.warns(UnknownUserWarning, match="the user has no interaction"):
        ids, counts = model.recommend_for(liked, N=2, unknown="ignore")
    plays_of = Counter(item for _, item in PLAYS)
    most = sorted(ITEMS, key=lambda item: -plays_of[item])[:2]
    assert ids.tolist() == most
    assert counts.tolist() == [plays_of[item] for item in most]


def test_an_empty_basket_is_in_positions_where_a_filter_is(model):
    ids, _ = model.recommend_for([], N=1, filter_items=[0], unknown_users="popular")
    assert ids.dtype == np.int32


def test_a_loaded_model_answers_alike(model, plays, tmp_path):
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    for ask in (
        lambda m: m.recommend(USERS, plays, N=3),
        lambda m: m.recommend_for(["Queen"], N=3),
        lambda m: m.similar_users("dan", N=3),
    ):
        for ours, theirs in zip(ask(model), ask(again), strict=True):
            assert_array_equal(ours, theirs)
