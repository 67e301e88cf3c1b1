"""What noise in the data does to each method: tables and pictures of docs/method/robust.md.

    python benchmarks/robust.py [--data FOLDER] [--output FOLDER] [--pictures FOLDER] [--quick]

Runs `robirank experiment noise` on OHSUMED, MQ2008 and two tables of IR-Benchmark, with five seeds,
or goes on where it was stopped; every run is a folder with a report of its own in the output
folder. Then prints the tables, and draws the pictures where a folder is given. The last line is one
JSON object. ``--quick`` checks the script on made data.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as TextTable

from _pictures import Line, Panel, draw
from robirank import losses
from robirank_lab.noise.data import Lists, NoiseData, Table
from robirank_lab.noise.results import PUSHED, PUSHED_ABOVE, NoiseResults
from robirank_lab.noise.runner import default_field, kinds_for, run_noise
from robirank_lab.report.write import write_report
from robirank_lab.run_format import NoiseExperiment

DRAWN_RANKERS = (
    "RoBiRank",
    "Type-II",
    "Identity",
    "RankSVM",
    "RoBiRankBooster",
    "LightGBM lambdarank",
)
DRAWN_MODELS = ("RoBiRank exact", "Identity exact", "WARP", "implicit ALS", "implicit BPR")
OTHERS = 100  # documents beside the one whose pull is drawn


def runs(data: Path, quick: bool) -> Iterator[tuple[NoiseData, NoiseExperiment, str]]:
    """Data, what is asked for, and what it is called."""
    tables = [data / "implicit" / name for name in ("ir-ml100k", "ir-health")]
    lists = [data / "letor" / name for name in ("OHSUMED", "MQ2008")]
    given: list[tuple[NoiseData, str]] = [
        *((Lists(path), path.name) for path in lists),
        *((Table(path, {}), path.name) for path in tables),
    ]
    if quick:
        given = [(Lists(None, 30), "lists"), (Table(None, {}), "table")]
    for one, name in given:
        is_lists = isinstance(one, Lists)
        experiment = NoiseExperiment(
            kinds=tuple(kinds_for(one)),
            shares=(0.0, 0.2, 0.4) if is_lists else (0.0, 0.05, 0.2),
            k=10 if is_lists else 20,
        )
        if quick:
            small: dict[str, Any] = {"kinds": experiment.kinds[:1], "shares": (0.0, 0.3)}
            small |= {"seeds": 2, "grid_points": 1, "factors": 2, "iterations": 1}
            experiment = NoiseExperiment(**small)
        yield one, experiment, name


def text_table(results: NoiseResults, metric: str, title: str) -> TextTable:
    """A row a method: the clean figure, and for each kind that under most noise, and the area."""
    table = TextTable(title=title, title_justify="left")
    for head in ("method", "clean", *results.kinds):
        table.add_column(head, justify="left" if head == "method" else "right")
    for method in results.methods:
        cells = []
        for kind in results.kinds:
            curve = results.curve(metric, method, kind)
            if curve is None:
                cells.append("–")
                continue
            area = results.areas(metric, method, kind).mean()
            cells.append(f"{curve.mean[-1]:.4f} (area {area:.4f})")
            clean = f"{curve.mean[0]:.4f}"
        if set(cells) != {"–"}:
            table.add_row(method, clean, *cells)
    return table


def print_areas(results: NoiseResults, metric: str, console: Console) -> None:
    """The differences of the areas, with intervals and adjusted p-values."""
    for kind in results.kinds:
        for c in results.comparisons(metric, kind):
            half = (c.high - c.low) / 2
            p = f"p = {c.p_adjusted:.3f}"
            console.print(f"  {kind}: {c.method} {c.difference:+.4f} ± {half:.4f}, {p}")


def curves(results: NoiseResults, metric: str, name: str, drawn: tuple[str, ...]) -> list[Panel]:
    """A panel for each kind of noise."""
    panels = []
    for kind in results.kinds:
        found = {m: results.curve(metric, m, kind) for m in drawn if m in results.methods}
        lines = {
            m: Line(results.shares, curve.mean, curve.half if m == results.baseline else None)
            for m, curve in found.items()
            if curve is not None
        }
        if lines:
            panels.append(Panel(f"{name}, {kind}", lines, "share of noise"))
    return panels


def influence() -> Panel:
    """The pull on a relevant document that lies below 100 others, against how far."""
    margin = np.linspace(-20, 4, 97)
    sums = OTHERS * losses.sigma0(margin)
    pulls = {
        f"{name}": prime * OTHERS * -losses.sigma0_prime(margin)
        for name, prime in (
            ("log (RoBiRank)", losses.rho1_prime(sums)),
            ("identity", np.ones_like(margin)),
            ("type2", losses.rho2_prime(sums)),
        )
    }
    pulls["squared hinge (RankSVM)"] = OTHERS * 2 * np.maximum(0, 1 - margin)
    at_zero = int(np.argmin(np.abs(margin)))
    lines = {name: Line(margin, pull / pull[at_zero]) for name, pull in pulls.items()}
    return Panel(
        "pull, beside that at margin 0",
        lines,
        "margin",
        (-20, -15, -10, -5, 0),
        (0, 4),
        (0, 1, 2, 3, 4),
    )


def main() -> None:
    root = Path(__file__).resolve().parents[1]
    default = Path(os.environ.get("ROBIRANK_DATA", root.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--output", type=Path, default=Path("runs") / "noise")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    console = Console(width=150, highlight=False)
    figures: dict[str, float] = {}
    panels: dict[str, list[Panel]] = {"lists": [], "tables": []}
    for data, experiment, name in runs(given.data, given.quick):
        output = given.output / (f"quick-{name}" if given.quick else name)
        field = default_field(data)[: 2 if given.quick else None]
        run = run_noise(data, experiment, output, field, title=name, n_jobs=given.jobs)
        write_report(run.path)
        results = NoiseResults(run)
        for metric in results.metrics:
            console.print(text_table(results, metric, f"{name}: {metric}"))
            print_areas(results, metric, console)
        figures |= of_baseline(results, name)
        is_lists = isinstance(data, Lists)
        drawn = DRAWN_RANKERS if is_lists else DRAWN_MODELS
        for metric in results.metrics[: 1 if is_lists else 2]:
            label = name if metric not in (PUSHED, PUSHED_ABOVE) else f"{name} (item shown)"
            panels["lists" if is_lists else "tables"] += curves(results, metric, label, drawn)
    if given.pictures:
        given.pictures.mkdir(parents=True, exist_ok=True)
        pull = influence()
        for file, drawn_panels, names, label in (
            ("influence", [pull], tuple(pull.lines), "Pull on a relevant document by its margin"),
            ("lists", panels["lists"], DRAWN_RANKERS, "NDCG@10 by the share of noise"),
            ("tables", panels["tables"], DRAWN_MODELS, "NDCG@20 by the share of noise"),
        ):
            path = given.pictures / f"robust-{file}.svg"
            size = (520, 260) if file == "influence" else (232, 190)
            per_row = 3 if file == "tables" else 4
            path.write_text(draw(drawn_panels, names, label, per_row=per_row, size=size), "utf-8")
    print(json.dumps(figures))


def of_baseline(results: NoiseResults, name: str) -> dict[str, float]:
    """What the last line says: RoBiRank's quality without noise, and under most of each kind."""
    quality, figures = results.metrics[0], {}
    for kind in results.kinds:
        curve = results.curve(quality, results.baseline, kind)
        if curve is not None:
            figures[f"{name}_clean"] = round(float(curve.mean[0]), 4)
            figures[f"{name}_{kind}"] = round(float(curve.mean[-1]), 4)
    return figures


if __name__ == "__main__":
    main()
