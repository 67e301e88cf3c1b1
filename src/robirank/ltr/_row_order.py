"""An order of rows that does not depend on the order in which they were given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._queries import Queries
from robirank._types import Ints64
from robirank.ltr._forest import dense_chunks

_CHUNK_ROWS = 4096


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
