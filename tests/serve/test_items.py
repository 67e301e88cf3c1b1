"""Routes about items, and those about the model."""

import pytest

from serve.shop import fitted, ids, shop


@pytest.fixture(scope="module")
def client():
    with shop() as client:
        yield client


def test_similar_items_are_those_of_the_model(client):
    best, scores = fitted().similar_items("p05", N=4)
    answer = client.post("/v1/similar", {"item": "p05", "n": 3}).json()
    assert ids(answer) == best[1:].tolist()
    assert [i["score"] for i in answer["items"]] == pytest.approx(scores[1:].tolist())
    left = client.post("/v1/similar", {"item": "p05", "n": 2, "exclude": [best[1]]}).json()
    assert ids(left) == best[2:4].tolist()
    only = client.post("/v1/similar", {"item": "p05", "only": [best[3], best[2]]}).json()
    assert ids(only) == best[2:4].tolist()


def test_what_is_known_of_an_item(client):
    item = client.get("/v1/items/p05", {"n": 2}).json()
    assert item["attributes"] == {"id": "p05", "stock": 1, "brand": "Cord"}
    assert item["taken"] == fitted().item_counts_[5]
    assert (item["name"], len(item["similar"])) == ("Product 5", 2)
    problem = client.get("/v1/items/a/b?c").json()
    assert (problem["code"], problem["field"]) == ("unknown_item", "$.id")


@pytest.mark.parametrize(
    ("text", "first", "how"),
    [
        ("p07", "p07", "id"),
        ("product 7", "p07", "name"),
        ("PRODUCT 59", "p59", "name"),
        ("oduct 33", "p33", "part"),
        ("prodct 41", "p41", "typo"),
    ],
)
def test_items_are_found(client, text, first, how):
    found = client.get("/v1/items", {"search": text}).json()["items"]
    assert (found[0]["item"], found[0]["how"]) == (first, how)


def test_a_beginning_finds_popular_items_first(client):
    found = client.get("/v1/items", {"search": "product 1", "n": 5}).json()["items"]
    assert found[0]["item"] == "p01"
    taken = [one["taken"] for one in found[1:]]
    assert {one["how"] for one in found[1:]} == {"prefix"}
    assert taken == sorted(taken, reverse=True)
    assert client.get("/v1/items", {"search": "zzzzz"}).json()["items"] == []
    assert client.get("/v1/items").json()["items"] == []


def test_parameters_are_checked(client):
    for query, field in (({"n": "many"}, "$.n"), ({"n": "0"}, "$.n"), ({"seach": "x"}, "$")):
        response = client.get("/v1/items", query)
        assert (response.status, response.json()["field"]) == (422, field)


def test_the_model_is_described(client):
    facts = client.get("/v1/model").json()
    assert (facts["kind"], facts["users"], facts["items"], facts["factors"]) == (
        "recommender",
        80,
        60,
        6,
    )
    assert facts["figures"]["regularization_"] == 0.3
    assert set(facts["columns"]) == {"id", "stock", "brand"}
    assert client.get("/readyz").json() == {"status": "ok", "model": facts["model"]}
    assert client.get("/healthz").json() == {"status": "ok"}


def test_figures_count_what_happens(client):
    client.post("/v1/recommend", {"user": "nobody"})
    client.post("/v1/recommend", {"user": "u01", "rules": {"only": ["p01"]}, "n": 5})
    lines = client.get("/metrics").content.decode().splitlines()
    figures = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert int(figures['robirank_requests_total{route="/v1/recommend",status="404"}']) >= 1
    assert int(figures["robirank_unknown_ids_total"]) >= 1
    assert int(figures["robirank_short_answers_total"]) >= 1
    assert int(figures['robirank_batch_size_count{lane="quick"}']) >= 2
    assert float(figures["robirank_memory_bytes"]) > 1e6


def test_a_recommender_ranks_no_documents(client):
    response = client.post("/v1/rank", {"documents": [{"features": [1.0]}]})
    assert (response.status, response.json()["code"]) == (404, "not_for_this_model")
