"""Recommending, and finding similar items and users."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from latent.tiny import Tiny, tiny
from robirank import Interactions, LatentRoBiRank, UnknownUserWarning, make_interactions
from robirank.latent.factors.factor_model import FactorModel
from robirank.latent.factors.topk import NOTHING

# Item 0 is best for user 0, item 3 for user 1; user 2 likes the middle.
U = [[1, 0], [0, 1], [1, 1]]
V = [[3, 0], [2, 1], [1, 2], [0, 3], [0.5, 0.5]]
LIKED = csr_matrix([[1, 0, 0, 0, 0], [0, 0, 0, 1, 1], [1, 1, 1, 1, 1]])


@pytest.fixture
def model():
    return tiny(U, V)


def test_one_user(model):
    ids, scores = model.recommend(0, LIKED[0], N=2)
    assert (ids.tolist(), scores.tolist()) == ([1, 2], [2.0, 1.0])
    assert (ids.dtype, scores.dtype) == (np.int32, np.float32)


@pytest.mark.parametrize("userid", [[1, 0], (1, 0), np.array([1, 0], dtype=np.uint8)])
def test_several_users_in_the_order_asked_for(model, userid):
    ids, scores = model.recommend(userid, LIKED[[1, 0]], N=2)
    assert (ids.tolist(), scores.tolist()) == ([[2, 1], [1, 2]], [[2, 1], [2, 1]])


def test_equal_scores_the_lower_item_first(model):
    ids, _ = model.recommend(2, LIKED[2], N=5, filter_already_liked_items=False)
    assert ids.tolist() == [0, 1, 2, 3, 4]


def test_liked_items_come_back_when_asked_for(model):
    assert model.recommend(0, LIKED[0], 1, filter_already_liked_items=False)[0].tolist() == [0]
    assert model.recommend(0, None, 1, filter_already_liked_items=False)[0].tolist() == [0]


def test_every_stored_entry_is_liked_whatever_its_value(model):
    zero = csr_matrix((np.zeros(1), [0], [0, 1]), shape=(1, 5))
    assert model.recommend(0, zero, N=1)[0].tolist() == [1]


@pytest.mark.parametrize("kind", [csr_matrix, csr_array, lambda m: SimpleNamespace(matrix=m)])
@pytest.mark.parametrize("dtype", [np.int8, np.bool_, np.float32, np.float64])
def test_kinds_of_user_items(model, kind, dtype):
    assert model.recommend(0, kind(LIKED[0].astype(dtype)), N=1)[0].tolist() == [1]


def test_filter_items_leaves_out_for_everyone(model):
    ids, _ = model.recommend([0, 1], LIKED[:2], N=2, filter_items=[1, 3, 1])
    assert ids.tolist() == [[2, 4], [2, 0]]
    assert model.recommend(0, LIKED[0], N=1, filter_items=[])[0].tolist() == [1]


def test_items_chooses_among_some(model):
    ids, scores = model.recommend([0, 1], LIKED[:2], N=9, items=[4, 2, 0])
    assert ids.tolist() == [[2, 4, -1], [2, 0, -1]]
    assert scores.tolist() == [[1, 0.5, NOTHING], [2, 0, NOTHING]]
    assert model.recommend([0, 1], LIKED[:2], items=[])[0].shape == (2, 0)


def test_where_nothing_is_left(model):
    ids, scores = model.recommend([0, 2], LIKED[[0, 2]], N=5)
    assert ids.tolist() == [[1, 2, 4, 3, -1], [-1] * 5]
    assert scores[1].tolist() == [np.finfo(np.float32).min] * 5


@pytest.mark.parametrize("N", [6, 10**9, 10**20])
def test_lists_are_never_longer_than_the_number_of_items(model, N):
    """10⁹ places took 8 GB, for 30 items."""
    ids, scores = model.recommend([0, 1], LIKED[:2], N=N)
    assert ids.tolist() == [[1, 2, 4, 3, -1], [2, 1, 0, -1, -1]]
    assert scores.shape == (2, 5)
    assert model.similar_items(0, N=N)[0].shape == (5,)
    assert model.similar_users([0], N=N)[0].shape == (1, 3)
    assert model.recommend_for([0], N=N)[0].shape == (5,)


def test_no_users_at_all(model):
    ids, scores = model.recommend(np.array([], dtype=int), LIKED[:0], N=3)
    assert ids.shape == scores.shape == (0, 3)


def test_new_users_are_folded_in(model):
    ids, _ = model.recommend([77, 78], LIKED[:2], N=1, recalculate_user=True)
    assert ids.tolist() == [[1], [2]]
    plain = FactorModel()
    plain.user_factors, plain.item_factors = model.user_factors, model.item_factors
    with pytest.raises(NotImplementedError, match="FactorModel cannot fold in new users"):
        plain.recommend(0, LIKED[0], recalculate_user=True)


@pytest.mark.parametrize("userid", [0, [0]])
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"userid": 3}, IndexError, "userid must be users of the model, 0 to 2; got 3"),
        ({"userid": -1}, IndexError, "got -1"),
        ({"userid": 0.5}, IndexError, "must be a list of integers; got float64"),
        ({"userid": True}, IndexError, "must be a list of integers; got bool"),
        ({"userid": [[0]]}, IndexError, r"its shape is \(\d, 1"),
        ({"user_items": None}, ValueError, "user_items is missing: give what.*liked_items=False"),
        ({"user_items": LIKED[0].tocoo()}, ValueError, "got coo_matrix"),
        ({"user_items": LIKED[0].toarray()}, ValueError, "got ndarray"),
        ({"user_items": LIKED}, ValueError, r"one row for each of the 1 users.*shape is \(3, 5\)"),
        ({"user_items": LIKED[0, :4]}, ValueError, "one column for each of the 5 items"),
        ({"N": 0}, ValueError, "N must be a positive integer; got 0"),
        ({"N": 2.0}, ValueError, r"got 2\.0"),
        ({"N": True}, ValueError, "got True"),
        ({"items": [5]}, IndexError, "items must be items of the model, 0 to 4; got 5"),
        ({"items": [0.5]}, IndexError, "items must be a list of integers"),
        ({"filter_items": [-1]}, IndexError, "filter_items must be items of the model.*got -1"),
        ({"items": [1], "filter_items": [2]}, ValueError, "items and filter_items cannot be"),
    ],
)
def test_bad_arguments(model, userid, change, error, message):
    arguments = {"userid": userid, "user_items": LIKED[0]} | change
    if "userid" in change and isinstance(userid, list):
        arguments["userid"] = [change["userid"]]
    with pytest.raises(error, match=message):
        model.recommend(**arguments)


def test_similar_items_by_cosine(model):
    ids, scores = model.similar_items(1, N=3)
    assert ids.tolist() == [1, 4, 0]
    assert_allclose(scores, [1, 3 / np.sqrt(10), 2 / np.sqrt(5)], rtol=1e-6)
    assert (ids.dtype, scores.dtype) == (np.int32, np.float32)
    assert scores.max() <= 1
    ids, scores = model.similar_items([1, 3], N=2, filter_items=[1])
    assert ids.tolist() == [[4, 0], [3, 2]]
    assert model.similar_items([1], N=2, items=[3, 2])[0].tolist() == [[2, 3]]
    assert model.similar_items(1, N=3, items=[3, 2])[0].tolist() == [2, 3, -1]


def test_a_row_of_zeros_is_similar_to_nothing():
    model = tiny(U, [[0, 0], [1, 0]])
    ids, scores = model.similar_items([0, 1], N=2)
    assert ids.tolist() == [[-1, -1], [1, -1]]
    assert scores.tolist() == [[NOTHING, NOTHING], [1, NOTHING]]
    assert model.similar_items(0, N=2, items=[0])[0].tolist() == [-1, -1]
    users = tiny([[0, 0], [0, 0], [0, 1], [1, 1]], V)
    assert users.similar_users([1, 3], N=3)[0].tolist() == [[-1] * 3, [3, 2, -1]]


def test_items_without_interactions_are_nobodys_neighbours():
    """Sold by nobody, they are trained away from everyone alike, so that their cosines are 1."""
    model = tiny(U, [[1, 0], [-1, -1], [1, 1], [-2, -2]])
    assert model.similar_items(1, N=2)[0].tolist() == [1, 3]
    model.item_counts_ = np.array([4, 0, 2, 0], dtype=np.int32)
    ids, scores = model.similar_items([0, 1, 2, 3], N=3)
    assert ids.tolist() == [[0, 2, -1], [-1] * 3, [2, 0, -1], [-1] * 3]
    assert_allclose(scores[0], [1, np.sqrt(0.5), NOTHING], rtol=1e-6)
    assert model.similar_items(2, N=2, items=[1, 3])[0].tolist() == [-1, -1]
    assert model.similar_items(2, N=2, filter_items=[2])[0].tolist() == [0, -1]


# Users 1 and 3 have no interaction; item 4 has none either, and item 2 has the most.
KNOWN = [[1, 0], [0, 0], [0, 1], [0, 0]]
COUNTS = np.array([2, 3, 7, 3, 0], dtype=np.int32)


@pytest.fixture
def with_strangers():
    model = tiny(KNOWN, V)
    model.item_counts_ = COUNTS
    return model


def rows(*liked):
    """A row of a CSR matrix for each list of items."""
    table = np.zeros((len(liked), 5))
    for row, items in zip(table, liked, strict=True):
        row[items] = 1
    return csr_matrix(table)


def test_users_without_interactions_get_the_popular_items(with_strangers):
    with pytest.warns(UnknownUserWarning, match=r"2 of 3 users have no interaction.*most popular"):
        ids, scores = with_strangers.recommend([3, 0, 1], rows([], [0], [2]), N=5)
    assert ids.tolist() == [[2, 1, 3, 0, -1], [1, 2, 4, 3, -1], [1, 3, 0, -1, -1]]
    assert scores[0].tolist() == [7, 3, 3, 2, NOTHING]
    assert scores[1].tolist() == [2, 1, 0.5, 0, NOTHING]
    with pytest.warns(UnknownUserWarning, match="the user has no interaction"):
        ids, _ = with_strangers.recommend(1, rows([]), N=2, filter_items=[2, 1])
    assert ids.tolist() == [3, 0]
    with pytest.warns(UnknownUserWarning):
        ids, _ = with_strangers.recommend(
            [1], None, N=5, items=[4, 0, 1], filter_already_liked_items=False
        )
    assert ids.tolist() == [[1, 0, -1]]


@pytest.mark.filterwarnings("error")
def test_what_users_without_interactions_get_can_be_said(with_strangers):
    ask = {"userid": [0, 1], "user_items": rows([0], []), "N": 2}
    assert with_strangers.recommend(**ask, unknown_users="popular")[0].tolist() == [[1, 2], [2, 1]]
    ids, scores = with_strangers.recommend(**ask, unknown_users="empty")
    assert ids.tolist() == [[1, 2], [-1, -1]]
    assert scores[1].tolist() == [NOTHING] * 2
    with pytest.raises(ValueError, match=r"userid has 1 of 2 users without.*userid\[1\], of"):
        with_strangers.recommend(**ask, unknown_users="error")
    with pytest.raises(ValueError, match="userid is a user without interactions"):
        with_strangers.recommend(1, rows([]), unknown_users="error")
    with pytest.raises(ValueError, match=r"unknown_users must be one of.*'popular'.*got 'random'"):
        with_strangers.recommend(**ask, unknown_users="random")
    with_strangers.recommend([0, 2], rows([0], []), unknown_users="error")  # all are known


def test_new_users_without_items_get_the_popular_items(with_strangers):
    with pytest.warns(UnknownUserWarning, match="1 of 2 users"):
        ids, _ = with_strangers.recommend([8, 9], rows([0], []), N=2, recalculate_user=True)
    assert ids.tolist() == [[1, 2], [2, 1]]
    with pytest.warns(UnknownUserWarning):
        assert with_strangers.recommend_for([], N=3)[0].tolist() == [2, 1, 3]
    baskets = with_strangers.recommend_for([[0], []], N=2, unknown_users="popular")
    assert baskets[0].tolist() == [[1, 2], [2, 1]]


def test_a_model_that_counted_nothing_gives_nothing(with_strangers, tmp_path):
    """As models have it that an older version saved."""
    with_strangers.item_counts_ = None
    with_strangers.save(tmp_path / "model")
    with pytest.warns(UnknownUserWarning, match="does not know which items are popular"):
        ids, _ = Tiny.load(tmp_path / "model").recommend([1, 0], rows([], [0]), N=2)
    assert ids.tolist() == [[-1, -1], [1, 2]]


@given(st.data())
def test_popular_items_are_those_of_a_sort(data):
    counts = np.array(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=9)), np.int32)
    n, N = len(counts), data.draw(st.integers(1, 12))
    liked = data.draw(st.sets(st.integers(0, n - 1)))
    out = data.draw(st.sets(st.integers(0, n - 1)))
    model = FactorModel.of(np.zeros((1, 2), np.float32), np.ones((n, 2), np.float32))
    model.item_counts_ = counts
    row = csr_matrix([[item in liked for item in range(n)]])
    ids, _ = model.recommend(0, row, N, filter_items=list(out), unknown_users="popular")
    left = [item for item in range(n) if counts[item] and item not in liked | out]
    expected = sorted(left, key=lambda item: (-counts[item], item))[:N]
    assert ids.tolist() == expected + [-1] * (min(N, n) - len(expected))


def test_a_table_of_lists(model):
    frame = model.recommend_frame([1, 0], LIKED, N=4)
    assert frame.columns == ["user", "rank", "item", "score"]
    assert frame.rows() == [
        *[(1, 1, 2, 2.0), (1, 2, 1, 1.0), (1, 3, 0, 0.0)],
        *[(0, 1, 1, 2.0), (0, 2, 2, 1.0), (0, 3, 4, 0.5), (0, 4, 3, 0.0)],
    ]
    everyone = model.recommend_frame(train=LIKED, N=1, filter_items=[1])
    assert everyone.select("user", "item").rows() == [(0, 2), (1, 2)]  # user 2 has everything
    assert everyone.schema["score"] == pl.Float32
    assert model.recommend_frame([2], LIKED).schema == model.recommend_frame([0], LIKED).schema
    nothing_known = model.recommend_frame([0], N=1)
    assert nothing_known["item"].to_list() == [0]


def test_a_table_of_lists_in_outside_ids(model):
    plays = Interactions.from_matrix(LIKED, users=["ann", "bob", "eve"], items=[*"vwxyz"])
    model.user_ids_, model.item_ids_ = plays.users, plays.items
    expected = [("bob", 1, "x", 2.0), ("ann", 1, "w", 2.0)]
    assert model.recommend_frame(["bob", "ann"], plays, N=1).rows() == expected
    assert model.recommend_frame(["bob", "ann"], LIKED, N=1).rows() == expected
    assert model.recommend_frame(train=plays, N=1)["user"].to_list() == ["ann", "bob"]
    assert model.recommend_frame([1], plays, N=1).rows() == [(1, 1, 2, 2.0)]  # by positions
    other = plays.align(Interactions.from_arrays([*plays.users][::-1], [*"zyx"]), unseen="drop")
    with pytest.raises(ValueError, match="train must have the users of the model"):
        model.recommend_frame([1], other)
    with pytest.raises(ValueError, match="users: there is no user 'zoe' in the model"):
        model.recommend_frame(["zoe"], plays)


def test_bad_tables_of_lists(model):
    with pytest.raises(ValueError, match=r"all 3 users, or Interactions; got csr_matrix.*\(1, 5\)"):
        model.recommend_frame([0], LIKED[0])
    with pytest.raises(ValueError, match=r"train must be a CSR matrix of all 3 users.*got list"):
        model.recommend_frame([0], [[1]])
    with pytest.raises(ValueError, match="users must be users of the model, 0 to 2; got 3"):
        model.recommend_frame([3], LIKED)


def test_similar_users(model):
    ids, scores = model.similar_users(0, N=2)
    assert ids.tolist() == [0, 2]
    assert_allclose(scores, [1, np.sqrt(0.5)], rtol=1e-6)
    assert model.similar_users([2], N=2, filter_users=[2])[0].tolist() == [[0, 1]]
    assert model.similar_users([2], N=1, users=[1])[0].tolist() == [[1]]


def test_what_was_asked_for_comes_first():
    """Also where equal rows have lower ids, or where rounding puts another before it."""
    same = tiny(np.ones((20, 3)) * np.pi, np.ones((2, 3)))
    ids, scores = same.similar_users(np.arange(20), N=4)
    assert ids[:, 0].tolist() == list(range(20))
    assert all(len(set(row)) == 4 for row in ids.tolist())
    assert (np.diff(scores, axis=1) <= 0).all()
    rng = np.random.default_rng(0)
    base = rng.standard_normal((1, 33))
    near = tiny(base * rng.uniform(0.1, 9, (200, 1)), base)
    ids, scores = near.similar_users(np.arange(200), N=3)
    assert ids[:, 0].tolist() == list(range(200))
    assert (np.diff(scores, axis=1) <= 0).all()
    assert same.similar_users(7, N=2, filter_users=[7])[0].tolist() == [0, 1]
    assert same.similar_users(7, N=2, users=[3, 7])[0].tolist() == [7, 3]


def test_bad_arguments_of_similar(model):
    with pytest.raises(IndexError, match="itemid must be items of the model, 0 to 4; got 9"):
        model.similar_items(9)
    with pytest.raises(IndexError, match="userid must be users of the model, 0 to 2; got 9"):
        model.similar_users([9])
    with pytest.raises(ValueError, match="users and filter_users cannot be given together"):
        model.similar_users(0, users=[1], filter_users=[2])
    with pytest.raises(ValueError, match="N must be a positive integer; got -2"):
        model.similar_items(0, N=-2)
    with pytest.raises(NotImplementedError, match="recalculate_item=False"):
        model.similar_items(0, recalculate_item=True)


def test_unfitted():
    for call in (
        lambda m: m.recommend(0, LIKED[0]),
        lambda m: m.similar_items(0),
        lambda m: m.similar_users(0),
    ):
        with pytest.raises(NotFittedError, match="call fit first"):
            call(Tiny())


def test_it_is_a_scikit_learn_estimator():
    model = tiny(U, V, factors=2, num_threads=1)
    assert clone(model).get_params() == model.get_params()
    assert "factors=2" in repr(model)
    assert not hasattr(clone(model), "user_factors")


@pytest.mark.parametrize("prepared", [False, True])
def test_eight_threads_ask_one_model(prepared):
    """As the threads of a server do; the guide promises the answers of one thread."""
    data = make_interactions(300, 900, 9000, random_state=0)
    model = LatentRoBiRank(64, iterations=2, regularization=0.2, random_state=0)
    model.fit(data, show_progress=False)
    model = model.prepare() if prepared else model
    liked = data.matrix

    def ask(user):
        return [
            *model.recommend(user, liked[user]),
            *model.recommend_for(liked[user].indices, items=np.arange(0, 900, 2)),
            *model.similar_items(user),
        ]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(0, 300, 3)))
    for user, answer in zip(range(0, 300, 3), answers, strict=True):
        for there, here in zip(answer, ask(user), strict=True):
            assert_array_equal(there, here)


def test_fits_that_overlap_and_questions_beside_them_have_the_bits_of_each_alone():
    data = make_interactions(200, 300, 4000, random_state=0)
    served = LatentRoBiRank(16, iterations=2, regularization=0.2, random_state=0)
    served.fit(data, show_progress=False).prepare()
    expected = served.recommend(np.arange(200), data.matrix)

    def fit(seed):
        model = LatentRoBiRank(64, iterations=3, regularization=0.2, random_state=seed % 2)
        return model.fit(data, show_progress=False).item_factors

    alone = [fit(0), fit(1)]
    with ThreadPoolExecutor(8) as pool:
        fits = [pool.submit(fit, seed) for seed in range(4)]
        answers = [pool.submit(served.recommend, np.arange(200), data.matrix) for _ in range(20)]
        for seed, together in enumerate(fits):
            assert_array_equal(together.result(), alone[seed % 2])
        for answer in answers:
            assert_array_equal(answer.result()[0], expected[0])
            assert_array_equal(answer.result()[1], expected[1])


def test_threads_are_those_of_the_model():
    rng = np.random.default_rng(0)
    U, V = rng.standard_normal((300, 40)), rng.standard_normal((3000, 40))
    empty = csr_matrix((300, 3000))
    answers = [tiny(U, V, num_threads=n).recommend(np.arange(300), empty) for n in (1, 2)]
    assert_array_equal(answers[0][0], answers[1][0])
    assert_array_equal(answers[0][1], answers[1][1])
    with pytest.raises(ValueError, match="num_threads must be 0"):
        tiny(U, V, num_threads=-1).recommend(0, empty[0])
