"""The exact solver: the gradient over all items, no sampling.

A step takes a batch of users X. Their scores S = U_X Vᵀ are one matrix product; the listwise kernel
turns S into the loss and G = d loss / d S in O(items) a user (the grid); two more products send it
back,

    d loss / d U_X = G V,      d loss / d V = Gᵀ U_X.

The gradient of a user has no noise, so U_X takes a step of Newton's (see
`robirank.latent.solvers.user_steps`), and with up to 64 factors the items see it at once: d loss /
d V is taken with the new U_X. Every item gets a gradient in every step, a noisy one, so V gets
Adam. Items are cut into ranges that threads share: a range's scores, its gradient and its Adam step
touch no other range, and the partial sums of G V are added in the ranges' order, so the bits do not
depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank._types import Floats32, Floats64, Ints64
from robirank._workers import Workers
from robirank.data.user_items import UserItems
from robirank.engine.interface import Figures, never
from robirank.engine.state import Arrays
from robirank.latent.factors.dislikes import raise_disliked
from robirank.latent.factors.factors import Factors
from robirank.latent.solvers.problem import Penalty, Problem
from robirank.latent.solvers.user_steps import StepSettings, UserSteps
from robirank.objectives.listwise import gradients_in_place

_MOST_USERS = 512  # in a batch
B1, B2 = 0.9, 0.99  # how much of its averages a step of Adam on V keeps
BATCH_BYTES = 256 << 20  # of scores held at a time
_RANGES = 64  # at most
_RANGE_ITEMS = 2048  # at least
_LINE = 16  # float32 numbers in a cache line


def batch_users(n_users: int, n_items: int, factors: int) -> int:
    """The number of users of a step, by that of steps an epoch; at most 512 users and 256 MB."""
    steps = StepSettings.of(factors).steps
    return int(np.clip(n_users // steps, 8, min(_MOST_USERS, users_that_fit(n_items))))


def rate_share(epochs_done: float, epochs: int) -> float:
    """The share of the learning rate that is left: it falls to zero by half a cosine.

    Examples
    --------
    >>> rate_share(0, 8), round(rate_share(4, 8), 3), rate_share(9, 8)
    (1.0, 0.5, 0.0)
    """
    return float(0.5 * (1.0 + np.cos(np.pi * min(epochs_done / epochs, 1.0))))


class EpochSchedule(NamedTuple):
    """The steps of an epoch, which the solver on the CPU and the one on a card share.

    Attributes
    ----------
    order : int64 array
        The users in the order of the epoch, at random; step i takes the i-th batch of them.
    rates : list of float
        The share of the learning rate that is left in each step.
    """

    order: Ints64
    rates: list[float]

    @classmethod
    def of(cls, users: Ints64, batch: int, seed: int, number: int, epochs: int) -> EpochSchedule:
        """The schedule of epoch ``number`` of ``epochs``, in batches of users."""
        order = np.random.default_rng([seed, number]).permutation(users)
        steps = -(-len(users) // batch)
        rates = [rate_share(number + i / steps, epochs) for i in range(steps)]
        return cls(order, rates)


class ExactSolver:
    """State and steps of the exact solver.

    Parameters
    ----------
    problem : Problem
    interactions : UserItems
    start : Factors
        Its rows are changed in place.
    workers : Workers
    """

    def __init__(
        self, problem: Problem, interactions: UserItems, start: Factors, workers: Workers
    ) -> None:
        assert problem.rho is not None
        self._factors, self.U, self.V = start, start.users.rows, start.items.rows
        self._interactions, self._rho, self._seed = interactions, problem.rho, problem.seed
        self._rate = problem.rate * problem.learning_rate
        self._workers = workers
        self.products = Products(self.V, workers)
        self.penalize(problem.penalty)
        self._users = np.flatnonzero(interactions.user_counts() > 0)
        self._batch = batch_users(len(self._users), interactions.n_items, problem.factors)
        self._step_number = 0
        self._user_steps = UserSteps(interactions, problem.rho, problem.factors)
        self._first, self._second = np.zeros_like(self.V), np.zeros_like(self.V)
        self._scores = score_rows(self._batch, interactions.n_items)
        self._user_centres: Floats32 | None = None
        self._item_centres: Floats32 | None = None

    def pull_to(self, user_centres: Floats32 | None, item_centres: Floats32 | None) -> None:
        """Go on with a penalty that pulls rows to these centres; None stands for zero."""
        self._user_centres, self._item_centres = user_centres, item_centres

    def penalize(self, penalty: Penalty) -> None:
        """Go on under a penalty."""
        self._user_penalty = penalty.user_weights(self._interactions.user_counts())
        self._item_penalty = penalty.item_weights(self._interactions.item_counts())

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool] = never) -> Figures:
        """One pass over the users; returns the mean loss of an interaction, without the penalty.

        The mean of the first step, before anything moved, is there as "start". The rate falls to
        zero over the epochs, by half a cosine.
        """
        schedule = EpochSchedule.of(self._users, self._batch, self._seed, number, epochs)
        counts = self._interactions.user_counts()
        loss, seen, first = 0.0, 0, 0.0
        for i, rate in enumerate(schedule.rates):
            users = np.sort(schedule.order[i * self._batch : (i + 1) * self._batch])
            self._user_steps.renew(self.V, i, self._step_number)
            loss += self._step(users, rate)
            seen += int(counts[users].sum())
            first = first if i else loss / seen
            if not np.isfinite(loss) or should_stop():
                break
        return {"loss": loss / max(1, seen), "start": first}

    def _step(self, users: Ints64, rate: float) -> float:
        """One step on a batch of users; returns the sum of their losses."""
        U, scores = self.U[users], self._scores[: len(users)]
        self.products.scores(U, scores)
        raise_disliked(scores, self._interactions, users)
        losses = gradients_in_place(
            scores,
            *self._interactions.of_users(users),
            rho=self._rho,
            num_threads=self._workers.num_threads,
        )  # the scores are now the gradient by them
        U = self._update_users(users, U, self.products.back_to_users(scores), losses)
        self._step_number += 1
        share = len(users) / max(1, len(self._users))
        self._workers.map(
            lambda items: self._update_items(U, items, scores, rate, share), self.products.ranges
        )
        return float(losses.sum())

    def _update_users(
        self, users: Ints64, U: Floats32, gradient: Floats32, losses: Floats64
    ) -> Floats32:
        """One step of Newton's on rows of U; returns those that the items are stepped with."""
        penalty, centres = self._user_penalty[users], self._user_centres
        with np.errstate(over="ignore", invalid="ignore"):  # the loop reports divergence
            gradient += penalty[:, None] * (U if centres is None else U - centres[users])
            step = self._user_steps.of(users, gradient, losses, penalty)
            self.U[users] = U - step
            seen: Floats32 = U - np.float32(self._user_steps.settings.seen) * step
        return seen

    def _update_items(
        self, U: Floats32, items: slice, by_scores: Floats32, rate: float, share: float
    ) -> None:
        """One step of Adam on a range of items."""
        n, centres = self._step_number, self._item_centres
        _core.adam(
            self.V[items],
            first=self._first[items],
            second=self._second[items],
            gradient=self.products.product(by_scores[:, items].T, U),
            penalty=self._item_penalty[items] * np.float32(share),
            centre=None if centres is None else centres[items],
            rate=self._rate * rate / (1.0 - B1**n),
            b1=B1,
            b2=B2,
            correction=1.0 / (1.0 - B2**n),
        )

    def factors(self) -> Factors:
        """The factors as they stand."""
        return self._factors

    def state(self) -> Arrays:
        """Everything that a later start needs to go on with the same bits."""
        return {
            "U": self.U,
            "V": self.V,
            "first": self._first,
            "second": self._second,
            "steps": np.array([self._step_number], np.int64),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from a state that `state` gave."""
        self.U[:], self.V[:] = state["U"], state["V"]
        self._first[:], self._second[:] = state["first"], state["second"]
        self._step_number = int(state["steps"][0])


# ------------------------------------------------------------------------ matrix products


def users_that_fit(n_items: int) -> int:
    """The number of users whose scores fit into the memory for a batch; at least one."""
    return max(1, BATCH_BYTES // (4 * n_items))


def score_rows(n_users: int, n_items: int) -> Floats32:
    """Memory for the scores of a batch of users, uninitialised.

    Rows lie an odd number of cache lines apart: at a power of two they share a few places of the
    cache, and a product takes a quarter longer.

    Examples
    --------
    >>> score_rows(2, 64).strides
    (320, 4)
    """
    stride = (-(-n_items // _LINE) | 1) * _LINE
    return np.empty((n_users, stride), np.float32)[:, :n_items]


class Products:
    """The products of a batch of users with all items, range by range.

    Ranges depend on the number of items alone, and partial sums are added in the ranges' order:
    the number of threads changes no bit.
    """

    def __init__(self, V: Floats32, workers: Workers) -> None:
        self.V = V
        self._workers = workers
        self.ranges = _item_ranges(len(V))

    def scores(self, U: Floats32, out: Floats32) -> None:
        """Compute the scores S = U Vᵀ."""
        self._workers.map(
            lambda items: self.product(U, self.V[items].T, out[:, items]), self.ranges
        )

    def back_to_users(self, gradient: Floats32) -> Floats32:
        """The gradient by users, G V."""
        parts = self._workers.map(
            lambda items: self.product(gradient[:, items], self.V[items]), self.ranges
        )
        return sum_in_order(parts)

    def product(self, a: NDArray[Any], b: NDArray[Any], out: Floats32 | None = None) -> Floats32:
        """A product a b, on this thread."""
        with np.errstate(over="ignore", invalid="ignore"):  # the loop reports divergence
            result: Floats32 = np.matmul(a, b, out=out)
        return result


def sum_in_order(parts: list[Floats32]) -> Floats32:
    """The sum of arrays, in their order; the first one is changed."""
    for part in parts[1:]:
        parts[0] += part
    return parts[0]


def _item_ranges(n_items: int) -> list[slice]:
    count = int(np.clip(n_items // _RANGE_ITEMS, 1, _RANGES))
    edges = np.linspace(0, n_items, count + 1).astype(int)
    return [slice(a, b) for a, b in pairwise(edges.tolist())]
