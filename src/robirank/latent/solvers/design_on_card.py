"""A sparse matrix on a card; see `robirank.latent.solvers.design`."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch

from robirank._types import Floats64
from robirank.data.sparse_rows import SparseRows
from robirank.latent.gpu import fused
from robirank.latent.gpu.device import cuda_device, device_errors, has_kernels

_CHUNK = 1 << 18  # rows in double precision at a time


class CardDesign:
    """The features of rows on a card, and their transpose.

    One seed gives the same bits by the kernels; the products of PyTorch may differ in the last bit
    from run to run.

    Parameters
    ----------
    features : SparseRows
    factors : int
        Those of the fit, for which there are kernels.
    device : torch.device, optional
        Default: the current card. The CPU is for tests.
    """

    def __init__(
        self, features: SparseRows, factors: int, device: torch.device | None = None
    ) -> None:
        self._device = device or cuda_device()
        self._factors = factors if has_kernels(factors, self._device) else None
        self.shape = features.matrix.shape
        with device_errors("the features were copied to it"):
            self._matrix = _CardRows.of(features.matrix, self._device)
            self._transposed = _CardRows.of(features.matrix.T.tocsr(), self._device)

    def times(self, W: torch.Tensor) -> torch.Tensor:
        """F W."""
        return self._matrix.times(W, self._factors)

    def transposed_times(self, rows: torch.Tensor) -> torch.Tensor:
        """Fᵀ rows."""
        return self._transposed.times(rows, self._factors)

    def squares(self, weights: torch.Tensor) -> torch.Tensor:
        """The diagonal of Fᵀ B F."""
        squared = self._transposed._replace(values=self._transposed.values**2)
        return squared.times(weights[:, None], self._factors)[:, 0]

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


class _CardRows(NamedTuple):
    """A CSR matrix on a device."""

    starts: torch.Tensor
    columns: torch.Tensor
    values: torch.Tensor
    n_columns: int

    @classmethod
    def of(cls, matrix: Any, device: torch.device) -> _CardRows:
        parts = (
            matrix.indptr.astype(np.int64),
            matrix.indices.astype(np.int32),
            np.ascontiguousarray(matrix.data, np.float32),
        )
        starts, columns, values = (torch.from_numpy(part).to(device) for part in parts)
        return cls(starts, columns, values, matrix.shape[1])

    def times(self, dense: torch.Tensor, factors: int | None) -> torch.Tensor:
        """The product with a dense matrix, by the kernels for so many factors; None: by PyTorch."""
        if factors is not None:
            return fused.sparse_times(self.starts, self.columns, self.values, dense, factors)
        shape = len(self.starts) - 1, self.n_columns
        columns = self.columns.long()
        with warnings.catch_warnings():  # that sparse tensors are new, and not checked again
            warnings.simplefilter("ignore", UserWarning)
            csr = torch.sparse_csr_tensor(
                self.starts, columns, self.values, shape, check_invariants=False
            )
            return csr @ dense
