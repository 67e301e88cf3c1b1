"""The runs on a Ray cluster: the same models, other clocks.

With as many parts, a cluster computes the same bits as the threads of one process. So precision is
known from there, and here only the times are taken.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from robirank.data.interactions import Interactions
from robirank.data.make_interactions import make_interactions
from robirank.data.partitions import partition
from robirank.engine.config import RayConfig
from robirank.engine.ray.actors import connect, disconnect
from robirank.experiments.scaling.clocks import EpochClock
from robirank.experiments.scaling.runs import ScalingData, measure
from robirank.latent.factors.evaluate import Evaluation
from robirank.latent.model import LatentRoBiRank

_NEVER = 1e9  # seconds between checkpoints: none in the middle of a measurement


def has_ray() -> bool:
    """Whether the package is there."""
    return importlib.util.find_spec("ray") is not None


@contextmanager
def ray_cluster(workers: int) -> Iterator[None]:
    """A cluster on this machine, for several measurements."""
    started = connect(None, workers)
    try:
        yield
    finally:
        if started:
            disconnect()


def ray_clocks(
    data: ScalingData, workers: int, params: Mapping[str, Any]
) -> tuple[list[EpochClock], Evaluation]:
    """Train with p workers, each with one part; returns its clocks and what it reached."""
    with TemporaryDirectory() as folder:
        run = _train(data.train, workers, workers, params, Path(folder))
        clocks = _clocks(run.lines, run.elapsed, workers)
        return clocks, measure(run.model.sharded_.factors(), data)


def ray_hand_out(parts: int = 12, epochs: int = 4) -> float:
    """Seconds of processor time that the driver takes for one task.

    Tiny data in many parts, so that there is little but tasks to hand out; the first epoch, in
    which connections are made, does not count.
    """
    data = make_interactions(240, 240, 2400, random_state=0)
    params = {"factors": 8, "iterations": epochs, "random_state": 0}
    with TemporaryDirectory() as folder:
        run = _train(data, 2, parts, params, Path(folder))
    tasks = sum(line["tasks"] for line in run.lines if line["what"] in ("sweep", "scan"))
    return (run.processor[-1] - run.processor[0]) / (tasks * (epochs - 1) / epochs)


@dataclass(frozen=True)
class _Run:
    model: LatentRoBiRank
    elapsed: list[float]
    processor: list[float]
    lines: list[dict[str, Any]]


def _train(
    train: Interactions, workers: int, parts: int, params: Mapping[str, Any], folder: Path
) -> _Run:
    cut = partition(train, folder / "parts", parts=parts, random_state=params["random_state"])
    config = RayConfig(folder / "run", workers=workers, checkpoint_seconds=_NEVER)
    model = LatentRoBiRank(solver="sgd", engine=config, **params)
    elapsed, processor = [], []

    def note(_epoch: int, seconds: float, _loss: float) -> None:
        elapsed.append(seconds)
        processor.append(time.process_time())

    model.fit(cut, show_progress=False, callback=note)
    text = (folder / "run" / "workers.jsonl").read_text("utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    return _Run(model, elapsed, processor, lines)


def _clocks(
    lines: Iterable[Mapping[str, Any]], elapsed: list[float], workers: int
) -> list[EpochClock]:
    """Read what the workers wrote down: seconds of each in each sub-step and ξ-step."""
    uv: dict[int, Any] = defaultdict(lambda: np.zeros((workers, workers)))
    xi: dict[int, Any] = defaultdict(lambda: np.zeros(workers))
    epoch = 0
    for line in lines:
        if line["what"] == "sweep":
            epoch = line["epoch"]
            uv[epoch][line["worker"], line["number"]] += line["busy_seconds"]
        elif line["what"] == "scan":
            xi[epoch][line["worker"]] += line["busy_seconds"]
    return [EpochClock(seconds, 0.0, uv[e], xi[e]) for e, seconds in enumerate(elapsed)]
