"""Whole fits that are measured on held-out records, one after the other or side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robirank._workers import Workers
from robirank.data.records import Records
from robirank.latent.solvers import SOLVERS, make_solver
from robirank.latent.solvers.problem import Problem
from robirank.latent.solvers.start import random_start
from robirank.latent.train.epochs import Epochs, run_epochs
from robirank.latent.tune.held_out import metric_of_factors

_DIVERGED = -1.0  # a value below that of any fit


def whole_fit(
    problem: Problem, train: Records, held_out: Records, metric: str, workers: Workers
) -> float:
    """The metric on held-out records after all epochs of a fit; −1 where it diverges."""
    solver = make_solver(problem, train, random_start(problem, train), workers)
    for figures, _ in run_epochs(solver, Epochs(problem.epochs)):
        if not np.isfinite(figures["loss"]) or figures.get("not_finite"):
            return _DIVERGED
    return metric_of_factors(problem, train, held_out, metric)(solver.factors())


def runs_side_by_side(problem: Problem) -> bool:
    """Whether fits under several λ can run at once: on a card, if the solver knows how."""
    return problem.device != "cpu" and SOLVERS[problem.solver].side_by_side is not None


def fits_side_by_side(
    problems: Sequence[Problem], train: Records, held_out: Records, metric: str
) -> list[float]:
    """What `whole_fit` gives for problems that differ in λ, but for rounding, by fits at once."""
    first = problems[0]
    value_of = metric_of_factors(first, train, held_out, metric)
    values = []
    start = random_start(first, train)
    for fits in SOLVERS[first.solver].side_by_side(problems, train, start):
        losses = np.array([])
        for (losses, _), _ in run_epochs(fits, Epochs(first.epochs)):
            if not np.isfinite(losses).any():
                break
        for loss, factors in zip(losses, fits.factors(), strict=True):
            values.append(value_of(factors) if np.isfinite(loss) else _DIVERGED)
        del fits  # room for the next ones
    return values
