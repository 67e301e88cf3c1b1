"""Commands of other distributions: found where they are installed, named where they are not."""

import importlib.metadata
from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from robirank.cli.app import app
from robirank.cli.plugins import ENTRY_POINTS
from robirank.errors import Argument, ArgumentError

shout = typer.Typer(add_completion=False)


@shout.command()
def _shout(word: str, quietly: bool = False) -> None:
    """Say a word loudly."""
    if quietly:
        raise ArgumentError(Argument("quietly", True), "cannot be\nhonoured")
    print(word.upper())


def install(monkeypatch, **apps):
    """Let entry points be these, in place of those of installed distributions."""
    found = [EntryPoint(n, f"cli.test_plugins:{app}", ENTRY_POINTS) for n, app in apps.items()]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found)


def run(*arguments):
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("command", ["demo", "experiment", "report"])
def test_a_command_of_a_missing_laboratory_says_what_to_install(monkeypatch, command):
    install(monkeypatch)
    answer = run(command, "ltr", "data")
    assert answer.exit_code == 2
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert line == (
        f"robirank: error: robirank {command} is part of robirank-lab, which is not installed: "
        "pip install robirank-lab"
    )
    assert command not in run("--help").stdout


def test_a_command_of_another_distribution_is_one_of_ours(monkeypatch):
    install(monkeypatch, shout="shout")
    assert "Say a word loudly." in run("--help").stdout
    assert run("shout", "tea").stdout == "TEA\n"
    assert "bool" not in run("shout", "--help").stdout.lower()
    answer = run("shout", "tea", "--quietly")
    assert answer.exit_code == 2
    assert answer.stderr == "robirank: error: --quietly cannot be honoured\n"


def test_our_own_commands_come_first(monkeypatch):
    install(monkeypatch, ltr="shout", alpha="shout")
    assert "tea" not in run("ltr", "--help").stdout
    text = run("--help").stdout
    assert text.index("latent") < text.index("alpha")
