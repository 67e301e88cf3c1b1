"""Judged documents in memory: frames in, queries normalised, rows taken."""

import dataclasses
import datetime
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

from robirank.data.ranking import RankingData, normalize_queries, signed_log

COLUMNS = {
    "qid": ["a", "b", "a"],
    "label": [1, 0, 2],
    "url": ["x", "y", "z"],
    "bm25": [0.5, 1.5, 2.5],
    "length": [10, 20, 30],
}
frames = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pl.LazyFrame])
TIMES = [datetime.datetime(2024, 5, 17, 10, 0), datetime.datetime(2024, 5, 17, 10, 1)]


def small():
    return RankingData(
        np.arange(8.0).reshape(4, 2),
        [0, 1, 2, 0],
        ["a", "b", "a", "b"],
        doc_ids=["d1", "d2", "d3", "d4"],
        feature_names=["f", "g"],
        n_skipped=3,
    )


def normalized_by_loops(X, qid):
    out = np.zeros(X.shape, dtype=np.float64)
    for q in set(qid):
        rows = [i for i, other in enumerate(qid) if other == q]
        for f in range(X.shape[1]):
            values = [float(X[i, f]) for i in rows]
            known = [value for value in values if value == value] or [np.nan]
            low, span = min(known), max(known) - min(known)
            for i, value in zip(rows, values, strict=True):
                out[i, f] = (value - low) / (span or 1.0)
    return out


@frames
def test_from_frame(frame):
    data = RankingData.from_frame(frame(COLUMNS), doc_id="url")
    assert data.feature_names == ("bm25", "length")
    assert data.X.dtype == np.float64
    assert data.X.tolist() == [[0.5, 10.0], [1.5, 20.0], [2.5, 30.0]]
    assert data.y.tolist() == [1.0, 0.0, 2.0]
    assert data.qid.tolist() == ["a", "b", "a"]
    assert data.doc_ids.tolist() == ["x", "y", "z"]
    assert data.n_queries == 2


@frames
def test_from_frame_with_other_names_and_order(frame):
    renamed = {{"qid": "query", "label": "grade"}.get(c, c): v for c, v in COLUMNS.items()}
    data = RankingData.from_frame(
        frame(renamed), label="grade", qid="query", features=["length", "bm25"]
    )
    assert data.X[:, 0].tolist() == [10.0, 20.0, 30.0]
    assert data.feature_names == ("length", "bm25")
    assert data.doc_ids is None


def test_from_frame_whose_columns_are_numbers():
    frame = pd.DataFrame([[0.5, 1.5], [2.5, 3.5]]).assign(qid=[1, 1], label=[0, 1])
    data = RankingData.from_frame(frame)
    assert data.feature_names == ("0", "1")
    assert data.X.tolist() == [[0.5, 1.5], [2.5, 3.5]]


@frames
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "y"}, r"label='y' is not a column of the frame; it has \['qid', 'label',"),
        ({"qid": "query"}, r"qid='query' is not a column of the frame"),
        ({"doc_id": "doc"}, r"doc_id='doc' is not a column of the frame"),
        ({"features": ["bm25", "pr"]}, "features='pr' is not a column of the frame"),
        ({"features": []}, r"the frame has no feature columns"),
        ({}, r"column 'url' must hold numbers; got .*Leave it out with features="),
        ({"label": "url", "features": ["bm25"]}, r"column 'url' must hold numbers"),
    ],
)
def test_from_frame_errors_name_the_column(frame, options, message):
    with pytest.raises(ValueError, match=message):
        RankingData.from_frame(frame(COLUMNS), **options)


def test_from_frame_refuses_two_columns_of_one_name():
    frame = pd.DataFrame([[0, 1, 2.0, 3.0]], columns=["qid", "label", "f", "f"])
    with pytest.raises(ValueError, match="must name each column once"):
        RankingData.from_frame(frame)


