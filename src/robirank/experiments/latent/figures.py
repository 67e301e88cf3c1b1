"""The paper's figure: precision@1 and @10 against seconds of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robirank.experiments.latent.methods import LATENT_FIELD
from robirank.experiments.latent.results import LearningCurve
from robirank.experiments.plotting import label_ends, panels, title

_COLOURS = dict(
    zip(
        LATENT_FIELD,
        ("#0072B2", "#56A3D9", "#D55E00", "#B8860B", "#009E73", "#666666", "#999999"),
        strict=True,
    )
)


def draw_learning(
    curves: Mapping[str, LearningCurve], measures: Sequence[str], subtitle: str
) -> Any:
    """A panel a measure, a line a method; a dot where each ends.

    What takes one step, and next to no time, is a dashed line from side to side.
    """
    figure, all_axes = panels(len(measures), width=5.2)
    end = max(float(curve.seconds[-1]) for curve in curves.values())
    for axes, measure in zip(all_axes, measures, strict=True):
        labels = []
        for method, curve in curves.items():
            colour, strong = _COLOURS[method], method == "RoBiRank exact"
            x, y = curve.seconds, curve.values[measure]
            if len(x) == 1:
                axes.axhline(y[0], color=colour, lw=1.2, ls="--")
            else:
                axes.plot(x, y, color=colour, lw=2.6 if strong else 1.6, zorder=3 + strong)
                axes.plot(x[-1:], y[-1:], "o", color=colour, ms=4.5, zorder=5, clip_on=False)
            labels.append((method, float(y[-1]), colour))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
        axes.set_xlim(right=end)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("seconds of training, log scale")
        title(axes, measure[0].upper() + measure[1:], subtitle)
        label_ends(axes, end, labels)
    return figure
