"""Tables of interactions, against a dict of pairs."""

import datetime
import re
from collections import Counter
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from robirank._sparse import offsets
from robirank.data import interactions as module
from robirank.data._columns import as_times
from robirank.data.ids import Ids
from robirank.data.interactions import Interactions

USERS = st.sampled_from(["ann", "bob", "eve", "zoe"])
ITEMS = st.integers(-2, 4)
RECORDS = st.lists(st.tuples(USERS, ITEMS, st.integers(1, 9), st.integers(0, 99)), max_size=25)

BERLIN = datetime.datetime(2024, 5, 17, 8, tzinfo=ZoneInfo("Europe/Berlin"))


def pairs(data):
    """What a table says: (user, item) → (count, time), by outside ids."""
    user = data.users[data.user_codes()].tolist()
    item = data.items[data.indices].tolist()
    counts = np.ones(len(data)) if data.counts is None else data.counts
    times = [None] * len(data) if data.timestamps is None else data.timestamps.tolist()
    return dict(zip(zip(user, item, strict=True), zip(counts, times, strict=True), strict=True))


def columns(interactions):
    return [[r[k] for r in interactions] for k in range(4)]


@settings(max_examples=40)
@given(interactions=RECORDS, block=st.sampled_from([3, 1000]))
def test_counts_add_up_and_the_earliest_time_stays(interactions, block):
    user, item, count, time = columns(interactions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK_ROWS", block)
        data = Interactions.from_arrays(user, item, count, time)
    expected = {}
    for u, i, c, t in interactions:
        old = expected.get((u, i), (0, 99))
        expected[u, i] = (old[0] + c, min(old[1], t))
    assert pairs(data) == expected
    assert list(data.users) == list(dict.fromkeys(user))  # order of first appearance
    assert list(data.items) == list(dict.fromkeys(item))
    for begin, end in zip(data.indptr[:-1], data.indptr[1:], strict=True):
        assert (np.diff(data.indices[begin:end]) > 0).all()
    assert (data.indptr.dtype, data.indices.dtype) == (np.int64, np.int32)


@settings(max_examples=40)
@given(RECORDS)
def test_matrix_is_that_of_scipy(interactions):
    user, item, count, _ = columns(interactions)
    data = Interactions.from_arrays(user, item, count)
    shape = (len(data.users), len(data.items))
    places = ([data.users.index(u) for u in user], [data.items.index(i) for i in item])
    expected = sp.coo_matrix((count, places), shape=shape, dtype=np.float32).tocsr()
    assert isinstance(data.matrix, sp.csr_matrix)
    assert data.matrix.dtype == np.float32
    assert data.matrix.shape == data.shape == shape
    assert (data.matrix.toarray() == expected.toarray()).all()
    assert data.matrix.nnz == data.n_interactions == len(data) == expected.nnz


def test_without_counts_repetitions_are_counted():
    data = Interactions.from_arrays(["a", "a", "b"], [1, 1, 1])
    assert data.counts.tolist() == [2, 1]
    assert data.binarize().counts is None
    assert data.binarize().matrix.data.tolist() == [1, 1]
    assert Interactions.from_arrays(["a", "b"], [1, 1]).counts is None
    assert Interactions.from_arrays(["a", "b"], [1, 1], [1.0, 1.0]).counts is None


def test_long_sums_are_exact():
    data = Interactions.from_arrays([0] * 5, [0] * 5, [2**24, 1, 1, 1, 1])  # float32 would stay
    assert data.counts.tolist() == [2**24 + 4]


FRAMES = {"polars": pl.DataFrame, "lazy": pl.LazyFrame, "pandas": pd.DataFrame, "dict": dict}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_every_kind(kind):
    day = datetime.datetime(2024, 5, 17)
    table = {
        "who": ["x", "y", "x"],
        "what": [10, 20, 20],
        "n": [1, 2, 3],
        "when": [day, day, day + datetime.timedelta(seconds=1)],
        "other": [0.0, 0.0, 0.0],
    }
    data = Interactions.from_frame(FRAMES[kind](table), "who", "what", "n", "when")
    start = int(day.replace(tzinfo=datetime.UTC).timestamp()) * 1_000_000
    assert pairs(data) == {
        ("x", 10): (1, start),
        ("y", 20): (2, start),
        ("x", 20): (3, start + 1_000_000),
    }


def test_frames_of_unknown_libraries():
    inside = pl.DataFrame({"user": [1, 2], "item": ["a", "b"]})

    class Foreign:
        columns = ("not", "names")

        def __arrow_c_stream__(self, requested_schema=None):
            return inside.__arrow_c_stream__(requested_schema)

    assert set(pairs(Interactions.from_frame(Foreign()))) == {(1, "a"), (2, "b")}


def test_unknown_columns_and_frames():
    with pytest.raises(ValueError, match=r"item='item' is not a column.*\['user', 'song'\]"):
        Interactions.from_frame({"user": [1], "song": [2]})
    with pytest.raises(ValueError, match=r"item='item' is not a column.*\['user', 'song'\]"):
        Interactions.from_frame(pl.LazyFrame({"user": [1], "song": [2]}))
    with pytest.raises(TypeError, match="DataFrame or a dict of arrays; got int"):
        Interactions.from_frame(7)
    with pytest.raises(ValueError, match=r"same length; got \{'user': 2, 'item': 1\}"):
        Interactions.from_arrays([1, 2], [1])
    with pytest.raises(ValueError, match="same length"):
        Interactions.from_arrays([1, 2], [1, 2], counts=[1])


@pytest.mark.parametrize(
    "user",
    [
        ["a", None, "b", None],
        ["a", "", "b", ""],
        [1.0, np.nan, 2.0, np.nan],
        [(1, 2), None, (2, 3), None],
        pd.Series([1, None, 2, None], dtype="Int64"),
        pd.Series(["a", None, "b", np.nan]),
        pl.Series([1, None, 2, None]),
        pd.Series(pd.to_datetime(["2024-01-01", None, "2024-01-02", None])),
    ],
)
@pytest.mark.parametrize("block", [2, 1000])
def test_missing_ids(monkeypatch, user, block):
    monkeypatch.setattr(module, "_CHUNK_ROWS", block)
    frame = {"user": user, "item": [7, 8, 9, 9]}
    message = r"2 of 4 rows have no user \(the first is row 1\); on_missing='drop'"
    with pytest.raises(ValueError, match=message):
        Interactions.from_frame(frame)
    data = Interactions.from_frame(frame, on_missing="drop")
    assert data.shape == (2, 2)
    assert list(data.items) == [7, 9]  # 8 came with nobody
    assert data.matrix.toarray().tolist() == [[1, 0], [0, 1]]


def test_missing_items_counts_and_times():
    with pytest.raises(ValueError, match=r"1 of 2 rows have no item .the first is row 0"):
        Interactions.from_arrays([1, 2], [None, 3])
    with pytest.raises(ValueError, match=r"1 of 2 rows have no count .the first is row 1"):
        Interactions.from_arrays([1, 2], [2, 3], [1, np.nan])
    with pytest.raises(ValueError, match=r"2 of 3 rows have no time .the first is row 0"):
        Interactions.from_arrays([1, 2, 3], [2, 3, 4], times=[np.nan, 5, np.inf])
    kept = Interactions.from_arrays([1, 2], [2, 3], [1, None], on_missing="drop")
    assert kept.shape == (1, 1)
    with pytest.raises(ValueError, match="on_missing must be 'error' or 'drop'; got 'skip'"):
        Interactions.from_arrays([1], [1], on_missing="skip")


@pytest.mark.parametrize("bad", [0, -1, np.inf, 1e39])
def test_counts_that_are_no_counts(bad):
    with pytest.raises(ValueError, match=rf"in every row; row 2 has {re.escape(f'{bad:g}')}"):
        Interactions.from_arrays([1, 2, 3], [1, 1, 1], [1, 1, bad])
    with pytest.raises(ValueError, match="count must hold numbers"):
        Interactions.from_arrays([1, 2], [1, 1], ["many", "few"])


def test_counts_whose_sum_is_too_large():
    with pytest.raises(ValueError, match="more than float32 can hold"):
        Interactions.from_arrays([1, 1], [1, 1], [3e38, 3e38])


def test_given_ids_are_kept_with_and_without_interactions():
    users, items = Ids(["zoe", "ann", "bob"]), Ids([9, 8, 7])
    data = Interactions.from_frame({"user": ["ann"], "item": [7]}, users=users, items=items)
    assert data.users is users
    assert data.matrix.toarray().tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("block", [2, 1000])
def test_unseen_ids(monkeypatch, block):
    monkeypatch.setattr(module, "_CHUNK_ROWS", block)
    frame = {"user": ["ann", "eve", "bob", "fay"], "item": [7, 7, 1, 2]}
    users, items = Ids(["ann", "bob"]), Ids([7])
    message = r"2 of 4 rows have a user that is not in users \(the first is 'eve'\); unseen='drop'"
    with pytest.raises(ValueError, match=message):
        Interactions.from_frame(frame, users=users)
    with pytest.raises(ValueError, match=r"have an item that is not in items \(the first is 1\)"):
        Interactions.from_frame(frame, items=items)
    both = Interactions.from_frame(frame, users=users, items=items, unseen="drop")
    assert both.matrix.toarray().tolist() == [[1], [0]]
    # What is left out on one side brings no ids to the other.
    assert list(Interactions.from_frame(frame, items=items, unseen="drop").users) == ["ann", "eve"]
    assert list(Interactions.from_frame(frame, users=users, unseen="drop").items) == [7, 1]
    with pytest.raises(ValueError, match="unseen must be 'error' or 'drop'; got 'ignore'"):
        Interactions.from_frame(frame, users=users, unseen="ignore")


@settings(max_examples=40)
@given(first=RECORDS, second=RECORDS)
def test_align_gives_the_codes_of_the_other(first, second):
    train = Interactions.from_arrays(*columns(first))
    test = Interactions.from_arrays(*columns(second))
    aligned = test.align(train, unseen="drop")
    assert aligned.users is train.users
    assert aligned.items is train.items
    known = {p: v for p, v in pairs(test).items() if p[0] in train.users and p[1] in train.items}
    assert pairs(aligned) == known
    if len(known) < len(test):
        with pytest.raises(ValueError, match=f"{len(test) - len(known)} of {len(test)} interact"):
            test.align(train)


def core_by_loops(found, min_user, min_item):
    while True:
        users, items = Counter(u for u, _ in found), Counter(i for _, i in found)
        kept = {(u, i) for u, i in found if users[u] >= min_user and items[i] >= min_item}
        if len(kept) == len(found):
            return kept
        found = kept


@settings(max_examples=40)
@given(interactions=RECORDS, min_user=st.integers(1, 4), min_item=st.integers(1, 4))
def test_filter_is_the_core(interactions, min_user, min_item):
    data = Interactions.from_arrays(*columns(interactions))
    core = data.filter(min_user=min_user, min_item=min_item)
    expected = core_by_loops(set(pairs(data)), min_user, min_item)
    assert pairs(core) == {p: v for p, v in pairs(data).items() if p in expected}
    assert list(core.users) == [u for u in data.users if u in {u for u, _ in expected}]
    assert list(core.items) == [i for i in data.items if i in {i for _, i in expected}]


def test_filter_arguments():
    data = Interactions.from_arrays([1], [1])
    with pytest.raises(ValueError, match="min_user must be a positive integer; got 0"):
        data.filter(min_user=0)


def test_from_matrix():
    matrix = sp.coo_matrix(([1.0, 2.0, 0.0, 4.0], ([0, 0, 1, 2], [1, 1, 0, 0])), shape=(3, 3))
    data = Interactions.from_matrix(matrix, items=["a", "b", "c"])
    assert pairs(data) == {(0, "b"): (3, None), (2, "a"): (4, None)}  # 0 is no interaction
    assert data.shape == (3, 3)
    assert matrix.nnz == 4  # the input is not touched
    for kind in (sp.csr_array, sp.csc_matrix, sp.lil_matrix):
        assert pairs(Interactions.from_matrix(kind(matrix))) == {
            (0, 1): (3, None),
            (2, 0): (4, None),
        }
    with pytest.raises(
        ValueError, match="users must have 3 distinct ids, as the matrix has; got 2"
    ):
        Interactions.from_matrix(matrix, users=["a", "b", "b"])
    with pytest.raises(ValueError, match="positive finite numbers; got -4"):
        Interactions.from_matrix(-matrix.tocsr()[2:])
    with pytest.raises(TypeError, match="scipy sparse matrix; got ndarray"):
        Interactions.from_matrix(np.eye(2))


def test_duplicates_of_small_integers_do_not_overflow():
    counts, place = np.array([100, 100, 90], np.int8), np.zeros(3, int)
    csr = sp.csr_matrix((counts, place, [0, 3]), shape=(1, 2))
    for matrix in (csr, sp.coo_matrix((counts, (place, place)), shape=(1, 2))):
        assert Interactions.from_matrix(matrix).counts.tolist() == [290]


def test_canonical_matrix_is_not_copied():
    matrix = sp.random(50, 40, 0.2, format="csr", dtype=np.float32, random_state=0)
    data = Interactions.from_matrix(matrix)
    assert np.shares_memory(data.indices, matrix.indices)
    assert np.shares_memory(data.matrix.data, matrix.data)
    assert np.shares_memory(data.matrix.indices, data.indices)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indptr": [0, 2]}, "indptr must have length 3; it has 2"),
        ({"indptr": [0, 4, 3]}, r"indptr must never fall; indptr\[2\] is 3 after 4"),
        ({"indptr": [1, 2, 3]}, "indptr must begin with 0"),
        ({"indptr": [0, 1, 2]}, "indptr must end with 3, the number of interactions"),
        ({"indices": [0, 1, 2]}, r"indices\[2\] is 2; it must be from 0 to 1"),
        ({"indices": [0, -1, 0]}, r"indices\[1\] is -1; it must be from 0 to 1"),
        ({"indices": [1, 0, 0]}, "items must rise within each user"),
        ({"indices": [1, 1, 0]}, "items must rise within each user"),
        ({"counts": [1.0, 2.0]}, "counts must have one value for each of the 3 interactions"),
        ({"counts": [1.0, 2.0, 0.0]}, "positive finite numbers; got 0"),
        ({"timestamps": [1, 2]}, "timestamps must have one value"),
        ({"timestamps": [1.0, np.nan, 2.0]}, "timestamps must not be missing; 1 are"),
    ],
)
def test_the_door_is_watched(change, message):
    good = {"users": Ids(["ab", "c"]), "items": Ids.range(2)}
    good |= {"indptr": [0, 2, 3], "indices": [0, 1, 0]}
    assert len(Interactions(**good)) == 3
    with pytest.raises(ValueError, match=message):
        Interactions(**(good | change))


