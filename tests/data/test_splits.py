"""Splits: nothing lost, nothing twice, and each what it says."""

import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robirank._sparse import offsets
from robirank.data.ids import Ids
from robirank.data.interactions import Interactions
from robirank.data.splits import (
    split_leave_one_out,
    split_new_items,
    split_new_users,
    split_ratio,
    split_time,
)


def random_table(lengths, seed=0, *, n_items=30, distinct_times=False):
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(n_items, size=n, replace=False)) for n in lengths]
    indices = np.concatenate([*rows, np.empty(0, dtype=int)])
    n = len(indices)
    times = rng.permutation(n) if distinct_times else rng.integers(0, 5, n)
    counts = 1.0 + np.arange(n)
    return Interactions(
        Ids.range(len(lengths)),
        Ids.range(n_items),
        offsets(np.array(lengths)),
        indices,
        counts,
        times,
    )


LENGTHS = st.lists(st.integers(0, 12), min_size=1, max_size=12)
SPLITS = {
    "ratio": lambda data, seed: split_ratio(data, 0.3, random_state=seed),
    "leave one out": lambda data, seed: split_leave_one_out(data, random_state=seed),
    "latest": lambda data, seed: split_leave_one_out(data, by_time=True),
    "at": lambda data, seed: split_time(data, at=seed % 6),
    "last third": lambda data, seed: split_time(data, fraction=0.33),
    "new users": lambda data, seed: split_new_users(data, 0.4, random_state=seed),
    "new items": lambda data, seed: split_new_items(data, 0.4, random_state=seed),
    "new and old items": lambda data, seed: split_new_items(data, 0.2, test=0.3, random_state=seed),
    "latest items": lambda data, seed: split_new_items(data, 0.4, by_time=True),
}


@pytest.mark.parametrize("kind", SPLITS)
@settings(max_examples=40)
@given(lengths=LENGTHS, seed=st.integers(0, 999))
def test_every_interaction_is_in_one_part_with_all_that_belongs_to_it(kind, lengths, seed):
    data = random_table(lengths, seed)
    parts = SPLITS[kind](data, seed)
    together = []
    for part in parts:
        assert part.users is data.users
        assert part.items is data.items
        times = part.timestamps
        together += zip(part.user_codes(), part.indices, part.matrix.data, times, strict=True)
    whole = zip(data.user_codes(), data.indices, data.matrix.data, data.timestamps, strict=True)
    assert sorted(together) == sorted(whole)


@given(lengths=LENGTHS, seed=st.integers(0, 999), share=st.floats(0, 1))
def test_ratio_is_within_one_and_leaves_one(lengths, seed, share):
    data = random_table(lengths, seed)
    train, test = split_ratio(data, share, random_state=seed)
    for n, n_train, n_test in zip(data.lengths, train.lengths, test.lengths, strict=True):
        assert n_train >= min(n, 1)
        assert abs(n_test - min(share * n, max(n - 1, 0))) < 1 + 1e-9


def test_ratio_is_right_on_average_even_for_short_lists():
    data = random_table([2] * 20_000)
    _, test = split_ratio(data, 0.2)
    assert len(test) / len(data) == pytest.approx(0.2, abs=0.005)


@pytest.mark.parametrize("kind", ["ratio", "leave one out"])
def test_each_place_is_as_likely_as_any_other(kind):
    n = 5_000
    data = random_table([10] * n)
    _, test = SPLITS[kind](data, 1)
    chosen = np.zeros(len(data), dtype=bool)
    keys = data.user_codes() * 100 + data.indices
    chosen[np.isin(keys, test.user_codes() * 100 + test.indices)] = True
    by_place = chosen.reshape(n, 10).mean(axis=0)
    share = {"ratio": 0.3, "leave one out": 0.1}[kind]
    np.testing.assert_allclose(by_place, share, atol=4 * np.sqrt(share * (1 - share) / n))
    neighbours = np.corrcoef(chosen.reshape(n, 10)[:, 3], chosen.reshape(n, 10)[:, 4])[0, 1]
    assert neighbours == pytest.approx(-1 / 9, abs=4 / np.sqrt(n))  # without repetition
    users = np.corrcoef(chosen[:-10:10], chosen[10::10])[0, 1]
    assert users == pytest.approx(0, abs=4 / np.sqrt(n))


@settings(max_examples=40)
@given(lengths=LENGTHS, seed=st.integers(0, 999))
def test_leave_one_out(lengths, seed):
    data = random_table(lengths, seed, distinct_times=True)
    for by_time in (False, True):
        train, test = split_leave_one_out(data, by_time=by_time, random_state=seed)
        assert test.lengths.tolist() == [int(n > 1) for n in lengths]
        if by_time:
            kept = dict(zip(test.user_codes().tolist(), test.timestamps.tolist(), strict=True))
            for user, time in zip(train.user_codes().tolist(), train.timestamps, strict=True):
                assert time < kept.get(user, np.inf)


def test_the_latest_of_equal_times_has_the_highest_code():
    data = Interactions.from_arrays([1, 1, 1], ["a", "b", "c"], times=[5, 5, 0])
    _, test = split_leave_one_out(data, by_time=True)
    assert test.items[test.indices].tolist() == ["b"]


