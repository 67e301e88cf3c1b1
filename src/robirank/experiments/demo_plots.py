"""The figures of the demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robirank import losses
from robirank._files import write_whole

if TYPE_CHECKING:
    from robirank.experiments.demo import DemoResult

# Okabe and Ito's palette, which people who confuse red and green can tell apart.
COLOURS = {
    "RoBiRank": "#0072B2",
    "Identity": "#D55E00",
    "Type-II": "#009E73",
    "Pairwise logistic": "#A0568C",
}
_INK, _FAINT, _GRID = "#333333", "#8A8A8A", "#E6E6E6"

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.color": _INK,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "savefig.dpi": 200,
    "savefig.facecolor": "white",
}


def require_matplotlib() -> None:
    """Raise an error that says what to install where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "the plots need matplotlib, which is not installed; pip install 'robirank[plots]'"
        ) from error


def draw_all(result: DemoResult, folder: Path) -> dict[str, Path]:
    """Draw every figure into the folder; return what they show and where they are."""
    import matplotlib as mpl

    figures = {
        "NDCG at every cut-off": ("ndcg.png", draw_ndcg),
        "convergence": ("convergence.png", draw_convergence),
        "the losses": ("losses.png", lambda _: draw_losses()),
    }
    files = {}
    with mpl.rc_context(_STYLE):
        for what, (name, draw) in figures.items():
            files[what] = folder / name
            with write_whole(files[what]) as file:
                draw(result).savefig(file, format="png")
    return files


def draw_ndcg(result: DemoResult) -> Any:
    """NDCG@k against k, with the planted weights as the ceiling."""
    from robirank.experiments.demo import CUTOFFS

    k = np.array(CUTOFFS)
    figure, axes = _one_panel()
    axes.plot(k, result.ceiling.curve, color=_FAINT, lw=1.4, ls=(0, (1, 1.6)))
    labels = [("planted weights", float(result.ceiling.curve[-1]), _FAINT)]
    for name, row in result.methods.items():
        axes.plot(k, row.curve, **_line(name))
        labels.append((name, float(row.curve[-1]), COLOURS[name]))
    axes.set_xlim(1, k[-1])
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.set_xlabel("cut-off k")
    n_queries = len(result.ceiling.by_query)
    _title(axes, "NDCG@k", f"mean over {n_queries} test queries; trained on lists with outliers")
    _label_ends(axes, k[-1], labels)
    return figure


def draw_convergence(result: DemoResult) -> Any:
    """How far the objective is above its final value, after each iteration of L-BFGS."""
    figure, axes = _one_panel()
    for name, row in result.methods.items():
        curve = getattr(row.model, "loss_curve_", None)
        if curve is None:
            continue
        excess = _excess(np.asarray(curve))
        axes.plot(excess, **_line(name))
        _label(axes, name, (len(excess) - 1, excess[-1]), COLOURS[name])
    axes.set_yscale("log")
    axes.set_xlim(left=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("iteration of L-BFGS")
    _title(axes, "Training", "objective above its final value, as a share of the start's")
    return figure


def draw_losses() -> Any:
    """Draw the transformations ρ of a list's sum, and the losses σ they make of one margin."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(9.2, 4.2), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
    left, right = figure.subplots(1, 2)
    _draw_transformations(left)
    _draw_margins(right)
    return figure


def _draw_transformations(axes: Any) -> None:
    t = np.linspace(0, 12, 400)
    axes.plot(t, t, **_line("Identity"))
    axes.plot(t, losses.rho1(t), **_line("RoBiRank"))
    axes.plot(t, losses.rho2(t), **_line("Type-II"))
    axes.text(4.9, 4.45, "Identity,  t", color=COLOURS["Identity"])
    axes.text(6.0, 2.3, "RoBiRank,  log₂(1 + t)", color=COLOURS["RoBiRank"], weight="bold")
    axes.text(6.0, 0.28, "Type-II,  1 − 1/log₂(2 + t)", color=COLOURS["Type-II"])
    axes.set(xlim=(0, 12), ylim=(0, 5), xlabel="t: about the rank of a relevant document")
    _title(axes, "Transformations ρ(t)", "what a document far down its list costs")


def _draw_margins(axes: Any) -> None:
    margin = np.linspace(-8, 3, 500)
    axes.plot([-8, 0, 0, 3], [1, 1, 0, 0], color=_FAINT, lw=1.2, ls=(0, (1, 1.6)))
    axes.plot(margin, losses.sigma0(margin), **_line("Identity"))
    axes.plot(margin, losses.sigma1(margin), **_line("RoBiRank"))
    axes.plot(margin, losses.sigma2(margin), **_line("Type-II"))
    axes.text(-4.1, 4.45, "Identity,  σ₀", color=COLOURS["Identity"])
    axes.text(-7.8, 2.35, "RoBiRank,  σ₁", color=COLOURS["RoBiRank"], weight="bold")
    axes.text(-7.8, 1.1, "0-1 loss", color=_FAINT)
    axes.text(-7.8, 0.28, "Type-II,  σ₂", color=COLOURS["Type-II"])
    axes.set(xlim=(-8, 3), ylim=(0, 5), xlabel="margin, relevant less irrelevant score")
    _title(axes, "Losses σ = ρ(σ₀)", "what one wrong pair costs")


def _excess(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """(f_i − f_last) / (f_0 − f_last), without the last point, which is 0 by definition."""
    span = curve[0] - curve[-1]
    if len(curve) < 2 or span <= 0:
        return np.ones(1)
    left: NDArray[np.float64] = (curve[:-1] - curve[-1]) / span
    return left[left > 0]


def _line(name: str) -> dict[str, Any]:
    strong = name == "RoBiRank"
    return {"color": COLOURS[name], "lw": 2.6 if strong else 1.7, "zorder": 4 if strong else 3}


def _one_panel() -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(7.2, 4.4), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
    return figure, figure.subplots()


def _title(axes: Any, text: str, subtitle: str) -> None:
    axes.set_title(text, loc="left", fontsize=12, fontweight="bold", pad=26)
    axes.annotate(
        subtitle,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 10),
        textcoords="offset points",
        color=_FAINT,
    )


def _label(axes: Any, name: str, at: tuple[float, float], colour: str) -> None:
    axes.annotate(
        name,
        at,
        xytext=(7, 0),
        textcoords="offset points",
        color=colour,
        va="center",
        fontweight="bold" if name == "RoBiRank" else "normal",
        annotation_clip=False,
    )


def _label_ends(axes: Any, x: float, labels: list[tuple[str, float, str]]) -> None:
    """Write each line's name at its right end, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    ordered = sorted(labels, key=lambda label: label[1])
    places = _spread([y for _, y, _ in ordered], 0.058 * (high - low))
    for (name, _, colour), y in zip(ordered, places, strict=True):
        _label(axes, name, (x, y), colour)


def _spread(places: list[float], gap: float) -> list[float]:
    """Move rising places apart to at least the gap, each as little as its neighbours allow.

    Examples
    --------
    >>> _spread([1.0, 1.0, 9.0], gap=2.0)
    [0.0, 2.0, 9.0]
    """
    # With i·gap taken off, places must not fall: that is isotonic regression, by pooling.
    pools: list[list[float]] = []
    for i, place in enumerate(places):
        pools.append([place - i * gap])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    level = [_mean(pool) for pool in pools for _ in pool]
    return [value + i * gap for i, value in enumerate(level)]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
