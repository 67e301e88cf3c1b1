"""Rows grouped by query: any ids, any order, no rows lost."""

import datetime
import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from robirank import MissingQidWarning, RoBiRank, make_ranking
from robirank._queries import as_ids, group_queries


def groups(queries):
    """Queries as a dictionary: id → its rows."""
    order = np.arange(queries.n_rows) if queries.order is None else queries.order
    bounds = itertools.pairwise(queries.offsets)
    ids = queries.ids.tolist()
    return {i: order[a:b].tolist() for i, (a, b) in zip(ids, bounds, strict=True)}


def grouped_by_dictionary(qid):
    rows = {}
    for row, i in enumerate(qid):
        rows.setdefault(i, []).append(row)
    return rows


def test_contiguous_rows_need_no_order():
    queries = group_queries([7, 7, 3, 5, 5], 5)
    assert queries.order is None
    assert queries.ids.tolist() == [7, 3, 5]
    assert queries.offsets.tolist() == [0, 2, 3, 5]
    assert queries.sizes.tolist() == [2, 1, 2]
    assert queries.codes().tolist() == [0, 0, 1, 2, 2]
    assert (len(queries), queries.n_rows) == (3, 5)
    values = np.arange(5)
    assert queries.sort(values) is values
    assert queries.unsort(values) is values


def test_scattered_rows_come_in_order_of_first_appearance():
    queries = group_queries([2, 1, 2, 9, 1], 5)
    assert groups(queries) == {2: [0, 2], 1: [1, 4], 9: [3]}
    assert list(groups(queries)) == [2, 1, 9]
    values = np.array([10.0, 11.0, 12.0, 13.0, 14.0])
    assert queries.sort(values).tolist() == [10.0, 12.0, 11.0, 14.0, 13.0]
    assert queries.unsort(queries.sort(values)).tolist() == values.tolist()
    rows = values[:, None] * [1, 2]
    assert (queries.unsort(queries.sort(rows)) == rows).all()


@pytest.mark.parametrize(
    "qid",
    [
        ["b", "a", "b", "c"],
        np.array(["b", "a", "b", "c"], dtype=object),
        pd.Series(["b", "a", "b", "c"], index=[3, 2, 1, 0]),
        pd.Series(["b", "a", "b", "c"]).astype("category"),
        pl.Series(["b", "a", "b", "c"]),
    ],
)
def test_strings_from_anywhere(qid):
    queries = group_queries(qid, 4)
    assert queries.ids.tolist() == ["b", "a", "c"]
    assert queries.order.tolist() == [0, 2, 1, 3]


@pytest.mark.parametrize(
    ("qid", "expected"),
    [
        ([1, "1", 1], {1: [0, 2], "1": [1]}),  # NumPy alone would make all three "1"
        ([1, "a", None.__class__, 1], {1: [0, 3], "a": [1], type(None): [2]}),
        ([(1, 2), "x", (1, 2)], {(1, 2): [0, 2], "x": [1]}),
        ([(1, 2), (1, 3), (1, 2)], {(1, 2): [0, 2], (1, 3): [1]}),
        ([b"a", "a"], {b"a": [0], "a": [1]}),
        ([1.5, 2, 1.5], {1.5: [0, 2], 2: [1]}),
        ([True, "True"], {True: [0], "True": [1]}),
        # Sets are only partly ordered by <, so sorting them would not bring equal ones together.
        (
            [frozenset({1}), frozenset({2}), frozenset({1})],
            {frozenset({1}): [0, 2], frozenset({2}): [1]},
        ),
    ],
)
def test_mixed_types_stay_apart(qid, expected):
    assert groups(group_queries(qid, len(qid))) == expected
    assert groups(group_queries(tuple(qid), len(qid))) == expected


def test_dates_are_ids_too():
    days = np.array(["2024-02-01", "2024-01-01", "2024-02-01"], dtype="datetime64[D]")
    first, second = datetime.date(2024, 2, 1), datetime.date(2024, 1, 1)
    assert groups(group_queries(days, 3)) == {first: [0, 2], second: [1]}


def test_none_is_one_query():
    queries = group_queries(None, 3)
    assert queries.offsets.tolist() == [0, 3]
    assert queries.order is None


@pytest.mark.parametrize("qid", [None, [], np.array([], dtype=object), np.array([], dtype=int)])
def test_no_rows_are_no_queries(qid):
    queries = group_queries(qid, 0)
    assert (len(queries), queries.n_rows) == (0, 0)
    assert queries.offsets.tolist() == [0]
    assert queries.sizes.tolist() == queries.codes().tolist() == []


@pytest.mark.parametrize(
    "qid",
    [
        [1.0, np.nan],
        ["a", None],
        ["a", np.nan],  # a plain NumPy conversion would make the string "nan"
        np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"),
        np.array([1, pd.NA], dtype=object),
        pd.Series(["a", None]),
        pd.Series([1, None], dtype="Int64"),
        pl.Series(["a", None]),
        pl.Series([1, None]),
    ],
)
def test_missing_ids_are_refused(qid):
    with pytest.raises(ValueError, match=r"qid contains a missing value \(None or NaN\)"):
        group_queries(qid, 2)


