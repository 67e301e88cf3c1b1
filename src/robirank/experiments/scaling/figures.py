"""The paper's scaling figure, and where the time goes on many machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from robirank.experiments.plotting import FAINT, label_ends, panels, title
from robirank.experiments.scaling.forecast import ShapeForecast
from robirank.experiments.scaling.results import PARTS_OF_TIME, ScalingRun

_COLOURS = ("#0072B2", "#56A3D9", "#009E73", "#7A5195", "#B8860B")
_WARP = "#D55E00"
_TOP = 6.0  # taller bars are cut, and say how tall they are
_BARS = dict(zip(PARTS_OF_TIME, ("#0072B2", "#B8C4CC", "#D55E00", "#E8B04A"), strict=True))


def draw_precision(found: ScalingRun, subtitle: str) -> Any:
    """Precision@1 against p × seconds, and against seconds."""
    figure, both = panels(2, width=5.4)
    shown = [w for w in found.works if w.one_part_each and w.fit.engine == "local"]
    colours = {w.fit.method: c for w, c in zip(found.ladder, _COLOURS * 2, strict=False)}
    for axes, by_workers in zip(both, (True, False), strict=True):
        labels, end = [], 0.0
        for work in shown:
            x, y = work.path * (work.fit.workers if by_workers else 1), work.precision
            colour = colours.get(work.fit.method, _WARP)
            dashed = colour == _WARP and work.fit.workers > 1
            axes.plot(x, y, color=colour, lw=1.8, ls="--" if dashed else "-")
            labels.append((work.fit.method, float(y[-1]), colour))
            end = max(end, float(x[-1]))
        axes.set_xlim(0, end)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(
            "workers × seconds" if by_workers else "seconds, with a core for each worker"
        )
        title(axes, "Precision@1", subtitle)
        label_ends(axes, end, labels)
    return figure


def draw_where(shapes: Sequence[ShapeForecast]) -> Any:
    """Machines × seconds of an epoch, by what they go into, as multiples of one machine's."""
    figure, all_axes = panels(len(shapes), width=5.4)
    for axes, shape in zip(all_axes, shapes, strict=True):
        names = [f"{machines:,}" for machines in shape.epochs]
        alone = shape.epochs[1].total
        bottom = [0.0] * len(names)
        for part in PARTS_OF_TIME:
            heights = [p * getattr(time, part) / alone for p, time in shape.epochs.items()]
            axes.bar(names, heights, bottom=bottom, color=_BARS[part], width=0.75, label=part)
            bottom = [low + high for low, high in zip(bottom, heights, strict=True)]
        axes.axhline(1.0, color=FAINT, lw=0.8)
        top = min(max(bottom), _TOP) * 1.05
        axes.set_ylim(0, top)
        for place, height in enumerate(bottom):
            if height > top:
                axes.text(place, top, f"{height:.0f} ×", ha="center", va="bottom", fontsize=8)
        axes.set_xlabel("machines")
        axes.tick_params(axis="x", labelrotation=45)
        title(axes, shape.name, "machines × seconds of an epoch; one machine is 1; simulated")
    all_axes[0].legend(frameon=False, loc="upper left")
    return figure
