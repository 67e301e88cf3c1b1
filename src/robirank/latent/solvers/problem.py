r"""What a solver minimises, with nothing left open: the table's shape, the penalty, the settings.

The penalty is Frobenius regularisation with a weight for every row,

.. math:: \frac{λ}{2} \Bigl(\sum_x a_x ‖U_x‖² + \sum_y b_y ‖V_y‖²\Bigr).

The weight of a row grows with a power of its number of interactions, and the weights of each side
add up to the weights of all interactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from robirank._types import Floats32, Floats64, Ints64
from robirank.data.user_items import UserItems, Weighting
from robirank.engine.interface import Sizes
from robirank.latent.factors.content import NO_CONTENT, Content
from robirank.latent.factors.factors import Factors
from robirank.losses import RHOS, RhoName

if TYPE_CHECKING:
    from robirank.data.partitions import Partitions

#: How the weights of rows of U and V grow with their interactions. With one for both, every
#: interaction pays for its two rows alike; less protects the rows that have few interactions.
EXPONENTS = (0.5, 0.85)


@dataclass(frozen=True)
class RowLengths:
    """How many rows have how many interactions: short, and its sums have the same bits everywhere.

    Examples
    --------
    >>> RowLengths.of_counts(np.array([3, 0, 1, 3]))
    RowLengths(lengths=[1, 3], times=[1, 2])
    """

    lengths: Sequence[int]
    times: Sequence[int]

    @classmethod
    def of_counts(cls, counts: Ints64) -> RowLengths:
        """The lengths of rows with these numbers of interactions; rows without do not count."""
        lengths, times = np.unique(counts[counts > 0], return_counts=True)
        return cls(lengths.tolist(), times.tolist())

    def sum(self, power: float) -> float:
        """The sum of n^power over the rows that have interactions."""
        n, rows = np.asarray(self.lengths, np.float64), np.asarray(self.times, np.float64)
        return float(rows[n > 0] @ n[n > 0] ** power)

    def mean(self) -> float:
        """The mean number of interactions of a row that has some."""
        return self.sum(1) / self.sum(0) if self.sum(0) else 0.0


@dataclass(frozen=True)
class RowWeights:
    """The weights a = scale · n^exponent of rows with n interactions.

    Examples
    --------
    Rows with 1, 4 and 4 interactions: a = 9 / 5 · √n adds up to their 9 interactions.

    >>> weights = RowWeights.scaled(0.5, RowLengths(lengths=[1, 4], times=[1, 2]))
    >>> weights.of(np.array([1, 4, 0]))
    array([1.8, 3.6, 0. ])
    """

    exponent: float
    scale: float

    @classmethod
    def scaled(cls, exponent: float, rows: RowLengths, mean_weight: float = 1.0) -> RowWeights:
        """Scale the weights to add up to those of the interactions of all rows."""
        total = rows.sum(exponent)
        return cls(exponent, mean_weight * rows.sum(1.0) / total if total > 0 else 0.0)

    def of(self, counts: Ints64, factor: float = 1.0) -> Floats64:
        """The weights of rows with these numbers of interactions, times a factor; 0 without."""
        n = counts.astype(np.float64)
        return np.where(counts > 0, factor * self.scale * n**self.exponent, 0.0)

    def per_interaction(self, counts: Ints64, factor: float = 1.0) -> Floats32:
        """A row's weight divided by its number of interactions, times a factor."""
        n = np.maximum(counts, 1).astype(np.float64)
        shares = factor * self.scale * n ** (self.exponent - 1.0) * (counts > 0)
        return shares.astype(np.float32)


@dataclass(frozen=True)
class Penalty:
    """λ, and the weights of the rows of U and V.

    Examples
    --------
    >>> from robirank.latent.factors.factors import Side
    >>> weights = RowWeights(exponent=1.0, scale=1.0)
    >>> ones = Factors(Side(np.ones((1, 2), np.float32)), Side(np.ones((2, 2), np.float32)))
    >>> penalty = Penalty(0.1, weights, weights)
    >>> penalty.value(ones, np.array([2]), np.array([1, 1]))    # ½ · 0.1 · (4 + 4)
    0.4
    """

    regularization: float
    users: RowWeights
    items: RowWeights

    @classmethod
    def of_counts(
        cls, regularization: float, users: Ints64, items: Ints64, mean_weight: float = 1.0
    ) -> Penalty:
        """The penalty for rows with these numbers of interactions."""
        weights = (
            RowWeights.scaled(exponent, RowLengths.of_counts(counts), mean_weight)
            for exponent, counts in zip(EXPONENTS, (users, items), strict=True)
        )
        return cls(regularization, *weights)

    def user_weights(self, counts: Ints64) -> Floats32:
        """λ a_x of users with these numbers of interactions."""
        return self.regularization * self.users.of(counts).astype(np.float32)

    def item_weights(self, counts: Ints64) -> Floats32:
        """λ b_y of items with these numbers of interactions."""
        return self.regularization * self.items.of(counts).astype(np.float32)

    def user_decay(self, counts: Ints64) -> Floats32:
        """The share λ a_x / n_x of a user's penalty that one interaction pays."""
        return self.users.per_interaction(counts, self.regularization)

    def item_decay(self, counts: Ints64) -> Floats32:
        """The share λ b_y / n_y of an item's penalty that one interaction pays."""
        return self.items.per_interaction(counts, self.regularization)

    def value(self, factors: Factors, users: Ints64, items: Ints64) -> float:
        """The penalty of factors whose rows have these numbers of interactions."""
        of_users = _weighted_norm(factors.users.rows, self.users.of(users))
        of_items = _weighted_norm(factors.items.rows, self.items.of(items))
        return 0.5 * self.regularization * (of_users + of_items)


