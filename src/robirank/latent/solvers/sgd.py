"""The paper's stochastic solver: its Algorithm 1, in the strata of its Algorithm 2."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from robirank import _core
from robirank._types import Floats32, Floats64, Ints32, Ints64
from robirank.engine.interface import Engine, Figures, Sizes, never
from robirank.engine.parts import Block, Part
from robirank.engine.strata import share, user_batches
from robirank.latent.solvers.problem import Problem
from robirank.latent.solvers.strata import (
    NO_FIGURES,
    adagrad_schedule,
    cell_size,
    check_limits,
    keep_sums,
    task_rows,
)
from robirank.losses import RHOS, RhoName

_FLAT = 0.5  # typical scores up to here leave all inner sums near those of equal scores


def xi_turns(sizes: Sizes, factors: int, negatives: int) -> int:
    """The number of epochs in which the ξ-step goes round all users.

    With one, the ξ-step follows every pass, as in the paper. It looks at every item for every user,
    a pass at a few items for every record; where the ξ-step costs more than six passes, it is
    spread over so many epochs that it costs no more than that in each.

    Examples
    --------
    >>> small = Sizes(n_users=2, active_users=2, n_items=50, n_records=4)
    >>> large = Sizes(n_users=2, active_users=2, n_items=50_000, n_records=4)
    >>> xi_turns(small, 64, 32), xi_turns(large, 64, 32)
    (1, 16)
    """
    passes = max(1.0, _pass_nanoseconds(sizes, factors, negatives))
    return max(1, int(np.ceil(_xi_nanoseconds(sizes, factors) / (6.0 * passes))))


def epoch_seconds(sizes: Sizes, factors: int, negatives: int) -> float:
    """Processor seconds of an epoch, about: a pass over all records, and a turn of the ξ-step."""
    turn = _xi_nanoseconds(sizes, factors) / xi_turns(sizes, factors, negatives)
    return 1e-9 * (_pass_nanoseconds(sizes, factors, negatives) + turn)


def _xi_nanoseconds(sizes: Sizes, factors: int) -> float:
    """Time of a whole ξ-step, as measured: a score is counted while others are multiplied."""
    return sizes.active_users * sizes.n_items * max(0.9, factors / 43)


def _pass_nanoseconds(sizes: Sizes, factors: int, negatives: int) -> float:
    """Time of a pass over all records, as measured for one sampled item."""
    return sizes.n_records * negatives * (3.0 + factors / 7)


class SgdSolver:
    r"""Sampled updates of U and V, then the ξ-step, epoch after epoch.

    For every record (x, y) an epoch takes ``problem.samples`` items y', half of them uniform, half
    by popularity, each weighted by one over the expected number of its draws, so that

    .. math:: w_{xy} \, \rho'(t_{xy}) \sum_{y'} \sigma_0(\langle U_x, V_y - V_{y'} \rangle)

    is estimated without bias; for ρ = log the slope :math:`\rho'(t_{xy})` is the paper's
    :math:`\xi_{xy} / \ln 2`. The three kinds of rows U_x, V_y and V_y' step along its gradient, by
    row-wise Adagrad.

    The ξ-step computes t_xy over all items. Where that is expensive (see `xi_turns`), the users
    take turns, and the slopes of the others are moved by the mean change of those renewed.

    Parameters
    ----------
    problem : Problem
    engine : Engine
    """

    default_rate: ClassVar[float] = 0.1

    def __init__(self, problem: Problem, engine: Engine) -> None:
        assert problem.rho is not None
        check_limits("sgd", factors=problem.factors, negatives=problem.samples)
        self._engine, self._rho, self._negatives = engine, problem.rho, problem.samples
        self._rate = problem.rate * problem.learning_rate
        self._turns = xi_turns(problem.sizes, problem.factors, problem.samples)
        self._cell_items = cell_size(problem.factors)

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool] = never) -> Figures:
        """One (U,V)-step over all records, then the ξ-step of the users whose turn it is.

        The loss is the exact one of the users renewed, or an estimate without a ξ-step.
        """
        has_xi = self._rho != "identity"
        if number == 0 and has_xi:
            self._first_slopes()
        steps = [
            SgdSteps(
                self._engine.factors,
                self._negatives,
                fade * (2.0 * self._rate),
                fade * self._rate,
                self._cell_items,
                keep,
            )
            for fade, keep in adagrad_schedule(number, epochs, self._engine.n_parts)
        ]
        figures = NO_FIGURES | self._engine.sweep(number, sgd_task, steps, should_stop)
        loss = figures["loss"] / max(1, self._engine.sizes.n_records)
        if has_xi and not should_stop():
            loss = self._renew_slopes(number % self._turns, loss, should_stop)
        return {
            "loss": loss,
            "triples": figures["done"],
            "not_finite": figures["not_finite"],
        }

    def _first_slopes(self) -> None:
        """Where scores are near 0, every other item adds about σ0(0) = 1 to an inner sum."""
        sizes = self._engine.sizes
        squares = self._engine.measure(squares_task, [None])
        area = sizes.n_users * self._engine.factors * sizes.n_items
        if np.sqrt(squares["U"] * squares["V"] / area) > _FLAT:
            self._xi_step(0, 1, never)
        else:
            slope = float(RHOS[self._rho].prime(sizes.n_items - 1.0))
            self._engine.scan(scale_task, [ScaleSettings(slope)])

    def _renew_slopes(self, turn: int, estimate: float, should_stop: Callable[[], bool]) -> float:
        """The ξ-step of a turn; returns the exact mean loss, or else the estimate."""
        figures = self._xi_step(turn, self._turns, should_stop)
        if not figures.get("done"):
            return estimate
        if self._turns > 1:
            factor = float(np.exp(figures["drift"] / figures["done"]))
            self._engine.scan(scale_task, [ScaleSettings(factor, turn, self._turns)])
        return figures["loss"] / figures["done"]

    def _xi_step(self, turn: int, turns: int, should_stop: Callable[[], bool]) -> Figures:
        n = max(len(user_batches(share(users, turn, turns))) for users in self._engine.part_users)
        settings = [XiSettings(turn, turns, batch, self._rho) for batch in range(max(1, n))]
        return self._engine.scan(xi_task, settings, should_stop)


@dataclass(frozen=True)
class SgdSteps:
    """How a sub-step of the (U,V)-step moves."""

    factors: int
    negatives: int
    rate_u: float
    rate_v: float
    cell_items: int
    keep: float = 1.0


def sgd_task(part: Part, block: Block, position: Ints32, steps: SgdSteps, key: int) -> Figures:
    """Visit once every record of the part whose item lies in the block."""
    keep_sums(part, block, steps.keep)
    draws, loss, not_finite = _core.sgd_task(
        **task_rows(part, block, position, part.slope),
        popularity=block.popularity,
        steps=_core.SgdSteps(
            factors=steps.factors,
            negatives=steps.negatives,
            rate_u=steps.rate_u,
            rate_v=steps.rate_v,
            cell_items=steps.cell_items,
        ),
        key=key,
    )
    return {"done": draws, "loss": loss, "not_finite": not_finite}


def squares_task(
    part: Part,
    blocks: Iterable[Block],
    position: Ints32,  # noqa: ARG001
    settings: None,  # noqa: ARG001
) -> Figures:
    """The sums of squares of a part of U and of the block of V with its number."""
    block = next(iter(blocks))
    return {"U": _squares(part.U), "V": _squares(block.V)}


def _squares(rows: Floats32) -> float:
    return float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))


@dataclass(frozen=True)
class XiSettings:
    """Which users of a part the ξ-step renews: a batch of those whose turn it is."""

    turn: int
    turns: int
    batch: int
    rho: RhoName


def xi_task(part: Part, blocks: Iterable[Block], position: Ints32, settings: XiSettings) -> Figures:
    r"""The ξ-step of some users: set the slopes of their records from the exact inner sums.

    .. math:: t_{xy} = \sum_{y' \ne y} \sigma_0(s_{xy} - s_{xy'})

    The blocks of V are gone through twice, once for the scores s_xy of the records and once for the
    sums, so that all of V need never be in one place.

    Returns the number of records renewed ("done"), "loss" = Σ weight · ρ(t), and "drift" =
    Σ log(new slope / old slope).
    """
    own = user_batches(share(len(part.users), settings.turn, settings.turns))
    if settings.batch >= len(own):
        return {"done": 0, "loss": 0.0, "drift": 0.0}
    users = own[settings.batch]
    indptr, records = part.records_of(users)
    scores = np.empty(records.stop - records.start, dtype=np.float32)
    own_records = _core.Records(indptr=indptr, items=part.items[records], n_items=len(position))
    for block in blocks:
        _core.record_scores(
            U=part.U[users],
            V=block.V,
            records=own_records,
            position=position,
            first=block.first,
            out=scores,
        )
    t = _inner_sums(part.U[users], blocks, indptr, scores)
    rho = RHOS[settings.rho]
    slope, loss = rho.prime(t), rho.value(t)
    if part.weight is not None:
        slope *= part.weight[records]
        loss *= part.weight[records]
    old = part.slope[records]
    moved = np.log(slope, where=old > 0, out=np.zeros_like(t))
    moved -= np.log(old, where=old > 0, out=np.zeros_like(old))
    part.slope[records] = slope
    return {"done": len(t), "loss": float(loss.sum()), "drift": float(moved.sum())}


def _inner_sums(U: Floats32, blocks: Iterable[Block], indptr: Ints64, scores: Floats32) -> Floats64:
    active = np.flatnonzero(np.diff(indptr))
    sums = _core.InnerSums(U[active], np.append(indptr[active], len(scores)), scores)
    for block in blocks:
        sums.add(block.V)
    return np.maximum(sums.sums() - 1.0, 0.0)  # without the term of y itself, σ0(0) = 1


@dataclass(frozen=True)
class ScaleSettings:
    """A factor for slopes: of all users, or of those whose turn it is not."""

    factor: float
    turn: int = 0
    turns: int = 0


def scale_task(
    part: Part,
    blocks: Iterable[Block],  # noqa: ARG001
    position: Ints32,  # noqa: ARG001
    settings: ScaleSettings,
) -> Figures:
    """Multiply slopes by a factor."""
    factor = np.float32(settings.factor)
    if not settings.turns:
        part.slope *= factor
        return {}
    _, records = part.records_of(share(len(part.users), settings.turn, settings.turns))
    part.slope[: records.start] *= factor
    part.slope[records.stop :] *= factor
    return {}
