"""The demonstration: RoBiRank against its relatives, on judged documents and on plays of songs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robirank.experiments.demo.features import make_ranking_data, run_features
from robirank.experiments.demo.latent import LatentPart, run_latent_demo
from robirank.experiments.demo.parts import DemoPart
from robirank.experiments.plotting import require_matplotlib
from robirank.experiments.statistics import Comparison, compare

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class DemoResult:
    """All that the demonstration found out.

    Attributes
    ----------
    features : DemoPart
        On judged documents.
    differences : dict from name to Comparison
        NDCG@10 of the other methods less RoBiRank's, query by query.
    latent : LatentPart
        On plays of songs.
    files : dict from what it is to Path
    seconds : float
    """

    features: DemoPart
    differences: dict[str, Comparison]
    latent: LatentPart
    files: dict[str, Path]
    seconds: float

    def summary(self) -> dict[str, Any]:
        """Everything as numbers and strings, for JSON."""
        found = self.features.summary()
        for name, row in found["methods"].items():
            row["alpha"] = self.features.methods[name].model.alpha
            c = self.differences.get(name)
            value, low, high = (c.difference, c.low, c.high) if c else (0.0, 0.0, 0.0)
            row["ndcg@10_less_robirank"] = {"value": value, "low": low, "high": high}
        return {
            **found,
            "latent": self.latent.summary(),
            "files": {what: str(path) for what, path in self.files.items()},
            "seconds": round(self.seconds, 3),
        }


def run_demo(
    output: str | os.PathLike[str] = "demo-output",
    *,
    n_queries: int = 200,
    random_state: int = 0,
    num_threads: int = 0,
    console: Console | None = None,
) -> DemoResult:
    """Train RoBiRank and its relatives on generated data, compare them, draw the results.

    First on judged documents with features, then on users and what they played.

    Parameters
    ----------
    output : str or path-like, default="demo-output"
        A folder for plots, model and data; made if it is missing.
    n_queries : int, default=200
        Queries to train on, at least 10; half as many choose the penalty, twice as many test.
        There are ten users a query in the second part, 400 to 2,000.
    random_state : int, default=0
        Decides the data and everything else.
    num_threads : int, default=0
        0: every core; the result does not depend on it.
    console : rich.console.Console, optional
        Where to report; standard output by default.

    Returns
    -------
    DemoResult
    """
    from robirank.experiments.demo.plots import draw_all
    from robirank.experiments.demo.report import Report

    started = time.perf_counter()
    if n_queries < 10:
        raise ValueError(f"n_queries must be an integer ≥ 10; got {n_queries!r}")
    require_matplotlib()
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    report = Report(console)
    options: dict[str, Any] = {
        "random_state": random_state,
        "num_threads": num_threads,
        "working": report.working,
    }
    data = make_ranking_data(n_queries, random_state)
    report.introduce(data)
    features = run_features(data, folder, **options)
    by_query: Any = {name: row.by_query for name, row in features.methods.items()}
    found = compare(by_query, "RoBiRank", measure="ndcg@10", random_state=random_state)
    latent = run_latent_demo(folder, n_users=min(max(10 * n_queries, 400), 2000), **options)
    with report.working("plots"):
        plots = draw_all(features, latent, folder)
    files = plots | features.files | latent.files
    differences = {comparison.method: comparison for comparison in found}
    result = DemoResult(features, differences, latent, files, time.perf_counter() - started)
    report.conclude(result)
    return result
