"""The figures of the demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robirank import losses
from robirank.experiments.plotting import FAINT, STYLE, label, label_ends, panels, title
from robirank.storage.files import write_whole

if TYPE_CHECKING:
    from robirank.experiments.demo.run import DemoResult

# Okabe and Ito's palette, which people who confuse red and green can tell apart.
COLOURS = {
    "RoBiRank": "#0072B2",
    "Identity": "#D55E00",
    "Type-II": "#009E73",
    "Pairwise logistic": "#A0568C",
    "WARP": "#A0568C",
}


def draw_all(result: DemoResult, folder: Path) -> dict[str, Path]:
    """Draw every figure into the folder; return what they show and where they are."""
    import matplotlib as mpl

    figures = {
        "NDCG at every cut-off": ("ndcg.png", draw_ndcg),
        "convergence": ("convergence.png", draw_convergence),
        "the losses": ("losses.png", lambda _: draw_losses()),
        "recommendations": ("recommend.png", draw_recommend),
    }
    files = {}
    with mpl.rc_context(STYLE):
        for what, (name, draw) in figures.items():
            files[what] = folder / name
            with write_whole(files[what]) as file:
                draw(result).savefig(file, format="png")
    return files


def draw_ndcg(result: DemoResult) -> Any:
    """NDCG@k against k, with the planted weights as the ceiling."""
    from robirank.experiments.demo.run import CUTOFFS

    k = np.array(CUTOFFS)
    figure, (axes,) = panels()
    axes.plot(k, result.ceiling.curve, color=FAINT, lw=1.4, ls=(0, (1, 1.6)))
    labels = [("planted weights", float(result.ceiling.curve[-1]), FAINT)]
    for name, row in result.methods.items():
        axes.plot(k, row.curve, **_line(name))
        labels.append((name, float(row.curve[-1]), COLOURS[name]))
    axes.set_xlim(1, k[-1])
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.set_xlabel("cut-off k")
    n_queries = len(result.ceiling.by_query)
    title(axes, "NDCG@k", f"mean over {n_queries} test queries; trained on lists with outliers")
    label_ends(axes, k[-1], labels)
    return figure


def draw_recommend(result: DemoResult) -> Any:
    """Precision@k of the recommendations against k, between popularity and the planted tastes."""
    from robirank.experiments.demo.latent import LATENT_CUTOFFS

    k, found = np.array(LATENT_CUTOFFS), result.latent
    figure, (axes,) = panels()
    labels = []
    for name, row in (("planted tastes", found.planted), ("most popular", found.popular)):
        axes.plot(k, row.curve, color=FAINT, lw=1.4, ls=(0, (1, 1.6)))
        labels.append((name, float(row.curve[-1]), FAINT))
    for name, row in found.methods.items():
        axes.plot(k, row.curve, **_line(name))
        labels.append((name, float(row.curve[-1]), COLOURS[name]))
    axes.set_xlim(1, k[-1])
    axes.set_ylim(bottom=0)
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.set_xlabel("cut-off k, the number of songs recommended")
    n_users = len(found.planted.model.user_factors)
    title(axes, "Precision@k", f"share of the k best that was hidden; mean over {n_users:,} users")
    label_ends(axes, k[-1], labels)
    return figure


def draw_convergence(result: DemoResult) -> Any:
    """How far the objective is above its final value, after each iteration of L-BFGS."""
    figure, (axes,) = panels()
    for name, row in result.methods.items():
        curve = getattr(row.model, "loss_curve_", None)
        if curve is None:
            continue
        excess = _excess(np.asarray(curve))
        axes.plot(excess, **_line(name))
        label(axes, name, (len(excess) - 1, excess[-1]), COLOURS[name])
    axes.set_yscale("log")
    axes.set_xlim(left=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("iteration of L-BFGS")
    title(axes, "Training", "objective above its final value, as a share of the start's")
    return figure


def draw_losses() -> Any:
    """Draw the transformations ρ of a list's sum, and the losses σ they make of one margin."""
    figure, (left, right) = panels(2, width=4.6)
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
    title(axes, "Transformations ρ(t)", "what a document far down its list costs")


def _draw_margins(axes: Any) -> None:
    margin = np.linspace(-8, 3, 500)
    axes.plot([-8, 0, 0, 3], [1, 1, 0, 0], color=FAINT, lw=1.2, ls=(0, (1, 1.6)))
    axes.plot(margin, losses.sigma0(margin), **_line("Identity"))
    axes.plot(margin, losses.sigma1(margin), **_line("RoBiRank"))
    axes.plot(margin, losses.sigma2(margin), **_line("Type-II"))
    axes.text(-4.1, 4.45, "Identity,  σ₀", color=COLOURS["Identity"])
    axes.text(-7.8, 2.35, "RoBiRank,  σ₁", color=COLOURS["RoBiRank"], weight="bold")
    axes.text(-7.8, 1.1, "0-1 loss", color=FAINT)
    axes.text(-7.8, 0.28, "Type-II,  σ₂", color=COLOURS["Type-II"])
    axes.set(xlim=(-8, 3), ylim=(0, 5), xlabel="margin, relevant less irrelevant score")
    title(axes, "Losses σ = ρ(σ₀)", "what one wrong pair costs")


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
