"""The paper's figures for a finished run: NDCG@k against k, and the spread of starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from robirank.experiments.ltr.methods import RANKLIB
from robirank.experiments.ltr.results import LtrResults
from robirank.experiments.plotting import FAINT, label_ends, panels, title
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import LtrSettings

Run = RunDirectory[LtrSettings]

_FIRST = "#0072B2"
_OTHERS = ("#D55E00", "#009E73", "#A0568C", "#B8860B", "#4B4B4B", "#56A3D9", "#7A5195", "#8C564B")


def figures(run: Run, results: LtrResults, methods: Sequence[str]) -> dict[str, Callable[[], Any]]:
    """Everything that the run has data for: a name, and how to draw it."""
    starts = [m for m in methods if m.startswith("random start")]
    others = [m for m in methods if m not in starts]
    found: dict[str, Callable[[], Any]] = {}
    own = [m for m in others if m not in RANKLIB]
    if own:
        found["ndcg"] = partial(draw_curves, run, results, own)
    ranklib = [m for m in others if m in RANKLIB and m != methods[0]]
    if ranklib:
        found["ndcg-ranklib"] = partial(draw_curves, run, results, [methods[0], *ranklib])
    if starts:
        found["starts"] = partial(draw_starts, run, results, starts, others)
    return found


def draw_curves(run: Run, results: LtrResults, methods: Sequence[str]) -> Any:
    """NDCG@k against k, one line a method, the first one strong."""
    figure, axes = _axes(run, "NDCG@k")
    label_ends(axes, run.settings.k_max, _draw_lines(axes, run, results, methods))
    return figure


def draw_starts(run: Run, results: LtrResults, starts: Sequence[str], others: Sequence[str]) -> Any:
    """NDCG@k of the random starts, mean and spread, beside the other starts."""
    figure, axes = _axes(run, f"{len(starts)} random starts")
    curves = np.array([results.curve(m) for m in starts])
    mean, spread = curves.mean(axis=0), curves.std(axis=0, ddof=1)
    k = np.arange(1, run.settings.k_max + 1)
    axes.errorbar(k, mean, yerr=spread, color=FAINT, lw=1.5, capsize=2.5, zorder=2.5)
    labels = [("random, ± 1 sd", float(mean[-1]), FAINT)]
    labels += _draw_lines(axes, run, results, others)
    label_ends(axes, run.settings.k_max, labels)
    return figure


def _axes(run: Run, text: str) -> tuple[Any, Any]:
    figure, (axes,) = panels()
    data, k_max = run.settings.data, run.settings.k_max
    facts = f"mean over {data.queries} test queries, {len(data.folds)} folds"
    title(axes, f"{run.settings.title}: {text}", f"{facts}; {run.settings.convention}")
    axes.set_xlim(1, k_max)
    axes.set_xticks([1, *range(5, k_max + 1, 5)])
    axes.set_xlabel("cut-off k")
    return figure, axes


def _draw_lines(
    axes: Any, run: Run, results: LtrResults, methods: Sequence[str]
) -> list[tuple[str, float, str]]:
    """Draw a line a method; returns their labels."""
    labels = []
    for i, method in enumerate(methods):
        strong = i == 0
        colour = _FIRST if strong else _OTHERS[(i - 1) % len(_OTHERS)]
        curve = results.curve(method)
        k = np.arange(1, run.settings.k_max + 1)
        axes.plot(k, curve, color=colour, lw=2.6 if strong else 1.5, zorder=4 if strong else 3)
        labels.append((method, float(curve[-1]), colour))
    return labels
