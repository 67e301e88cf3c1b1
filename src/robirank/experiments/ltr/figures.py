"""The paper's figures for a finished run: NDCG@k against k, and the spread of starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank.experiments.ltr.methods import RANKLIB
from robirank.experiments.plotting import FAINT, STYLE, label_ends, one_panel, title
from robirank.experiments.run_dir import RunDirectory
from robirank.storage.files import write_whole

__all__ = ["write_figures"]

_FIRST = "#0072B2"
_OTHERS = ("#D55E00", "#009E73", "#A0568C", "#B8860B", "#4B4B4B", "#56A3D9", "#7A5195", "#8C564B")


def write_figures(run: RunDirectory, results: pl.DataFrame, methods: Sequence[str]) -> None:
    """Draw everything that the run has data for into ``figures/``, as PNG and SVG."""
    folder = run.path / "figures"
    folder.mkdir(exist_ok=True)
    first = methods[0]
    groups = {
        "ndcg": [m for m in methods if m not in RANKLIB],
        "ndcg-ranklib": [first, *(m for m in methods if m in RANKLIB and m != first)],
    }
    with mpl.rc_context(STYLE):
        for name, group in groups.items():
            if not group or (len(group) < 2 and name != "ndcg"):
                continue
            figure = draw_curves(run, results, _without_starts(group))
            save_figure(figure, folder, name)
        starts = [m for m in methods if m.startswith("random start")]
        if starts:
            others = [m for m in methods if m not in starts]
            save_figure(draw_starts(run, results, starts, others), folder, "starts")


def _without_starts(methods: Sequence[str]) -> list[str]:
    return [m for m in methods if not m.startswith("random start")]


def save_figure(figure: Any, folder: Any, name: str) -> None:
    """Write a figure as PNG and as SVG."""
    for kind in ("png", "svg"):
        with write_whole(folder / f"{name}.{kind}") as file:
            figure.savefig(file, format=kind)


def _curve(results: pl.DataFrame, method: str, k_max: int) -> NDArray[np.float64]:
    mine = results.filter(
        (pl.col("method") == method) & (pl.col("measure") == "ndcg") & (pl.col("k") > 0)
    )
    means = mine.group_by("k").agg(pl.col("value").mean()).sort("k")
    assert len(means) == k_max
    return means["value"].to_numpy()


def _axes(run: RunDirectory, text: str) -> tuple[Any, Any]:
    figure, axes = one_panel()
    data = run.settings["data"]
    facts = f"mean over {data.get('queries')} test queries, {data.get('folds')} folds"
    title(axes, f"{run.settings['title']}: {text}", f"{facts}; {run.settings['convention']}")
    axes.set_xlim(1, run.k_max)
    axes.set_xticks([1, *range(5, run.k_max + 1, 5)])
    axes.set_xlabel("cut-off k")
    return figure, axes


def draw_curves(run: RunDirectory, results: pl.DataFrame, methods: Sequence[str]) -> Any:
    """NDCG@k against k, one line a method, the first one strong."""
    figure, axes = _axes(run, "NDCG@k")
    k = np.arange(1, run.k_max + 1)
    labels = []
    for i, method in enumerate(methods):
        strong = i == 0
        colour = _FIRST if strong else _OTHERS[(i - 1) % len(_OTHERS)]
        curve = _curve(results, method, run.k_max)
        axes.plot(k, curve, color=colour, lw=2.6 if strong else 1.5, zorder=4 if strong else 3)
        labels.append((method, float(curve[-1]), colour))
    label_ends(axes, run.k_max, labels)
    return figure


def draw_starts(
    run: RunDirectory, results: pl.DataFrame, starts: Sequence[str], others: Sequence[str]
) -> Any:
    """NDCG@k of the random starts, mean and spread, beside the other starts."""
    figure, axes = _axes(run, f"{len(starts)} random starts")
    k = np.arange(1, run.k_max + 1)
    curves = np.array([_curve(results, m, run.k_max) for m in starts])
    mean, spread = curves.mean(axis=0), curves.std(axis=0, ddof=1)
    axes.errorbar(k, mean, yerr=spread, color=FAINT, lw=1.5, capsize=2.5, zorder=3)
    labels = [("random, ± 1 sd", float(mean[-1]), FAINT)]
    for i, method in enumerate(others):
        curve = _curve(results, method, run.k_max)
        colour = _FIRST if i == 0 else _OTHERS[(i - 1) % len(_OTHERS)]
        axes.plot(k, curve, color=colour, lw=2.2 if i == 0 else 1.5, zorder=4)
        labels.append((method, float(curve[-1]), colour))
    label_ends(axes, run.k_max, labels)
    return figure
