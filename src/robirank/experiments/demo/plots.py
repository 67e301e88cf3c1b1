"""The figures of the demonstration."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank import losses
from robirank.experiments.demo.latent import LatentPart
from robirank.experiments.demo.parts import CUTOFFS, DemoPart
from robirank.experiments.plotting import FAINT, label, label_ends, panels, save_figures, title

# Okabe and Ito's palette, which people who confuse red and green can tell apart.
COLOURS = {
    "RoBiRank": "#0072B2",
    "Identity": "#D55E00",
    "Type-II": "#009E73",
    "Pairwise logistic": "#A0568C",
    "WARP": "#A0568C",
}


def draw_all(features: DemoPart, latent: LatentPart, folder: Path) -> dict[str, Path]:
    """Draw every figure into the folder; return what they show and where they are."""
    figures: dict[str, Callable[[], Any]] = {
        "ndcg": partial(draw_ndcg, features),
        "convergence": partial(draw_convergence, features),
        "losses": draw_losses,
        "recommend": partial(draw_recommend, latent),
    }
    save_figures(folder, figures, kinds=("png",))
    shown = ("NDCG at every cut-off", "convergence", "the losses", "recommendations")
    return {what: folder / f"{name}.png" for what, name in zip(shown, figures, strict=True)}


def draw_ndcg(part: DemoPart) -> Any:
    """NDCG@k against k, with the planted weights as the ceiling."""
    by_query = part.methods["RoBiRank"].by_query
    assert by_query is not None
    facts = f"mean over {len(by_query)} test queries; trained on lists with outliers"
    return _draw_cutoffs(part, "NDCG@k", facts, "cut-off k")


def draw_recommend(part: LatentPart) -> Any:
    """Precision@k of the recommendations against k, between popularity and the planted tastes."""
    facts = f"share of the k best that was hidden; mean over {part.n_users:,} users"
    x_label = "cut-off k, the number of songs recommended"
    return _draw_cutoffs(part, "Precision@k", facts, x_label, bottom=0)


def _draw_cutoffs(
    part: DemoPart, text: str, facts: str, x_label: str, bottom: float | None = None
) -> Any:
    figure, (axes,) = panels()
    labels = []
    for name, row in part.bounds.items():
        axes.plot(CUTOFFS, row.curve, color=FAINT, lw=1.4, ls=(0, (1, 1.6)))
        labels.append((name.lower(), float(row.curve[-1]), FAINT))
    for name, row in part.methods.items():
        axes.plot(CUTOFFS, row.curve, **_line(name))
        labels.append((name, float(row.curve[-1]), COLOURS[name]))
    axes.set_xlim(1, CUTOFFS[-1])
    axes.set_ylim(bottom=bottom)
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.set_xlabel(x_label)
    title(axes, text, facts)
    label_ends(axes, CUTOFFS[-1], labels)
    return figure


def draw_convergence(part: DemoPart) -> Any:
    """How far the objective is above its final value, after each iteration of L-BFGS."""
    figure, (axes,) = panels()
    for name, row in part.methods.items():
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
    t = np.linspace(0, 12, 400)
    left.plot(t, t, **_line("Identity"))
    left.plot(t, losses.rho1(t), **_line("RoBiRank"))
    left.plot(t, losses.rho2(t), **_line("Type-II"))
    left.text(4.9, 4.45, "Identity,  t", color=COLOURS["Identity"])
    left.text(6.0, 2.3, "RoBiRank,  log₂(1 + t)", color=COLOURS["RoBiRank"], weight="bold")
    left.text(6.0, 0.28, "Type-II,  1 − 1/log₂(2 + t)", color=COLOURS["Type-II"])
    left.set(xlim=(0, 12), ylim=(0, 5), xlabel="t: about the rank of a relevant document")
    title(left, "Transformations ρ(t)", "what a document far down its list costs")
    margin = np.linspace(-8, 3, 500)
    right.plot([-8, 0, 0, 3], [1, 1, 0, 0], color=FAINT, lw=1.2, ls=(0, (1, 1.6)))
    right.plot(margin, losses.sigma0(margin), **_line("Identity"))
    right.plot(margin, losses.sigma1(margin), **_line("RoBiRank"))
    right.plot(margin, losses.sigma2(margin), **_line("Type-II"))
    right.text(-4.1, 4.45, "Identity,  σ₀", color=COLOURS["Identity"])
    right.text(-7.8, 2.35, "RoBiRank,  σ₁", color=COLOURS["RoBiRank"], weight="bold")
    right.text(-7.8, 1.1, "0-1 loss", color=FAINT)
    right.text(-7.8, 0.28, "Type-II,  σ₂", color=COLOURS["Type-II"])
    right.set(xlim=(-8, 3), ylim=(0, 5), xlabel="margin, relevant less irrelevant score")
    title(right, "Losses σ = ρ(σ₀)", "what one wrong pair costs")
    return figure


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