def test_empty_tables():
    data = Interactions.from_arrays([], [])
    assert data.shape == (0, 0)
    assert len(data) == 0
    assert repr(data) == "Interactions(0 users × 0 items, 0 interactions)"
    some = Interactions.from_frame({"user": [], "item": []}, users=Ids([1]), items=Ids([2, 3]))
    assert some.matrix.shape == (1, 2)
    assert some.matrix.nnz == 0
    assert some.filter().shape == (0, 0)


def test_repr_and_lookup():
    data = Interactions.from_arrays(["a", "a", "b"], ["x", "y", "y"])
    assert repr(data) == "Interactions(2 users × 2 items, 3 interactions, density 75%)"
    assert data.user_index("b") == 1
    assert data.item_index(["y", "q"]).tolist() == [1, -1]
    assert data.lengths.tolist() == [2, 1]


def test_take():
    data = Interactions.from_arrays([1, 1, 3], [1, 2, 1], [4, 5, 6], [7, 8, 9])
    part = data.take(np.array([False, True, True]))
    assert pairs(part) == {(1, 2): (5, 8), (3, 1): (6, 9)}
    assert part.shape == data.shape
    with pytest.raises(ValueError, match="mask for 3 interactions; got bool of shape"):
        data.take(np.array([True]))


DATES = [datetime.datetime(1970, 1, 1, 0, 0, s) for s in (0, 1, 2)]


