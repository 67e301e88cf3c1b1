"""Is the difference real? Paired tests over queries, corrected for many comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Comparison", "bootstrap_interval", "compare", "holm", "sign_flip_p"]

_BLOCK = 1 << 22  # random numbers drawn at a time


def _paired(differences: ArrayLike) -> NDArray[np.float64]:
    d = np.asarray(differences, dtype=np.float64)
    if d.ndim != 1 or len(d) == 0 or not np.isfinite(d).all():
        raise ValueError("differences must be a non-empty vector of finite numbers, one a query")
    return d


def sign_flip_p(
    differences: ArrayLike, *, n_resamples: int = 10_000, random_state: int = 0
) -> float:
    r"""Two-sided p-value of the paired randomisation test (Fisher; for IR, Smucker et al. 2007).

    If two methods were the same, the sign of every query's difference would be a coin toss. The
    p-value is the share of random signs whose mean is at least as far from 0 as the observed one:
    :math:`(1 + \#\{|\bar d^*| \ge |\bar d|\}) / (1 + n)`.

    Examples
    --------
    >>> sign_flip_p([0.0, 0.0, 0.0])
    1.0
    >>> sign_flip_p([0.1] * 30) < 0.001
    True
    """
    d = _paired(differences)
    d = d[d != 0]  # their sign does not matter
    observed = abs(d.sum())
    rng = np.random.default_rng(random_state)
    # Sums that are equal but for rounding count as equal.
    threshold = observed - 1e-12 * np.abs(d).sum()
    rows = max(1, _BLOCK // max(len(d), 1))
    extreme = 0
    for begin in range(0, n_resamples, rows):
        n = min(rows, n_resamples - begin)
        signs = rng.integers(0, 2, (n, len(d)), dtype=np.int8) * 2 - 1
        extreme += int((np.abs(signs @ d) >= threshold).sum())
    return (1 + extreme) / (1 + n_resamples)


def bootstrap_interval(
    values: ArrayLike, *, level: float = 0.95, n_resamples: int = 10_000, random_state: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean over queries.

    Examples
    --------
    >>> bootstrap_interval([0.5, 0.5, 0.5])
    (0.5, 0.5)
    """
    v = _paired(values)
    rng = np.random.default_rng(random_state)
    rows = max(1, _BLOCK // len(v))
    means = np.empty(n_resamples)
    for begin in range(0, n_resamples, rows):
        n = min(rows, n_resamples - begin)
        means[begin : begin + n] = v[rng.integers(0, len(v), (n, len(v)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def holm(p_values: Sequence[float]) -> list[float]:
    r"""Adjust p-values for many comparisons (Holm 1979).

    The i-th smallest of m is multiplied by :math:`m - i + 1`, and none may be smaller than the one
    before: rejecting those below 0.05 keeps the chance of any false rejection below 0.05.

    Examples
    --------
    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * (len(p) - np.arange(len(p)))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(a) for a in adjusted]


@dataclass(frozen=True)
class Comparison:
    """A method against the baseline on the same queries; positive means the method is ahead."""

    measure: str
    baseline: str
    method: str
    difference: float
    low: float
    high: float
    p: float
    p_adjusted: float

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON has it."""
        return asdict(self)


def compare(
    values: Mapping[str, ArrayLike], baseline: str, *, measure: str, random_state: int = 0
) -> list[Comparison]:
    """Compare every method with the baseline, query by query.

    Parameters
    ----------
    values : mapping from method to array of shape (n_queries,)
        The same queries in the same order for every method.
    baseline : str
        One of the methods.
    measure : str
        What the values are; only passed on.

    Returns
    -------
    list of Comparison
        One a method other than the baseline, p-values adjusted together by Holm's procedure.
    """
    others = [m for m in values if m != baseline]
    base = _paired(values[baseline])
    differences = {m: _paired(values[m]) - base for m in others}
    p = [sign_flip_p(differences[m], random_state=random_state) for m in others]
    found = []
    for method, raw, adjusted in zip(others, p, holm(p), strict=True):
        d = differences[method]
        low, high = bootstrap_interval(d, random_state=random_state)
        mean = float(d.mean())
        found.append(Comparison(measure, baseline, method, mean, low, high, raw, adjusted))
    return found
