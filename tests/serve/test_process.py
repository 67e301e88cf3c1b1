"""``robirank serve`` as a process: signals, exit codes, workers, and what is said on the way."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from robirank.cli.app import app
from serve.shop import ITEMS, fitted, plays


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
        assert sent_of_a_head_without_end(port) < 2**20
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


def sent_of_a_head_without_end(port, most=32 << 20):
    """How many bytes of a header a client can send, until the server hangs up."""
    sent, part = 0, b"a" * 65_536
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nx-long: ")
        with contextlib.suppress(ConnectionError):
            while sent < most:
                client.sendall(part)
                sent += len(part)
                time.sleep(0.02)
    return sent


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


def told(lines, event, seconds=60):
    """The first line with an event, for which this waits."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for line in lines:
            if event in line["event"]:
                return line
        time.sleep(0.05)
    raise AssertionError(f"no line says {event!r}")


@pytest.mark.skipif(sys.platform != "linux", reason="finds workers in /proc")
def test_a_worker_that_cannot_begin_leaves_the_others_alone(files):
    """A table of items goes bad, and then a worker is killed: the other one answers as before."""
    table = files / "items.csv"
    table.write_text("id,stock\n" + "".join(f"{item},1\n" for item in ITEMS))
    options = ("--workers", "2", "--items-table", "items.csv", "--where", "stock > 0")
    with running(files, *options, "--reload-seconds", "0") as (server, port, lines):
        before = ask(port, {"user": "u07"})
        table.write_text("id,price\np01,1\n")
        os.kill(workers_of(server.pid)[0], signal.SIGKILL)
        assert told(lines, "another begins")["code"] == -signal.SIGKILL
        assert "stock" in told(lines, "cannot begin")["reason"]
        for _ in range(10):
            assert ask(port, {"user": "u07"}) == before
        table.write_text("id,stock\n" + "".join(f"{item},1\n" for item in ITEMS))
        server.send_signal(signal.SIGHUP)
        told(lines, "reloaded")
        assert ask(port, {"user": "u07"}) == before


def workers_of(server):
    """The processes that answer: those below the one that started them."""
    return [pid for child in children(server) for pid in children(child)]


def children(pid):
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


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
