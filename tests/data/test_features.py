"""Tables of features: what is taken from a table, and what is refused."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from robirank import Features
from robirank.data.feature_encoder import FeatureEncoder

SHOP = {
    "id": ["a", "b", "c", "d"],
    "brand": ["Acme", "Bolt", None, "Acme"],
    "tags": ["red|small", "red", "", None],
    "price": [1.0, 3.0, None, 5.0],
    "since": [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), None, None],
    "title": ["a red ball", "the blue bolt", "a ball of wool", "x y z"],
    "picture": [[1.0, 0.0], [0.0, 1.0], None, [1.0, 1.0]],
}
KINDS = {
    "brand": "category",
    "tags": "list",
    "price": "number",
    "since": "date",
    "title": "text",
    "picture": "vector",
}


def encoded(table):
    encoder = FeatureEncoder.learn(table)
    return encoder, encoder.encode(table)[0].toarray()


def column(encoder, matrix, name):
    return matrix[:, encoder.names.index(name)]


@pytest.mark.parametrize("make", [dict, pl.DataFrame, lambda shop: pl.DataFrame(shop).lazy()])
def test_kinds_are_guessed_from_polars_and_dicts(make):
    assert Features.from_frame(make(SHOP)).kinds == KINDS


def test_kinds_are_guessed_from_pandas():
    table = Features.from_frame(pd.DataFrame(SHOP))
    assert table.kinds == KINDS
    assert_array_equal(encoded(table)[1], encoded(Features.from_frame(SHOP))[1])


def test_a_file_gives_what_a_frame_gives(tmp_path):
    frame = pl.DataFrame({name: SHOP[name] for name in ("id", "brand", "tags", "price")})
    frame.write_csv(tmp_path / "shop.csv")
    frame.write_csv(tmp_path / "shop.tsv", separator="\t")
    frame.write_parquet(tmp_path / "shop.parquet")
    expected = encoded(Features.from_frame(frame))[1]
    for name in ("shop.csv", "shop.tsv", "shop.parquet"):
        assert_array_equal(encoded(Features.from_file(tmp_path / name))[1], expected)


def test_ids_of_a_file_are_integers_if_all_are(tmp_path):
    (tmp_path / "a.csv").write_text("id,x\n7,1\n9,2\n")
    (tmp_path / "b.csv").write_text("id,x\n7,1\nx9,2\n")
    assert Features.from_file(tmp_path / "a.csv").ids.kind == "int"
    assert Features.from_file(tmp_path / "b.csv").ids.kind == "str"


def test_words_have_the_length_of_their_column():
    """Three rows of "red", one of "small": log(4 / 3) and log(4), then length one."""
    table = Features.from_frame({"id": [1, 2, 3], "tags": ["red|small", "red", "red"]})
    encoder, matrix = encoded(table)
    rare, common = np.log(4), np.log(4 / 3)
    length = np.hypot(rare, common)
    assert_allclose(column(encoder, matrix, "tags=small"), [rare / length, 0, 0], rtol=1e-6)
    assert_allclose(column(encoder, matrix, "tags=red"), [common / length, 1, 1], rtol=1e-6)


def test_numbers_are_standardised_and_missing_ones_are_known_as_missing():
    encoder, matrix = encoded(Features.from_frame({"id": [1, 2, 3], "price": [1.0, 3.0, None]}))
    assert_allclose(column(encoder, matrix, "price"), [-1, 1, 0])
    assert_allclose(column(encoder, matrix, "price is missing"), [0, 0, 1])


def test_a_number_far_out_counts_four_deviations():
    prices = [*np.linspace(0, 1, 99), 1e9]
    encoder, matrix = encoded(Features.from_frame({"id": np.arange(100), "price": prices}))
    assert column(encoder, matrix, "price").max() == 4.0


def test_every_column_counts_as_much_as_another_and_all_numbers_as_one():
    words = [f"w{i} w{i + 1} w{i + 2}" for i in range(50)]
    table = {"id": np.arange(50), "words": words, "genre": ["a", "b"] * 25}
    encoder, matrix = encoded(Features.from_frame(table))
    is_word = [name.startswith("words") for name in encoder.names]
    is_genre = [name.startswith("genre") for name in encoder.names]
    for columns in (is_word, is_genre):
        assert_allclose(np.square(matrix[:, columns]).sum(axis=1), 0.5, rtol=1e-5)
    heavy = Features.from_frame(table, weights={"genre": 3.0})
    assert_allclose(np.square(encoded(heavy)[1][:, is_genre]).sum(axis=1), 0.9, rtol=1e-5)


def test_a_column_with_one_value_says_nothing_and_is_no_error():
    table = {"id": [1, 2], "brand": ["a", "a"], "price": [2.0, 2.0], "empty": [None, None]}
    encoder, matrix = encoded(Features.from_frame(table, kinds={"empty": "category"}))
    assert_allclose(column(encoder, matrix, "price"), 0)
    assert np.isfinite(matrix).all()


def test_rows_are_encoded_alone_as_they_are_in_the_table():
    table = Features.from_frame(SHOP)
    encoder, matrix = encoded(table)
    for i in range(4):
        alone = Features.from_frame(
            {name: values[i : i + 1] for name, values in SHOP.items()}, kinds=KINDS
        )
        assert_allclose(encoder.encode(alone)[0].toarray()[0], matrix[i], atol=1e-6)


def test_unknown_values_are_counted_and_passed_over():
    encoder, _ = encoded(Features.from_frame({"id": [1, 2], "tags": ["a|b", "b"]}))
    rows, unknown = encoder.encode(Features.from_frame({"id": [3], "tags": ["b|x|y"]}))
    assert unknown == {"tags": 2}
    assert_allclose(rows.toarray()[0, encoder.names.index("tags=b")], 1.0)


def test_a_vector_of_another_length_is_an_error():
    encoder, _ = encoded(Features.from_array(np.eye(3)))
    with pytest.raises(ValueError, match="vector must have 3 entries a row, as in the fit; got 2"):
        encoder.encode(Features.from_array(np.eye(2)))


def test_how_columns_become_numbers_is_kept_in_arrays_and_json():
    encoder, matrix = encoded(Features.from_frame(SHOP, weights={"brand": 2.0}))
    again = FeatureEncoder.from_tensors(encoder.to_tensors("x"), "x")
    assert again.names == encoder.names
    assert_array_equal(again.encode(Features.from_frame(SHOP))[0].toarray(), matrix)
    assert b'"price"' in encoder.to_tensors("x")["x.columns"].tobytes()


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("x.columns", lambda a: a[:-1]),
        ("x.0.scale", lambda a: a * np.nan),
        ("x.0.scale", lambda a: a[:-1]),
        ("x.2.mean", lambda a: a.astype(np.float64)),
    ],
)
def test_damaged_encoders_are_refused(part, damage):
    arrays = encoded(Features.from_frame(SHOP))[0].to_tensors("x")
    arrays[part] = damage(arrays[part])
    with pytest.raises(ValueError):
        FeatureEncoder.from_tensors(arrays, "x")


def test_a_million_categories():
    n = 1_000_000
    table = Features.from_frame({"id": np.arange(n), "sku": [f"s{i}" for i in range(n)]})
    matrix, unknown = FeatureEncoder.learn(table).encode(table)
    assert matrix.shape == (n, n + 1)
    assert matrix.nnz == 2 * n
    assert not unknown


def test_a_sparse_matrix_of_a_million_columns():
    matrix = sparse.csr_matrix(([2.0, 1.0], ([0, 1], [5, 999_999])), shape=(2, 1_000_000))
    encoder = FeatureEncoder.learn(table := Features.from_matrix(matrix))
    assert encoder.encode(table)[0].shape == (2, 1_000_001)


def with_wrong_index():
    matrix = sparse.csr_matrix(np.eye(3))
    matrix.indices[1] = 7
    return matrix


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Features.from_frame({"id": [1, 2, 1], "x": [1, 2, 3]}), "rows 0 and 2 are both 1"),
        (lambda: Features.from_frame({"id": [1, None], "x": [1, 2]}), "id"),
        (lambda: Features.from_frame({"sku": [1], "x": [1]}), "'id' is not a column"),
        (lambda: Features.from_frame({"id": [1]}), "at least one column"),
        (
            lambda: Features.from_frame({"id": [1], "x": [1]}, kinds={"y": "text"}),
            "'y' is not a column",
        ),
        (lambda: Features.from_frame({"id": [1], "x": [1]}, kinds={"x": "word"}), "kinds"),
        (lambda: Features.from_frame({"id": [1], "x": [1]}, weights={"x": -1.0}), "weights"),
        (lambda: Features.from_frame({"id": [1, 2], "x": [1]}), "x must have one row for each"),
        (lambda: Features.from_matrix(with_wrong_index()), "damaged"),
        (lambda: Features.from_matrix(-sparse.identity(3, format="csr")), "not negative"),
        (lambda: Features.from_array(np.zeros(3)), "must be a matrix"),
        (lambda: Features.from_array([["a"]]), "must be a matrix"),
    ],
)
def test_tables_that_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        FeatureEncoder.learn(make())


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        ([1.0, np.inf], None, "x must hold finite numbers; row 1 has inf"),
        (["1", "two"], "number", "x must hold finite numbers; row 1 has 'two'"),
        ([[1.0, 2.0], [1.0]], "vector", "x must hold vectors of one length; row 1"),
        ([[1.0, 2.0], [1.0, np.nan]], "vector", "x must hold finite numbers; row 1 has nan at 1"),
    ],
)
def test_values_that_are_refused_name_column_and_row(column, kind, message):
    kinds = {} if kind is None else {"x": kind}
    table = Features.from_frame({"id": [1, 2], "x": column}, kinds=kinds)
    with pytest.raises(ValueError, match=message):
        FeatureEncoder.learn(table)


def test_a_damaged_file_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "shop.parquet"
    path.write_bytes(b"PAR1 nothing else")
    with pytest.raises(ValueError, match=r"shop\.parquet is damaged"):
        Features.from_file(path)


def test_nan_is_missing():
    encoder, matrix = encoded(Features.from_frame({"id": [1, 2, 3], "x": [1.0, np.nan, 3.0]}))
    assert_allclose(column(encoder, matrix, "x is missing"), [0, 1, 0])
