"""The native top-k against a full sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix, random_array

from robirank import _core
from robirank.latent.factors.questions import items_of_users
from robirank.latent.factors.topk import NOTHING, Groups, inverse_norms, prepare_rows, top_rows


def by_sorting(scores, n_best, rows=None, liked=None):
    """Sort everything; of equal scores the lower row first."""
    n, m = scores.shape
    rows = np.arange(m) if rows is None else rows
    ids = np.full((n, n_best), -1)
    best = np.full((n, n_best), NOTHING, dtype=np.float32)
    for q in range(n):
        left = rows if liked is None else np.setdiff1d(rows, liked[q])
        order = left[np.argsort(-scores[q, left], kind="stable")][:n_best]
        ids[q, : len(order)] = order
        best[q, : len(order)] = scores[q, order]
    return ids, best


def whole_numbers(rng, *shape):
    """Products of these are exact in float32, and there are many ties."""
    return rng.integers(-3, 4, shape).astype(np.float32)


def as_liked(lists, m):
    rows = np.repeat(np.arange(len(lists)), [len(row) for row in lists])
    columns = np.concatenate([*lists, np.empty(0, int)])
    matrix = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(lists), m))
    return items_of_users(matrix, len(lists), m)


@given(data=st.data())
@pytest.mark.parametrize("name", _core.instruction_sets())
def test_agrees_with_a_full_sort(name, data):
    n, m, d = (data.draw(st.integers(*limits)) for limits in ((0, 20), (1, 200), (0, 9)))
    n_best = data.draw(st.integers(1, 1 + m * 5 // 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    queries, factors = whole_numbers(rng, n + 2, d), whole_numbers(rng, m, d)
    asked = rng.integers(0, n + 2, n).astype(np.int32)
    scale = rng.choice(np.float32([0.5, 1, 2]), m) if data.draw(st.booleans()) else None
    rows = (
        np.flatnonzero(rng.random(m) < 0.5).astype(np.int32) if data.draw(st.booleans()) else None
    )
    share = data.draw(st.sampled_from([None, 0.1, 1.0]))
    likes = None if share is None else [np.flatnonzero(rng.random(m) < share) for _ in range(n)]
    liked = None if likes is None else as_liked(likes, m)

    scores = queries[asked] @ (factors if scale is None else factors * scale[:, None]).T
    ids, best = by_sorting(scores, n_best, rows, likes)
    before = _core.instruction_set()
    _core.use_instruction_set(name)
    options = {"candidates": rows, "scale": scale, "excluded": liked}
    try:
        for items in (factors, prepare_rows(factors, "cpu")):
            positions, values = top_rows(queries, asked, items, n_best, **options)
            assert_array_equal(positions, ids)
            assert_array_equal(values, best)
    finally:
        _core.use_instruction_set(before)


@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_several_blocks_of_users_and_of_items(n_threads, some):
    """Here neither all users nor all items fit the room that the kernel takes at a time."""
    rng = np.random.default_rng(3)
    n, m, d = 1100, 1300, 70
    queries, factors = whole_numbers(rng, n, d), whole_numbers(rng, m, d)
    scale = rng.choice(np.float32([0.5, 1, 2]), m)
    likes = [np.flatnonzero(rng.random(m) < 0.1) for _ in range(n)]
    rows = np.arange(1, m, 2, dtype=np.int32) if some else None
    asked = rng.permutation(n).astype(np.int32)
    got = top_rows(
        queries,
        asked,
        factors,
        20,
        candidates=rows,
        scale=scale,
        excluded=as_liked(likes, m),
        num_threads=n_threads,
    )
    scores = queries[asked] @ (factors * scale[:, None]).T
    ids, best = by_sorting(scores, 20, rows, likes)
    assert_array_equal(got[0], ids)
    assert_array_equal(got[1], best)


@pytest.mark.parametrize("order", ["rising", "falling", "equal"])
def test_any_order_of_scores(instruction_set, order):
    m = 5000
    values = {"rising": np.arange(m), "falling": -np.arange(m), "equal": np.zeros(m)}[order]
    factors = values[:, None].astype(np.float32)
    ids, _ = top_rows(np.ones((1, 1), np.float32), np.zeros(1, np.int32), factors, 70)
    best = np.arange(m - 1, m - 71, -1) if order == "rising" else np.arange(70)
    assert_array_equal(ids[0], best)


def test_threads_and_neighbours_do_not_change_a_bit(instruction_set):
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((1500, 21), dtype=np.float32)
    factors = rng.standard_normal((2000, 21), dtype=np.float32)
    asked = np.arange(1500, dtype=np.int32)
    one = top_rows(queries, asked, factors, 17, num_threads=1)
    for n_threads in (2, 3, 7):
        more = top_rows(queries, asked, factors, 17, num_threads=n_threads)
        assert_array_equal(more[0], one[0])
        assert_array_equal(more[1], one[1])
    for user in (0, 8, 1499):
        alone = top_rows(queries, asked[user : user + 1], factors, 17)
        assert_array_equal(alone[0][0], one[0][user])
        assert_array_equal(alone[1][0], one[1][user])


def by_groups(order, groups, enough, n_best):
    """The first rows of an order of which few of their group came before; −1 past the end."""
    kept, counts = [], np.zeros(len(enough), int)
    for row in order:
        if groups[row] < 0 or counts[groups[row]] < enough[groups[row]]:
            kept.append(row)
            counts[groups[row]] += groups[row] >= 0
    return (kept + [-1] * n_best)[:n_best]


@given(data=st.data())
@pytest.mark.parametrize("name", _core.instruction_sets())
def test_masks_ranks_and_groups(name, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    n, m = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 400))
    n_best, n_groups = data.draw(st.integers(1, m)), data.draw(st.sampled_from([1, 3, 2000]))
    queries, factors = whole_numbers(rng, n, 3), whole_numbers(rng, m, 3)
    groups = rng.integers(-1, n_groups, m).astype(np.int32)
    enough = rng.integers(1, 4, n_groups).astype(np.int32)
    ranks = rng.permutation(m).astype(np.int32)
    allowed = rng.random(m) < data.draw(st.sampled_from([0.05, 0.5, 1.0]))
    only = rng.random((n, m)) < data.draw(st.sampled_from([0.1, 1.0]))
    before = _core.instruction_set()
    _core.use_instruction_set(name)
    try:
        ids, _ = top_rows(
            queries,
            np.arange(n, dtype=np.int32),
            factors,
            n_best,
            allowed=allowed,
            only=as_liked([np.flatnonzero(row) for row in only], m),
            ranks=ranks,
            groups=Groups(groups, enough),
        )
    finally:
        _core.use_instruction_set(before)
    scores = queries @ factors.T
    for q in range(n):
        order = np.lexsort((ranks, -scores[q]))
        order = order[(allowed & only[q])[order]]
        assert_array_equal(ids[q], by_groups(order, groups, enough, n_best))


@pytest.mark.parametrize("n_groups", [3, 900, 20_000])
def test_masks_ranks_and_groups_on_threads(n_groups):
    """Batches of users, and ranges of items that are joined, leave out no more than one thread."""
    rng = np.random.default_rng(n_groups)
    m, n_best = 90_000, 60
    queries, factors = whole_numbers(rng, 3, 48), whole_numbers(rng, m, 48)
    groups = rng.integers(-1, n_groups, m).astype(np.int32)
    enough = rng.integers(1, 3, n_groups).astype(np.int32)
    allowed, ranks = rng.random(m) < 0.7, rng.permutation(m).astype(np.int32)
    only = [np.flatnonzero(rng.random(m) < 0.6) for _ in range(3)]
    scores = queries @ factors.T
    for packed in (factors, prepare_rows(factors, "cpu")):
        for n_threads in (1, 2, 5):
            ids, _ = top_rows(
                queries,
                np.arange(3, dtype=np.int32),
                packed,
                n_best,
                allowed=allowed,
                only=as_liked(only, m),
                ranks=ranks,
                groups=Groups(groups, enough),
                num_threads=n_threads,
            )
            for q in range(3):
                order = np.lexsort((ranks, -scores[q]))
                order = order[(allowed & np.isin(np.arange(m), only[q]))[order]]
                assert_array_equal(ids[q], by_groups(order, groups, enough, n_best))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"allowed": np.zeros(1, np.uint8)}, r"allowed"),
        ({"only": (np.array([0, 1]), np.array([9], np.int32))}, r"only\[1\]"),
        ({"only": (np.array([0, 2]), np.array([3, 1], np.int32))}, r"only\[1\] must be sorted"),
        ({"ranks": np.zeros(8, np.int32)}, "ranks"),
        ({"groups": (np.full(9, 2, np.int32), np.ones(2, np.int32))}, r"groups\[0\]"),
        ({"groups": (np.zeros(9, np.int32), np.zeros(1, np.int32))}, r"groups\[1\]"),
        ({"groups": (np.zeros(8, np.int32), np.ones(1, np.int32))}, r"groups\[0\]"),
        (
            {"allowed": np.zeros(2, np.uint8), "item_rows": np.zeros(1, np.int32)},
            "item_rows cannot be given with allowed or only",
        ),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    ones = np.ones((9, 2), np.float32)
    arguments = {"users": ones, "user_rows": np.zeros(1, np.int32), "items": ones}
    with pytest.raises(ValueError, match=message):
        _core.topk(**arguments, wanted=1, num_threads=1, **change)


# Items 0 to 3 are in group 0 or 1, and 2 and 3 in group 2 too; the last list has item 0.
LISTS = {
    "lists": np.array([[0, 1, 2, 3], [3, 2, 1, -1], [1, 2, 3, -1]], np.int32),
    "scores": np.array([[4, 3, 2, 1], [9, 8, 7, 0], [3, 3, 3, 0]], np.float32),
    "before": np.array([[-1], [-1], [0]], np.int32),
    "room": np.array([3, 1, 3], np.int32),
    "is_whole": np.zeros(3, bool),
    "starts": np.array([0, 1, 2, 4, 6]),
    "groups": np.array([0, 0, 1, 2, 1, 2], np.int32),
    "caps": np.array([1, 2, 1], np.int32),
    "num_threads": 1,
}


def test_choosing_within_caps():
    chosen = _core.choose_from_lists(**LISTS)
    assert chosen.tolist() == [[0, 2, -1, -1], [0, -1, -1, -1], [1, -1, -1, -1]]


def test_groups_of_items_that_are_in_no_list_are_not_read():
    """A catalogue is far longer than the lists of one user, who would wait for it."""
    unread = LISTS | {
        "starts": np.array([0, 1, 2, 4, 6, -5, 99]),
        "groups": np.array([0, 0, 1, 2, 1, 2, 7], np.int32),
    }
    assert_array_equal(_core.choose_from_lists(**unread), _core.choose_from_lists(**LISTS))


def test_choosing_what_is_like_nothing_that_is_there():
    """Items 0 and 1 point the same way, and 2 and 3 another; item 1 is better than 2."""
    rows = np.array([[1, 0], [2, 0], [0, 1], [0, 3]], np.float32)
    free = LISTS | {"caps": np.full(3, 9, np.int32), "varied": (np.array([1, 1, 1.0]), rows)}
    by_score = [[0, 1, 2, -1], [0, -1, -1, -1], [0, 1, 2, -1]]
    assert _core.choose_from_lists(**free).tolist() == by_score
    # 1/2 · 2 = 1 for item 2, and 1/2 · 3 − 1/2 = 1 for item 1, which is first in the list.
    assert _core.choose_from_lists(**free, variety=0.5).tolist()[0] == [0, 1, 2, -1]
    # 2/5 · 2 > 2/5 · 3 − 3/5; then item 1 has 3/5, and what is not in the list could have 2/5.
    assert _core.choose_from_lists(**free, variety=0.6).tolist()[0] == [0, 2, 1, -1]
    # 1/10 · 3 − 9/10 is less than what an item behind the list may have.
    uncertain = _core.choose_from_lists(**free, variety=0.9).tolist()
    assert uncertain == [[0, 2, -1, -1], [0, -1, -1, -1], [1, -1, -1, -1]]
    whole = free | {"is_whole": np.ones(3, bool)}
    assert _core.choose_from_lists(**whole, variety=0.9).tolist()[2] == [1, 0, 2, -1]


def test_wrong_lists_are_refused():
    for name, wrong in (("lists", 4), ("before", -2), ("groups", 3), ("starts", 7)):
        values = LISTS[name].copy()
        values.flat[-1] = wrong
        with pytest.raises(ValueError, match=name):
            _core.choose_from_lists(**LISTS | {name: values})
    rows = np.ones((3, 2), np.float32)
    for name, wrong in (("room", np.ones(2, np.int32)), ("scores", rows), ("is_whole", [True])):
        with pytest.raises(ValueError, match=name):
            _core.choose_from_lists(**LISTS | {name: np.asarray(wrong)})
    for variety, varied in ((0.5, None), (-0.1, None), (np.nan, None), (0.5, (np.ones(3), rows))):
        with pytest.raises(ValueError, match="varie"):
            _core.choose_from_lists(**LISTS, variety=variety, varied=varied)


def test_packed_rows_stay_with_the_instruction_set_that_packed_them():
    rng = np.random.default_rng(0)
    queries, factors = whole_numbers(rng, 3, 9), whole_numbers(rng, 500, 9)
    asked = np.arange(3, dtype=np.int32)
    expected = by_sorting(queries @ factors.T, 10)
    before = _core.instruction_set()
    try:
        for packing in _core.instruction_sets():
            _core.use_instruction_set(packing)
            packed = prepare_rows(factors, "cpu")
            for searching in _core.instruction_sets():
                _core.use_instruction_set(searching)
                assert_array_equal(top_rows(queries, asked, packed, 10)[0], expected[0])
    finally:
        _core.use_instruction_set(before)


def test_one_user_is_shared_among_threads():
    """Ranges of items are searched side by side, and their answers joined."""
    rng = np.random.default_rng(1)
    queries, factors = whole_numbers(rng, 2, 48), whole_numbers(rng, 90_000, 48)
    likes = [np.sort(rng.choice(90_000, 40_000, replace=False)) for _ in range(2)]
    asked = np.arange(2, dtype=np.int32)
    got = [
        top_rows(queries, asked, factors, 60, excluded=as_liked(likes, 90_000), num_threads=n)
        for n in (1, 2, 5)
    ]
    ids, best = by_sorting(queries @ factors.T, 60, liked=likes)
    for found, scores in got:
        assert_array_equal(found, ids)
        assert_array_equal(scores, best)


def test_more_wanted_than_a_block_has_room_for():
    rng = np.random.default_rng(2)
    queries, factors = whole_numbers(rng, 40, 3), whole_numbers(rng, 60_000, 3)
    ids, scores = top_rows(queries, np.arange(40, dtype=np.int32), factors, 60_001, num_threads=2)
    want = by_sorting(queries[[39]] @ factors.T, 60_001)
    assert_array_equal(ids[39], want[0][0])
    assert_array_equal(scores[39], want[1][0])


def test_nan_is_never_the_best():
    factors = np.array([[1], [np.nan], [-1]], dtype=np.float32)
    ids, _ = top_rows(np.ones((1, 1), np.float32), np.zeros(1, np.int32), factors, 3)
    assert ids.tolist() == [[0, 2, -1]]


def test_liked_of_unsorted_rows_and_wide_indices():
    matrix = csr_matrix((np.zeros(3), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    matrix.indices = matrix.indices.astype(np.int64)
    liked = items_of_users(matrix, 2, 3)
    assert liked.items.dtype == np.int32
    assert liked.items.tolist() == [0, 2, 1]
    assert matrix.indices.tolist() == [2, 0, 1]  # what was given stays as it is
    new_style = random_array((2, 3), density=0.5, format="csr", rng=0)
    assert len(items_of_users(new_style, 2, 3).items) == new_style.nnz


def test_inverse_norms():
    factors = np.array([[3, 4], [0, 0]], dtype=np.float32)
    assert inverse_norms(factors).tolist() == pytest.approx([0.2, 0.0])
