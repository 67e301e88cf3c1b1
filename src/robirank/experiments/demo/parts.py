"""What each part of the demonstration finds out: how good several methods are, and their bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CUTOFFS = tuple(range(1, 21))


@dataclass(frozen=True)
class MethodResult:
    """What one method reached.

    Attributes
    ----------
    measures : dict
        Means over test queries, or over users.
    curve : array
        NDCG@k, or precision@k, for k in `CUTOFFS`.
    model : object
    seconds : float
        Of all its fits together; 0 for what needs none.
    by_query : array or None
        NDCG@10 of every test query.
    """

    measures: dict[str, float]
    curve: NDArray[np.float64]
    model: Any = field(default=None, repr=False)
    seconds: float = 0.0
    by_query: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class DemoPart:
    """All that a part of the demonstration found out.

    Attributes
    ----------
    methods : dict from name to MethodResult
    bounds : dict from name to MethodResult
        What no method can be expected to exceed, or to fall below.
    files : dict from what it is to Path
    """

    methods: dict[str, MethodResult]
    bounds: dict[str, MethodResult]
    files: dict[str, Path]

    def summary(self) -> dict[str, Any]:
        """Everything as numbers and strings, for JSON."""
        rows = {
            name: {"measures": row.measures, "fit_seconds": round(row.seconds, 3)}
            for name, row in self.methods.items()
        }
        bounds = {
            name.lower().replace(" ", "_"): {"measures": row.measures}
            for name, row in self.bounds.items()
        }
        return {"methods": rows, **bounds}
