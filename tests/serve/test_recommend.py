"""POST /v1/recommend: what `recommend` and `recommend_for` give, with ids, rules and reasons."""

import polars as pl
import pytest

import robirank as rr
from robirank.serve import Client, app
from serve.shop import ITEMS, N_ITEMS, fitted, ids, plays, shop, table


@pytest.fixture(scope="module")
def client():
    with shop() as client:
        yield client


def ask(client, **question):
    response = client.post("/v1/recommend", question)
    assert response.status == 200, response.content
    return response.json()


def test_a_user_gets_what_the_model_recommends(client):
    best, scores = fitted().recommend("u07", plays(), N=5)
    answer = ask(client, user="u07", n=5)
    assert ids(answer) == best.tolist()
    assert [item["score"] for item in answer["items"]] == pytest.approx(scores.tolist(), rel=1e-6)
    assert (answer["basis"], answer["items"][0]["name"]) == ("row", f"Product {int(best[0][1:])}")


def test_seen_items_come_back_where_they_are_asked_for(client):
    best = fitted().recommend("u07", plays(), N=5, filter_already_liked_items=False)[0]
    assert ids(ask(client, user="u07", n=5, seen="show")) == best.tolist()


def test_a_basket_is_folded_in(client):
    best = fitted().recommend_for(["p03", "p10"], N=4)[0]
    answer = ask(client, items=["p03", "p10"], n=4)
    assert (ids(answer), answer["basis"]) == (best.tolist(), "fold-in")


def test_a_user_with_further_items_is_folded_in_from_all(client):
    has = plays().items[plays().matrix[7].indices].tolist()
    best = fitted().recommend_for([*has, "p03"], N=4)[0]
    assert ids(ask(client, user="u07", items=["p03"], n=4)) == best.tolist()


def test_someone_unknown_gets_popular_items(client):
    answer = ask(client, n=3)
    counts = fitted().item_counts_
    assert answer["basis"] == "popular"
    assert [item["score"] for item in answer["items"]] == sorted(counts.tolist())[:-4:-1]


def test_rules_of_a_request(client):
    rules = rr.Rules(
        table(),
        allow=pl.col("stock") > 1,
        deny={"brand": "Acme"},
        at_most={"brand": 2},
        pin={2: "p02"},
    )
    best = fitted().recommend("u07", plays(), N=5, rules=rules)[0].tolist()
    asked = {
        "where": "stock > 1",
        "deny": {"brand": "Acme"},
        "at_most": {"brand": 2},
        "pin": {"2": "p02"},
    }
    answer = ask(client, user="u07", n=5, rules=asked)
    assert ids(answer) == [item for item in best if item is not None]
    assert answer["rules"]["taken_away"]["deny"] > 0


def test_rules_of_the_server_always_hold():
    with shop(rules={"where": "stock > 1", "exclude": ["p02"]}) as client:
        answer = ask(client, user="u07", n=N_ITEMS, rules={"where": "brand = Acme"})
    stock = dict(zip(ITEMS, table()["stock"], strict=True))
    assert answer["items"]
    for item in ids(answer):
        assert stock[item] > 1
        assert item != "p02"
        assert int(item[1:]) % 3 == 0


def test_only_and_exclude_are_of_one_request(client):
    first = ids(ask(client, user="u07", n=3))
    assert ids(ask(client, user="u07", n=1, rules={"exclude": first[:1]})) == first[1:2]
    both = ask(client, user="u07", n=9, rules={"only": first, "exclude": [first[1], "nothing"]})
    assert ids(both) == [first[0], first[2]]
    assert (both["ignored"], both["rules"]["wanted"]) == (["nothing"], 9)
    assert ask(client, user="u07", rules={"only": []})["items"] == []


def test_many_questions_have_the_answers_of_each(client):
    questions = [{"user": "u01", "n": 3}, {"items": ["p05"], "n": 2}, {"user": "u02"}, {"n": 1}]
    told = client.post("/v1/recommend", questions).json()
    assert told == [ask(client, **question) for question in questions]


