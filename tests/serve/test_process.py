"""``robirank serve`` as a process: signals, exit codes, workers, and what is said on the way."""

import contextlib
import http.client
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import pytest
from typer.testing import CliRunner

from robirank.cli.app import app
from serve.shop import fitted, plays


@pytest.fixture
def files(tmp_path):
    fitted().save(tmp_path / "model.safetensors")
    plays().save(tmp_path / "plays.parquet")
    return tmp_path


@contextlib.contextmanager
def running(files, *options):
    command = [sys.executable, "-m", "robirank", "serve", "model.safetensors", "--port", "0"]
    server = subprocess.Popen(
        [*command, *options],
        cwd=files,
        stderr=subprocess.PIPE,
        text=True,
        stdout=subprocess.DEVNULL,
    )
    lines = []
    try:
        for line in server.stderr:
            lines.append(json.loads(line))
            if lines[-1]["event"] == "ready":
                break
        reader = threading.Thread(target=lambda: lines.extend(map(json.loads, server.stderr)))
        reader.start()
        yield server, int(lines[-1]["address"].rpartition(":")[2]), lines
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
        reader.join()
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def ask(port, body, path="/v1/recommend"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, json.dumps(body))
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


def test_what_was_asked_for_is_answered_after_sigterm(files):
    with running(files, "--train", "plays.parquet") as (server, port, lines):
        assert ask(port, {"user": "u07"})[0] == 200
        question = [{"user": f"u{k:02d}", "explain": True, "n": 40} for k in range(80)]
        answers = []
        asking = threading.Thread(target=lambda: answers.append(ask(port, question)))
        asking.start()
        time.sleep(0.3)
        server.send_signal(signal.SIGTERM)
        asking.join()
        assert server.wait(30) == 0
    assert [status for status, _ in answers] == [200]
    assert len(answers[0][1]) == 80
    assert {"event": "stopping", "signal": "SIGTERM"}.items() <= next(
        line for line in lines if line["event"] == "stopping"
    ).items()


def test_workers_share_feedback_and_change_models_together(files):
    with running(files, "--workers", "2", "--train", "plays.parquet") as (server, port, lines):
        first = ask(port, {"user": "u07", "n": 1})[1]
        item = first["items"][0]["item"]
        assert ask(port, {"user": "u07", "items": [item]}, "/v1/feedback")[0] == 200
        for _ in range(10):
            told = ask(port, {"user": "u07", "n": 60})[1]
            assert item not in [one["item"] for one in told["items"]]
        url = f"http://127.0.0.1:{port}/metrics"
        for _ in range(10):
            assert b"robirank_feedback_items_total 1\n" in urllib.request.urlopen(url).read()
        fitted(1).save(files / "model.safetensors")
        server.send_signal(signal.SIGHUP)
        end = time.monotonic() + 60
        while not any(line["event"] == "reloaded" for line in lines) and time.monotonic() < end:
            time.sleep(0.05)
        models = {ask(port, {"user": "u07", "n": 1})[1]["model"] for _ in range(10)}
        assert len(models) == 1
        assert first["model"] not in models
        (files / "model.safetensors").write_bytes(b"no model")
        server.send_signal(signal.SIGHUP)
        while not any("refused" in line["event"] for line in lines) and time.monotonic() < end:
            time.sleep(0.05)
        assert ask(port, {"user": "u07", "n": 1})[1]["model"] in models


@pytest.mark.parametrize("options", [[], ["--workers", "2"]])
def test_a_file_that_cannot_be_served_ends_the_command(tmp_path, options):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"no model")
    done = subprocess.run(
        [sys.executable, "-m", "robirank", "serve", str(path), "--port", "0", *options],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert "cannot load" in done.stderr


def test_options_are_checked():
    run = CliRunner().invoke
    assert "key " in run(app, ["serve", "--new-key"]).stdout
    assert run(app, ["serve"]).exit_code == 2
    done = run(app, ["serve", "nowhere", "--where", "stock > 0"])
    assert (done.exit_code, "stock" in done.stderr or "nowhere" in done.stderr) == (2, True)
