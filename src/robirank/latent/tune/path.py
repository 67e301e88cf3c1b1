r"""One training run under a falling λ, and what it tells about the best one.

Too small a λ lets noise into the factors, too large a one keeps taste out, and the best one lies in
a narrow range that differs from table to table. So a run starts with a λ that is too large and
lowers it after every epoch; a metric on held-out records rises, as directions of taste come in,
and falls again, as noise does. The factors are always a little behind λ: what fits best after an
epoch under λ fits best, at the end of a whole fit, under λ / `LAG`. That ratio hardly differs
between tables (docs/method/penalty.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from robirank._types import Floats64
from robirank._workers import Workers
from robirank.data.records import Records
from robirank.engine.interface import never
from robirank.latent.solvers import make_solver
from robirank.latent.solvers.problem import Problem
from robirank.latent.solvers.start import random_start
from robirank.latent.train.epochs import Epochs, run_epochs
from robirank.latent.tune.held_out import metric_of_factors
from robirank.latent.tune.rule import clearest_taste

#: The best λ of an epoch on the path, divided by the best λ of a whole fit.
LAG = 0.62
#: Epochs of a path, about.
STEPS = 16

_HIGHEST, _LOWEST = 1.36, 0.42  # where the path begins and should end, in λs of the rule
_MOST_STEPS = 32
_PAST = 4  # epochs without a better mean after which the peak is passed
_WINDOW = 5  # epochs whose mean is compared
_ENDLESS = 1 << 40  # planned epochs: the learning rate of a path does not fall


@dataclass(frozen=True)
class PenaltyPath:
    """The values of a measure on held-out records under a falling λ, one for each epoch.

    Attributes
    ----------
    regularizations, values : float64 arrays
    is_complete : bool
        Whether the path came to its end; one that was cut short may not have reached the best λ.

    Examples
    --------
    >>> falling = 2.0 ** -np.arange(8.0)
    >>> path = PenaltyPath(falling, np.array([0, 1, 2, 3, 4, 3, 2, 1.0]))
    >>> round(path.best() * LAG, 3), path.at_border()
    (0.062, False)
    """

    regularizations: Floats64
    values: Floats64
    is_complete: bool = True

    def means(self) -> Floats64:
        """The mean of each value and its neighbours."""
        side = _WINDOW // 2
        padded = np.pad(self.values, side, mode="edge")
        return np.convolve(padded, np.ones(_WINDOW) / _WINDOW, mode="valid")

    def peak(self) -> int:
        """The epoch with the highest mean."""
        return int(np.argmax(self.means()))

    def is_past(self) -> bool:
        """Whether the measure has been falling long enough to end the path."""
        return len(self.values) - 1 - self.peak() >= _PAST

    def at_border(self) -> bool:
        """Whether the best λ may lie outside of the path."""
        return self.peak() in (0, len(self.values) - 1)

    def best(self) -> float:
        """The λ of a whole fit: the top of a parabola around the peak, divided by the lag."""
        peak = self.peak()
        near = slice(max(0, peak - 3), peak + 4)
        at, values = np.log(self.regularizations[near]), self.values[near]
        top = at[np.argmax(values)]
        if len(at) >= 3:
            curve, slope, _ = np.polyfit(at - at[0], values, 2)
            if curve < 0:
                top = at[0] + np.clip(-slope / (2 * curve), at[-1] - at[0], 0.0)
        return float(np.exp(top)) / LAG


def follow_path(
    problem: Problem,
    train: Records,
    held_out: Records,
    metric: str,
    workers: Workers,
    tell: Callable[[PenaltyPath], None],
    should_stop: Callable[[], bool] = never,
) -> PenaltyPath:
    """Train under a falling λ, and rank the held-out records after every epoch.

    The λ of the problem, which the rule gives, is near the middle of the path.
    """
    value_of = metric_of_factors(problem, train, held_out, metric)
    solver = make_solver(problem, train, random_start(problem, train), workers)
    centre = min(problem.penalty.regularization, clearest_taste(problem.rho, train.n_items))

    def falling_penalties() -> Iterator[float]:
        for reg in _falling(centre):
            solver.penalize(replace(problem.penalty, regularization=reg))
            yield reg

    path = PenaltyPath(np.empty(0), np.empty(0))
    epochs = run_epochs(solver, Epochs(_ENDLESS), should_stop)
    for reg, _ in zip(falling_penalties(), epochs, strict=False):  # λ falls before each epoch
        if should_stop():
            reached_peak = len(path.values) > 0 and path.is_past() and not path.at_border()
            return replace(path, is_complete=reached_peak)
        values = np.append(path.values, value_of(solver.factors()))
        path = PenaltyPath(np.append(path.regularizations, reg), values)
        tell(path)
        if path.is_past() and len(values) >= STEPS // 2:
            break
    return path


def _falling(centre: float) -> Iterator[float]:
    ratio = (_LOWEST / _HIGHEST) ** (1 / (STEPS - 1))
    for step in range(_MOST_STEPS):
        yield centre * _HIGHEST * ratio**step
