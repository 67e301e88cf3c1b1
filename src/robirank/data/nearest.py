"""Suggestions for a mistyped name: the most similar names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

_COMPARED = 200  # the number of names that difflib compares with the text
_LEAST_RATIO = 0.7  # the least ratio of difflib for a name to be suggested


def nearest(text: str, names: Iterable[Any]) -> list[str]:
    """The three names that are most similar to a text, the best first; case does not matter.

    The names that share most pairs of letters with the text are chosen in one pass by polars, and
    only those are compared letter by letter: 400,000 names take a fraction of a second.
    """
    import numpy as np
    import polars as pl

    series = pl.Series("name", names, dtype=pl.String).drop_nulls().unique(maintain_order=True)
    lower, typed = series.str.to_lowercase(), text.strip().lower()
    if not typed or not len(series):
        return []
    pairs = {typed[i : i + 2] for i in range(max(1, len(typed) - 1))}
    shared = np.zeros(len(series), dtype=np.int32)
    for pair in pairs:
        shared += lower.str.contains(pair, literal=True).to_numpy()
    alike = 2 * shared / (len(pairs) + np.maximum(1, lower.str.len_chars().to_numpy() - 1.0))
    best = np.argsort(-alike, kind="stable")[:_COMPARED]
    scored = []
    for position in best[alike[best] > 0].tolist():
        ratio = difflib.SequenceMatcher(None, typed, lower[position]).ratio()
        if ratio >= _LEAST_RATIO or (len(typed) > 2 and typed in lower[position]):
            scored.append((-ratio, position))
    return [series[position] for _, position in sorted(scored)[:3]]


def did_you_mean(close: Sequence[str]) -> str:
    """The end of an error message that suggests names; empty without names."""
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
