"""LatentRoBiRankCV: the penalty of a latent model, and more, chosen on held-out interactions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

from sklearn.base import BaseEstimator, clone

from robirank._checks import check_count
from robirank.data.features import Features
from robirank.data.user_items import UserItems, as_user_items
from robirank.errors import ArgumentError
from robirank.latent.base import LatentModel
from robirank.latent.factors.list_metrics import check_metric
from robirank.latent.model import LatentRoBiRank
from robirank.latent.train.local import with_features
from robirank.latent.train.request import DEFAULT_METRIC
from robirank.latent.tune.search import PenaltySearch
from robirank.storage.checkpoint_file import CheckpointFile

_OF_TABLE = ("weighting", "half_life", "order", "order_weight")


class LatentRoBiRankCV(BaseEstimator):
    """A latent model whose λ is chosen on held-out interactions, and that is then fitted to all.

    A tenth of each user's interactions is held out. One training run under a falling λ
    (`robirank.latent.tune.path`) shows where the best one lies, with no more than 64 factors unless
    ``grid`` compares their numbers, solvers or step sizes. Three fits around it or more (side by
    side on a card), and a parabola through their values say it closely. Together with the last fit,
    to all interactions, that takes about as long as five. Where ``grid`` names several settings,
    each has a run under a falling λ of its own, and the best of them goes on.

    Parameters
    ----------
    estimator : LatentRoBiRank or WARP, optional
        What is fitted, with its other parameters. Default: ``LatentRoBiRank()``.
    grid : dict from str to list, optional
        Other parameters of the estimator to choose, as in scikit-learn's ``GridSearchCV``:
        ``{"factors": [64, 128], "user_exponent": [0.5, 1.0], "iterations": [16, 32]}``. What the
        estimator says of weighting, half_life and order holds for all.
    metric : str, default="ndcg@20"
        The metric on the held-out interactions.
    cv : int, sparse matrix or Interactions, default=1
        How many times interactions are held out, each time others; the values are averaged. A
        table says which interactions are held out instead, such as a validation part.
    sample_users : int, default=50000
        Of a table with more users, so many are searched on; what is found is scaled to the whole.

    Attributes
    ----------
    best_estimator_ : LatentRoBiRank or WARP
        Fitted to all interactions: the model that recommends, is evaluated and is saved.
    best_params_ : dict
        What was chosen, ``regularization`` first; with ``factors="auto"`` their number too.
    best_score_ : float
        The metric on the held-out interactions.
    cv_results_ : dict of lists
        Everything that was tried, one place in each list: kind ("path" or "fit"), split,
        regularization, value, seconds, and the parameters of ``grid``. A path may have fewer
        factors than a fit, and its values are those of a falling λ. With features, also the metric
        of "old" users and items, of "new_items" and of "new_users", where such were held
        out (None where the fit diverged); the value of a fit is their mean, that of a path the
        metric of the old ones. Weights of content scores that the estimator has are not searched.

    Examples
    --------
    >>> import robirank as rr
    >>> data = rr.make_interactions(300, 100, 6000, random_state=0)
    >>> model = rr.LatentRoBiRank(factors=8, iterations=8, random_state=0)
    >>> search = rr.LatentRoBiRankCV(model).fit(data, show_progress=False)
    >>> 0.05 < search.best_params_["regularization"] < 0.5
    True
    >>> search.best_estimator_.recommend([0, 1], data.matrix[:2], N=3)[0].shape
    (2, 3)
    """

    def __init__(
        self,
        estimator: LatentModel | None = None,
        *,
        grid: Mapping[str, Sequence[Any]] | None = None,
        metric: str = DEFAULT_METRIC,
        cv: Any = 1,
        sample_users: int = 50_000,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.metric = metric
        self.cv = cv
        self.sample_users = sample_users

    def fit(
        self,
        user_items: Any,
        show_progress: bool = True,
        *,
        user_features: Features | None = None,
        item_features: Features | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Search, and fit the best model to all interactions.

        Parameters
        ----------
        user_items : sparse matrix or Interactions
        show_progress : bool, default=True
            Print a line for each run and fit, and the progress of the last one.
        user_features, item_features : Features, optional
            What is known of users and items, as in `LatentRoBiRank.fit`. Whole users and items are
            then held out beside interactions.
        checkpoint : path, optional
            Keep the last fit here, as the models do, and what was tried in a file of that name
            with ``.search`` after it.
        resume : bool, default=False
            Go on with what these files hold.

        Returns
        -------
        self
        """
        options: dict[str, Any] = {
            "user_features": user_features,
            "item_features": item_features,
            "checkpoint": checkpoint,
            "resume": resume,
        }
        chosen = self.search(user_items, show_progress, **options)
        self.best_estimator_ = self._base().set_params(**chosen)
        self.best_estimator_.fit(user_items, show_progress=show_progress, **options)
        return self

    def search(
        self,
        user_items: Any,
        show_progress: bool = True,
        *,
        user_features: Features | None = None,
        item_features: Features | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> dict[str, Any]:
        """Search alone, without the last fit: sets ``cv_results_``, returns ``best_params_``."""
        base = self._base()
        self._check(base)
        if checkpoint is not None and base.random_state is None:
            raise ArgumentError(
                "checkpoint", "needs a random_state: without one no fit is like another"
            )
        log_path = None if checkpoint is None else f"{os.fspath(checkpoint)}.search"
        if checkpoint is not None and not resume:  # before the search, for the fit after it
            CheckpointFile(checkpoint, "").check_overwrite()
        interactions = with_features(
            clone(base).request().table(user_items), user_features, item_features
        )
        if not interactions.n_interactions:
            raise ArgumentError(
                "user_items", "holds no interaction, so there is nothing to search on"
            )
        search = PenaltySearch(
            lambda params: replace(clone(base).set_params(**params).request(), regularization=None),
            interactions,
            grid=self._grid(base),
            metric=self.metric,
            cv=self._held_out(user_items, interactions),
            users=self.sample_users,
            log_path=log_path,
            resume=resume,
            show=show_progress,
        )
        self.best_params_, self.best_score_ = search.run()
        self.cv_results_ = search.results(sorted(self.grid or {}))
        return self.best_params_

    def _held_out(self, user_items: Any, interactions: UserItems) -> int | UserItems:
        """How many times interactions are held out, or which; features may add users and items."""
        if isinstance(self.cv, Integral):
            return int(self.cv)
        held_out = as_user_items(self.cv, name="cv")
        same_shape = held_out.shape == user_items.shape
        return held_out.extended(*interactions.shape) if same_shape else held_out

    def _base(self) -> Any:
        return clone(self.estimator or LatentRoBiRank())

    def _grid(self, base: Any) -> dict[str, list[Any]]:
        iterations = {"iterations": [base.get_params()["iterations"]]}
        return iterations | {name: list(values) for name, values in (self.grid or {}).items()}

    def _check(self, base: Any) -> None:
        if not isinstance(base, LatentModel):
            raise TypeError(f"estimator must be a LatentRoBiRank or a WARP; got {base!r}")
        if base.engine != "local":
            raise ArgumentError("engine", f"must be 'local' in a search; got {base.engine!r}")
        for name, values in (self.grid or {}).items():
            if name in _OF_TABLE:
                raise ArgumentError(
                    "grid",
                    f"may not name {name}, because all that are compared are fitted to one table "
                    "and ranked by taste alone. Give it to the estimator",
                )
            if name == "regularization" or name not in base.get_params():
                allowed = sorted(set(base.get_params()) - {"regularization", *_OF_TABLE})
                raise ArgumentError("grid", f"may name {', '.join(allowed)}; got {name!r}")
            if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
                raise ArgumentError("grid", f"must give a list for {name}; got {values!r}")
        check_metric(self.metric)
        if isinstance(self.cv, Integral) or not hasattr(self.cv, "shape"):
            check_count("cv", self.cv)
        check_count("sample_users", self.sample_users)
