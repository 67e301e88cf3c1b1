"""Checks of parameters."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np


def check_positive(name: str, value: Any) -> None:
    """Raise an error unless the parameter is a finite number above 0."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a positive number; got {value!r}")


def check_count(name: str, value: Any) -> None:
    """Raise an error unless the parameter is an integer of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a positive integer; got {value!r}")


def check_choice(name: str, value: Any, allowed: Iterable[Any], also: str = "") -> None:
    """Raise an error unless the parameter is one of the allowed values; ``also`` names others."""
    if value not in list(allowed):
        raise ValueError(f"{name} must be one of {list(allowed)}{also}; got {value!r}")
