"""Answers about the map of items: its points, and groups by which they are coloured."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from msgspec import UNSET

from robirank.serve.loaded import ServedRecommender
from robirank.serve.page_messages import MapGroups, MapPoints
from robirank.serve.problems import bad_value

_STEPS = 65_535
_GROUPS = 7


def map_points(served: ServedRecommender) -> MapPoints:
    """A point for each item, in whole numbers."""
    drawn = served.drawn
    low = drawn.points.min(axis=0, initial=np.inf)
    width = float(np.ptp(drawn.points, axis=0).max()) if len(drawn.points) else 0.0
    steps = np.rint((drawn.points - low) * (_STEPS / width if width else 0.0)).astype(np.int64)
    return MapPoints(
        served.checksum,
        drawn.kind,
        steps[:, 0].tolist(),
        steps[:, 1].tolist(),
        UNSET if drawn.share is None else drawn.share,
        UNSET if served.counts is None else served.counts.tolist(),
        list(served.catalogue.columns),
    )


def map_groups(served: ServedRecommender, column: str) -> MapGroups:
    """The group of each item: one of the most frequent values, or a range of numbers."""
    if column not in served.catalogue.columns:
        known = ", ".join(served.catalogue.columns) or "none"
        raise bad_value("$.column", f"must be a column of the table of items; these are {known}")
    values = served.catalogue.column(column)
    if values.dtype.is_numeric() and values.n_unique() > _GROUPS + 1:
        kind, labels, groups = "ranges", *_ranges(values.cast(pl.Float64))
    else:
        kind, labels, groups = "values", *_values(values)
    counts = np.bincount(groups[groups >= 0], minlength=len(labels)).tolist()
    return MapGroups(served.checksum, column, _kind(kind), labels, counts, groups.tolist())


def _values(values: pl.Series) -> tuple[list[str], Any]:
    """The most frequent values."""
    if values.dtype.is_nested():
        values = values.list.first()
    texts = values.cast(pl.String).alias("value")
    often = texts.drop_nulls().value_counts().sort(["count", "value"], descending=[True, False])
    labels = often["value"].head(_GROUPS).to_list()
    places = {label: place for place, label in enumerate(labels)}
    return labels, np.array([places.get(text, -1) for text in texts], np.int32)


def _ranges(values: pl.Series) -> tuple[list[str], Any]:
    """Ranges between quantiles; equal values are in one range."""
    numbers = values.to_numpy()
    is_known = np.isfinite(numbers)
    known = numbers[is_known]
    ends = np.unique(np.quantile(known, np.linspace(0, 1, _GROUPS + 1)[1:-1], method="lower"))
    ends = ends[ends < known.max()]
    groups = np.full(len(numbers), -1, np.int32)
    groups[is_known] = np.searchsorted(ends, known, "left")
    values_in = [known[groups[is_known] == group] for group in range(len(ends) + 1)]
    labels = [_range(part.min(), part.max()) for part in values_in]
    return labels, groups


def _range(low: float, high: float) -> str:
    return _short(low) if low == high else f"{_short(low)} – {_short(high)}"


def _short(value: float) -> str:
    """A whole number as it is, and others with three digits that count."""
    if value == round(value):
        return f"{value:.0f}" if abs(value) < 10_000 else f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"


def _kind(kind: str) -> Any:
    return kind
