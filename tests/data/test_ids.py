"""Ids: both ways, any type, the same order for good."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robirank.data.ids import Ids

KINDS = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "str": st.text(max_size=4),
    "tuple": st.tuples(st.integers(0, 3), st.sampled_from("ab")),
    "mixed": st.one_of(st.integers(0, 3), st.sampled_from("0123"), st.dates()),
    "huge": st.integers(2**70, 2**70 + 5),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(data=st.data())
def test_codes_follow_first_appearance_and_lead_back(kind, data):
    values = data.draw(st.lists(KINDS[kind], max_size=20))
    others = data.draw(st.lists(KINDS[kind], max_size=10))
    order = list(dict.fromkeys(values))
    ids = Ids(values)
    assert list(ids) == order
    assert len(ids) == len(order)
    assert [ids[code] for code in range(len(ids))] == order
    assert ids[:].tolist() == order
    wanted = [order.index(v) if v in order else -1 for v in values + others]
    codes = ids.index(values + others)
    assert codes.tolist() == wanted
    assert codes.dtype == np.int32
    assert [ids.index(v) for v in values + others] == wanted
    assert all((v in ids) == (v in order) for v in others)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(data=st.data())
def test_extend_adds_what_is_new_at_the_end(kind, data):
    first = data.draw(st.lists(KINDS[kind], max_size=10))
    second = data.draw(st.lists(KINDS[kind], max_size=10))
    ids = Ids(first)
    before = list(ids)
    longer = ids.extend(second)
    assert list(longer) == list(dict.fromkeys(first + second))
    assert list(ids) == before  # others may be using it
    assert longer == Ids(first + second)
    assert longer.extend(second) == longer


def test_range_stores_nothing_and_equals_the_integers():
    ids = Ids.range(2**31 - 1)
    assert ids.index(2**31 - 2) == 2**31 - 2
    assert ids.index([0, 5, -1, 2**31 - 1, 2**40]).tolist() == [0, 5, -1, -1, -1]
    assert ids.index(["0"]).tolist() == [-1]
    assert ids.index("0") == -1
    assert ids[7] == 7
    assert Ids.range(3) == Ids([0, 1, 2])
    assert Ids.range(3) != Ids(["0", "1", "2"])
    assert Ids.range(3) != Ids([0, 2, 1])
    assert list(Ids.range(2).extend([5, 1])) == [0, 1, 5]
    with pytest.raises(ValueError, match="at most"):
        Ids.range(2**31)


def test_kinds():
    assert Ids([3, 1]).kind == "int"
    assert Ids(np.array([3, 1], dtype=np.uint8))[0] == 3
    assert Ids(["a"]).kind == "str"
    assert Ids([1, "a"]).kind == "object"
    assert Ids([True, False]).kind == "object"
    assert Ids([1.0, 7.0, 3.0]).kind == "int"  # integers, as pandas makes them beside NaN
    assert Ids([1.5, 2.0]).kind == "object"
    assert Ids([2**64]).kind == "object"
    assert Ids(pl.Series(["b", "a"], dtype=pl.Categorical)).kind == "str"
    assert Ids(pd.Series(["b", "a"], dtype="category")).kind == "str"
    assert Ids(pd.array([4, 2], dtype="Int64")).kind == "int"
    assert Ids(pl.Series([datetime.date(2024, 5, 1)])).index(datetime.date(2024, 5, 1)) == 0


def test_one_and_the_text_one_are_two_ids():
    assert Ids([1, 2]).index(["1", "2"]).tolist() == [-1, -1]
    assert Ids(["1", "2"]).index([1, 2]).tolist() == [-1, -1]
    assert Ids([1, "1"]).index(["1", 1]).tolist() == [1, 0]


@pytest.mark.parametrize(
    "values",
    [["a", None], [1.0, np.nan], [1, None], pl.Series([1, None]), pd.Series(["a", None])],
)
def test_missing_values_are_refused(values):
    with pytest.raises(ValueError, match=r"1 of 2 are missing .the first is value 1"):
        Ids(values)


def test_bad_values():
    with pytest.raises(TypeError, match="values must be an array or a list; got 'abc'"):
        Ids("abc")
    with pytest.raises(TypeError, match="hashable"):
        Ids([[1], [2]])
    with pytest.raises(ValueError, match="one dimension"):
        Ids(np.zeros((2, 2), dtype=int))
    with pytest.raises(ValueError, match="18446744073709551615, which does not fit"):
        Ids(np.array([2**64 - 1], dtype=np.uint64))


def test_codes_out_of_range_are_refused():
    ids = Ids(["a", "b"])
    with pytest.raises(IndexError, match="there is no id at -1; positions go from 0 to 1"):
        ids[-1]  # the code of an unseen id must not give the last one
    with pytest.raises(IndexError, match="no id at 2"):
        ids[[0, 2]]
    with pytest.raises(TypeError, match="integers"):
        ids[[0.5]]
    assert ids[[]].tolist() == []
    assert ids[np.array([[0, 1], [1, 1]])].tolist() == [["a", "b"], ["b", "b"]]


@pytest.mark.parametrize(
    "values",
    [["x", "", "ü€𝄞", "x y"], [5, -3, 2**62], [0, 1, 2], [], ["0"], [str(i) for i in range(9)]],
)
def test_tensors_lead_back(values):
    ids = Ids(values)
    tensors = ids.to_tensors("users")
    assert all(name.startswith("users.") for name in tensors)
    assert {str(t.dtype) for t in tensors.values()} <= {"uint8", "int64"}
    again = Ids.from_tensors(tensors | {"other": np.zeros(1)}, "users")
    assert again == ids
    assert again.kind == ids.kind


@given(st.lists(st.text(max_size=5), unique=True, max_size=8))
def test_text_tensors_lead_back(values):
    assert list(Ids.from_tensors(Ids(values).to_tensors("i"), "i")) == values


def test_what_a_file_cannot_hold():
    with pytest.raises(TypeError, match="these are of type tuple"):
        Ids([(1, 2)]).to_tensors("users")
    with pytest.raises(TypeError, match="these are of type int, str"):
        Ids([1, "a"]).to_tensors("users")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u.bytes": np.array([255, 98, 99], np.uint8)}, "utf-8"),
        ({"u.offsets": np.array([0, 2, 9])}, "offsets"),
        ({"u.offsets": np.array([0, 4, 3])}, "offsets"),
        ({"u.offsets": np.array([1, 2, 3])}, "offsets"),
        ({"u.offsets": np.array([0.0, 2, 3])}, "offsets"),
        ({"u.offsets": np.array([], dtype=np.int64)}, "offsets"),
        ({"u.bytes": np.array([97, 97, 97]), "u.offsets": np.array([0, 1, 3])}, "bytes"),
        ({"u.bytes": np.full(2, 97, np.uint8), "u.offsets": np.arange(3)}, "distinct"),
        ({"u.ints": np.array([1, 1])}, "distinct"),
        ({"u.ints": np.array([1.5])}, "int64"),
        ({"u.range": np.array([-1])}, "length"),
        ({"u.bytes": None}, "no ids 'u' among"),
    ],
)
def test_damaged_tensors_are_refused(change, message):
    tensors = Ids(["ab", "c"]).to_tensors("u") | change
    with pytest.raises(ValueError, match=message):
        Ids.from_tensors(tensors, "u")


def test_repr():
    assert repr(Ids(["a", "b"])) == "Ids(2: 'a', 'b')"
    assert repr(Ids.range(10_000)) == "Ids(10,000: 0, 1, 2, …)"


TEXTS = st.one_of(
    st.integers().map(str),
    st.integers(-(2**64), 2**64).map(str),
    st.integers(0, 99).map("0{}".format),
    st.builds("{}{}".format, st.sampled_from("+- \t−"), st.integers(0, 99)),
    st.builds("{}{}".format, st.integers(0, 99), st.sampled_from(" \n_0.")),
    st.text("0123456789-٠٧７²x ", max_size=4),
)


@given(st.lists(TEXTS, max_size=12), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6))
def test_an_integer_and_its_text_are_one_id(texts, more):
    """Alone, in a list of text, and in a list of both."""
    ids = Ids([*more, 7, -1])
    texts += map(str, more)
    written = {str(value): code for code, value in enumerate(ids)}
    wanted = [written.get(text, -1) for text in texts]
    assert [ids.find(text) for text in texts] == wanted
    assert ids.find(texts).tolist() == wanted
    assert ids.find([*texts, -1]).tolist() == [*wanted, written["-1"]]
    assert Ids([*written]).find([*ids]).tolist() == list(range(len(ids)))
    assert [Ids([*written]).find(value) for value in ids] == list(range(len(ids)))


@pytest.mark.parametrize(
    "text", ["007", "+7", " 7", "7 ", "7\n", "-0", "٧", "７", "7_0", "7.0", ""]
)
def test_text_that_no_integer_is_printed_as_is_no_integer(text):
    ids = Ids([7, 0, 70])
    assert ids.find(text) == -1
    assert ids.find([text, "7"]).tolist() == [-1, 0]
    assert ids.find([text, 7]).tolist() == [-1, 0]


def test_the_largest_integers_are_found_by_their_text():
    ends = [2**63 - 1, -(2**63)]
    assert Ids(ends).find([str(end) for end in ends]).tolist() == [0, 1]
    assert Ids(ends).find(["9223372036854775808", "9" * 5000]).tolist() == [-1, -1]
    assert Ids(ends).find("9" * 5000) == -1
    assert Ids([str(2**70), "x"]).find(2**70) == 0
    assert Ids([str(2**70), "x"]).find([2**70, True]).tolist() == [0, -1]
