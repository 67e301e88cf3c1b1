"""A Ray cluster on this machine for the tests that need one."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import robirank as rr
from engine import clusters


@pytest.fixture(scope="session")
def ray(s3):
    ray = pytest.importorskip("ray", reason="needs ray: pip install 'robirank[ray]'")
    yield ray
    ray.shutdown()


@pytest.fixture
def ray_cluster(ray):
    """Ray in this process, with places for four workers; it stays from test to test."""
    for left in (2, 1, 0):
        if ray.is_initialized():
            break
        try:
            start_ray(ray)
        except Exception:  # its own patience of 30 s may be too short on a busy machine
            ray.shutdown()
            if not left:
                raise
    return ray


def start_ray(ray):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(
            address="local",
            num_cpus=4,
            object_store_memory=100_000_000,
            include_dashboard=False,
            logging_level="error",
            log_to_driver=False,
        )


@pytest.fixture(scope="session")
def data():
    return clusters.make_data()


@pytest.fixture(scope="session")
def partitions(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("partitions")
    return rr.partition(data, folder, parts=clusters.PARTS, random_state=3)


@pytest.fixture(scope="session")
def undisturbed(partitions):
    """The model that every run must give, whatever happens to it."""
    model = rr.LatentRoBiRank(num_threads=1, **clusters.SETTINGS)
    return model.fit(partitions, show_progress=False)


@pytest.fixture(scope="session")
def validation(data):
    """Items that each user does not have, some users without any."""
    rng = np.random.default_rng(0)
    has = data.matrix.toarray() > 0
    held_out = (rng.random(has.shape) < 0.05) & ~has
    held_out[::7] = False
    return rr.Interactions.from_matrix(sp.csr_matrix(held_out), users=data.users, items=data.items)
