"""RoBiRankBooster: its trees follow the loss, and take features and labels as they come."""

import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from robirank import (
    RankingData,
    RoBiRankBooster,
    listwise_loss,
    load_model,
    make_ranking,
    save_model,
)
from robirank.ltr._lightgbm import read_forest
from robirank.ltr.base import Ranker
from robirank.metrics import ndcg

lightgbm = pytest.importorskip("lightgbm")

SMALL = {"n_estimators": 20, "learning_rate": 0.3, "min_samples_leaf": 1, "num_threads": 1}


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=40, n_docs=(5, 20), n_features=5, nonlinear=True, random_state=3)


def fitted(data, **params):
    return RoBiRankBooster(**SMALL | params).fit(data.X, data.y, qid=data.qid)


@pytest.mark.parametrize("rho", ["log", "identity"])
@pytest.mark.parametrize("metric", ["ndcg", "dcg"])
def test_first_tree_takes_newton_steps_of_the_loss(data, rho, metric):
    model = fitted(data, n_estimators=1, learning_rate=1.0, rho=rho, metric=metric)
    loss = listwise_loss(
        np.zeros(len(data)), data.y, data.qid, rho=rho, metric=metric, hessian="majorant"
    )
    scores = model.predict(data.X)
    leaves = np.unique(scores)
    assert 2 <= len(leaves) <= 15
    for value in leaves:
        inside = scores == value
        step = -loss.gradient[inside].sum() / loss.hessian[inside].sum()
        assert value == pytest.approx(step, rel=1e-4)


def test_trees_lower_the_loss_round_by_round(data):
    values = [
        listwise_loss(fitted(data, n_estimators=n).predict(data.X), data.y, data.qid).loss
        for n in (1, 5, 20)
    ]
    assert values[0] > values[1] > values[2]


def test_beats_a_linear_model_where_relevance_is_not_linear():
    from robirank import RoBiRank

    made = make_ranking(n_queries=300, n_features=10, nonlinear=True, random_state=0)
    number = made.queries.codes()
    train, test = made.take(number < 200), made.take(number >= 200)
    linear = RoBiRank().fit(train.X, train.y, qid=train.qid)
    trees = RoBiRankBooster(100, learning_rate=0.1, num_threads=1).fit(
        train.X, train.y, qid=train.qid
    )
    gain = trees.score(test.X, test.y, qid=test.qid) - linear.score(test.X, test.y, qid=test.qid)
    assert gain > 0.1


def test_query_weights_act_as_factors_of_the_loss(data):
    heavy = {q: 1.0 + 9.0 * (q % 2) for q in np.unique(data.qid).tolist()}
    rows = np.array([heavy[q] for q in data.qid.tolist()])
    by_id = RoBiRankBooster(**SMALL).fit(data.X, data.y, qid=data.qid, query_weight=heavy)
    by_row = RoBiRankBooster(**SMALL).fit(data.X, data.y, qid=data.qid, query_weight=rows)
    assert_array_equal(by_id.predict(data.X), by_row.predict(data.X))
    plain = fitted(data)
    odd = data.qid % 2 == 1
    favoured, usual = (
        ndcg(data.y[odd], m.predict(data.X)[odd], data.qid[odd], k=10) for m in (by_id, plain)
    )
    assert favoured > usual
    # A query of weight 0 does not count, whatever its labels are.
    none = {q: float(q % 2) for q in heavy}
    noise = np.where(odd, data.y, np.random.default_rng(0).integers(0, 3, len(data)))
    one = RoBiRankBooster(**SMALL).fit(data.X, data.y, qid=data.qid, query_weight=none)
    other = RoBiRankBooster(**SMALL).fit(data.X, noise, qid=data.qid, query_weight=none)
    assert_allclose(one.predict(data.X), other.predict(data.X), rtol=1e-5)


def test_sample_weight_zero_takes_a_document_out_of_the_outer_sum(data):
    weight = np.where(data.y == 1, 0.0, 1.0)
    weighted = RoBiRankBooster(**SMALL).fit(data.X, data.y, qid=data.qid, sample_weight=weight)
    assert np.abs(weighted.predict(data.X) - fitted(data).predict(data.X)).max() > 1e-3


@pytest.mark.parametrize("labels", [[0.0, 31.0, 45.0], [0.0, 0.5, 2.25], [0, 1e6, 3e9]])
def test_labels_of_any_size(labels):
    X = np.repeat([0.0, 1.0, 2.0], 20)[:, None]
    y = np.repeat(labels, 20).astype(float)
    gain = "exp" if max(labels) < 1000 else "linear"
    model = RoBiRankBooster(**SMALL, gain=gain).fit(X, y)
    low, middle, high = model.predict([[0.0], [1.0], [2.0]])
    assert low < middle < high


