r"""How many factors: what λ is searched with, how it grows with them, and how many a table can use.

Around U = V = 0 a direction of taste grows where its singular value exceeds λ (see
`robirank.latent.solvers.starts`). Where few directions do so, more factors than these have little
to hold; a table in which hundreds do ranks better with more of them (docs/choosing.md has the
figures). So ``factors="auto"`` counts them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from robirank.data.user_items import UserItems
from robirank.latent.gpu.resolve import is_fast
from robirank.latent.solvers import SOLVERS, choose_solver, epoch_seconds
from robirank.latent.solvers.problem import Problem
from robirank.latent.solvers.starts import singular_values
from robirank.latent.train.request import Request
from robirank.latent.tune.path import gradient_scale

#: The number of factors of a search, at most, and the least that ``factors="auto"`` takes.
USUAL = 64
#: What it takes at most: beyond, nothing was gained on any table.
MOST = 256
#: The power of the number of factors with which the best λ grows.
GROWTH_POWER = 0.06


def narrowed(request: Request, solver: str) -> Request:
    """What the search for the λ of a request asks for: no more than 64 factors.

    The best λ hardly depends on their number (docs/method/penalty.md), and with more of them the
    metric is noisier and an epoch longer.
    """
    return replace(request, solver=solver, factors=min(request.factors, USUAL))


def penalty_growth(factors: int) -> float:
    """The best λ of so many factors, divided by what a search with no more than 64 finds.

    Examples
    --------
    >>> penalty_growth(32), round(penalty_growth(256), 3)
    (1.0, 1.087)
    """
    return float(max(1.0, factors / USUAL) ** GROWTH_POWER)


def with_factors(request: Request, problem: Problem, factors: int) -> Problem:
    """A problem with another number of factors, and the step size that goes with it."""
    rate = request.learning_rate or SOLVERS[problem.solver].rate_of(factors)
    return replace(problem, factors=factors, learning_rate=rate)


def widened(
    request: Request, problem: Problem, interactions: UserItems, seconds: float = np.inf
) -> Problem:
    """A problem with as many factors as its table can use, where they are to be counted.

    It is the number of singular values above λ, up to the next multiple of 64, from 64 to 256; less
    where the exact solver would need more than ``seconds`` or would not be chosen, and where the
    kernels of a card do not take so many. A λ that was not given grows with the number. Values are
    those of the table without the weights of its interactions, but for their mean.
    """
    if not request.counts_factors or not SOLVERS[problem.solver].searches:
        return problem
    widths = (
        with_factors(request, problem, factors) for factors in range(2 * USUAL, MOST + 1, USUAL)
    )
    affordable = [wide for wide in widths if _is_affordable(request, wide, seconds)]
    if not affordable:
        return problem
    level = problem.penalty.regularization / gradient_scale(problem.rho, problem.sizes.n_items)
    values = singular_values(problem, interactions, affordable[-1].factors)
    count = int(np.count_nonzero(values > level))
    for wide in reversed(affordable):
        if wide.factors < count + USUAL and is_fast(wide.factors, problem.device):
            return wide if request.regularization else _under_its_penalty(wide)
    return problem


def _is_affordable(request: Request, problem: Problem, seconds: float) -> bool:
    """Whether a fit ends within a time, and "auto" would take this solver for it."""
    if seconds < np.inf:
        return problem.epochs * (epoch_seconds(problem) or 0.0) <= seconds
    if request.solver != "auto" or problem.device != "cpu":
        return True
    sizes = problem.sizes
    return choose_solver(sizes.n_users, sizes.n_items, problem.factors) == problem.solver


def _under_its_penalty(problem: Problem) -> Problem:
    """A problem whose λ was found with 64 factors, under the λ of its own number."""
    reg = problem.penalty.regularization * penalty_growth(problem.factors)
    return replace(problem, penalty=replace(problem.penalty, regularization=reg))
