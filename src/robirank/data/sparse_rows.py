"""A sparse matrix as its products with dense ones."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from robirank import _core
from robirank._threads import thread_count
from robirank._types import Floats32


class SparseRows:
    """A CSR matrix of float32 numbers.

    Examples
    --------
    >>> rows = SparseRows(sparse.csr_matrix(np.array([[1, 2], [0, 3]], np.float32)))
    >>> rows.times(np.ones((2, 1), np.float32)).tolist()
    [[3.0], [3.0]]
    """

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def times(self, dense: Floats32, num_threads: int = 0) -> Floats32:
        """The matrix times a dense one; the number of threads changes no bit."""
        return self._products.times(dense, num_threads=thread_count(num_threads))

    def transposed_times(self, dense: Floats32, num_threads: int = 0) -> Floats32:
        """The transpose of the matrix times a dense one."""
        return self._products.transposed_times(dense, num_threads=thread_count(num_threads))

    def squares(self, weights: Floats32) -> Floats32:
        """The sum of the squares of each column, rows counting by their weights."""
        F = self.matrix
        squares = sparse.csr_matrix((F.data**2, F.indices, F.indptr), F.shape)
        sums: Floats32 = squares.T @ weights
        return sums

    @cached_property
    def _products(self) -> _core.SparseMatrix:
        F = self.matrix
        indptr, indices = F.indptr.astype(np.int64), F.indices.astype(np.int32)
        return _core.SparseMatrix(indptr, indices, F.data, F.shape[1])