@pytest.mark.parametrize(
    "times",
    [
        DATES,
        np.array(DATES, dtype="datetime64[ns]"),
        np.array(DATES, dtype="datetime64[s]"),
        pl.Series(DATES),
        pl.Series(DATES).dt.replace_time_zone("UTC"),
        pd.Series(DATES),
        pd.Series(DATES).dt.tz_localize("UTC"),
    ],
)
def test_dates_of_every_kind_are_microseconds(times):
    numbers, are_dates = as_times(times)
    assert numbers.to_list() == [0, 1_000_000, 2_000_000]
    assert are_dates


@pytest.mark.parametrize(
    ("times", "expected", "dtype"),
    [
        ([0, 1], [0, 1], pl.Int64),
        (np.array([0.5]), [0.5], pl.Float64),
        ([1, 2.5], [1, 2.5], pl.Float64),
        (["7", "8"], [7, 8], pl.Int64),
        (pl.Series([datetime.date(1970, 1, 2)]), [86_400_000_000], pl.Int64),
        (np.array(["NaT"], dtype="datetime64[s]"), [None], pl.Int64),
        (pd.array([1, None], dtype="Int64"), [1, None], pl.Int64),
        ([1, None], [1, None], pl.Int64),
        (pl.Series([1, None]), [1, None], pl.Int64),
        ([1.0, np.inf], [1, None], pl.Float64),
    ],
)
def test_times_of_every_kind(times, expected, dtype):
    numbers, _ = as_times(times)
    assert numbers.to_list() == expected
    assert numbers.dtype == dtype


