"""Processes that end well, that crash, and that are left behind."""

import os
import time

import pytest

from lab.pool_work import act
from robirank_lab.pool import run_units


def run(tmp_path, units, n_jobs=2, **options):
    return list(run_units(act, units, lambda unit: (tmp_path, unit), n_jobs=n_jobs, **options))


def test_a_crash_takes_nothing_with_it(tmp_path):
    units, started = ["one", "crash", "two", "exit", "three"], []
    crashes = {done.unit: done.crash for done in run(tmp_path, units, on_start=started.append)}
    assert sorted(started) == sorted(crashes) == sorted(units)
    assert "SIGKILL" in crashes["crash"]
    assert "exit code 3" in crashes["exit"]
    assert [crashes[u] for u in ("one", "two", "three")] == [None] * 3
    assert {f.name for f in tmp_path.iterdir()} == {"one", "two", "three"}


def test_every_process_gets_one_thread_and_the_environment_is_put_back(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    run(tmp_path, ["unit"])
    assert (tmp_path / "unit").read_text().split()[0] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_stopping_early_ends_the_processes(tmp_path):
    units = ["one", "sleep 1", "sleep 2", "sleep 3"]
    events = run_units(act, units, lambda unit: (tmp_path, unit), n_jobs=2)
    begin = time.perf_counter()
    assert next(events).unit == "one"
    events.close()
    assert time.perf_counter() - begin < 30
    assert [f.name for f in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_no_more_processes_than_asked_for(tmp_path, n_jobs):
    run(tmp_path, [f"nap {i}" for i in range(n_jobs + 2)], n_jobs)
    naps = [tuple(map(float, f.read_text().split()[1:])) for f in tmp_path.iterdir()]
    at_once = [sum(begin <= moment <= end for begin, end in naps) for moment, _ in naps]
    assert len(naps) == n_jobs + 2
    assert max(at_once) == n_jobs
