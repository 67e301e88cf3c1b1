"""What a fit will cost: figures that grow as the table does, and memory that is about right."""

import tracemalloc

import numpy as np
import pytest

import robirank as rr
from robirank.engine.interface import Sizes
from robirank.latent.solvers import epoch_seconds
from robirank.latent.solvers.problem import Penalty, Problem
from robirank.latent.solvers.speed import Speed, measured_speed
from robirank.latent.tune.estimate import Estimate
from robirank.latent.tune.path import COARSE, FINE


def test_an_epoch_takes_its_steps_and_its_scores():
    speed = Speed(item=1e-6, score=1e-9)
    # 2,400 users in batches of 40 make 60 steps; with 256 factors there are 120.
    for factors, steps in ((64, 60), (256, 120)):
        seconds = 1000 * (steps * 1e-6 + 2400 * 1e-9)
        assert speed.of_epoch(2400, 1000, factors) == pytest.approx(seconds)


def test_an_epoch_on_a_card_takes_its_steps_its_products_and_its_bytes():
    """As measured on an H200: Gowalla, and the shape of the Million Song data."""
    measured = {(29_858, 40_981): (0.026, 0.035, 0.08), (1_129_318, 386_133): (1.2, 1.75, 3.0)}
    one = np.ones(1, np.int64)
    for (users, items), of_factors in measured.items():
        sizes = Sizes(users, users, items, 27 * users)
        for factors, seconds in zip((64, 128, 256), of_factors, strict=True):
            penalty = Penalty.of_counts(0.1, one, one)
            problem = Problem("exact", factors, 1, 0, "log", sizes, penalty, 0.07, device="cuda")
            assert epoch_seconds(problem) == pytest.approx(seconds, rel=0.25)


def test_more_factors_take_longer():
    few, many = (measured_speed(d, "log", 1).of_epoch(3000, 3000, d) for d in (8, 512))
    assert many > 2 * few


def test_it_is_told_in_words():
    assert str(Estimate("exact", 64, 32, 16, 5.0, 310_000_000)) == (
        "32 epochs of about 5 s, after a search of about 16: 4 min; 310 MB"
    )
    assert str(Estimate("warp", 64, 8, 0, None, 2_000_000)) == "8 epochs; 2 MB"


def test_a_search_is_counted_where_there_is_one():
    large = rr.make_interactions(400, 200, 12_000, random_state=0)
    small = rr.make_interactions(60, 40, 900, random_state=0)
    assert rr.LatentRoBiRank().estimate(large).search_epochs == FINE.steps
    assert rr.LatentRoBiRank().estimate(small).search_epochs == 0
    assert rr.LatentRoBiRank(regularization=0.2).estimate(large).search_epochs == 0
    assert rr.LatentRoBiRank(iterations=7).estimate(large).epochs == 7
    assert rr.LatentRoBiRank(solver="sgd").estimate(large).search_epochs == 0
    assert rr.WARP().estimate(large).seconds is None


def test_a_search_with_fewer_factors_costs_less_than_so_many_epochs_of_the_fit():
    data = rr.make_interactions(3000, 2000, 40_000, random_state=0)
    assert 1 <= rr.LatentRoBiRank(512).estimate(data).search_epochs < FINE.steps


def test_of_a_large_table_a_share_of_the_users_is_searched(monkeypatch):
    monkeypatch.setattr("robirank.latent.tune.settle._WHOLE", 40_000)
    monkeypatch.setattr("robirank.latent.tune.settle._PART", 20_000)
    data = rr.make_interactions(400, 200, 12_000, random_state=0)  # 80,000 pairs
    assert rr.LatentRoBiRank().estimate(data).search_epochs == -(-COARSE.steps // 4)


def test_the_memory_is_about_what_a_fit_takes():
    data = rr.make_interactions(3000, 4000, 60_000, random_state=0)
    model = rr.LatentRoBiRank(64, solver="exact", iterations=1, regularization=0.2, random_state=0)
    expected = model.estimate(data).bytes
    tracemalloc.start()
    model.fit(data, show_progress=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 * peak < expected < 2 * peak
