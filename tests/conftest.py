"""Fixtures shared by all tests."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from robirank import _core

# A shell that runs the tests in the background makes them deaf to Ctrl-C, which some are about.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("robirank", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("robirank")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Look for doctests in no helper: it would be imported twice, under two names."""
    is_file = collection_path.suffix == ".py"
    return True if is_file and not collection_path.name.startswith("test_") else None


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real data sets; tests that need it are skipped where it is missing."""
    root = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("ROBIRANK_DATA", root.parent / "shared" / "data"))
    if not (folder / "letor").is_dir():
        pytest.skip(f"real data sets not found at {folder} (set ROBIRANK_DATA to their folder)")
    return folder


@pytest.fixture(params=_core.instruction_sets())
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each set of native kernels that this machine can run, in turn."""
    before = _core.instruction_set()
    _core.use_instruction_set(request.param)
    yield request.param
    _core.use_instruction_set(before)


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
