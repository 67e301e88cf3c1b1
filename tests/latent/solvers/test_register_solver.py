"""A solver that the library does not know: one class, registered by name, is all it takes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from robirank import (
    Features,
    LatentRoBiRank,
    LatentRoBiRankCV,
    evaluate,
    load_model,
    make_interactions,
    split_ratio,
)
from robirank.latent.solvers import SOLVERS, register_solver
from robirank.losses import list_loss


class GradientDescent:
    """Plain gradient descent on the whole objective, one step an epoch, in NumPy."""

    def __init__(self, problem, interactions, start, workers):
        self._factors, self.U, self.V = start, start.users.rows, start.items.rows
        self._interactions, self._rho = interactions, problem.rho
        self._rate = problem.rate * problem.learning_rate
        self.penalize(problem.penalty)

    def penalize(self, penalty):
        self._penalty_u = penalty.user_weights(self._interactions.user_counts())[:, None]
        self._penalty_v = penalty.item_weights(self._interactions.item_counts())[:, None]

    def epoch(self, number, epochs, should_stop):
        by_u, by_v, loss = self._penalty_u * self.U, self._penalty_v * self.V, 0.0
        for x, u in enumerate(self.U):
            own = slice(*self._interactions.indptr[x : x + 2])
            weights = np.zeros(self._interactions.n_items)
            weights[self._interactions.items[own]] = self._interactions.weights_of(own)
            if weights.any():
                found = list_loss(self.V @ u, weights, self._rho)
                loss += found.loss
                by_u[x] += found.gradient @ self.V
                by_v += np.outer(found.gradient, u).astype(np.float32)
        step = self._rate * (1 - number / epochs)
        self.U -= (step * by_u / np.maximum(1, self._penalty_u)).astype(np.float32)
        self.V -= (step * by_v / np.maximum(1, self._penalty_v)).astype(np.float32)
        return {"loss": loss / self._interactions.n_interactions}

    def factors(self):
        return self._factors

    def state(self):
        return {"U": self.U, "V": self.V}

    def restore(self, state):
        self.U[:], self.V[:] = state["U"], state["V"]


@pytest.fixture(autouse=True)
def registered():
    register_solver("descent", GradientDescent, learning_rate=0.5)
    yield
    del SOLVERS["descent"]


@pytest.fixture(scope="module")
def split():
    return split_ratio(make_interactions(120, 60, 1500, random_state=0), random_state=0)


def model(**changes):
    settings = {"factors": 6, "iterations": 20, "random_state": 0, "regularization": 0.05}
    return LatentRoBiRank(solver="descent", **settings | changes)


def test_it_trains_validates_and_saves(split, tmp_path):
    train, valid = split
    fitted = model().fit(train, show_progress=False, validation=valid)
    losses = [entry["loss"] for entry in fitted.history_]
    assert losses[-1] < 0.8 * losses[0]
    assert fitted.solver_ == "descent"
    best = max(entry["ndcg@20"] for entry in fitted.history_)
    assert evaluate(fitted, train=train, test=valid, k=20)["ndcg@20"] == best
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert_array_equal(loaded.item_factors, fitted.item_factors)
    assert (loaded.solver, loaded.solver_) == ("descent", "descent")


def test_features_need_a_solver_that_knows_them(split):
    features = Features.from_array(np.eye(60))
    with pytest.raises(ValueError, match="solver must be one that knows features; 'descent' has"):
        model().fit(split[0].matrix, show_progress=False, item_features=features)


def test_it_resumes_to_the_same_bits_and_goes_on(split, tmp_path):
    train, valid = split
    whole = model().fit(train, show_progress=False, validation=valid)
    options = {"checkpoint": tmp_path / "fit", "show_progress": False, "validation": valid}
    model().fit(train, callbacks=[lambda report: report.epoch == 5], **options)
    resumed = model().fit(train, resume=True, **options)
    assert_array_equal(resumed.user_factors, whole.user_factors)
    assert [e["loss"] for e in resumed.history_] == [e["loss"] for e in whole.history_]
    before = resumed.objective(train)
    assert resumed.partial_fit(train, 3).objective(train) < before


def test_a_cluster_refuses_it_by_name(split):
    with pytest.raises(ValueError, match=r"must be one of .'sgd'. on a cluster; got 'descent'"):
        model(engine="ray").fit(split[0])


def test_its_penalty_can_be_searched(split):
    search = LatentRoBiRankCV(model(regularization=None, iterations=4))
    chosen = search.search(split[0], show_progress=False)
    assert 0 < chosen["regularization"] < 1
    assert search.cv_results_["kind"].count("path") >= 6
    assert search.cv_results_["kind"].count("fit") >= 3
