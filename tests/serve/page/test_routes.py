"""The routes of the page: users, takers, places, the map, and two models."""

import numpy as np
import pytest
from scipy.stats import spearmanr

import robirank as rr
from robirank.serve import Client, app
from serve.shop import BRANDS, ITEMS, N_ITEMS, N_USERS, fitted, ids, plays, shop, table


def told(response):
    assert response.status == 200, response.content
    return response.json()


def test_users_are_found_by_a_part_of_their_id(client):
    found = told(client.get("/v1/users", {"search": "u1", "n": 20}))["users"]
    assert [one["user"] for one in found] == [f"u1{n}" for n in range(10)]
    assert found[3]["number"] == len(plays().matrix[13].indices)
    assert told(client.get("/v1/users", {"search": "u07"}))["users"][0]["user"] == "u07"


def test_without_a_text_some_users_of_all_are_told(client):
    some = [one["user"] for one in told(client.get("/v1/users", {"n": 3}))["users"]]
    assert some == ["u00", "u39", f"u{N_USERS - 1}"]


def test_a_user_is_told_with_what_the_user_has(client):
    user = told(client.get("/v1/users/u07"))
    has = {ITEMS[i] for i in plays().matrix[7].indices}
    assert user["number"] == len(has)
    assert {one["item"] for one in user["items"]} <= has
    taken = [one["taken"] for one in user["items"]]
    assert taken == sorted(taken, reverse=True)
    assert client.get("/v1/users/nobody").json()["code"] == "unknown_user"


def test_who_takes_an_item(client):
    matrix = plays().matrix.toarray() > 0
    item = int(np.argmax(matrix.sum(axis=0)))
    answer = told(client.get(f"/v1/takers/{ITEMS[item]}", {"n": 5}))
    rows = np.flatnonzero(matrix[:, item])
    assert answer["number"] == len(rows)
    assert answer["users"] == [f"u{row:02d}" for row in rows[:5]]
    for one in answer["also"]:
        other = ITEMS.index(one["item"])
        assert one["share"] == pytest.approx(matrix[rows, other].mean())
        assert one["usual"] == pytest.approx(matrix[:, other].mean())
        assert one["share"] > one["usual"]


def test_an_item_stands_where_a_list_of_all_has_it(client):
    everything = fitted().recommend("u07", plays(), N=N_ITEMS, filter_already_liked_items=False)
    for place in (0, 17, N_ITEMS - 1):
        item = everything[0][place]
        answer = told(client.post("/v1/standing", {"item": item, "question": {"user": "u07"}}))
        assert (answer["place"], answer["of"]) == (place + 1, N_ITEMS)
        assert answer["score"] == pytest.approx(everything[1][place], rel=1e-5)


def test_items_by_position_and_by_id(client):
    answer = told(client.post("/v1/places", {"positions": [3, 9_999], "items": ["p05", "gone"]}))
    assert [(one["position"], one["item"]) for one in answer["items"]] == [(3, "p03"), (5, "p05")]
    assert answer["items"][0]["name"] == "Product 3"


def test_the_map_has_a_point_for_each_item(client):
    answer = told(client.get("/v1/map"))
    points = np.array([answer["x"], answer["y"]], float).T
    V = np.asarray(fitted().item_factors, np.float64)
    W = V / np.linalg.norm(V, axis=1, keepdims=True)
    W -= W.mean(axis=0)
    expected = W @ np.linalg.svd(W)[2][:2].T
    # The same distances, whatever the signs and the scale.
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    wanted = np.linalg.norm(expected[:, None] - expected, axis=2)
    scale = wanted.max() / apart.max()
    np.testing.assert_allclose(apart * scale, wanted, atol=1e-4 * wanted.max())
    assert answer["kind"] == "directions"
    assert answer["taken"] == fitted().item_counts_.tolist()
    assert answer["columns"] == ["id", "stock", "brand"]


