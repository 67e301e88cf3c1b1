"""Names that someone may have meant."""

import gzip
import time

import numpy as np
import polars as pl
import pytest

from robirank import Interactions
from robirank.data.ids import Ids
from robirank.data.names import Names, look_up
from robirank.data.nearest import nearest

BANDS = ["Metallica", "Slayer", "Megadeth", "Metal Church", "Motörhead", "The Beatles"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("Metalica", ["Metallica"]),
        ("METALLICA", ["Metallica"]),
        ("slayr", ["Slayer"]),
        ("motorhead", ["Motörhead"]),
        ("beatles", ["The Beatles"]),  # within a name
        ("Bethoven", []),
        ("", []),
        ("x", []),
    ],
)
def test_the_nearest_names(typed, expected):
    assert nearest(typed, BANDS) == expected


def test_the_best_come_first_and_none_twice():
    assert nearest("item 10", [*(f"item {n}" for n in range(99)), "item 10"])[0] == "item 10"
    assert nearest("abc", ["abcd", "abc", "abc"]) == ["abc", "abcd"]
    assert nearest("abc", []) == []


def test_hundreds_of_thousands_of_names_take_a_moment():
    letters = np.random.default_rng(0).integers(97, 123, (400_000, 12), dtype=np.uint8)
    names = pl.Series([*letters.view("S12")[:, 0].astype(str).tolist(), "Metallica"])
    begin = time.perf_counter()
    assert nearest("Metalica", names)[0] == "Metallica"
    assert time.perf_counter() - begin < 10  # about 0.4 s; difflib alone takes minutes


def test_an_unknown_id_is_an_error_that_helps():
    with pytest.raises(ValueError, match=r"no item 'Metalica' in m; did you mean 'Metallica'\?$"):
        look_up("item", ["Metalica"], Ids(BANDS), None, where="m")
    names = Names({"7": "Metallica"})
    with pytest.raises(ValueError, match=r"'metalica' in m; did you mean 'Metallica'\?$"):
        look_up("item", ["metalica"], Ids([7, 8]), names, where="m")
    with pytest.raises(ValueError, match=r"no item '9' in m, which knows 2 items, such as 7, 8$"):
        look_up("item", ["9"], Ids([7, 8]), None, where="m")


def test_ids_of_other_data():
    known = Interactions.from_arrays(["ann", "bob"], ["Metallica", "Slayer"])
    later = Interactions.from_arrays(["bob"], ["metalica"])
    with pytest.raises(ValueError, match=r"first is item 'metalica'; did you mean 'Metallica'\?"):
        later.align(known)
    frame = {"user": ["an"], "item": ["Slayer"]}
    with pytest.raises(ValueError, match=r"the first is 'an'; did you mean 'ann'\?"):
        Interactions.from_frame(frame, users=known.users, items=known.items)


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"1\tone\r2\ttwo\r", "x.tsv", "line 1 has a carriage return"),
        (gzip.compress(b"1\tone\n" * 99)[:-9], "x.tsv.gz", "truncated"),
        (b"1\t\xff\xfe\n", "x.tsv", "invalid utf-?8"),
    ],
)
def test_files_of_names_that_are_damaged_are_named(tmp_path, content, name, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"(?i)x.tsv.* cannot be read: .*{message}"):
        Names.read(tmp_path / name)
