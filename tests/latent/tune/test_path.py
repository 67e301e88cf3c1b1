"""The search for a penalty: the path, its peak, and the fits that follow it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import robirank as rr
from robirank._workers import Workers
from robirank.data.user_items import as_user_items
from robirank.latent.tune.path import COARSE, FINE, PenaltyPath, follow_path, hold_out
from robirank.latent.tune.settle import settle_by_table
from robirank.latent.tune.split import LEAST_HELD_OUT

SETTINGS = {"factors": 8, "random_state": 0}


@pytest.fixture(scope="module")
def split():
    return rr.split_ratio(rr.make_interactions(900, 300, 20_000, random_state=1), random_state=0)


@pytest.fixture(scope="module")
def default(split):
    return rr.LatentRoBiRank(**SETTINGS).fit(split[0], show_progress=False)


def recall(model, split):
    return rr.evaluate(model, train=split[0], test=split[1], k=20)["recall@20"]


def path_of(values, first=1.0, ratio=0.9, lag=1.0):
    return PenaltyPath(first * ratio ** np.arange(len(values)), np.asarray(values, float), lag=lag)


# The peak


@given(st.floats(-1.4, -0.4), st.floats(0.05, 2.0))
def test_the_top_of_a_parabola_is_found(top, width):
    at = 0.0 + np.log(0.9) * np.arange(20)
    path = PenaltyPath(np.exp(at), 1 - width * (at - top) ** 2, lag=0.5)
    lag = 0.5 + 0.27 * path.quickness() ** 4
    assert_allclose(path.best() * lag, np.exp(top), rtol=1e-4)


def test_the_quicker_a_table_is_learned_the_less_lags_behind():
    values = np.append(1 - 0.02 * (np.arange(12.0) - 6) ** 2, [0.1] * 3)
    best = []
    for first in (0.0, 0.5, 0.9, 1.0):
        path = path_of([first, *values], lag=0.6)
        assert path.quickness() == first
        best.append(path.best())
    assert_allclose(best, best[0] * 0.6 / (0.6 + 0.27 * np.array([0.0, 0.5, 0.9, 1.0]) ** 4))


def test_a_metric_that_is_nowhere_above_zero_has_no_quickness():
    assert path_of(np.zeros(9)).quickness() == 0.0


def test_a_fall_begins_where_it_says_and_keeps_its_ratio():
    regs = np.array([*COARSE.penalties(2.0)])
    assert regs[0] == 2.0 * COARSE.highest
    assert_allclose(regs[1:] / regs[:-1], COARSE.ratio)
    assert COARSE.steps < FINE.steps


def test_noise_of_single_epochs_does_not_decide():
    values = 1 - 0.02 * (np.arange(20.0) - 9) ** 2
    values[2] = 0.9  # one lucky epoch
    assert path_of(values).peak() == 9


def test_a_path_knows_its_end_and_its_borders():
    rising, falling = np.arange(8.0), -np.arange(8.0)
    assert not path_of(rising).is_past()
    assert path_of(rising).at_border()
    assert path_of(falling).is_past()
    assert path_of(falling).at_border()
    both = path_of([*rising, *(7 - np.arange(1, 8.0))])
    assert both.is_past()
    assert not both.at_border()
    assert 0.9**14 <= both.best() <= 1.0


# Holding out


def test_held_out_interactions_keep_their_weights(split):
    counts = rr.Interactions.from_matrix(split[0].matrix.multiply(3).tocsr())
    interactions = as_user_items(counts, "count")
    split = hold_out(interactions, seed=0, metric="ndcg@20")
    train, taken = split.train, split.held_out
    assert train.n_interactions + taken.n_interactions == interactions.n_interactions
    assert_allclose(taken.n_interactions / interactions.n_interactions, 0.1, atol=0.02)
    assert (taken.weight == 3).all()
    assert (train.user_counts()[interactions.user_counts() > 0] > 0).all()
    pairs = [
        np.repeat(np.arange(t.n_users), t.user_counts()) * t.n_items + t.items
        for t in (train, taken, interactions)
    ]
    assert_array_equal(np.sort(np.concatenate(pairs[:2])), pairs[2])


# The search in a fit


def must_not_search(*_):
    pytest.fail("searched")


def test_the_default_is_near_the_best_of_a_grid(split, default):
    regs = default.regularization_ * 1.25 ** np.arange(-3, 4.0)
    fits = [
        rr.LatentRoBiRank(regularization=reg, **SETTINGS).fit(split[0], show_progress=False)
        for reg in regs
    ]
    assert recall(default, split) >= 0.95 * max(recall(model, split) for model in fits)


def test_a_fit_with_what_was_found_has_the_same_bits(split, default):
    given = rr.LatentRoBiRank(regularization=default.regularization_, **SETTINGS)
    given.fit(split[0], show_progress=False)
    assert_array_equal(given.item_factors, default.item_factors)
    assert given.regularization_ == default.regularization_
    assert given.noise_level_ == default.noise_level_


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_change_nothing(split, default, threads):
    model = rr.LatentRoBiRank(num_threads=threads, **SETTINGS)
    assert_array_equal(model.fit(split[0], show_progress=False).user_factors, default.user_factors)


def test_a_validation_set_is_what_the_path_is_watched_on(split, default, monkeypatch):
    monkeypatch.setattr("robirank.latent.tune.settle.hold_out", lambda *_: pytest.fail("held out"))
    model = rr.LatentRoBiRank(**SETTINGS)
    model.fit(split[0], show_progress=False, validation=split[1])
    # From .06 to .15 the metric is flat, so that λ says less than what the model is worth.
    assert recall(model, split) > 0.98 * recall(default, split)


def test_a_time_limit_that_does_not_bind_changes_nothing(split, default):
    model = rr.LatentRoBiRank(**SETTINGS).fit(split[0], show_progress=False, time_limit=3600)
    assert model.regularization_ == default.regularization_
    assert_array_equal(model.item_factors, default.item_factors)


def test_a_short_time_limit_skips_the_search_and_says_so(split):
    model = rr.LatentRoBiRank(solver="exact", **SETTINGS)
    with (
        pytest.warns(UserWarning, match="was over in the first epoch"),
        pytest.warns(UserWarning, match="time_limit=1e-06 leaves too little time to search for λ"),
    ):
        model.fit(split[0], show_progress=False, time_limit=1e-6)
    problem = settle_by_table(model.request(), as_user_items(split[0]))
    assert model.regularization_ == problem.penalty.regularization


def test_a_search_within_a_time_limit_may_look_at_some_users_only(split, default, monkeypatch):
    monkeypatch.setattr("robirank.latent.tune.settle.epoch_seconds", lambda *_: 1000.0)
    seen = []

    def follow(problem, parts, *rest):
        seen.append(parts.train.n_users)
        return follow_path(problem, parts, *rest)

    monkeypatch.setattr("robirank.latent.tune.settle.follow_path", follow)
    limit = 3 * COARSE.steps * 1000.0 * 0.75  # a third is enough for three quarters of the users
    model = rr.LatentRoBiRank(**SETTINGS).fit(split[0], show_progress=False, time_limit=limit)
    assert 0.7 < seen[0] / 900 < 0.8
    assert recall(model, split) > 0.98 * recall(default, split)


def test_a_path_that_is_cut_short_is_not_believed(split):
    request = rr.LatentRoBiRank(**SETTINGS).request()
    parts = hold_out(as_user_items(split[0]), 0, "ndcg@20")
    told = []
    with Workers(1) as workers:
        problem = settle_by_table(request, parts.train)
        path = follow_path(problem, parts, workers, told.append, lambda: len(told) == 3)
    assert len(path.values) == 3
    assert not path.is_complete


def test_small_tables_take_the_default(split, monkeypatch):
    monkeypatch.setattr(
        "robirank.latent.tune.settle.follow_path", lambda *_: pytest.fail("searched")
    )
    small = rr.make_interactions(100, 50, 5 * LEAST_HELD_OUT, random_state=0)
    rr.LatentRoBiRank(**SETTINGS).fit(small, show_progress=False)
    rr.LatentRoBiRank(solver="sgd", iterations=1, **SETTINGS).fit(split[0], show_progress=False)


def test_a_resumed_fit_does_not_search_again(split, default, tmp_path, monkeypatch):
    options = {"checkpoint": tmp_path / "fit", "show_progress": False}
    model = rr.LatentRoBiRank(**SETTINGS)
    model.fit(split[0], **options, callbacks=[lambda report: report.epoch == 3])
    monkeypatch.setattr(
        "robirank.latent.tune.settle.follow_path", lambda *_: pytest.fail("searched")
    )
    again = rr.LatentRoBiRank(**SETTINGS).fit(split[0], **options, resume=True)
    assert_array_equal(again.item_factors, default.item_factors)


def test_it_says_what_it_does(split, capfd):
    rr.LatentRoBiRank(**SETTINGS).fit(split[0])
    shown = capfd.readouterr().err
    assert "looking for λ" in shown
    assert "LatentRoBiRank (exact, λ = 0." in shown


@pytest.mark.parametrize("name", ["sgd", "exact"])
def test_any_solver_can_follow_a_path(split, name):
    request = rr.LatentRoBiRank(**SETTINGS, solver=name, parts=2).request()
    parts = hold_out(as_user_items(split[0]), 0, "ndcg@20")
    told = []
    with Workers(1) as workers:
        path = follow_path(settle_by_table(request, parts.train), parts, workers, told.append)
    assert len(told) == len(path.values)
    assert (np.diff(path.regularizations) < 0).all()
    assert path.values.max() > {"sgd": 1.5, "exact": 1.0}[name] * path.values[0]
    assert path.peak() > 0


# What else reads λ


def test_a_weighting_does_not_change_the_scale_of_the_penalty(split):
    plain = rr.LatentRoBiRank(regularization=0.2, iterations=4, **SETTINGS)
    plain.fit(split[0], show_progress=False)
    fives = rr.Interactions.from_matrix((split[0].matrix * 5).tocsr())
    counted = rr.LatentRoBiRank(regularization=0.2, iterations=4, weighting="count", **SETTINGS)
    counted.fit(fives, show_progress=False)
    # Singular vectors may have other signs.
    one, other = (model.user_factors @ model.item_factors.T for model in (plain, counted))
    assert_allclose(other, one, atol=5e-3)


def test_partial_fit_keeps_the_ratio_to_the_noise(split, default, tmp_path):
    default.save(tmp_path / "model")
    model = rr.load_model(tmp_path / "model")
    whole = rr.make_interactions(900, 300, 20_000, random_state=1)
    ratio = model.regularization_ / model.noise_level_
    model.partial_fit(whole, iterations=1)
    assert model.noise_level_ < default.noise_level_
    assert_allclose(model.regularization_ / model.noise_level_, ratio)
    given = rr.LatentRoBiRank(regularization=0.3, **SETTINGS).fit(split[0], show_progress=False)
    assert given.partial_fit(whole, iterations=1).regularization_ == 0.3
