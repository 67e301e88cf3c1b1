"""The measures of every query by every method, for the page of a learning-to-rank run."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from robirank.experiments.report.common import cases_of
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import LtrSettings
from robirank.experiments.text import natural_key

FloatArray = NDArray[np.float64]

# Per-query values travel as integers of 16 bits: the value times SCALE, or MISSING.
SCALE, MISSING = 10_000, 65_535


class QueryValues:
    """The measures of every query by every method, as one array.

    Attributes
    ----------
    methods, measures, folds : list of str
        Measures are "ndcg@1" to "ndcg@k_max", "mean_ndcg" and "map".
    queries : list of pairs of fold and query id
        In the order of the array; a query id may come back in another fold.
    array : array of shape (n_methods, n_measures, n_queries)
        NaN where a method has no value.
    """

    def __init__(self, run: RunDirectory[LtrSettings]) -> None:
        self.methods, self.folds = run.methods, cases_of(run)
        at_k = [f"ndcg@{k}" for k in range(1, run.settings.k_max + 1)]
        self.measures = [*at_k, "mean_ndcg", "map"]
        frame = run.results()
        pairs = frame.select("fold", "qid").unique().rows()
        order = {fold: place for place, fold in enumerate(self.folds)}
        self.queries = sorted(pairs, key=lambda q: (order[q[0]], natural_key(q[1])))
        self.array = np.full((len(self.methods), len(self.measures), len(self.queries)), np.nan)
        place = pl.DataFrame(
            self.queries, schema={"fold": pl.String, "qid": pl.String}, orient="row"
        )
        frame = frame.join(place.with_row_index("at"), on=["fold", "qid"])
        for (method, measure, k), part in frame.group_by("method", "measure", "k"):
            name = f"{measure}@{k}" if k else str(measure)
            row = self.methods.index(str(method)), self.measures.index(name)
            self.array[(*row, part["at"].to_numpy())] = part["value"].to_numpy()
        self._done = {fit.unit for fit in run.fits() if fit.error is None}

    def complete(self, method: int, fold: int | None = None) -> bool:
        """Whether a method has results on a fold, or on all of them."""
        folds = self.folds if fold is None else [self.folds[fold]]
        return bool(folds) and all((self.methods[method], f) in self._done for f in folds)

    def means(self, method: int) -> dict[str, float]:
        """Return the means over all queries; none for a method that lacks a fold."""
        if not self.complete(method):
            return {}
        return dict(zip(self.measures, mean_interval(self.array[method])[0], strict=True))

    def difference(self, measure: str, method: str, baseline: str) -> float | None:
        """Mean of a method less that of another, over the queries that both have."""
        pair = [self.methods.index(name) for name in (method, baseline)]
        if measure not in self.measures or not all(map(self.complete, pair)):
            return None
        a, b = self.array[pair, self.measures.index(measure)]
        return float(mean_interval((a - b)[None, :])[0][0])

    def scopes(self, emphasis: int) -> list[dict[str, Any]]:
        """Curves over all queries, and over those of each fold where there are several."""
        several = range(len(self.folds)) if len(self.folds) > 1 else ()
        return [self._scope(emphasis, fold) for fold in (None, *several)]

    def _scope(self, emphasis: int, fold: int | None) -> dict[str, Any]:
        inside = [fold is None or f == self.folds[fold] for f, _ in self.queries]
        ndcg = self.array[:, :-2, inside]
        curves: list[dict[str, Any] | None] = []
        for method, own in enumerate(ndcg):
            if not self.complete(method, fold):
                curves.append(None)
                continue
            mean, half = mean_interval(own)
            curve = {"mean": mean, "half": half}
            if self.complete(emphasis, fold):
                difference, width = mean_interval(own - ndcg[emphasis])
                curve |= {"difference": difference, "differenceHalf": width}
            curves.append(curve)
        name = "All queries" if fold is None else self.folds[fold]
        return {"name": name, "queries": sum(inside), "curves": curves}

    def encoded(self) -> str:
        """All values as integers of 16 bits, little-endian, in base 64."""
        whole = np.round(np.clip(self.array, 0, 1) * SCALE)
        packed = np.where(np.isnan(whole), MISSING, whole).astype("<u2")
        return base64.b64encode(packed.tobytes()).decode()


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
