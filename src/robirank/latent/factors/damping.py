r"""Damping of popularity: what popularity alone explains of a user's scores is taken off them.

With :math:`n_y` interactions of item y, :math:`g_y = \log(1 + n_y)` less its mean over the items
that have any (0 for those that have none), the line through a user's scores over g has the slope

.. math:: β_x = \sum_y g_y s_{xy} \Big/ \sum_y g_y^2,

and the damped score is :math:`s_{xy} - p β_x g_y`. At p = 1 damped scores have no linear relation
to g. With :math:`c = \sum_y g_y V_y / \sum_y g_y^2` the slope is :math:`⟨U_x, c⟩`, so the damped
score is an inner product of longer rows, :math:`[U_x, -p β_x]` and :math:`[V_y, g_y]`, and a search
finds the best of them as of any others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from robirank._types import Floats64
from robirank.errors import ArgumentError

if TYPE_CHECKING:
    from robirank.latent.factors.factors import Factors, ItemSide, Queries


@dataclass(frozen=True, eq=False)
class Damping:
    """The items with their longer rows, and what the slopes of users are computed from.

    Attributes
    ----------
    items : ItemSide
    by_factors : float64 array of shape (factors,)
        c.
    by_item : float64 array of shape (items,), or None
        Where content scores count, what an item of a user adds to the slope, times their number.
    """

    items: ItemSide
    by_factors: Floats64
    by_item: Floats64 | None = None

    @classmethod
    def of(cls, factors: Factors) -> Self:
        """For all users of a model."""
        items, content = factors.items, factors.users.content
        if items.counts is None:
            raise ArgumentError(
                "popularity",
                "cannot be used: this model does not know how many interactions its items have. "
                "Fit it again, which counts them",
            )
        g = centred_logs(items.counts)
        shares = g / max(float(g @ g), np.finfo(np.float64).tiny)
        if content is None or items.centres is None:
            return cls(items.with_column(g.astype(np.float32)), _summed(items, shares))
        scales, weights = content.weights.of_items(items.counts)
        matrix = items.centres.features.matrix
        by_feature = matrix.T @ (weights * shares)
        by_feature[-1] = 0.0  # the constant, which profiles do not have
        column = (g / scales).astype(np.float32)  # a search multiplies rows with the scales
        return cls(items.with_column(column), _summed(items, shares * scales), matrix @ by_feature)

    def slopes(self, queries: Queries) -> Floats64:
        """β of each of those who ask."""
        rows = np.asarray(queries.rows[queries.asked], np.float64)
        slopes = (rows * self.by_factors).sum(axis=1)
        if queries.content is not None and self.by_item is not None:
            taken = queries.content.taken
            counts = taken.user_counts()
            users = np.repeat(np.arange(len(counts)), counts)
            sums = np.bincount(users, self.by_item[taken.items], minlength=len(counts))
            slopes += sums / np.maximum(counts, 1)
        return slopes

    def damped(self, queries: Queries, weight: float) -> Queries:
        """Longer rows of those who ask, to search ``items`` with."""
        rows = queries.rows[queries.asked]
        column = (-weight * self.slopes(queries)).astype(np.float32)
        longer = np.concatenate([rows, column[:, None]], axis=1)
        return queries._replace(rows=longer, asked=np.arange(len(rows), dtype=np.int32))


def centred_logs(counts: Any) -> Floats64:
    """G of items with these numbers of interactions.

    Examples
    --------
    >>> (centred_logs(np.array([1, 0, 7])) / np.log(2)).round(9).tolist()
    [-1.0, 0.0, 1.0]
    """
    taken = np.asarray(counts) > 0
    g = np.log1p(np.asarray(counts, np.float64))
    if len(np.unique(g[taken])) < 2:  # the mean would be rounded
        return np.zeros_like(g)
    g[taken] -= g[taken].mean()
    return g


def _summed(items: ItemSide, weights: Floats64) -> Floats64:
    """The weighted sum of the rows of all items."""
    sums, first = [], 0
    for block in items.blocks():
        sums.append(weights[first : first + len(block)] @ block.astype(np.float64))
        first += len(block)
    return np.sum(sums, axis=0, dtype=np.float64)
