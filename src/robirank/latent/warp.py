"""WARP, the loss of WSABIE: the paper's baseline for latent collaborative retrieval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from robirank._checks import check_count, check_positive
from robirank._types import Floats32
from robirank._workers import Workers
from robirank.data.user_items import UserItems, Weighting
from robirank.engine.config import RayConfig
from robirank.latent.base import LatentModel
from robirank.latent.factors.content import check_content
from robirank.latent.factors.factors import Factors, Side
from robirank.latent.solvers.in_memory import StrataInMemory
from robirank.latent.solvers.warp import WarpSolver
from robirank.latent.train.loop import Epochs, run_epochs
from robirank.latent.train.request import Request, check_factors
from robirank.latent.tune.settle import settle_by_table
from robirank.registry import register

_FOLD_IN_EPOCHS = 50


@register
class WARP(LatentModel):
    r"""Weighted approximate-rank pairwise loss (WSABIE), with the same care as `LatentRoBiRank`.

    For an interaction (x, y), items that x does not have are sampled until one violates the margin,
    :math:`⟨U_x, V_{y'}⟩ > ⟨U_x, V_y⟩ - 1`. If that took N trials, the rank of y is estimated as
    ⌊(|Y| − 1) / N⌋, and a gradient step on the hinge loss has the weight
    :math:`Φ(r) = \sum_{k \le r} 1/k`.

    Parameters
    ----------
    factors : int, default=64
    regularization : float, optional
        λ of the penalty, weighted by rows as in `LatentRoBiRank`. Default:
        `robirank.latent.tune.settle.default_regularization`.
    iterations : int, default=64
        Passes over the interactions.
    learning_rate : float, default=0.1
        Of V in row-wise Adagrad; U gets twice as much. It falls to zero over the iterations.
    max_trials : int, default=100
        Items to sample for an interaction, at most.
    weighting : {"binary", "log", "count"}, default="binary"
        What counts mean, as in `LatentRoBiRank`.
    parts : int, default=8
        Into how many parts users and items are cut; it changes the result, the number of threads
        does not.
    content : (float, float, float), optional
        The weights of content scores, as in `LatentRoBiRank`; by default those of a rule.
    engine : "local", "ray" or RayConfig, default="local"
        Where it runs, as in `LatentRoBiRank`.
    random_state : int, RandomState or None, default=None
    num_threads : int, default=0
        0: every core.

    Attributes
    ----------
    user_factors, item_factors : float32 arrays
        U and V.
    regularization_, n_iter_, best_iter_, history_
        As in `LatentRoBiRank`.

    References
    ----------
    Weston, Bengio, Usunier: WSABIE: Scaling Up to Large Vocabulary Image Annotation. IJCAI 2011.

    Examples
    --------
    >>> from robirank import WARP, make_interactions
    >>> data = make_interactions(200, 100, 3000, random_state=0)
    >>> model = WARP(factors=8, iterations=5, random_state=0).fit(data, show_progress=False)
    >>> model.recommend([0, 1], data.matrix[:2], N=3)[0].shape
    (2, 3)
    """

    def __init__(
        self,
        factors: int = 64,
        *,
        regularization: float | None = None,
        iterations: int = 64,
        learning_rate: float = 0.1,
        max_trials: int = 100,
        weighting: Weighting = "binary",
        parts: int = 8,
        content: tuple[float, float, float] | None = None,
        engine: Literal["local", "ray"] | RayConfig = "local",
        random_state: Any = None,
        num_threads: int = 0,
    ) -> None:
        self.factors = factors
        self.regularization = regularization
        self.iterations = iterations
        self.learning_rate = learning_rate
        self.max_trials = max_trials
        self.weighting = weighting
        self.parts = parts
        self.content = content
        self.engine = engine
        self.random_state = random_state
        self.num_threads = num_threads

    def _fold_in(
        self, V: Floats32, interactions: UserItems, centres: Floats32 | None = None
    ) -> Floats32:
        U = np.zeros((interactions.n_users, V.shape[1]), np.float32)
        if centres is not None:
            U[:] = centres
        if not interactions.n_interactions:
            return U
        request = replace(self._request(seed=0), regularization=self.regularization_)
        problem = settle_by_table(request, interactions)
        # Penalised as in the fit: the scale is that of its users, whoever else is folded in here.
        users = replace(problem.penalty.users, scale=self.user_scale_)
        penalty = replace(problem.penalty, users=users)
        problem = replace(problem, penalty=penalty)
        with Workers(self.num_threads) as workers:
            start = Factors(Side(U), Side(V))
            solver = StrataInMemory(
                WarpSolver, problem, interactions, start, workers, freeze_items=True
            )
            if centres is not None:
                solver.pull_to(centres, None)
            for _ in run_epochs(solver, Epochs(_FOLD_IN_EPOCHS)):
                pass
            rows: Floats32 = solver.factors().users.rows
            return rows

    def _request(self, seed: int) -> Request:
        check_factors(self.factors)
        if self.regularization is not None:
            check_positive("regularization", self.regularization)
        check_positive("learning_rate", self.learning_rate)
        for name in ("iterations", "max_trials", "parts"):
            check_count(name, getattr(self, name))
        return Request(
            model=type(self).__name__,
            solver="warp",
            factors=int(self.factors),
            epochs=int(self.iterations),
            seed=seed,
            params=self.get_params(deep=False),
            rho=None,
            regularization=self.regularization,
            learning_rate=self.learning_rate,
            samples=int(self.max_trials),
            weighting=self.weighting,
            parts=int(self.parts),
            num_threads=int(self.num_threads),
            engine=self.engine,
            content=None if self.content is None else check_content(self.content),
        )
