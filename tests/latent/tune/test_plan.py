"""How a search for λ is made to fit a table and the time: its sample, its short fits, "auto"."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import robirank as rr
from latent import featured
from robirank.data.user_items import as_user_items
from robirank.latent.solvers.problem import TableShape
from robirank.latent.train.request import FitOptions
from robirank.latent.tune import settle
from robirank.latent.tune.path import COARSE, FINE, PenaltyPath
from robirank.latent.tune.settle import plan_search, within_time

SETTINGS = {"factors": 8, "random_state": 0}
SETTLE = "robirank.latent.tune.settle"


@pytest.fixture(scope="module")
def split():
    data = rr.make_interactions(1200, 300, 60_000, random_state=1)
    return rr.split_ratio(data, random_state=0)


@pytest.fixture(scope="module")
def whole(split):
    return rr.LatentRoBiRank(**SETTINGS).fit(split[0], show_progress=False)


def recall(model, split):
    return rr.evaluate(model, train=split[0], test=split[1], k=20)["recall@20"]


# The plan


def test_a_small_table_is_searched_whole_in_fine_steps():
    plan = plan_search(20_000, 25_000)
    assert (plan.share, plan.fall) == (1.0, FINE)
    assert plan.epochs == FINE.steps


@pytest.mark.parametrize(
    ("n_users", "n_items", "share"),
    [(20_001, 25_000, 1.6e8 / (20_001 * 25_000)), (30_000, 40_000, 2 / 15), (10**6, 10**5, 1 / 8)],
)
def test_of_a_large_table_so_many_pairs_are_searched_or_an_eighth(n_users, n_items, share):
    plan = plan_search(n_users, n_items)
    assert plan.share == pytest.approx(share)
    assert plan.fall is COARSE
    assert plan.epochs == pytest.approx(share * COARSE.steps)


@given(st.integers(1, 10**7), st.integers(1, 10**7), st.one_of(st.just(np.inf), st.floats(-1, 1e6)))
def test_a_plan_keeps_to_its_time(n_users, n_items, epochs):
    plan, unlimited = plan_search(n_users, n_items, epochs), plan_search(n_users, n_items)
    assert 0 <= plan.share <= unlimited.share <= 1
    assert plan.epochs <= max(0.0, epochs) * (1 + 1e-9)
    if unlimited.epochs <= epochs:
        assert plan == unlimited


def test_a_little_time_is_used_up_by_coarse_steps():
    plan = plan_search(1000, 1000, epochs_in_time=4.0)
    assert plan.fall is COARSE
    assert plan.share == pytest.approx(4.0 / COARSE.steps)


# A sample


def test_a_search_in_a_sample_is_as_good_as_one_in_the_whole_table(split, whole, monkeypatch):
    cells = 1200 * 300
    monkeypatch.setattr(f"{SETTLE}._WHOLE", 0.9 * cells)
    monkeypatch.setattr(f"{SETTLE}._PART", 0.4 * cells)
    seen = []
    follow = settle.follow_path
    monkeypatch.setattr(
        f"{SETTLE}.follow_path", lambda *a: seen.append((a[1], a[-1])) or follow(*a)
    )
    model = rr.LatentRoBiRank(**SETTINGS).fit(split[0], show_progress=False)
    ((part, fall),) = seen
    assert part.train.n_users == 480
    assert fall is COARSE
    assert 0.5 < model.regularization_ / whole.regularization_ < 2
    assert recall(model, split) > 0.98 * recall(whole, split)


def test_a_sample_in_which_too_little_is_held_out_is_no_end_of_the_fit(split, monkeypatch):
    """A table of very many pairs, but few interactions."""
    monkeypatch.setattr(f"{SETTLE}._WHOLE", 1.0)
    monkeypatch.setattr(f"{SETTLE}._PART", 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a time limit is not to blame
        model = rr.LatentRoBiRank(iterations=1, **SETTINGS).fit(split[0], show_progress=False)
    assert model.regularization_ > 0


def test_a_validation_set_is_sampled_with_its_users(split, monkeypatch):
    cells = 1200 * 300
    monkeypatch.setattr(f"{SETTLE}._WHOLE", 0.9 * cells)
    monkeypatch.setattr(f"{SETTLE}._PART", 0.5 * cells)
    seen = []
    follow = settle.follow_path
    monkeypatch.setattr(f"{SETTLE}.follow_path", lambda *a: seen.append(a[1]) or follow(*a))
    rr.LatentRoBiRank(**SETTINGS).fit(split[0], show_progress=False, validation=split[1])
    (part,) = seen
    assert part.train.n_users == part.held_out.n_users == 600
    assert (part.held_out.user_counts() > 0).all()


# Short fits


def searched_with(values, split, monkeypatch, iterations=None):
    """The λ of a fit whose path has these values, that of the path, and the short fits."""
    path = PenaltyPath(0.3 * 0.9 ** np.arange(len(values)), np.asarray(values, float))
    fits = []

    def fit(problem, *_, **__):
        fits.append(problem)
        return {"values": [-((np.log(problem.penalty.regularization / (1.21 * path.best()))) ** 2)]}

    monkeypatch.setattr(f"{SETTLE}.follow_path", lambda *_: path)
    monkeypatch.setattr(f"{SETTLE}.whole_fit", fit)
    monkeypatch.setattr(f"{SETTLE}.scale_of_table", lambda *_: 1.0)
    model = rr.LatentRoBiRank(iterations=iterations, **SETTINGS).fit(split[0], show_progress=False)
    return model.regularization_, path.best(), fits


@pytest.mark.parametrize(("iterations", "epochs"), [(None, 6), (4, 4)])
def test_a_table_that_is_learned_quickly_gets_short_fits(split, monkeypatch, iterations, epochs):
    values = 1 - 0.01 * (np.arange(12.0) - 5) ** 2  # .75 after an epoch
    found, of_path, fits = searched_with(values, split, monkeypatch, iterations)
    assert found == pytest.approx(1.21 * of_path)
    assert {problem.epochs for problem in fits} == {epochs}
    assert 3 <= len(fits) <= 6


def test_a_table_that_is_learned_slowly_gets_none(split, monkeypatch):
    values = 1 - 0.02 * (np.arange(12.0) - 5) ** 2  # .5 after an epoch
    found, of_path, fits = searched_with(values, split, monkeypatch)
    assert found == of_path
    assert fits == []


# Whole fits, where there are features


def looked_at_closely(monkeypatch, content=None, best=None, **settings):
    """A fit with features, and its fits: problem and content weights; λ = ``best`` is the best."""
    table, _, items = featured.shop()
    monkeypatch.setattr(f"{SETTLE}.LEAST_HELD_OUT", 1)
    monkeypatch.setattr(f"{SETTLE}.scale_of_table", lambda *_: 1.0)
    seen = []

    def fit(problem, split, workers, content=None, should_stop=None):
        seen.append((problem, content))
        reg = problem.penalty.regularization
        return {"values": [0.5 if best is None else -(np.log(reg / best) ** 2)]}

    monkeypatch.setattr(f"{SETTLE}.whole_fit", fit)
    model = featured.model(content=content, regularization=None, **settings)
    return model.fit(table, show_progress=False, item_features=items), seen


@pytest.mark.parametrize("content", [None, (2.0, 8.0, 0.7)])
def test_fits_with_features_are_whole_ones_under_the_content_weights_that_are_given(
    content, monkeypatch
):
    model, seen = looked_at_closely(monkeypatch, content, iterations=11)
    assert len(seen) >= 2
    assert {tuple(weights) for _, weights in seen} == {content or (0.0, 0.0, 1.0)}
    assert {problem.epochs for problem, _ in seen} == {11}
    assert model.n_iter_ == 11


@pytest.mark.parametrize("quick", [0.0, 1.0])
def test_with_features_the_best_fit_tells_lambda_however_quickly_a_table_is_learned(
    quick, monkeypatch
):
    monkeypatch.setattr(PenaltyPath, "quickness", lambda _: quick)
    monkeypatch.setattr(PenaltyPath, "best", lambda _: 0.2)
    model, seen = looked_at_closely(monkeypatch, best=0.31)
    regs = sorted(problem.penalty.regularization for problem, _ in seen)
    assert regs == pytest.approx([0.2, 0.24, 0.288, 0.3456])
    assert model.regularization_ == pytest.approx(0.31)


def test_fits_leave_half_of_the_time_of_a_search_to_the_content_weights(monkeypatch):
    table, _, items = featured.shop()
    left, late = [30.0], []  # of which a search gets ten seconds

    def closely(*arguments):
        left[0] = 24.9
        late.append(arguments[-1]())
        return 0.2

    def content(*arguments):
        late.append(arguments[-1]())

    monkeypatch.setattr(f"{SETTLE}.LEAST_HELD_OUT", 1)
    monkeypatch.setattr(FitOptions, "seconds_left", lambda _: left[0])
    monkeypatch.setattr(f"{SETTLE}._closely", closely)
    monkeypatch.setattr(f"{SETTLE}.search_content", content)
    model = featured.model(content=None, regularization=None)
    model.fit(table, show_progress=False, item_features=items, time_limit=30)
    assert late == [True, False]


# More than 64 factors


def test_a_search_has_64_factors_at_most(monkeypatch):
    data = rr.make_interactions(300, 200, 12_000, random_state=0)
    seen = []
    follow = settle.follow_path
    monkeypatch.setattr(f"{SETTLE}.follow_path", lambda *a: seen.append(a[0].factors) or follow(*a))
    usual, wide, narrow = (
        rr.LatentRoBiRank(d, iterations=1, random_state=0).fit(data, show_progress=False)
        for d in (64, 128, 16)
    )
    assert seen == [64, 64, 16]
    assert wide.regularization_ == pytest.approx(2**0.06 * usual.regularization_)
    assert wide.item_factors.shape == (200, 128)
    assert narrow.item_factors.shape == (200, 16)


def test_many_factors_are_learned_in_smaller_steps():
    """By the root of the factors beyond 64, and of the steps, which are twice as many with 256."""
    rates = [
        settle.settle_by_shape(rr.LatentRoBiRank(d, solver=solver).request(), shape(60, 50, 900))
        for solver in ("exact", "sgd")
        for d in (16, 64, 256)
    ]
    expected = [0.07, 0.07, 0.07 / 8**0.5, 0.1, 0.1, 0.1]
    assert [problem.learning_rate for problem in rates] == pytest.approx(expected)


# "auto" within a time limit


def shape(n_users, n_items, n_interactions=20_000):
    table = rr.make_interactions(n_users, n_items, n_interactions, random_state=0)
    return TableShape.of_user_items(as_user_items(table))


@pytest.mark.parametrize(
    ("given", "seconds", "solver"),
    [
        ({"regularization": 0.2}, 41.0, "exact"),  # four epochs
        ({"regularization": 0.2}, 39.0, "sgd"),
        ({}, 61.0, "exact"),  # a search takes a third of the time
        ({}, 59.0, "sgd"),
        ({"regularization": 0.2, "iterations": 2}, 21.0, "exact"),  # no more than two are asked for
        ({"solver": "exact"}, 0.1, "exact"),
        ({"solver": "sgd"}, 1e9, "sgd"),
        ({}, np.inf, "auto"),
    ],
)
def test_auto_takes_the_solver_that_the_time_leaves_room_for(given, seconds, solver, monkeypatch):
    monkeypatch.setattr(f"{SETTLE}.epoch_seconds", lambda _: 10.0)
    request = rr.LatentRoBiRank(**given).request()
    assert within_time(request, shape(200, 150), seconds).solver == solver


def test_a_large_table_is_fitted_exactly_where_there_is_time(monkeypatch):
    """However many pairs it has, of which "auto" without a limit takes only so many."""
    monkeypatch.setattr("robirank.latent.solvers.EXACT_LIMIT", 1.0)
    monkeypatch.setattr(f"{SETTLE}.epoch_seconds", lambda _: 0.5)
    data = rr.make_interactions(60, 50, 900, random_state=0)
    model = rr.LatentRoBiRank(4, iterations=2, regularization=0.2, random_state=0)
    assert model.fit(data, show_progress=False).solver_ == "sgd"
    assert model.fit(data, show_progress=False, time_limit=600).solver_ == "exact"
