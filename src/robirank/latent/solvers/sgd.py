"""The paper's stochastic solver: its Algorithm 1, in the strata of its Algorithm 2."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from robirank import _core
from robirank._types import Floats32, Floats64, Ints32, Ints64
from robirank.engine.interface import Engine, Figures, Sizes, never, task
from robirank.engine.state import Block, Part, StateArray, weights
from robirank.engine.strata import share, user_batches
from robirank.latent.solvers.problem import Problem
from robirank.latent.solvers.strata import (
    CHANGED,
    NO_FIGURES,
    PENALTY,
    AnyCentreRows,
    StartRows,
    adagrad_schedule,
    cell_size,
    check_limits,
    factor_arrays,
    keep_sums,
    task_rows,
)
from robirank.losses import RHOS, RhoName

_FLAT = 0.5  # typical scores up to here leave all inner sums near those of equal scores


def xi_turns(sizes: Sizes, factors: int, negatives: int) -> int:
    """The number of epochs in which the ξ-step goes round all users.

    With one, the ξ-step follows every pass, as in the paper. It looks at every item for every user,
    a pass at a few items for every interaction; where the ξ-step costs more than six passes, it is
    spread over so many epochs that it costs no more than that in each.

    Examples
    --------
    >>> small = Sizes(n_users=2, active_users=2, n_items=50, n_interactions=4)
    >>> large = Sizes(n_users=2, active_users=2, n_items=50_000, n_interactions=4)
    >>> xi_turns(small, 64, 32), xi_turns(large, 64, 32)
    (1, 16)
    """
    passes = max(1.0, _pass_nanoseconds(sizes, factors, negatives))
    return max(1, int(np.ceil(_xi_nanoseconds(sizes, factors) / (6.0 * passes))))


def epoch_seconds(sizes: Sizes, factors: int, negatives: int) -> float:
    """Processor seconds of an epoch, about: a pass over all interactions, a turn of the ξ-step."""
    turn = _xi_nanoseconds(sizes, factors) / xi_turns(sizes, factors, negatives)
    return 1e-9 * (_pass_nanoseconds(sizes, factors, negatives) + turn)


def _xi_nanoseconds(sizes: Sizes, factors: int) -> float:
    """Time of a whole ξ-step, as measured: a score is counted while others are multiplied."""
    return sizes.active_users * sizes.n_items * max(0.9, factors / 43)


def _pass_nanoseconds(sizes: Sizes, factors: int, negatives: int) -> float:
    """Time of a pass over all interactions, as measured for one sampled item."""
    return sizes.n_interactions * negatives * (3.0 + factors / 7)


class SgdSolver:
    r"""Sampled updates of U and V, then the ξ-step, epoch after epoch.

    For every interaction (x, y) an epoch takes ``problem.samples`` items y', half of them uniform,
    half by popularity, each weighted by one over the expected number of its draws, so that

    .. math:: w_{xy} \, \rho'(t_{xy}) \sum_{y'} \sigma_0(\langle U_x, V_y - V_{y'} \rangle)

    is estimated without bias; for ρ = log the factor :math:`\rho'(t_{xy})` is the paper's
    :math:`\xi_{xy} / \ln 2`. The three kinds of rows U_x, V_y and V_y' step along its gradient, by
    row-wise Adagrad.

    The ξ-step computes t_xy over all items. Where that is expensive (see `xi_turns`), the users
    take turns, and the ρ-weights of the others are moved by the mean change of those renewed.

    Parameters
    ----------
    problem : Problem
    engine : Engine
    """

    @staticmethod
    def arrays(problem: Problem, start: StartRows) -> list[StateArray]:
        """Those of `factor_arrays`, and the ρ-weight of each interaction."""
        return [*factor_arrays(problem, start), StateArray("rho_weight", "interaction", weights)]

    def __init__(self, problem: Problem, engine: Engine) -> None:
        assert problem.rho is not None
        check_limits("sgd", factors=problem.factors, negatives=problem.samples)
        self._engine, self._rho, self._negatives = engine, problem.rho, problem.samples
        self._factors = problem.factors
        self._rate = problem.rate * problem.learning_rate
        self._turns = xi_turns(problem.sizes, problem.factors, problem.samples)
        self._cell_items = cell_size(problem.factors)
        self._centres: AnyCentreRows | None = None

    def pull_to(self, centres: AnyCentreRows) -> None:
        """Go on with a penalty that pulls rows to these centres."""
        self._centres = centres

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool] = never) -> Figures:
        """One (U,V)-step over all interactions, then the ξ-step of the users whose turn it is.

        The loss is the exact one of the users renewed, or an estimate without a ξ-step.
        """
        has_xi = self._rho != "identity"
        if number == 0 and has_xi:
            self._first_rho_weights()
        steps = [
            SgdSteps(
                self._factors,
                self._negatives,
                fade * (2.0 * self._rate),
                fade * self._rate,
                self._cell_items,
                keep,
                self._centres,
            )
            for fade, keep in adagrad_schedule(number, epochs, self._engine.n_parts)
        ]
        figures = NO_FIGURES | self._engine.sweep(number, sgd_task, steps, should_stop)
        loss = figures["loss"] / max(1, self._engine.sizes.n_interactions)
        if has_xi and not should_stop():
            loss = self._renew_rho_weights(number % self._turns, loss, should_stop)
        return {
            "loss": loss,
            "triples": figures["done"],
            "not_finite": figures["not_finite"],
        }

    def _first_rho_weights(self) -> None:
        """Where scores are near 0, every other item adds about σ0(0) = 1 to an inner sum."""
        sizes = self._engine.sizes
        squares = self._engine.scan(squares_task, [None])
        area = sizes.n_users * self._factors * sizes.n_items
        if np.sqrt(squares["U"] * squares["V"] / area) > _FLAT:
            self._xi_step(0, 1, never)
        else:
            flat = float(RHOS[self._rho].prime(sizes.n_items - 1.0))
            self._engine.scan(scale_task, [ScaleSettings(flat)])

    def _renew_rho_weights(
        self, turn: int, estimate: float, should_stop: Callable[[], bool]
    ) -> float:
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
    centres: AnyCentreRows | None = None


@task(reads=[*PENALTY, "item_counts", "rho_weight"], changes=CHANGED)
def sgd_task(part: Part, block: Block, position: Ints32, steps: SgdSteps, key: int) -> Figures:
    """Visit once every interaction of the part whose item lies in the block."""
    keep_sums(part, block, steps.keep)
    draws, loss, not_finite = _core.sgd_task(
        **task_rows(part, block, position, part["rho_weight"], steps.centres),
        popularity=block["item_counts"],
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


@task(reads=["U", "V"])
def squares_task(
    part: Part,
    blocks: Iterable[Block],
    position: Ints32,  # noqa: ARG001
    settings: None,  # noqa: ARG001
) -> Figures:
    """The sums of squares of a part of U and of the block of V with its number."""
    block = next(iter(blocks))
    return {"U": _squares(part["U"]), "V": _squares(block["V"])}


def _squares(rows: Floats32) -> float:
    return float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))


@dataclass(frozen=True)
class XiSettings:
    """Which users of a part the ξ-step renews: a batch of those whose turn it is."""

    turn: int
    turns: int
    batch: int
    rho: RhoName


@task(reads=["U", "V"], changes=["rho_weight"])
def xi_task(part: Part, blocks: Iterable[Block], position: Ints32, settings: XiSettings) -> Figures:
    r"""The ξ-step of some users: set the ρ-weights of their interactions from exact inner sums.

    .. math:: t_{xy} = \sum_{y' \ne y} \sigma_0(s_{xy} - s_{xy'})

    The blocks of V are gone through twice, once for the scores s_xy of the interactions and once
    for the sums, so that all of V need never be in one place.

    Returns the number of interactions renewed ("done"), "loss" = Σ w · ρ(t), and "drift" =
    Σ log(new ρ-weight / old ρ-weight).
    """
    batches = user_batches(share(len(part.users), settings.turn, settings.turns))
    if settings.batch >= len(batches):
        return {"done": 0, "loss": 0.0, "drift": 0.0}
    users = batches[settings.batch]
    indptr, where = part.interactions_of(users)
    weight, U = part.interactions.weight, part["U"][users]
    scores = np.empty(where.stop - where.start, dtype=np.float32)
    user_items = _core.UserItems(
        indptr=indptr, items=part.interactions.items[where], n_items=len(position)
    )
    for block in blocks:
        _core.interaction_scores(
            U=U,
            V=block["V"],
            user_items=user_items,
            position=position,
            first=block.first,
            out=scores,
        )
    t = _inner_sums(U, blocks, indptr, scores)
    rho = RHOS[settings.rho]
    rho_weight, loss = rho.prime(t), rho.value(t)
    if weight is not None:
        rho_weight *= weight[where]
        loss *= weight[where]
    old = part["rho_weight"][where]
    drift = np.log(rho_weight, where=old > 0, out=np.zeros_like(t))
    drift -= np.log(old, where=old > 0, out=np.zeros_like(old))
    part["rho_weight"][where] = rho_weight
    return {"done": len(t), "loss": float(loss.sum()), "drift": float(drift.sum())}


def _inner_sums(U: Floats32, blocks: Iterable[Block], indptr: Ints64, scores: Floats32) -> Floats64:
    active = np.flatnonzero(np.diff(indptr))
    sums = _core.InnerSums(U[active], np.append(indptr[active], len(scores)), scores)
    for block in blocks:
        sums.add(block["V"])
    return np.maximum(sums.sums() - 1.0, 0.0)  # without the term of y itself, σ0(0) = 1


@dataclass(frozen=True)
class ScaleSettings:
    """A factor for ρ-weights: of all users, or of those whose turn it is not."""

    factor: float
    turn: int = 0
    turns: int = 0


@task(changes=["rho_weight"])
def scale_task(
    part: Part,
    blocks: Iterable[Block],  # noqa: ARG001
    position: Ints32,  # noqa: ARG001
    settings: ScaleSettings,
) -> Figures:
    """Multiply ρ-weights by a factor."""
    factor, rho_weight = np.float32(settings.factor), part["rho_weight"]
    if not settings.turns:
        rho_weight *= factor
        return {}
    _, renewed = part.interactions_of(share(len(part.users), settings.turn, settings.turns))
    rho_weight[: renewed.start] *= factor
    rho_weight[renewed.stop :] *= factor
    return {}
