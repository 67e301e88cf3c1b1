"""Checks of parameters; each error names the parameter, its value and what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank.errors import ArgumentError


def check_positive(name: str, value: Any, *, at_most: float = np.inf) -> None:
    """Raise an error unless the parameter is a finite number above 0, and at most ``at_most``."""
    if not _is_number(value) or not 0 < float(value) <= at_most or np.isinf(value):
        also = "" if np.isinf(at_most) else f", at most {at_most:g}"
        raise ArgumentError(name, f"must be a positive number{also}; got {value!r}")


def check_not_negative(name: str, value: Any) -> None:
    """Raise an error unless the parameter is a finite number of at least 0."""
    if not _is_number(value) or not 0 <= float(value) < np.inf:
        raise ArgumentError(name, f"must be a finite number >= 0; got {value!r}")


def check_fraction(name: str, value: Any, *, at_most: float = 1.0) -> None:
    """Raise an error unless the parameter is a number from 0 to ``at_most``."""
    if not _is_number(value) or not 0 <= float(value) <= at_most:
        raise ArgumentError(name, f"must be a fraction from 0 to {at_most:g}; got {value!r}")


def check_count(
    name: str, value: Any, *, or_none: bool = False, at_least: int = 1, at_most: int | None = None
) -> None:
    """Raise an error unless the parameter is a positive integer between limits, or perhaps None."""
    if or_none and value is None:
        return
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        also = " or None" if or_none else ""
        raise ArgumentError(name, f"must be a positive integer{also}; got {value!r}")
    if value < at_least:
        raise ArgumentError(name, f"must be at least {at_least}; got {value!r}")
    if at_most is not None and int(value) > at_most:
        raise ArgumentError(name, f"must be at most {at_most}; got {value!r}")


def check_choice(name: str, value: Any, allowed: Iterable[Any], also: str = "") -> None:
    """Raise an error unless the parameter is one of the allowed values; ``also`` names others."""
    if value not in list(allowed):
        raise ArgumentError(name, f"must be one of {list(allowed)}{also}; got {value!r}")


def check_length(name: str, values: NDArray[Any], n: int, what: str) -> None:
    """Raise an error unless an array has one value for each of ``n`` of something."""
    if values.shape != (n,):
        problem = f"must have one value for each of the {n} {what}; got shape {values.shape}"
        raise ArgumentError(name, problem)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def all_finite(array: NDArray[Any]) -> bool:
    """Whether no value is NaN or infinite; needs no temporary array."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))