def test_groups_by_a_column(client):
    answer = told(client.get("/v1/map/groups", {"column": "brand"}))
    assert (answer["kind"], answer["labels"], answer["counts"]) == ("values", BRANDS, [20, 20, 20])
    assert answer["groups"] == [n % 3 for n in range(N_ITEMS)]
    assert client.get("/v1/map/groups", {"column": "price"}).json()["field"] == "$.column"


def test_groups_of_numbers_are_ranges_and_missing_values_have_none():
    price = np.arange(N_ITEMS, dtype=float)
    price[7] = np.nan
    with shop(items=table() | {"price": price}) as client:
        answer = told(client.get("/v1/map/groups", {"column": "price"}))
    groups = np.array(answer["groups"])
    assert answer["kind"] == "ranges"
    assert len(answer["labels"]) == 7
    assert groups[7] == -1
    assert (np.diff(np.delete(groups, 7)) >= 0).all()
    assert sum(answer["counts"]) == N_ITEMS - 1
    assert answer["labels"][0].startswith("0 – ")


def test_two_models_answer_as_each_alone(client):
    answer = told(client.post("/v1/compare", {"user": "u07", "n": 5}))
    assert ids(answer["here"]) == fitted().recommend("u07", plays(), N=5)[0].tolist()
    assert ids(answer["other"]) == fitted(seed=1).recommend("u07", plays(), N=5)[0].tolist()
    models = told(client.get("/v1/compare"))
    assert models["here"]["model"] != models["other"]["model"]


def test_agreement_is_what_the_lists_say(client):
    answer = told(client.get("/v1/agreement", {"users": 500, "n": 5}))
    overlaps, correlations = [], []
    lengths = np.diff(plays().matrix.indptr)
    listed = plays().users[:][lengths < N_ITEMS]  # for who has everything there is no list
    for user in listed:
        lists = [set(fitted(seed).recommend(user, plays(), N=5)[0]) for seed in (0, 1)]
        overlaps.append(len(lists[0] & lists[1]))
        every = [
            dict(zip(*m.recommend(user, N=N_ITEMS, filter_already_liked_items=False), strict=True))
            for m in (fitted(), fitted(seed=1))
        ]
        scores = [[each[item] for item in ITEMS] for each in every]
        correlations.append(spearmanr(*scores).statistic)
    assert answer["users"] == len(listed) < N_USERS
    assert answer["overlap"] == pytest.approx(np.mean(overlaps) / 5)
    assert answer["overlaps"] == np.bincount(overlaps, minlength=6).tolist()
    assert answer["rank_correlation"] == pytest.approx(np.mean(correlations), abs=1e-6)
    assert answer["least"][0]["overlap"] == min(overlaps) / 5


def test_a_model_agrees_with_itself():
    with shop(compare=fitted()) as client:
        answer = told(client.get("/v1/agreement", {"n": 5}))
    assert (answer["overlap"], answer["rank_correlation"]) == (1.0, pytest.approx(1.0))


def test_one_model_alone_is_not_compared():
    with shop() as client:
        assert "--compare" in client.get("/v1/compare").json()["detail"]
        assert client.get("/v1/agreement").status == 404


def test_a_model_that_knows_no_likeness():
    with Client(app(rr.Popularity().fit(plays()), log_requests=False)) as client:
        assert told(client.get("/v1/items/p03"))["similar"] == []
        assert client.post("/v1/similar", {"item": "p03"}).json()["code"] == "not_for_this_model"


def test_nobody_asked_for_and_ids_that_are_numbers():
    table_of_numbers = rr.make_interactions(30, 20, 200, random_state=0)
    model = rr.LatentRoBiRank(2, iterations=1, random_state=0, regularization=0.3)
    model.fit(table_of_numbers, show_progress=False)
    with Client(app(model, train=table_of_numbers, log_requests=False)) as client:
        assert told(client.post("/v1/recommend", {"n": 3}))["basis"] == "popular"
