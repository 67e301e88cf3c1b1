"""Features of documents as they come in: the precision that is kept of them, and dense copies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._types import Floats64


def feature_type(X: Any) -> type[np.float32] | type[np.float64]:
    """float32 for features that all are float32 already, else float64.

    float32 rounds whole numbers above 2^24, such as times in seconds; float64 those above 2^53.
    ``X`` is an array, a sparse matrix, a frame, a column of one, or a list.
    """
    columns = getattr(X, "dtypes", None) if hasattr(X, "columns") else None
    kinds = [getattr(X, "dtype", None)] if columns is None else list(columns)
    # NumPy, pandas, polars and PyTorch spell it in their own ways; ">f4" has its bytes swapped.
    single = bool(kinds) and all(str(k).lower().endswith(("float32", ">f4")) for k in kinds)
    return np.float32 if single else np.float64


def dense(X: Any) -> Any:
    """The matrix itself if it is dense, else its dense form."""
    return X.toarray() if hasattr(X, "toarray") else X


def mean_and_scale(X: NDArray[Any]) -> tuple[Floats64, Floats64]:
    """The mean and the standard deviation of each feature; the latter is 1 for a constant one."""
    spread = X.std(axis=0, dtype=np.float64)
    return X.mean(axis=0, dtype=np.float64), np.where(spread > 0, spread, 1.0)
