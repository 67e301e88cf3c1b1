"""The scaling experiment, from runs on threads to a report."""

import json

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from lab.conftest import QUIET, TINY_SCALING, TINY_SHAPE
from robirank import LatentRoBiRank, evaluate
from robirank.cli.app import app
from robirank_lab.report.data import report_data
from robirank_lab.report.write import write_report
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import ScalingExperiment
from robirank_lab.scaling import runner
from robirank_lab.scaling.results import by_parts, measured_runs
from robirank_lab.scaling.runner import has_ray, load, run_scaling

PARAMS = {"factors": 8, "iterations": 3, "regularization": 0.05, "random_state": 0}


@pytest.fixture(scope="module")
def runs(scaling_run):
    return {found["name"]: found for found in measured_runs(scaling_run)}


def test_who_runs(runs):
    assert list(runs) == ["RoBiRank 1", "RoBiRank 2", "WARP 1", "WARP 2", "RoBiRank, 8 parts"]


def test_precision_is_that_of_the_model_with_as_many_parts(runs):
    """Not of the number of workers: one thread gives the same bits."""
    data = load(None, TINY_SHAPE, {}, 0)
    model = LatentRoBiRank(parts=2, num_threads=1, solver="sgd", **PARAMS)
    model.fit(data.train, show_progress=False)
    reached = evaluate(model, train=data.train, test=data.test, k=(1, 10), users=data.users)
    assert runs["RoBiRank 2"]["precision"][-1] == reached["precision@1"]


def test_what_elapsed_is_work_and_waiting(runs):
    for found in runs.values():
        assert len(found["seconds"]) == 3
        assert (np.diff(found["seconds"]) > 0).all()
        assert found["work"] > 0
        elapsed = max(found["seconds"][-1], found["work"])
        assert_allclose(found["work"] + found["waiting"], elapsed)


def test_the_run_directory(scaling_run):
    frame = scaling_run.results()
    one = frame.filter((pl.col("method") == "RoBiRank 1") & (pl.col("metric") == "precision@1"))
    assert one["epoch"].to_list() == [1, 2, 3]
    assert_allclose(one["seconds"][-1], scaling_run.fit("RoBiRank 1", "").final_seconds)
    table = (scaling_run.path / "table.md").read_text("utf-8")
    assert "| RoBiRank, 8 parts | 2 | 8 |" in table
    assert [found["parts"] for found in by_parts(measured_runs(scaling_run))] == [1, 2, 8]


def test_a_run_that_is_done_is_not_repeated(scaling_run, monkeypatch):
    monkeypatch.setattr(runner, "on_threads", None)
    again = run_scaling(None, TINY_SCALING, scaling_run.path, shape=TINY_SHAPE, console=QUIET)
    assert again.todo() == []


def test_the_report_says_how_much_faster(scaling_run):
    page = report_data(scaling_run)
    assert page["sections"] == ["speed", "work", "parts"]
    assert page["findings"][0].startswith("2 threads are ")
    assert page["findings"][1].startswith("Convergence depends on the number of parts, 1 or 8: ")


def test_an_unfinished_run_has_a_report(scaling_run, tmp_path):
    empty = RunDirectory.create(tmp_path / "run", scaling_run.settings)
    assert report_data(empty)["findings"] == [
        "This run is not finished: 5 fits are still to be done."
    ]
    assert write_report(empty.path).is_file()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workers": (2, 4)}, r"workers must hold 1, .* got \[2, 4\]"),
        ({"parts": (0,)}, r"Expected `int` >= 1 - at `\$\.experiment\.parts\[0\]`"),
        ({"iterations": 0}, r"Expected `int` >= 1 - at `\$\.experiment\.iterations`"),
    ],
)
def test_bad_settings(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        run_scaling(None, ScalingExperiment(**change), tmp_path, shape=TINY_SHAPE, console=QUIET)


def test_bad_numbers_on_the_command_line():
    answer = CliRunner().invoke(app, ["experiment", "scaling", "--workers", "1,two"])
    assert answer.exit_code == 2
    assert "1,two" in answer.output


def test_the_command(latent_folder, tmp_path):
    options = ["--workers", "1", "--parts", "2", "--factors", "4", "--no-ray", "--iterations", "2"]
    command = ["experiment", "scaling", str(latent_folder), "-o", str(tmp_path / "run"), *options]
    answer = CliRunner().invoke(app, [*command, "--json"])
    assert answer.exit_code == 0, answer.stderr
    fits = json.loads(answer.stdout)["fits"]
    assert [fit["method"] for fit in fits] == ["RoBiRank 1", "WARP 1", "RoBiRank, 2 parts"]
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.ray
def test_a_cluster_reaches_the_same(tmp_path):
    if not has_ray():
        pytest.skip("ray is not installed")
    experiment = replace(TINY_SCALING, workers=(1,), parts=(), ray=True)
    run = run_scaling(None, experiment, tmp_path / "run", shape=TINY_SHAPE, console=QUIET)
    assert [fit.error for fit in run.fits()] == [None] * 3
    found = {found["name"]: found for found in measured_runs(run)}
    here, there = found["RoBiRank 1"], found["RoBiRank 1, Ray"]
    assert (there["precision"] == here["precision"]).all()
    assert there["engine"] == "ray"
    assert there["work"] > 0
    assert there["seconds"][-1] > 0
