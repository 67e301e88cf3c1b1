"""A sparse matrix on a card; see `robirank.latent.solvers.design`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

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
        self.shape = features.matrix.shape
        kernels = factors if has_kernels(factors, self._device) else None
        with device_errors("the features were copied to it"):
            self._matrix = _CardRows.of(features.matrix, self._device, kernels)
            self._transposed = _CardRows.of(features.matrix.T.tocsr(), self._device, kernels)

    def times(self, W: torch.Tensor) -> torch.Tensor:
        """F W."""
        return self._matrix.times(W)

    def transposed_times(self, rows: torch.Tensor) -> torch.Tensor:
        """Fᵀ rows."""
        return self._transposed.times(rows)

    def squares(self, weights: torch.Tensor) -> torch.Tensor:
        """The diagonal of Fᵀ B F."""
        return self._squared.times(weights[:, None])[:, 0]

    @cached_property
    def _squared(self) -> _CardRows:
        return replace(self._transposed, values=self._transposed.values**2)

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


@dataclass(frozen=True, eq=False)
class _CardRows:
    """A CSR matrix on a device, for the kernels for so many factors; without: for PyTorch."""

    starts: torch.Tensor
    columns: torch.Tensor
    values: torch.Tensor
    n_columns: int
    longest: int
    kernels: int | None

    @classmethod
    def of(cls, matrix: Any, device: torch.device, kernels: int | None) -> _CardRows:
        starts, columns, values = (
            torch.from_numpy(part).to(device)
            for part in (
                matrix.indptr.astype(np.int64),
                matrix.indices.astype(np.int32),
                np.ascontiguousarray(matrix.data, np.float32),
            )
        )
        longest = int(np.diff(matrix.indptr).max(initial=0))
        return cls(starts, columns, values, matrix.shape[1], longest, kernels)

    def times(self, dense: torch.Tensor) -> torch.Tensor:
        """The product with a dense matrix."""
        if self.kernels is None:
            return self._csr @ dense
        parts = self.starts, self.columns, self.values
        return fused.sparse_times(*parts, dense, factors=self.kernels, longest=self.longest)

    @cached_property
    def _csr(self) -> torch.Tensor:
        parts = self.starts, self.columns.long(), self.values
        shape = len(self.starts) - 1, self.n_columns
        with warnings.catch_warnings():  # that sparse tensors are new, and not checked again
            warnings.simplefilter("ignore", UserWarning)
            return torch.sparse_csr_tensor(*parts, shape, check_invariants=False)