@pytest.mark.parametrize(
    ("qid", "shape"), [([1, 2], r"\(2,\)"), ([[1], [2], [3]], r"\(3, 1\)"), (5, r"\(\)")]
)
def test_wrong_lengths_are_refused(qid, shape):
    with pytest.raises(
        ValueError, match=rf"qid must hold .* each of the 3 rows; got shape {shape}"
    ):
        group_queries(qid, 3)


def test_as_ids_leaves_plain_arrays_alone():
    ids = np.array([3, 1])
    assert as_ids(ids) is ids
    assert as_ids(["a", "b"]).dtype.kind == "U"
    assert as_ids([1, 2]).dtype.kind == "i"


some_ids = st.one_of(
    st.lists(st.integers(0, 5)),
    st.lists(st.sampled_from("abc")),
    st.lists(st.floats(-2, 2).map(round)),
    st.lists(st.sampled_from([1, "1", 2.5, "b", (1, 2), frozenset({1}), frozenset({2})])),
)


@given(some_ids)
def test_grouping_matches_a_dictionary(qid):
    expected = grouped_by_dictionary(qid)
    queries = group_queries(qid, len(qid))
    assert groups(queries) == expected
    assert list(groups(queries)) == list(expected)
    contiguous = all(rows == list(range(rows[0], rows[-1] + 1)) for rows in expected.values())
    assert (queries.order is None) == contiguous


@given(some_ids)
def test_sorting_is_undone(qid):
    queries = group_queries(qid, len(qid))
    values = np.arange(len(qid))
    assert queries.unsort(queries.sort(values)).tolist() == values.tolist()
    code_of = {i: code for code, i in enumerate(grouped_by_dictionary(qid))}
    assert queries.unsort(queries.codes()).tolist() == [code_of[i] for i in qid]


# Rows without queries


MANY = make_ranking(n_queries=30, n_docs=20, n_features=4, random_state=0)
GRID = {"alpha": [1e-3, 10.0]}


def missing(told):
    return [w for w in told if issubclass(w.category, MissingQidWarning)]


def test_many_rows_without_queries_are_told_of_where_they_came_from():
    with pytest.warns(MissingQidWarning, match=r"enable_metadata_routing=True") as told:
        model = RoBiRank().fit(MANY.X, MANY.y)
    assert told[0].filename == __file__
    with pytest.warns(MissingQidWarning):
        model.score(MANY.X, MANY.y)


def test_few_rows_and_rows_with_queries_are_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = RoBiRank().fit(MANY.X[:200], MANY.y[:200])
        model.score(MANY.X[:200], MANY.y[:200])
        RoBiRank().fit(MANY.X, MANY.y, qid=MANY.qid).score(MANY.X, MANY.y, qid=MANY.qid)


@pytest.mark.parametrize(
    "work",
    [
        lambda: GridSearchCV(RoBiRank(), GRID, cv=3).fit(MANY.X, MANY.y),
        lambda: cross_val_score(RoBiRank(), MANY.X, MANY.y, cv=3),
        lambda: (
            make_pipeline(StandardScaler(), RoBiRank())
            .fit(MANY.X, MANY.y, robirank__qid=MANY.qid)
            .score(MANY.X, MANY.y, robirank__qid=MANY.qid)
        ),
    ],
    ids=["search", "cross-validation", "pipeline"],
)
def test_a_search_without_routing_tells_once(work):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        work()
    assert [w.filename for w in missing(told)] == [__file__]


def test_an_error_if_that_is_wanted():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):  # each time, not once
            with pytest.raises(MissingQidWarning):
                RoBiRank().fit(MANY.X, MANY.y)


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_routed_queries_reach_a_search(routing):
    search = GridSearchCV(RoBiRank(), GRID, cv=GroupKFold(3))
    search.fit(MANY.X, MANY.y, qid=MANY.qid, groups=MANY.qid)
    by_hand = []
    for train, test in GroupKFold(3).split(MANY.X, MANY.y, MANY.qid):
        model = RoBiRank(alpha=1e-3).fit(MANY.X[train], MANY.y[train], qid=MANY.qid[train])
        by_hand.append(model.score(MANY.X[test], MANY.y[test], qid=MANY.qid[test]))
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand))
    params = {"qid": MANY.qid, "groups": MANY.qid}
    scores = cross_val_score(RoBiRank(), MANY.X, MANY.y, cv=GroupKFold(3), params=params)
    np.testing.assert_allclose(scores, by_hand)
    whole = search.best_estimator_.score(MANY.X, MANY.y, qid=MANY.qid)
    assert search.score(MANY.X, MANY.y, qid=MANY.qid) == whole


def test_routed_queries_reach_the_end_of_a_pipeline(routing):
    pipeline = make_pipeline(StandardScaler(), RoBiRank()).fit(MANY.X, MANY.y, qid=MANY.qid)
    X = pipeline[0].transform(MANY.X)
    alone = RoBiRank().fit(X, MANY.y, qid=MANY.qid)
    np.testing.assert_array_equal(pipeline[-1].coef_, alone.coef_)
    score = pipeline.score(MANY.X, MANY.y, qid=MANY.qid)
    assert score == alone.score(X, MANY.y, qid=MANY.qid)
