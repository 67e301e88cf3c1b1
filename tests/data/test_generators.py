"""Generated ranking data: what was planted must be found there again."""

import dataclasses
import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from robirank.data.generators import MSLR_GRADES, make_ranking
from robirank.losses import list_loss


def by_query(data, values):
    offsets = data.queries.offsets
    return [values[a:b] for a, b in itertools.pairwise(offsets)]


def within(data, values):
    """Values less their mean in the query."""
    parts = by_query(data, values)
    return np.concatenate([part - part.mean(axis=0) for part in parts])


def test_shapes_names_and_types():
    data = make_ranking(7, n_docs=5, n_features=3, random_state=0)
    assert data.X.shape == (35, 3)
    assert data.X.dtype == np.float32
    assert data.X.flags.c_contiguous
    assert data.qid.tolist() == np.repeat(np.arange(1, 8), 5).tolist()
    assert data.feature_names == ("f1", "f2", "f3")
    assert set(data.y) <= {0, 1, 2, 3, 4}
    assert make_ranking(2, dtype="float64", random_state=0).X.dtype == np.float64


def test_sizes_are_drawn_from_the_whole_range():
    data = make_ranking(300, n_docs=(3, 6), random_state=0)
    counts = np.bincount(data.queries.sizes, minlength=7)
    assert counts[:3].tolist() == [0, 0, 0]
    assert (counts[3:] > 40).all()
    assert counts.sum() == 300


def test_seed_decides_everything():
    first, coef = make_ranking(20, random_state=3, return_coef=True)
    for state in (3, np.random.default_rng(3), np.int64(3)):
        again, other = make_ranking(20, random_state=state, return_coef=True)
        assert (again.X == first.X).all()
        assert (again.y == first.y).all()
        assert (other == coef).all()
    assert (make_ranking(20, random_state=4).X != first.X).any()
    assert (make_ranking(20).X != make_ranking(20).X).any()
    generator = np.random.default_rng(3)
    make_ranking(20, random_state=generator)
    assert (make_ranking(20, random_state=generator).X != first.X).any()


def test_chunk_size_changes_nothing(monkeypatch):
    options = {"n_docs": (1, 30), "outliers": 0.1, "empty": 0.1, "random_state": 5}
    whole = make_ranking(50, **options)
    monkeypatch.setattr("robirank.data.generators._CHUNK_ROWS", 20)
    chunks = make_ranking(50, **options)
    assert (chunks.X == whole.X).all()
    assert (chunks.y == whole.y).all()


def test_features_are_standard_normal_and_half_shared_within_a_query():
    data = make_ranking(2000, n_docs=20, n_features=5, random_state=0)
    np.testing.assert_allclose(data.X.mean(axis=0), 0.0, atol=0.08)
    np.testing.assert_allclose(data.X.var(axis=0), 1.0, atol=0.05)
    inside = np.square(within(data, data.X)).sum(axis=0) / (len(data) - data.n_queries)
    np.testing.assert_allclose(inside, 0.5, atol=0.02)
    correlation = np.corrcoef(within(data, data.X).T)
    np.testing.assert_allclose(correlation, np.eye(5), atol=0.03)


def test_without_noise_the_planted_model_ranks_perfectly():
    data, coef = make_ranking(
        50, n_docs=(2, 40), noise=0.0, dtype=np.float64, random_state=0, return_coef=True
    )
    for grades, scores in zip(by_query(data, data.y), by_query(data, data.X @ coef), strict=True):
        assert (np.diff(grades[np.argsort(scores)]) >= 0).all()


def test_scores_compare_only_within_a_query():
    data, coef = make_ranking(300, noise=0.0, random_state=0, return_coef=True)
    score = data.X @ coef
    relevant = data.y >= 2
    threshold = np.quantile(score, 1 - relevant.mean())
    missed = (score[relevant] < threshold).mean()  # by the best single threshold for all queries
    assert missed > 0.3


@pytest.mark.parametrize("nonlinear", [False, True])
@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_noise_is_relative_to_the_signal(noise, nonlinear):
    """With grades that split at the median, the signal's share shows in the agreement of signs.

    For two normal variables of correlation r = 1/√(1 + noise²), the signs of a pair's differences
    agree with probability 1 − arccos(r)/π (exact for the linear score, close for the other).
    """
    data, coef = make_ranking(
        30_000,
        n_docs=2,
        n_features=30,
        n_grades=2,
        label_distribution=(1, 1),
        noise=noise,
        nonlinear=nonlinear,
        dtype=np.float64,
        random_state=0,
        return_coef=True,
    )
    values = data.X.copy()
    if nonlinear:
        values[:, 1::2] = (values[:, 1::2] ** 2 - 1) / math.sqrt(2)
    pairs = (values @ coef).reshape(-1, 2)
    agree = (np.argmax(pairs, axis=1) == np.argmax(data.y.reshape(-1, 2), axis=1)).mean()
    assert agree == pytest.approx(1 - math.acos(1 / math.hypot(1, noise)) / math.pi, abs=0.008)


