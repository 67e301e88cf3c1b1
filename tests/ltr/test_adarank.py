"""AdaRank: rounds worked by hand, the slow algorithm, and its stopping rules."""

from itertools import groupby

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from robirank import make_ranking
from robirank.ltr.adarank import AdaRank
from robirank.metrics import average_precision, ndcg


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=25, n_docs=12, n_features=5, noise=0.3, random_state=1)


def slow_adarank(X, y, qid, n_rounds, *, metric, max_consecutive, signs):
    """The algorithm of the paper on `robirank.metrics`, without a stopping rule."""

    def measure(scores):
        if metric == "map":
            values = average_precision(y, scores, qid, empty="skip", per_query=True)
        else:
            values = ndcg(y, scores, qid, k=10, empty="skip", per_query=True)
        return values[~np.isnan(values)]

    P = np.full(len(measure(X[:, 0])), 1.0)
    coef = np.zeros(X.shape[1])
    features, weights = [], []
    for _ in range(n_rounds):
        P = P / P.sum()
        barred = set(features[-max_consecutive:])
        barred = barred if len(barred) == 1 and len(features) >= max_consecutive else set()
        best = (0.0, None, None)
        for f in sorted(set(range(X.shape[1])) - barred):
            for sign in signs:
                quality = P @ measure(sign * X[:, f])
                if quality > best[0] + 1e-12:
                    best = (quality, f, sign)
        E, f, sign = best
        alpha = sign * 0.5 * np.log((1 + E) / (1 - E))
        coef[f] += alpha
        features.append(f)
        weights.append(alpha)
        P = np.exp(-measure(X @ coef))
    return features, weights


# Three queries of a relevant and an irrelevant document. Feature 0 is right in two queries and
# wrong in the third, where its average precision is 1/2; feature 1 is the other way round.
HAND_X = np.array([[1, 0], [0, 0.1], [1, 0], [0, 0.1], [0, 0.1], [1, 0]])
HAND_Y = np.array([1, 0, 1, 0, 1, 0])
HAND_QID = np.array([1, 1, 2, 2, 3, 3])


def test_two_rounds_by_hand():
    model = AdaRank(2, metric="map", max_consecutive=1, signed=False)
    model.fit(HAND_X, HAND_Y, qid=HAND_QID)
    # Round 1: all queries weigh 1/3, so feature 0 has E = 5/6.
    first = 0.5 * np.log((1 + 5 / 6) / (1 - 5 / 6))
    # Round 2: queries weigh e⁻¹, e⁻¹, e^-½. Feature 0 sits out; feature 1 has 1/2, 1/2 and 1.
    P = np.exp([-1, -1, -0.5])
    E = P @ [0.5, 0.5, 1.0] / P.sum()
    second = 0.5 * np.log((1 + E) / (1 - E))
    assert model.features_.tolist() == [0, 1]
    assert_allclose(model.weights_, [first, second])
    assert_allclose(model.coef_, [first, second])
    assert_allclose(model.measure_curve_, [5 / 6, 5 / 6])


def test_a_feature_that_ranks_alone_is_taken_again_until_it_sits_out():
    model = AdaRank(7, metric="map", max_consecutive=3, signed=False)
    model.fit(HAND_X, HAND_Y, qid=HAND_QID)
    assert model.features_.tolist() == [0, 0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize("metric", ["ndcg", "map"])
@pytest.mark.parametrize("max_consecutive", [1, 2])
@pytest.mark.parametrize("signed", [True, False])
def test_agrees_with_the_slow_algorithm(data, metric, max_consecutive, signed):
    X = data.X.astype(float)
    features, weights = slow_adarank(
        X,
        data.y,
        data.qid,
        12,
        metric=metric,
        max_consecutive=max_consecutive,
        signs=(1.0, -1.0) if signed else (1.0,),
    )
    model = AdaRank(
        12, metric=metric, max_consecutive=max_consecutive, signed=signed, tol=np.inf
    ).fit(X, data.y, qid=data.qid)
    assert model.features_.tolist() == features
    assert_allclose(model.weights_, weights, rtol=1e-9)
    assert len(set(features)) > 1


def test_weights_of_a_feature_add_up(data):
    model = AdaRank(30, tol=np.inf).fit(data.X, data.y, qid=data.qid)
    for f in range(5):
        assert_allclose(model.coef_[f], model.weights_[model.features_ == f].sum())
    reached = ndcg(data.y, model.predict(data.X), data.qid, k=10, empty="skip")
    assert model.measure_curve_[-1] == pytest.approx(reached)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_perfect_feature_is_all_that_is_taken(sign):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 120)
    qid = np.repeat(np.arange(6), 20)
    X = np.column_stack([rng.standard_normal(120), sign * y, rng.standard_normal(120)])
    model = AdaRank().fit(X, y, qid=qid)
    assert model.n_iter_ == 1
    assert model.measure_curve_ == [pytest.approx(1.0)]
    assert np.sign(model.coef_).tolist() == [0, sign, 0]
    assert np.isfinite(model.coef_).all()