def test_a_label_without_finite_gain_names_the_remedy():
    with pytest.raises(ValueError, match="gain must be finite"):
        RoBiRankBooster(**SMALL).fit([[0.0], [1.0]], [0, 5000.0])


def test_lists_longer_than_lightgbm_takes():
    made = make_ranking(n_queries=1, n_docs=30_000, n_features=4, noise=0.1, random_state=0)
    model = RoBiRankBooster(**SMALL | {"n_estimators": 40}).fit(made.X, made.y, qid=made.qid)
    assert model.score(made.X, made.y, qid=made.qid) > 0.7


def with_missing(data):
    X = data.X.astype(np.float64)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    return X


def test_missing_values_are_informative(data):
    # The feature says nothing but by its absence.
    hidden = np.where(data.y > 0, np.nan, 1.0)[:, None]
    model = RoBiRankBooster(**SMALL).fit(hidden, data.y, qid=data.qid)
    gone, there = model.predict([[np.nan], [1.0]])
    assert gone > there


@pytest.mark.parametrize("sparse", [False, True])
def test_forest_predicts_what_lightgbm_predicts(data, sparse):
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    X = with_missing(data)
    X[:, 4] = rng.integers(0, 40, len(X))
    X[:, 3] = np.where(rng.random(len(X)) < 0.2, np.nan, rng.integers(0, 3, len(X)))
    y = data.y + (X[:, 4] % 7 == 2)
    params = {"objective": "regression", "verbosity": -1, "num_threads": 1}
    params |= {"min_data_per_group": 1, "cat_smooth": 0, "num_leaves": 20, "min_data_in_leaf": 2}
    train = lightgbm.Dataset(X, y, params=params, categorical_feature=[3, 4])
    booster = lightgbm.train(params, train, 25)
    forest = read_forest(booster)
    assert forest.has_categories
    probe = X.copy()
    probe[:, 4] = rng.choice([-1, 0, 2, 2.7, 39, 40, 1000, np.nan], len(X))
    probe[::3, :3] = np.nan
    for rows in (X, probe):
        walked = forest.sum(sp.csr_matrix(rows) if sparse else rows)
        assert_allclose(walked, booster.predict(rows), rtol=1e-12, atol=1e-14)


def test_categories_are_sets_not_numbers(data):
    # Relevance depends on the category by no order that a threshold could follow.
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 30, 3000).astype(float)
    y = (rng.permutation(30)[kind.astype(int)] < 15).astype(float)
    qid = np.repeat(np.arange(100), 30)
    settings = SMALL | {"n_estimators": 1, "max_leaf_nodes": 2, "max_bins": 30}
    sets = RoBiRankBooster(**settings, categorical_features=[0]).fit(kind[:, None], y, qid=qid)
    line = RoBiRankBooster(**settings).fit(kind[:, None], y, qid=qid)
    assert sets.score(kind[:, None], y, qid=qid) > 0.99 > line.score(kind[:, None], y, qid=qid)
    assert len(sets.categories_)
    unknown, missing = sets.predict([[77.0], [np.nan]])
    assert unknown == missing


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"categorical_features": ["colour"]}, "names of features, or numbers from 0 to 4"),
        ({"categorical_features": [9]}, "from 0 to 4; got 9"),
        ({"categorical_features": [0]}, "feature 0 of categorical_features must hold integers"),
        ({"monotonic_cst": [1, 0]}, "each of the 5 features"),
        ({"monotonic_cst": [2, 0, 0, 0, 0]}, "−1, 0 or 1"),
        ({"rho": "square"}, "rho must be one of"),
        ({"metric": "map"}, "metric must be one of"),
        ({"subsample": 0.0}, "subsample must be a positive number, at most 1"),
        ({"max_features": 2}, "max_features must be a positive number, at most 1"),
        ({"l2_regularization": -1}, "l2_regularization must be a finite number >= 0"),
    ],
)
def test_errors_name_the_parameter(data, params, message):
    with pytest.raises(ValueError, match=message):
        fitted(data, **params)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_features_that_are_all_zero(data, kind):
    zeros = kind(np.zeros((len(data), 3)))
    with pytest.raises(ValueError, match="X must have a feature that is not 0 everywhere; all 3"):
        RoBiRankBooster(**SMALL).fit(zeros, data.y, qid=data.qid)


