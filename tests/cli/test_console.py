"""What a terminal is shown, and what a pipe gets."""

import json
import os
import pty
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robirank import Interactions, LatentRoBiRank
from robirank.cli import console

CLEAR, TITLE, C1, TURNED = "\x1b[2J", "\x1b]0;owned\x07", "\x9b31m", "\u202egnp.exe"
ITEMS = [f"tea{CLEAR}", f"rum{TITLE}", f"gin{C1}", f"ale{TURNED}", "日本酒"]
RAW = [CLEAR, TITLE, C1, "\u202e"]


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text):
    shown = console.escaped(text)
    assert not {"Cc", "Cs", "Zl", "Zp"} & {unicodedata.category(c) for c in shown}
    directions = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not directions & {unicodedata.bidirectional(c) for c in shown}
    if text.isprintable():
        assert shown == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tea\x1b[31m", r"tea\u001b[31m"),
        ("\x9b31m", r"\u009b31m"),
        ("a\nb\tc\r", r"a\u000ab\u0009c\u000d"),
        ("\u202e\u2066\u200f\u061c", r"\u202e\u2066\u200f\u061c"),
        ("Møtley – 日本 👩‍🚀", "Møtley – 日本 👩‍🚀"),
    ],
)
def test_escapes_worked_by_hand(text, shown):
    assert console.escaped(text) == shown


BOTH = pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])


def pretend(terminal, monkeypatch):
    """Within the test, for the streams of a fixture are others."""
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: terminal, raising=False)


@BOTH
@pytest.mark.parametrize(
    "say",
    [
        lambda text: console.note(text),
        lambda text: console._show_warning(text),
        lambda text: console._stop(text, 2),
        lambda text: console.print_text(text),
        lambda text: console.print_table(text, ["", "value"], [["a", "1"]]),
        lambda text: console.print_table("t", ["", text], [["a", "1"]]),
        lambda text: console.print_facts("t", {"name": text}),
    ],
)
def test_all_that_is_said(say, terminal, monkeypatch, capfd):
    pretend(terminal, monkeypatch)
    say("gin\x9b2J")
    said = "".join(capfd.readouterr())
    assert (r"gin\u009b2J" if terminal else "gin\x9b2J") in said
    assert ("\x9b" in said) != terminal


@BOTH
def test_json_is_the_same_value_on_a_terminal(terminal, monkeypatch, capfd):
    pretend(terminal, monkeypatch)
    value = {"item": "".join(ITEMS) + "\x7f\n", "n": 1}
    console.print_json(value)
    text = capfd.readouterr().out
    assert json.loads(text) == value
    assert ("\u202e" in text) != terminal
    assert "日本酒" in text


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "model"
    data = Interactions.from_arrays([f"u{CLEAR}", "v"] * 5, ITEMS * 2)
    LatentRoBiRank(factors=2, iterations=2, regularization=0.1, num_threads=1).fit(data).save(path)
    return path


@pytest.mark.parametrize(
    "arguments",
    [("similar", "日本酒"), ("recommend", "--all"), ("recommend", "v", "--json"), ("similar", "x")],
    ids=" ".join,
)
def test_names_on_a_real_terminal(model, arguments):
    what, *rest = arguments
    command = [sys.executable, "-m", "robirank", "latent", what, str(model), *rest]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = _all_of(ours).decode()
    process.wait()
    assert not any(raw in shown for raw in RAW), shown
    assert r"tea\u001b[2J" in shown


def test_names_in_a_pipe_are_as_they_are(model):
    command = [sys.executable, "-m", "robirank", "latent", "similar", str(model), "日本酒", "-q"]
    piped = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    assert {line.split("\t")[2] for line in piped.splitlines()[1:]} == set(ITEMS[:4])


def _all_of(terminal):
    content = b""
    try:
        while block := os.read(terminal, 1 << 16):
            content += block
    except OSError:  # so ends a terminal whose other side was closed
        pass
    finally:
        os.close(terminal)
    return content
