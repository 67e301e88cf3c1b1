r"""One training run under a falling λ, and what it tells about the best one.

Too small a λ lets noise into the factors, too large a one keeps taste out, and the best one lies in
a narrow range that differs from table to table. So a run starts with a λ that is too large and
lowers it after every epoch; a metric on held-out interactions rises, as directions of taste come
in, and falls again, as noise does. The factors are always a little behind λ: what fits best after
an epoch under λ fits best, at the end of a whole fit, under λ divided by a lag. That ratio depends
on how quickly a table is learned, and hardly on anything else (docs/method/penalty.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from robirank._types import Floats64
from robirank._workers import Workers
from robirank.data.user_items import UserItems, random_share
from robirank.engine.interface import never
from robirank.latent.factors.factors import Factors
from robirank.latent.factors.list_metrics import metric_of_factors
from robirank.latent.solvers import make_solver, start_of
from robirank.latent.solvers.problem import Problem
from robirank.latent.train.loop import Epochs, run_epochs
from robirank.latent.tune.judge import Judge, Parts
from robirank.latent.tune.split import SPLIT, Split
from robirank.losses import RhoName


@dataclass(frozen=True)
class Fall:
    """How λ falls along a path.

    Attributes
    ----------
    highest : float
        Where it begins, in λs of the rule.
    ratio : float
        Of λ in an epoch to that in the epoch before.
    lag : float
        The best λ of an epoch on the path, divided by the best λ of a whole fit, for a table that
        is learned slowly; see `PenaltyPath.best`.
    steps : int
        Epochs until the peak is passed, about.
    """

    highest: float
    ratio: float
    lag: float
    steps: int

    def penalties(self, centre: float) -> Iterator[float]:
        """The λ of each epoch; ``centre`` is that of the rule."""
        for step in range(_MOST_STEPS):
            yield centre * self.highest * self.ratio**step


#: Of a whole table; and of a sample of the users of a large one, in fewer and coarser steps.
FINE, COARSE = Fall(1.75, 0.9, 0.66, 13), Fall(1.3, 0.86, 0.58, 10)
_MOST_STEPS = 24
_QUICK = 0.27  # what the lag gains where all is learned in an epoch
_RATE = 0.4  # of the learning rate of a fit: it does not fall along the path
_PAST = 4  # epochs without a better mean after which the peak is passed
_WINDOW = 5  # epochs whose mean is compared
_TASTE = 0.55  # about 1 / (2 ln 2) is what the clearest taste of all reaches
_WARP = 11.0  # the gradients of WARP, compared with those of ρ = log
#: The share of the interactions of each user that is held out, and of new items and users whole.
HELD_OUT = 0.1
_MOST_USERS = 5000  # for whom items are ranked, of a table without features
_ENDLESS = 1 << 40  # planned epochs: the learning rate of a path does not fall


@dataclass(frozen=True)
class PenaltyPath:
    """The values of a metric on held-out interactions under a falling λ, one for each epoch.

    Attributes
    ----------
    regularizations, values : float64 arrays
    parts : tuple of dict
        The metric of each group of held-out interactions; the value is that of the old users and
        items. The best λ is about the same for new ones, whose metric may be chance.
    is_complete : bool
        Whether the path came to its end; one that was cut short may not have reached the best λ.
    lag : float
        See `Fall`.

    Examples
    --------
    >>> falling = 2.0 ** -np.arange(8.0)
    >>> path = PenaltyPath(falling, np.array([0, 1, 2, 3, 4, 3, 2, 1.0]), lag=0.5)
    >>> round(path.best(), 3), path.at_border()
    (0.125, False)
    """

    regularizations: Floats64
    values: Floats64
    parts: tuple[Parts, ...] = ()
    is_complete: bool = True
    lag: float = FINE.lag

    def means(self) -> Floats64:
        """The mean of each value and its neighbours."""
        side = _WINDOW // 2
        padded = np.pad(self.values, side, mode="edge")
        return np.convolve(padded, np.ones(_WINDOW) / _WINDOW, mode="valid")

    def peak(self) -> int:
        """The epoch with the highest mean."""
        return int(np.argmax(self.means()))

    def is_past(self) -> bool:
        """Whether the metric has been falling long enough to end the path."""
        return len(self.values) - 1 - self.peak() >= _PAST

    def at_border(self) -> bool:
        """Whether the best λ may lie outside of the path."""
        return self.peak() in (0, len(self.values) - 1)

    def quickness(self) -> float:
        """The share of the best value that the first epoch has."""
        return max(0.0, float(self.values[0] / max(self.values.max(), 1e-12)))

    def best(self) -> float:
        """The λ of a whole fit: the top of a parabola around the peak, divided by the lag.

        The quicker a table is learned, the less factors are behind λ: with the `quickness` r, the
        lag is that of the `Fall` and .27 r⁴.
        """
        peak = self.peak()
        near = slice(max(0, peak - 3), peak + 4)
        at, values = np.log(self.regularizations[near]), self.values[near]
        top = at[np.argmax(values)]
        if len(at) >= 3:
            curve, linear, _ = np.polyfit(at - at[0], values, 2)
            if curve < 0:
                top = at[0] + np.clip(-linear / (2 * curve), at[-1] - at[0], 0.0)
        return float(np.exp(top)) / (self.lag + _QUICK * self.quickness() ** 4)


def judge_of(split: Split, problem: Problem) -> Callable[..., Parts]:
    """A function that ranks the held-out interactions of a split by factors.

    It gives the metric of each group of `Judge`; a table without features is one group, "old".
    """
    if split.train.has_features:
        return Judge(split, problem).parts

    def parts_of(factors: Factors) -> Parts:
        value = metric_of_factors(
            factors,
            split.train,
            split.held_out,
            split.metric,
            most_users=_MOST_USERS,
            seed=problem.seed,
            num_threads=problem.num_threads,
            device=problem.device,
        )
        return {"old": value}

    return parts_of


def value_of(parts: Parts) -> float:
    """The metric of the old users and items; where none is held out, the mean of the others."""
    return parts["old"] if "old" in parts else float(np.mean([*parts.values()]))


def hold_out(interactions: UserItems, seed: int, metric: str) -> Split:
    """Take a tenth of each user's interactions out of a table, at random.

    With features of items, a tenth of the items goes whole, and likewise of the users.
    """
    rng = np.random.default_rng([seed, SPLIT])
    taken = random_share(interactions.indptr, HELD_OUT, rng)
    if interactions.item_features is not None:
        taken |= (rng.random(interactions.n_items) < HELD_OUT)[interactions.items]
    if interactions.user_features is not None:
        is_new = rng.random(interactions.n_users) < HELD_OUT
        taken |= np.repeat(is_new, interactions.user_counts())
    return Split(interactions.take(~taken), interactions.take(taken), metric)


def follow_path(
    problem: Problem,
    split: Split,
    workers: Workers,
    tell: Callable[[PenaltyPath], None] = lambda _: None,
    should_stop: Callable[[], bool] = never,
    fall: Fall = FINE,
) -> PenaltyPath:
    """Train under a falling λ, and rank the held-out interactions after every epoch.

    The λ of the problem, which the rule gives, is near the middle of the path.
    """
    train = split.train
    problem = replace(problem, learning_rate=_RATE * problem.learning_rate)
    solver = make_solver(problem, train, start_of(problem, train), workers)
    centre = min(problem.penalty.regularization, clearest_taste(problem.rho, train.n_items))

    def falling_penalties() -> Iterator[float]:
        for regularization in fall.penalties(centre):
            solver.penalize(replace(problem.penalty, regularization=regularization))
            yield regularization

    path, judge = PenaltyPath(np.empty(0), np.empty(0), lag=fall.lag), judge_of(split, problem)
    epochs = run_epochs(solver, Epochs(_ENDLESS), should_stop)
    # λ falls before each epoch.
    for regularization, _ in zip(falling_penalties(), epochs, strict=False):
        if should_stop():
            reached_peak = len(path.values) > 0 and path.is_past() and not path.at_border()
            return replace(path, is_complete=reached_peak)
        parts = judge(solver.factors())
        values = np.append(path.values, value_of(parts))
        regularizations = np.append(path.regularizations, regularization)
        path = replace(
            path, regularizations=regularizations, values=values, parts=(*path.parts, parts)
        )
        tell(path)
        if path.is_past() and len(values) >= fall.steps // 2:
            break
    return path


def clearest_taste(rho: RhoName | None, n_items: int) -> float:
    """The λ under which the clearest taste that a table can show is still learned.

    A search need not begin far above it. The noise of a table with one or two interactions a user
    is higher: under its λ, popularity alone is learned, which is all that can be.
    """
    return gradient_scale(rho, n_items) * _TASTE


def gradient_scale(rho: RhoName | None, n_items: int) -> float:
    """The size of a loss's gradients where factors are good, relative to those of ρ = log.

    None stands for WARP. At the start the gradients of the identity loss are larger by n_items, and
    they fall while it learns; those of "type2" are smaller by log²n_items, and rise.
    """
    if rho == "identity":
        return 1.5 * n_items**0.75
    if rho == "type2":
        return 2.0 / float(np.log2(n_items + 1.0)) ** 2
    return 1.0 if rho == "log" else _WARP
