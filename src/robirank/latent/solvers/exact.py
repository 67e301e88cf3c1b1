"""The exact solver: the gradient over all items, no sampling.

A step takes a block of users X. Their scores S = U_X Vᵀ are one matrix product; the listwise kernel
turns S into the loss and G = d loss / d S in O(items) a user (the grid); two more products send it
back,

    d loss / d U_X = G V,      d loss / d V = Gᵀ U_X.

Users are seen once an epoch, so U gets row-wise Adagrad, whose sums forget; every item gets a
gradient in every step, so V gets Adam. Items are cut into ranges that threads share: a range's
scores, its gradient and its Adam step touch no other range, and the partial sums of G V are added
in the ranges' order, so the bits do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from robirank import _core
from robirank._types import Floats32, Ints64
from robirank._workers import Workers
from robirank.data.records import Records
from robirank.engine.interface import Figures, never
from robirank.latent.factors.products import Products, score_rows, sum_in_order, users_that_fit
from robirank.latent.solvers.penalty import Penalty
from robirank.latent.solvers.problem import Problem
from robirank.objectives.listwise import slopes_in_place

STEPS = 60  # an epoch should have about this many
_MOST_USERS = 512  # in a step
B1, B2 = 0.9, 0.99  # of Adam on V
USER_RATE = 0.8  # of Adagrad on U
_MEMORY, _LEAST_MEMORY = 0.1, 0.5  # how far its sums reach back, in shares of all epochs; at least


def block_users(n_users: int, n_items: int) -> int:
    """How many users a step takes: about 60 steps an epoch, at most 512 users and 256 MB."""
    return int(np.clip(n_users // STEPS, 8, min(_MOST_USERS, users_that_fit(n_items))))


def user_memory(epochs: int) -> float:
    """How much of Adagrad's sums on U an epoch keeps.

    They reach back over a tenth of the epochs: what users were like before items had found their
    places should not slow them down at the end.
    """
    return max(_LEAST_MEMORY, 1.0 - 1.0 / (_MEMORY * epochs))


def order_of_users(users: Ints64, seed: int, epoch: int) -> Ints64:
    """The users in the order of an epoch, at random."""
    return np.random.default_rng([seed, epoch]).permutation(users)


def rate_share(epochs_done: float, epochs: int) -> float:
    """The share of the learning rate that is left: it falls to zero by half a cosine.

    Examples
    --------
    >>> rate_share(0, 8), round(rate_share(4, 8), 3), rate_share(9, 8)
    (1.0, 0.5, 0.0)
    """
    return float(0.5 * (1.0 + np.cos(np.pi * min(epochs_done / epochs, 1.0))))


class ExactSolver:
    """State and steps of the exact solver.

    Parameters
    ----------
    problem : Problem
    records : Records
    start : (U, V), float32 arrays
        They are changed in place.
    workers : Workers
    """

    default_rate: ClassVar[float] = 0.05

    def __init__(
        self,
        problem: Problem,
        records: Records,
        start: tuple[Floats32, Floats32],
        workers: Workers,
    ) -> None:
        assert problem.rho is not None
        self.U, self.V = start
        self._records, self._rho, self._seed = records, problem.rho, problem.seed
        self._rate = problem.rate * problem.learning_rate
        self._user_rate = problem.rate * USER_RATE
        self._workers = workers
        self.products = Products(self.V, workers)
        self.penalize(problem.penalty)
        self._users = np.flatnonzero(records.user_counts() > 0)
        self._block = block_users(len(self._users), records.n_items)
        self._step_number = 0
        self._user_sum = np.zeros(len(self.U), np.float32)
        self._first, self._second = np.zeros_like(self.V), np.zeros_like(self.V)
        self._scores = score_rows(self._block, records.n_items)

    def penalize(self, penalty: Penalty) -> None:
        """Go on under a penalty."""
        self._user_decay = penalty.user_weights(self._records.user_counts())
        self._item_decay = penalty.item_weights(self._records.item_counts())

    def epoch(self, number: int, epochs: int, should_stop: Callable[[], bool] = never) -> Figures:
        """One pass over the users; returns the mean loss of a record, without the penalty.

        The mean of the first step's records, before anything moved, is there as "start". The rate
        falls to zero over the epochs, by half a cosine.
        """
        order = order_of_users(self._users, self._seed, number)
        starts = range(0, len(order), self._block)
        loss, seen, first = 0.0, 0, 0.0
        for i, start in enumerate(starts):
            users = np.sort(order[start : start + self._block])
            fade = rate_share(number + i / len(starts), epochs)
            loss += self._step(users, fade, user_memory(epochs))
            seen += int((self._records.indptr[users + 1] - self._records.indptr[users]).sum())
            first = first if i else loss / seen
            if not np.isfinite(loss) or should_stop():
                break
        return {"loss": loss / max(1, seen), "start": first}

    def _step(self, users: Ints64, fade: float, keep: float) -> float:
        U = self.U[users]
        scores = self._scores[: len(users)]
        self.products.scores(U, scores)
        records = self._records.of_users(users)
        threads = self._workers.num_threads
        losses = slopes_in_place(scores, *records, rho=self._rho, num_threads=threads)
        self._step_number += 1
        share = len(users) / max(1, len(self._users))
        slopes = self._workers.map(
            lambda items: self._update_items(U, items, scores, fade, share), self.products.ranges
        )
        self._update_users(users, U, sum_in_order(slopes), fade, keep)
        return float(losses.sum())

    def _update_items(
        self,
        U: Floats32,
        items: slice,
        gradient: Floats32,
        fade: float,
        share: float,
    ) -> Floats32:
        """One step of Adam on a range of items; returns the range's part of d loss / d U."""
        slope = self.products.product(gradient[:, items], self.V[items])
        n = self._step_number
        _core.adam(
            self.V[items],
            first=self._first[items],
            second=self._second[items],
            gradient=self.products.product(gradient[:, items].T, U),
            decay=self._item_decay[items] * np.float32(share),
            rate=self._rate * fade / (1.0 - B1**n),
            b1=B1,
            b2=B2,
            correction=1.0 / (1.0 - B2**n),
        )
        return slope

    def _update_users(
        self,
        users: Ints64,
        U: Floats32,
        slope: Floats32,
        fade: float,
        keep: float,
    ) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # the loop reports divergence
            slope += self._user_decay[users, None] * U
            sums = np.float32(keep) * self._user_sum[users]
            self._user_sum[users] = sums + np.einsum("ij,ij->i", slope, slope) / U.shape[1]
            length = np.sqrt(self._user_sum[users]) + np.float32(1e-8)
            self.U[users] = U - np.float32(self._user_rate * fade) * slope / length[:, None]

    def factors(self) -> tuple[Floats32, Floats32]:
        """U and V."""
        return self.U, self.V

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that a later start needs to go on with the same bits."""
        return {
            "U": self.U,
            "V": self.V,
            "user_sum": self._user_sum,
            "first": self._first,
            "second": self._second,
            "steps": np.array([self._step_number], np.int64),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state that `state` gave."""
        self.U[:], self.V[:] = state["U"], state["V"]
        self._user_sum[:] = state["user_sum"]
        self._first[:], self._second[:] = state["first"], state["second"]
        self._step_number = int(state["steps"][0])
