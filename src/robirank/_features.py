"""Features of documents: the precision that is kept of them, dense copies, an order of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._queries import Queries
from robirank._types import Floats64, Ints64

_CHUNK_ROWS = 4096


def feature_type(X: Any) -> type[np.float32] | type[np.float64]:
    """float32 for features that all are float32 already, else float64.

    float32 rounds whole numbers above 2^24, such as times in seconds; float64 those above 2^53.
    """
    columns = getattr(X, "dtypes", None) if hasattr(X, "columns") else None
    kinds = [getattr(X, "dtype", None)] if columns is None else list(columns)
    # NumPy, pandas, polars and PyTorch spell it in their own ways; ">f4" has its bytes swapped.
    single = bool(kinds) and all(str(k).lower().endswith(("float32", ">f4")) for k in kinds)
    return np.float32 if single else np.float64


def dense(X: Any) -> Any:
    """The matrix itself if it is dense, else its dense form."""
    return X.toarray() if hasattr(X, "toarray") else X


def dense_chunks(X: Any, n_rows: int) -> Iterator[tuple[slice, Floats64]]:
    """Yield a dense or CSR matrix as dense float64 chunks of rows, each after its range of rows."""
    for start in range(0, X.shape[0], n_rows):
        rows = slice(start, min(start + n_rows, X.shape[0]))
        yield rows, np.ascontiguousarray(dense(X[rows]), dtype=np.float64)


def settled_order(X: Any, y: NDArray[Any], queries: Queries) -> Ints64:
    """Order rows query by query, and within a query by a hash of their features.

    LightGBM breaks ties by the order of rows: all scores tie in the first round of LambdaMART, and
    a list that comes sorted by label would look like a good ranking. Dropout draws row by row. With
    this order a fit does not depend on the order of rows within queries, to the last bit.
    """
    rows = queries.rows()
    return rows[np.lexsort((y[rows], _row_hashes(X)[rows], queries.codes()))]


def _row_hashes(X: Any) -> NDArray[np.uint64]:
    factors = np.random.default_rng(0).integers(2**63, size=X.shape[1], dtype=np.uint64) * 2 + 1
    hashes = np.empty(X.shape[0], dtype=np.uint64)
    for rows, chunk in dense_chunks(X, _CHUNK_ROWS):
        bits = (chunk + 0.0).view(np.uint64)  # −0 becomes 0
        # What tells short numbers apart stands in their upper half; products keep the lower one.
        hashes[rows] = ((bits ^ (bits >> 32)) * factors).sum(axis=1, dtype=np.uint64)
    return hashes
