"""The arguments of metrics, checked."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank._types import Floats64, Ints64
from robirank.errors import Argument, ArgumentError

Cutoffs: TypeAlias = int | Sequence[int] | NDArray[np.integer[Any]] | None

FULL_LIST = np.iinfo(np.int64).max  # as a cut-off


def check_cutoffs(k: Cutoffs) -> tuple[Ints64, bool]:
    """Cut-offs as an array, and whether there was only one, not in a sequence."""
    if k is None:
        return np.array([FULL_LIST]), True
    single = np.ndim(k) == 0
    try:
        if np.asarray(k).dtype == bool:
            raise TypeError
        cutoffs = [operator.index(c) for c in np.atleast_1d(np.asarray(k, dtype=object))]
    except TypeError:
        cutoffs = []
    if not cutoffs or min(cutoffs) < 1:
        raise ArgumentError(
            Argument("k", k),
            "is not a cut-off; use an integer from 1, a sequence of them, or None for the full"
            " list",
        )
    return np.minimum(np.array(cutoffs, dtype=object), FULL_LIST).astype(np.int64), single


def check_vector(name: str, values: ArrayLike) -> Floats64:
    """Make a finite vector of floats."""
    vector = np.asarray(values)
    if vector.ndim != 1:
        raise ArgumentError(
            name, f"must be one-dimensional, one value a row; got shape {vector.shape}"
        )
    try:
        if vector.dtype.kind not in "buifO":
            raise TypeError
        floats = vector.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise ArgumentError(name, f"must be numbers; got {vector[:3].tolist()}, …") from None
    finite = np.isfinite(floats)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise ArgumentError(name, f"must be finite; {name}[{bad}] is {floats[bad]}")
    return floats