def test_monotone_constraints_hold(data):
    frame = pd.DataFrame(data.X, columns=list("abcde"))
    model = RoBiRankBooster(**SMALL, monotonic_cst={"a": 1, "b": -1})
    model.fit(frame, data.y, qid=data.qid)
    same = RoBiRankBooster(**SMALL, monotonic_cst=[1, -1, 0, 0, 0]).fit(
        data.X, data.y, qid=data.qid
    )
    assert_array_equal(model.predict(frame), same.predict(data.X))
    rising = np.linspace(-3, 3, 50)
    for row in data.X[:20]:
        probe = np.tile(row, (50, 1))
        probe[:, 0] = rising
        assert (np.diff(same.predict(probe)) >= 0).all()
        probe[:, 0], probe[:, 1] = row[0], rising
        assert (np.diff(same.predict(probe)) <= 0).all()
    free = fitted(data).predict(np.column_stack([rising, np.zeros((50, 4))]))
    assert (np.diff(free) < 0).any()


def test_importances_are_shares_and_find_the_feature():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 4))
    y = (X[:, 2] > 0.5).astype(float)
    model = RoBiRankBooster(**SMALL).fit(X, y, qid=np.repeat(np.arange(30), 20))
    assert model.feature_importances_.shape == (4,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_[2] > 0.9


def test_importances_have_names(data, tmp_path):
    names = ("a", "b", "c", "d", "e")
    named = RankingData(data.X, data.y, data.qid, feature_names=names)
    model = RoBiRankBooster(**SMALL).fit(named)
    save_model(model, tmp_path / "m")
    for known in (model, load_model(tmp_path / "m")):
        frame = known.importance_frame()
        assert dict(frame.rows()) == dict(zip(names, model.feature_importances_, strict=True))
        assert frame["importance"].is_sorted(descending=True)
    assert fitted(data).importance_frame()["feature"].sort().to_list() == [
        f"f{j}" for j in range(1, 6)
    ]
    by_name = RoBiRankBooster(**SMALL, monotonic_cst={"b": 1}).fit(named)
    by_number = RoBiRankBooster(**SMALL, monotonic_cst=[0, 1, 0, 0, 0]).fit(data)
    assert_array_equal(by_name.predict(data.X), by_number.predict(data.X))


def test_draws_depend_on_the_seed_and_on_nothing_else(data):
    settings = {"subsample": 0.4, "max_features": 0.5}
    one, same, other = (fitted(data, **settings, random_state=s).predict(data.X) for s in (0, 0, 1))
    assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-3
    # Half of the queries are enough to learn most: their gradients are not mixed up.
    assert ndcg(data.y, one, data.qid, k=10) > 0.8


def test_threads_do_not_change_a_bit():
    # Enough pairs for several threads of the native kernel, too.
    made = make_ranking(n_queries=200, n_docs=(20, 120), n_features=5, random_state=0)
    settings = SMALL | {"n_estimators": 5, "subsample": 0.5, "random_state": 0}
    one, three = (
        RoBiRankBooster(**settings | {"num_threads": n}).fit(made.X, made.y, qid=made.qid)
        for n in (1, 3)
    )
    assert_array_equal(one.leaf_value_, three.leaf_value_)


def test_all_of_a_model_is_saved(data, tmp_path):
    X = np.column_stack([with_missing(data), np.random.default_rng(0).integers(0, 9, len(data))])
    model = RoBiRankBooster(**SMALL, categorical_features=[5]).fit(X, data.y, qid=data.qid)
    save_model(model, tmp_path / "m.safetensors")
    loaded = load_model(tmp_path / "m.safetensors")
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_array_equal(loaded.feature_importances_, model.feature_importances_)
    assert loaded.get_params() == model.get_params()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("missing_left_", 2, "missing_left of a forest"),
        ("category_offsets_", -1, "category_offsets of a forest"),
        ("categories_", -1, "categories of a node"),
    ],
)
def test_damaged_trees_are_refused(data, name, value, message):
    kind = np.random.default_rng(0).integers(0, 9, len(data))
    X = np.column_stack([data.X, kind])
    y = data.y + 3 * np.isin(kind, [1, 5, 7])
    model = RoBiRankBooster(**SMALL, categorical_features=[5]).fit(X, y, qid=data.qid)
    array = np.array(getattr(model, name))
    array[0] = value
    setattr(model, name, array)
    with pytest.raises(ValueError, match=message):
        model.predict(X)


def test_validation_may_have_missing_values(data):
    X = with_missing(data)
    model = RoBiRankBooster(**SMALL)
    model.fit(X, data.y, qid=data.qid, validation=(X, data.y, data.qid))
    assert len(model.validation_scores_) == model.n_iter_


def test_without_lightgbm_the_error_names_the_extra(data, monkeypatch):
    model = fitted(data)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match=r"pip install 'robirank\[trees\]'"):
        fitted(data)
    assert isinstance(model, Ranker)
    assert model.predict(data.X).shape == (len(data),)
