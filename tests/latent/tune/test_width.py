"""How many factors ``factors="auto"`` takes: as many as singular values of a table exceed λ."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import block_diag, csr_matrix

import robirank as rr
from robirank.data.user_items import as_user_items
from robirank.latent.solvers.starts import singular_values
from robirank.latent.tune import search as search_room
from robirank.latent.tune import width
from robirank.latent.tune.path import PenaltyPath
from robirank.latent.tune.settle import settle_by_table
from robirank.latent.tune.width import penalty_growth

SETTINGS = {"solver": "exact", "random_state": 0, "iterations": 2}


def circles(n, size=4):
    """A table of n circles of friends: the users of each take its items, and no others."""
    return csr_matrix(block_diag([np.ones((size, size), np.float32)] * n))


def n_factors(table, **settings):
    model = rr.LatentRoBiRank("auto", **SETTINGS | settings)
    return model.fit(table, show_progress=False).item_factors.shape[1]


@pytest.mark.parametrize("weighting", ["binary", "count"])
def test_singular_values_are_those_of_the_table_on_the_scale_of_the_penalty(weighting):
    rng = np.random.default_rng(0)
    table = (3.0 * (rng.random((30, 20)) < 0.4)).astype(np.float32)
    interactions = as_user_items(csr_matrix(table), weighting)
    model = rr.LatentRoBiRank(4, **SETTINGS, weighting=weighting, regularization=0.2)
    problem = settle_by_table(model.request(), interactions)
    weight = 3.0 if weighting == "count" else 1.0
    R = weight * (table > 0)
    A, B = (
        problem.penalty.users.of(interactions.user_counts()),
        problem.penalty.items.of(interactions.item_counts()),
    )
    M = (R - R.mean(axis=1, keepdims=True)) / np.sqrt(np.outer(A, B)) / (2 * np.log(2))
    expected = np.linalg.svd(M, compute_uv=False)
    assert_allclose(singular_values(problem, interactions, 5), expected[:5], rtol=1e-3)
    assert len(singular_values(problem, interactions, 50)) == 20


@pytest.mark.parametrize(("n", "expected"), [(10, 64), (65, 64), (66, 128), (150, 192)])
def test_there_are_as_many_as_clear_tastes(n, expected):
    """n circles differ along n − 1 directions, all of the same strength."""
    assert n_factors(circles(n), regularization=0.3) == expected


def test_no_more_are_taken_than_ever_paid():
    assert n_factors(circles(400), regularization=0.3, iterations=1) == 256


def test_a_larger_penalty_leaves_fewer_directions():
    table = circles(150)
    interactions = as_user_items(table)
    problem = settle_by_table(rr.LatentRoBiRank(regularization=0.3).request(), interactions)
    strongest = singular_values(problem, interactions, 1)[0]
    assert n_factors(table, regularization=0.99 * strongest) == 192
    assert n_factors(table, regularization=1.01 * strongest) == 64


def test_the_penalty_that_was_given_stays_and_one_that_was_found_grows():
    table = circles(150, size=5)
    given = rr.LatentRoBiRank("auto", **SETTINGS, regularization=0.3)
    assert given.fit(table, show_progress=False).regularization_ == 0.3
    found = rr.LatentRoBiRank("auto", **SETTINGS).fit(table, show_progress=False)
    usual = rr.LatentRoBiRank(**SETTINGS).fit(table, show_progress=False)
    assert found.item_factors.shape[1] == 192
    growth = found.regularization_ / usual.regularization_
    assert growth == pytest.approx(penalty_growth(192))


def test_the_model_is_that_of_the_number_by_name():
    settings = SETTINGS | {"regularization": 0.3}
    auto = rr.LatentRoBiRank("auto", **settings).fit(circles(150), show_progress=False)
    named = rr.LatentRoBiRank(192, **settings).fit(circles(150), show_progress=False)
    assert_array_equal(auto.item_factors, named.item_factors)


def test_within_a_time_limit_there_are_as_many_as_there_is_time_for(monkeypatch):
    by_factors = {64: 1.0, 128: 2.0, 192: 3.0, 256: 4.0}
    monkeypatch.setattr(width, "epoch_seconds", lambda problem: by_factors[problem.factors])
    interactions = as_user_items(circles(300))
    request = rr.LatentRoBiRank("auto", **SETTINGS, regularization=0.3).request()
    problem = settle_by_table(request, interactions)  # of two epochs
    for seconds, expected in [(9.0, 256), (7.9, 192), (4.1, 128), (3.0, 64), (0.5, 64)]:
        assert width.widened(request, problem, interactions, seconds).factors == expected


def test_auto_solver_does_not_get_factors_for_which_it_would_sample(monkeypatch):
    of_130_factors = 600 * 600 * (6.0 * 130 + 200)
    monkeypatch.setattr("robirank.latent.solvers.EXACT_LIMIT", of_130_factors)
    assert n_factors(circles(150), solver="auto", regularization=0.3) == 128
    assert n_factors(circles(150), regularization=0.3) == 192


def test_sampling_takes_64():
    assert n_factors(circles(150), solver="sgd", regularization=0.3) == 64


def test_a_file_and_a_checkpoint_keep_the_number(tmp_path):
    table, settings = circles(150, size=5), SETTINGS | {"random_state": 3}
    whole = rr.LatentRoBiRank("auto", **settings).fit(table, show_progress=False)

    def stop(report):
        return report.epoch == 1

    options = {"show_progress": False, "checkpoint": tmp_path / "fit"}
    rr.LatentRoBiRank("auto", **settings).fit(table, callbacks=[stop], **options)
    resumed = rr.LatentRoBiRank("auto", **settings).fit(table, resume=True, **options)
    assert_array_equal(resumed.item_factors, whole.item_factors)
    resumed.save(tmp_path / "model.safetensors")
    read = rr.load_model(tmp_path / "model.safetensors")
    assert read.factors == "auto"
    read.partial_fit(table, iterations=1)
    assert read.item_factors.shape[1] == 192


@pytest.fixture
def chosen(monkeypatch):
    """A function that gives what a search chose whose path ended at λ = .3."""
    monkeypatch.setattr(PenaltyPath, "best", lambda _: 0.3)
    monkeypatch.setattr(PenaltyPath, "at_border", lambda _: False)

    def chosen(sample_users=50_000, **settings):
        model = rr.LatentRoBiRank("auto", **SETTINGS | settings)
        search = rr.LatentRoBiRankCV(model, sample_users=sample_users)
        return search.fit(circles(150, size=5), False)

    return chosen


def test_a_search_tells_the_number_that_it_chose(chosen):
    search = chosen()
    assert search.best_params_["factors"] == 192
    assert search.best_estimator_.item_factors.shape[1] == 192
    fits = [
        reg
        for kind, reg in zip(
            search.cv_results_["kind"], search.cv_results_["regularization"], strict=True
        )
        if kind == "fit"
    ]
    assert fits[0] == pytest.approx(0.3 * penalty_growth(192))


def test_a_search_on_a_sample_counts_the_directions_of_the_whole_table(chosen):
    assert chosen(sample_users=200).best_params_["factors"] == 192


def test_a_search_takes_no_more_than_the_whole_table_can_afford(chosen, monkeypatch):
    of_130_factors = 750 * 750 * (6.0 * 130 + 200)
    monkeypatch.setattr("robirank.latent.solvers.EXACT_LIMIT", of_130_factors)
    search = chosen(sample_users=500, solver="auto")
    assert search.best_params_["factors"] == 128
    assert search.best_estimator_.solver_ == "exact"


@pytest.mark.parametrize("grid", [{"factors": ["auto", 64]}, {"learning_rate": [0.07, 0.01]}])
def test_where_widths_are_compared_auto_is_counted_first(grid, monkeypatch):
    seen, follow = set(), search_room.follow_path

    def noted(problem, *arguments):
        seen.add(problem.factors)
        return follow(problem, *arguments)

    monkeypatch.setattr(search_room, "follow_path", noted)
    model = rr.LatentRoBiRank("auto", **SETTINGS)
    monkeypatch.setattr(width, "gradient_scale", lambda *_: 3.0)  # the rule's λ is large here
    rr.LatentRoBiRankCV(model, grid=grid).search(circles(150, size=5), False)
    assert seen == ({64, 192} if "factors" in grid else {192})


def test_the_penalty_of_a_fit_without_a_search_is_told():
    table = circles(70)  # too small for a search
    model = rr.LatentRoBiRank("auto", **SETTINGS)
    expected = model.regularization_for(table)
    assert model.fit(table, show_progress=False).regularization_ == expected


def test_a_card_gets_no_more_than_its_kernels_take(monkeypatch):
    monkeypatch.setattr(width, "is_fast", lambda factors, device: factors <= 128)
    assert n_factors(circles(150), regularization=0.3) == 128


def test_nothing_is_counted_where_no_more_can_be_afforded(monkeypatch):
    monkeypatch.setattr("robirank.latent.solvers.EXACT_LIMIT", 600 * 600 * (6.0 * 70 + 200))
    monkeypatch.setattr(width, "singular_values", lambda *_: pytest.fail("counted"))
    assert n_factors(circles(150), solver="auto", regularization=0.3) == 64


def test_the_order_has_as_many_as_the_taste():
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(600), 4)
    items = users // 4 * 4 + rng.permuted(np.tile(np.arange(4), (600, 1)), axis=1).ravel()
    data = rr.Interactions.from_arrays(users, items, times=np.arange(len(users)))
    settings = SETTINGS | {"regularization": 0.3, "iterations": 1, "order": True}
    model = rr.LatentRoBiRank("auto", **settings, order_weight=1.0).fit(data, show_progress=False)
    assert model.item_factors.shape[1] == 2 * 192


def test_what_a_fit_will_cost_counts_them():
    cost = rr.LatentRoBiRank("auto", **SETTINGS, regularization=0.3).estimate(circles(150))
    assert cost.factors == 192


def test_an_error_says_what_may_be_given():
    table = circles(3)
    with pytest.raises(rr.ArgumentError, match="a positive integer or \"auto\"; got 'many'"):
        rr.LatentRoBiRank("many").fit(table)
    with pytest.raises(rr.ArgumentError, match="factors must be a positive integer; got 'auto'"):
        rr.WARP("auto").fit(table)
