"""What a knob of recommended lists does to accuracy and to what lists show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from robirank._checks import check_choice, check_count, check_fraction
from robirank.errors import ArgumentError
from robirank.latent.factors.evaluate import Evaluation, evaluate
from robirank.latent.factors.list_metrics import METRICS
from robirank.latent.factors.shown_items import SHOWN

if TYPE_CHECKING:
    import polars as pl

#: What can be swept over.
Knob = Literal["variety", "popularity"]

_VALUES = {"variety": (0, 0.1, 0.2, 0.3, 0.4, 0.5), "popularity": (0, 0.25, 0.5, 0.75, 1)}
_TITLES = {
    "item_coverage": "share of the catalogue that is shown",
    "gini": "Gini index of how often items are shown",
    "novelty": "novelty, bits",
    "distance": "distance within a list",
    "tail": "share of the tail",
}


@dataclass(frozen=True, repr=False)
class Sweep:
    """The evaluations for some values of a knob.

    Attributes
    ----------
    knob : str
    values : tuple of float
    k : int
        The cut-off.
    evaluations : tuple of Evaluation
        One for each value.
    """

    knob: str
    values: tuple[float, ...]
    k: int
    evaluations: tuple[Evaluation, ...]

    @property
    def frame(self) -> pl.DataFrame:
        """A row for each value: the knob, the metrics of hits, those of what lists show."""
        import polars as pl

        rows = [
            {self.knob: value} | result.means | result.shown
            for value, result in zip(self.values, self.evaluations, strict=True)
        ]
        return pl.DataFrame(rows)

    def header(self) -> list[str]:
        """The values, as texts."""
        return [f"{value:g}" for value in self.values]

    def rows(self) -> list[list[str]]:
        """Each metric at the cut-off, with a text for each value; "-" where there is none."""
        rows = []
        for metric in (*METRICS, *SHOWN):
            name = f"{metric}@{self.k}"
            found = [(result.means | result.shown).get(name) for result in self.evaluations]
            rows.append([name, *("-" if value is None else f"{value:.4f}" for value in found)])
        return rows

    def table(self) -> str:
        """A line for each metric and a column for each value."""
        lines = [[self.knob, *self.header()], *self.rows()]
        return "\n".join(
            f"{name:>18s}" + "".join(f"{cell:>10s}" for cell in cells) for name, *cells in lines
        )

    def __repr__(self) -> str:
        return self.table()

    def plot(self, metric: str = "ndcg") -> Any:
        """Draw accuracy against each metric of what lists show (needs ``robirank[plots]``).

        Parameters
        ----------
        metric : {"precision", "recall", "ndcg", "map", "hit_rate"}, default="ndcg"

        Returns
        -------
        matplotlib.figure.Figure
            ``figure.savefig("sweep.png")`` writes a file.
        """
        check_choice("metric", metric, METRICS)
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError(
                "the plots need matplotlib, which is not installed; pip install 'robirank[plots]'"
            ) from error
        frame = self.frame
        accuracy = frame[f"{metric}@{self.k}"].to_numpy()
        errors = [result.errors[f"{metric}@{self.k}"] for result in self.evaluations]
        figure = Figure(figsize=(10.5, 6), layout="constrained")
        panels = [name for name in SHOWN if f"{name}@{self.k}" in frame.columns]
        grid = figure.subplots(2, 3, sharey=True).flat
        for axes, name in zip(grid, [self.knob, *panels], strict=False):
            where = frame[name if name == self.knob else f"{name}@{self.k}"].to_numpy()
            axes.errorbar(where, accuracy, errors, marker="o", markersize=4, color="#2f6f9f")
            for x, y, value in zip(where, accuracy, self.values, strict=True):
                if name != self.knob:
                    axes.annotate(f"{value:g}", (x, y), (4, 5), textcoords="offset points", size=8)
            axes.set_xlabel(_TITLES.get(name, name))
            axes.grid(alpha=0.3)
        for axes in [*figure.axes][len(panels) + 1 :]:
            axes.set_visible(False)
        figure.supylabel(f"{metric}@{self.k}")
        return figure


def sweep(
    model: Any,
    *,
    train: Any,
    test: Any,
    knob: Knob = "variety",
    values: Sequence[float] | None = None,
    k: int = 20,
    **options: Any,
) -> Sweep:
    """Evaluate a model for several values of ``variety`` or of ``popularity``.

    Parameters
    ----------
    model, train, test
        As in `evaluate`.
    knob : {"variety", "popularity"}, default="variety"
    values : sequence of float, optional
        From 0 to 1. Default: 0, .1, …, .5 of variety, and 0, .25, …, 1 of popularity.
    k : int, default=20
        The cut-off.
    options
        Other arguments of `evaluate`, such as ``users=`` or ``rules=``, and the other knob.

    Returns
    -------
    Sweep
        With the frame of all metrics, and a plot.

    Examples
    --------
    >>> import robirank as rr
    >>> data = rr.make_interactions(80, 40, 900, random_state=0)
    >>> train, test = rr.split_ratio(data, 0.2, random_state=0)
    >>> model = rr.LatentRoBiRank(factors=4, random_state=0).fit(train, show_progress=False)
    >>> result = rr.sweep(model, train=train, test=test, knob="popularity", values=[0, 1], k=5)
    >>> result.frame.shape
    (2, 11)
    >>> low, high = result.frame["novelty@5"]
    >>> low < high
    True
    """
    check_choice("knob", knob, [*_VALUES])
    check_count("k", k)
    if knob in options:
        raise ArgumentError(knob, "is what is swept over; give its values as values")
    chosen = _VALUES[knob] if values is None else tuple(np.atleast_1d(values).tolist())
    if not chosen:
        raise ArgumentError("values", "must have at least one value; it has none")
    for value in chosen:
        check_fraction("values", value)
    options |= {"train": train, "test": test, "k": k}
    results = [evaluate(model, **options | {knob: value}) for value in chosen]
    return Sweep(knob, tuple(map(float, chosen)), int(k), tuple(results))
