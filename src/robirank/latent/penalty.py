r"""The penalty: Frobenius regularisation with a weight for every row, and the scale of its λ.

.. math:: \frac{λ}{2} \Bigl(\sum_x a_x ‖U_x‖² + \sum_y b_y ‖V_y‖²\Bigr)

The weight of a row grows with a power of its number of records, and the weights of each side add up
to the weights of all records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robirank._types import Floats32, Floats64, Ints64
from robirank.losses import RhoName

#: How the weights of rows of U and V grow with their records. With one for both, every record pays
#: for its two rows alike; less protects the rows that have few records.
EXPONENTS = (0.5, 0.85)
_MULTIPLE = 1.3  # of the noise, for users with one record
_TASTE = 0.55  # about 1 / (2 ln 2) is what the clearest taste of all reaches
_SMALL = 500  # records
_WARP = 11.0  # the slopes of WARP, compared with those of ρ = log


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


def noise_level(
    users: RowLengths, items: RowLengths, exponents: tuple[float, float] = EXPONENTS
) -> float:
    r"""How large the singular values of a table without taste are, in units of λ.

    Around U = V = 0 the loss is linear in the scores, and a direction of the weighted table
    :math:`A^{-1/2} R B^{-1/2}` grows where its singular value exceeds λ. If users drew their items
    independently of each other, an entry would have the variance :math:`s_x t_y` with

    .. math:: s_x = n_x / (a_x \sqrt N), \qquad t_y = n_y / (b_y \sqrt N),

    and the noise would reach up to about

    .. math::
        \frac{1}{2 \ln 2} \Bigl(\sqrt{\bar s \textstyle\sum t_y}
        + \sqrt{\bar t \textstyle\sum s_x}\Bigr), \qquad
        \bar s = \frac{\sum s_x^2}{\sum s_x}, \quad \bar t = \frac{\sum t_y^2}{\sum t_y},

    which for rows of one length and columns of one length is the edge of Marchenko and Pastur. Only
    the numbers of records of rows and columns are needed.

    References
    ----------
    Marchenko, Pastur: Distribution of eigenvalues for some sets of random matrices. 1967.

    Examples
    --------
    A hundred users and a hundred items with 25 records each: (√100 + √100) / 2 ln 2 / √2500.

    >>> rows = RowLengths([25], [100])
    >>> round(noise_level(rows, rows), 4)
    0.2885
    """
    records = users.sum(1)
    if not records:
        return 0.0
    (s, s_bar), (t, t_bar) = (
        _variances(side, exponent, records)
        for side, exponent in zip((users, items), exponents, strict=True)
    )
    return float((np.sqrt(s_bar * t) + np.sqrt(t_bar * s)) / (2 * np.log(2)))


def _variances(rows: RowLengths, exponent: float, records: float) -> tuple[float, float]:
    """The sum of n / (a √N) over rows, and the mean in which each counts as much as it is."""
    scale = rows.sum(exponent) / records / np.sqrt(records)
    total, squares = scale * rows.sum(1 - exponent), scale**2 * rows.sum(2 - 2 * exponent)
    return total, squares / total


def default_regularization(
    users: RowLengths,
    items: RowLengths,
    *,
    rho: RhoName | None = "log",
    factors: int = 64,
    n_items: int | None = None,
    exponents: tuple[float, float] = EXPONENTS,
) -> float:
    r"""λ from the shape of a table alone.

    .. math:: λ = 1.3 \; σ \; \bar n^{-1/5} \, (d / 64)^{0.06}

    with the `noise_level` σ, the mean number \bar n of a user's records and d factors: the more a
    user's records say, the less it takes. A table of less than 500 records gets at most the λ of
    `clearest_taste`: so few say little about noise, and such tables are mostly examples. The
    constants come from fits to 19 tables of different shapes and sources (docs/method/penalty.md);
    for three of four of them, this λ has more than .95 of the recall of the best one. The slopes of
    other losses than ρ = log have another size.

    Examples
    --------
    >>> rows = RowLengths([25], [100])
    >>> round(default_regularization(rows, rows), 4)
    0.197
    """
    level = noise_level(users, items, exponents)
    items_there = n_items or int(items.sum(0))
    multiple = _MULTIPLE * max(users.mean(), 1.0) ** -0.2 * (factors / 64) ** 0.06
    reg = _slope_size(rho, items_there) * (multiple * level)
    return min(reg, clearest_taste(rho, items_there)) if users.sum(1) < _SMALL else reg


def clearest_taste(rho: RhoName | None, n_items: int) -> float:
    """The λ under which the clearest taste that a table can show is still learned.

    A search need not begin far above it. The noise of a table with one or two records a user is
    higher: under its λ, popularity alone is learned, which is all that can be.
    """
    return _slope_size(rho, n_items) * _TASTE


def _slope_size(rho: RhoName | None, n_items: int) -> float:
    """How large the slopes of a loss are where factors are good, compared with those of ρ = log.

    None stands for WARP. At the start those of the identity loss are larger by n_items, and they
    fall while it learns; those of "type2" are smaller by log²n_items, and rise.
    """
    if rho == "identity":
        return 1.5 * n_items**0.75
    if rho == "type2":
        return 2.0 / float(np.log2(n_items + 1.0)) ** 2
    return 1.0 if rho == "log" else _WARP


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
