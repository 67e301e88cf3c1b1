"""What a finished scaling run found, in one place for table, figures and report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robirank.experiments.latent.curves import learning_curves
from robirank.experiments.run_dir import RunDirectory, read_json
from robirank.experiments.run_format import ScalingSettings
from robirank.experiments.scaling.forecast import Forecast
from robirank.experiments.scaling.simulation import Floats

__all__ = ["PARTS_OF_TIME", "ScalingRun", "Work", "read_scaling"]

#: Where the seconds of a simulated epoch go; fields of `EpochTime`.
PARTS_OF_TIME = ("compute", "waiting", "communication", "latency")


@dataclass(frozen=True)
class Work:
    """One run of the race: what it reached, and where the time of its workers went.

    Attributes
    ----------
    name : str
    engine : {"local", "ray"}
    workers, parts : int
    precision : dict from measure to array
        After each epoch.
    elapsed, path : arrays
        Seconds until each epoch was done: on this machine, and with a core for each worker.
    busy : array
        Processor seconds of each part.
    """

    name: str
    engine: str
    workers: int
    parts: int
    precision: dict[str, Floats]
    elapsed: Floats
    path: Floats
    busy: Floats

    @property
    def shares(self) -> dict[str, float]:
        """Seconds of a worker, on the mean; they add up to what elapsed."""
        compute = float(self.busy.sum()) / self.workers
        path = float(self.path[-1]) if self.workers == self.parts else compute
        return {
            "compute": compute,
            "waiting": path - compute,
            "core": float(self.elapsed[-1]) - path,
        }


@dataclass(frozen=True)
class ScalingRun:
    """All that was measured and simulated."""

    works: list[Work]
    forecast: Forecast

    @property
    def by_parts(self) -> list[Work]:
        """RoBiRank on threads by its number of parts."""
        local = [w for w in self.works if w.engine == "local"]
        return sorted((w for w in local if w.name.startswith("RoBiRank")), key=lambda w: w.parts)

    @property
    def ladder(self) -> list[Work]:
        """RoBiRank with as many parts as threads."""
        return [w for w in self.by_parts if w.workers == w.parts]

    def converges_like(self, machines: int) -> Work:
        """The run with as many parts as there are machines, or with the most that was measured."""
        return [w for w in self.by_parts if w.parts <= machines][-1]


def read_scaling(run: RunDirectory[ScalingSettings]) -> ScalingRun | None:
    """Read a finished run; None if there is none yet."""
    file = run.path / "simulation.json"
    curves = learning_curves(run.results(), run.methods)
    if not file.is_file() or set(curves) != set(run.methods):
        return None
    works = [
        Work(
            fit.method,
            fit.engine,
            fit.workers,
            fit.parts,
            curves[fit.method].values,
            np.cumsum(fit.elapsed),
            np.cumsum(fit.path),
            np.array(fit.busy),
        )
        for fit in run.fits()
    ]
    return ScalingRun(works, read_json(file, Forecast))
