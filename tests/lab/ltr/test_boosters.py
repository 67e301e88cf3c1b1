"""Other boosters in the comparison: same settings, same rule to stop, skipped where absent."""

from importlib.util import find_spec

import numpy as np
import pytest

from robirank import RoBiRankBooster, make_ranking
from robirank.metrics import ndcg
from robirank_lab.ltr import methods
from robirank_lab.ltr.methods import all_methods, left_out, whole_field

pytest.importorskip("lightgbm")

BOOSTERS = (
    "RoBiRankBooster",
    "LightGBM lambdarank",
    "LightGBM rank_xendcg",
    "XGBoost rank:ndcg",
    "CatBoost YetiRank",
)


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=120, n_docs=15, n_features=6, noise=0.2, random_state=0)


def test_all_search_the_same_settings():
    assert len({str(all_methods()[name].grid) for name in BOOSTERS}) == 1
    assert all_methods()["RoBiRankBooster"].estimator is RoBiRankBooster


@pytest.mark.parametrize("name", BOOSTERS)
def test_learns_and_stops_on_validation(name, data):
    method = all_methods()[name]
    if method.missing:
        pytest.skip(f"{method.missing} is not installed: pip install {method.missing}")
    number = data.queries.codes()
    # Rows of a query need not stand side by side.
    shuffle = np.random.default_rng(0).permutation(len(data))
    mixed, number = data.take(shuffle), number[shuffle]
    train, vali = mixed.take(number < 80), mixed.take(number >= 80)
    model = method.make({"n_estimators": 60, "patience": 5, "max_leaf_nodes": 8}, seed=0)
    model.fit(train.X, train.y, qid=train.qid, validation=vali)
    assert 1 <= model.best_iter_ <= 60
    assert ndcg(vali.y, model.predict(vali.X), vali.qid, k=10) > 0.75
    assert ndcg(vali.y, np.zeros(len(vali)), vali.qid, k=10) < 0.6
    whole = method.make({"n_estimators": 7}, seed=0).fit(train.X, train.y, qid=train.qid)
    assert whole.best_iter_ == 7


def test_those_without_their_package_are_left_out_with_a_note(monkeypatch):
    have = {"catboost": None}
    monkeypatch.setattr(methods, "find_spec", lambda name: have.get(name, find_spec("numpy")))
    assert left_out() == {"CatBoost YetiRank": "catboost"}
    assert "CatBoost YetiRank" not in whole_field()
    assert "XGBoost rank:ndcg" in whole_field()