def test_text_that_is_no_time():
    with pytest.raises(ValueError, match="time must hold numbers"):
        as_times(["yesterday"])


def test_more_than_two_to_the_31_interactions():
    """The arithmetic, without the memory."""
    starts = offsets(np.array([2**31, 5, 2**31], dtype=np.int64))
    assert starts.dtype == np.int64
    assert starts.tolist() == [0, 2**31, 2**31 + 5, 2**32 + 5]
    small = offsets(np.array([2, 3], dtype=np.int8))  # sums outgrow the type of the lengths
    assert small.dtype == np.int64
    assert offsets(np.full(20, 127, dtype=np.int8))[-1] == 20 * 127
    # What scipy would take for a matrix of that size, as it decides in its constructor.
    indices = np.array([0], dtype=np.int32)
    chosen = sp.get_index_dtype((indices, starts), maxval=10, check_contents=True)
    assert chosen == np.int64


def test_threads_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, 500, 200_000), rng.integers(0, 300, 200_000)
    count, time = rng.random(200_000) + 0.1, rng.random(200_000)
    results = []
    for n in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", n)
        results.append(Interactions.from_arrays(user, item, count, time))
    one, three = results
    assert (one.indptr == three.indptr).all()
    assert (one.indices == three.indices).all()
    assert (one.counts == three.counts).all()
    assert (one.timestamps == three.timestamps).all()


