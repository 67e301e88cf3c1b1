r"""The penalty: Frobenius regularisation with a weight for every row.

.. math:: \frac{λ}{2} \Bigl(\sum_x a_x ‖U_x‖² + \sum_y b_y ‖V_y‖²\Bigr)

The weight of a row grows with a power of its number of records, and the weights of each side add up
to the weights of all records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robirank._types import Floats32, Floats64, Ints64

#: How the weights of rows of U and V grow with their records. With one for both, every record pays
#: for its two rows alike; less protects the rows that have few records.
EXPONENTS = (0.5, 0.85)


@dataclass(frozen=True)
class RowLengths:
    """How many rows have how many records: short, and its sums have the same bits everywhere.

    Examples
    --------
    >>> RowLengths.of_counts(np.array([3, 0, 1, 3]))
    RowLengths(lengths=[1, 3], times=[1, 2])
    """

    lengths: Sequence[int]
    times: Sequence[int]

    @classmethod
    def of_counts(cls, counts: Ints64) -> RowLengths:
        """The lengths of rows with these numbers of records; rows without do not count."""
        lengths, times = np.unique(counts[counts > 0], return_counts=True)
        return cls(lengths.tolist(), times.tolist())

    def sum(self, power: float) -> float:
        """The sum of n^power over the rows that have records."""
        n, rows = np.asarray(self.lengths, np.float64), np.asarray(self.times, np.float64)
        return float(rows[n > 0] @ n[n > 0] ** power)

    def mean(self) -> float:
        """The mean number of records of a row that has some."""
        return self.sum(1) / self.sum(0) if self.sum(0) else 0.0


@dataclass(frozen=True)
class RowWeights:
    """The weights a = scale · n^exponent of rows with n records.

    Examples
    --------
    Rows with 1, 4 and 4 records: a = 9 / 5 · √n adds up to their 9 records.

    >>> weights = RowWeights.scaled(0.5, RowLengths(lengths=[1, 4], times=[1, 2]))
    >>> weights.of(np.array([1, 4, 0]))
    array([1.8, 3.6, 0. ])
    """

    exponent: float
    scale: float

    @classmethod
    def scaled(cls, exponent: float, rows: RowLengths, mean_weight: float = 1.0) -> RowWeights:
        """Scale the weights to add up to those of the records of all rows."""
        total = rows.sum(exponent)
        return cls(exponent, mean_weight * rows.sum(1.0) / total if total > 0 else 0.0)

    def of(self, counts: Ints64, factor: float = 1.0) -> Floats64:
        """The weights of rows with so many records, times a factor; 0 for a row without."""
        n = counts.astype(np.float64)
        return np.where(counts > 0, factor * self.scale * n**self.exponent, 0.0)

    def per_record(self, counts: Ints64, factor: float = 1.0) -> Floats32:
        """A row's weight divided by its number of records, times a factor."""
        n = np.maximum(counts, 1).astype(np.float64)
        each = factor * self.scale * n ** (self.exponent - 1.0) * (counts > 0)
        return each.astype(np.float32)


@dataclass(frozen=True)
class Penalty:
    """λ, and the weights of the rows of U and V.

    Examples
    --------
    >>> one = RowWeights(exponent=1.0, scale=1.0)
    >>> U, V = np.ones((1, 2), np.float32), np.ones((2, 2), np.float32)
    >>> Penalty(0.1, one, one).value(U, V, np.array([2]), np.array([1, 1]))    # ½ · 0.1 · (4 + 4)
    0.4
    """

    regularization: float
    users: RowWeights
    items: RowWeights

    @classmethod
    def of_counts(
        cls, regularization: float, users: Ints64, items: Ints64, mean_weight: float = 1.0
    ) -> Penalty:
        """The penalty for rows with these numbers of records."""
        weights = (
            RowWeights.scaled(exponent, RowLengths.of_counts(counts), mean_weight)
            for exponent, counts in zip(EXPONENTS, (users, items), strict=True)
        )
        return cls(regularization, *weights)

    def user_weights(self, counts: Ints64) -> Floats32:
        """λ a_x of users with so many records."""
        return self.regularization * self.users.of(counts).astype(np.float32)

    def item_weights(self, counts: Ints64) -> Floats32:
        """λ b_y of items with so many records."""
        return self.regularization * self.items.of(counts).astype(np.float32)

    def user_decay(self, counts: Ints64) -> Floats32:
        """The share λ a_x / n_x of a user's penalty that one record pays."""
        return self.users.per_record(counts, self.regularization)

    def item_decay(self, counts: Ints64) -> Floats32:
        """The share λ b_y / n_y of an item's penalty that one record pays."""
        return self.items.per_record(counts, self.regularization)

    def value(self, U: Floats32, V: Floats32, users: Ints64, items: Ints64) -> float:
        """The penalty of factors whose rows have these numbers of records."""
        norms = _weighted_norm(U, self.users.of(users)) + _weighted_norm(V, self.items.of(items))
        return 0.5 * self.regularization * norms


def _weighted_norm(rows: Floats32, weights: Floats64) -> float:
    squares = np.einsum("ij,ij->i", rows, rows).astype(np.float64)
    return float(squares @ weights.astype(np.float32))  # as the solvers have them
