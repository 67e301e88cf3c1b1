r"""What comes next: the part of a model that looks at the order in which users took their items.

Beside the taste U and V, such a model has two rows for every item y: what it says of the next one,
:math:`P_y` (its lead), and what it takes to come next, :math:`W_y`. The score is

.. math:: s_{xy} = ⟨U_x, V_y⟩ + ω ⟨q_x, W_y⟩, \qquad q_x = \sum_{k=1}^{3} c_k P_{y_k},

where :math:`y_1, y_2, y_3` are the last items of the user, with weights :math:`c_k ∝ 1/k` that add
up to one. It is one inner product of longer rows, :math:`[U_x, \sqrt ω\, q_x]` and
:math:`[V_y, \sqrt ω\, W_y]`, so that everything that ranks by factors ranks by these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from robirank._types import Floats32
from robirank.data.user_items import UserItems
from robirank.latent.factors.factors import AnySide, Factors
from robirank.latent.factors.leads import Leads


def taste_width(items: AnySide) -> int:
    """The number of columns that are taste: all without leads."""
    width: int = items.rows.shape[1]
    return width if items.leads is None else width - items.leads.width


def taste_of(factors: Factors) -> Factors:
    """The taste alone, as views of the rows."""
    if factors.items.leads is None:
        return factors
    d = taste_width(factors.items)
    sides: list[Any] = [factors.users, factors.items]
    for i, side in enumerate(sides):
        centres = side.centres
        if centres is not None:
            centres = replace(centres, weights=np.ascontiguousarray(centres.weights[:, :d]))
        sides[i] = replace(side, rows=side.rows[:, :d], centres=centres, leads=None, prepared=None)
    return Factors(*sides)


def joined(
    taste: Factors, order: Factors, weight: float, regularization: float, table: UserItems
) -> Factors:
    """One model of a taste, and of leads and followers; the order weighs ω in its scores."""
    root = np.float32(np.sqrt(weight))
    leads = Leads(root * order.users.rows, weight, regularization)
    factors = taste.with_rows(
        np.hstack([taste.users.rows, leads.next_rows(table)]),
        np.hstack([taste.items.rows, root * order.items.rows]),
    )
    items: Any = factors.items
    return Factors(factors.users, replace(items, leads=leads))


def order_of(factors: Factors) -> tuple[Floats32, Floats32]:
    """The rows P and W of a model that looks at the order."""
    items = factors.items
    assert items.leads is not None
    root = np.float32(np.sqrt(items.leads.weight))
    return items.leads.rows / root, items.rows[:, taste_width(items) :] / root