def test_reasons_add_up_to_the_score(client):
    for question in ({"user": "u07"}, {"items": ["p03", "p10"]}):
        for item in ask(client, **question, n=3, explain=True)["items"]:
            total = sum(reason["effect"] for reason in item["reasons"] if reason["side"] == "user")
            assert total == pytest.approx(item["score"], abs=1e-4)


def test_without_a_table_of_interactions_a_user_has_no_reasons():
    with shop(train=None) as client:
        response = client.post("/v1/recommend", {"user": "u07", "explain": True})
    assert (response.status, response.json()["field"]) == (422, "$.explain")


@pytest.mark.parametrize(
    ("question", "status", "code", "field"),
    [
        ({"user": "nobody"}, 404, "unknown_user", "$.user"),
        ({"items": ["p01", "x"]}, 404, "unknown_item", "$.items[1]"),
        ({"n": 0}, 422, "bad_value", "$.n"),
        ({"n": 1001}, 422, "bad_value", "$.n"),
        ({"variety": 1.5}, 422, "bad_value", "$.variety"),
        ({"user": True}, 422, "bad_value", "$.user"),
        ({"nn": 3}, 422, "bad_value", "$"),
        ({"items": ["p01"] * 1001}, 413, "too_large", "$.items"),
        ({"features": {"age": 3}}, 422, "bad_value", "$.features"),
        ({"rules": {"where": "stok > 0"}}, 422, "bad_value", "$.rules.where"),
        ({"rules": {"where": "(" * 90}}, 422, "bad_value", "$.rules.where"),
        ({"rules": {"at_least": {"brand": 2}}}, 422, "bad_value", "$.rules.at_least"),
        ({"rules": {"at_least": {"brand:Acme": 11}}}, 422, "bad_value", "$.rules"),
        ({"rules": {"pin": {"1": "x"}}}, 404, "unknown_item", "$.rules.pin.1"),
        ({"rules": {"pin": {"0": "p01"}}}, 422, "bad_value", None),
        ({"rules": {"ties": "price"}}, 422, "bad_value", "$.rules.ties"),
    ],
)
def test_what_is_wrong_is_named(client, question, status, code, field):
    response = client.post("/v1/recommend", question)
    problem = response.json()
    assert (response.status, problem["status"], problem["code"]) == (status, status, code)
    assert field is None or problem["field"] == field
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["request"] == response.headers["x-request-id"]


def test_one_wrong_question_of_several_is_named(client):
    response = client.post("/v1/recommend", [{"n": 1}, {"user": "nobody"}])
    assert response.json()["field"] == "$[1].user"
    assert client.post("/v1/recommend", [{"n": 1}, {"n": 0}]).json()["field"] == "$[1].n"


def test_unknown_ids_can_be_passed_over(client):
    answer = ask(client, user="nobody", items=["p03", "x"], n=2, unknown="ignore")
    assert (answer["ignored"], answer["basis"]) == (["x"], "fold-in")
    answer = ask(client, user="nobody", unknown="ignore")
    assert (answer["ignored"], answer["basis"]) == (["nobody"], "popular")


def test_integer_ids_may_be_text():
    data = rr.make_interactions(40, 30, 300, random_state=0)
    model = rr.LatentRoBiRank(4, iterations=3, random_state=0).fit(data, show_progress=False)
    from robirank.serve import Client, app

    with Client(app(model, train=data, log_requests=False)) as client:
        assert ask(client, user=3, n=2) == ask(client, user="3", n=2)
        assert all(isinstance(item, int) for item in ids(ask(client, user=3)))
        assert client.post("/v1/recommend", {"user": "03"}).status == 404


