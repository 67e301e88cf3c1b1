"""What a fit leaves open is settled here: λ by a rule from the table's shape, or by a search.

The scale of λ is that of the noise in a table: the singular values that it would have if users drew
their items independently of each other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robirank._callers import warn
from robirank._progress import FitProgress
from robirank._workers import Workers
from robirank.data.user_items import UserItems
from robirank.latent.factors.content import NO_CONTENT, Content
from robirank.latent.solvers import SOLVERS, epoch_seconds, start_of
from robirank.latent.solvers.problem import EXPONENTS, Problem, RowLengths, TableShape
from robirank.latent.train.loop import Fit
from robirank.latent.train.request import FitOptions, Request
from robirank.latent.tune.content import default_content, search_content
from robirank.latent.tune.fits import (
    STEP,
    fits_side_by_side,
    runs_side_by_side,
    top_of_fits,
    whole_fit,
)
from robirank.latent.tune.path import (
    COARSE,
    FINE,
    Fall,
    PenaltyPath,
    clearest_taste,
    follow_path,
    gradient_scale,
    hold_out,
)
from robirank.latent.tune.split import LEAST_HELD_OUT, Split, sample_users
from robirank.latent.tune.width import (
    GROWTH_POWER,
    USUAL,
    narrowed,
    penalty_growth,
    widened,
    with_factors,
)
from robirank.losses import RhoName

log = logging.getLogger("robirank.latent")

_MULTIPLE = 1.3  # of the noise, for users with one interaction
_SMALL = 500  # interactions
_SAMPLED = 0.73  # with more users the best λ falls less than the noise: as this power of it
_SHARE_OF_TIME = 1 / 3  # of a time limit that the search may take
_QUICK, _SHORT = 0.7, 6  # `PenaltyPath.quickness` from which on fits of so many epochs look closer
_LEAST_FITS = 3
_WIDE_STEP = 1.2  # the ratio between the penalties of whole fits, of tables with features
_FEW_EPOCHS = 4.0  # of the exact solver, which make it worth while
# Users × items up to which the search looks at all users; above, at so many users × items, and at
# no less than a share of the users.
_WHOLE, _PART, _LEAST_SHARE = 5e8, 1.6e8, 1 / 8


def settle(request: Request, fit: Fit, options: FitOptions) -> Problem:
    """Settle what a request left open, by a checkpoint, a search or a rule."""
    request = within_time(request, fit.shape, options.seconds_left())
    problem = settle_by_shape(request, fit.shape)
    if not SOLVERS[problem.solver].searches:
        return problem
    saved = fit.saved_search()
    if saved is not None:
        problem = _with(problem, saved.regularization, saved.content)
        return problem if saved.factors is None else with_factors(request, problem, saved.factors)
    if fit.interactions is None:
        return problem
    if _is_open(request, fit.interactions):
        problem = search(request, problem, fit.interactions, fit.validation, options)
    return widened(request, problem, fit.interactions, options.seconds_left())


def within_time(request: Request, shape: TableShape, seconds: float) -> Request:
    """A request whose solver "auto" is chosen by what a time limit leaves room for.

    The exact solver is taken where a search and some epochs of it fit, by the speed of this
    machine: its first epochs rank as well as what "sgd" has by then, and its last ones better.
    """
    is_open = request.solver == "auto" and request.device == "cpu" and request.engine == "local"
    if not is_open or seconds == np.inf:
        return request
    exact = replace(request, solver="exact")
    problem = settle_by_shape(exact, shape)
    epoch = epoch_seconds(problem)
    assert epoch is not None
    epochs = min(_FEW_EPOCHS, problem.epochs)
    if request.regularization is None:
        epochs /= 1 - _SHARE_OF_TIME
    return exact if epochs * epoch <= seconds else replace(request, solver="sgd")


def _is_open(request: Request, interactions: UserItems) -> bool:
    """Whether there is something to search for."""
    has_content = interactions.item_features is not None
    return request.regularization is None or (has_content and request.content is None)


def _with(problem: Problem, regularization: float, content: Content) -> Problem:
    penalty = replace(problem.penalty, regularization=regularization)
    return replace(problem, penalty=penalty, content=content)


def settle_by_shape(request: Request, shape: TableShape) -> Problem:
    """Settle what a request left open by the numbers of interactions alone."""
    regularization = request.regularization
    if regularization is None:
        regularization = default_regularization(
            shape.users,
            shape.items,
            rho=request.rho,
            factors=request.factors,
            n_items=shape.sizes.n_items,
            exponents=request.exponents,
        )
    noise = noise_level(shape.users, shape.items, request.exponents)
    problem = request.settled(shape, regularization, noise)
    if request.content is not None:
        return replace(problem, content=request.content)
    return replace(problem, content=default_content(shape)) if shape.has_item_features else problem


def settle_by_table(request: Request, interactions: UserItems) -> Problem:
    """`settle_by_shape` for a table in memory."""
    return settle_by_shape(request, TableShape.of_user_items(interactions))


def search(
    request: Request,
    problem: Problem,
    interactions: UserItems,
    validation: UserItems | None,
    options: FitOptions,
) -> Problem:
    """A problem with the λ and the content weights that fit a table best.

    A validation part is what the path is watched on; without one, interactions are held out, and
    the search needs at least `LEAST_HELD_OUT` of them. Of a large table a sample of the users is
    searched, and within a time limit the search takes at most a third of it: on fewer users where
    more would take longer. What the search cannot tell is left as it is.
    """
    seconds = options.seconds_left() * _SHARE_OF_TIME

    has_content = request.content is None and interactions.item_features is not None
    narrow = narrowed(request, problem.solver)

    # The weights of content scores matter more than the last digit of λ.
    is_late = _Deadline.after(seconds, options)
    is_late_for_fits = _Deadline.after(0.5 * seconds, options) if has_content else is_late

    sample, held_out, fall = _sample_for(seconds, narrow, interactions, validation)
    if held_out is None:
        split = watched = hold_out(sample, request.seed, options.watched)
    else:
        watched = Split(sample, held_out, options.watched)
        split = hold_out(sample, request.seed, options.watched) if has_content else watched
    if min(part.held_out.n_interactions for part in (split, watched)) < LEAST_HELD_OUT:
        if sample is not interactions and options.time_limit is not None:
            _warn_of_time(options)
        return problem
    with Workers(request.num_threads) as workers:
        if request.regularization is None:
            path = _path(narrow, watched, options, workers, fall, is_late)
            if not path.is_complete:
                _warn_of_time(options)
                return problem
            scale = scale_of_table(request.exponents, watched.train, sample, interactions)
            scale *= penalty_growth(request.factors)
            reg = _closely(narrow, watched, path, options, workers, is_late_for_fits) * scale
            problem = _with(problem, reg, problem.content)
            log.info("%s: a search found λ = %.4g", request.model, reg)
        if has_content:
            scale = scale_of_table(request.exponents, split.train, sample, interactions)
            on_split = settle_by_table(request, split.train)
            reg = problem.penalty.regularization / scale
            content = search_content(_with(on_split, reg, Content()), split, workers, is_late)
            if content is not None:
                log.info("%s: a search found content weights %s", request.model, content)
                problem = replace(problem, content=content)
    return problem


@dataclass(frozen=True)
class _Deadline:
    """The end of a search: it has come when the fit has so many seconds left."""

    options: FitOptions
    end: float

    @classmethod
    def after(cls, seconds: float, options: FitOptions) -> _Deadline:
        """So many seconds from now; never without a time limit."""
        end = -np.inf if seconds == np.inf else options.seconds_left() - seconds
        return cls(options, end)

    def __call__(self) -> bool:
        """Whether it has come."""
        return self.seconds() < 0

    def seconds(self) -> float:
        """How many seconds there are until then."""
        return self.options.seconds_left() - self.end


def _path(
    request: Request,
    split: Split,
    options: FitOptions,
    workers: Workers,
    fall: Fall,
    is_late: Callable[[], bool],
) -> PenaltyPath:
    """The path under a falling λ, with a bar that shows it."""
    with FitProgress(options.show_progress, total=fall.steps, title="looking for λ") as bar:

        def tell(path: PenaltyPath) -> None:
            last = {"λ": f"{path.best():.3g}", options.watched: f"{path.values[-1]:.4f}"}
            bar.update(len(path.values), **last)

        problem = settle_by_table(request, split.train)
        seconds = epoch_seconds(problem)
        if seconds is not None:
            bar.update(0, expected=f"{fall.steps} epochs of about {seconds:.2g} s, search alone")
        return follow_path(problem, split, workers, tell, is_late, fall)


def _closely(
    request: Request,
    split: Split,
    path: PenaltyPath,
    options: FitOptions,
    workers: Workers,
    is_late: _Deadline,
) -> float:
    """The λ of a path, or the best near it by fits: whole ones with features, else short ones.

    Short fits rank penalties as whole ones do where a table is learned quickly. Of other tables
    they would prefer too small a λ; and there the lag of a path hardly differs. With features it
    does, by how much they explain, and a path and short fits both prefer too small a λ.
    """
    problem = settle_by_table(request, split.train)
    centre, ratio = path.best(), _WIDE_STEP
    if not problem.has_features:
        problem, ratio = replace(problem, epochs=min(_SHORT, problem.epochs)), STEP
    seconds = _LEAST_FITS * problem.epochs * (epoch_seconds(problem) or 0.0)
    if seconds > is_late.seconds() or (path.quickness() < _QUICK and not problem.has_features):
        return centre
    together = runs_side_by_side(problem)
    start = start_of(problem, split.train) if together else None
    done: list[int] = []
    with FitProgress(options.show_progress, total=_LEAST_FITS, title="looking closer") as bar:

        def values_of(steps: Sequence[int]) -> dict[int, float]:
            problems = [_with(problem, centre * ratio**step, problem.content) for step in steps]
            if start is not None:
                return dict(zip(steps, fits_side_by_side(problems, split, start), strict=True))
            values = {}
            for step, under in zip(steps, problems, strict=True):
                if is_late():
                    break
                fitted = whole_fit(under, split, workers, request.content or NO_CONTENT, is_late)
                if is_late():
                    break  # the fit was cut short
                values[step] = fitted["values"][0]
                done.append(step)
                shown = {"λ": f"{under.penalty.regularization:.3g}"}
                shown[options.watched] = f"{values[step]:.4f}"
                bar.update(min(_LEAST_FITS, len(done)), **shown)
            return values

        top, _ = top_of_fits(values_of, together=together)
    return centre * ratio**top


@dataclass(frozen=True)
class SearchPlan:
    """What a search for λ looks at: a share of the users, and how λ falls."""

    share: float
    fall: Fall

    @property
    def epochs(self) -> float:
        """How many epochs of the whole table it costs, about."""
        return self.share * self.fall.steps


def plan_search(n_users: int, n_items: int, epochs_in_time: float = np.inf) -> SearchPlan:
    """How to search for λ in a table of so many users with interactions.

    ``epochs_in_time`` is the number of epochs of the whole table that the search may cost.

    Examples
    --------
    >>> plan_search(10_000, 5_000).share, plan_search(30_000, 40_000).share
    (1.0, 0.13333333333333333)
    """
    cells = n_users * n_items
    plan = SearchPlan(1.0, FINE)
    if cells > _WHOLE:
        plan = SearchPlan(max(_LEAST_SHARE, _PART / cells), COARSE)
    if plan.epochs <= epochs_in_time:
        return plan
    return SearchPlan(min(plan.share, max(0.0, epochs_in_time) / COARSE.steps), COARSE)


def _sample_for(
    seconds: float, request: Request, interactions: UserItems, validation: UserItems | None
) -> tuple[UserItems, UserItems | None, Fall]:
    """The part of a table and of its validation set to search in, within the time."""
    users = np.flatnonzero((validation or interactions).user_counts())
    epoch = epoch_seconds(settle_by_table(request, interactions)) if seconds < np.inf else None
    plan = plan_search(len(users), interactions.n_items, seconds / epoch if epoch else np.inf)
    sampled = sample_users(users, int(len(users) * plan.share), request.seed)
    if sampled is None:
        return interactions, validation, plan.fall
    part = None if validation is None else validation.rows(sampled)
    return interactions.rows(sampled), part, plan.fall


def _warn_of_time(options: FitOptions) -> None:
    warn(
        f"time_limit={options.time_limit:g} leaves too little time to search for λ, which gets at "
        "most a third of it; the λ of the table's shape is taken instead. Give more time, or "
        "regularization=",
    )


# ------------------------------------------------------------------------------ the rule


def noise_level(
    users: RowLengths, items: RowLengths, exponents: tuple[float, float] = EXPONENTS
) -> float:
    r"""How large the singular values of a table without taste are, in units of λ.

    Around U = V = 0 the loss is linear in the scores, and a direction of the weighted table
    :math:`A^{-1/2} R B^{-1/2}` grows where its singular value exceeds λ. If users drew their items
    independently of each other, an entry would have the variance :math:`s_x t_y` with

    .. math:: s_x = n_x / (a_x \sqrt N), \qquad t_y = n_y / (b_y \sqrt N),

    and the noise would reach up to about

    .. math::
        \frac{1}{2 \ln 2} \Bigl(\sqrt{\bar s \textstyle\sum t_y}
        + \sqrt{\bar t \textstyle\sum s_x}\Bigr), \qquad
        \bar s = \frac{\sum s_x^2}{\sum s_x}, \quad \bar t = \frac{\sum t_y^2}{\sum t_y},

    which for rows of one length and columns of one length is the edge of Marchenko and Pastur. Only
    the numbers of interactions of rows and columns are needed.

    References
    ----------
    Marchenko, Pastur: Distribution of eigenvalues for some sets of random matrices. 1967.

    Examples
    --------
    A hundred users and a hundred items with 25 interactions each: (√100 + √100) / 2 ln 2 / √2500.

    >>> rows = RowLengths([25], [100])
    >>> round(noise_level(rows, rows), 4)
    0.2885
    """
    n_interactions = users.sum(1)
    if not n_interactions:
        return 0.0
    (s, s_bar), (t, t_bar) = (
        _variances(side, exponent, n_interactions)
        for side, exponent in zip((users, items), exponents, strict=True)
    )
    return float((np.sqrt(s_bar * t) + np.sqrt(t_bar * s)) / (2 * np.log(2)))


def _variances(rows: RowLengths, exponent: float, interactions: float) -> tuple[float, float]:
    """The sum of s = n / (a √N) over rows, and their mean weighted by s itself, Σ s² / Σ s."""
    scale = rows.sum(exponent) / interactions / np.sqrt(interactions)
    total, squares = scale * rows.sum(1 - exponent), scale**2 * rows.sum(2 - 2 * exponent)
    return total, squares / total


def default_regularization(
    users: RowLengths,
    items: RowLengths,
    *,
    rho: RhoName | None = "log",
    factors: int = 64,
    n_items: int | None = None,
    exponents: tuple[float, float] = EXPONENTS,
) -> float:
    r"""λ from the shape of a table alone.

    .. math:: λ = 1.3 \; σ \; \bar n^{-1/5} \, (d / 64)^{0.06}

    with the `noise_level` σ, the mean number \bar n of a user's interactions and d factors: the
    more a user's interactions say, the less it takes. A table of less than 500 interactions gets at
    most the λ of `clearest_taste`: so few say little about noise, and such tables are mostly
    examples. The constants come from fits to 19 tables of different shapes and sources
    (docs/method/penalty.md); for three of four of them, this λ has more than .95 of the recall of
    the best one. The gradients of other losses than ρ = log have another scale, and so has their λ.

    Examples
    --------
    >>> rows = RowLengths([25], [100])
    >>> round(default_regularization(rows, rows), 4)
    0.197
    """
    level = noise_level(users, items, exponents)
    items_there = n_items or int(items.sum(0))
    multiple = _MULTIPLE * max(users.mean(), 1.0) ** -0.2 * (factors / USUAL) ** GROWTH_POWER
    reg = gradient_scale(rho, items_there) * (multiple * level)
    return min(reg, clearest_taste(rho, items_there)) if users.sum(1) < _SMALL else reg


def scale_of_table(
    exponents: tuple[float, float], train: UserItems, sample: UserItems, interactions: UserItems
) -> float:
    """The factor that rescales a λ found on a part of a table to the whole table.

    ``train`` is what was left of a ``sample`` of the users of ``interactions`` after some of its
    interactions were held out. With more interactions of each user there is less noise in each row,
    and λ keeps its ratio to the noise; with more users it falls as a power of the noise.
    """
    part, users, table = (_noise_of(t, exponents) for t in (train, sample, interactions))
    return users / part * (table / users) ** _SAMPLED


def _noise_of(interactions: UserItems, exponents: tuple[float, float]) -> float:
    users = RowLengths.of_counts(interactions.user_counts())
    return noise_level(users, RowLengths.of_counts(interactions.item_counts()), exponents)