def with_column(values):
    frame = pl.DataFrame if isinstance(values, pl.Series) else pd.DataFrame
    return frame({"qid": [1, 1], "label": [0, 1], "f": values})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pd.Series([True, False]), [1, 0]),
        (pd.Series([3, None], dtype="Int64"), [3, np.nan]),
        (pd.Series([True, None], dtype="boolean"), [1, np.nan]),
        (pd.Series([1.5, None], dtype="Float64"), [1.5, np.nan]),
        (pd.Series([2, None], dtype=object), [2, np.nan]),
        (pd.Series([2, pd.NA], dtype=object), [2, np.nan]),
        (pd.Series([1, 2.5], dtype=object), [1, 2.5]),
        (pd.Series([1, Decimal("2.5")], dtype=object), [1, 2.5]),
        (pd.Series([4, 7], dtype="category"), [4, 7]),
        (pd.Series([4, None], dtype="category"), [4, np.nan]),
        (pl.Series([True, None]), [1, np.nan]),
        (pl.Series([3, None], dtype=pl.UInt8), [3, np.nan]),
        (pl.Series(["1.5", None]).cast(pl.Decimal(5, 2)), [1.5, np.nan]),
        (pl.Series([None, None]), [np.nan, np.nan]),
    ],
)
def test_from_frame_takes_numbers_of_every_kind(values, expected):
    np.testing.assert_array_equal(
        RankingData.from_frame(with_column(values)).X, np.array([expected]).T
    )


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pd.Series(TIMES), r"datetime64\[.s\]"),
        (pd.Series(TIMES).dt.tz_localize("UTC"), r"datetime64\[.s, UTC\]"),
        (pd.Series(TIMES) - TIMES[0], r"timedelta64\[.s\]"),
        (pd.Series([np.timedelta64(1, "s"), None], dtype=object), "object"),
        (pd.Series([TIMES[0].date(), None], dtype=object), "object"),
        (pd.Series(["1", "2"], dtype="string"), "string"),
        (pd.Series(["1", "2"], dtype=object), "object"),
        (pd.Series([1, "2"], dtype=object), "object"),
        (pd.Series(["1", "2"], dtype="category"), "category"),
        (pd.Series(TIMES, dtype="category"), "category"),
        (pd.Series([1 + 1j, 2]), "complex128"),
        (pl.Series(TIMES), "Datetime"),
        (pl.Series(TIMES).dt.date(), "Date"),
        (pl.Series(TIMES) - TIMES[0], "Duration"),
        (pl.Series(["1", "2"]), "String"),
        (pl.Series(["1", "2"], dtype=pl.Categorical), "Categorical"),
        (pl.Series(["1", "2"], dtype=pl.Enum(["1", "2"])), "Enum"),
        (pl.Series([[1], [2]], dtype=pl.Array(pl.Int64, 1)), "Array"),
    ],
)
def test_from_frame_takes_neither_times_nor_text_for_numbers(values, kind):
    frame = with_column(values)
    advice = r"Leave it out with features=.*name it as qid.*OrdinalEncoder"
    with pytest.raises(ValueError, match=f"column 'f' must hold numbers; got {kind}. {advice}"):
        RankingData.from_frame(frame)
    with pytest.raises(ValueError, match=f"column 'f' must hold .* {kind}. Name another column"):
        RankingData.from_frame(frame, label="f", features=["label"])
    assert RankingData.from_frame(frame, features=["label"]).n_features == 1


def test_from_frame_takes_text_and_times_as_ids():
    frame = pl.DataFrame({"q": ["1", "01"], "label": [0, 1], "when": TIMES, "f": [1, 2]})
    data = RankingData.from_frame(frame, qid="q", doc_id="when")
    assert data.qid.tolist() == ["1", "01"]
    assert data.doc_ids[0] != data.doc_ids[1]
    assert data.feature_names == ("f",)


