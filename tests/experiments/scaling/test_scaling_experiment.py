"""The scaling experiment, from runs on threads to a report."""

import json

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from rich.console import Console
from typer.testing import CliRunner

from experiments.synthetic_run import TINY_SCALING
from robirank import LatentRoBiRank, evaluate, make_interactions
from robirank.cli.app import app
from robirank.experiments.report.data import report_data
from robirank.experiments.report.write import write_report
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.scaling import runner as scaling_runner
from robirank.experiments.scaling.calibration import calibrate
from robirank.experiments.scaling.clocks import EpochClock
from robirank.experiments.scaling.ray_runs import _clocks, has_ray, ray_clocks
from robirank.experiments.scaling.results import read_scaling
from robirank.experiments.scaling.runner import run_scaling
from robirank.experiments.scaling.runs import ScalingExperiment, load, measure_runs

PARAMS = {"factors": 8, "iterations": 3, "regularization": 0.05, "random_state": 0}
QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def data():
    return load(TINY_SCALING)


@pytest.fixture(scope="module")
def results(data):
    return {result.run.name: result for result in measure_runs(TINY_SCALING, data)[0]}


def test_who_runs(results):
    assert list(results) == ["RoBiRank 1", "RoBiRank 2", "WARP 1", "WARP 2", "RoBiRank, 8 parts"]


def test_precision_is_that_of_the_model_with_as_many_parts(results, data):
    """Not of the number of workers: one thread gives the same bits."""
    model = LatentRoBiRank(parts=2, num_threads=1, solver="sgd", **PARAMS)
    model.fit(data.train, show_progress=False)
    wanted = evaluate(model, train=data.train, test=data.test, k=(1, 10), users=data.users)
    assert dict(results["RoBiRank 2"].reached[-1]) == dict(wanted)


def test_clocks_tell_work_from_waiting(results):
    for result in results.values():
        for clock in result.clocks:
            parts = result.run.parts
            assert clock.uv.shape == (parts, parts)
            assert (clock.uv > 0).all()
            assert clock.path >= clock.busy.max()
            assert clock.elapsed > 0.5 * clock.busy.sum() / result.run.workers
    assert all((clock.xi > 0).all() for clock in results["RoBiRank 2"].clocks)
    assert not any(clock.xi.any() for clock in results["WARP 1"].clocks)


def test_a_path_by_hand():
    uv = np.array([[3.0, 1.0], [1.0, 1.0]])
    clock = EpochClock(elapsed=9.0, serial=0.5, uv=uv, xi=np.array([1.0, 2.0]))
    assert clock.path == 0.5 + 4.0 + 2.0
    assert clock.busy.tolist() == [5.0, 4.0]


def test_rates_explain_tasks():
    """On data of twice the size a pass takes about twice as long; the rates stay."""
    found = calibrate(make_interactions(2000, 400, 60_000, random_state=0), 8, 16, repeats=3)
    assert 1e-9 < found.record < 1e-4
    assert 1e-11 < found.pair < 1e-6
    assert min(vars(found).values()) >= 0


def test_the_run_directory(scaling_run):
    assert scaling_run.finished
    frame = scaling_run.results()
    one = frame.filter((pl.col("method") == "RoBiRank 1") & (pl.col("measure") == "precision@1"))
    assert one["epoch"].to_list() == [1, 2, 3]
    assert len(scaling_run.fit("RoBiRank 2").busy) == 2
    assert_allclose(one["seconds"][-1], sum(scaling_run.fit("RoBiRank 1").elapsed))
    table = (scaling_run.path / "table.md").read_text("utf-8")
    assert "Simulated: Million Song shape" in table
    assert "| RoBiRank, 8 parts | 1 | 8 |" in table
    assert (scaling_run.path / "figures" / "where.svg").is_file()


def test_what_elapsed_is_work_and_waiting(scaling_run):
    for work in read_scaling(scaling_run).works:
        assert_allclose(sum(work.shares.values()), work.elapsed[-1])


def test_a_simulated_number_of_machines_converges_like_as_many_parts(scaling_run):
    found = read_scaling(scaling_run)
    assert [found.converges_like(p).fit.parts for p in (1, 2, 4, 8, 1024)] == [1, 2, 2, 8, 8]


def test_the_simulation_is_compared_with_what_was_measured(scaling_run):
    checks = json.loads((scaling_run.path / "simulation.json").read_text("utf-8"))["checks"]
    assert [check["workers"] for check in checks] == [1, 2]
    assert all(check["path"] > 0 and check["predicted_path"] > 0 for check in checks)


def test_a_finished_run_is_not_repeated(scaling_run, monkeypatch):
    monkeypatch.setattr(scaling_runner, "measure_runs", None)
    assert run_scaling(TINY_SCALING, scaling_run.path, console=QUIET).finished


def test_the_report_says_what_is_simulated(scaling_run):
    found = report_data(scaling_run)
    assert found["sections"] == ["speed", "work", "parts", "simulated", "check"]
    assert [s["name"] for s in found["scaling"]["simulated"]] == ["RoBiRank 32"]
    assert any("Million Song shape" in text for text in found["findings"])
    assert found["how"]["hand_out_measured"] is False


def test_an_unfinished_run_has_a_report(scaling_run, tmp_path):
    empty = RunDirectory.create(tmp_path / "run", scaling_run.settings)
    assert report_data(empty)["findings"] == ["This run is not finished."]
    assert write_report(empty.path).is_file()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workers": (2, 4)}, r"workers must hold 1, .* got \[2, 4\]"),
        ({"workers": (1, 1)}, r"workers must be different numbers; got \[1, 1\]"),
        ({"parts": (0,)}, "parts must be"),
        ({"bandwidth": 0.0}, "bandwidth must be"),
        ({"iterations": 0}, "iterations must be"),
    ],
)
def test_bad_settings(change, message):
    with pytest.raises(ValueError, match=message):
        ScalingExperiment(**change).check()


def test_bad_numbers_on_the_command_line():
    answer = CliRunner().invoke(app, ["experiment", "scaling", "--workers", "1,two"])
    assert answer.exit_code == 2
    assert "1,two" in answer.output


def test_clocks_from_what_workers_wrote():
    def line(what, worker, seconds, **place):
        return {"what": what, "worker": worker, "busy_seconds": seconds, **place}

    lines = [
        {"what": "workers"},
        *(line("sweep", w, 1.0 + w, epoch=0, number=s) for s in (0, 1) for w in (0, 1)),
        line("scan", 0, 0.5),
        line("scan", 0, 0.25),
        line("sweep", 1, 4.0, epoch=1, number=1),
    ]
    first, second = _clocks(lines, [9.0, 8.0], 2)
    assert first.uv.tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert first.xi.tolist() == [0.75, 0.0]
    assert (second.elapsed, second.uv[1, 1]) == (8.0, 4.0)


@pytest.mark.ray
def test_a_cluster_reaches_the_same(results, data):
    if not has_ray():
        pytest.skip("ray is not installed")
    clocks, reached = ray_clocks(data, 2, PARAMS)
    assert dict(reached) == dict(results["RoBiRank 2"].reached[-1])
    assert all((clock.uv > 0).all() and clock.elapsed > 0 for clock in clocks)
