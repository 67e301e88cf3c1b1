"""What a run found, in one place for table and report: every metric of every query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from robirank_lab.run_dir import RunDirectory

FloatArray = NDArray[np.float64]


class LtrResults:
    """The metrics of every test query by every method, as one array.

    Attributes
    ----------
    methods, metrics, folds : list of str
        Metrics are "ndcg@1" to "ndcg@k_max", "mean_ndcg" and "map"; folds those that any method
        has seen.
    queries : list of pairs of fold and query id
        In the order of the array; a query id may come back in another fold.
    array : array of shape (n_methods, n_metrics, n_queries)
        NaN where a method has no value.
    """

    def __init__(self, run: RunDirectory) -> None:
        fits, frame = run.fits(), run.results()
        self.methods = run.methods
        self.folds = [fold for fold in run.data.folds if any(fit.case == fold for fit in fits)]
        at_k = [f"ndcg@{k}" for k in range(1, run.experiment.k_max + 1)]
        self.metrics = [*at_k, "mean_ndcg", "map"]
        queries = frame.select("case", "qid").unique().sort("case", "qid")
        self.queries = queries.rows()
        self.array = np.full((len(self.methods), len(self.metrics), len(self.queries)), np.nan)
        frame = frame.join(queries.with_row_index("at"), on=["case", "qid"])
        for (method, metric, k), part in frame.group_by("method", "metric", "k"):
            values = self.of(str(method), f"{metric}@{k}" if k else str(metric))
            values[part["at"].to_numpy()] = part["value"].to_numpy()
        self._done = {fit.unit for fit in fits if fit.error is None}

    def of(self, method: str, metric: str) -> FloatArray:
        """A metric of all queries by a method."""
        return self.array[self.methods.index(method), self.metrics.index(metric)]

    def complete(self, method: str, fold: str | None = None) -> bool:
        """Whether a method has results on a fold, or on all of them."""
        folds = self.folds if fold is None else [fold]
        return bool(folds) and all((method, f) in self._done for f in folds)

    def means(self, method: str) -> dict[str, float]:
        """The means over all queries; none for a method that lacks a fold."""
        if not self.complete(method):
            return {}
        means = mean_interval(self.array[self.methods.index(method)])[0]
        return dict(zip(self.metrics, means.tolist(), strict=True))


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
