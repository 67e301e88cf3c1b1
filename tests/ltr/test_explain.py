"""Why A stands above B: effects that add up, and are what their definition says."""

from fractions import Fraction
from itertools import combinations
from math import comb, factorial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from robirank import (
    MART,
    RandomForests,
    RankingData,
    RoBiRank,
    RoBiRankBooster,
    load_model,
    make_ranking,
    save_model,
)
from robirank.ltr._forest import Forest
from robirank.ltr.explain import _share, forest_effects

SMALL = {"n_estimators": 12, "learning_rate": 0.3, "min_samples_leaf": 1, "num_threads": 1}


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=30, n_docs=12, n_features=4, nonlinear=True, random_state=0)


def shapley(predict, a, b):
    """Shapley values by their definition: every coalition of features that are A's."""
    n = len(a)
    values = np.zeros(n)
    for f in range(n):
        others = [g for g in range(n) if g != f]
        for size in range(n):
            for coalition in combinations(others, size):
                without, within = b.copy(), b.copy()
                without[list(coalition)] = a[list(coalition)]
                within[[*coalition, f]] = a[[*coalition, f]]
                gain = np.subtract(*predict(np.stack([within, without])))
                values[f] += gain / (n * comb(n - 1, size))
    return values


@pytest.mark.parametrize(
    "model",
    [RoBiRankBooster(**SMALL), MART(8, num_threads=1), RandomForests(5, num_threads=1)],
    ids=lambda m: type(m).__name__,
)
def test_trees_have_shapley_values(model, data):
    pytest.importorskip("lightgbm")
    model.fit(data.X, data.y, qid=data.qid)
    for i, j in [(0, 1), (5, 100), (30, 31)]:
        why = model.explain(data.X[i], data.X[j])
        expected = shapley(model.predict, data.X[i], data.X[j])
        assert_allclose(why.effect, expected, rtol=1e-9, atol=1e-12)
        assert why.effect.sum() == pytest.approx(why.score_a - why.score_b)
        assert [why.score_a, why.score_b] == model.predict(data.X[[i, j]]).tolist()


def test_trees_with_missing_values_and_categories(data):
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = np.column_stack([data.X, rng.integers(0, 9, len(data))]).astype(np.float64)
    X[rng.random(X.shape) < 0.3] = np.nan
    y = data.y + 2 * np.isin(X[:, 4], [1, 5, 7])
    model = RoBiRankBooster(**SMALL, categorical_features=[4]).fit(X, y, qid=data.qid)
    assert len(model.categories_)
    for i, j in [(0, 1), (5, 100), (30, 31)]:
        why = model.explain(X[i], X[j])
        assert_allclose(why.effect, shapley(model.predict, X[i], X[j]), rtol=1e-9, atol=1e-12)


