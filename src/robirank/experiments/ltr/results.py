"""What a run found, in one place for table, figures and report: every measure of every query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import LtrSettings
from robirank.experiments.text import natural_key

FloatArray = NDArray[np.float64]


class LtrResults:
    """The measures of every test query by every method, as one array.

    Attributes
    ----------
    methods, measures, folds : list of str
        Measures are "ndcg@1" to "ndcg@k_max", "mean_ndcg" and "map"; folds those that any method
        has seen.
    queries : list of pairs of fold and query id
        In the order of the array; a query id may come back in another fold.
    array : array of shape (n_methods, n_measures, n_queries)
        NaN where a method has no value.
    """

    def __init__(self, run: RunDirectory[LtrSettings]) -> None:
        fits, frame = run.fits(), run.results()
        self.methods = run.methods
        self.folds = sorted({fit.fold for fit in fits}, key=natural_key)
        at_k = [f"ndcg@{k}" for k in range(1, run.settings.k_max + 1)]
        self.measures = [*at_k, "mean_ndcg", "map"]
        queries = frame.select("fold", "qid").unique().sort("fold", "qid")
        self.queries = queries.rows()
        self.array = np.full((len(self.methods), len(self.measures), len(self.queries)), np.nan)
        frame = frame.join(queries.with_row_index("at"), on=["fold", "qid"])
        for (method, measure, k), part in frame.group_by("method", "measure", "k"):
            values = self.of(str(method), f"{measure}@{k}" if k else str(measure))
            values[part["at"].to_numpy()] = part["value"].to_numpy()
        self._done = {fit.unit for fit in fits if fit.error is None}

    def of(self, method: str, measure: str) -> FloatArray:
        """A measure of all queries by a method."""
        return self.array[self.methods.index(method), self.measures.index(measure)]

    def curve(self, method: str) -> FloatArray:
        """NDCG@k for k = 1 … k_max, the means over all queries."""
        return mean_interval(self.array[self.methods.index(method), :-2])[0]

    def complete(self, method: str, fold: str | None = None) -> bool:
        """Whether a method has results on a fold, or on all of them."""
        folds = self.folds if fold is None else [fold]
        return bool(folds) and all((method, f) in self._done for f in folds)

    def means(self, method: str) -> dict[str, float]:
        """The means over all queries; none for a method that lacks a fold."""
        if not self.complete(method):
            return {}
        means = mean_interval(self.array[self.methods.index(method)])[0]
        return dict(zip(self.measures, means.tolist(), strict=True))


def mean_interval(values: FloatArray, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    r"""Mean along the last axis and half the width of its confidence interval.

    Student's interval :math:`\bar v \pm t_{n-1} s / \sqrt n`; NaN are left out, and the half-width
    is NaN where fewer than two values are left.

    Examples
    --------
    >>> mean, half = mean_interval(np.array([[0.2, 0.4, np.nan], [0.5, np.nan, np.nan]]))
    >>> mean.round(4).tolist(), half.round(4).tolist()
    ([0.3, 0.5], [1.2706, nan])
    """
    n = np.sum(~np.isnan(values), axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(values, axis=-1) / n
        variance = np.nansum((values - mean[..., None]) ** 2, axis=-1) / (n - 1)
        half = stats.t.ppf((1 + level) / 2, np.maximum(n - 1, 1)) * np.sqrt(variance / n)
    return np.where(n > 0, mean, np.nan), np.where(n > 1, half, np.nan)
