"""Limits, keys, origins, logs: what stands between a stranger and the model."""

import json
import logging
import time

import pytest

from robirank.errors import ArgumentError, TableError
from robirank.serve import Client, Keys, Limits, app
from robirank.serve.keys import hash_of, new_key
from robirank.serve.logs import JsonLines, logs_on_stderr
from serve.shop import fitted, shop

KEY = "a key of sixteen letters or more"


def test_a_large_body_is_refused():
    with shop(limits=Limits(body=200)) as client:
        response = client.post("/v1/recommend", {"items": ["p01"] * 100})
        assert (response.status, response.json()["code"]) == (413, "too_large")
        assert client.post("/v1/recommend", {"items": ["p01"]}).status == 200


def test_limits_of_lists():
    with shop(limits=Limits(questions=2, items=3, n=20)) as client:
        for body, status, field in (
            ([{}, {}, {}], 413, "$"),
            ({"items": ["p01"] * 4}, 413, "$"),
            ([{}, {"rules": {"exclude": ["p01"] * 4}}], 413, "$[1]"),
            ({"n": 21}, 422, "$.n"),
        ):
            response = client.post("/v1/recommend", body)
            assert (response.status, response.json()["field"]) == (status, field)
        assert client.get("/v1/items/p01", {"n": 21}).status == 422
    with pytest.raises(ArgumentError, match="items must be at most 1000"):
        Limits(items=1001)
    with pytest.raises(ArgumentError, match="n must be at least 10"):
        Limits(n=5)


def test_too_many_that_wait_are_told_when_to_come_again():
    with shop(limits=Limits(waiting=1)) as client:
        server = client._app
        server.slow._work = lambda batch: (time.sleep(0.3), [b"{}"] * len(batch))[1]
        import threading

        def ask():
            answers.append(client.post("/v1/similar", {"item": "p01"}))

        answers = []
        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
            time.sleep(0.01)
        for thread in threads:
            thread.join()
    refused = [answer for answer in answers if answer.status == 429]
    assert 0 < len(refused) < 6
    assert refused[0].headers["retry-after"] == "1"
    assert refused[0].json()["code"] == "overloaded"


def test_an_answer_that_takes_too_long_is_given_up():
    with shop(limits=Limits(seconds=0.1)) as client:
        client._app.slow._work = lambda batch: (time.sleep(0.4), [b"{}"] * len(batch))[1]
        response = client.post("/v1/similar", {"item": "p01"})
        assert (response.status, response.json()["code"]) == (503, "too_slow")


def test_keys_are_needed_where_there_are_some():
    with shop(keys=[KEY]) as client:
        response = client.post("/v1/recommend", {})
        assert (response.status, response.json()["code"]) == (401, "no_key")
        assert response.headers["www-authenticate"] == "Bearer"
        for path in ("/healthz", "/readyz", "/docs", "/"):
            assert client.get(path).status == 200
        for path in ("/v1/model", "/metrics", "/v1/items"):
            assert client.get(path).status == 401
        for headers, status in (
            ({"x-api-key": KEY}, 200),
            ({"authorization": f"Bearer {KEY}"}, 200),
            ({"authorization": f"bearer  {KEY}"}, 200),
            ({"authorization": f"Basic {KEY}"}, 401),
            ({"x-api-key": KEY[:-1]}, 403),
            ({"x-api-key": hash_of(KEY)}, 403),
        ):
            assert client.send("GET", "/v1/model", headers=headers).status == status


def test_keys_in_a_file(tmp_path):
    path, key = tmp_path / "keys", new_key()
    path.write_text(f"# of the shop\n{hash_of(key)}  # since May\n\n{hash_of(KEY)}\n")
    with shop(keys=Keys.read(path)) as client:
        assert client.send("GET", "/v1/model", headers={"x-api-key": key}).status == 200
    path.write_text(key)
    with pytest.raises(TableError, match="must hold hashes"):
        Keys.read(path)
    with pytest.raises(ArgumentError, match="at least 16 letters"):
        Keys.of(["short"])


def test_browsers_of_other_origins_may_not_ask_unless_told():
    asked = {"origin": "https://shop.example", "access-control-request-method": "POST"}
    with shop() as client:
        assert client.send("OPTIONS", "/v1/recommend", headers=asked).status == 405
        told = client.send("GET", "/healthz", headers=asked).headers
        assert "access-control-allow-origin" not in told
    with shop(origins=["https://shop.example"]) as client:
        told = client.send("OPTIONS", "/v1/recommend", headers=asked).headers
        assert told["access-control-allow-origin"] == "https://shop.example"
        other = {**asked, "origin": "https://other.example"}
        told = client.send("GET", "/healthz", headers=other).headers
        assert "access-control-allow-origin" not in told


