"""RankBoost: rounds worked by hand, the pairs that are never visited, and what stops it."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from robirank import make_ranking
from robirank._queries import group_queries
from robirank.ltr.rankboost import ExponentialPairs, RankBoost
from robirank.metrics import ndcg


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=20, n_docs=12, n_features=5, noise=0.3, random_state=1)


def all_pairs(y, qid):
    """Rows (better, worse) of every pair, one by one."""
    return np.array(
        [(i, j) for i in range(len(y)) for j in range(len(y)) if qid[i] == qid[j] and y[i] > y[j]]
    ).T


def pair_weights(y, qid, balance):
    better, _ = all_pairs(y, qid)
    if balance == "pairs":
        return np.ones(len(better))
    return np.array([1.0 / (qid[better] == qid[i]).sum() for i in better])


def slow_rankboost(X, y, qid, thresholds, n_rounds, balance="pairs"):
    """The algorithm of the paper with a weight for every pair."""
    better, worse = all_pairs(y, qid)
    D = pair_weights(y, qid, balance)
    D = D / D.sum()
    rounds = []
    for _ in range(n_rounds):
        best = (0.0, None)
        for f in range(X.shape[1]):
            for theta in thresholds[f]:
                h = (X[:, f] > theta).astype(float)
                r = D @ (h[better] - h[worse])
                if abs(r) > abs(best[0]) + 1e-12:
                    best = (r, (f, theta, h))
        r, (f, theta, h) = best
        alpha = 0.5 * np.log((1 + r) / (1 - r))
        D = D * np.exp(alpha * (h[worse] - h[better]))
        Z = D.sum()
        D = D / Z
        rounds.append((f, theta, alpha, Z))
    return rounds


# Documents A, B are relevant, C, D, E are not: six pairs.
HAND_X = np.array([[4.0, 0.0], [2.0, 0.0], [3.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
HAND_Y = np.array([1, 1, 0, 0, 0])


def test_first_round_by_hand():
    # Feature 0 > 1 lifts A, B and C: right for (A, D), (A, E), (B, D), (B, E), a tie for (A, C) and
    # (B, C), so r = 4/6. No other threshold does as well: > 3 has 3/6, > 2 has 1/6, > 0 has 2/6;
    # feature 1 lifts C, which is wrong for two pairs.
    model = RankBoost(1, n_thresholds=None).fit(HAND_X, HAND_Y)
    assert model.features_.tolist() == [0]
    assert model.thresholds_.tolist() == [1.0]
    assert_allclose(model.weights_, [0.5 * np.log(5)])
    assert_allclose(model.loss_curve_, [1.0, 4 / 6 / np.sqrt(5) + 2 / 6])
    assert_allclose(model.predict(HAND_X), 0.5 * np.log(5) * np.array([1, 1, 1, 0, 0]))


def test_second_round_by_hand():
    # What is left is mostly (A, C) and (B, C), which feature 1 > 0 gets wrong: r < 0. A weight of
    # u = 1/√5 stands on the other four pairs.
    model = RankBoost(2, n_thresholds=None).fit(HAND_X, HAND_Y)
    r = -2 / (2 + 4 / np.sqrt(5))
    assert model.features_.tolist() == [0, 1]
    assert model.thresholds_.tolist() == [1.0, 0.0]
    assert_allclose(model.weights_[1], 0.5 * np.log((1 + r) / (1 - r)))
    assert (model.predict(HAND_X)[[0, 1]] > model.predict(HAND_X)[2]).all()


@pytest.mark.parametrize("balance", ["pairs", "queries"])
@pytest.mark.parametrize("seed", range(5))
def test_potential_is_that_of_the_pair_distribution(balance, seed):
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat(np.arange(4), [1, 5, 9, 12]))
    y = rng.integers(0, 4, len(qid)).astype(float)
    f = 3 * rng.standard_normal(len(qid))
    better, worse = all_pairs(y, qid)
    weight = pair_weights(y, qid, balance) * np.exp(f[worse] - f[better])
    potential = np.zeros(len(qid))
    np.add.at(potential, better, weight)
    np.subtract.at(potential, worse, weight)

    queries = group_queries(qid, len(qid))
    loss, slope = ExponentialPairs(y, queries, balance=balance)(f)
    assert_allclose(loss, weight.sum(), rtol=1e-12)
    assert_allclose(-slope, potential, rtol=1e-10, atol=1e-12 * loss)


def test_potential_keeps_its_digits_when_scores_are_large():
    y, f = np.array([2.0, 1.0, 0.0]), np.array([0.5, -0.25, 0.125])
    pairs = ExponentialPairs(y, group_queries(None, 3))
    near, far = pairs(f), pairs(f + 2048.0)
    assert_array_equal(near[1], far[1])
    assert near[0] == far[0]


@pytest.mark.parametrize("balance", ["pairs", "queries"])
def test_every_value_as_threshold_agrees_with_the_slow_algorithm(balance):
    data = make_ranking(n_queries=5, n_docs=60, n_features=3, noise=0.5, random_state=2)
    X = data.X.astype(float)
    thresholds = [np.unique(X[:, f])[:-1] for f in range(3)]
    assert len(thresholds[0]) > 256  # more than fit into the small codes
    rounds = slow_rankboost(X, data.y, data.qid, thresholds, 6, balance)
    model = RankBoost(6, n_thresholds=None, balance=balance).fit(X, data.y, qid=data.qid)
    assert model.features_.tolist() == [r[0] for r in rounds]
    assert_array_equal(model.thresholds_, [r[1] for r in rounds])
    assert_allclose(model.weights_, [r[2] for r in rounds], rtol=1e-9)
    assert_allclose(model.loss_curve_[1:], np.cumprod([r[3] for r in rounds]), rtol=1e-9)


def test_few_thresholds_agree_with_the_slow_algorithm(data):
    X = data.X.astype(float)
    thresholds = [np.linspace(X[:, f].min(), X[:, f].max(), 8)[:-1] for f in range(5)]
    rounds = slow_rankboost(X, data.y, data.qid, thresholds, 12)
    model = RankBoost(12, n_thresholds=7).fit(X, data.y, qid=data.qid)
    assert model.features_.tolist() == [r[0] for r in rounds]
    assert_allclose(model.thresholds_, [r[1] for r in rounds], rtol=1e-9)
    assert_allclose(model.weights_, [r[2] for r in rounds], rtol=1e-9)
    assert len(set(model.features_)) > 1


def test_loss_is_the_exponential_of_margins_and_falls_in_every_round(data):
    model = RankBoost(40).fit(data.X, data.y, qid=data.qid)
    better, worse = all_pairs(data.y, data.qid)
    scores = model.predict(data.X)
    assert_allclose(model.loss_curve_[-1], np.exp(scores[worse] - scores[better]).mean())
    r = np.tanh(model.weights_)
    for (before, after), bound in zip(pairwise(model.loss_curve_), np.sqrt(1 - r**2), strict=True):
        assert after <= before * bound * (1 + 1e-12)
        assert after < before


def test_prediction_is_the_sum_of_the_weak_rankers(data):
    model = RankBoost(60, n_thresholds=4).fit(data.X, data.y, qid=data.qid)
    assert len(np.unique(model.thresholds_)) < 60  # some rankers come again
    naive = sum(
        w * (data.X[:, f] > t)
        for f, t, w in zip(model.features_, model.thresholds_, model.weights_, strict=True)
    )
    assert_allclose(model.predict(data.X), naive, atol=1e-12)


def test_one_perfect_threshold_is_enough():
    X = np.array([[0.0, 5.0], [0.0, 1.0], [1.0, 3.0], [1.0, 0.0]])
    model = RankBoost().fit(X, [0, 0, 1, 1])
    assert model.n_iter_ == 1
    assert model.features_.tolist() == [0]
    assert np.isfinite(model.weights_).all()
    assert model.score(X, [0, 0, 1, 1]) == 1.0


def test_smallest_value_is_a_threshold():
    # Most features of documents are 0 for those that lack something.
    X = np.array([[0.0], [0.001], [1.0], [0.0], [0.002]])
    y = (X[:, 0] > 0).astype(int)
    model = RankBoost(n_thresholds=3).fit(X, y)
    assert model.thresholds_.tolist() == [0.0]
    assert model.score(X, y) == 1.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_reaches_the_perfect_ranking_of_graded_documents(sign):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 200)
    qid = np.repeat(np.arange(10), 20)
    X = np.column_stack([rng.standard_normal(200), sign * y])
    model = RankBoost().fit(X, y, qid=qid)
    assert model.score(X, y, qid=qid) == pytest.approx(1.0)
    main = model.weights_[model.features_ == 1]
    assert (np.sign(main) == sign).all()


def test_rounds_end_where_nothing_is_left_to_learn():
    # As many grades as documents and a feature that has them all: margins grow without bound.
    y = np.arange(20.0)
    model = RankBoost(100_000, n_thresholds=None).fit(y[:, None], y)
    assert model.n_iter_ < 100_000
    assert np.isfinite(model.loss_curve_).all()
    assert np.isfinite(model.weights_).all()
    constant = RankBoost().fit(np.ones((4, 2)), [0, 1, 0, 1])
    assert constant.n_iter_ == 0
    assert constant.predict(np.ones((3, 2))).tolist() == [0, 0, 0]
    without_pairs = RankBoost().fit(np.arange(3.0)[:, None], [1, 1, 1])
    assert without_pairs.n_iter_ == 0


def test_only_the_order_of_values_matters_when_all_are_thresholds(data):
    plain = RankBoost(20, n_thresholds=None).fit(data.X, data.y, qid=data.qid)
    bent = RankBoost(20, n_thresholds=None).fit(np.exp(data.X), data.y, qid=data.qid)
    assert_allclose(bent.predict(np.exp(data.X)), plain.predict(data.X), atol=1e-9)


def test_balance_gives_every_query_the_same_weight():
    # The long query wants feature 0, two short ones feature 1; pairs are 16 against 2.
    X = np.zeros((12, 2))
    y = np.r_[np.repeat([1, 0], 4), 1, 0, 1, 0]
    qid = np.r_[np.zeros(8), 1, 1, 2, 2]
    X[:4, 0] = 1.0
    X[[8, 10], 1] = 1.0
    assert RankBoost(1).fit(X, y, qid=qid).features_.tolist() == [0]
    assert RankBoost(1, balance="queries").fit(X, y, qid=qid).features_.tolist() == [1]


def test_validation_keeps_the_best_round(data):
    other = make_ranking(n_queries=15, n_docs=12, n_features=5, noise=2.0, random_state=5)
    full = RankBoost(60).fit(data.X, data.y, qid=data.qid)
    model = RankBoost(60).fit(data.X, data.y, qid=data.qid, validation=other)
    kept = model.best_iter_
    assert len(model.validation_scores_) == model.n_iter_ == 60
    assert kept == int(np.argmax(model.validation_scores_)) + 1 < 60
    assert_array_equal(model.weights_, full.weights_[:kept])
    assert full.best_iter_ == full.n_iter_
    assert full.validation_scores_ == []
    assert_allclose(model.score(other.X, other.y, qid=other.qid), max(model.validation_scores_))


def test_validation_scores_are_those_of_the_model_in_its_convention(data):
    # Every threshold is a value that occurs, so it matters on which side of it the value falls.
    model = RankBoost(5, n_thresholds=None, k=3, convention="letor")
    model.fit(data.X, data.y, qid=data.qid, validation=(sp.csr_matrix(data.X), data.y, data.qid))
    full = RankBoost(5, n_thresholds=None).fit(data.X, data.y, qid=data.qid)
    expected = ndcg(data.y, full.predict(data.X), data.qid, k=3, convention="letor")
    assert model.validation_scores_[-1] == pytest.approx(expected)


def test_threads_do_not_change_a_bit_of_a_large_fit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120_000, 20)).astype(np.float32)
    y = rng.integers(0, 3, len(X))
    fits = [RankBoost(4, num_threads=n).fit(X, y, qid=np.arange(len(X)) // 40) for n in (1, 2, 3)]
    for other in fits[1:]:
        assert_array_equal(other.weights_, fits[0].weights_)
        assert_array_equal(other.thresholds_, fits[0].thresholds_)
        assert other.loss_curve_ == fits[0].loss_curve_


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be a positive integer; got 0"),
        ({"n_thresholds": 2.5}, "n_thresholds must be a positive integer or None; got 2.5"),
        ({"balance": "lists"}, r"balance must be one of \['pairs', 'queries'\]; got 'lists'"),
        ({"k": 0}, "k must be a positive integer or None; got 0"),
        ({"num_threads": -1}, r"num_threads must be 0 \(all cores\) or more; got -1"),
    ],
)
def test_bad_parameters_are_named(data, params, message):
    with pytest.raises(ValueError, match=message):
        RankBoost(**params).fit(data.X, data.y, qid=data.qid)
