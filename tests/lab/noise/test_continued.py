"""From RoBiRank's solution to Type-II's: linear models, trees, factors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import robirank as rr
from robirank_lab.latent.peers import BayesianPersonalizedRanking
from robirank_lab.noise.continued import FactorsLogToTypeTwo, LogToTypeTwo, TreesLogToTypeTwo
from robirank_lab.noise.methods import Logistic


@pytest.fixture(scope="module")
def lists():
    whole = rr.make_ranking(60, n_docs=12, n_features=5, n_grades=3, random_state=0)
    held_out = whole.queries.codes() >= 40
    return whole.take(~held_out), whole.take(held_out)


def ndcg(model, data):
    return rr.metrics.ndcg(data.y, model.predict(data.X), data.qid, k=10)


def test_the_kept_mixture_is_the_best_on_validation(lists):
    train, vali = lists
    model = LogToTypeTwo(1e-2).fit(train.X, train.y, qid=train.qid, validation=vali)
    start = rr.RoBiRank(1e-2).fit(train)
    assert ndcg(model, vali) >= ndcg(start, vali)
    if model.t_ == 0:
        assert_allclose(model.coef_, start.coef_)


def test_every_mixture_lowers_its_own_objective(lists):
    train, _ = lists
    w = rr.RoBiRank(1e-2, tol=1e-8).fit(train).coef_
    model = LogToTypeTwo(1e-2)

    def objective(w, t):
        scores = train.X @ w
        log, two = (
            rr.listwise_loss(scores, train.y, train.qid, rho=rho).loss for rho in ("log", "type2")
        )
        return (1 - t) * log + t * two + 0.5e-2 * w @ w

    assert_allclose(model.descend(w, train.X, train.y, train.qid, 0.0), w, atol=0.02)
    for t in (0.5, 1.0):
        after = model.descend(w, train.X, train.y, train.qid, t)
        assert objective(after, t) < objective(w, t)
        steps = 1e-4 * np.eye(len(w))
        slopes = [(objective(after + s, t) - objective(after - s, t)) / 2e-4 for s in steps]
        assert_allclose(slopes, 0, atol=1e-4)


def test_trees_begin_with_those_of_robirank(lists):
    train, vali = lists
    options = {"learning_rate": 0.1, "max_leaf_nodes": 4, "patience": 5, "random_state": 0}
    model = TreesLogToTypeTwo(30, **options).fit(train.X, train.y, qid=train.qid, validation=vali)
    log = rr.RoBiRankBooster(30, **options).fit(train, validation=vali)
    assert ndcg(model, vali) >= ndcg(log, vali) - 1e-12
    assert model.t_ in (0.0, 0.5, 1.0)
    begun = model.booster_.predict(vali.X, num_iteration=1)
    first = rr.RoBiRankBooster(1, **{**options, "patience": None}).fit(train).predict(vali.X)
    assert_allclose(np.argsort(begun), np.argsort(first))


def test_factors_go_on_with_the_other_loss():
    data = rr.make_interactions(80, 60, 1200, random_state=0)
    options = {"factors": 4, "iterations": 5, "regularization": 0.2, "random_state": 0}
    model = FactorsLogToTypeTwo(**options).fit(data)
    log = rr.LatentRoBiRank(**options, solver="exact").fit(data, show_progress=False)
    assert (model.rho, model.regularization) == ("log", 0.2)
    assert (model.item_factors != log.item_factors).any()
    assert np.corrcoef(model.item_factors.ravel(), log.item_factors.ravel())[0, 1] > 0.5


def test_logistic_scores_the_relevant_above_the_others(lists):
    train, vali = lists
    assert ndcg(Logistic().fit(train.X, train.y, qid=train.qid), vali) > 0.6


def test_bpr_of_implicit_is_a_factor_model():
    pytest.importorskip("implicit")
    data = rr.make_interactions(80, 60, 1200, random_state=0)
    train, test = rr.split_ratio(data, 0.2)
    model, again = (
        BayesianPersonalizedRanking(4, epochs=20, random_state=0, num_threads=1).fit(train)
        for _ in range(2)
    )
    assert_array_equal(model.item_factors, again.item_factors)
    assert rr.evaluate(model, train=train, test=test, k=10)["ndcg@10"] > 0.05