def test_nonlinear_scores_are_out_of_reach_of_a_linear_model():
    data, coef = make_ranking(
        200, noise=0.0, nonlinear=True, dtype=np.float64, random_state=0, return_coef=True
    )
    curved = data.X.copy()
    curved[:, 1::2] = (curved[:, 1::2] ** 2 - 1) / math.sqrt(2)
    parts = zip(by_query(data, data.y), by_query(data, curved @ coef), strict=True)
    assert all((np.diff(grades[np.argsort(scores)]) >= 0).all() for grades, scores in parts)
    inside = within(data, data.X)
    residual = within(data, curved @ coef)
    best = inside @ np.linalg.lstsq(inside, residual, rcond=None)[0]
    assert 1 - np.var(residual - best) / np.var(residual) < 0.8


def test_informative_features():
    _, coef = make_ranking(2, n_features=30, n_informative=4, random_state=0, return_coef=True)
    assert np.count_nonzero(coef) == 4
    assert np.linalg.norm(coef) == pytest.approx(1.0)
    _, dense = make_ranking(2, n_features=30, random_state=0, return_coef=True)
    assert np.count_nonzero(dense) == 30


def test_default_grades_are_those_of_mslr():
    data = make_ranking(2000, random_state=0)
    shares = np.bincount(data.y.astype(int), minlength=5) / len(data)
    np.testing.assert_allclose(shares, MSLR_GRADES, atol=0.004)


def test_label_distribution_in_any_unit():
    data = make_ranking(500, n_grades=3, label_distribution=(50, 30, 20), random_state=0)
    for grades in by_query(data, data.y):  # 40 documents divide evenly: no rounding at all
        assert np.bincount(grades.astype(int)).tolist() == [20, 12, 8]
    data = make_ranking(2000, n_docs=7, n_grades=3, label_distribution=(5, 3, 2), random_state=0)
    shares = np.bincount(data.y.astype(int)) / len(data)
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=0.01)
    thirds = make_ranking(10, n_docs=40, n_grades=4, random_state=0)
    assert np.bincount(thirds.y.astype(int)).tolist() == [270, 90, 30, 10]


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), low=st.integers(1, 5), more=st.integers(0, 5))
def test_every_query_has_a_relevant_document(seed, low, more):
    data = make_ranking(20, n_docs=(low, low + more), n_features=2, random_state=seed)
    assert min(grades.max() for grades in by_query(data, data.y)) >= 1


def test_empty_queries_are_as_many_as_asked_for_and_the_rest_stays():
    full = make_ranking(50, outliers=0.05, random_state=0)
    some = make_ranking(50, outliers=0.05, empty=0.2, random_state=0)
    assert (some.X == full.X).all()
    pairs = list(zip(by_query(full, full.y), by_query(some, some.y), strict=True))
    assert sum(grades.max() == 0 for _, grades in pairs) == 10
    assert all((a == b).all() for a, b in pairs if b.max() > 0)
    assert make_ranking(5, empty=1.0, random_state=0).y.max() == 0


def test_outliers_are_low_documents_with_the_top_grade_and_the_rest_stays():
    options = {"noise": 0.0, "dtype": np.float64, "random_state": 0}
    clean, coef = make_ranking(400, **options, return_coef=True)
    dirty = make_ranking(400, **options, outliers=0.05)
    assert (dirty.X == clean.X).all()
    changed = dirty.y != clean.y
    assert changed.mean() == pytest.approx(0.05, abs=0.002)
    assert (dirty.y[changed] == 4).all()
    for scores, planted in zip(
        by_query(clean, clean.X @ coef), by_query(clean, changed), strict=True
    ):
        assert (scores[planted] <= np.median(scores)).all()
        assert planted.sum() == 2  # 5 % of 40, in every query
    assert (make_ranking(20, outliers=0.5, random_state=0).y == 4).mean() >= 0.5


