"""What a record pays of the penalty of its two rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Decay"]


@dataclass(frozen=True)
class Decay:
    """λ a_n / n for a row with n records, where a_n = scale · n^exponent.

    Examples
    --------
    Rows with 1, 4 and 4 records: a = 9 / 5 · √n adds up to their 9 records.

    >>> decay = Decay.scaled(0.1, 0.5, lengths=[1, 4], times=[1, 2])
    >>> decay.of(np.array([1, 4, 0])).round(3)
    array([0.18, 0.09, 0.  ], dtype=float32)
    """

    reg: float
    exponent: float
    scale: float

    @classmethod
    def scaled(
        cls, reg: float, exponent: float, lengths: Sequence[int], times: Sequence[int]
    ) -> Decay:
        """Scale the weights to add up to the records of all rows.

        The rows are given as a histogram: so many of each length. It is short, and the sum over
        it has the same bits wherever it is computed.
        """
        n, rows = np.asarray(lengths, dtype=np.float64), np.asarray(times, dtype=np.float64)
        n, rows = n[n > 0], rows[n > 0]
        total = float(rows @ n**exponent)
        return cls(reg, exponent, float(rows @ n) / total if total > 0 else 0.0)

    @classmethod
    def of_counts(cls, reg: float, exponent: float, counts: NDArray[np.int64]) -> Decay:
        """Scale the weights of rows with these counts."""
        lengths, times = np.unique(counts, return_counts=True)
        return cls.scaled(reg, exponent, lengths.tolist(), times.tolist())

    def weights(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """λ a_n of rows with so many records; 0 for a row without."""
        n = counts.astype(np.float64)
        return np.where(counts > 0, self.reg * self.scale * n**self.exponent, 0.0)

    def of(self, counts: NDArray[np.int64]) -> NDArray[np.float32]:
        """What each record of a row pays, for rows with so many records."""
        n = np.maximum(counts, 1).astype(np.float64)
        each = self.reg * self.scale * n ** (self.exponent - 1.0) * (counts > 0)
        return each.astype(np.float32)