def test_from_frame_reads_only_the_columns_of_a_lazy_frame_that_it_needs():
    def fail(column):
        raise AssertionError("this column was not asked for")

    lazy = pl.LazyFrame(COLUMNS).with_columns(
        other=pl.col("bm25").map_batches(fail, return_dtype=pl.Float64)
    )
    data = RankingData.from_frame(lazy, features=["length"])
    assert data.X.ravel().tolist() == [10.0, 20.0, 30.0]


def test_from_frame_of_other_libraries_and_of_what_is_no_frame():
    class Foreign:
        columns = ("not", "names")

        def __arrow_c_stream__(self, requested_schema=None):
            return pl.DataFrame(COLUMNS).__arrow_c_stream__(requested_schema)

    assert RankingData.from_frame(Foreign(), doc_id="url").feature_names == ("bm25", "length")
    with pytest.raises(TypeError, match="frame must be a DataFrame; got dict"):
        RankingData.from_frame(COLUMNS)


def test_shapes_counts_and_unpacking():
    data = small()
    assert (data.n_rows, len(data), data.n_queries, data.n_features) == (4, 4, 2, 2)
    X, y, qid = data
    assert X is data.X
    assert y is data.y
    assert qid is data.qid
    assert repr(data) == "RankingData(4 documents, 2 queries, 2 features, dense)"
    sparse = dataclasses.replace(data, X=sp.coo_matrix(data.X))
    assert sparse.X.format == "csr"
    assert repr(sparse) == "RankingData(4 documents, 2 queries, 2 features, sparse)"


def test_equality_is_identity():
    data = small()
    assert data == data
    assert data != small()
    assert len({data, data}) == 1


def test_mixed_query_ids_stay_apart():
    assert RankingData([[1.0], [2.0]], [0, 1], [1, "1"]).n_queries == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.arange(4.0)}, r"X must have two dimensions, rows and features; got 1"),
        ({"y": [0, 1]}, r"y must have one value for each of the 4 rows of X; got shape \(2,\)"),
        ({"y": None}, r"y must have one value for each of the 4 rows"),
        ({"qid": None}, r"qid must have one value for each of the 4 rows"),
        ({"qid": [[1], [1], [2], [2]]}, r"qid must have one value .* got shape \(4, 1\)"),
        ({"doc_ids": ["d"]}, r"doc_ids must have one value .* got shape \(1,\)"),
        ({"feature_names": ["f"]}, r"feature_names must name each of the 2 features; got 1"),
    ],
)
def test_parts_that_do_not_fit_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(small(), **change)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([2, 0], [2, 0]),
        (slice(1, 3), [1, 2]),
        ([True, False, False, True], [0, 3]),
        (np.array([3]), [3]),
        ([], []),
    ],
)
def test_take(rows, kept, sparse):
    data = small()
    if sparse:
        data = dataclasses.replace(data, X=sp.csr_array(data.X))
    part = data.take(rows)
    X = part.X.toarray() if sparse else part.X
    assert X.tolist() == small().X[np.array(kept, dtype=int)].tolist()
    assert part.y.tolist() == [[0, 1, 2, 0][i] for i in kept]
    assert part.qid.tolist() == ["abab"[i] for i in kept]
    assert part.doc_ids.tolist() == [f"d{i + 1}" for i in kept]
    assert part.feature_names == ("f", "g")


def test_take_without_doc_ids_and_with_a_mask_of_the_wrong_length():
    data = dataclasses.replace(small(), doc_ids=None)
    assert data.take([1]).doc_ids is None
    with pytest.raises(IndexError):
        data.take([True, False])


