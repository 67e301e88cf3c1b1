"""The logger "robirank": fits and searches are told, and nothing is shown by default."""

import json
import logging
import re
import subprocess
import sys

import pytest

import robirank as rr


@pytest.fixture
def told(caplog):
    """The messages of a logger."""
    caplog.set_level(logging.INFO, "robirank")
    return lambda name: [r.getMessage() for r in caplog.records if r.name == name]


def test_the_fit_of_a_latent_model(told):
    data = rr.make_interactions(60, 30, 400, random_state=0)
    rr.LatentRoBiRank(4, iterations=3, regularization=0.25).fit(data, show_progress=False)
    begin, end = told("robirank.latent")
    title = "LatentRoBiRank (exact, λ = 0.25): "
    assert begin == f"{title}60 users × 30 items, 400 interactions, 4 factors, epochs 1 to 3"
    assert end.startswith(f"{title}ended after epoch 3, ")
    assert re.search(r", [\d.e-]+ s of training, loss \d\.\d+, best epoch 3$", end)


def test_a_fit_that_goes_on_and_one_that_is_ended(told, tmp_path):
    data = rr.make_interactions(60, 30, 400, random_state=0)
    model = rr.LatentRoBiRank(4, iterations=3, regularization=0.25, random_state=0)
    options = {"show_progress": False, "checkpoint": tmp_path / "fit"}
    model.fit(data, callback=lambda *_: True, **options)
    model.fit(data, resume=True, **options)
    _, ended, begin, _ = told("robirank.latent")
    assert "ended after epoch 1 (by callback), " in ended
    assert begin.endswith("epochs 2 to 3")


def test_the_lambda_that_was_found_and_the_trials_of_a_search(told):
    data = rr.make_interactions(300, 100, 12_000, random_state=0)
    model = rr.LatentRoBiRank(4, iterations=2, random_state=0).fit(data, show_progress=False)
    found = f"LatentRoBiRank: a search found λ = {model.regularization_:.4g}"
    assert told("robirank.latent")[0] == found
    rr.LatentRoBiRankCV(model).search(data, False)
    trials = told("robirank.latent")[3:]
    assert [line.split("  ")[0] for line in trials[:3]] == ["falling λ", "fit", "fit"]
    assert all(re.search(r"λ 0\.\d+ +ndcg@20 0\.\d{4} +\d+\.\d s", line) for line in trials)


def test_the_fit_of_a_ranker(told):
    data = rr.make_ranking(n_queries=10, n_docs=5, n_features=3, random_state=0)
    rr.RankBoost(4).fit(data.X, data.y, qid=data.qid)
    begin, end = told("robirank.ltr")
    assert begin == "RankBoost: 50 documents of 10 queries, 3 features"
    assert re.match(r"RankBoost: ended after 4 of 4 iterations, [\d.e-]+ s  ", end)


def test_a_fit_that_fails_is_told(told):
    data = rr.make_interactions(60, 30, 400, random_state=0)

    def fail(*_):
        raise KeyError("of the caller")

    model = rr.LatentRoBiRank(4, iterations=3, regularization=0.25)
    with pytest.raises(KeyError):
        model.fit(data, show_progress=False, callback=fail)
    assert len(told("robirank.latent")) == 1  # it began, and the error says the rest


def test_nothing_is_shown_by_default():
    code = """
import logging, robirank as rr
data = rr.make_interactions(60, 30, 400, random_state=0)
rr.WARP(4, iterations=2).fit(data, show_progress=False)
logging.getLogger("robirank.engine").warning("a disk is full")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_events_of_a_cluster_are_told_and_steps_to_those_who_debug(told, tmp_path):
    from robirank.engine.ray.log import RunLog
    from robirank.storage.folder import Folder

    run_log = RunLog(Folder(tmp_path))
    run_log.say("sweep", step=1)
    run_log.say("lost", step=1)
    run_log.close()
    (line,) = told("robirank.engine")
    assert json.loads(line)["what"] == "lost"
    assert len((tmp_path / "workers.jsonl").read_text().splitlines()) == 2
