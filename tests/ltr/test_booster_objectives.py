"""RoBiRank's loss inside LightGBM's and XGBoost's own training."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from robirank import lightgbm_objective, listwise_loss, make_ranking, xgboost_objective
from robirank._queries import MissingQidWarning
from robirank.metrics import ndcg


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=60, n_docs=(3, 15), n_features=5, empty=0.1, random_state=0)


class Dataset:
    """What both packages' data say of themselves."""

    def __init__(self, data, weight=None, by_group=None):
        self._data, self._weight, self._by_group = data, weight, by_group

    def get_label(self):
        return self._data.y

    def get_group(self):
        return self._data.queries.sizes

    def get_weight(self):
        if self._by_group is not None:
            return self._by_group
        return self._weight

    def get_uint_info(self, name):
        assert name == "group_ptr"
        return self._data.queries.offsets


@pytest.mark.parametrize("rho", ["log", "identity", "type2"])
@pytest.mark.parametrize("metric", ["ndcg", "dcg"])
def test_gradient_and_curvature_are_those_of_the_loss(data, rho, metric):
    scores = np.random.default_rng(0).standard_normal(len(data)) * 3
    weight = np.random.default_rng(1).random(len(data))
    n = np.unique(data.qid[data.y > 0]).size
    given = {"rho": rho, "metric": metric, "hessian": "majorant"}

    expected = listwise_loss(scores, data.y, data.qid, sample_weight=weight, **given)
    gradient, hessian = lightgbm_objective(rho=rho, metric=metric)(scores, Dataset(data, weight))
    assert gradient.dtype == hessian.dtype == np.float32
    assert_allclose(gradient, expected.gradient * n, rtol=2e-4, atol=1e-6)
    assert_allclose(hessian, expected.hessian * n, rtol=2e-4, atol=1e-6)

    by_group = 1.0 + np.arange(data.n_queries) % 3
    rows = np.repeat(by_group, data.queries.sizes)
    expected = listwise_loss(scores, data.y, data.qid, query_weight=rows, **given)
    objective = xgboost_objective(rho=rho, metric=metric)
    gradient, hessian = objective(scores.astype(np.float32), Dataset(data, by_group=by_group))
    assert_allclose(gradient, expected.gradient * n, rtol=2e-4, atol=1e-5)


def test_one_objective_serves_one_data_set_after_another(data):
    objective = lightgbm_objective()
    other = data.take(data.qid <= 20)
    first = objective(np.zeros(len(data)), Dataset(data))[0].copy()
    assert objective(np.zeros(len(other)), Dataset(other))[0].shape == (len(other),)
    assert_allclose(objective(np.zeros(len(data)), Dataset(data))[0], first)


CHANGES = {
    "set_label": lambda data: (4.0 - data.y,),
    "set_weight": lambda data: (1.0 + np.arange(len(data)) % 2,),
    "set_group": lambda data: ([len(data)],),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_dataset_has_new_gradients(data, change):
    lightgbm = pytest.importorskip("lightgbm")
    group = data.queries.sizes
    train = lightgbm.Dataset(data.X, data.y, group=group, free_raw_data=False).construct()
    scores = np.random.default_rng(0).standard_normal(len(data))
    objective = lightgbm_objective()
    before = objective(scores, train)[0].copy()
    assert_array_equal(objective(scores, train)[0], before)
    getattr(train, change)(*CHANGES[change](data))
    after = objective(scores, train)[0].copy()
    assert_array_equal(after, lightgbm_objective()(scores, train)[0])
    assert (after != before).any()


def test_labels_that_change_in_place(data):
    class Changing(Dataset):
        label = data.y.copy()

        def get_label(self):
            return self.label

    matrix = Changing(data, by_group=np.ones(data.n_queries))
    objective = xgboost_objective()
    before = objective(np.zeros(len(data)), matrix)[0].copy()
    matrix.label[:] = 4.0 - matrix.label
    after = objective(np.zeros(len(data)), matrix)[0]
    assert_array_equal(after, xgboost_objective()(np.zeros(len(data)), matrix)[0])
    assert (after != before).any()


@pytest.mark.parametrize("make", [lightgbm_objective, xgboost_objective])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.nan, r"scores must be finite; scores\[2\] is nan"),
        (np.inf, r"scores must be finite; scores\[2\] is inf"),
        (1j, "scores must be numbers"),
    ],
)
def test_scores_must_be_finite_numbers(data, make, bad, message):
    scores = np.zeros(len(data), dtype=type(bad))
    scores[2] = bad
    with pytest.raises(ValueError, match=message):
        make()(scores, Dataset(data, by_group=None if make is lightgbm_objective else ()))


def test_groups_must_hold_all_rows(data):
    class Short(Dataset):
        def get_group(self):
            return self._data.queries.sizes[:-1]

    with pytest.raises(ValueError, match="the groups must hold"):
        lightgbm_objective()(np.zeros(len(data)), Short(data))
    with pytest.raises(ValueError, match="one value for each of the 60 groups"):
        xgboost_objective()(np.zeros(len(data)), Dataset(data, by_group=np.ones(3)))


def test_lightgbm_learns_with_it(data):
    lightgbm = pytest.importorskip("lightgbm")
    params = {"objective": lightgbm_objective(), "num_leaves": 8, "verbosity": -1, "num_threads": 1}
    train = lightgbm.Dataset(data.X, data.y, group=data.queries.sizes)
    booster = lightgbm.train(params | {"min_data_in_leaf": 5}, train, 50)
    before = ndcg(data.y, np.zeros(len(data)), data.qid, k=10)
    assert ndcg(data.y, booster.predict(data.X), data.qid, k=10) > before + 0.2


def test_xgboost_learns_with_it(data):
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed: pip install xgboost")
    train = xgboost.DMatrix(data.X, data.y)
    train.set_group(data.queries.sizes)
    params = {"max_depth": 3, "min_child_weight": 1e-3, "nthread": 1, "eta": 0.2}
    booster = xgboost.train(params, train, 40, obj=xgboost_objective())
    before = ndcg(data.y, np.zeros(len(data)), data.qid, k=10)
    assert ndcg(data.y, booster.predict(train), data.qid, k=10) > before + 0.2


def test_many_rows_without_groups_are_warned_of():
    lightgbm = pytest.importorskip("lightgbm")
    data = make_ranking(n_queries=30, n_docs=10, random_state=0)
    train = lightgbm.Dataset(data.X, data.y)
    params = {"objective": lightgbm_objective(), "verbosity": -1, "num_threads": 1}
    with pytest.warns(MissingQidWarning, match="300 rows came without groups"):
        lightgbm.train(params, train, num_boost_round=1)
