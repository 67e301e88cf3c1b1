"""Units of work for the tests of the pool; worker processes import this module."""

import os
import signal
import time
from pathlib import Path


def act(folder: Path, unit: str) -> None:
    """Do what the unit's name says."""
    if unit.startswith("crash"):
        os.kill(os.getpid(), signal.SIGKILL)
    if unit.startswith("exit"):
        raise SystemExit(3)
    if unit.startswith("sleep"):
        time.sleep(60)
    begin = time.monotonic()
    time.sleep(0.3 if unit.startswith("nap") else 0)
    (folder / unit).write_text(f"{os.environ['OMP_NUM_THREADS']} {begin} {time.monotonic()}")
