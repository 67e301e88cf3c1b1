"""Features in the order of a table, and their products with dense matrices."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import robirank as rr
from robirank.data.feature_rows import FeatureRows, align_features
from robirank.data.ids import Ids

COLOURS = rr.Features.from_frame({"id": ["b", "x", "a"], "colour": ["red", "blue", "blue"]})


def names_of(rows, position):
    row = rows.matrix[position].toarray()[0]
    return {name for name, value in zip(rows.encoder.names, row, strict=True) if value}


def test_rows_stand_in_the_order_of_the_table_and_new_ones_after_them():
    rows, ids = align_features("item_features", COLOURS, Ids(["a", "b", "c"]), 3)
    assert ids[:].tolist() == ["a", "b", "c", "x"]
    colours = [names_of(rows, i) - {"constant"} for i in range(4)]
    assert colours == [{"colour=blue"}, {"colour=red"}, set(), {"colour=blue"}]
    assert all("constant" in names_of(rows, i) for i in range(4))


def test_integers_and_their_text_are_one_id():
    features = rr.Features.from_frame({"id": [7, 9], "x": ["a", "b"]})
    _, ids = align_features("item_features", features, Ids(["9", "8"]), 2)
    assert ids[:].tolist() == ["9", "8", "7"]
    with pytest.raises(ValueError, match="item_features must be integers"):
        align_features("item_features", COLOURS, Ids([1, 2]), 2)


def test_without_ids_they_are_positions_and_new_ones_leave_no_gap():
    features = rr.Features.from_frame({"id": [1, 3, 2], "x": ["a", "b", "c"]})
    rows, ids = align_features("item_features", features, None, 2)
    assert ids is None
    assert [names_of(rows, i) - {"constant"} for i in range(4)] == [
        set(),
        {"x=a"},
        {"x=c"},
        {"x=b"},
    ]
    with pytest.raises(ValueError, match="new ones from 1 on without a gap; got 2"):
        align_features("item_features", rr.Features.from_array(np.eye(2), [0, 2]), None, 1)
    with pytest.raises(ValueError, match="must have positions as ids"):
        align_features("item_features", COLOURS, None, 3)


def test_what_was_known_before_stays_unless_it_is_given_again():
    before, ids = align_features("item_features", COLOURS, Ids(["a", "b"]), 2)
    more = rr.Features.from_frame({"id": ["n", "a"], "colour": ["red", "green"]})
    with pytest.warns(rr.UnknownValueWarning, match="1 of 'colour'"):
        rows, ids = align_features("item_features", more, ids, 3, before)
    assert ids[:].tolist() == ["a", "b", "x", "n"]
    colours = [names_of(rows, i) - {"constant"} for i in range(4)]
    assert colours == [set(), {"colour=red"}, {"colour=blue"}, {"colour=red"}]
    same, _ = align_features("item_features", None, ids, 5, before)
    assert len(same) == 5


def test_anything_else_is_a_type_error():
    with pytest.raises(TypeError, match="item_features must be Features"):
        align_features("item_features", [[1, 2]], None, 1)


@given(st.integers(0, 9), st.integers(1, 40), st.integers(1, 30), st.integers(1, 70))
def test_products_are_those_of_scipy_whatever_the_number_of_threads(seed, n, columns, d):
    rng = np.random.default_rng(seed)
    F = sparse.random(n, columns, 0.3, "csr", np.float32, random_state=seed)
    W, rows = (rng.standard_normal((k, d)).astype(np.float32) for k in (columns, n))
    features = FeatureRows(None, F)
    assert_allclose(features.times(W), F @ W, rtol=1e-5, atol=1e-6)
    assert_allclose(features.transposed_times(rows), F.T @ rows, rtol=1e-5, atol=1e-6)
    weights = rng.random(n).astype(np.float32)
    assert_allclose(features.squares(weights), F.power(2).T @ weights, rtol=1e-5, atol=1e-6)


def test_threads_change_no_bit():
    rng = np.random.default_rng(0)
    F = sparse.random(3000, 500, 0.05, "csr", np.float32, random_state=0)
    features = FeatureRows(None, F)
    W, rows = (rng.standard_normal((k, 70)).astype(np.float32) for k in (500, 3000))
    for n_threads in (2, 5):
        assert_array_equal(features.times(W, n_threads), features.times(W, 1))
        assert_array_equal(
            features.transposed_times(rows, n_threads), features.transposed_times(rows, 1)
        )


def test_shapes_are_checked():
    features = FeatureRows(None, sparse.identity(3, np.float32, "csr"))
    with pytest.raises(ValueError, match="dense"):
        features.times(np.zeros((2, 1), np.float32))
    with pytest.raises(ValueError, match="dense"):
        features.transposed_times(np.zeros((2, 1), np.float32))


def test_rows_survive_a_pickle_and_a_file():
    rows, _ = align_features("item_features", COLOURS, Ids(["a", "b"]), 2)
    W = np.ones((rows.encoder.width, 2), np.float32)
    expected = rows.times(W)
    assert_array_equal(pickle.loads(pickle.dumps(rows)).times(W), expected)
    assert_array_equal(FeatureRows.from_tensors(rows.to_tensors("f"), "f").times(W), expected)


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("f.indices", lambda a: a + 1000),
        ("f.indptr", lambda a: a[::-1]),
        ("f.data", lambda a: a * np.nan),
        ("f.data", lambda a: a[:-1]),
        ("f.data", lambda a: a.astype(np.float64)),
    ],
)
def test_damaged_rows_are_refused(part, damage):
    arrays = align_features("item_features", COLOURS, Ids(["a", "b"]), 2)[0].to_tensors("f")
    arrays[part] = damage(arrays[part])
    with pytest.raises(ValueError):
        FeatureRows.from_tensors(arrays, "f")


def test_someone_is_described_by_a_dict():
    rows, _ = align_features("user_features", COLOURS, Ids(["a", "b"]), 2)
    some = rows.rows_of("features", [{"colour": "red"}, {}])
    assert [names_of(some, i) for i in range(2)] == [{"colour=red", "constant"}, {"constant"}]
    with pytest.raises(ValueError, match="'size' is none of them"):
        rows.rows_of("features", {"size": 3})
    with pytest.raises(TypeError, match="a dict of values"):
        rows.rows_of("features", "red")


def test_empty_columns_are_left_out():
    matrix = sparse.csr_matrix([[0, 2, 0, 0], [0, 0, 0, 5], [0, 0, 0, 0]], dtype=np.float32)
    rows = FeatureRows(None, matrix).without_empty_columns()
    assert rows.matrix.toarray().tolist() == [[2, 0], [0, 5], [0, 0]]
    assert FeatureRows(None, matrix[2:]).without_empty_columns().matrix.shape == (1, 1)
