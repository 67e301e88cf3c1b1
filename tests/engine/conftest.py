"""A Ray cluster on this machine for the tests that need one."""

import socket
import warnings

import pytest

import robirank as rr
from engine import clusters


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """A store that speaks S3, on this machine; workers started later know of it."""
    pytest.importorskip("s3fs", reason="needs s3fs")
    server = pytest.importorskip("moto.server", reason="needs moto[server]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=port)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        running.start()
        import boto3

        boto3.client("s3").create_bucket(Bucket="plays")
        yield "s3://plays"
        running.stop()


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