def _weighted_norm(rows: Floats32, weights: Floats64) -> float:
    squares = np.einsum("ij,ij->i", rows, rows).astype(np.float64)
    return float(squares @ weights.astype(np.float32))  # as the solvers have them


@dataclass(frozen=True)
class TableShape:
    """How many interactions the users and items of a table have, and what these weigh on average.

    Attributes
    ----------
    sizes : Sizes
        Of what is trained: where items have features, items without interactions are not.
    users, items : RowLengths
    mean_weight : float
    has_features, has_item_features : bool
    """

    sizes: Sizes
    users: RowLengths
    items: RowLengths
    mean_weight: float
    has_features: bool = False
    has_item_features: bool = False

    @classmethod
    def of_user_items(cls, interactions: UserItems) -> TableShape:
        """The shape of a table in memory."""
        users, items = interactions.user_counts(), interactions.item_counts()
        active, n_items = int(np.count_nonzero(users)), interactions.n_items
        if interactions.item_features is not None:
            n_items = int(np.count_nonzero(items))
        return cls(
            Sizes(interactions.n_users, active, n_items, interactions.n_interactions),
            RowLengths.of_counts(users),
            RowLengths.of_counts(items),
            interactions.mean_weight(),
            interactions.has_features,
            interactions.item_features is not None,
        )

    @classmethod
    def of_partitions(cls, data: Partitions, weighting: Weighting) -> TableShape:
        """The shape of a table in files, without reading its interactions."""
        lengths, times = data.manifest.lengths
        idle = times[0] if lengths[0] == 0 else 0
        return cls(
            Sizes(data.n_users, data.n_users - idle, data.n_items, data.n_interactions),
            RowLengths(lengths, times),
            RowLengths.of_counts(data.item_counts()),
            data.manifest.mean_weight[weighting],
        )


@dataclass(frozen=True)
class Problem:
    """What a solver minimises and how, with nothing left open.

    Attributes
    ----------
    solver : str
        A name of `robirank.latent.solvers.SOLVERS`.
    factors, epochs, seed : int
    rho : str or None
        None for a loss that is not of RoBiRank's family.
    sizes : Sizes
    penalty : Penalty
    learning_rate : float
        The step size of V.
    rate : float
        A factor of all step sizes; less than one when a model that is trained already goes on.
    samples : int
        The number of items that a solver samples for an interaction, at most.
    parts : int
    num_threads : int
    device : "cpu" or "cuda"
    mean_weight : float
        The mean weight of an interaction.
    noise_level : float
        The noise of the table; see `robirank.latent.tune.settle.noise_level`.
    has_features : bool
        Whether rows are pulled to what their features say; see `robirank.latent.solvers.centred`.
    content : Content
        The weights of content scores in the model; see `robirank.latent.factors.content`.
    random_start : bool
        Whether factors begin at random rows, whatever the start of the solver.
    """

    solver: str
    factors: int
    epochs: int
    seed: int
    rho: RhoName | None
    sizes: Sizes
    penalty: Penalty
    learning_rate: float
    rate: float = 1.0
    samples: int = 128
    parts: int = 8
    num_threads: int = 0
    device: str = "cpu"
    mean_weight: float = 1.0
    noise_level: float = 0.0
    has_features: bool = False
    content: Content = NO_CONTENT
    random_start: bool = False

    @property
    def idle_loss(self) -> float:
        """The mean loss of an interaction where all items score alike; 0 if it is unknown."""
        if self.rho is None:
            return 0.0
        return self.mean_weight * float(RHOS[self.rho].value(self.sizes.n_items - 1.0))
