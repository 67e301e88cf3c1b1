"""Fixtures shared by all tests."""

import os
import signal
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
