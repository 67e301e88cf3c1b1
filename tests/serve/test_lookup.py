"""Ids found one at a time, what users have, and files that several processes map."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import robirank as rr
from robirank.data.ids import Ids
from robirank.serve.history import History
from robirank.serve.id_index import IdIndex
from serve.shop import fitted

ids = st.lists(st.integers(-50, 50), unique=True) | st.lists(
    st.text(max_size=3) | st.integers(0, 99).map(str), unique=True
)
asked = st.integers(-(2**64), 2**64) | st.integers(-60, 60) | st.text(max_size=3)


@given(ids, st.lists(asked | st.integers(0, 99).map(str), max_size=20))
def test_an_index_finds_what_ids_find(values, wanted):
    table = Ids(values)
    index = IdIndex(table)
    for id in [*values, *wanted]:
        inside = isinstance(id, str) or -(2**63) <= id < 2**63
        assert index.find(id) == (table.find(id) if inside else -1)


def test_a_history_is_in_positions_of_the_model():
    plays = rr.Interactions.from_arrays([1, 1, 2, 1], ["d", "a", "x", "b"], times=[9, 7, 1, 8])
    history = History.of_table(plays, Ids(["a", "b", "c", "d"]))
    assert history.items("1").tolist() == [0, 1, 3]
    assert history.times(1).tolist() == [7, 8, 9]
    assert [len(history.items(user)) for user in (2, 3)] == [0, 0]


def test_a_mapped_model_answers_with_the_same_bits_and_cannot_be_written_to(tmp_path):
    path = tmp_path / "model.safetensors"
    fitted().save(path)
    mapped = rr.load_model(path, mapped=True)
    expected = rr.load_model(path).prepare().recommend(range(9), filter_already_liked_items=False)
    fitted(1).save(path)  # another file takes the name
    got = mapped.prepare().recommend(range(9), filter_already_liked_items=False)
    assert all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))
    with pytest.raises(ValueError, match="read-only"):
        mapped.item_factors[0, 0] = 1.0
