"""The paper's scaling figure, and where the time goes on many machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from robirank.experiments.ltr.figures import save_figure
from robirank.experiments.plotting import FAINT, STYLE, label_ends, title
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.scaling.tables import PARTS_OF_TIME, ScalingRun

__all__ = ["draw_precision", "draw_where", "write_scaling_figures"]

_COLOURS = ("#0072B2", "#56A3D9", "#009E73", "#7A5195", "#B8860B")
_WARP = "#D55E00"
_TOP = 6.0  # taller bars are cut, and say how tall they are
_BARS = dict(zip(PARTS_OF_TIME, ("#0072B2", "#B8C4CC", "#D55E00", "#E8B04A"), strict=True))


def write_scaling_figures(run: RunDirectory, found: ScalingRun) -> None:
    """Draw both figures into ``figures/``, as PNG and SVG."""
    folder = run.path / "figures"
    folder.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        save_figure(draw_precision(found, run.settings["title"]), folder, "scaling")
        save_figure(draw_where(found.simulation["shapes"]), folder, "where")


def draw_precision(found: ScalingRun, subtitle: str) -> Any:
    """Precision@1 against p × seconds, and against seconds."""
    figure, panels = _panels(2)
    shown = [w for w in found.works if w.workers == w.parts and w.engine == "local"]
    looks = {w.name: c for w, c in zip(found.ladder, _COLOURS * 2, strict=False)}
    for axes, by_workers in zip(panels, (True, False), strict=True):
        labels, end = [], 0.0
        for work in shown:
            x = work.path * (work.workers if by_workers else 1)
            y = work.precision["precision@1"]
            colour = looks.get(work.name, _WARP)
            axes.plot(
                x, y, color=colour, lw=1.8, ls="-" if work.workers == 1 or colour != _WARP else "--"
            )
            labels.append((work.name, float(y[-1]), colour))
            end = max(end, float(x[-1]))
        axes.set_xlim(0, end)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(
            "workers × seconds" if by_workers else "seconds, with a core for each worker"
        )
        title(axes, "Precision@1", subtitle)
        label_ends(axes, end, labels)
    return figure


def draw_where(shapes: list[Mapping[str, Any]]) -> Any:
    """Machines × seconds of an epoch, by what they go into, as multiples of one machine's."""
    figure, panels = _panels(len(shapes))
    for axes, shape in zip(panels, shapes, strict=True):
        names = [f"{epoch['machines']:,}" for epoch in shape["epochs"]]
        bottom = [0.0] * len(names)
        for part in PARTS_OF_TIME:
            heights = [_multiple(shape, epoch, part) for epoch in shape["epochs"]]
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
        title(axes, shape["name"], "machines × seconds of an epoch; one machine is 1; simulated")
    panels[0].legend(frameon=False, loc="upper left")
    return figure


def _multiple(shape: Mapping[str, Any], epoch: Mapping[str, float], part: str) -> float:
    return epoch["machines"] * epoch[part] / float(shape["epochs"][0]["total"])


def _panels(n: int) -> tuple[Any, Any]:
    figure: Any = Figure(figsize=(5.4 * n, 4.4), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
    return figure, figure.subplots(1, n, squeeze=False)[0]
