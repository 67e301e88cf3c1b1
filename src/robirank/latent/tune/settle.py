"""What a fit leaves open is settled here: λ by a rule from the table's shape, or by a search.

The scale of λ is that of the noise in a table: the singular values that it would have if users drew
their items independently of each other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from robirank._callers import warn
from robirank._progress import FitProgress
from robirank._workers import Workers
from robirank.data.user_items import UserItems
from robirank.latent.factors.content import Content
from robirank.latent.solvers import SOLVERS, epoch_seconds
from robirank.latent.solvers.problem import EXPONENTS, Problem, RowLengths, TableShape
from robirank.latent.train.loop import Fit
from robirank.latent.train.request import FitOptions, Request
from robirank.latent.tune.content import default_content, search_content
from robirank.latent.tune.path import (
    STEPS,
    PenaltyPath,
    clearest_taste,
    follow_path,
    gradient_scale,
    hold_out,
)
from robirank.latent.tune.split import LEAST_HELD_OUT, Split, sample_users
from robirank.losses import RhoName

log = logging.getLogger("robirank.latent")

_MULTIPLE = 1.3  # of the noise, for users with one interaction
_SMALL = 500  # interactions
_SAMPLED = 0.73  # with more users the best λ falls less than the noise: as this power of it
_SHARE_OF_TIME = 1 / 3  # of a time limit that the search may take


def settle(request: Request, fit: Fit, options: FitOptions) -> Problem:
    """Settle what a request left open, by a checkpoint, a search or a rule."""
    problem = settle_by_shape(request, fit.shape)
    if not SOLVERS[problem.solver].searches:
        return problem
    saved = fit.saved_search()
    if saved is not None:
        return _with(problem, *saved)
    if fit.interactions is None or not _is_open(request, fit.interactions):
        return problem
    return search(request, problem, fit.interactions, fit.validation, options)


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
    the search needs at least `LEAST_HELD_OUT` of them. Within a time limit the search takes at most
    a third of it: on a sample of the users where the whole table would take longer. What the search
    cannot tell is left as it is.
    """
    seconds = options.seconds_left() * _SHARE_OF_TIME
    end = options.seconds_left() - seconds

    has_content = request.content is None and interactions.item_features is not None

    def is_late() -> bool:
        return options.seconds_left() < end

    sample, held_out = _sample_for(seconds, request, interactions, validation)
    if held_out is None:
        split = watched = hold_out(sample, request.seed, options.watched)
    else:
        watched = Split(sample, held_out, options.watched)
        split = hold_out(sample, request.seed, options.watched) if has_content else watched
    if min(part.held_out.n_interactions for part in (split, watched)) < LEAST_HELD_OUT:
        if sample is not interactions:
            _warn_of_time(options)
        return problem
    with Workers(request.num_threads) as workers:
        if request.regularization is None:
            path = _path(request, watched, options, workers, is_late)
            if not path.is_complete:
                _warn_of_time(options)
                return problem
            scale = scale_of_table(request.exponents, watched.train, sample, interactions)
            problem = _with(problem, path.best() * scale, problem.content)
            log.info("%s: a search found λ = %.4g", request.model, path.best() * scale)
        if has_content:
            scale = scale_of_table(request.exponents, split.train, sample, interactions)
            on_split = settle_by_table(request, split.train)
            reg = problem.penalty.regularization / scale
            content = search_content(_with(on_split, reg, Content()), split, workers, is_late)
            if content is not None:
                log.info("%s: a search found content weights %s", request.model, content)
                problem = replace(problem, content=content)
    return problem


def _path(
    request: Request,
    split: Split,
    options: FitOptions,
    workers: Workers,
    is_late: Callable[[], bool],
) -> PenaltyPath:
    """The path under a falling λ, with a bar that shows it."""
    with FitProgress(options.show_progress, total=STEPS, title="looking for λ") as bar:

        def tell(path: PenaltyPath) -> None:
            last = {"λ": f"{path.best():.3g}", options.watched: f"{path.values[-1]:.4f}"}
            bar.update(len(path.values), **last)

        return follow_path(settle_by_table(request, split.train), split, workers, tell, is_late)


def _sample_for(
    seconds: float, request: Request, interactions: UserItems, validation: UserItems | None
) -> tuple[UserItems, UserItems | None]:
    """As much of a table and its validation set as a path gets through in the time."""
    needed = STEPS * (epoch_seconds(settle_by_table(request, interactions)) or 0.0)
    if needed <= seconds:
        return interactions, validation
    users = np.flatnonzero((validation or interactions).user_counts())
    sampled = sample_users(users, int(len(users) * max(0.0, seconds) / needed), request.seed)
    assert sampled is not None
    return interactions.rows(sampled), None if validation is None else validation.rows(sampled)


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
    multiple = _MULTIPLE * max(users.mean(), 1.0) ** -0.2 * (factors / 64) ** 0.06
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