def test_time_worked_by_hand():
    data = Interactions.from_arrays([1, 1, 2, 2], [1, 2, 1, 2], times=[10, 20, 20, 30])
    train, test = split_time(data, at=20)
    assert train.timestamps.tolist() == [10]
    assert test.timestamps.tolist() == [20, 20, 30]
    assert len(split_time(data, at=20.5)[1]) == 1
    assert len(split_time(data, fraction=0.25)[1]) == 1
    assert len(split_time(data, fraction=0.5)[1]) == 3  # both of the same moment
    assert len(split_time(data, fraction=0.0)[1]) == 0
    assert len(split_time(data, fraction=1.0)[0]) == 0


def test_time_by_dates():
    dates = [datetime.datetime(2024, 5, d) for d in (1, 2, 3)]
    data = Interactions.from_arrays([1, 2, 3], [1, 1, 1], times=dates)
    paris = datetime.timezone(datetime.timedelta(hours=2))
    for at in (
        dates[1],
        "2024-05-02",
        "2024-05-02 00:00:00+00:00",
        np.datetime64("2024-05-02"),
        datetime.date(2024, 5, 2),
        datetime.datetime(2024, 5, 2, 2, tzinfo=paris),
    ):
        assert [len(part) for part in split_time(data, at)] == [1, 2]


@pytest.mark.parametrize(
    "at", ["2024-05-02", datetime.date(2024, 5, 2), np.datetime64("2024-05-02T00:00")]
)
def test_a_date_is_no_moment_among_numbers(at):
    seconds = Interactions.from_arrays([1, 2], [1, 1], times=[1714521600, 1714694400])
    message = "at must be a number, for the times of data are numbers from 1714521600 to 1714694400"
    with pytest.raises(ValueError, match=message):
        split_time(seconds, at)


def test_parts_of_a_table_with_dates_have_dates():
    dates = np.array(["2024-05-01", "2024-05-02", "2024-05-03"], "datetime64[D]")
    data = Interactions.from_arrays([1, 1, 1], [1, 2, 3], times=dates)
    _, late = split_time(data, "2024-05-02")
    assert [len(part) for part in split_time(late, "2024-05-03")] == [1, 1]
    for part in (late.binarize(), late.filter(), late.align(data)):
        assert part.has_dates


def test_a_number_among_dates_is_microseconds():
    days = np.array(["1970-01-01", "1970-01-02"], "datetime64[D]")
    data = Interactions.from_arrays([1, 2], [1, 1], times=days)
    assert [len(part) for part in split_time(data, 1)] == [1, 1]
    found = r"at=86401000000 .* dates from 1970-01-01T00:00:00 to 1970-01-02T00:00:00 \(UTC\)"
    with pytest.warns(UserWarning, match=found):
        split_time(data, 86_401_000_000)


@settings(max_examples=40)
@given(
    lengths=LENGTHS, seed=st.integers(0, 999), share=st.floats(0, 1), hidden_share=st.floats(0, 1)
)
def test_new_users(lengths, seed, share, hidden_share):
    data = random_table(lengths, seed)
    train, visible, hidden = split_new_users(data, share, hidden=hidden_share, random_state=seed)
    new = visible.lengths > 0
    assert (new == (hidden.lengths > 0)).all()  # at least one on each side
    assert (train.lengths[new] == 0).all()
    assert (train.lengths[~new] == data.lengths[~new]).all()
    able = int((data.lengths > 1).sum())
    assert new.sum() == min(round(share * len(lengths)), able)
    short = np.abs(hidden.lengths - hidden_share * data.lengths)[new]
    assert (short < 1 + 1e-9).all() or hidden_share in (0, 1) or (hidden.lengths[new] == 1).any()


@settings(max_examples=60)
@given(
    lengths=LENGTHS,
    seed=st.integers(0, 999),
    share=st.floats(0, 1),
    test=st.sampled_from([0.0, 0.3, 1.0]),
    by_time=st.booleans(),
)
def test_new_items(lengths, seed, share, test, by_time):
    data = random_table(lengths, seed)
    train, held_out = split_new_items(data, share, test=test, by_time=by_time, random_state=seed)
    counts, trained, tested = (
        np.bincount(part.indices, minlength=data.n_items) for part in (data, train, held_out)
    )
    assert (trained + tested == counts).all()
    new = (counts > 0) & (trained == 0)
    n_new = round(share * np.count_nonzero(counts))
    if not test:  # an item is in one part
        assert new.sum() == n_new
        assert not (tested[~new]).any()
    else:  # others may have lost all they had
        assert new.sum() >= n_new
        left = held_out.take(~new[held_out.indices]).lengths
        assert (left <= np.ceil(test * data.lengths)).all()
    if by_time and not test and 0 < n_new < np.count_nonzero(counts):
        first = np.full(data.n_items, np.inf)
        np.minimum.at(first, data.indices, data.timestamps)
        assert first[new].min() >= first[(counts > 0) & ~new].max()


