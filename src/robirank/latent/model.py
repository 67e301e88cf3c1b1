"""LatentRoBiRank: the paper's latent collaborative retrieval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from robirank._checks import check_choice, check_count, check_positive
from robirank._types import Floats32, Floats64, Ints64
from robirank.data.user_items import UserItems, Weighting
from robirank.engine.config import RayConfig
from robirank.errors import ArgumentError
from robirank.latent.base import LatentModel
from robirank.latent.factors.content import check_content
from robirank.latent.factors.order import taste_of
from robirank.latent.gpu.resolve import resolve_device
from robirank.latent.solvers import ON_DEVICE, robirank_solvers
from robirank.latent.solvers.fold_in import fold_in
from robirank.latent.solvers.objective import objective
from robirank.latent.solvers.problem import EXPONENTS, RowWeights
from robirank.latent.train.request import Request, check_factors
from robirank.latent.tune.settle import settle_by_table
from robirank.latent.tune.width import USUAL
from robirank.losses import RHOS, RhoName
from robirank.registry import register


@register
class LatentRoBiRank(LatentModel):
    r"""RoBiRank from implicit feedback: users and items as points, ranked by inner products.

    Minimises the paper's objective

    .. math::
        \sum_{(x,y) \in Ω} w_{xy}\, ρ\Bigl(\sum_{y' \ne y} σ_0(⟨U_x, V_y⟩ - ⟨U_x, V_{y'}⟩)\Bigr)
        + \frac{λ}{2} \Bigl(\sum_x a_x ‖U_x‖² + \sum_y b_y ‖V_y‖²\Bigr)

    with :math:`σ_0(t) = \log_2(1 + 2^{-t})`. ρ = log₂(1 + t) makes an interaction count the less
    the worse it is ranked, so the top of the list decides. The weights of the penalty grow with a
    row's number of interactions, by default :math:`a_x ∝ n_x^{1/2}` and :math:`b_y ∝ n_y^{0.85}`,
    each scaled to add up to :math:`\sum w_{xy}`.

    Parameters
    ----------
    factors : int or "auto", default=64
        Length d of the factors. On large tables 128 rank 1 to 5 % better, and 256 1 to 8 %; a fit
        takes in proportion longer, and so does an answer. With "auto" the exact solver
        takes as many as the table can use, 64 to 256, by its singular values
        (`robirank.latent.tune.width`), within a ``time_limit`` as many as there is time for; other
        solvers take 64. ``item_factors.shape[1]`` says how many there are.
    solver : {"auto", "exact", "sgd"}, default="auto"
        "exact" sums over all items in every step, without sampling; "sgd" is the paper's
        Algorithm 1 with sampled items and exact ξ-steps. "auto" takes "exact" where an epoch of it
        costs up to about a minute on two cores (6·users·items·factors ≤ 1e13 or so) and "sgd"
        beyond; with a ``time_limit``, "exact" where a search for λ and four epochs fit into it, by
        the speed of this machine. ``solver_`` says which.
    rho : {"log", "identity", "type2"}, default="log"
        RoBiRank, the identity loss (the paper's baseline), or the bound that is tight to DCG
        (which learns little from a random start, as the paper predicts, so take "exact", which has
        a better one).
    regularization : float, optional
        λ. By default the program chooses it, because the best one differs between tables by a
        factor of four and the wrong one costs dearly. "exact" trains about 13 epochs under a
        falling λ, of large tables on a sample of the users, and takes the one that ranks held-out
        interactions best (`robirank.latent.tune.path`);
        "sgd", a table of fewer than about 10,000 interactions and a fit without time for it take
        `robirank.latent.tune.settle.default_regularization`, which needs the numbers of
        interactions of rows and columns alone. ``regularization_`` says what was taken;
        `LatentRoBiRankCV` looks more closely.
    user_exponent, item_exponent : float, default=0.5, 0.85
        How the weights a and b grow with the interactions of a row.
    iterations : int, optional
        Epochs. Default: 16 for "exact", 64 for "sgd".
    learning_rate : float, optional
        Of V. Default: 0.07 for "exact" (Adam; U takes steps of Newton's), less with the root of the
        factors beyond 64; 0.1 for "sgd" (row-wise Adagrad, and twice as much for U). It falls to
        zero over the iterations.
    weighting : {"binary", "log", "count"}, default="binary"
        What w_xy is: one as in the paper, log2(1 + count), or the count.
    negatives : int, default=128
        Items that "sgd" samples for an interaction.
    parts : int, default=8
        Into how many parts "sgd" cuts users and items: as many threads can work side by side.
        Unlike the number of threads it changes the result. `Partitions` have their own number.
    order : bool, default=False
        Whether to learn from the order of a user's records too, what follows what, by a second pair
        of rows for each item (`robirank.latent.factors.order`). `fit` then needs `Interactions`
        with times, and `recommend_for` takes a list as the order in which its items were taken.
    order_weight : float, optional
        ω, how much the order counts beside the taste; 0: not at all. By default it is chosen by the
        last records of users, on which two further fits of half the epochs are not trained; it is 0
        where these do not show that the order says something. ``order_weight_`` says which.
    half_life : float or str, optional
        The age at which a record weighs half in the loss, counted from the latest record of the
        table. Where times are dates: text, a number of minutes, hours, days or weeks such as "30d";
        where they are numbers, a number in their unit. By default all weigh the same.
    content : (float, float, float), optional
        Where `fit` is given features of items: the weights of content scores for items with many
        interactions and for items without, and the scale of the latter's scores
        (`robirank.latent.factors.content`). By default "exact" looks for them on held-out items and
        interactions, and "sgd" takes a rule; (0, 0, 1) stands for none.
    engine : "local", "ray" or RayConfig, default="local"
        Where "sgd" runs: on threads of this process, or on the workers of a Ray cluster. The result
        has the same bits. "ray" takes the cluster that this process is connected to or that
        ``RAY_ADDRESS`` names, or starts one on this machine; a `RayConfig` says more, and keeps
        checkpoints.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where "exact" trains, and where items are ranked and new users folded in. "cuda" needs a
        card and ``robirank[gpu]``; "auto" takes a card where both are there. The kernels give the
        same bits for one seed on the same kind of card, and round otherwise than the CPU. Files
        know no device.
    random_state : int, RandomState or None, default=None
        Decides everything; the same seed gives the same bits for any number of threads.
    num_threads : int, default=0
        0: every core.

    Attributes
    ----------
    user_factors, item_factors : float32 arrays
        U and V; with ``order`` both have as many columns again, for what comes next.
    regularization_ : float
        λ.
    order_weight_ : float
        ω; 0 for a model that does not look at the order.
    noise_level_ : float
        The noise of the table, on λ's scale; see `robirank.latent.tune.settle.noise_level`. When
        `partial_fit` gets a table that has grown, a λ that the program chose grows with it.
    solver_ : str
        The solver that was used.
    n_iter_ : int
        Epochs done.
    best_iter_ : int
        The epoch whose factors were kept.
    history_ : list of dict
        Epoch, seconds, loss and perhaps the validation metric.
    user_ids_, item_ids_ : Ids
        Outside ids, where the model was fitted to `Interactions`.
    user_centres_, item_centres_ : Centres or None
        What features say of the factors, where `fit` was given features.

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

    def __init__(
        self,
        factors: int | Literal["auto"] = 64,
        *,
        solver: Literal["auto", "exact", "sgd"] | str = "auto",
        rho: RhoName = "log",
        regularization: float | None = None,
        user_exponent: float = EXPONENTS[0],
        item_exponent: float = EXPONENTS[1],
        iterations: int | None = None,
        learning_rate: float | None = None,
        weighting: Weighting = "binary",
        negatives: int = 128,
        parts: int = 8,
        order: bool = False,
        order_weight: float | None = None,
        half_life: float | str | None = None,
        content: tuple[float, float, float] | None = None,
        engine: Literal["local", "ray"] | RayConfig = "local",
        device: Literal["cpu", "cuda", "auto"] = "cpu",
        random_state: Any = None,
        num_threads: int = 0,
    ) -> None:
        self.factors = factors
        self.solver = solver
        self.rho = rho
        self.regularization = regularization
        self.user_exponent = user_exponent
        self.item_exponent = item_exponent
        self.iterations = iterations
        self.learning_rate = learning_rate
        self.weighting = weighting
        self.negatives = negatives
        self.parts = parts
        self.order = order
        self.order_weight = order_weight
        self.half_life = half_life
        self.content = content
        self.engine = engine
        self.device = device
        self.random_state = random_state
        self.num_threads = num_threads

    @property
    def order_weight_(self) -> float:
        """ω, how much the order counts beside the taste; 0: not at all."""
        self._check_fitted()
        leads = self.factors_.items.leads
        return 0.0 if leads is None else leads.weight

    def objective(self, user_items: Any) -> float:
        """The true loss of the factors on a table, every item in every inner sum, and the penalty.

        Of a model with features there is none: what rows were pulled to changed during the fit.

        Parameters
        ----------
        user_items : sparse matrix or Interactions
            Of the model's users and items.
        """
        self._check_fitted()
        if self.factors_.users.disliked is not None:
            raise ArgumentError(
                "user_items",
                "has no objective here under a model with dislikes; fit one without to compare",
            )
        if self._has_features():
            raise ArgumentError(
                "user_items",
                "has no objective under a model with features, whose penalty changed from epoch to "
                "epoch; fit a model without features to compare values",
            )
        interactions = self._table(user_items)
        shape = (len(self.user_factors), len(self.item_factors))
        if interactions.shape != shape:
            raise ArgumentError(
                "user_items",
                f"must have the model's shape {shape}; it has {interactions.shape}",
            )
        return objective(
            taste_of(self.factors_),
            interactions,
            rho=self.rho,
            penalty=settle_by_table(
                replace(self._request(seed=0), regularization=self.regularization_), interactions
            ).penalty,
            num_threads=int(self.num_threads),
        )

    def solver_for(self, n_users: int, n_items: int) -> str:
        """The solver that `fit` takes for a table of that shape."""
        return self._request(seed=0).solver_for(n_users, n_items)

    def _fold_in(
        self, V: Floats32, interactions: UserItems, centres: Floats32 | None = None
    ) -> Floats32:
        return fold_in(
            V,
            interactions,
            rho=self.rho,
            penalty=self._user_penalty(interactions.user_counts()),
            centres=centres,
            num_threads=int(self.num_threads),
            device=resolve_device(self.device),
        )

    def _user_penalty(self, counts: Ints64) -> Floats64:
        """The penalty weights λ a of users with these numbers of interactions."""
        return RowWeights(self.user_exponent, self.user_scale_).of(counts, self.regularization_)

    def _request(self, seed: int) -> Request:
        check_factors(self.factors, or_auto=True)
        check_choice("solver", self.solver, ("auto", *robirank_solvers()))
        check_choice("rho", self.rho, RHOS)
        for name in ("regularization", "learning_rate"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        for name in ("negatives", "parts"):
            check_count(name, getattr(self, name))
        if self.iterations is not None:
            check_count("iterations", self.iterations)
        if self.order_weight is not None and self.order_weight != 0:
            check_positive("order_weight", self.order_weight)
        if self.engine != "local":
            for name in ("order", "half_life"):
                if getattr(self, name):
                    raise ArgumentError(
                        name, f"must be left out on a cluster; got {getattr(self, name)!r}"
                    )
        for name in ("user_exponent", "item_exponent"):
            check_positive(name, getattr(self, name), at_most=1.0)
        return Request(
            model=type(self).__name__,
            solver=self.solver,
            factors=USUAL if self.factors == "auto" else int(self.factors),
            epochs=None if self.iterations is None else int(self.iterations),
            seed=seed,
            params=self.get_params(deep=False),
            rho=self.rho,
            regularization=self.regularization,
            learning_rate=self.learning_rate,
            samples=int(self.negatives),
            exponents=(float(self.user_exponent), float(self.item_exponent)),
            weighting=self.weighting,
            parts=int(self.parts),
            num_threads=int(self.num_threads),
            engine=self.engine,
            device=self._training_device(),
            content=None if self.content is None else check_content(self.content),
            order=bool(self.order) and self.order_weight != 0,
            order_weight=self.order_weight,
            half_life=self.half_life,
            counts_factors=self.factors == "auto",
        )

    def _training_device(self) -> str:
        """The device of the fit; "auto" is the CPU where no card could train."""
        if self.device == "cpu":
            return "cpu"
        if self.device == "auto" and (self.engine != "local" or self.solver not in ON_DEVICE):
            return "cpu"
        return resolve_device(self.device)
