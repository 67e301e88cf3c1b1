"""What a latent run says: the table of what was reached, and the paper's figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank.experiments.latent.methods import IDENTITY, ROBIRANK
from robirank.experiments.latent.units import MEASURES
from robirank.experiments.ltr.tables import complete_methods
from robirank.experiments.run_dir import RunDirectory
from robirank.storage.files import write_text

__all__ = ["LearningCurve", "learning_curves", "write_latent_tables"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LearningCurve:
    """What a method reached after each of some epochs, the mean over starting points.

    Attributes
    ----------
    epochs : list of int
    seconds : array
        Of training.
    values : dict from measure to array
    error : dict from measure to float
        The standard error of the last value over users, the mean over starting points; NaN where
        it is not known.
    spread : dict from measure to float
        The standard deviation of the last value over starting points; NaN for one.
    """

    epochs: list[int]
    seconds: Floats
    values: dict[str, Floats]
    error: dict[str, float]
    spread: dict[str, float]

    def last(self, measure: str) -> float:
        """The value at the end."""
        return float(self.values[measure][-1])

    def seconds_to(self, measure: str, value: float) -> float | None:
        """The time of the first snapshot that reaches a value; None if none does."""
        reached = np.flatnonzero(self.values[measure] >= value)
        return float(self.seconds[reached[0]]) if len(reached) else None


def learning_curves(results: pl.DataFrame, methods: Sequence[str]) -> dict[str, LearningCurve]:
    """The curves of the methods that have results."""
    curves = {}
    for method in methods:
        mine = results.filter(pl.col("method") == method)
        if len(mine):
            curves[method] = _curve(mine)
    return curves


def _curve(mine: pl.DataFrame) -> LearningCurve:
    by_epoch = mine.group_by("epoch", "measure").agg(
        pl.col("seconds", "value").mean(), pl.col("error").mean(), pl.col("value").std().alias("sd")
    )
    by_epoch = by_epoch.sort("epoch")
    of = {m: by_epoch.filter(pl.col("measure") == m) for m in mine["measure"].unique().to_list()}
    some = next(iter(of.values()))
    return LearningCurve(
        some["epoch"].to_list(),
        some["seconds"].to_numpy(),
        {m: part["value"].to_numpy() for m, part in of.items()},
        {m: _or_nan(part["error"][-1]) for m, part in of.items()},
        {m: _or_nan(part["sd"][-1]) for m, part in of.items()},
    )


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def lift(curves: Mapping[str, LearningCurve], measure: str) -> float | None:
    """How many times the identity loss's value RoBiRank's is, the best of each."""
    of = [
        max((curves[m].last(measure) for m in names if m in curves), default=0.0)
        for names in (ROBIRANK, IDENTITY)
    ]
    return of[0] / of[1] if all(of) else None


def write_latent_tables(run: RunDirectory) -> None:
    """Write ``table.md`` and, where matplotlib is there, ``figures/``."""
    curves = learning_curves(run.results(), complete_methods(run))
    write_text(run.path / "table.md", latent_table(run, curves))
    try:
        from robirank.experiments.latent.figures import write_latent_figures
    except ImportError:
        return
    if curves:
        write_latent_figures(run, curves)


def latent_table(run: RunDirectory, curves: Mapping[str, LearningCurve]) -> str:
    """The whole table in Markdown."""
    lines = [
        f"# {run.settings['title']}",
        "",
        _facts(run.settings),
        "",
        "| method | " + " | ".join(MEASURES) + " | training, s | search, s |",
        "|---|" + "---|" * (len(MEASURES) + 2),
        *(_row(run, method, curves) for method in run.methods),
    ]
    ratio = lift(curves, "precision@1")
    if ratio is not None:
        lines += ["", f"RoBiRank's precision@1 is {ratio:.2f} times the identity loss's."]
    lines += ["", "## Chosen settings", "", *_settings(run)]
    return "\n".join(lines) + "\n"


def _facts(settings: Mapping[str, Any]) -> str:
    data, options = settings["data"], settings["options"]
    starts = "" if data["folds"] == 1 else f"; means over {data['folds']} starting points"
    return (
        f"{data['users']:,} users, {data['items']:,} items; {data['train']:,} interactions to "
        f"train, {data['valid']:,} to validate, {data['test']:,} to test, split {data['split']}. "
        f"{options['factors']} factors{starts}. Step size and penalty chosen by "
        f"{settings['select']} on the validation part; then fitted to both and measured on the "
        f"test part. Best in bold. Command: `{settings['command']}`"
    )


def _row(run: RunDirectory, method: str, curves: Mapping[str, LearningCurve]) -> str:
    fits = [f for f in run.fits() if f["method"] == method]
    failed = [f for f in fits if f["status"] == "failed"]
    if failed:
        reason = str(failed[0]["error"]).splitlines()[0].replace("|", "\\|")
        return f"| {method} | failed: {reason} |"
    cells = []
    for measure in MEASURES:
        value = curves[method].last(measure)
        best = max(curve.last(measure) for curve in curves.values())
        cells.append(f"**{value:.4f}**" if value == best else f"{value:.4f}")
    final = float(curves[method].seconds[-1])
    search = sum(f["seconds"]["search"] for f in fits)
    return f"| {method} | " + " | ".join(cells) + f" | {final:.1f} | {search:.1f} |"


def _settings(run: RunDirectory) -> list[str]:
    lines = ["| method | step size | penalty | validation |", "|---|---|---|---|"]
    first = {fit["method"]: fit for fit in reversed(run.fits()) if fit["status"] == "ok"}
    for method in run.methods:
        if method in first:
            params = first[method]["params"]
            value = first[method]["validation"]["value"]
            rate, penalty = params["learning_rate"], params["regularization"]
            lines.append(f"| {method} | {rate:g} | {penalty:g} | {value:.4f} |")
    return lines
