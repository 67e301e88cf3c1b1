"""How figures look: one style for all, lines labelled where they end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sklearn.isotonic import isotonic_regression

from robirank.storage.files import write_whole

STRONG = ("RoBiRank", "RoBiRank exact")
FAINT = "#8A8A8A"
_STYLE = Path(__file__).with_name("figures.mplstyle")


def require_matplotlib() -> None:
    """Raise an error that says what to install where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "the plots need matplotlib, which is not installed; pip install 'robirank[plots]'"
        ) from error


def save_figures(
    folder: Path, figures: Mapping[str, Callable[[], Any]], kinds: Sequence[str] = ("png", "svg")
) -> None:
    """Draw figures into a folder, under their names; none where matplotlib is missing."""
    try:
        import matplotlib as mpl
    except ImportError:
        return
    folder.mkdir(exist_ok=True)
    with mpl.rc_context(fname=_STYLE):
        for name, draw in figures.items():
            figure = draw()
            for kind in kinds:
                with write_whole(folder / f"{name}.{kind}") as file:
                    figure.savefig(file, format=kind)


def panels(n: int = 1, width: float = 7.2) -> tuple[Any, Any]:
    """A figure with so many axes side by side, of a width in inches each."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(width * n, 4.4), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)
    return figure, figure.subplots(1, n, squeeze=False)[0]


def title(axes: Any, text: str, subtitle: str) -> None:
    """What the axes show, and under which conditions."""
    axes.set_title(text, loc="left", fontsize=12, fontweight="bold", pad=26)
    axes.annotate(
        subtitle,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 10),
        textcoords="offset points",
        color=FAINT,
    )


def label(axes: Any, name: str, at: tuple[float, float], colour: str) -> None:
    """Write a name beside a point, in the colour of its line."""
    axes.annotate(
        name,
        at,
        xytext=(7, 0),
        textcoords="offset points",
        color=colour,
        va="center",
        fontweight="bold" if name in STRONG else "normal",
        annotation_clip=False,
    )


def label_ends(axes: Any, x: float, labels: list[tuple[str, float, str]]) -> None:
    """Write each line's name at its right end, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    ordered = sorted(labels, key=lambda label: label[1])
    places = _spread([y for _, y, _ in ordered], 0.058 * (high - low))
    for (name, _, colour), y in zip(ordered, places, strict=True):
        label(axes, name, (x, y), colour)


def _spread(places: Sequence[float], gap: float) -> list[float]:
    """Move rising places apart to at least the gap, each as little as its neighbours allow.

    Examples
    --------
    >>> _spread([1.0, 1.0, 9.0], gap=2.0)
    [0.0, 2.0, 9.0]
    """
    # With i·gap taken off, places must not fall.
    level = isotonic_regression([place - i * gap for i, place in enumerate(places)])
    return [float(value) + i * gap for i, value in enumerate(level)]
