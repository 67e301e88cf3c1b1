"""The choice of the penalty, on a validation set and by folds of queries."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold

from robirank import RoBiRank, RoBiRankCV, make_ranking
from robirank.metrics import ndcg

ALPHAS = [10.0, 0.1, 0.001]


@pytest.fixture(scope="module")
def parts():
    data = make_ranking(n_queries=90, n_docs=12, n_features=8, noise=0.5, random_state=2)
    numbers = np.unique(data.qid, return_inverse=True)[1]
    return [data.take(numbers % 3 == part) for part in range(3)]


def test_choice_on_a_validation_set(parts):
    train, vali, _ = parts
    model = RoBiRankCV(ALPHAS, tol=1e-7).fit(train.X, train.y, qid=train.qid, validation=vali)
    by_hand = []
    for alpha in ALPHAS:
        fit = RoBiRank(alpha, tol=1e-7).fit(train.X, train.y, qid=train.qid)
        by_hand.append(ndcg(vali.y, fit.predict(vali.X), vali.qid, k=10))
    assert_allclose(model.scores_[:, 0], by_hand, atol=5e-3)
    assert model.alpha_ == ALPHAS[int(np.argmax(model.scores_[:, 0]))]
    assert model.best_score_ == model.scores_.max()
    final = RoBiRank(model.alpha_, tol=1e-7).fit(train.X, train.y, qid=train.qid)
    assert_allclose(model.coef_, final.coef_, atol=1e-2)


def test_several_cut_offs_are_averaged(parts):
    train, vali, _ = parts
    fit = {"X": train.X, "y": train.y, "qid": train.qid, "validation": vali}
    one, three, both = (RoBiRankCV(ALPHAS, k=k).fit(**fit).scores_ for k in (1, 3, [1, 3]))
    assert_allclose(both, (one + three) / 2)


def test_choice_by_folds_of_queries(parts):
    train = parts[0]
    folds = GroupKFold(3)
    model = RoBiRankCV(ALPHAS, cv=folds, tol=1e-7).fit(train.X, train.y, qid=train.qid)
    by_hand = np.zeros((len(ALPHAS), 3))
    for f, (inside, outside) in enumerate(folds.split(train.X, train.y, train.qid)):
        for a, alpha in enumerate(ALPHAS):
            fit = RoBiRank(alpha, tol=1e-7)
            fit.fit(train.X[inside], train.y[inside], qid=train.qid[inside])
            by_hand[a, f] = fit.score(train.X[outside], train.y[outside], qid=train.qid[outside])
    assert_allclose(model.scores_, by_hand, atol=1e-2)
    assert model.alpha_ == ALPHAS[int(np.argmax(model.scores_.mean(axis=1)))]
    final = RoBiRank(model.alpha_, tol=1e-7).fit(train.X, train.y, qid=train.qid)
    assert_allclose(model.coef_, final.coef_, atol=1e-2)


def test_splitter_decides_what_is_trained_on(parts, monkeypatch):
    train = parts[0]
    seen = []
    original = RoBiRank._fit_queries

    def spy(self, X, y, queries, **weights):
        seen.append(len(queries))
        return original(self, X, y, queries, **weights)

    monkeypatch.setattr(RoBiRank, "_fit_queries", spy)
    splitter = GroupShuffleSplit(2, train_size=6, test_size=9, random_state=0)
    RoBiRankCV([1.0], cv=splitter).fit(train.X, train.y, qid=train.qid)
    assert seen == [6, 6, train.n_queries]


def test_noise_asks_for_a_penalty():
    # One weakly informative feature among sixty, twenty queries: without a penalty, noise wins.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 60))
    y = (X[:, 0] + 2.0 * rng.standard_normal(200) > 2.0).astype(int)
    qid = np.repeat(np.arange(20), 10)
    model = RoBiRankCV([1e-6, 1.0], cv=4, random_state=0, max_iter=2000).fit(X, y, qid=qid)
    assert model.alpha_ == 1.0


def test_of_equally_good_penalties_the_largest_is_taken():
    X = np.array([[1.0], [0.0]] * 6)
    y = np.array([1, 0] * 6)
    model = RoBiRankCV([0.1, 1.0, 0.01], cv=3).fit(X, y, qid=np.repeat(np.arange(6), 2))
    assert (model.scores_ == 1.0).all()
    assert model.alpha_ == 1.0


def test_seed_decides_the_folds(parts):
    train = parts[0]
    runs = [
        RoBiRankCV(ALPHAS, cv=3, random_state=seed).fit(train.X, train.y, qid=train.qid).scores_
        for seed in (0, 0, 1)
    ]
    assert (runs[0] == runs[1]).all()
    assert (runs[0] != runs[2]).any()


@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
@pytest.mark.parametrize(
    ("params", "fit", "message"),
    [
        ({"alphas": []}, {}, "alphas must be a non-empty sequence"),
        ({"alphas": [-1.0]}, {}, "alphas must be"),
        ({"cv": 1000}, {}, "cv must be between 2 and the number of queries"),
        ({"cv": KFold(7, shuffle=True, random_state=0)}, {}, "splits a query"),
        ({}, {"validation": 3}, "validation must be"),
        ({}, {"validation": (np.ones((2, 3)), [0, 1], [0, 0])}, "the 8 features"),
    ],
)
def test_bad_arguments_are_named(parts, params, fit, message):
    train = parts[0]
    with pytest.raises(ValueError, match=message):
        RoBiRankCV(**params).fit(train.X, train.y, qid=train.qid, **fit)
