"""Features of every kind keep their numbers: float32 stays, and all else is float64."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone

from contract.rankers import RANKERS
from robirank import RankingData, RobustClassifier, normalize_queries, signed_log
from robirank._features import feature_type

# Times in seconds, in pairs one second apart: float32 knows every 128th second alone.
TIMES = 1_700_000_000 + np.array([[10_000_000 * (i // 2) + i % 2] for i in range(24)])
LABELS = np.arange(24) % 4
QID = np.repeat([0, 1], 12)


def frame(library, dtype):
    numbers = TIMES.astype(dtype)
    if library == "pandas":
        return pd.DataFrame(numbers, columns=["time"])
    return pl.DataFrame(numbers, schema=["time"])


def swapped(matrix):
    """With all bytes in the other order, which SciPy lets one set and not make."""
    for name in ("data", "indices", "indptr"):
        array = getattr(matrix, name)
        setattr(matrix, name, array.astype(array.dtype.newbyteorder("S")))
    return matrix


KINDS = {
    "int64": TIMES,
    "uint32": TIMES.astype(np.uint32),
    "float64, bytes swapped": TIMES.astype(">f8"),
    "int64, bytes swapped": TIMES.astype(">i8"),
    "long double": TIMES.astype(np.longdouble),
    "object": TIMES.astype(object),
    "list": TIMES.tolist(),
    "list of floats": TIMES.astype(float).tolist(),
    "pandas": frame("pandas", int),
    "pandas, Int64": frame("pandas", int).astype("Int64"),
    "polars": frame("polars", int),
    "polars, floats": frame("polars", float),
    "sparse": sp.csr_matrix(TIMES),
    "sparse, bytes swapped": swapped(sp.csr_matrix(TIMES.astype(float))),
}
HALVES = np.array([[0.5], [1.5], [0.25], [3.0]])
SINGLE = {
    "array": HALVES.astype(np.float32),
    "bytes swapped": HALVES.astype(">f4"),
    "pandas": pd.DataFrame(HALVES.astype(np.float32), columns=["f"]),
    "polars": pl.DataFrame(HALVES.astype(np.float32), schema=["f"]),
    "sparse": sp.csr_matrix(HALVES.astype(np.float32)),
}
ONE_OF_A_KIND = {type(ranker).__name__: ranker for ranker in RANKERS}.values()


@pytest.fixture(autouse=True)
def _no_warnings_of_names():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def takes(ranker, X):
    return ranker.__sklearn_tags__().input_tags.sparse or not sp.issparse(X)


@pytest.mark.parametrize("ranker", ONE_OF_A_KIND, ids=repr)
def test_every_ranker_learns_and_scores_the_same_from_every_kind(ranker):
    exact = TIMES.astype(float)
    model = clone(ranker).fit(exact, LABELS, qid=QID)
    scores = model.predict(exact)
    for name, X in KINDS.items():
        if takes(ranker, X):
            assert_array_equal(model.predict(X), scores, err_msg=name)
    for name in ("int64", "polars"):
        other = clone(ranker).fit(KINDS[name], LABELS, qid=QID)
        assert_array_equal(other.predict(exact), scores, err_msg=name)


@pytest.mark.parametrize("X", KINDS.values(), ids=KINDS.keys())
def test_features_on_the_way_to_a_ranker(X):
    seconds = np.tile([0.0, 1.0], 12)[:, None]
    assert_array_equal(normalize_queries(X, np.arange(24) // 2), seconds)
    logs = signed_log(X)
    logs = logs.toarray() if sp.issparse(logs) else logs
    assert_array_equal(logs, np.log1p(TIMES.astype(float)))
    data = RankingData(X, LABELS, QID).normalize()
    assert data.X.dtype == np.float64


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_columns_of_a_frame(library):
    columns = {"qid": QID, "label": 2**24 + LABELS, "time": TIMES.ravel()}
    data = RankingData.from_frame(library(columns))
    assert_array_equal(data.X, TIMES)
    assert_array_equal(data.y, columns["label"])
    single = {"a": np.float32([0.5, 1.5]), "b": np.float32([2.5, 0.1])}
    about = {"qid": [1, 1], "label": [0, 1]}
    assert RankingData.from_frame(library(about | single)).X.dtype == np.float32
    mixed = single | {"c": [1, 2**24 + 1]}
    data = RankingData.from_frame(library(about | mixed))
    assert data.X.tolist() == [[0.5, 2.5, 1.0], [1.5, float(np.float32(0.1)), 16777217.0]]


@pytest.mark.parametrize("X", SINGLE.values(), ids=SINGLE.keys())
def test_float32_stays(X):
    assert feature_type(X) is np.float32
    ranker = next(r for r in RANKERS if type(r).__name__ == "RoBiRank")
    checked, _, _ = clone(ranker)._check_fit(X, [0, 1, 0, 1], None)
    assert checked.dtype == np.float32
    assert normalize_queries(X, [0, 0, 1, 1]).dtype == np.float32
    assert signed_log(X).dtype == np.float32


def test_half_precision_is_computed_with_in_double():
    halves = HALVES.astype(np.float16)
    assert_array_equal(signed_log(halves), np.log1p(HALVES))
    assert normalize_queries(halves, [0, 0, 1, 1]).dtype == np.float64


def test_the_classifier_learns_the_same_from_every_kind():
    late = np.arange(24) > 11
    exact = TIMES.astype(float)
    model = RobustClassifier(max_iter=3).fit(exact, late)
    for name, X in KINDS.items():
        assert_array_equal(model.decision_function(X), model.decision_function(exact), name)
