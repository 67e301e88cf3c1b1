"""The commands of the laboratory: what they print where, and how they fail."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import robirank
from contract.example_ranker import LeastSquares
from robirank import make_ranking, save_letor
from robirank.cli.app import app
from robirank_lab.ltr.methods import whole_field

COMMAND = [sys.executable, "-m", "robirank"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two folds of three parts each."""
    root = tmp_path_factory.mktemp("data") / "Toy"
    judged = make_ranking(n_queries=45, n_docs=8, n_features=4, n_grades=3, random_state=0)
    number = np.unique(judged.qid, return_inverse=True)[1]
    for fold in range(2):
        (root / f"Fold{fold + 1}").mkdir(parents=True)
        for part, name in enumerate(("train", "vali", "test")):
            path = root / f"Fold{fold + 1}" / f"{name}.txt"
            save_letor(path, judged.take((number + fold) % 3 == part))
    return root


def run(*arguments, expect=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == expect, f"{result.output}\n{result.exception!r}"
    return result


def test_the_version_is_that_of_robirank():
    assert version("robirank-lab") == robirank.__version__


def test_wrong_usage_is_2():
    assert "Usage: " in run("demo", "--queries", "3", expect=2).stderr
    message = run("report", "nowhere", expect=2).stderr
    assert message == "robirank: error: there is no run directory nowhere\n"


@pytest.mark.parametrize(
    ("command", "method"), [("ltr", "RoBiRank"), ("init", "zeros"), ("identity", "Identity")]
)
def test_a_quick_look_at_an_experiment(command, method, data, tmp_path):
    asked = ("experiment", command, data, "--methods", method, "--quick", "--json")
    fits = json.loads(run(*asked, "-o", tmp_path / "run").stdout)["fits"]
    assert [(fit["case"], len(fit["grid"])) for fit in fits] == [("Fold1", 3)]
    if command == "ltr":
        fits = json.loads(run(*asked, "-o", tmp_path / "two", "--folds", 2).stdout)["fits"]
        assert {fit["case"] for fit in fits} == {"Fold1", "Fold2"}


def test_a_table_is_printed_and_the_report_is_named(data, tmp_path):
    folder = tmp_path / "run"
    done = run("experiment", "ltr", data, "--methods", "RankSVM", "--quick", "-o", folder)
    assert "RankSVM" in done.stdout
    assert f"report {folder / 'report.html'}" in done.stderr
    assert run("report", folder, "-o", tmp_path / "x.html").stdout == f"{tmp_path / 'x.html'}\n"


def test_a_registered_ranker_takes_part_with_its_defaults(data, tmp_path):
    assert type(LeastSquares()).__name__ in whole_field()
    asked = ("experiment", "ltr", data, "--methods", "RoBiRank,LeastSquares", "--quick", "--json")
    fits = json.loads(run(*asked, "-o", tmp_path / "run").stdout)["fits"]
    assert [(fit["method"], fit["error"]) for fit in fits] == [
        ("RoBiRank", None), ("LeastSquares", None),
    ]  # fmt: skip
    assert fits[1]["params"] == {}


MY_RANKER = """
from robirank import RankSVM
from robirank_lab import add_method


class MyRanker(RankSVM):
    pass


add_method(MyRanker, [{"C": 0.1}, {"C": 1.0}], name="Mine")
"""


def experiment_here(data, folder, *arguments):
    """``robirank experiment ltr`` in a process whose working folder is the given one."""
    command = [*COMMAND, "experiment", "ltr", data, "-o", folder / "run", "--folds", "1"]
    return subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def test_an_experiment_imports_methods_of_the_working_folder(data, tmp_path):
    (tmp_path / "mymethod.py").write_text(MY_RANKER)
    asked = ("--import", "mymethod", "--methods", "Mine", "--json")
    done = experiment_here(data, tmp_path, *asked)
    assert done.returncode == 0, done.stderr
    (fit,) = json.loads(done.stdout)["fits"]
    assert (fit["method"], fit["error"]) == ("Mine", None)
    assert fit["params"]["C"] in (0.1, 1.0)


@pytest.mark.parametrize(
    ("text", "module", "message"),
    [
        ("", "mymethod.py", "such as mymethod for mymethod.py; got 'mymethod.py'"),
        ("", "yours", "got 'yours'"),
        ("x = 1", "empty_method", "--import empty_method adds no method"),
    ],
)
def test_an_import_that_adds_nothing_is_refused(data, tmp_path, monkeypatch, text, module, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    Path("empty_method.py").write_text(text)
    asked = ("experiment", "ltr", data, "-o", tmp_path / "run", "--import", module)
    done = run(*asked, expect=2)
    assert message in " ".join(done.stderr.replace("│", "").split())
    assert not (tmp_path / "run").exists()


def test_help_does_not_import_the_heavy_parts():
    code = (
        "import sys; from robirank.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print('robirank_lab.commands' in sys.modules, "
        "[m for m in ('numpy', 'polars', 'msgspec', 'robirank_lab.run_dir') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "True []"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_is_130(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "demo", "--queries", "20000", "--output", tmp_path / "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "demo").is_dir() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    # Python ends by the signal itself if it came within an exec(), as dataclasses have while they
    # are imported; a shell calls both 130.
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in stderr
    assert stderr.strip() == "robirank: interrupted"
