"""Packed rows that processes map: the same bits as those in memory, and no copy of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from robirank import _core
from robirank.latent.factors.packed_file import map_packed, write_packed
from robirank.latent.factors.topk import prepare_rows, top_rows


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("packed") / "rows.packed"


@given(st.integers(0, 70), st.integers(1, 9), st.integers(0, 5))
def test_searches_have_the_same_bits(path, n, d, seed):
    rng = np.random.default_rng(seed)
    rows, queries = (rng.standard_normal((k, d), dtype=np.float32) for k in (n, 5))
    write_packed(path, rows)
    asked = np.arange(5, dtype=np.int32)
    expected = top_rows(queries, asked, prepare_rows(rows, "cpu"), 4)
    mapped = map_packed(path, rows)
    path.unlink()
    assert_array_equal(top_rows(queries, asked, mapped, 4), expected)


def test_the_file_is_mapped_and_not_copied(path):
    rows = np.ones((20, 3), np.float32)
    write_packed(path, rows)
    tiles = np.load(path, mmap_mode="r")
    packed = _core.PackedItems(np.asarray(tiles), 20, 3)
    assert packed.tiles.ctypes.data == tiles.ctypes.data
    assert not packed.tiles.flags.writeable


def test_a_file_of_other_rows_is_an_error(path):
    write_packed(path, np.ones((100, 3), np.float32))
    for shape in ((50, 3), (100, 4), (200, 3)):
        with pytest.raises(ValueError, match="tiles"):
            map_packed(path, np.ones(shape, np.float32))
