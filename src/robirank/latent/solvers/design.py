"""A sparse matrix as the solvers see it, in memory or on a card: features, or the table itself."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from robirank._types import Floats32, Floats64
from robirank.data.sparse_rows import SparseRows
from robirank.latent.solvers.problem import Problem

_CHUNK = 1 << 14  # rows in double precision at a time


class Design(Protocol):
    """The features F of rows, in memory or on a card; arrays are those of NumPy or PyTorch."""

    shape: tuple[int, int]

    def times(self, W: Any) -> Any:
        """F W."""

    def transposed_times(self, rows: Any) -> Any:
        """Fᵀ rows."""

    def squares(self, weights: Any) -> Any:
        """The diagonal of Fᵀ B F, a number for each feature."""

    def dots(self, a: Any, b: Any) -> Any:
        """The inner products of the columns of two matrices, in double precision."""

    def gram(self, rows: Any) -> Floats64:
        """The inner products of all columns of a matrix, in double precision."""

    def as_array(self, values: Any) -> Any:
        """Numbers as a float32 array where the features are."""


class HostDesign:
    """The features of rows in memory; the number of threads changes no bit of a product."""

    def __init__(self, features: SparseRows, num_threads: int = 0) -> None:
        self._features, self._num_threads = features, num_threads
        self.shape = features.matrix.shape

    def times(self, W: Floats32) -> Floats32:
        """F W."""
        return self._features.times(W, self._num_threads)

    def transposed_times(self, rows: Floats32) -> Floats32:
        """Fᵀ rows."""
        return self._features.transposed_times(rows, self._num_threads)

    def squares(self, weights: Floats32) -> Floats32:
        """The diagonal of Fᵀ B F."""
        return self._features.squares(weights)

    def dots(self, a: Floats32, b: Floats32) -> Floats64:
        """The inner products of the columns of two matrices."""
        return np.einsum("ij,ij->j", a, b, dtype=np.float64)

    def gram(self, rows: Floats32) -> Floats64:
        """The inner products of all columns of a matrix."""
        total = np.zeros((rows.shape[1],) * 2)
        for first in range(0, len(rows), _CHUNK):
            chunk = rows[first : first + _CHUNK].astype(np.float64)
            total += chunk.T @ chunk
        return total

    def as_array(self, values: Any) -> Floats32:
        """Numbers as float32 ones."""
        return np.asarray(values, np.float32)


def design_of(rows: SparseRows, problem: Problem) -> Design:
    """The matrix in the memory of this process, or on the card of a problem."""
    if problem.device == "cpu":
        return HostDesign(rows, problem.num_threads)
    from robirank.latent.solvers.design_on_card import CardDesign

    design: Design = CardDesign(rows, problem.factors)
    return design
