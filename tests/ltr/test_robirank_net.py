"""RoBiRankNet: what its network is, and how it learns."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from robirank import RoBiRank, RoBiRankNet, listwise_loss, make_ranking

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=40, n_docs=10, n_features=4, random_state=0)


def test_score_is_the_formula(data):
    model = RoBiRankNet(8, max_iter=2, random_state=0).fit(data.X, data.y, qid=data.qid)
    x = data.X[0].astype(np.float64)
    z = (np.sign(x) * np.log(1 + np.abs(x)) - model.mean_) / model.scale_
    h = z @ model.input_coef_ + model.input_intercept_
    for coef, intercept in zip(model.block_coef_, model.block_intercept_, strict=True):
        h = h + np.clip(h @ coef + intercept, 0, None)
    assert model.predict(data.X[:1])[0] == pytest.approx(h @ model.output_coef_)
    assert model.block_coef_.shape == (2, 8, 8)


def test_training_lowers_the_loss_it_reports(data):
    model = RoBiRankNet(16, max_iter=15, dropout=0, alpha=0, batch_size=40, random_state=0)
    model.fit(data.X, data.y, qid=data.qid)
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    # One batch of all queries: the next loss is that of the weights before the step.
    once = RoBiRankNet(16, max_iter=1, dropout=0, alpha=0, batch_size=40, random_state=0)
    once.fit(data.X, data.y, qid=data.qid)
    after = listwise_loss(once.predict(data.X), data.y, data.qid).loss
    assert model.loss_curve_[1] == pytest.approx(after, rel=1e-4)


def test_beats_a_linear_model_where_relevance_is_not_linear():
    made = make_ranking(n_queries=250, n_features=6, nonlinear=True, noise=0.2, random_state=0)
    number = made.queries.codes()
    train, test = made.take(number < 200), made.take(number >= 200)
    linear = RoBiRank().fit(train.X, train.y, qid=train.qid)
    net = RoBiRankNet(32, max_iter=20, learning_rate=5e-3, random_state=0)
    net.fit(train.X, train.y, qid=train.qid)
    gain = net.score(test.X, test.y, qid=test.qid) - linear.score(test.X, test.y, qid=test.qid)
    assert gain > 0.1


def test_raw_features_of_any_size_are_brought_into_reach(data):
    X = np.sign(data.X) * np.expm1(np.abs(data.X) * 8)  # up to a few millions
    model = RoBiRankNet(16, max_iter=15, learning_rate=1e-2, random_state=0)
    assert model.fit(X, data.y, qid=data.qid).score(X, data.y, qid=data.qid) > 0.8


def test_caller_keeps_threads_and_random_numbers(data):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    RoBiRankNet(8, max_iter=1, random_state=0).fit(data.X, data.y, qid=data.qid)
    assert_array_equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


def test_order_within_a_query_has_no_influence(data):
    settings = {"max_iter": 3, "random_state": 0}
    model = RoBiRankNet(8, **settings).fit(data.X, data.y, qid=data.qid)
    best_first = np.lexsort((-data.y, data.qid))
    other = RoBiRankNet(8, **settings).fit(
        data.X[best_first], data.y[best_first], qid=data.qid[best_first]
    )
    assert_allclose(other.predict(data.X), model.predict(data.X), rtol=1e-12)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"units": 0}, "units must be a positive integer"),
        ({"dropout": 1.0}, "dropout must be below 1; got 1.0"),
        ({"alpha": -1}, "alpha must be a finite number >= 0"),
        ({"rho": "square"}, "rho must be one of"),
    ],
)
def test_errors_name_the_parameter(data, params, message):
    with pytest.raises(ValueError, match=message):
        RoBiRankNet(**params).fit(data.X, data.y, qid=data.qid)


def test_without_torch_the_error_names_the_extra(data, monkeypatch):
    model = RoBiRankNet(8, max_iter=1, random_state=0).fit(data.X, data.y, qid=data.qid)
    for name in [n for n in sys.modules if n.startswith("robirank.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'robirank\[torch\]'"):
        RoBiRankNet(8).fit(data.X, data.y, qid=data.qid)
    assert model.predict(data.X).shape == (len(data),)
