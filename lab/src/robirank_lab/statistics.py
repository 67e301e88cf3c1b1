"""Is the difference real? Paired tests over queries, corrected for many comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import bootstrap, monte_carlo_test, ttest_1samp

_DRAWN = 1 << 22  # random numbers drawn at a time


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
    rng = np.random.default_rng(random_state)

    def flip_signs(size: tuple[int, ...]) -> NDArray[np.float64]:
        return d * (rng.integers(0, 2, size, dtype=np.int8) * 2 - 1)

    result = monte_carlo_test(
        d,
        flip_signs,
        lambda sample, axis: np.abs(np.mean(sample, axis=axis)),
        vectorized=True,
        n_resamples=n_resamples,
        batch=max(1, _DRAWN // len(d)),
        alternative="greater",
    )
    return float(result.pvalue)


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
    if len(v) == 1:
        return float(v[0]), float(v[0])
    result = bootstrap(
        (v,),
        np.mean,
        method="percentile",
        confidence_level=level,
        n_resamples=n_resamples,
        batch=max(1, _DRAWN // len(v)),
        rng=np.random.default_rng(random_state),
    ).confidence_interval
    return float(result.low), float(result.high)


class PairedT(NamedTuple):
    """A mean of paired differences, its 95 % interval, and the p-value of its being 0."""

    mean: float
    low: float
    high: float
    p: float


def paired_t(differences: ArrayLike) -> PairedT:
    """Student's paired test, for few samples that are themselves means, such as those of folds.

    A single difference has no interval (NaN), and a p-value of 1.

    Examples
    --------
    >>> [round(float(x), 3) for x in paired_t([0.1, 0.2, 0.3])]
    [0.2, -0.048, 0.448, 0.074]
    """
    d = _paired(differences)
    mean = float(d.mean())
    if len(d) == 1:
        return PairedT(mean, np.nan, np.nan, 1.0)
    if np.ptp(d) == 0:
        return PairedT(mean, mean, mean, float(mean == 0))
    result = ttest_1samp(d, 0.0)
    interval = result.confidence_interval()
    return PairedT(mean, float(interval.low), float(interval.high), float(result.pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    r"""Adjust p-values for many comparisons (Holm 1979), which SciPy does not have.

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


class Comparison(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A method against the baseline on the same queries; positive means the method is ahead."""

    metric: str
    baseline: str
    method: str
    difference: float
    low: float
    high: float
    p: float
    p_adjusted: float


def compare(
    values: Mapping[str, ArrayLike], baseline: str, *, metric: str, random_state: int = 0
) -> list[Comparison]:
    """Compare every method with the baseline, query by query.

    Parameters
    ----------
    values : mapping from method to array of shape (n_queries,)
        The same queries in the same order for every method.
    baseline : str
        One of the methods.
    metric : str
        What the values are; only passed on.

    Returns
    -------
    list of Comparison
        One a method other than the baseline, p-values adjusted together by Holm's procedure.
    """
    base = _paired(values[baseline])
    differences = {m: _paired(v) - base for m, v in values.items() if m != baseline}
    seed: dict[str, Any] = {"random_state": random_state}
    p = [sign_flip_p(d, **seed) for d in differences.values()]
    return [
        Comparison(
            metric,
            baseline,
            method,
            float(d.mean()),
            *bootstrap_interval(d, **seed),
            raw,
            adjusted,
        )
        for (method, d), raw, adjusted in zip(differences.items(), p, holm(p), strict=True)
    ]
