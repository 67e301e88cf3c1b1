r"""A solver whose rows are pulled to what their features say.

With features F of the items, the penalty of the rows of V is

.. math:: \frac{λ}{2} \sum_y b_y ‖V_y - κ F_y W‖²

and before every epoch W becomes a ridge regression of V on F (`robirank.latent.solvers.ridge`);
users alike. κ is how much of the rows the features explain: W is regressed on four fifths of the
rows, and κ² is its R² on the others, so that features that say nothing change nothing but what the
constant, a feature that all rows have, explains. In the first epochs, while there is nothing to
explain yet, κ falls from one.

An item without interactions must not stand in the sums over all items, in which it would be
everybody's loser: training is done without it, and it joins the model at its centre F_y W.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from robirank._types import Floats32
from robirank._workers import Workers
from robirank.data.feature_rows import FeatureRows
from robirank.data.user_items import UserItems
from robirank.engine.interface import Figures, never
from robirank.engine.state import Arrays
from robirank.latent.factors.centres import Centres
from robirank.latent.factors.factors import Factors, Side
from robirank.latent.solvers.design import Design, HostDesign, design_of
from robirank.latent.solvers.interface import PullableSolver
from robirank.latent.solvers.problem import Penalty, Problem
from robirank.latent.solvers.ridge import choose_penalty, folds, ridge

_PENALTY = 2.0  # μ of the centres that rows are pulled to
_USUAL_PENALTY = 1.0  # μ of the centres of rows without interactions, while a fit goes on
_STEPS = 5  # of conjugate gradients before an epoch
_FIRST_EPOCHS = 4  # in which κ falls from one


@dataclass(frozen=True)
class _Featured:
    """The features of the users or items that a solver trains, and the weights of their rows."""

    design: Design
    weights: Any

    @classmethod
    def of(
        cls, features: FeatureRows | None, weights: Floats32, problem: Problem
    ) -> _Featured | None:
        """The features of rows in the order in which the solver has them; None without."""
        if features is None:
            return None
        features = features.without_empty_columns()
        design = design_of(features, problem)
        return cls(design, design.as_array(weights))

    def centres(self, rows: Any, least: float) -> Any:
        """What the rows are pulled to: κ F W, where κ is at least so much."""
        rows = self.design.as_array(rows)
        fitted, held_out = folds(self.weights)
        W = ridge(self.design, fitted, rows, _PENALTY, steps=_STEPS)
        predicted = self.design.times(W)
        missed = self._square(held_out, rows - predicted)
        total = self._square(held_out, rows)
        explained = float(np.sqrt(max(0.0, 1.0 - missed / total))) if total > 0 else 0.0
        return max(explained, least) * predicted

    def _square(self, weights: Any, rows: Any) -> float:
        """The sum of the squared lengths of rows, each times its weight."""
        return float(self.design.dots(weights[:, None] * rows, rows).sum())


class FeaturedTable:
    """A table with features: what of it is trained, and what rows are pulled to before an epoch.

    Parameters
    ----------
    whole : UserItems
        With features of its users, its items, or both.
    start : Factors
        Its counts include the interactions of fits before this one.
    problem : Problem

    Attributes
    ----------
    whole, trained : UserItems
        The table, and the same without the items that never had an interaction, where items have
        features.
    items : array
        The positions in the whole table of the items that are trained.
    """

    def __init__(self, whole: UserItems, start: Factors, problem: Problem) -> None:
        self.whole, self._problem = whole, problem
        users, items = _row_weights(start, whole, problem.penalty)
        self.items = np.arange(whole.n_items)
        if whole.item_features is not None:
            self.items = np.flatnonzero(items)
        self.trained = whole.of_items(self.items)
        self._sides = (
            _Featured.of(self.trained.user_features, users, problem),
            _Featured.of(self.trained.item_features, items[self.items], problem),
        )

    def start(self, start: Factors) -> Factors:
        """The rows that are trained of factors of the whole table."""
        rows = np.ascontiguousarray(start.items.rows[self.items])
        return Factors(Side(start.users.rows), Side(rows))

    def centres(self, number: int, factors: Factors) -> tuple[Any, Any]:
        """What the trained users and items are pulled to in an epoch; None for a side without."""
        least = 1.0 - number / _FIRST_EPOCHS
        rows = (factors.users.rows, factors.items.rows)
        users, items = (
            None if side is None else side.centres(of_side, least)
            for side, of_side in zip(self._sides, rows, strict=True)
        )
        return users, items

    def factors(self, trained: Factors, named: Factors) -> Factors:
        """The factors of the whole table, with ids and counts of others.

        Rows without interactions are at their centres.
        """
        rows = np.zeros((self.whole.n_items, trained.items.rows.shape[1]), np.float32)
        rows[self.items] = trained.items.rows
        factors = named.with_rows(trained.users.rows, rows)
        return with_centres(factors, self.whole, self._problem)


class CentredSolver:
    """An `InMemorySolver` around another one, for a table with features.

    Parameters
    ----------
    make : callable
        Makes the solver inside, a `PullableSolver`: from problem, interactions, start, workers.
    problem : Problem
    interactions : UserItems
    start : Factors
    workers : Workers
    """

    def __init__(
        self,
        make: Callable[..., PullableSolver],
        problem: Problem,
        interactions: UserItems,
        start: Factors,
        workers: Workers,
    ) -> None:
        self._start, self._table = start, FeaturedTable(interactions, start, problem)
        self._solver = make(problem, self._table.trained, self._table.start(start), workers)
        self._factors: Factors | None = None  # as they stand, once they were asked for

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool] = never) -> Figures:
        """Renew the centres, then one epoch of the solver inside."""
        self._factors = None
        if number:
            self._solver.pull_to(*self._table.centres(number, self._solver.factors()))
        return self._solver.epoch(number, epochs, should_stop)

    def penalize(self, penalty: Penalty) -> None:
        """Go on under another penalty."""
        self._solver.penalize(penalty)

    def factors(self) -> Factors:
        """The factors as they stand; rows without interactions are at their centres."""
        if self._factors is None:
            self._factors = self._table.factors(self._solver.factors().on_host(), self._start)
        return self._factors

    def state(self) -> Arrays:
        """Everything that a later start needs to go on with the same bits."""
        return self._solver.state()

    def restore(self, state: Arrays) -> None:
        """Go back to a state that `state` gave."""
        self._factors = None
        self._solver.restore(state)


def with_centres(
    factors: Factors, interactions: UserItems, problem: Problem, *, is_final: bool = False
) -> Factors:
    """Factors that know what features say; rows without interactions are at their centres.

    At the end of a fit, μ is chosen by how well held-out rows are regressed.
    """
    sides: list[Any] = [factors.users, factors.items]
    features = interactions.user_features, interactions.item_features
    weights = _row_weights(factors, interactions, problem.penalty)
    for i, (known, b) in enumerate(zip(features, weights, strict=True)):
        if known is None:
            continue
        design, rows = HostDesign(known, problem.num_threads), sides[i].rows
        penalty = choose_penalty(design, b, rows) if is_final else _USUAL_PENALTY
        centres = Centres(known, ridge(design, b, rows, penalty))
        rows = rows.copy()
        rows[b == 0] = centres.of(known.take(np.flatnonzero(b == 0)))
        sides[i] = replace(sides[i], rows=rows, centres=centres)
    return Factors(*sides)


def _row_weights(
    factors: Factors, interactions: UserItems, penalty: Penalty
) -> tuple[Floats32, Floats32]:
    """The weights a and b of the rows; 0 for users and items that never had an interaction.

    The counts of factors include the interactions of fits before this one.
    """
    users: Any = factors.users.counts
    items: Any = factors.items.counts
    a = penalty.users.of(interactions.user_counts() if users is None else users)
    b = penalty.items.of(interactions.item_counts() if items is None else items)
    return a.astype(np.float32), b.astype(np.float32)
