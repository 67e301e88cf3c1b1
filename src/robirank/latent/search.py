r"""The penalty that fits a table, found by one training run under a falling λ.

Too small a λ lets noise into the factors, too large a one keeps taste out, and the best one lies in
a narrow range that differs from table to table. So a run starts with a λ that is too large and
lowers it after every epoch; a measure on held-out records rises, as directions of taste come in,
and falls again, as noise does. The factors are always a little behind λ: what fits best after an
epoch under λ fits best, at the end of a whole fit, under λ / `LAG`. That ratio hardly differs
between tables (docs/method/penalty.md).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robirank._progress import FitProgress
from robirank._types import Floats64, Ints64
from robirank._workers import Workers
from robirank.data.records import Records
from robirank.data.splits import random_share
from robirank.engine.interface import never
from robirank.latent.local import make_solver, penalize, random_start
from robirank.latent.options import FitOptions
from robirank.latent.penalty import clearest_taste
from robirank.latent.problem import Problem, Request
from robirank.latent.retrieve.evaluate import check_metric, evaluate
from robirank.latent.retrieve.recommend import FactorModel
from robirank.latent.solvers import SOLVERS, epoch_seconds

#: The best λ of an epoch on the path, divided by the best λ of a whole fit.
LAG = 0.62
#: Epochs of a path, about.
STEPS = 16
#: Held-out records that a search needs; below, the measure is mostly chance.
LEAST_HELD_OUT = 1000

_SPLIT = 3  # the stream of random numbers that decides which
_SAMPLE = 4  # the stream of random numbers that chooses users
_SAMPLED = 0.73  # with more users the best λ falls less than the noise: as this power of it
_SHARE_OF_TIME = 1 / 3  # of a time limit that the search may take
_HELD_OUT = 0.1  # of the records of each user
_MOST_USERS = 5000  # whose held-out records are ranked
_HIGHEST, _LOWEST = 1.36, 0.42  # where the path begins and should end, in default λs
_MOST_STEPS = 32
_PAST = 4  # epochs without a better mean after which the peak is passed
_WINDOW = 5  # epochs whose mean is compared
_ENDLESS = 1 << 40  # planned epochs: the rate of a path does not fall


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


def hold_out(records: Records, seed: int, share: float = _HELD_OUT) -> tuple[Records, Records]:
    """Take a share of each user's records out of a table, at random."""
    taken = random_share(records.indptr, share, np.random.default_rng([seed, _SPLIT]))
    return records.take(~taken), records.take(taken)


def search_penalty(
    name: str,
    request: Request,
    records: Records,
    validation: Records | None,
    options: FitOptions,
    workers: Workers,
) -> float | None:
    """The λ that fits a table best; None, for the default, where the search cannot tell.

    A validation set is what the path is watched on; without one, records are held out, and the
    search needs at least `LEAST_HELD_OUT` of them. Within a time limit the search takes at most a
    third of it: on a sample of the users where the whole table would take longer.
    """
    seconds = options.seconds_left() * _SHARE_OF_TIME
    end = options.seconds_left() - seconds
    sample, held_out = _sample_for(seconds, name, request, records, validation)
    train = sample
    if held_out is None:
        train, held_out = hold_out(sample, request.seed)
    if held_out.n_records < LEAST_HELD_OUT:
        if sample is not records:
            _warn_of_time(options)
        return None
    with FitProgress(options.show_progress, total=STEPS, title="looking for λ") as bar:

        def tell(path: PenaltyPath) -> None:
            last = {"λ": f"{path.best():.3g}", options.watched: f"{path.values[-1]:.4f}"}
            bar.update(len(path.values), **last)

        path = follow_path(
            name,
            request,
            train,
            held_out,
            options.watched,
            workers,
            tell,
            lambda: options.seconds_left() < end,
        )
    if not path.is_complete:
        _warn_of_time(options)
        return None
    return path.best() * scale_of_table(request, train, sample, records)


def _sample_for(
    seconds: float, name: str, request: Request, records: Records, validation: Records | None
) -> tuple[Records, Records | None]:
    """As much of a table and its validation set as a path gets through in the time."""
    sizes = Problem.of_records(request, records).sizes
    needed = STEPS * (epoch_seconds(name, request, sizes) or 0.0)
    if needed <= seconds:
        return records, validation
    users = np.flatnonzero((validation or records).user_counts())
    sampled = sample_users(users, int(len(users) * max(0.0, seconds) / needed), request.seed)
    assert sampled is not None
    return records.rows(sampled), None if validation is None else validation.rows(sampled)


def _warn_of_time(options: FitOptions) -> None:
    warnings.warn(
        f"time_limit={options.time_limit:g} leaves too little time to search for λ, which gets at "
        "most a third of it; the λ of the table's shape is taken instead. Give more time, or "
        "regularization=",
        UserWarning,
        stacklevel=7,
    )


