"""POST /v1/rank: documents with features."""

import itertools

import numpy as np
import polars as pl
import pytest

import robirank as rr
from robirank.serve import Client, app


@pytest.fixture(scope="module")
def data():
    return rr.make_ranking(n_queries=20, n_features=4, random_state=0)


def ranked(model, **body):
    with Client(app(model, log_requests=False)) as client:
        return client.post("/v1/rank", body)


def test_documents_are_ranked_by_their_scores(data):
    model = rr.RoBiRank().fit(data)
    X = data.X[:6]
    documents = [{"id": f"d{k}", "features": x.tolist()} for k, x in enumerate(X)]
    told = ranked(model, documents=documents, explain=True).json()["documents"]
    scores = model.predict(X)
    order = np.argsort(-scores, kind="stable")
    assert [one["document"] for one in told] == order.tolist()
    assert [one["id"] for one in told] == [f"d{k}" for k in order]
    assert [one["score"] for one in told] == pytest.approx(scores[order].tolist())
    for above, below in itertools.pairwise(told):
        effects = [contrast["effect"] for contrast in above["above_next"]]
        assert sum(effects) == pytest.approx(above["score"] - below["score"])
    assert "above_next" not in told[-1]


def test_features_by_name_need_not_be_in_order():
    frame = pl.DataFrame({"price": [1.0, 2.0, 3.0], "age": [3.0, 1.0, 2.0]})
    model = rr.RoBiRank().fit(frame, [0, 1, 2], qid=[1, 1, 1])
    body = [{"features": {"age": 3.0, "price": 1.0}}, {"features": {"price": 3.0}}]
    told = ranked(model, documents=body, missing=2.0).json()["documents"]
    scores = dict(zip([0, 2], model.predict(frame)[[0, 2]], strict=True))
    assert told[0]["score"] == pytest.approx(scores[2])
    problem = ranked(model, documents=body).json()
    assert (problem["code"], problem["field"]) == ("bad_value", "$.documents[1].features")
    assert "'age'" in problem["detail"]
    problem = ranked(model, documents=[{"features": {"cost": 3.0}}]).json()
    assert "'cost'" in problem["detail"]


def test_wrong_documents(data):
    model = rr.RoBiRank().fit(data)
    for features in ([1.0], [1e300] * 4):
        response = ranked(model, documents=[{"features": features}])
        assert (response.status, response.json()["field"]) == (422, "$.documents[0].features")
    assert ranked(model, documents=[]).status == 422


def test_trees_are_ranked_and_explained(data):
    pytest.importorskip("lightgbm")
    model = rr.RoBiRankBooster(n_estimators=5, random_state=0).fit(data)
    documents = [{"features": x.tolist()} for x in data.X[:4]]
    told = ranked(model, documents=documents, explain=True).json()["documents"]
    assert [one["score"] for one in told] == pytest.approx(np.sort(model.predict(data.X[:4]))[::-1])


def test_a_ranker_recommends_nothing_and_says_what_it_has(data):
    with Client(app(rr.RoBiRank().fit(data), log_requests=False)) as client:
        problem = client.post("/v1/recommend", {}).json()
        facts = client.get("/v1/model").json()
    assert (problem["code"], "POST /v1/rank" in problem["detail"]) == ("not_for_this_model", True)
    assert (facts["kind"], facts["features"]) == ("ranker", ["f1", "f2", "f3", "f4"])
