"""Processes that end well, that crash, and that are left behind."""

import os
import time

import pytest

from experiments.pool_work import act
from robirank.experiments.pool import Done, Started, run_units


def run(tmp_path, units, n_jobs=2):
    return list(run_units(act, units, lambda unit: (tmp_path, unit), n_jobs=n_jobs))


def test_a_crash_takes_nothing_with_it(tmp_path):
    units = ["one", "crash", "two", "exit", "three"]
    events = run(tmp_path, units)
    assert [e.unit for e in events if isinstance(e, Started)] == units
    crashes = {e.unit: e.crash for e in events if isinstance(e, Done)}
    assert set(crashes) == set(units)
    assert "SIGKILL" in crashes["crash"]
    assert "exit code 3" in crashes["exit"]
    assert [crashes[u] for u in ("one", "two", "three")] == [None] * 3
    assert {f.name for f in tmp_path.iterdir()} == {"one", "two", "three"}


def test_every_process_gets_one_thread_and_the_environment_is_put_back(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    run(tmp_path, ["unit"])
    assert (tmp_path / "unit").read_text() == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_stopping_early_ends_the_processes(tmp_path):
    events = run_units(act, ["sleep 1", "sleep 2"], lambda unit: (tmp_path, unit), n_jobs=2)
    begin = time.perf_counter()
    next(events)
    events.close()
    assert time.perf_counter() - begin < 30
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_no_more_processes_than_asked_for(tmp_path, n_jobs):
    running = most = 0
    for event in run_units(act, list("abcde"), lambda unit: (tmp_path, unit), n_jobs=n_jobs):
        running += isinstance(event, Started) - isinstance(event, Done)
        most = max(most, running)
    assert most == n_jobs
