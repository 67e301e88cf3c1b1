"""The solver of WARP (WSABIE), in the strata of the RoBiRank solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from robirank import _core
from robirank._types import Floats32, Ints32
from robirank.engine.interface import Engine, Figures, never, task
from robirank.engine.state import Block, Part
from robirank.latent.solvers.problem import Problem
from robirank.latent.solvers.strata import (
    CHANGED,
    NO_FIGURES,
    PENALTY,
    AnyCentreRows,
    adagrad_schedule,
    cell_size,
    check_limits,
    factor_arrays,
    keep_sums,
    task_rows,
)


def weights_after(max_trials: int, n_items: int) -> Floats32:
    r"""Weight of a step by the number N of trials that it took to find a violator.

    .. math:: \Phi\Big(\Big\lfloor \frac{|Y| - 1}{N} \Big\rfloor\Big), \qquad
        \Phi(k) = \sum_{i=1}^k \frac{1}{i}

    Entry 0 stands for no trial, and is 0.

    References
    ----------
    Weston, Bengio, Usunier: WSABIE: Scaling Up To Large Vocabulary Image Annotation. IJCAI 2011.

    Examples
    --------
    >>> weights_after(max_trials=3, n_items=5)    # Φ(4), Φ(2), Φ(1)
    array([0.       , 2.0833333, 1.5      , 1.       ], dtype=float32)
    """
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, max(n_items, 2)))])
    ranks = (n_items - 1) // np.arange(1, max_trials + 1)
    return np.concatenate([[0.0], harmonic[ranks]]).astype(np.float32)


class WarpSolver:
    r"""WARP: sample until an item violates the margin; the number of trials estimates the rank.

    For an interaction (x, y), items y' that x does not have are drawn, at most ``problem.samples``
    of them, until :math:`\langle U_x, V_{y'} \rangle > \langle U_x, V_y \rangle - 1`. The step on
    the three rows follows the gradient of the hinge loss, weighted as `weights_after` says, by
    row-wise Adagrad.

    Parameters
    ----------
    problem : Problem
    engine : Engine
    freeze_items : bool, default=False
        Leave V as it is.
    """

    arrays = staticmethod(factor_arrays)

    def __init__(self, problem: Problem, engine: Engine, freeze_items: bool = False) -> None:
        check_limits("warp", factors=problem.factors, max_trials=problem.samples)
        self._engine, self._factors = engine, problem.factors
        rate = problem.rate * problem.learning_rate
        self._rate_u, self._rate_v = 2.0 * rate, 0.0 if freeze_items else rate
        self._weight_after = weights_after(problem.samples, problem.sizes.n_items)
        self._cell_items = cell_size(problem.factors)
        self._centres: AnyCentreRows | None = None

    def pull_to(self, centres: AnyCentreRows) -> None:
        """Go on with a penalty that pulls rows to these centres."""
        self._centres = centres

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool] = never) -> Figures:
        """One pass over the interactions; returns the mean weighted hinge loss, and the trials."""
        steps = [
            WarpSteps(
                self._factors,
                self._weight_after,
                1.0,
                fade * self._rate_u,
                fade * self._rate_v,
                self._cell_items,
                keep,
                self._centres,
            )
            for fade, keep in adagrad_schedule(number, epochs, self._engine.n_parts)
        ]
        figures = NO_FIGURES | self._engine.sweep(number, warp_task, steps, should_stop)
        return {
            "loss": figures["loss"] / max(1, self._engine.sizes.n_interactions),
            "triples": figures["done"],
            "not_finite": figures["not_finite"],
        }


@dataclass(frozen=True)
class WarpSteps:
    """How WARP moves; ``weight_after[n]`` is Φ(rank) where the n-th trial found a violator."""

    factors: int
    weight_after: Floats32
    margin: float
    rate_u: float
    rate_v: float
    cell_items: int
    keep: float = 1.0
    centres: AnyCentreRows | None = None


@task(reads=PENALTY, changes=CHANGED)
def warp_task(part: Part, block: Block, position: Ints32, steps: WarpSteps, key: int) -> Figures:
    """Visit once every interaction of the part whose item lies in the block."""
    keep_sums(part, block, steps.keep)
    draws, loss, not_finite = _core.warp_task(
        **task_rows(part, block, position, part.interactions.weight, steps.centres),
        steps=_core.WarpSteps(
            factors=steps.factors,
            weight_after=steps.weight_after,
            margin=steps.margin,
            rate_u=steps.rate_u,
            rate_v=steps.rate_v,
            cell_items=steps.cell_items,
        ),
        key=key,
    )
    return {"done": draws, "loss": loss, "not_finite": not_finite}
