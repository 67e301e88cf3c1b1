"""What a fit leaves open is settled here: its λ, by a search or by the rule."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from robirank._callers import warn
from robirank._progress import FitProgress
from robirank._workers import Workers
from robirank.data.records import Records
from robirank.latent.solvers import SOLVERS, epoch_seconds
from robirank.latent.solvers.problem import Problem, TableShape
from robirank.latent.train.fit import Training
from robirank.latent.train.options import FitOptions
from robirank.latent.train.request import Request
from robirank.latent.tune.held_out import LEAST_HELD_OUT, hold_out, sample_users
from robirank.latent.tune.path import STEPS, PenaltyPath, follow_path
from robirank.latent.tune.rule import default_regularization, noise_level, scale_of_table

log = logging.getLogger("robirank.latent")

_SHARE_OF_TIME = 1 / 3  # of a time limit that the search may take


def settle(request: Request, training: Training, options: FitOptions) -> Problem:
    """Settle what a request left open: λ comes from a checkpoint, a search or the rule."""
    problem = settle_by_shape(request, training.shape)
    if request.regularization is not None or not SOLVERS[problem.solver].searches:
        return problem
    regularization = training.saved_regularization()
    if regularization is None and training.records is not None:
        records, validation = training.records, training.validation
        regularization = search_penalty(request, records, validation, options)
        if regularization is not None:
            log.info("%s: a search found λ = %.4g", request.model, regularization)
    if regularization is None:
        return problem
    return replace(problem, penalty=replace(problem.penalty, regularization=regularization))


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
    return request.settled(shape, regularization, noise)


def settle_by_records(request: Request, records: Records) -> Problem:
    """`settle_by_shape` for a table in memory."""
    return settle_by_shape(request, TableShape.of_records(records))


def search_penalty(
    request: Request,
    records: Records,
    validation: Records | None,
    options: FitOptions,
) -> float | None:
    """The λ that fits a table best; None, for the rule's, where the search cannot tell.

    A validation set is what the path is watched on; without one, records are held out, and the
    search needs at least `LEAST_HELD_OUT` of them. Within a time limit the search takes at most a
    third of it: on a sample of the users where the whole table would take longer.
    """
    seconds = options.seconds_left() * _SHARE_OF_TIME
    end = options.seconds_left() - seconds
    sample, held_out = _sample_for(seconds, request, records, validation)
    train = sample
    if held_out is None:
        train, held_out = hold_out(sample, request.seed)
    if held_out.n_records < LEAST_HELD_OUT:
        if sample is not records:
            _warn_of_time(options)
        return None
    with (
        Workers(request.num_threads) as workers,
        FitProgress(options.show_progress, total=STEPS, title="looking for λ") as bar,
    ):

        def tell(path: PenaltyPath) -> None:
            last = {"λ": f"{path.best():.3g}", options.watched: f"{path.values[-1]:.4f}"}
            bar.update(len(path.values), **last)

        path = follow_path(
            settle_by_records(request, train),
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
    return path.best() * scale_of_table(request.exponents, train, sample, records)


def _sample_for(
    seconds: float, request: Request, records: Records, validation: Records | None
) -> tuple[Records, Records | None]:
    """As much of a table and its validation set as a path gets through in the time."""
    needed = STEPS * (epoch_seconds(settle_by_records(request, records)) or 0.0)
    if needed <= seconds:
        return records, validation
    users = np.flatnonzero((validation or records).user_counts())
    sampled = sample_users(users, int(len(users) * max(0.0, seconds) / needed), request.seed)
    assert sampled is not None
    return records.rows(sampled), None if validation is None else validation.rows(sampled)


def _warn_of_time(options: FitOptions) -> None:
    warn(
        f"time_limit={options.time_limit:g} leaves too little time to search for λ, which gets at "
        "most a third of it; the λ of the table's shape is taken instead. Give more time, or "
        "regularization=",
        UserWarning,
    )
