"""LatentRoBiRank: the paper's latent collaborative retrieval."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from robirank._checks import check_choice, check_count
from robirank._workers import Workers
from robirank.engine.decay import Decay
from robirank.engine.interface import Engine
from robirank.engine.ray import RayEngine
from robirank.latent.base import Histogram, LatentModel
from robirank.latent.checks import check_engine, check_rate
from robirank.latent.objective import objective
from robirank.latent.penalty import USER_EXPONENT
from robirank.latent.records import Records, Weighting, as_records
from robirank.latent.retrieve.fold_in import fold_in
from robirank.latent.solvers.exact import ExactSolver
from robirank.latent.solvers.products import Floats
from robirank.latent.solvers.sgd import SgdSolver
from robirank.latent.solvers.stratified import StratifiedSolver
from robirank.latent.training import Solver
from robirank.losses import RHOS
from robirank.registry import register

__all__ = ["LatentRoBiRank"]

#: Floating-point operations of an epoch up to which "auto" takes the exact solver: about a minute
#: on two cores.
EXACT_LIMIT = 1e13
_KERNEL_FLOPS = 200  # what the listwise kernel costs an item, counted as if it were a product

#: Step sizes of V where none is asked for.
RATES = {"exact": 0.02, "sgd": 0.1}

SolverName = Literal["auto", "exact", "sgd"]


@register
class LatentRoBiRank(LatentModel):
    r"""RoBiRank from implicit feedback: users and items as points, ranked by inner products.

    Minimises the paper's objective

    .. math::
        \sum_{(x,y) \in Ω} w_{xy}\, ρ\Bigl(\sum_{y' \ne y} σ_0(⟨U_x, V_y⟩ - ⟨U_x, V_{y'}⟩)\Bigr)
        + \frac{λ}{2} \Bigl(\sum_x a_x ‖U_x‖² + \sum_y b_y ‖V_y‖²\Bigr)

    with :math:`σ_0(t) = \log_2(1 + 2^{-t})`. ρ = log₂(1 + t) makes a record count the less the
    worse it is ranked, so the top of the list decides. The weights of the penalty grow with a
    row's number of records, :math:`a_x ∝ n_x^{1/2}` and :math:`b_y ∝ n_y^{0.85}`, each scaled to
    add up to |Ω|.

    Parameters
    ----------
    factors : int, default=64
        Length d of the factors.
    solver : {"auto", "exact", "sgd"}, default="auto"
        "exact" sums over all items in every step, without sampling; "sgd" is the paper's
        Algorithm 1 with sampled items and exact ξ-steps. "auto" takes "exact" where an epoch of it
        costs up to about a minute on two cores (6·users·items·factors ≤ 1e13 or so) and "sgd"
        beyond; ``solver_`` says which.
    rho : {"log", "identity", "type2"}, default="log"
        RoBiRank, the identity loss (the paper's baseline), or the bound that is tight to DCG
        (which hardly learns from a random start, as the paper predicts).
    regularization : float, optional
        λ. Default: 0.21 (factors / 64)^0.07, and 1.5 √n_items for the identity loss, whose slopes
        are so much larger. Chosen on Gowalla's validation part.
    iterations : int, optional
        Epochs. Default: 64.
    learning_rate : float, optional
        Of V. Default: 0.02 for "exact" (Adam), 0.1 for "sgd" (row-wise Adagrad, and twice as much
        for U). It falls to zero over the iterations.
    weighting : {"binary", "log", "count"}, default="binary"
        What w_xy is: one as in the paper, log2(1 + count), or the count.
    negatives : int, default=128
        Items that "sgd" samples for a record.
    literal : bool, default=False
        Follow the paper's pseudocode to the letter in "sgd" and leave V_y' alone; its gradient is
        then wrong.
    parts : int, default=8
        Into how many parts "sgd" cuts users and items: as many threads can work side by side.
        Unlike the number of threads it changes the result. `Partitions` have their own number.
    engine : "local", "ray" or RayEngine, default="local"
        Where "sgd" runs: on threads of this process, or on the workers of a Ray cluster. The result
        has the same bits. "ray" takes the cluster that this process is connected to or that
        ``RAY_ADDRESS`` names, or starts one on this machine; a `RayEngine` says more, and keeps
        checkpoints.
    random_state : int, RandomState or None, default=None
        Decides everything; the same seed gives the same bits for any number of threads.
    num_threads : int, default=0
        0: every core.

    Attributes
    ----------
    user_factors, item_factors : float32 arrays
        U and V.
    solver_ : str
        The solver that was used.
    n_iter_ : int
        Epochs done.
    best_iter_ : int
        The epoch whose factors were kept.
    history_ : list of dict
        Epoch, seconds, loss and perhaps the validation measure.
    user_ids_, item_ids_ : Ids
        Outside ids, where the model was fitted to `Interactions`.

    References
    ----------
    Yun, Raman, Vishwanathan: Ranking via Robust Binary Classification. NeurIPS 2014, section 4.

    Examples
    --------
    >>> from robirank import LatentRoBiRank, make_interactions
    >>> data = make_interactions(200, 100, 3000, random_state=0)
    >>> model = LatentRoBiRank(factors=8, random_state=0).fit(data, show_progress=False)
    >>> ids, scores = model.recommend(0, data.matrix[0], N=3)
    >>> ids.shape, model.solver_
    ((3,), 'exact')
    """

    fitted_parts = LatentModel.fitted_parts.plus(numbers={"solver_": str, "user_scale_": float})

    solver_: str
    user_scale_: float

    def __init__(
        self,
        factors: int = 64,
        *,
        solver: SolverName = "auto",
        rho: Literal["log", "identity", "type2"] = "log",
        regularization: float | None = None,
        iterations: int | None = None,
        learning_rate: float | None = None,
        weighting: Weighting = "binary",
        negatives: int = 128,
        literal: bool = False,
        parts: int = 8,
        engine: Literal["local", "ray"] | RayEngine = "local",
        random_state: Any = None,
        num_threads: int = 0,
    ) -> None:
        self.factors = factors
        self.solver = solver
        self.rho = rho
        self.regularization = regularization
        self.iterations = iterations
        self.learning_rate = learning_rate
        self.weighting = weighting
        self.negatives = negatives
        self.literal = literal
        self.parts = parts
        self.engine = engine
        self.random_state = random_state
        self.num_threads = num_threads

    def objective(self, user_items: Any) -> float:
        """The true loss of the factors on a table, every item in every inner sum, and the penalty.

        Parameters
        ----------
        user_items : sparse matrix or Interactions
            Of the model's users and items.
        """
        self._check_fitted()
        records = as_records(user_items, self.weighting)
        shape = (len(self.user_factors), len(self.item_factors))
        if (records.n_users, records.n_items) != shape:
            raise ValueError(
                f"user_items must have the model's shape {shape}; it has "
                f"{(records.n_users, records.n_items)}"
            )
        return objective(
            self.user_factors,
            self.item_factors,
            records,
            rho=self.rho,
            reg=self._reg(records.n_items),
            n_threads=self.n_threads,
        )

    def _fold_in(self, records: Records) -> Floats:
        decay = Decay(self._reg(records.n_items), USER_EXPONENT, self.user_scale_)
        return fold_in(
            self.item_factors[: records.n_items],
            records,
            rho=self.rho,
            decay=decay.weights(records.user_counts()),
            n_threads=self.n_threads,
        )

    def _check_params(self) -> None:
        check_choice("solver", self.solver, ("auto", "exact", "sgd"))
        check_choice("rho", self.rho, ("log", "identity", "type2"))
        check_engine(self.engine, self.solver)
        check_rate("regularization", self.regularization)
        check_rate("learning_rate", self.learning_rate)
        check_count("negatives", self.negatives)
        check_count("parts", self.parts)
        if self.iterations is not None:
            check_count("iterations", self.iterations)

    def _reg(self, n_items: int) -> float:
        if self.regularization is not None:
            return self.regularization
        if self.rho == "identity":
            return 1.5 * float(np.sqrt(n_items))
        return 0.21 * (self.factors / 64) ** 0.07

    def _epochs(self) -> int:
        return self.iterations or 64

    def _solver_name(self, records: Records) -> str:
        if self.solver != "auto":
            return self.solver
        pairs = records.n_users * records.n_items
        work = pairs * (6.0 * self.factors + _KERNEL_FLOPS)
        return "exact" if work <= EXACT_LIMIT else "sgd"

    def _solver(
        self,
        records: Records,
        U: Floats,
        V: Floats,
        seed: int,
        epochs: int,
        rate: float,
        workers: Workers,
    ) -> Solver:
        if self._solver_name(records) == "sgd":
            return super()._solver(records, U, V, seed, epochs, rate, workers)
        return ExactSolver(
            records,
            U,
            V,
            rho=self.rho,
            reg=self._reg(records.n_items),
            learning_rate=rate * (self.learning_rate or RATES["exact"]),
            user_rate=rate * 0.3,
            epochs=epochs,
            seed=seed,
            workers=workers,
        )

    def _on_engine(self, engine: Engine, epochs: int, rate: float) -> StratifiedSolver:
        step = rate * (self.learning_rate or RATES["sgd"])
        return SgdSolver(
            engine,
            rho=self.rho,
            learning_rate=step,
            user_rate=2.0 * step,
            epochs=epochs,
            negatives=self.negatives,
            literal=self.literal,
        )

    def _advice(self) -> str:
        rate = "its default" if self.learning_rate is None else f"{self.learning_rate:g}"
        return f"Lower learning_rate (it is {rate}; try a tenth), or raise regularization"

    def _idle_loss(self, n_items: int, mean_weight: float) -> float:
        return mean_weight * float(RHOS[self.rho].value(n_items - 1.0))

    def _learned(self, solver: str, lengths: Histogram) -> None:
        self.solver_ = solver
        self.user_scale_ = Decay.scaled(1.0, USER_EXPONENT, *lengths).scale