def test_features_as_they_are_unless_signed():
    y = np.tile([0, 1, 2], 4)
    X = -y[:, None].astype(float)
    assert AdaRank(signed=True).fit(X, y).score(X, y) == 1.0
    model = AdaRank(signed=False).fit(X, y)
    assert model.coef_[0] > 0


def test_no_feature_comes_more_often_in_a_row_than_allowed(data):
    model = AdaRank(60, tol=np.inf, max_consecutive=2).fit(data.X, data.y, qid=data.qid)
    runs = [len(list(run)) for _, run in groupby(model.features_)]
    assert max(runs) == 2
    alone = AdaRank(60, max_consecutive=4).fit(data.X[:, :1], data.y, qid=data.qid)
    assert alone.features_.tolist() == [0, 0, 0, 0]  # there is no other


@pytest.mark.parametrize("tol", [0.0001, 0.003])
def test_a_round_that_makes_it_worse_is_dropped_and_the_last(data, tol):
    free = AdaRank(60, tol=np.inf).fit(data.X, data.y, qid=data.qid)
    falls = -np.diff(free.measure_curve_)
    stop = int(np.argmax(falls >= tol)) + 1  # rounds before the first that is worse by tol
    assert falls.max() >= tol
    model = AdaRank(60, tol=tol).fit(data.X, data.y, qid=data.qid)
    assert model.n_iter_ == stop < 60
    assert_array_equal(model.features_, free.features_[:stop])
    assert model.measure_curve_ == free.measure_curve_[:stop]


def test_queries_without_relevant_documents_do_not_count(data):
    model = AdaRank(20, tol=np.inf).fit(data.X, data.y, qid=data.qid)
    noise = np.random.default_rng(0).standard_normal((50, 5))
    more = AdaRank(20, tol=np.inf).fit(
        np.vstack([data.X, noise]), np.r_[data.y, np.zeros(50)], qid=np.r_[data.qid, [999] * 50]
    )
    assert_array_equal(more.coef_, model.coef_)


def test_validation_keeps_the_best_round(data):
    other = make_ranking(n_queries=15, n_docs=12, n_features=5, noise=2.0, random_state=5)
    full = AdaRank(50, tol=np.inf).fit(data.X, data.y, qid=data.qid)
    model = AdaRank(50, tol=np.inf).fit(data.X, data.y, qid=data.qid, validation=other)
    kept = model.best_iter_
    assert len(model.validation_scores_) == model.n_iter_ == 50
    assert kept == int(np.argmax(model.validation_scores_)) + 1 < 50
    assert_array_equal(model.weights_, full.weights_[:kept])
    assert full.best_iter_ == full.n_iter_
    assert full.validation_scores_ == []
    assert_allclose(model.score(other.X, other.y, qid=other.qid), max(model.validation_scores_))


def test_sparse_validation_data(data):
    validation = (sp.csr_matrix(data.X), data.y, data.qid)
    dense = AdaRank(10).fit(data.X, data.y, qid=data.qid, validation=data)
    sparse = AdaRank(10).fit(data.X, data.y, qid=data.qid, validation=validation)
    assert_allclose(sparse.validation_scores_, dense.validation_scores_)


def test_threads_do_not_change_a_bit_of_a_large_fit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150_000, 3)).astype(np.float32)
    y = rng.integers(0, 3, len(X))
    fits = [
        AdaRank(4, metric="map", num_threads=n).fit(X, y, qid=np.arange(len(X)) // 50)
        for n in (1, 2, 3)
    ]
    for other in fits[1:]:
        assert_array_equal(other.weights_, fits[0].weights_)
        assert other.measure_curve_ == fits[0].measure_curve_


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be a positive integer; got 0"),
        ({"max_consecutive": 0}, "max_consecutive must be a positive integer; got 0"),
        ({"tol": -1.0}, "tol must be a number >= 0; got -1.0"),
        ({"tol": None}, "tol must be a number >= 0; got None"),
        ({"metric": "mrr"}, "metric must be one of"),
        ({"k": -1}, "k must be a positive integer or None; got -1"),
    ],
)
def test_bad_parameters_are_named(data, params, message):
    with pytest.raises(ValueError, match=message):
        AdaRank(**params).fit(data.X, data.y, qid=data.qid)
