"""What a run on noise found, in one place for table and report: curves, areas, tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank_lab.ltr.results import mean_interval
from robirank_lab.noise.kinds import LIST_KINDS, TABLE_KINDS
from robirank_lab.run_dir import RunDirectory
from robirank_lab.statistics import Comparison, holm, paired_t

Floats64 = NDArray[np.float64]
PUSHED, PUSHED_ABOVE = "pushed", "pushed_above"
METRIC_WORDS = {
    PUSHED: "share of honest users who are shown the pushed item",
    PUSHED_ABOVE: "share of the other items that the pushed item stands above",
}
"""Metrics of an attack, of which less is better."""


@dataclass(frozen=True)
class Curve:
    """A metric against the share of noise: means, and half the widths of their bands.

    Folds differ in level by more than methods do. The bands are 95 % intervals of what is left when
    the level of each sample, its mean over methods and shares, is taken out (Cousineau 2005, with
    Morey's factor): they say how far curves may move against each other.
    """

    mean: Floats64
    half: Floats64


class NoiseResults:
    """Every metric of every training set, by method, kind, share and sample.

    A sample is a fold, with the mean over the seeds that work on it; where there is but one fold,
    a sample is a seed.

    Attributes
    ----------
    methods : list of str
        Those of which nothing failed and nothing is missing.
    kinds, shares, metrics : sequence
        ``metrics`` begins with the quality, NDCG@k.
    baseline : str
        The method that others are compared with.
    """

    def __init__(self, run: RunDirectory) -> None:
        self.experiment = run.experiment
        self.kinds, self.shares = list(run.experiment.kinds), list(run.experiment.shares)
        frame = run.results()
        there = set(frame["metric"].unique().to_list())
        quality = f"ndcg@{run.experiment.k}"
        self.metrics = [quality, *(m for m in METRIC_WORDS if m in there)]
        missing = {method for method, _ in run.todo()}
        self.methods = [method for method in run.methods if method not in missing]
        names = ("RoBiRank", "RoBiRank exact")
        self.baseline = next((m for m in names if m in run.methods), run.methods[0])
        self._values = self._arrays(frame, run)

    def _arrays(self, frame: pl.DataFrame, run: RunDirectory) -> dict[tuple[str, ...], Floats64]:
        """By metric, method and kind: an array of shares × samples."""
        cells = {cell.name: cell for cell in run.experiment.cells(run.data)}
        by_fold = len({cell.fold for cell in cells.values()}) > 1
        means: dict[tuple[Any, ...], dict[str, list[float]]] = {}
        columns = frame.select("metric", "method", "case", "value")
        for metric, method, case, value in columns.iter_rows():
            cell = cells[case]
            samples = means.setdefault((metric, method, cell.kind, cell.share), {})
            samples.setdefault(cell.fold if by_fold else str(cell.seed), []).append(value)
        arrays: dict[tuple[str, ...], Floats64] = {}
        for metric, method, kind in product(self.metrics, self.methods, self.kinds):
            rows = [means.get((metric, method, kind if s else "", s)) for s in self.shares]
            if all(rows):
                arrays[metric, method, kind] = np.array(
                    [[np.mean(values) for _, values in sorted(row.items())] for row in rows if row]
                )
        return arrays

    def methods_with(self, metric: str, kind: str) -> list[str]:
        """The methods that have a curve."""
        return [m for m in self.methods if (metric, m, kind) in self._values]

    def curve(self, metric: str, method: str, kind: str) -> Curve | None:
        """The curve of a method under a kind of noise; None where there is none."""
        values = self._values.get((metric, method, kind))
        if values is None:
            return None
        together = np.array(
            [self._values[metric, m, kind] for m in self.methods_with(metric, kind)]
        )
        levels = together.mean(axis=(0, 1))
        _, half = mean_interval(values - levels)
        cells = together[..., 0].size
        return Curve(values.mean(axis=1), half * np.sqrt(cells / (cells - 1)))

    def areas(self, metric: str, method: str, kind: str) -> Floats64:
        """The area under a curve over its width, that is the mean height, of each sample."""
        values = self._values[metric, method, kind]
        widths = np.diff(self.shares) / self.shares[-1]
        return widths @ ((values[1:] + values[:-1]) / 2)

    def kept(self, metric: str, method: str, kind: str) -> float:
        """What is left at the largest share of what there is without noise."""
        means = self._values[metric, method, kind].mean(axis=1)
        return float(means[-1] / means[0]) if means[0] else np.nan

    def comparisons(self, metric: str, kind: str) -> list[Comparison]:
        """Areas against the baseline's, sample by sample; p-values adjusted by Holm's procedure."""
        methods = self.methods_with(metric, kind)
        if self.baseline not in methods:
            return []
        base = self.areas(metric, self.baseline, kind)
        others = [m for m in methods if m != self.baseline]
        tests = [paired_t(self.areas(metric, m, kind) - base) for m in others]
        adjusted = holm([test.p for test in tests])
        return [
            Comparison(metric, self.baseline, m, test.mean, test.low, test.high, test.p, p)
            for m, test, p in zip(others, tests, adjusted, strict=True)
        ]


def metric_words(metric: str) -> str:
    """What a metric is called in a table.

    Examples
    --------
    >>> metric_words("ndcg@10")
    'NDCG@10'
    """
    return METRIC_WORDS.get(metric, metric.replace("ndcg", "NDCG"))


def kind_words(kinds: Sequence[str]) -> Mapping[str, str]:
    """What each kind of noise does, in words."""
    known = {**LIST_KINDS, **TABLE_KINDS}
    return {kind: known[kind].words for kind in kinds}
