"""A newer file takes the place of the model: nothing is lost or mixed, and nothing bad comes."""

import json
import threading
import time

import pytest

import robirank as rr
from robirank.serve import Client, app, known_answers
from robirank.serve.sources import Sources
from serve.shop import ITEMS, USERS, fitted, ids, plays


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.safetensors"
    fitted(0).save(path)
    return path


def model_of(client):
    return client.get("/v1/model").json()["model"]


def counted(client, what):
    lines = client.get("/metrics").content.decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"robirank_{what}_total"))


def test_a_newer_file_is_served(path):
    with Client(app(path, reload_seconds=0.05, log_requests=False)) as client:
        before = model_of(client)
        fitted(1).save(path)
        end = time.monotonic() + 30
        while model_of(client) == before and time.monotonic() < end:
            time.sleep(0.02)
        best = fitted(1).recommend("u07", N=3, filter_already_liked_items=False)[0].tolist()
        assert ids(client.post("/v1/recommend", {"user": "u07", "n": 3}).json()) == best


def test_a_newer_table_of_items_is_read(path, tmp_path):
    table = tmp_path / "items.csv"
    table.write_text("id,stock\n" + "".join(f"{item},1\n" for item in ITEMS))
    server = app(path, items=table, rules={"where": "stock > 0"}, reload_seconds=0)
    with Client(server) as client:
        first, second, *_ = ids(client.post("/v1/recommend", {"user": "u07"}).json())
        table.write_text(table.read_text().replace(f"{first},1", f"{first},0"))
        assert server.reload()
        assert ids(client.post("/v1/recommend", {"user": "u07"}).json())[0] == second


def spoilt(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    return bytes(content)


def of_another_kind(path):
    data = rr.make_ranking(n_queries=10, n_features=3, random_state=0)
    rr.RoBiRank().fit(data).save(path)
    return path.read_bytes()


def that_answers_wrongly(path):
    known = known_answers(fitted(0), [{"user": "u07", "n": 3}])
    fitted(1).save(path, extra={"known_answers": known})
    return path.read_bytes()


BAD = {
    "a bit is wrong": spoilt,
    "half of it": lambda path: path.read_bytes()[: path.stat().st_size // 2],
    "empty": lambda path: b"",
    "no model": lambda path: b"PK" * 1000,
    "of another kind": of_another_kind,
    "with other answers than known": that_answers_wrongly,
}


@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_and_the_old_model_stays(path, make, caplog):
    server = app(path, reload_seconds=0, log_requests=False)
    with Client(server) as client:
        before, answer = model_of(client), client.post("/v1/recommend", {"user": "u07"}).json()
        path.write_bytes(make(path))
        assert not server.reload()
        assert client.post("/v1/recommend", {"user": "u07"}).json() == answer
        assert (model_of(client), counted(client, "refused_reloads")) == (before, 1)
        assert "reload refused" in caplog.text
        fitted(1).save(path)
        assert server.reload()
        assert model_of(client) != before


def test_a_file_that_is_gone_is_no_reason_to_stop(path):
    server = app(path, reload_seconds=0, log_requests=False)
    with Client(server) as client:
        path.unlink()
        assert not server.reload()
        assert client.get("/readyz").status == 200


def test_known_answers_travel_with_the_model(path):
    known = known_answers(fitted(0), [{"user": "u07", "n": 3}, {"items": ["p03"], "seen": "show"}])
    fitted(0).save(path, extra={"known_answers": json.loads(json.dumps(known))})
    with Client(app(path, train=plays(), rules={"exclude": known[0]["items"]})) as client:
        assert client.get("/readyz").status == 200


def same(answer, expected):
    """Equal but for the rounding of rows that were folded in beside others."""
    scores = ([item["score"] for item in one["items"]] for one in (answer, expected))
    return answer["basis"] == expected["basis"] and next(scores) == pytest.approx(
        next(scores), rel=1e-3, abs=1e-3
    )


def test_no_answer_is_lost_or_mixed_while_models_change(path):
    """Fifty reloads under load: every answer is whole, and is that of the model that it names."""
    files = [path.with_name(f"{seed}.safetensors") for seed in (0, 1)]
    models = [fitted(0), fitted(1)]
    for file, model in zip(files, models, strict=True):
        model.save(file)
    questions = [{"user": user, "n": 5} for user in USERS[:20]]
    questions += [{"items": [item], "n": 5} for item in ITEMS[:5]]
    right = {}
    for file in files:
        with Client(app(file, reload_seconds=0, log_requests=False)) as alone:
            told = [alone.post("/v1/recommend", question).json() for question in questions]
            right[told[0]["model"]] = told
    server = app(path, reload_seconds=0, log_requests=False)
    wrong, done, stop = [], [0] * 4, threading.Event()

    def ask(thread):
        number = thread
        while not stop.is_set():
            number = (number + 7) % len(questions)
            response = client.post("/v1/recommend", questions[number])
            answer = response.json()
            if response.status != 200 or not same(answer, right[answer["model"]][number]):
                wrong.append(answer)
            done[thread] += 1

    with Client(server) as client:
        threads = [threading.Thread(target=ask, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for turn in range(50):
            path.write_bytes(files[(turn + 1) % 2].read_bytes())
            before = sum(done)
            assert server.reload()
            while sum(done) < before + 4:
                time.sleep(0.001)
        stop.set()
        for thread in threads:
            thread.join()
        assert counted(client, "reloads") == 50
    assert (wrong, min(done) > 10, len(right)) == ([], True, 2)


def test_a_file_that_changes_while_the_server_begins_is_served(path, monkeypatch):
    """Loading takes a while; what comes meanwhile is newer than what was read."""
    load = Sources.load

    def load_slowly(sources):
        served = load(sources)
        fitted(1).save(path)
        return served

    with monkeypatch.context() as patch:
        patch.setattr(Sources, "load", load_slowly)
        server = app(path, reload_seconds=0, log_requests=False)
    with Client(server) as client:
        before = model_of(client)
        assert server._reloader.reload(whatever=False)
        assert model_of(client) != before