def follow_path(
    name: str,
    request: Request,
    train: Records,
    held_out: Records,
    metric: str,
    workers: Workers,
    tell: Callable[[PenaltyPath], None],
    should_stop: Callable[[], bool] = never,
) -> PenaltyPath:
    """Train under a falling λ, and rank the held-out records after every epoch."""
    measure = _measure(request, train, held_out, metric)
    problem = Problem.of_records(replace(request, regularization=None), train)
    start = random_start(request, train)
    solver, holder = make_solver(name, request, problem, train, start, workers)
    path = PenaltyPath(np.empty(0), np.empty(0))
    highest = clearest_taste(request.rho, train.n_items)
    for number, reg in enumerate(_falling(min(problem.penalty.regularization, highest))):
        penalize(holder, replace(problem.penalty, regularization=reg), train)
        solver.epoch(number, _ENDLESS, should_stop)
        if should_stop():
            reached_peak = len(path.values) > 0 and path.is_past() and not path.at_border()
            return replace(path, is_complete=reached_peak)
        U, V = holder.factors()
        found = measure(FactorModel.of(U, V, request.num_threads, request.device))
        path = PenaltyPath(np.append(path.regularizations, reg), np.append(path.values, found))
        tell(path)
        if path.is_past() and number + 1 >= STEPS // 2:
            break
    return path


def whole_fit(
    name: str,
    request: Request,
    train: Records,
    held_out: Records,
    metric: str,
    workers: Workers,
) -> float:
    """The measure on held-out records after all epochs of a fit; −1 where it diverges."""
    assert request.epochs is not None
    problem = Problem.of_records(request, train)
    start = random_start(request, train)
    solver, holder = make_solver(name, request, problem, train, start, workers)
    for number in range(request.epochs):
        figures = solver.epoch(number, request.epochs, never)
        if not np.isfinite(figures["loss"]) or figures.get("not_finite"):
            return -1.0
    U, V = holder.factors()
    return _measure(request, train, held_out, metric)(
        FactorModel.of(U, V, request.num_threads, request.device)
    )


def runs_side_by_side(name: str, request: Request) -> bool:
    """Whether fits under several λ can run at once: on a card, if the solver knows how."""
    return request.device != "cpu" and SOLVERS[name].side_by_side is not None


def fits_side_by_side(
    name: str,
    request: Request,
    regularizations: Sequence[float],
    train: Records,
    held_out: Records,
    metric: str,
) -> list[float]:
    """What `whole_fit` gives under each λ, but for rounding, by fits that run at once."""
    assert request.epochs is not None
    requests = [replace(request, regularization=reg) for reg in regularizations]
    problems = [Problem.of_records(one, train) for one in requests]
    measure = _measure(request, train, held_out, metric)
    start, values = random_start(request, train), []
    for fits in SOLVERS[name].side_by_side(request, problems, train, start):
        for number in range(request.epochs):
            losses, _ = fits.epoch(number, request.epochs)
            if not np.isfinite(losses).any():
                break
        for loss, (U, V) in zip(losses, fits.factors(), strict=True):
            model = FactorModel.of(U, V, request.num_threads, request.device)
            values.append(measure(model) if np.isfinite(loss) else -1.0)
        del fits  # room for the next ones
    return values


def sample_users(users: Ints64, count: int, seed: int) -> Ints64 | None:
    """So many of the users, chosen at random; None where there are no more than that."""
    if len(users) <= count:
        return None
    rng = np.random.default_rng([seed, _SAMPLE])
    return np.sort(rng.choice(users, count, replace=False))


def scale_of_table(request: Request, train: Records, sample: Records, records: Records) -> float:
    """The factor that rescales a λ found on a part of a table to the whole table.

    ``train`` is what was left of a ``sample`` of the users of ``records`` after some of its records
    were held out. With more records of each user there is less noise in each row, and λ keeps its
    ratio to the noise; with more users it falls as a power of the noise.
    """
    part, users, table = (
        Problem.of_records(request, one).noise_level for one in (train, sample, records)
    )
    return users / part * (table / users) ** _SAMPLED


def _falling(centre: float) -> Iterator[float]:
    ratio = (_LOWEST / _HIGHEST) ** (1 / (STEPS - 1))
    for step in range(_MOST_STEPS):
        yield centre * _HIGHEST * ratio**step


def _measure(
    request: Request, train: Records, held_out: Records, metric: str
) -> Callable[[FactorModel], float]:
    users = np.flatnonzero(held_out.user_counts())
    if len(users) > _MOST_USERS:
        rng = np.random.default_rng([request.seed, len(users)])
        users = np.sort(rng.choice(users, _MOST_USERS, replace=False))
    tables = {"train": train.matrix(), "test": held_out.matrix()}
    _, k = check_metric(metric)
    return lambda model: evaluate(model, **tables, k=k, users=users)[metric]
