"""What a latent run found, in one place for table and report: learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank_lab.latent.methods import IDENTITY, ROBIRANK

Floats64 = NDArray[np.float64]


@dataclass(frozen=True)
class LearningCurve:
    """What a method reached after each of some epochs, the mean over starting points.

    Attributes
    ----------
    epochs : list of int
    seconds : array
        Of training.
    values : dict from metric to array
    error : dict from metric to array
        The standard errors of the values over users, means over starting points; NaN where they
        are not known.
    spread : dict from metric to array
        The standard deviations of the values over starting points; NaN for one.
    """

    epochs: list[int]
    seconds: Floats64
    values: dict[str, Floats64]
    error: dict[str, Floats64]
    spread: dict[str, Floats64]

    def last(self, metric: str) -> float:
        """The value at the end."""
        return float(self.values[metric][-1])

    def seconds_to(self, metric: str, value: float) -> float | None:
        """The time of the first snapshot that reaches a value; None if none does."""
        reached = np.flatnonzero(self.values[metric] >= value)
        return float(self.seconds[reached[0]]) if len(reached) else None


def learning_curves(results: pl.DataFrame, methods: Sequence[str]) -> dict[str, LearningCurve]:
    """The curves of the methods that have results."""
    parts = {method: results.filter(pl.col("method") == method) for method in methods}
    return {method: _curve(part) for method, part in parts.items() if len(part)}


def _curve(mine: pl.DataFrame) -> LearningCurve:
    by_epoch = mine.group_by("epoch", "metric").agg(
        pl.col("seconds", "value", "error").mean(), pl.col("value").std().alias("sd")
    )
    # Standard errors and deviations that are not known are null; to_numpy makes them NaN.
    by_epoch = by_epoch.sort("epoch")
    of = {m: by_epoch.filter(pl.col("metric") == m) for m in mine["metric"].unique().to_list()}
    first = next(iter(of.values()))
    return LearningCurve(
        first["epoch"].to_list(),
        first["seconds"].to_numpy(),
        {m: part["value"].to_numpy() for m, part in of.items()},
        {m: part["error"].to_numpy() for m, part in of.items()},
        {m: part["sd"].to_numpy() for m, part in of.items()},
    )


def lift(curves: Mapping[str, LearningCurve], metric: str) -> float | None:
    """How many times the identity loss's value RoBiRank's is, the best of each."""
    of = [
        max((curves[m].last(metric) for m in names if m in curves), default=0.0)
        for names in (ROBIRANK, IDENTITY)
    ]
    return of[0] / of[1] if all(of) else None
