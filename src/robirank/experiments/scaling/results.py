"""What a finished scaling run found, in one place for table, figures and report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robirank._types import Floats64
from robirank.experiments.latent.results import learning_curves
from robirank.experiments.run_dir import RunDirectory, read_json
from robirank.experiments.run_format import ScalingFit, ScalingSettings
from robirank.experiments.scaling.forecast import Forecast

#: The measure that is shown.
LEAD = "precision@1"
#: Where the seconds of a simulated epoch go; fields of `EpochTime`.
PARTS_OF_TIME = ("compute", "waiting", "communication", "latency")


@dataclass(frozen=True)
class Work:
    """One run that was measured.

    Attributes
    ----------
    fit : ScalingFit
    precision : array
        Precision@1 after each epoch.
    elapsed, path : arrays
        Seconds until each epoch was done: on this machine, and with a core for each worker.
    """

    fit: ScalingFit
    precision: Floats64
    elapsed: Floats64
    path: Floats64

    @property
    def one_part_each(self) -> bool:
        """Whether there are as many parts as workers."""
        return self.fit.workers == self.fit.parts

    @property
    def shares(self) -> dict[str, float]:
        """Seconds of a worker, on the mean; they add up to what elapsed."""
        compute = sum(self.fit.busy) / self.fit.workers
        path = float(self.path[-1]) if self.one_part_each else compute
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
        return sorted(
            (w for w in self.works if w.fit.engine == "local" and "RoBiRank" in w.fit.method),
            key=lambda w: w.fit.parts,
        )

    @property
    def ladder(self) -> list[Work]:
        """RoBiRank with as many parts as threads."""
        return [w for w in self.by_parts if w.one_part_each]

    def converges_like(self, machines: int) -> Work:
        """The run with as many parts as there are machines, or with the most that was measured."""
        return [w for w in self.by_parts if w.fit.parts <= machines][-1]


def read_scaling(run: RunDirectory[ScalingSettings]) -> ScalingRun | None:
    """Read a finished run; None if there is none yet."""
    file = run.path / "simulation.json"
    if not file.is_file() or run.missing():
        return None
    curves = learning_curves(run.results(), run.methods)
    works = [
        Work(fit, curves[fit.method].values[LEAD], np.cumsum(fit.elapsed), np.cumsum(fit.path))
        for fit in run.fits()
    ]
    return ScalingRun(works, read_json(file, Forecast))
