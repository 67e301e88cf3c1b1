"""A sparse matrix on a card; see `robirank.latent.solvers.design`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from robirank._types import Floats64
from robirank.data.sparse_rows import SparseRows
from robirank.latent.gpu.device import cuda_device, device_errors

_CHUNK = 1 << 18  # rows in double precision at a time


class CardDesign:
    """The features of rows on a card, and their transpose.

    Parameters
    ----------
    features : SparseRows
    device : torch.device, optional
        Default: the current card. The CPU is for tests.
    """

    def __init__(self, features: SparseRows, device: torch.device | None = None) -> None:
        self._device = device or cuda_device()
        self.shape = features.matrix.shape
        with device_errors("the features were copied to it"):
            self._matrix = _uploaded(features.matrix, self._device)
            self._transposed = _uploaded(features.matrix.T.tocsr(), self._device)

    def times(self, W: torch.Tensor) -> torch.Tensor:
        """F W."""
        return self._matrix @ W

    def transposed_times(self, rows: torch.Tensor) -> torch.Tensor:
        """Fᵀ rows."""
        return self._transposed @ rows

    def squares(self, weights: torch.Tensor) -> torch.Tensor:
        """The diagonal of Fᵀ B F."""
        T = self._transposed
        squares = torch.sparse_csr_tensor(
            T.crow_indices(), T.col_indices(), T.values() ** 2, T.shape, check_invariants=False
        )
        diagonal: torch.Tensor = (squares @ weights[:, None])[:, 0]
        return diagonal

    def dots(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The inner products of the columns of two matrices."""
        return torch.sum(a * b, dim=0, dtype=torch.float64)

    def gram(self, rows: torch.Tensor) -> Floats64:
        """The inner products of all columns of a matrix."""
        total = torch.zeros((rows.shape[1],) * 2, dtype=torch.float64, device=self._device)
        for chunk in rows.split(_CHUNK):
            total += chunk.double().T @ chunk.double()
        return total.cpu().numpy()

    def as_array(self, values: Any) -> torch.Tensor:
        """Numbers as float32 ones on the card."""
        return torch.as_tensor(values, dtype=torch.float32, device=self._device)


def _uploaded(matrix: Any, device: torch.device) -> torch.Tensor:
    parts = [matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data]
    tensors = [torch.from_numpy(np.ascontiguousarray(part)) for part in parts]
    csr = torch.sparse_csr_tensor(*tensors, size=matrix.shape, check_invariants=False)
    return csr.to(device)
