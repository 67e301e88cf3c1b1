"""Whole fits on a part of a table, ranked on held-out interactions; and the λ between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from robirank._workers import Workers
from robirank.engine.interface import never
from robirank.latent.factors.content import Content
from robirank.latent.factors.factors import Factors
from robirank.latent.solvers import SOLVERS, make_solver, start_of
from robirank.latent.solvers.problem import Problem
from robirank.latent.train.loop import Epochs, run_epochs
from robirank.latent.tune.content import best_content
from robirank.latent.tune.path import judge_of
from robirank.latent.tune.split import Split

#: The ratio between the penalties of fits that are compared.
STEP = 1.1
_MOST_FITS, _NEAR = 6, 2  # fits; steps from the best that the parabola goes through
_DIVERGED = -1.0  # a value below that of any fit


def top_of_fits(
    values_of: Callable[[Sequence[int]], dict[int, float]], *, together: bool
) -> tuple[float, float]:
    """The best λ between fits some steps apart, in these steps, and the best of their values.

    It is the top of a parabola through the best value and those around it. More steps are tried
    until the best lies inside, six at most, or until no value comes.

    Parameters
    ----------
    values_of : callable
        Gives the values of fits at some steps; of fewer where there is no time for more.
    together : bool
        Whether fits cost less at once than one after the other.

    Examples
    --------
    >>> top_of_fits(lambda steps: {n: 1 - (n - 0.5) ** 2 for n in steps}, together=True)
    (0.5, 0.75)
    """
    tried = values_of((-1, 0, 1) if together else (0, 1))
    if not tried:
        return 0.0, _DIVERGED
    best = max(tried, key=lambda step: tried[step])
    while best in (min(tried), max(tried)) and len(tried) < _MOST_FITS:
        more = values_of((best - 1 if best == min(tried) else best + 1,))
        if not more:
            break
        tried = tried | more
        best = max(tried, key=lambda step: tried[step])
    steps = [step for step in sorted(tried) if abs(step - best) <= _NEAR]
    if len(steps) <= _NEAR:
        return float(best), tried[best]
    curve, linear, _ = np.polyfit(steps, [tried[step] for step in steps], 2)
    top = float(np.clip(-linear / (2 * curve), steps[0], steps[-1])) if curve < 0 else float(best)
    return round(top, 9), tried[best]


def whole_fit(
    problem: Problem,
    split: Split,
    workers: Workers,
    content: Content | None = None,
    should_stop: Callable[[], bool] = never,
) -> dict[str, Any]:
    """The metric on held-out interactions after all epochs of a fit; −1 where it diverges.

    With features it is the mean of old users and items, new items and new users, which are given
    apart too, with the content weights that are best for them where none are given.
    """
    solver = make_solver(problem, split.train, start_of(problem, split.train), workers)
    for figures, _ in run_epochs(solver, Epochs(problem.epochs), should_stop):
        if not np.isfinite(figures["loss"]) or figures.get("not_finite"):
            return {"values": [_DIVERGED]}
        if should_stop():
            break
    factors, judge = solver.factors(), judge_of(split, problem)
    if not problem.has_features:
        return {"values": [judge(factors)["old"]]}
    factors, found = factors.on_host(), {}
    if content is None and split.train.item_features is not None:
        content = best_content(factors, split, problem)
        found = {"contents": [content]}
    parts = judge(factors, content)
    return {"values": [float(np.mean([*parts.values()]))], "parts": [parts]} | found


def runs_side_by_side(problem: Problem) -> bool:
    """Whether fits under several λ can run at once: on a card, if the solver knows how."""
    entry = SOLVERS[problem.solver]
    return problem.device != "cpu" and entry.side_by_side is not None and not problem.has_features


def fits_side_by_side(problems: Sequence[Problem], split: Split, start: Factors) -> list[float]:
    """What `whole_fit` gives for problems that differ in λ, but for rounding, by fits at once.

    ``start`` is that of the problems, which do not differ in it; it stays as it is.
    """
    first, values = problems[0], []
    for fits in SOLVERS[first.solver].side_by_side(problems, split.train, start):
        losses = np.array([])
        for (losses, _), _ in run_epochs(fits, Epochs(first.epochs)):
            if not np.isfinite(losses).any():
                break
        for loss, factors in zip(losses, fits.factors(), strict=True):
            value = judge_of(split, first)(factors)["old"]
            values.append(value if np.isfinite(loss) else _DIVERGED)
        del fits  # room for the next ones
    return values