def grown(first, second, **columns):
    return Interactions.from_arrays(*first, **columns).extend(
        Interactions.from_arrays(*second, **columns)
    )


def test_extend_keeps_codes_and_adds_up():
    one = Interactions.from_arrays(["b", "a", "b"], [7, 7, 9], counts=[1, 2, 3])
    two = one.extend({"user": ["c", "b", "a"], "item": [9, 7, 4], "n": [1, 5, 1]}, count="n")
    assert list(two.users) == ["b", "a", "c"]
    assert list(two.items) == [7, 9, 4]
    assert two.matrix.toarray().tolist() == [[6, 3, 0], [2, 0, 1], [0, 1, 0]]
    assert one.shape == (2, 2)
    assert one.counts.tolist() == [1, 3, 2]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), min_size=1),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 9)), min_size=1),
)
def test_extend_is_the_table_of_all_rows(first, second):
    """Made of both at once, the table has the same codes, counts and times."""

    def table(rows):
        users, items, times = zip(*rows, strict=True)
        return Interactions.from_arrays(users, items, times=times)

    whole, extended = table(first + second), table(first).extend(table(second))
    assert whole.users[: table(first).n_users].tolist() == table(first).users[:].tolist()
    aligned = extended.align(whole)
    assert extended.users[:].tolist()[: table(first).n_users] == table(first).users[:].tolist()
    for name in ("indptr", "indices", "timestamps"):
        np.testing.assert_array_equal(getattr(aligned, name), getattr(whole, name))
    assert (aligned.matrix != whole.matrix).nnz == 0


def test_extend_with_ids_of_another_kind():
    text = grown((["x7", "8"], ["a", "b"]), ([8, 9], ["a", "c"]))
    assert list(text.users) == ["x7", "8", "9"]
    with pytest.raises(ValueError, match=r"users must be integers, as in this table.*got 'x'"):
        grown(([7, 8], ["a", "b"]), (["x"], ["a"]))