def chain(n):
    """A tree that asks for n features, one after the other: any 0 ends the way, with no score."""
    nodes = np.arange(2 * n + 1)
    inner = nodes % 2 == 0
    inner[-1] = False
    value = np.where(nodes == 2 * n, 1.0, 0.0)
    left = np.where(inner, nodes + 1, nodes)
    feature = np.where(inner, nodes // 2, -1)
    threshold = np.where(inner, 0.5, 0.0)
    offsets, no_categories = np.array([0, 2 * n + 1]), np.zeros(2 * n + 2, int)
    special = (np.ones(2 * n + 1, int), no_categories, np.zeros(0, int))
    return Forest(offsets, feature, threshold, left, value, *special)


@pytest.mark.parametrize("n", [1, 3, 170, 171, 400])
def test_any_number_of_features_on_a_path(n):
    """Where all features must be A's, each has an equal share."""
    effects = forest_effects(chain(n), np.ones(n), np.zeros(n))
    assert_allclose(effects, np.full(n, 1.0 / n), rtol=1e-12)


@given(st.integers(1, 6), st.integers(0, 6))
def test_shares_are_those_of_the_definition(p, q):
    """The mean over all orders: one of p comes last of them, before all of q."""
    exact = Fraction(factorial(p - 1) * factorial(q), factorial(p + q))
    assert _share(p, q) == pytest.approx(float(exact), rel=1e-15)


def test_the_share_of_a_path_that_floats_cannot_count():
    n = 700
    a = np.tile([1.0, 0.0], n)
    forest = chain(2 * n)
    effects = forest_effects(forest, a, 1.0 - a)
    assert np.isfinite(effects).all()
    assert effects.sum() == pytest.approx(0.0, abs=1e-300)


@pytest.mark.parametrize(
    "model", [RoBiRank(), RoBiRankBooster(**SMALL)], ids=lambda m: type(m).__name__
)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_a_whole_query(model, kind, data):
    model.fit(data.X, data.y, qid=data.qid)
    X = data.X[data.qid == data.qid[0]]
    whole = model.explain_query(kind(X))
    assert sorted(whole.rows.tolist()) == list(range(12))
    assert_allclose(whole.scores, np.sort(model.predict(X))[::-1])
    assert len(whole.steps) == 11
    for a, b, step in zip(whole.rows, whole.rows[1:], whole.steps, strict=False):
        alone = model.explain(X[a], X[b])
        assert_allclose(step.effect, alone.effect, atol=1e-12)
        assert (step.score_a, step.score_b) == pytest.approx((alone.score_a, alone.score_b))
    frame = whole.to_frame()
    assert frame.shape == (11 * 4, 7)
    first = frame.filter(rank=1)
    assert first["row_a"].unique().to_list() == [whole.rows[0]]
    assert first["row_b"].unique().to_list() == [whole.rows[1]]
    assert first["effect"].sum() == pytest.approx(whole.scores[0] - whole.scores[1])


def test_a_query_of_one_document_has_no_steps(data):
    model = RoBiRank().fit(data.X, data.y, qid=data.qid)
    whole = model.explain_query(data.X[:1])
    assert (whole.rows.tolist(), whole.steps, whole.to_frame().shape) == ([0], (), (0, 7))


def test_linear_effects_are_exact(data):
    model = RoBiRank().fit(data.X, data.y, qid=data.qid)
    why = model.explain(data.X[3], data.X[7])
    assert_allclose(why.effect, model.coef_ * (data.X[3] - data.X[7]))
    assert why.effect.sum() == pytest.approx(why.score_a - why.score_b)
    back = model.explain(data.X[7], data.X[3])
    assert_allclose(back.effect, -why.effect)


def test_names_survive_from_a_frame_to_the_explanation(data, tmp_path):
    names = ("bm25", "age", "clicks", "length")
    named = RankingData(data.X, data.y, data.qid, feature_names=names)
    half = named.take(named.qid % 2 == 0).normalize()
    model = RoBiRank().fit(half.to_frame(), half.y, qid=half.qid)
    save_model(model, tmp_path / "m.safetensors")
    for fitted in (model, load_model(tmp_path / "m.safetensors")):
        why = fitted.explain(half.to_frame()[:1], half.to_frame()[1:2])
        assert why.features == names
        assert {name for name, *_ in why.table()} <= set(names)
        assert "clicks" in str(why)
    plain = RoBiRank().fit(half.X, half.y, qid=half.qid)
    assert plain.explain(half.X[0], half.X[1]).features == ("f1", "f2", "f3", "f4")
    save_model(plain, tmp_path / "n.safetensors", feature_names=names)
    assert load_model(tmp_path / "n.safetensors").explain(half.X[0], half.X[1]).features == names


def test_table_has_the_strongest_first_and_sums_the_rest(data):
    model = RoBiRank().fit(data.X, data.y, qid=data.qid)
    why = model.explain(data.X[3], data.X[7])
    strength = [abs(row[-1]) for row in why.table()]
    assert strength == sorted(strength, reverse=True)
    short = why.table(1)
    assert short[1][0] == "(3 others)"
    assert sum(row[-1] for row in short) == pytest.approx(why.effect.sum())
    frame = why.to_frame()
    assert frame.columns == ["feature", "a", "b", "effect"]
    assert frame["effect"].sum() == pytest.approx(why.effect.sum())


def test_plot_has_a_bar_for_each_line_of_the_table(data):
    pytest.importorskip("matplotlib")
    model = RoBiRank().fit(data.X, data.y, qid=data.qid)
    why = model.explain(data.X[3], data.X[7])
    axes = why.plot(top=2)
    assert [bar.get_width() for bar in axes.patches] == [row[-1] for row in why.table(2)][::-1]
    assert why.features[int(np.argmax(np.abs(why.effect)))] in axes.get_yticklabels()[-1].get_text()


@pytest.mark.parametrize(
    ("a", "message"),
    [(np.zeros((2, 4)), "X_a must be one document; got 2 rows"), (np.zeros(3), "features")],
)
def test_errors_name_the_argument(data, a, message):
    model = RoBiRank().fit(data.X, data.y, qid=data.qid)
    with pytest.raises(ValueError, match=message):
        model.explain(a, data.X[0])
