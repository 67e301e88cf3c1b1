r"""Factors for users that the model has not seen: each user's own small problem, solved.

With V fixed the loss of a user is a function of d numbers,

.. math:: f(u) = \sum_y w_y\, \rho\Bigl(\sum_{y' \ne y} \sigma_0(u·V_y - u·V_{y'})\Bigr)
          + \tfrac{λ a}{2} ‖u - c‖²

where c is what the user's features say, and zero without features. With ξ fixed it is convex; ξ
follows u here, so that L-BFGS goes down the true loss from u = c to where its gradient vanishes.
All users of a batch take their steps together: one product gives the scores of all, another sends
the gradient back, and each user has a line search of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from robirank._threads import threads_for
from robirank._types import Floats32, Floats64, Ints64
from robirank._workers import Workers
from robirank.data.user_items import UserItems
from robirank.latent.factors.dislikes import raise_disliked
from robirank.latent.solvers.exact import Products, score_rows, users_that_fit
from robirank.losses import RhoName
from robirank.objectives.listwise import gradients_in_place

_MEMORY = 8  # pairs that L-BFGS remembers
_MOST_USERS = 512
_MOST_STEPS = 200
_TOLERANCE = 1e-4  # of the gradient's length, beside that at the start
_ENOUGH = 1e-4  # of the fall that the gradient promises


def fold_in(
    V: Floats32,
    interactions: UserItems,
    *,
    rho: RhoName,
    penalty: Floats64,
    centres: Floats32 | None = None,
    num_threads: int = 0,
    device: str = "cpu",
) -> Floats32:
    """Solve for the factors of every user of the interactions; without any, they are the centre.

    Parameters
    ----------
    V : array of shape (n_items, factors)
    interactions : UserItems
    rho : str
    penalty : array of shape (n_users,)
        The penalty weight λ a of each user.
    centres : array of shape (n_users, factors), optional
        The row that the penalty pulls each user to; zeros by default.
    num_threads : int, default=0
        0: every core.
    device : "cpu" or "cuda"

    Returns
    -------
    float32 array of shape (n_users, factors)
    """
    U = np.zeros((interactions.n_users, V.shape[1]), np.float32)
    if centres is not None:
        U[:] = centres
    users = np.flatnonzero(interactions.user_counts() > 0)
    work = min(len(users), _MOST_USERS) * V.size
    with Workers(threads_for(work, num_threads)) as workers:
        losses, size = _losses(V, interactions, rho, workers, device)
        for begin in range(0, len(users), size):
            batch = users[begin : begin + size]
            centre = U[batch].astype(np.float64)
            U[batch] = _minimise(_Problem(losses, penalty[batch], centre, batch), centre)
    return U


class _Losses(Protocol):
    def losses(self, u: Floats64, users: Ints64) -> tuple[Floats64, Floats64]:
        """Losses and gradients of some users, without the penalty."""


def _losses(
    V: Floats32, interactions: UserItems, rho: RhoName, workers: Workers, device: str
) -> tuple[_Losses, int]:
    """What computes the losses of users, and how many of them at a time."""
    if device == "cpu" or interactions.disliked is not None:
        size = min(_MOST_USERS, users_that_fit(interactions.n_items))
        return _NativeLosses(
            Products(V, workers), interactions, rho, workers.num_threads, size
        ), size
    from robirank.latent.solvers.fold_in_on_card import DeviceProblem

    problem = DeviceProblem(V, interactions, rho)
    return problem, problem.batch


@dataclass
class _NativeLosses:
    products: Products
    interactions: UserItems
    rho: RhoName
    num_threads: int
    most_users: int
    _scores: Floats32 = field(init=False)

    def __post_init__(self) -> None:
        self._scores = score_rows(self.most_users, self.interactions.n_items)

    def losses(self, u: Floats64, users: Ints64) -> tuple[Floats64, Floats64]:
        scores = self._scores[: len(users)]
        self.products.scores(u.astype(np.float32), scores)
        raise_disliked(scores, self.interactions, users)
        interactions = self.interactions.of_users(users)
        losses = gradients_in_place(
            scores, *interactions, rho=self.rho, num_threads=self.num_threads
        )
        return losses, self.products.back_to_users(scores).astype(np.float64)


@dataclass
class _Problem:
    """The losses of a batch of users with the penalty, and their gradients."""

    losses: _Losses
    penalty: Floats64
    centre: Floats64
    users: Ints64

    def at(self, u: Floats64, active: Ints64) -> tuple[Floats64, Floats64]:
        """Losses and gradients of some users of the batch."""
        losses, gradient = self.losses.losses(u, self.users[active])
        penalty, away = self.penalty[active], u - self.centre[active]
        losses += 0.5 * penalty * np.einsum("ij,ij->i", away, away)
        return losses, gradient + penalty[:, None] * away


@dataclass
class _History:
    """The last steps s and changes of gradient y of every user, newest last."""

    steps: list[Floats64] = field(default_factory=list)
    changes: list[Floats64] = field(default_factory=list)

    def direction(self, gradient: Floats64, rows: Ints64) -> Floats64:
        """−H g by the two loops of L-BFGS, for all users; a pair without curvature is left out."""
        q = gradient.copy()
        pairs = [(s[rows], y[rows]) for s, y in zip(self.steps, self.changes, strict=True)]
        curvature = [np.einsum("ij,ij->i", s, y) for s, y in pairs]
        inverse = [np.divide(1.0, c, out=np.zeros_like(c), where=c > 1e-12) for c in curvature]
        alphas = []
        for (s, y), r in zip(pairs[::-1], inverse[::-1], strict=True):
            alphas.append(r * np.einsum("ij,ij->i", s, q))
            q -= alphas[-1][:, None] * y
        if pairs:
            s, y = pairs[-1]
            squares = np.einsum("ij,ij->i", y, y)
            usable = (curvature[-1] > 1e-12) & (squares > 0)
            q *= np.divide(curvature[-1], squares, out=np.ones_like(squares), where=usable)[:, None]
        for (s, y), r, alpha in zip(pairs, inverse, alphas[::-1], strict=True):
            q += (alpha - r * np.einsum("ij,ij->i", y, q))[:, None] * s
        return -q

    def remember(self, step: Floats64, change: Floats64) -> None:
        self.steps.append(step)
        self.changes.append(change)
        if len(self.steps) > _MEMORY:
            del self.steps[0], self.changes[0]


def _minimise(problem: _Problem, start: Floats64) -> Floats64:
    u = start.copy()
    active = np.arange(len(u))
    value, gradient = problem.at(u, active)
    goal = _TOLERANCE * np.linalg.norm(gradient, axis=1)
    history = _History()
    for _ in range(_MOST_STEPS):
        active = active[np.linalg.norm(gradient[active], axis=1) > goal[active]]
        if not len(active):
            break
        direction = history.direction(gradient[active], active)
        if not history.steps:  # the first step is as long as one unit
            direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        moved = _search(problem, u, value, gradient, active, direction, history)
        active = active[moved]
    return u


def _search(
    problem: _Problem,
    u: Floats64,
    value: Floats64,
    gradient: Floats64,
    active: Ints64,
    direction: Floats64,
    history: _History,
) -> NDArray[np.bool_]:
    """Halve each user's step until the loss falls enough; returns who moved."""
    promised = np.einsum("ij,ij->i", gradient[active], direction)
    uphill = promised >= 0
    direction[uphill] = -gradient[active[uphill]]
    promised[uphill] = -np.einsum("ij,ij->i", gradient[active[uphill]], gradient[active[uphill]])
    length = np.ones(len(active))
    left = np.arange(len(active))
    moved = np.zeros(len(active), bool)
    step, change = np.zeros_like(u), np.zeros_like(u)
    for _ in range(30):
        rows = active[left]
        trial = u[rows] + length[left, None] * direction[left]
        trial_value, trial_gradient = problem.at(trial, rows)
        good = trial_value <= value[rows] + _ENOUGH * length[left] * promised[left]
        done = rows[good]
        step[done], change[done] = trial[good] - u[done], trial_gradient[good] - gradient[done]
        u[done], value[done], gradient[done] = trial[good], trial_value[good], trial_gradient[good]
        moved[left[good]] = True
        left = left[~good]
        if not len(left):
            break
        length[left] *= 0.5
    history.remember(step, change)
    return moved
