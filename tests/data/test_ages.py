"""Weights of records by their age."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from robirank import ArgumentError, Interactions
from robirank.data.ages import Ages, check_times, length_of_time
from robirank.data.user_items import as_user_items
from robirank.errors import Argument


def test_a_half_life_later_weighs_half():
    plays = Interactions.from_arrays([1, 1, 2, 2], [1, 2, 1, 3], times=[0.0, 10, 20, 30])
    table = as_user_items(plays)
    weighed = Ages(half_life=10.0, latest=20.0).weigh(table)
    assert_allclose(weighed.weight, [0.25, 0.5, 1, 1])
    counted = as_user_items(plays.extend({"u": [1], "i": [2], "t": [5.0]}, "u", "i", None, "t"))
    assert_allclose(
        Ages(10.0, 20.0).weigh(counted.weighted("binary")).weight[:2], [0.25, 2 ** (-1.5)]
    )


def test_old_records_still_weigh_something():
    assert Ages(1.0, 1e9).weights(np.array([0]))[0] > 0


def test_without_times_or_half_life_nothing_changes():
    table = as_user_items(Interactions.from_arrays([1], [1]))
    assert Ages(1.0, 1.0).weigh(table) is table
    assert Ages().weigh(table) is table


@pytest.mark.parametrize(
    ("value", "has_dates"), [("30d", False), (30, True), ("0d", True), (-1, False), ("x", True)]
)
def test_a_wrong_length_of_time_is_named(value, has_dates):
    with pytest.raises(ValueError, match=r"^half_life must be"):
        length_of_time("half_life", value, has_dates)


def test_times_must_be_there_and_past():
    plays = Interactions.from_arrays([1], [1])
    with pytest.raises(ArgumentError, match=r"^half_life='1d' needs a table with times"):
        check_times(plays, Argument("half_life", "1d"))
    ahead = np.array([time.time() + 1e7]) * 1e6
    dated = Interactions.from_arrays([1], [1], times=ahead.astype("datetime64[us]"))
    with pytest.raises(
        ArgumentError, match=r"^order=True must have no time in the future; it has 1"
    ):
        check_times(dated, Argument("order", True))
