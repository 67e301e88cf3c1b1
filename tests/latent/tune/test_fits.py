"""Fits under several penalties, and the best λ between them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import robirank as rr
from robirank._workers import Workers
from robirank.data.user_items import as_user_items
from robirank.latent.tune.fits import top_of_fits, whole_fit
from robirank.latent.tune.path import hold_out
from robirank.latent.tune.settle import settle_by_table


def search_of(value, together):
    """What a search finds where fits have these values, and the steps that it tried."""
    tried = []

    def values_of(steps):
        tried.append(tuple(steps))
        return {step: value(step) for step in steps}

    return top_of_fits(values_of, together=together), tried


@given(top=st.floats(-3.4, 4.4), width=st.floats(1e-3, 1.0), together=st.booleans())
def test_the_top_of_a_parabola_is_found(top, width, together):
    """Also where it lies some steps away, though no more than six fits are made."""
    if together:
        top = float(np.clip(top, -3.4, 3.4))
    (found, best), tried = search_of(lambda step: 1 - width * (step - top) ** 2, together)
    assert found == pytest.approx(top, abs=1e-6)
    steps = [step for group in tried for step in group]
    assert len(steps) == len(set(steps)) <= 6
    assert best == max(1 - width * (step - top) ** 2 for step in steps)


@pytest.mark.parametrize("together", [False, True])
def test_a_top_that_is_out_of_reach_is_the_last_that_was_tried(together):
    for sign in (-1, 1):
        (found, best), tried = search_of(lambda step, sign=sign: sign * step, together)
        steps = [step for group in tried for step in group]
        assert len(steps) == 6
        assert found == max(steps, key=lambda step: sign * step)
        assert best == sign * found


@pytest.mark.parametrize(("n", "expected"), [(0, 0.0), (1, 0.0), (2, 1.0), (3, 1.75)])
def test_of_fits_that_are_cut_short_the_finished_ones_count(n, expected):
    finished = []

    def values_of(steps):
        in_time = [step for step in steps if len(finished) < n and not finished.append(step)]
        return {step: -((step - 1.75) ** 2) for step in in_time}

    assert top_of_fits(values_of, together=False)[0] == pytest.approx(expected)


def test_three_fits_are_enough_where_the_best_is_inside():
    _, tried = search_of(lambda step: -(step**2), together=True)
    assert tried == [(-1, 0, 1)]
    _, tried = search_of(lambda step: -((step - 1) ** 2), together=False)
    assert tried == [(0, 1), (2,)]


def test_fits_far_from_the_best_do_not_bend_the_parabola():
    """The metric falls off steeply where λ is far too large."""
    (found, _), _ = search_of(lambda step: -abs(step + 3) if step < 1 else -99.0, together=False)
    assert -3.5 < found < -2.5


def test_a_metric_that_is_the_same_everywhere_keeps_the_centre_near():
    (found, best), _ = search_of(lambda _: 0.5, together=True)
    assert -2 <= found <= 2
    assert best == 0.5


def test_a_fit_that_diverged_is_not_the_best():
    values = {-1: 0.2, 0: -1.0, 1: -1.0}
    (found, best), _ = search_of(lambda step: values.get(step, 0.1), together=True)
    assert best == 0.2
    assert found < 0


@pytest.fixture(scope="module")
def split():
    return hold_out(as_user_items(rr.make_interactions(80, 70, 1500, random_state=0)), 0, "ndcg@5")


def problem_under(split, **changes):
    model = rr.LatentRoBiRank(4, solver="exact", iterations=4, random_state=0)
    problem = settle_by_table(model.set_params(**changes).request(), split.train)
    return replace(problem, seed=0)


def test_a_whole_fit_is_worth_what_its_model_is(split):
    problem = problem_under(split, regularization=0.2)
    with Workers(1) as workers:
        (value,) = whole_fit(problem, split, workers)["values"]
    assert 0 < value < 1
    with Workers(2) as workers:
        assert whole_fit(problem, split, workers)["values"] == [value]


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_whole_fit_that_diverges_has_the_least_value(split):
    with Workers(1) as workers:
        problem = problem_under(split, regularization=1e-30, learning_rate=1e38)
        assert whole_fit(problem, split, workers)["values"] == [-1.0]


def test_a_whole_fit_can_be_stopped(split):
    asked = []

    def should_stop():
        asked.append(1)
        return True

    with Workers(1) as workers:
        problem = problem_under(split, regularization=0.2, iterations=1000)
        assert whole_fit(problem, split, workers, should_stop=should_stop)["values"][0] > 0
    assert len(asked) <= 2
