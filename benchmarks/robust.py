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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from _pictures import Line, Panel, draw
from robirank import losses
from robirank_lab.noise.data import Lists, NoiseData, Table
from robirank_lab.noise.results import METRIC_WORDS, NoiseResults
from robirank_lab.noise.runner import default_field, kinds_for, run_noise
from robirank_lab.report.write import write_report
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import NoiseExperiment
from robirank_lab.statistics import paired_t
from robirank_lab.text import markdown_table

DRAWN_RANKERS = (
    "RoBiRank",
    "Type-II",
    "Identity",
    "RankSVM",
    "RoBiRankBooster",
    "LightGBM lambdarank",
)
DRAWN_MODELS = ("RoBiRank exact", "Identity exact", "WARP", "implicit ALS", "implicit BPR")
# What goes on to Type-II, and from where; linear models and factors go by the same name.
CONTINUED = (
    ("Log to Type-II", "RoBiRank"),
    ("Log to Type-II", "RoBiRank exact"),
    ("Booster log to Type-II", "RoBiRankBooster"),
)
OTHERS = 100  # documents beside the one whose pull is drawn


@dataclass(frozen=True)
class Study:
    """One run: its data, what is asked for, who takes part, what it is called."""

    name: str
    data: NoiseData
    experiment: NoiseExperiment
    methods: Sequence[str]

    @property
    def is_lists(self) -> bool:
        """Whether judged lists are spoiled, and not a table."""
        return isinstance(self.data, Lists)


def studies(data: Path) -> Iterator[Study]:
    """Two collections of judged lists, and two tables."""
    for name in ("OHSUMED", "MQ2008"):
        lists = Lists(data / "letor" / name)
        whole = NoiseExperiment(kinds=tuple(kinds_for(lists)), shares=(0.0, 0.2, 0.4))
        yield Study(name, lists, whole, default_field(lists))
    for name in ("ir-ml100k", "ir-health"):
        table = Table(data / "implicit" / name, {})
        asked = NoiseExperiment(kinds=tuple(kinds_for(table)), shares=(0.0, 0.05, 0.2), k=20)
        yield Study(name, table, asked, default_field(table))


def small_studies() -> Iterator[Study]:
    """Made data, to check the script."""
    small: dict[str, Any] = {"shares": (0.0, 0.3), "seeds": 2, "grid_points": 1}
    small |= {"factors": 2, "iterations": 1}
    made: dict[str, NoiseData] = {"lists": Lists(None, 30), "table": Table(None, {})}
    for name, data in made.items():
        asked = NoiseExperiment(kinds=tuple(kinds_for(data))[:1], **small)
        yield Study(f"quick-{name}", data, asked, default_field(data)[:2])


def quality_table(results: NoiseResults, metric: str) -> list[str]:
    """A row a method: without noise, and under most of each kind; the best of a column in bold."""
    kinds = [kind for kind in results.kinds if results.methods_with(metric, kind)]
    rows = {}
    for method in results.methods:
        found = [results.curve(metric, method, kind) for kind in kinds]
        known = [curve for curve in found if curve is not None]
        if known:
            rows[method] = [known[0].mean[0], *(curve.mean[-1] for curve in known)]
    array = np.array(list(rows.values()))
    best = array.min(axis=0) if metric in METRIC_WORDS else array.max(axis=0)
    heads = [metric, "clean", *(f"{kind} {results.shares[-1]:g}" for kind in kinds)]
    texts = {
        method: [
            bold(fraction(v), fraction(v) == fraction(b)) for v, b in zip(row, best, strict=True)
        ]
        for method, row in rows.items()
    }
    return markdown_table(heads, [[method, *row] for method, row in texts.items()])


def area_table(results: NoiseResults, metric: str) -> list[str]:
    """Areas less the baseline's, ± half an interval of 95 %; bold where the adjusted p < .05."""
    kinds = [kind for kind in results.kinds if results.methods_with(metric, kind)]
    found = {kind: {c.method: c for c in results.comparisons(metric, kind)} for kind in kinds}
    cells = {
        method: [
            bold(f"{signed(c.difference)} ± {fraction((c.high - c.low) / 2)}", c.p_adjusted < 0.05)
            for c in (found[kind][method] for kind in kinds)
        ]
        for method in results.methods
        if method in found[kinds[0]]
    }
    heads = [f"area of {metric}, less {results.baseline}'s", *kinds]
    return markdown_table(heads, [[method, *row] for method, row in cells.items()])