@pytest.mark.parametrize(
    "path", ["/index.html", "/../pyproject.toml", "/..%2f..%2fetc/passwd", "//etc/passwd", "/page/"]
)
def test_no_path_reaches_the_file_system(path):
    with shop() as client:
        response = client.get(path)
    assert (response.status, response.json()["code"]) == (404, "no_such_route")


def lines_of(caplog):
    formatter = JsonLines()
    return [json.loads(formatter.format(record)) for record in caplog.records]


def test_logs_have_request_ids_and_no_persons(caplog):
    caplog.set_level(logging.INFO, "robirank.serve")
    with Client(app(fitted())) as client:
        response = client.send(
            "POST", "/v1/recommend", body=b'{"user": "u07"}', headers={"x-request-id": "abc-1"}
        )
        client.send("GET", "/v1/items/p05", headers={"x-request-id": "bad id"})
    first, second = (line for line in lines_of(caplog) if line["event"] == "request")
    assert (first["request"], first["route"], first["status"]) == ("abc-1", "/v1/recommend", 200)
    assert response.headers["x-request-id"] == "abc-1"
    assert second["request"] != "bad id"
    text = json.dumps(lines_of(caplog))
    assert "u07" not in text
    assert "p05" not in text


@pytest.mark.parametrize("log_personal", [False, True])
def test_a_defect_is_logged_and_not_told(caplog, log_personal):
    with shop(log_personal=log_personal) as client:

        def fail(batch):
            raise KeyError(f"{batch[0].questions[0].user} took p05")

        client._app.quick._work = fail
        response = client.post("/v1/recommend", {"user": "u07"})
        assert (response.status, response.json()["code"]) == (500, "unexpected")
        assert "u07" not in response.content.decode()
        assert client.get("/healthz").status == 200
    (line,) = (line for line in lines_of(caplog) if line["event"] == "unexpected")
    assert (line["kind"], line["request"]) == ("KeyError", response.json()["request"])
    assert ("u07" in json.dumps(line)) == log_personal


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://evil.example", "sec-fetch-site": "cross-site"}, 403),
        ({"origin": "http://localhost:8080", "host": "localhost:8080"}, 200),
        ({"origin": "https://shop.example", "sec-fetch-site": "same-origin"}, 200),
        ({"origin": "https://told.example", "sec-fetch-site": "cross-site"}, 200),
        ({}, 200),
    ],
)
def test_pages_of_other_origins_cannot_write(headers, status):
    """A browser sends simple requests of any page, and only hides the answer from it."""
    with shop(origins=["https://told.example"]) as client:
        body = b'{"user": "u07", "items": ["p03"]}'
        response = client.send("POST", "/v1/feedback", body=body, headers=headers)
        assert response.status == status
        assert status == 200 or response.json()["code"] == "wrong_origin"
        assert len(client._app.feedback) == (status == 200)


def test_all_questions_of_a_request_together_are_limited():
    with shop() as client:
        for question, most in (({"n": 1000}, 100), ({"n": 100, "explain": True}, 100)):
            response = client.post("/v1/recommend", [question] * (most + 1))
            assert (response.status, response.json()["code"]) == (413, "too_large")
        assert client.post("/v1/recommend", [{"n": 1000}] * 100).status == 200


def test_reasons_of_a_refused_model_name_no_user(tmp_path, caplog):
    path = tmp_path / "model.safetensors"
    fitted(0).save(path)
    server = app(path, reload_seconds=0, log_requests=False)
    with Client(server), pytest.MonkeyPatch.context() as patch:
        patch.setattr("robirank.serve.self_test._NEAR", -1.0)
        assert not server.reload()
    told = json.dumps(lines_of(caplog))
    assert "plain sums" in told
    assert "u00" not in told


def test_logging_is_as_before_once_a_server_has_ended(capfd):
    loggers = [logging.getLogger(name) for name in ("robirank", "uvicorn")]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    with logs_on_stderr():
        logging.getLogger("robirank.serve").info("here")
    assert [(logger.handlers, logger.propagate, logger.level) for logger in loggers] == before
    logging.getLogger("robirank.serve").info("not here")
    assert capfd.readouterr().err.count("here") == 1
