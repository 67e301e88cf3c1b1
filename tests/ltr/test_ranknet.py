"""RankNet: the loss of pairs, its way back through the network, and when to stop."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad

from robirank import RoBiRank, make_ranking
from robirank._queries import group_queries
from robirank.ltr.ranknet import Adam, PairList, RankNet, _draw, _lists_with_pairs, evaluate
from robirank.metrics import ndcg


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=15, n_docs=(4, 10), n_features=4, random_state=3)


def pair_loss(s, y):
    """The mean over pairs and its gradient, pair by pair."""
    pairs = [(i, j) for i in range(len(y)) for j in range(len(y)) if y[i] > y[j]]
    loss, slope = 0.0, np.zeros(len(y))
    for i, j in pairs:
        loss += np.log(1 + np.exp(s[j] - s[i]))
        push = 1 / (1 + np.exp(s[i] - s[j]))
        slope[i] -= push
        slope[j] += push
    return loss / len(pairs), slope / len(pairs)


def only_list(y):
    (found,) = _lists_with_pairs(np.asarray(y, dtype=float), group_queries(None, len(y)))
    return found


def test_loss_of_two_documents_by_hand():
    two = only_list([0, 1])
    assert two.rows.tolist() == [1, 0]  # the better one first
    loss, slope = two(np.array([0.0, np.log(3)]))
    assert loss == pytest.approx(np.log(4))
    assert_allclose(slope, [-3 / 4, 3 / 4])


@pytest.mark.parametrize("cells", [1 << 20, 7, 1])
@pytest.mark.parametrize("y", [[0, 1, 0, 2, 1, 0, 0.5], [3, 2, 1, 0], [1, 1, 1, 0, 0]])
def test_loss_is_that_of_all_pairs(y, cells, monkeypatch):
    monkeypatch.setattr("robirank.ltr.ranknet._CELLS", cells)
    y = np.array(y, dtype=float)
    s = np.random.default_rng(0).standard_normal(len(y))
    documents = only_list(y)
    loss, slope = documents(s[documents.rows])
    expected = pair_loss(s, y)
    assert loss == pytest.approx(expected[0])
    assert_allclose(slope, expected[1][documents.rows], rtol=1e-12)
    assert documents.n_pairs == sum(a > b for a in y for b in y)


def test_only_queries_with_pairs_take_part():
    y = np.array([1.0, 0.0, 0.0, 1.0, 2.0, 1.0, 1.0])
    lists = [*_lists_with_pairs(y, group_queries(list("aababcc"), 7))]
    assert [part.rows.tolist() for part in lists] == [[0, 3, 1], [4, 2]]
    assert [part.ends.tolist() for part in lists] == [[2, 3], [1, 2]]


def test_gradient_by_the_weights():
    rng = np.random.RandomState(0)
    weights = _draw(3, 4, rng) | {"hidden_intercept_": rng.standard_normal(4)}
    Z = rng.standard_normal((6, 3))
    documents = PairList(np.arange(6), np.array([1, 3, 6]))
    for name, array in weights.items():

        def moved(theta, name=name, shape=array.shape):
            loss, gradients = evaluate(Z, documents, weights | {name: theta.reshape(shape)})
            return loss, gradients[name].ravel()

        error = check_grad(lambda t, f=moved: f(t)[0], lambda t, f=moved: f(t)[1], array.ravel())
        assert error < 1e-6


def test_penalty_spares_the_intercepts():
    # Without a way through the network only the penalty moves weights, and b has none.
    weights = {
        "hidden_coef_": np.ones((2, 2)),
        "hidden_intercept_": np.ones(2),
        "output_coef_": np.zeros(2),
    }
    documents = PairList(np.arange(2), np.array([1, 2]))
    RankNet(alpha=0.5)._step(Adam(weights, 0.1), np.zeros((2, 2)), documents)
    assert (weights["hidden_coef_"] < 1).all()
    assert weights["hidden_intercept_"].tolist() == [1, 1]


def test_adam_steps_by_hand():
    # Gradients 2, then −1. Means 2 and (0.9·0.2 − 0.1)/(1 − 0.81); squares 4 and
    # (0.999·0.004 + 0.001)/(1 − 0.999²).
    theta = np.zeros(1)
    adam = Adam({"theta": theta}, 0.5)
    adam.step({"theta": np.array([2.0])})
    assert_allclose(theta, -0.5, rtol=1e-7)
    adam.step({"theta": np.array([-1.0])})
    second = ((0.18 - 0.1) / 0.19) / np.sqrt(0.004996 / (1 - 0.999**2))
    assert_allclose(theta, -0.5 - 0.5 * second, rtol=1e-6)


def test_what_no_line_can_rank():
    # Relevant if exactly one of two features is on: any linear score errs on some pair.
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    rng = np.random.default_rng(0)
    X = np.vstack([corners[rng.permutation(4)] for _ in range(20)]).astype(float)
    y = (X[:, 0] != X[:, 1]).astype(int)
    qid = np.repeat(np.arange(20), 4)
    net = RankNet(alpha=1e-4, learning_rate=0.02, random_state=0).fit(X, y, qid=qid)
    assert net.score(X, y, qid=qid) == 1.0
    assert RoBiRank().fit(X, y, qid=qid).score(X, y, qid=qid) < 0.95


def test_every_epoch_meets_every_query_once_in_another_order(data, monkeypatch):
    met = []
    step = RankNet._step

    def spy(self, adam, Z, documents):
        met.append(int(documents.rows[0]))
        return step(self, adam, Z, documents)

    monkeypatch.setattr(RankNet, "_step", spy)
    RankNet(max_iter=2, random_state=0).fit(data.X, data.y, qid=data.qid)
    first, second = met[: len(met) // 2], met[len(met) // 2 :]
    assert len(set(first)) == 15
    assert sorted(first) == sorted(second)
    assert first != second


def test_loss_falls_and_ends_below_that_of_equal_scores(data):
    model = RankNet(learning_rate=1e-2, max_iter=30, random_state=0)
    model.fit(data.X, data.y, qid=data.qid)
    assert len(model.loss_curve_) == model.n_iter_ == model.best_iter_ == 30
    assert model.loss_curve_[-1] < 0.8 * model.loss_curve_[0]
    assert model.loss_curve_[-1] < np.log(2)
    assert model.validation_scores_ == []


def test_prediction_is_the_formula_of_the_docstring(data):
    model = RankNet(3, max_iter=2, random_state=0).fit(data.X, data.y, qid=data.qid)
    assert_allclose(model.mean_, data.X.mean(axis=0), rtol=1e-5)
    assert_allclose(model.scale_, data.X.std(axis=0), rtol=1e-5)
    x = data.X[5].astype(float)
    z = (x - model.mean_) / model.scale_
    by_hand = sum(
        model.output_coef_[h] * np.tanh(z @ model.hidden_coef_[:, h] + model.hidden_intercept_[h])
        for h in range(3)
    )
    assert model.predict(data.X)[5] == pytest.approx(by_hand, rel=1e-9)


def test_model_is_nothing_but_its_arrays(data):
    model = RankNet(max_iter=2, random_state=0).fit(data.X, data.y, qid=data.qid)
    twin = RankNet()
    names = ("mean_", "scale_", "hidden_coef_", "hidden_intercept_", "output_coef_")
    for name in (*names, "n_features_in_"):
        setattr(twin, name, getattr(model, name))
    assert_array_equal(twin.predict(data.X), model.predict(data.X))


def test_scale_of_features_does_not_matter(data):
    X = data.X.astype(float)
    plain = RankNet(max_iter=5, random_state=0).fit(X, data.y, qid=data.qid)
    moved = X * [1e3, 1e-3, 1, 7] + [5, -2, 0, 1]
    scaled = RankNet(max_iter=5, random_state=0).fit(moved, data.y, qid=data.qid)
    assert_allclose(scaled.predict(moved), plain.predict(X), atol=1e-8)


def test_constant_features_are_harmless(data):
    X = np.column_stack([data.X, np.full(len(data), 3.0)])
    model = RankNet(max_iter=2, random_state=0).fit(X, data.y, qid=data.qid)
    assert model.scale_[-1] == 1.0
    assert np.isfinite(model.predict(X)).all()


def test_only_the_order_of_labels_matters(data):
    plain = RankNet(max_iter=3, random_state=0).fit(data.X, data.y, qid=data.qid)
    other = RankNet(max_iter=3, random_state=0).fit(data.X, data.y**3 / 7, qid=data.qid)
    assert_array_equal(other.predict(data.X), plain.predict(data.X))


def test_strong_penalty_flattens_the_scores(data):
    fits = [
        RankNet(alpha=alpha, learning_rate=0.01, random_state=0).fit(data.X, data.y, qid=data.qid)
        for alpha in (0, 10.0)
    ]
    assert np.ptp(fits[1].predict(data.X)) < 0.01 * np.ptp(fits[0].predict(data.X))


def test_seed_decides_everything(data):
    runs = [
        RankNet(max_iter=3, random_state=seed).fit(data.X, data.y, qid=data.qid).predict(data.X)
        for seed in (0, 0, 1)
    ]
    assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()


def test_best_epoch_on_validation_data_is_kept():
    data = make_ranking(n_queries=60, n_docs=10, n_features=5, noise=1.5, random_state=5)
    train, vali = data.take(data.qid <= 20), data.take(data.qid > 20)
    params = {"learning_rate": 0.02, "k": 3, "convention": "letor", "random_state": 1}
    model = RankNet(patience=6, **params)
    model.fit(train.X, train.y, qid=train.qid, validation=vali)
    scores = model.validation_scores_
    assert 1 < model.best_iter_ == int(np.argmax(scores)) + 1
    assert model.n_iter_ == len(scores) == model.best_iter_ + 6
    kept = ndcg(vali.y, model.predict(vali.X), vali.qid, k=3, convention="letor")
    assert kept == pytest.approx(max(scores), abs=1e-12)
    short = RankNet(max_iter=model.best_iter_, **params).fit(train.X, train.y, qid=train.qid)
    assert_array_equal(short.hidden_coef_, model.hidden_coef_)
    assert_array_equal(short.output_coef_, model.output_coef_)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"hidden_units": 0}, "hidden_units must be a positive integer; got 0"),
        ({"alpha": -1.0}, "alpha must be"),
        ({"learning_rate": 0}, "learning_rate must be a positive number"),
        ({"max_iter": 0}, "max_iter must be a positive integer"),
        ({"patience": 0}, "patience must be a positive integer"),
        ({"k": 0}, "k must be a positive integer"),
    ],
)
def test_bad_parameters_are_named(data, params, message):
    with pytest.raises(ValueError, match=message):
        RankNet(**params).fit(data.X, data.y, qid=data.qid)


def test_data_without_pairs_are_refused(data):
    with pytest.raises(ValueError, match="y must differ within some query"):
        RankNet().fit(data.X, np.ones(len(data)), qid=data.qid)