def continuation_table(results: NoiseResults) -> list[str]:
    """What going on to Type-II adds to its own start: without noise, and to each area."""
    metric, rows = results.metrics[0], []
    for method, start in CONTINUED:
        if method in results.methods and start in results.methods:
            clean = [results.curve(metric, m, results.kinds[0]) for m in (method, start)]
            row = [f"{method}, less {start}", signed(clean[0].mean[0] - clean[1].mean[0])]
            for kind in results.kinds:
                areas = [results.areas(metric, m, kind) for m in (method, start)]
                test = paired_t(areas[0] - areas[1])
                row.append(f"{signed(test.mean)} ± {fraction((test.high - test.low) / 2)}")
            rows.append(row)
    return markdown_table([metric, "clean", *(f"area, {kind}" for kind in results.kinds)], rows)


def chosen_mixtures(run: RunDirectory) -> list[str]:
    """How often each t of the path to Type-II was chosen, without noise and with."""
    counts: dict[tuple[str, bool], Counter[float]] = {}
    for fit in run.fits():
        if "t" in fit.params:
            noisy = not fit.case.startswith("clean")
            counts.setdefault((fit.method, noisy), Counter())[fit.params["t"]] += 1
    return [
        f"{method}, {'with' if noisy else 'without'} noise: "
        + ", ".join(f"t = {t:g} {n} times" for t, n in sorted(counter.items()))
        for (method, noisy), counter in counts.items()
    ]


def bold(text: str, yes: bool) -> str:
    """Text that stands out in Markdown, or does not."""
    return f"**{text}**" if yes else text


def fraction(value: float) -> str:
    """A number between 0 and 1 with four digits."""
    return f"{value:.4f}".removeprefix("0")


def signed(value: float) -> str:
    """A difference with its sign."""
    return ("+" if value >= 0 else "−") + fraction(abs(value))


def panels_of(study: Study, results: NoiseResults) -> list[Panel]:
    """Charts of quality for each kind of noise, and of how many are shown a pushed item."""
    panels = []
    drawn = DRAWN_RANKERS if study.is_lists else DRAWN_MODELS
    for metric in results.metrics[:2]:
        lines: dict[str, dict[str, Line]] = {}
        for kind, method in product(results.kinds, results.methods):
            curve = results.curve(metric, method, kind)
            if curve is not None and method in drawn:
                half = curve.half if method == results.baseline else None
                lines.setdefault(kind, {})[method] = Line(results.shares, curve.mean, half)
        all_lines = [line for of_kind in lines.values() for line in of_kind.values()]
        heights = np.concatenate([line.y for line in all_lines])
        margin = 0.06 * np.ptp(heights)
        y_range = float(heights.min() - margin), float(heights.max() + margin)
        what = ", item shown" if metric in METRIC_WORDS else ""
        panels += [
            Panel(f"{study.name}, {kind}{what}", of_kind, "share of noise", y_range=y_range)
            for kind, of_kind in lines.items()
        ]
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
    title = "pull, beside that at margin 0"
    return Panel(title, lines, "margin", y_range=(0, 4), x_ticks=(-20, -15, -10, -5, 0))


def write_pictures(folder: Path, panels: Mapping[str, Sequence[Panel]]) -> None:
    """Draw the influence functions, and the curves of lists and tables."""
    folder.mkdir(parents=True, exist_ok=True)
    pull = influence()
    label = "Pull on a relevant document by its margin"
    pictures = {
        "influence": draw([pull], tuple(pull.lines), label, size=(520, 260)),
        "lists": draw(panels["lists"], DRAWN_RANKERS, "NDCG@10 by the share of noise"),
        "tables": draw(panels["tables"], DRAWN_MODELS, "NDCG@20 by the share of noise"),
    }
    for name, picture in pictures.items():
        (folder / f"robust-{name}.svg").write_text(picture, "utf-8")


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
    figures: dict[str, float] = {}
    panels: dict[str, list[Panel]] = {"lists": [], "tables": []}
    for study in small_studies() if given.quick else studies(given.data):
        run = run_noise(
            study.data,
            study.experiment,
            given.output / study.name,
            study.methods,
            title=study.name,
            n_jobs=given.jobs,
        )
        write_report(run.path)
        results = NoiseResults(run)
        print(f"\n## {study.name}")
        for metric in results.metrics:
            print("", *quality_table(results, metric), "", *area_table(results, metric), sep="\n")
        print("", *continuation_table(results), "", *chosen_mixtures(run), sep="\n")
        figures |= of_baseline(results, study.name)
        panels["lists" if study.is_lists else "tables"] += panels_of(study, results)
    if given.pictures:
        write_pictures(given.pictures, panels)
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
