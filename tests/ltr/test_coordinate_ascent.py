"""Coordinate ascent: it climbs, it ends where no single step helps, and the slow search agrees."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from robirank import make_ranking
from robirank.ltr.coordinate_ascent import CoordinateAscent
from robirank.metrics import average_precision, ndcg


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=25, n_docs=12, n_features=5, noise=0.5, random_state=1)


def measure(scores, data, metric="ndcg"):
    if metric == "map":
        return average_precision(data.y, scores, data.qid, empty="skip")
    return ndcg(data.y, scores, data.qid, k=10, empty="skip")


def candidate_steps(weight, n_steps):
    """0.001 · (1, 3, 7, …) up and down, finer for a small weight, and the step to 0."""
    first = 0.05 * abs(weight) if weight != 0 and abs(weight) < 0.002 else 0.001
    lengths = [first * (2**j - 1) for j in range(1, n_steps + 1)]
    return sorted([*lengths, *(-t for t in lengths), -weight], key=lambda t: (abs(t), -t))


def slow_ascent(data, start, orders, *, metric, slack, n_steps):
    """One climb, candidate by candidate."""
    X = data.X.astype(float)

    def objective(w):
        size = np.abs(w).sum()
        w = w / size if size else w
        return measure(X @ w, data, metric) - slack * np.linalg.norm(w - start)

    w, best = start.copy(), objective(start)
    for order in orders:
        for f in order:
            found = (best, None)
            for step in candidate_steps(w[f], n_steps):
                trial = w.copy()
                trial[f] += step
                value = objective(trial)
                if value > found[0] + 1e-10:
                    found = (value, trial)
            if found[1] is not None:
                best, w = found[0], found[1] / np.abs(found[1]).sum()
    return w, best


@pytest.mark.parametrize("metric", ["ndcg", "map"])
@pytest.mark.parametrize("slack", [0.0, 0.05])
def test_agrees_with_the_slow_search(data, metric, slack):
    model = CoordinateAscent(
        metric, n_restarts=1, n_steps=12, max_iter=2, tol=0, slack=slack, random_state=3
    ).fit(data.X, data.y, qid=data.qid)
    rng = np.random.RandomState(3)
    orders = [rng.permutation(5) for _ in range(model.n_iter_)]
    coef, best = slow_ascent(data, np.full(5, 0.2), orders, metric=metric, slack=slack, n_steps=12)
    assert_allclose(model.coef_, coef, rtol=1e-9, atol=1e-12)
    assert model.objective_curve_[-1] == pytest.approx(best)
    assert best > model.objective_curve_[0]


@pytest.mark.parametrize("metric", ["ndcg", "map"])
def test_objective_is_the_measure_and_never_falls(data, metric):
    model = CoordinateAscent(metric, n_restarts=1, tol=0, random_state=0)
    model.fit(data.X, data.y, qid=data.qid)
    curve = model.objective_curve_
    assert len(curve) == model.n_iter_ + 1
    assert (np.diff(curve) >= 0).all()
    assert curve[0] == pytest.approx(measure(data.X.sum(axis=1), data, metric))
    assert curve[-1] == pytest.approx(measure(model.predict(data.X), data, metric))
    assert curve[-1] > curve[0]


def test_ends_where_no_single_step_helps(data):
    model = CoordinateAscent(n_restarts=1, n_steps=15, tol=0, random_state=0)
    model.fit(data.X, data.y, qid=data.qid)
    assert model.n_iter_ < model.max_iter
    X = data.X.astype(float)
    for f in range(5):
        for step in candidate_steps(model.coef_[f], 15):
            trial = model.coef_.copy()
            trial[f] += step
            assert measure(X @ trial, data) <= model.objective_curve_[-1] + 1e-9


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("metric", ["ndcg", "map"])
def test_reaches_the_perfect_ranking_of_one_feature(sign, metric):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 200)
    qid = np.repeat(np.arange(10), 20)
    X = rng.standard_normal((200, 6))
    X[:, 2] = sign * y
    model = CoordinateAscent(metric, n_restarts=1, random_state=0).fit(X, y, qid=qid)
    assert model.objective_curve_[-1] == pytest.approx(1.0)
    assert np.argmax(np.abs(model.coef_)) == 2
    assert np.sign(model.coef_[2]) == sign


def test_a_weight_can_become_exactly_zero():
    # The second feature is noise so large that any weight but 0 drowns the first.
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = np.column_stack([y, 1e12 * rng.standard_normal(60)])
    model = CoordinateAscent(n_restarts=1, random_state=0).fit(X, y)
    assert model.coef_.tolist() == [1.0, 0.0]


def test_small_weights_are_searched_in_smaller_steps():
    data = make_ranking(n_queries=3, n_docs=6, n_features=300, random_state=0)
    model = CoordinateAscent(n_restarts=1, n_steps=3, max_iter=1, random_state=0)
    model.fit(data.X, data.y, qid=data.qid)
    order = np.random.RandomState(0).permutation(300)
    coef, _ = slow_ascent(data, np.full(300, 1 / 300), [order], metric="ndcg", slack=0.0, n_steps=3)
    assert_allclose(model.coef_, coef, rtol=1e-9)


def test_weights_add_up_to_one(data):
    model = CoordinateAscent(n_restarts=2, random_state=0).fit(data.X, data.y, qid=data.qid)
    assert np.abs(model.coef_).sum() == pytest.approx(1.0)


def test_slack_pulls_towards_the_start(data):
    def distance(slack):
        model = CoordinateAscent(n_restarts=1, slack=slack, random_state=0)
        model.fit(data.X, data.y, qid=data.qid)
        return np.linalg.norm(model.coef_ - 0.2)

    assert distance(100.0) == 0.0
    assert distance(0.3) < distance(0.0)


def test_the_best_start_is_kept(data):
    model = CoordinateAscent(n_restarts=6, max_iter=1, random_state=0)
    model.fit(data.X, data.y, qid=data.qid)
    assert len(model.restart_objectives_) == 6
    assert len(set(model.restart_objectives_)) > 1
    assert model.objective_curve_[-1] == max(model.restart_objectives_)
    assert measure(model.predict(data.X), data) == pytest.approx(max(model.restart_objectives_))
    first = CoordinateAscent(n_restarts=1, max_iter=1, random_state=0)
    first.fit(data.X, data.y, qid=data.qid)
    assert first.objective_curve_[0] == pytest.approx(measure(data.X.sum(axis=1), data))


def test_passes_end_when_they_add_too_little(data):
    patient = CoordinateAscent(n_restarts=1, tol=0, random_state=0)
    patient.fit(data.X, data.y, qid=data.qid)
    hasty = CoordinateAscent(n_restarts=1, tol=0.5, random_state=0)
    hasty.fit(data.X, data.y, qid=data.qid)
    assert hasty.n_iter_ == 1 < patient.n_iter_
    assert hasty.objective_curve_ == patient.objective_curve_[:2]


def test_seed_decides(data):
    fits = [
        CoordinateAscent(n_restarts=2, random_state=s).fit(data.X, data.y, qid=data.qid).coef_
        for s in (0, 0, 1)
    ]
    assert_array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])


def test_validation_keeps_the_best_pass_and_start(data):
    other = make_ranking(n_queries=15, n_docs=12, n_features=5, noise=2.0, random_state=5)
    model = CoordinateAscent(n_restarts=4, tol=0, random_state=0)
    model.fit(data.X, data.y, qid=data.qid, validation=other)
    assert len(model.validation_scores_) == model.n_iter_
    best = max(model.validation_scores_)
    assert best == model.validation_scores_[model.best_iter_ - 1]
    assert_allclose(model.score(other.X, other.y, qid=other.qid), best)
    # Each start on its own does no better on these queries.
    blind = CoordinateAscent(n_restarts=4, tol=0, random_state=0)
    blind.fit(data.X, data.y, qid=data.qid)
    assert best > blind.score(other.X, other.y, qid=other.qid)
    assert blind.best_iter_ == blind.n_iter_
    assert blind.validation_scores_ == []
    assert model.restart_objectives_ == blind.restart_objectives_
    sparse = (sp.csr_matrix(other.X), other.y, other.qid)
    again = CoordinateAscent(n_restarts=4, tol=0, random_state=0)
    again.fit(data.X, data.y, qid=data.qid, validation=sparse)
    assert_allclose(again.coef_, model.coef_)


def test_threads_do_not_change_a_bit_of_a_large_fit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 4)).astype(np.float32)
    y = rng.integers(0, 3, len(X))
    fits = [
        CoordinateAscent(n_restarts=1, max_iter=2, random_state=0, num_threads=n)
        .fit(X, y, qid=np.arange(len(X)) // 50)
        .coef_
        for n in (1, 2, 3)
    ]
    assert_array_equal(fits[1], fits[0])
    assert_array_equal(fits[2], fits[0])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_restarts": 0}, "n_restarts must be a positive integer; got 0"),
        ({"n_steps": 1.5}, "n_steps must be a positive integer; got 1.5"),
        ({"max_iter": 0}, "max_iter must be a positive integer; got 0"),
        ({"tol": -1}, "tol must be a finite number >= 0; got -1"),
        ({"slack": np.inf}, "slack must be a finite number >= 0; got inf"),
        ({"metric": "mrr"}, "metric must be one of"),
        ({"k": 0}, "k must be a positive integer or None; got 0"),
    ],
)
def test_bad_parameters_are_named(data, params, message):
    with pytest.raises(ValueError, match=message):
        CoordinateAscent(**params).fit(data.X, data.y, qid=data.qid)