def test_extend_with_times_on_one_side_only():
    data = Interactions.from_arrays([1], [1], times=[5])
    with pytest.raises(ValueError, match="rows must have times, as this table has"):
        data.extend({"user": [1], "item": [2]})
    with pytest.raises(ValueError, match="rows must have no times"):
        Interactions.from_arrays([1], [1]).extend(data)
    later = data.extend({"user": [1, 1], "item": [1, 2], "at": [3, 9]}, time="at")
    assert later.timestamps.tolist() == [3, 9]


SECONDS = {"user": [2], "item": [1], "at": [1715934600]}


def test_extend_refuses_times_of_another_kind():
    """Seconds, taken as microseconds, would be half an hour after the start of 1970."""
    dated = Interactions.from_arrays([1], [1], times=[datetime.datetime(2024, 5, 17, 8, 30)])
    dates = r"dates from 2024-05-17T08:30:00 to 2024-05-17T08:30:00 \(UTC\)"
    numbers = "numbers from 1715934600 to 1715934600"
    with pytest.raises(ValueError, match=rf"this table has {dates}, rows have {numbers}; convert"):
        dated.extend(SECONDS, time="at")
    numbered = Interactions.from_frame(SECONDS, time="at")
    with pytest.raises(ValueError, match=rf"this table has {numbers}, rows have {dates}; convert"):
        numbered.extend(dated)


def test_extend_with_dates_and_with_nothing():
    dated = Interactions.from_arrays([1], [1], times=[datetime.datetime(2024, 5, 17)])
    converted = {**SECONDS, "at": pl.from_epoch(pl.Series(SECONDS["at"]))}
    grown = dated.extend(converted, time="at")
    assert grown.has_dates
    assert grown.timestamps.tolist() == [1715904000 * 10**6, 1715934600 * 10**6]
    nothing = Interactions.from_frame(SECONDS, time="at").take(np.array([False]))
    assert nothing.extend(dated).has_dates
    assert dated.extend(nothing).has_dates


@pytest.mark.parametrize(
    "times",
    [
        pl.Series([BERLIN]),
        pl.Series([BERLIN]).dt.convert_time_zone("America/New_York"),
        pd.Series([BERLIN]),
        [BERLIN],
    ],
)
def test_dates_with_a_time_zone_are_kept_in_utc(times):
    data = Interactions.from_arrays([1], [1], times=times)
    assert data.has_dates
    assert data.timestamps.astype("datetime64[us]").tolist() == [datetime.datetime(2024, 5, 17, 6)]


@pytest.mark.parametrize("times", [[datetime.time(8)], pl.Series([datetime.timedelta(1)])])
def test_times_of_day_and_durations_are_no_dates(times):
    with pytest.raises(ValueError, match=r"time must hold numbers or dates; got (Time|Duration)"):
        Interactions.from_arrays([1], [1], times=times)


def test_align_refuses_a_choice_that_there_is_not():
    data = Interactions.from_arrays([1], [1])
    with pytest.raises(ValueError, match="unseen must be 'error' or 'drop'; got 'dorp'"):
        data.align(data, unseen="dorp")


@pytest.mark.parametrize("kind", [list, np.array, lambda v: pd.Series(v, dtype=object)])
@pytest.mark.parametrize("side", ["user", "item"])
def test_ids_with_a_lone_surrogate_are_named(kind, side):
    columns = {"user": [1, 2], "item": [1, 2], side: kind(["tea", "caf\udce9"])}
    with pytest.raises(ValueError, match=rf"{side} must hold valid .* got 'caf\\udce9'"):
        Interactions.from_frame(columns)


def test_align_takes_integers_as_text_where_the_other_ids_are_text():
    known = Interactions.from_arrays(["1", "2", "guest"], ["x", "y", "x"])
    new = Interactions.from_arrays([1, 2], ["y", "x"])
    aligned = new.align(known, unseen="drop")
    assert len(aligned) == 2
    assert aligned.users == known.users
    with pytest.raises(ValueError, match="users must be integers, as in other; got '1'"):
        known.align(new, unseen="drop")