def test_normalize_worked_by_hand():
    X = np.array([[1.0, 5.0], [2.0, 5.0], [9.0, 0.0], [3.0, 5.0], [-1.0, 4.0]])
    out = normalize_queries(X, ["a", "a", "b", "a", "b"])
    assert out.tolist() == [[0.0, 0.0], [0.5, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    assert X[0].tolist() == [1.0, 5.0]  # the input is not touched
    kept = RankingData(X, np.zeros(5), ["a", "a", "b", "a", "b"], feature_names=["f", "g"])
    assert kept.normalize().X.tolist() == out.tolist()
    assert kept.normalize().feature_names == ("f", "g")


def test_normalize_leaves_contiguous_input_alone():
    X = np.array([[1.0], [3.0], [5.0]])
    assert normalize_queries(X, None).ravel().tolist() == [0.0, 0.5, 1.0]
    assert X.ravel().tolist() == [1.0, 3.0, 5.0]


@pytest.mark.parametrize(
    ("dtype", "expected"), [("float32", "float32"), ("float64", "float64"), ("int64", "float64")]
)
def test_normalize_keeps_floats(dtype, expected):
    assert normalize_queries(np.array([[1], [2]], dtype=dtype), [1, 1]).dtype == expected
    assert normalize_queries(np.empty((0, 3), dtype=dtype), []).shape == (0, 3)


@given(data=st.data(), sparse=st.booleans())
def test_normalize_matches_plain_loops(data, sparse):
    n = data.draw(st.integers(1, 12))
    d = data.draw(st.integers(1, 3))
    # Few distinct values: constant features and zeros are common.
    values = st.one_of(st.integers(-3, 3).map(float), st.just(np.nan))
    X = data.draw(hnp.arrays(np.float64, (n, d), elements=values))
    qid = data.draw(st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=n, max_size=n))
    out = normalize_queries(sp.csr_array(X) if sparse else X, qid)
    np.testing.assert_allclose(out, normalized_by_loops(X, qid), rtol=1e-12, atol=0)


@given(hnp.arrays(np.float32, (6, 2), elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_normalize_stays_within_zero_and_one(X):
    out = normalize_queries(X, [1, 2, 1, 2, 1, 2])
    assert ((out >= 0) & (out <= 1)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normalize_keeps_missing_values_to_themselves(dtype):
    nan = np.nan
    X = np.array([[1, nan], [nan, nan], [3, nan], [5, 7], [nan, 9]], dtype=dtype)
    data = RankingData(X, np.zeros(5), ["a", "a", "a", "b", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = data.normalize().X
    expected = np.array([[0, nan], [nan, nan], [1, nan], [0, 0], [nan, 1]])
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("sparse", [False, True])
def test_normalize_names_an_infinite_value(value, sparse):
    X = np.array([[1.0, 2.0], [np.nan, 0.0], [3.0, value], [4.0, 5.0]])
    data = RankingData(sp.csr_array(X) if sparse else X, np.zeros(4), ["b", "a", "b", "a"])
    with pytest.raises(ValueError, match=f"X has {value} in row 2, column 1; .* finite, or NaN"):
        data.normalize()


def test_normalize_in_chunks(monkeypatch):
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((50, 3)), rng.integers(0, 6, 50)
    monkeypatch.setattr("robirank.data.ranking._CHUNK_ROWS", 7)
    np.testing.assert_allclose(normalize_queries(X, qid), normalized_by_loops(X, qid.tolist()))


def test_signed_log_keeps_sign_order_kind_and_zeros():
    X = np.array([[-1e6, -1.0, 0.0, 3.0, 1e9]], dtype=np.float32)
    logs = signed_log(X)
    assert logs.dtype == np.float32
    assert_allclose(logs, np.sign(X) * np.log(1 + np.abs(X.astype(float))), rtol=1e-6)
    sparse = signed_log(sp.csr_matrix(X))
    assert sparse.nnz == 4
    assert_allclose(sparse.toarray(), logs)
    assert signed_log([[2, 0]]).dtype == np.float64
    data = RankingData(X, [1], [1], feature_names=list("abcde"))
    assert data.log().feature_names == data.feature_names
    assert_allclose(data.log().X, logs)
    assert data.to_frame().columns == list("abcde")