def test_a_user_keeps_an_old_item_to_train_on():
    """Of the old items each user's share is taken, but never all."""
    data = random_table([10] * 400, 1)
    train, held_out = split_new_items(data, 0.2, test=0.25, random_state=0)
    new = np.bincount(train.indices, minlength=30) == 0
    assert new.sum() == 6
    assert (train.lengths > 0).all()
    on_old = held_out.take(~new[held_out.indices])
    assert len(on_old) / (len(train) + len(on_old)) == pytest.approx(0.25, abs=0.02)
    everything, _ = split_new_items(data, 0.2, test=1.0, random_state=0)
    assert everything.lengths.tolist() == [1] * 400


def test_items_without_interactions_are_not_held_out():
    data = random_table([2, 1], 0)
    assert data.n_items == 30
    train, held_out = split_new_items(data, 0.5, random_state=0)
    n_items = len(np.unique(data.indices))
    assert len(np.unique(held_out.indices)) == round(0.5 * n_items)
    assert held_out.n_items == train.n_items == 30


def test_the_items_that_appeared_last_by_hand():
    """Item b was first taken at 20, before c at 30; that somebody took it at 90 does not count."""
    times = [10, 20, 90, 30, 40]
    data = Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "d"], times=times)
    for share, names in ((0.0, ""), (0.25, "d"), (0.5, "cd"), (1.0, "abcd")):
        train, held_out = split_new_items(data, share, by_time=True)
        assert sorted(set(held_out.items[held_out.indices])) == sorted(names)
        assert len(train) + len(held_out) == 5
    days = np.array(["2024-05-01", "2024-05-03", "2024-05-02"], "datetime64[D]")
    dated = Interactions.from_arrays([1, 1, 1], [7, 8, 9], times=days)
    _, last = split_new_items(dated, 0.34, by_time=True)
    assert last.items[last.indices].tolist() == [8]
    assert last.has_dates


def test_the_seed_of_new_items_decides():
    data = random_table([9] * 60)

    def outcome(state):
        return split_new_items(data, 0.3, test=0.2, random_state=state)[1].matrix.data.tolist()

    first = outcome(3)
    assert outcome(3) == first == outcome(np.random.default_rng(3))
    assert outcome(4) != first
    # What is taken of old items does not change which items are new.
    alone, _ = split_new_items(data, 0.3, random_state=3)
    train, _ = split_new_items(data, 0.3, test=0.2, random_state=3)
    assert set(train.indices) <= set(alone.indices)


def test_seed_decides_and_threads_do_not(monkeypatch):
    data = random_table(np.tile([3, 9, 25], 3000))

    def outcome(state):
        return split_ratio(data, 0.2, random_state=state)[1].matrix.data.tolist()

    first = outcome(3)
    assert outcome(np.random.default_rng(3)) == first
    assert outcome(4) != first
    assert outcome(None) != outcome(None)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert outcome(3) == first


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: split_ratio(d, 1.5), "test must be a fraction from 0 to 1; got 1.5"),
        (lambda d: split_ratio(d, random_state=-1), "random_state must be an integer ≥ 0"),
        (lambda d: split_new_users(d, -0.1), "fraction must be a fraction from 0 to 1; got -0.1"),
        (lambda d: split_new_items(d, 1.1), "fraction must be a fraction from 0 to 1; got 1.1"),
        (lambda d: split_new_items(d, None), "fraction must be a fraction from 0 to 1; got None"),
        (lambda d: split_new_items(d, test=-0.1), "test must be a fraction from 0 to 1; got -0.1"),
        (lambda d: split_new_items(d, test="all"), "test must be a fraction from 0 to 1"),
        (lambda d: split_new_items(d, test=float("nan")), "test must be a fraction from 0 to 1"),
        (lambda d: split_new_items(d, random_state=-1), "random_state must be an integer ≥ 0"),
        (lambda d: split_new_users(d, hidden="half"), "hidden must be a fraction from 0 to 1"),
        (lambda d: split_time(d), "either at or fraction; got at=None, fraction=None"),
        (lambda d: split_time(d, 1, fraction=0.5), "either at or fraction"),
        (lambda d: split_time(d, "soon"), "a date in ISO form; got 'soon'"),
        (lambda d: split_time(d, float("nan")), "a number or a date; got nan"),
        (lambda d: split_time(d, fraction=2), "fraction must be a fraction from 0 to 1; got 2"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(random_table([2, 3]))


def test_times_are_needed():
    data = Interactions.from_arrays([1, 1], [1, 2])
    for split in (
        lambda: split_time(data, 1),
        lambda: split_leave_one_out(data, by_time=True),
        lambda: split_new_items(data, by_time=True),
    ):
        with pytest.raises(ValueError, match="data has no timestamps"):
            split()


@pytest.mark.parametrize(("at", "sizes"), [(100, [0, 3]), (400, [3, 0])])
def test_a_moment_outside_of_the_times_is_warned_of(at, sizes):
    data = Interactions.from_arrays([1, 1, 2], [5, 6, 5], times=[100, 300, 200])
    with pytest.warns(UserWarning, match=f"at={at} leaves one part empty: .* 100 to 300"):
        assert [len(part) for part in split_time(data, at=at)] == sizes
