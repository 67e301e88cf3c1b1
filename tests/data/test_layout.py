"""The first line of a text file: an interaction, or the names of the columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robirank import load_interactions
from robirank.data._layout import looks_like_header

ORDERS = "customer_id,sku,qty,ts\nc1,s9,2,1715900000\nc2,s9,1,1715900001\n"


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "x.csv"
        path.write_text(text)
        return path

    return write


def test_a_header_is_no_interaction(write):
    path = write(ORDERS)
    message = (
        r"x.csv: the first line looks like a header, \['customer_id', 'sku', 'qty', 'ts'\]; "
        "if it is one, name the columns, such as user='customer_id', item='sku', "
        "or say header=True and give positions; if it is an interaction, say header=False"
    )
    for options in ({}, {"user": 0, "item": 1}, {"count": 2}):
        with pytest.raises(ValueError, match=message):
            load_interactions(path, **options)


def test_both_ways_to_say_what_the_first_line_is(write):
    path = write(ORDERS)
    named = load_interactions(path, user="customer_id", item="sku", count="qty")
    placed = load_interactions(path, user=0, item=1, count=2, header=True)
    assert list(named.users) == list(placed.users) == ["c1", "c2"]
    assert list(load_interactions(path, header=False).users) == ["customer_id", "c1", "c2"]


@pytest.mark.parametrize(
    "lines",
    [
        "who,what,when\nann,tea,2024-05-17\nbob,rum,2024-05-18",  # text above dates
        "who,what,stars\nann,tea,2.5\nbob,rum,\neve,gin,NA",  # missing values say nothing
        "_c0,_c1\n7,31\n8,31",
        "who,what\n7,a\nabc,b",
        "customerId,song\nann,help",
        "id,title\nu1,help",
        "Listener,Track name\nann,help",
        "customers,products\nann,tea",
        '"who","n"\n"ann","3"',
    ],
)
def test_headers(write, lines):
    with pytest.raises(ValueError, match="looks like a header"):
        load_interactions(write(lines + "\n"))


@pytest.mark.parametrize(
    "lines",
    [
        "196,242,3,881250949\n186,302,3,891717742",
        "ann,tea,3\nbob,rum,1",
        "ann,tea,3,2024-05-17 08:30:00\nbob,rum,1,2024-05-18 08:30:00",
        "ann,tea,NA\nbob,rum,1",
        "ann,tea,\nbob,rum,1",
        "x1,tea\n7,rum\nx2,gin",  # ids of both kinds
        "ann,book\nbob,song",  # an item may be called so
        "ann,7",
        "ann,tea\nbob",
    ],
)
def test_interactions(write, lines):
    data = load_interactions(write(lines + "\n"), on_missing="drop")
    assert str(data.users[0]) == lines.split(",")[0]


typed = st.one_of(st.integers().map(str), st.floats(allow_nan=False).map(str), st.dates().map(str))
words = st.text("abcxyz", min_size=1).map(lambda text: f"col {text}")


@given(st.lists(typed, min_size=1), typed, words)
def test_text_above_numbers_and_dates_is_a_header_and_a_number_is_not(column, number, word):
    rows = [["ann", value] for value in column]
    assert looks_like_header(["who", word], rows)
    assert not looks_like_header(["who", number], rows)
