"""What someone may have meant: the known names that are nearest to one that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

_COMPARED = 200  # names with the most pairs of letters in common, which are compared in full
_ALIKE = 0.7  # of difflib's ratio


def nearest(text: str, known: Iterable[Any], n: int = 3) -> list[str]:
    """The names most like a text, the best first, whatever their case.

    Names that share most pairs of letters with the text are found in one pass by polars, and only
    those are compared letter by letter: 400,000 names take a fraction of a second.

    Examples
    --------
    >>> nearest("Metalica", ["Slayer", "Metallica", "Megadeth"])
    ['Metallica']
    >>> nearest("xyz", ["Slayer"])
    []
    """
    import numpy as np
    import polars as pl

    names = pl.Series("name", known, dtype=pl.String).drop_nulls().unique(maintain_order=True)
    lower, wanted = names.str.to_lowercase(), text.strip().lower()
    if not wanted or not len(names):
        return []
    pairs = {wanted[i : i + 2] for i in range(max(1, len(wanted) - 1))}
    shared = np.zeros(len(names), dtype=np.int32)
    for pair in pairs:
        shared += lower.str.contains(pair, literal=True).to_numpy()
    alike = 2 * shared / (len(pairs) + np.maximum(1, lower.str.len_chars().to_numpy() - 1.0))
    best = np.argsort(-alike, kind="stable")[:_COMPARED]
    scored = []
    for place in best[alike[best] > 0].tolist():
        ratio = difflib.SequenceMatcher(None, wanted, lower[place]).ratio()
        within = len(wanted) > 2 and wanted in lower[place]
        if ratio >= _ALIKE or within:
            scored.append((-ratio, place))
    return [names[place] for _, place in sorted(scored)[:n]]


def did_you_mean(close: Sequence[str]) -> str:
    """The end of an error message; empty where nothing is close.

    Examples
    --------
    >>> did_you_mean(["Metallica"])
    "; did you mean 'Metallica'?"
    """
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
