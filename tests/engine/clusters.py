"""What the tests of the cluster share: tiny data, the undisturbed model, and ways to disturb."""

import os
import signal
from functools import partial

import numpy as np
from numpy.testing import assert_array_equal

import robirank as rr
from robirank.engine.ray.driver import ClusterEngine

PARTS = 4
SETTINGS = {
    "factors": 6,
    "solver": "sgd",
    "iterations": 3,
    "negatives": 4,
    "random_state": 3,
}


def make_data():
    """Users and items with outside ids, some of them without interactions."""
    made = rr.make_interactions(300, 90, 3000, random_state=1)
    matrix = made.matrix.copy()
    matrix.data[:] = np.random.default_rng(0).integers(1, 9, matrix.nnz)
    matrix.data[matrix.indptr[5] : matrix.indptr[6]] = 0
    users = [f"u{n}" for n in range(300)]
    return rr.Interactions.from_matrix(matrix, users=users, items=np.arange(90) * 7)


def on_ray(folder, **options):
    """A model that trains on the cluster that this process is connected to."""
    # Checkpoints as often as can be, whatever the speed of the machine.
    settings = {"workers": 2, "checkpoint_seconds": 1e-6, "worker_timeout": 60.0}
    config = rr.RayConfig(folder, **settings | options)
    return rr.LatentRoBiRank(engine=config, **SETTINGS)


def same_factors(one, other):
    assert_array_equal(one.user_factors, other.user_factors)
    assert_array_equal(one.item_factors, other.item_factors)


def kill_worker(engine, number=0):
    os.kill(engine.workers.members[number]["pid"], signal.SIGKILL)


class Disturbance:
    """Does something to the run when something has happened so many times."""

    def __init__(self, monkeypatch, what, times, do):
        self.what, self.left, self.do, self.seen = what, list(times), do, []
        disturbed = partial(ClusterEngine, on_event=self)
        monkeypatch.setattr("robirank.latent.train.cluster.ClusterEngine", disturbed)

    def __call__(self, what, engine):
        self.seen.append(what)
        if what == self.what and self.left and self.seen.count(what) == self.left[0]:
            self.left.pop(0)
            self.do(engine)
