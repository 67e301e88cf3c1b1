r"""What comes next, learned: the leads and followers of items, and what they weigh beside taste.

The rows P and W of `robirank.latent.factors.order` minimise the loss of the taste on another table,
the `followers`: its rows are the items that lead, its columns those that follow, and a pair weighs
as much as it was seen. Together the two parts minimise one objective, a sum in which they share no
row; each has a λ of its own. The weight ω of the order is then chosen by the last records of users,
which were not trained on, and is zero where they do not show that the order says something.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from robirank._callers import warn
from robirank._interrupt import Interrupt
from robirank._types import Floats32, Floats64
from robirank._workers import Workers
from robirank.data.ages import Ages
from robirank.data.sequences import followers, hold_out_last
from robirank.data.user_items import UserItems
from robirank.latent.factors.content import Content
from robirank.latent.factors.factors import ITEMS, USERS, Factors, Side, random_rows
from robirank.latent.factors.order import joined, order_of, taste_width
from robirank.latent.solvers import epoch_seconds, make_solver, start_of
from robirank.latent.solvers.problem import Problem
from robirank.latent.train.local import LocalFit, finished
from robirank.latent.train.loop import Epochs, FitResult, run_epochs
from robirank.latent.train.request import FitOptions, Request
from robirank.latent.tune.judge import Group
from robirank.latent.tune.settle import scale_of_table, settle, settle_by_table
from robirank.storage.checkpoint_file import CheckpointFile

log = logging.getLogger("robirank.latent")

#: The share of a time limit that the taste gets, and of the rest, what the order gets.
TASTE_SHARE, _ORDER_SHARE = 0.45, 0.6
_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
_USUAL = 1.0  # ω, where there is no time to look for it
_LEAST_USERS, _MOST_USERS = 100, 5000
_MOST_CELLS = 1 << 27  # scores of users and items that are held
_ERRORS = 2.0  # standard errors by which the order must be better than none
_MOST_OF_IT = 0.9  # of the best gain; a smaller ω does less harm where the past misleads
_LEAST_EPOCHS = 4


@dataclass(frozen=True)
class Sequences:
    """A table with times, and what is needed to learn from its order.

    Attributes
    ----------
    table : UserItems
    ages : Ages
        How records weigh by their age.
    validation : UserItems or None
        Records that choose ω; None: the last ones of the table.
    """

    table: UserItems
    ages: Ages
    validation: UserItems | None = None

    def followers(self, seed: int) -> UserItems:
        """Which item followed which."""
        weights = None
        if self.ages.half_life is not None and self.table.times is not None:
            weights = self.ages.weights(self.table.times)
        return followers(self.table, seed, weights)

    def take(self, chosen: Any) -> Sequences:
        """The same with some of the records."""
        return Sequences(self.table.take(chosen), self.ages)


def with_order(
    request: Request,
    sequences: Sequences,
    options: FitOptions,
    taste: FitResult,
    known: Factors | None = None,
) -> FitResult:
    """A fitted taste with what follows what; ``known`` is the model that the fit went on from.

    What was chosen for that model stays, unless another weight is asked for, and so does what it
    had learned of the order where the table says nothing more of it or the fit was interrupted.
    """
    table = sequences.table
    can_learn = has_followers(table) and not _is_interrupted(taste)
    if known is not None:
        leads: Any = known.items.leads
        weight = request.order_weight or leads.weight
        request = replace(request, order_weight=weight, regularization=leads.regularization)
        if can_learn:
            start = _grown(known, table.n_items, request.seed)
            result = learn_order(request, sequences, options, taste, start)
        else:
            start = Factors(*(Side(rows) for rows in _padded(known, table.n_items)))
            factors = joined(taste.factors, start, weight, leads.regularization, table)
            result = replace(taste, factors=factors)
    elif can_learn:
        request = replace(request, regularization=None)
        result = learn_order(request, sequences, options, taste)
    else:
        if not _is_interrupted(taste):
            warn("no user has two records, so that nothing can be learned from their order")
        return taste
    factors = result.factors
    if factors.items.leads is None:
        return result
    if known is not None:
        d, n_users = taste_width(factors.items), len(known.users)
        idle = np.flatnonzero(table.user_counts()[:n_users] == 0)
        root = np.float32(np.sqrt(weight / leads.weight))
        factors.users.rows[idle, d:] = root * known.users.rows[idle, d:]
    if table.has_features:
        factors = finished(factors, table, taste.problem, known)
    return replace(result, factors=factors)


def _is_interrupted(result: FitResult) -> bool:
    return result.progress.stopped == "interrupted"


def _padded(known: Factors, n_items: int) -> list[Floats32]:
    """The leads and followers of a model, and zeros for items after its own."""
    return [np.pad(rows, ((0, n_items - len(rows)), (0, 0))) for rows in order_of(known)]


def _grown(known: Factors, n_items: int, seed: int) -> Factors:
    """The leads and followers of all items of a table; those of the model stay."""
    sides = []
    for side, rows in zip((USERS, ITEMS), _padded(known, n_items), strict=True):
        n_known = len(known.items)
        every = 0.1 * random_rows(seed + 1, side, n_items, rows.shape[1])
        every[:n_known] = rows[:n_known]
        sides.append(Side(every))
    return Factors(*sides)


def learn_order(
    request: Request,
    sequences: Sequences,
    options: FitOptions,
    taste: FitResult,
    start: Factors | None = None,
) -> FitResult:
    """Fit leads and followers, from a start or at random, choose ω, and join them to the taste.

    What comes back is the taste alone where ω is zero.
    """
    asked = _of_order(request)
    limited = options.limited_to(1.0 if request.order_weight else _ORDER_SHARE)
    fit = LocalFit(asked, sequences.followers(request.seed), _alone(limited))
    if start is not None:
        fit.start_from(start)
    order = fit.run(settle(asked, fit, limited))
    weight = request.order_weight
    if weight is None and not _is_interrupted(order):
        weight = _search_weight(request, sequences, options, taste, order)
        log.info("%s: ω = %s, the weight of the order", request.model, weight)
    progress = taste.progress
    if weight is None or _is_interrupted(order):
        progress = msgspec.structs.replace(progress, stopped="interrupted")
    if weight is None:
        warn("interrupted before order_weight was chosen; it is 0, and the model the taste alone")
    if not weight:
        return replace(taste, progress=progress)
    regularization = order.problem.penalty.regularization
    factors = joined(taste.factors, order.factors, weight, regularization, sequences.table)
    return replace(taste, factors=factors, progress=progress)


def has_followers(table: UserItems) -> bool:
    """Whether any user has two records."""
    return bool((table.user_counts() > 1).any())


def _of_order(request: Request) -> Request:
    """What the fit of the order is asked for.

    It begins at random rows. What follows what may be a line or a circle of items, along which no
    direction is stronger than others: singular vectors lead away from it.
    """
    return replace(
        request,
        model=f"{request.model}, what follows",
        weighting="count",
        order=False,
        half_life=None,
        content=Content(),
        random_start=True,
    )


def _alone(options: FitOptions) -> FitOptions:
    """The options of a fit of the order: what is known of users and items is for the taste."""
    checkpoint = options.checkpoint
    return replace(
        options,
        callback=None,
        callbacks=(),
        user_features=None,
        item_features=None,
        dislikes=None,
        validation=None,
        metric=None,
        patience=None,
        checkpoint=None if checkpoint is None else _file_of_order(checkpoint),
    )


def clear_checkpoint_of_order(options: FitOptions) -> None:
    """Remove what an earlier fit left, before one begins that does not go on from it."""
    if options.checkpoint is not None and not options.resume:
        path = _file_of_order(options.checkpoint)
        CheckpointFile(path, "").check_overwrite()
        Path(path).unlink(missing_ok=True)


def _file_of_order(checkpoint: str | os.PathLike[str]) -> str:
    return f"{os.fspath(checkpoint)}.order"


# ------------------------------------------------------------------------ the weight of the order


def _search_weight(
    request: Request,
    sequences: Sequences,
    options: FitOptions,
    taste: FitResult,
    order: FitResult,
) -> float | None:
    """The ω with which records that were not trained on are ranked best; None after Ctrl-C."""
    held_out = sequences.validation
    if held_out is not None:
        return best_weight(
            _judge(taste.factors, order.factors, sequences.table, held_out, taste.problem, options)
        )
    epochs = _epochs_in_time(options, taste.problem, order.problem)
    if epochs < _LEAST_EPOCHS:
        warn(
            f"time_limit={options.time_limit:g} leaves too little time to choose order_weight; "
            f"{_USUAL:g} is taken. Give more time, or order_weight="
        )
        return _USUAL
    last = hold_out_last(sequences.table)
    part, held_out = sequences.take(~last), sequences.table.take(last)
    if np.count_nonzero(held_out.user_counts()) < _LEAST_USERS or not has_followers(part.table):
        warn(
            f"order_weight is 0, as fewer than {_LEAST_USERS} users have three records or more, "
            "by which it could be chosen; give order_weight= to have the order count"
        )
        return 0.0
    with Workers(request.num_threads) as workers, Interrupt("step") as interrupt:
        taste_factors = _short_fit(
            request, sequences.table, part.table, taste, epochs, workers, interrupt
        )
        order_factors = _short_fit(
            _of_order(request),
            sequences.followers(request.seed),
            part.followers(request.seed),
            order,
            epochs,
            workers,
            interrupt,
        )
        if interrupt.is_set():
            return None
    return best_weight(
        _judge(taste_factors, order_factors, part.table, held_out, taste.problem, options)
    )


def _epochs_in_time(options: FitOptions, *problems: Problem) -> int:
    """Half the epochs of a fit, or as many as the time allows."""
    half = max(_LEAST_EPOCHS, problems[0].epochs // 2)
    if options.time_limit is None:
        return half
    seconds = sum(epoch_seconds(problem) or 0.0 for problem in problems)
    return min(half, int(options.seconds_left() / max(seconds, 1e-9)))


def _short_fit(
    request: Request,
    whole: UserItems,
    part: UserItems,
    fitted: FitResult,
    epochs: int,
    workers: Workers,
    interrupt: Interrupt,
) -> Factors:
    """A fit of some epochs to a part of a table, under the λ of the whole, or up to Ctrl-C."""
    problem = settle_by_table(request, part)
    scale = scale_of_table(request.exponents, part, whole, whole)
    penalty = replace(problem.penalty, regularization=fitted.problem.penalty.regularization / scale)
    problem = replace(problem, penalty=penalty, epochs=epochs)
    solver = make_solver(problem, part, start_of(problem, part), workers)
    for _ in run_epochs(solver, Epochs(epochs), interrupt.is_set):
        if interrupt.is_set():
            break
    return solver.factors().on_host()


def _judge(
    taste: Factors,
    order: Factors,
    table: UserItems,
    held_out: UserItems,
    problem: Problem,
    options: FitOptions,
) -> Callable[[float], Floats64]:
    """A function that gives the metric of each user for an ω."""
    most = max(_LEAST_USERS, min(_MOST_USERS, _MOST_CELLS // table.n_items))
    group = Group.of(table, held_out, np.arange(table.n_items), most, problem.seed)
    sample = replace(group, users=np.arange(len(group.users), dtype=np.int32))
    of_sample = Factors(Side(taste.users.rows[group.users]), Side(taste.items.rows))
    taken = table.rows(group.users)

    def values(weight: float) -> Floats64:
        factors = joined(of_sample, order, weight, 1.0, taken)
        return sample.values(factors, options.watched, problem)

    return values


def best_weight(values_of: Callable[[float], Floats64]) -> float:
    """The least ω with most of the gain of the best; 0 where none is surely better than that.

    Parameters
    ----------
    values_of : callable
        Gives a metric of each user for an ω.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=400)
    >>> best_weight(lambda w: noise + 0.1 * w * (2 - w)), best_weight(lambda w: noise - w)
    (0.75, 0.0)
    """
    none, *others = (values_of(weight) for weight in _WEIGHTS)
    gains = np.array([(values - none).mean() for values in others])
    best = int(gains.argmax())
    error = (others[best] - none).std() / np.sqrt(len(none))
    if gains[best] <= _ERRORS * error:
        return 0.0
    return _WEIGHTS[1 + int(np.argmax(gains >= _MOST_OF_IT * gains[best]))]