def fit_linear(data, rho):
    """Minimise the mean list loss over linear models, every list weighted to 1."""
    parts = [(X, (2.0**y - 1) / (2.0**y - 1).sum()) for X, y in zip_queries(data)]

    def objective(omega):
        value, gradient = 0.0, 1e-3 * omega
        for X, weights in parts:
            result = list_loss(X @ omega, weights, rho)
            value += result.loss / len(parts)
            gradient = gradient + X.T @ result.gradient / len(parts)
        return value + 5e-4 * omega @ omega, gradient

    return minimize(objective, np.zeros(data.n_features), jac=True, method="L-BFGS-B").x


def zip_queries(data):
    return zip(by_query(data, data.X.astype(float)), by_query(data, data.y), strict=True)


def ndcg_at_10(data, omega):
    values = []
    for X, y in zip_queries(data):
        gains, discount = 2.0**y - 1, 1 / np.log2(np.arange(2, 12))
        dcg = gains[np.argsort(-(X @ omega))][:10] @ discount
        values.append(dcg / (np.sort(gains)[::-1][:10] @ discount))
    return float(np.mean(values))


@pytest.mark.parametrize("seed", range(3))
def test_outliers_tell_robust_losses_from_others(seed):
    """The paper's story: with 5 % outliers the identity loss bends, RoBiRank gives up on them.

    NDCG@10 on clean labels, measured: without outliers all are at 0.95-0.97; with them identity
    falls to 0.76-0.89, RoBiRank to 0.93-0.94, and Type-II stays at 0.95-0.96.
    """
    options = {"n_queries": 200, "noise": 0.2, "random_state": seed}
    clean, dirty = make_ranking(**options), make_ranking(**options, outliers=0.05)
    train, rest = slice(0, 100 * 40), slice(100 * 40, None)
    before, after = (
        {
            rho: ndcg_at_10(clean.take(rest), fit_linear(data.take(train), rho))
            for rho in ("identity", "log", "type2")
        }
        for data in (clean, dirty)
    )
    assert min(before.values()) > 0.94
    assert after["identity"] < 0.90
    assert after["log"] > max(0.91, after["identity"] + 0.03)
    assert after["type2"] > 0.93


def test_memory_is_little_more_than_the_features():
    tracemalloc.start()
    data = make_ranking(2000, n_docs=(60, 180), n_features=100, random_state=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.X.nbytes > 80e6
    assert peak < 1.25 * data.X.nbytes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_queries": 0}, "n_queries must be a positive integer; got 0"),
        ({"n_queries": 2.0}, "n_queries must be a positive integer; got 2.0"),
        ({"n_features": True}, "n_features must be a positive integer; got True"),
        ({"n_docs": 0}, "n_docs must be a positive integer; got 0"),
        ({"n_docs": None}, "n_docs must be a positive integer; got None"),
        ({"n_docs": (1, 2, 3)}, r"n_docs must be a positive integer; got \(1, 2, 3\)"),
        ({"n_docs": (5, 2)}, "n_docs must be at most 2; got 5"),
        ({"n_informative": 0}, "n_informative must be a positive integer; got 0"),
        ({"n_informative": 21}, "n_informative must be at most 20; got 21"),
        ({"n_grades": 1}, "n_grades must be at least 2; got 1"),
        ({"noise": -0.1}, "noise must be a finite number >= 0; got -0.1"),
        ({"noise": math.nan}, "noise must be a finite number >= 0; got nan"),
        ({"noise": math.inf}, "noise must be a finite number >= 0; got inf"),
        ({"outliers": 0.6}, "outliers must be a fraction from 0 to 0.5; got 0.6"),
        ({"empty": 1.1}, "empty must be a fraction from 0 to 1; got 1.1"),
        ({"empty": "all"}, "empty must be a fraction from 0 to 1; got 'all'"),
        ({"label_distribution": (1, 1)}, "label_distribution must hold n_grades=5 numbers ≥ 0"),
        ({"label_distribution": (1, 1, 1, 1, -1)}, "must hold n_grades=5 numbers ≥ 0"),
        ({"label_distribution": (1, 0, 0, 0, 0)}, "must give a grade above 0 some share"),
        ({"dtype": "int32"}, "dtype must be float32 or float64; got 'int32'"),
        ({"random_state": -1}, "random_state must be an integer ≥ 0, .*; got -1"),
        ({"random_state": "now"}, "random_state must be an integer ≥ 0, .*; got 'now'"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        make_ranking(**options)


def test_result_is_ordinary_ranking_data():
    data = make_ranking(4, n_docs=3, random_state=0)
    assert dataclasses.replace(data, y=data.y + 1).n_queries == 4
    assert data.normalize().X.min() == 0.0