def test_the_order_of_a_basket_counts_where_the_model_looks_at_it():
    import numpy as np

    from robirank.serve import Client, app
    from serve.shop import USERS

    data, rng = plays(), np.random.default_rng(0)
    times = rng.permutation(len(data))
    timed = rr.Interactions.from_arrays(
        [USERS[k] for k in data.user_codes()], data.items[data.indices].tolist(), times=times
    )
    model = rr.LatentRoBiRank(
        4, iterations=4, order=True, order_weight=1.0, random_state=0, regularization=0.3
    )
    model.fit(timed, show_progress=False)
    has = timed.matrix[timed.users.index("u07")].indices
    with Client(app(model, train=timed, log_requests=False)) as client:
        for basket in (["p03", "p10", "p20"], ["p20", "p10", "p03"]):
            best = model.recommend_for(basket, N=4)[0].tolist()
            assert ids(ask(client, items=basket, n=4)) == best
        order = np.argsort(timed.timestamps[timed.indptr[timed.users.index("u07")] :][: len(has)])
        basket = [*timed.items[has[order]].tolist(), "p03"]
        best = model.recommend_for(basket, N=4)[0].tolist()
        assert ids(ask(client, user="u07", items=["p03"], n=4)) == best
        told = ask(client, items=["p03", "p10"], n=1, explain=True)["items"][0]
        total = sum(one["effect"] for one in told["reasons"] if one["side"] == "user")
        assert total == pytest.approx(told["score"], abs=1e-4)


def test_what_is_disliked_never_comes(client):
    best = fitted().recommend_for(["p03"], disliked=["p10"], N=4)[0].tolist()
    assert ids(ask(client, items=["p03"], disliked=["p10"], n=4)) == best
    shown = ask(client, items=["p03"], disliked=["p10"], seen="show", n=60)
    assert "p10" not in ids(shown)


@pytest.mark.parametrize(
    "taste", [{"variety": 0.6}, {"popularity": 0.8}, {"variety": 0.3, "popularity": 1.0}]
)
def test_variety_and_popularity_are_those_of_the_model(client, taste):
    best, scores = fitted().recommend("u07", plays(), N=6, **taste)
    answer = ask(client, user="u07", n=6, **taste)
    assert ids(answer) == best.tolist()
    assert [item["score"] for item in answer["items"]] == pytest.approx(scores.tolist(), rel=1e-5)
    assert ids(ask(client, user="u07", n=6)) != best.tolist()
    folded = fitted().recommend_for(["p03"], N=4, rules=rr.Rules(deny=["p05"]), **taste)[0]
    answer = ask(client, items=["p03"], n=4, rules={"exclude": ["p05"]}, **taste)
    assert ids(answer) == folded.tolist()
    for item in ask(client, user="u07", n=3, explain=True, **taste)["items"]:
        total = sum(reason["effect"] for reason in item["reasons"] if reason["side"] == "user")
        assert total == pytest.approx(item["score"], abs=1e-3)


def test_what_rules_took_away_does_not_depend_on_questions_beside(client):
    question = {"user": "u07", "n": 3, "explain": True, "rules": {"at_most": {"brand": 2}}}
    alone = ask(client, **question)["rules"]
    both = client.post("/v1/recommend", [question, question | {"n": 6}]).json()
    assert both[0]["rules"] == alone


@pytest.mark.parametrize(
    "more", [{"items": ["p03"]}, {"disliked": ["p03"]}], ids=["items", "disliked"]
)
def test_a_user_is_not_forgotten_where_nothing_says_what_users_have(more):
    """Without a table, a row from the items alone would not be that of the user."""
    with shop(train=None) as client:
        response = client.post("/v1/recommend", {"user": "u07"} | more)
        assert (response.status, response.json()["field"]) == (422, "$.user")
        assert "--train" in response.json()["detail"]
        assert client.post("/v1/recommend", more).status == 200


def test_a_fit_of_the_model_does_not_change_what_is_served():
    model = rr.LatentRoBiRank(6, iterations=3)
    model.fit(plays(), show_progress=False)
    with Client(app(model, log_requests=False, num_threads=1)) as client:
        before = ask(client, user="u07")
        model.fit(plays(), show_progress=False)
        assert ask(client, user="u07") == before
    assert model.num_threads != 1
