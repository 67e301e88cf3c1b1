"""What the latent models share: `fit`, `partial_fit` and `fold_in`."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, Self, Unpack, get_args

import numpy as np

from robirank._checks import check_choice, check_count
from robirank._random import as_random_state
from robirank._threads import thread_count
from robirank._types import Floats32, Ints64
from robirank.data.ages import Ages
from robirank.data.feature_rows import FeatureRows
from robirank.data.features import Features
from robirank.data.user_items import UserItems, Weighting, as_user_items
from robirank.engine.config import RayConfig
from robirank.errors import ArgumentError
from robirank.latent.factors.content import Content, UserContent
from robirank.latent.factors.factor_model import FactorModel
from robirank.latent.factors.factors import Queries
from robirank.latent.factors.order import taste_of, taste_width
from robirank.latent.factors.questions import check_same_ids
from robirank.latent.train.go_on import grown, ids_that_go_on, in_order_of
from robirank.latent.train.local import LocalFit
from robirank.latent.train.loop import FitResult
from robirank.latent.train.request import EpochReport, FitKeywords, FitOptions, Request
from robirank.latent.tune.estimate import Estimate, estimate
from robirank.latent.tune.order import (
    TASTE_SHARE,
    Sequences,
    clear_checkpoint_of_order,
    with_order,
)
from robirank.latent.tune.settle import settle, settle_by_table
from robirank.latent.tune.width import widened
from robirank.storage.fitted_parts import FittedArray

_PARTIAL_ITERATIONS = 10
_PARTIAL_RATE = 0.25  # of the rate that a fit starts with


class LatentModel(FactorModel):
    """A factor model that is trained by a solver, epoch after epoch.

    A subclass gives its parameters as a `Request` and solves for single users (`_fold_in`).
    """

    fitted_parts = FactorModel.fitted_parts.plus(
        arrays={"ages_": FittedArray((2,), "F64")},
        numbers={
            "n_iter_": int,
            "best_iter_": int,
            "solver_": str,
            "user_scale_": float,
            "regularization_": float,
            "noise_level_": float,
        },
    )

    factors: int | Literal["auto"]
    regularization: float | None
    weighting: Any
    engine: Any
    random_state: Any

    solver_: str
    user_scale_: float
    regularization_: float
    noise_level_: float

    def fit(
        self,
        user_items: Any,
        show_progress: bool = True,
        callback: Callable[[int, float, float], Any] | None = None,
        *,
        user_features: Features | None = None,
        item_features: Features | None = None,
        dislikes: Any = None,
        validation: Any = None,
        metric: str | None = None,
        patience: int | None = None,
        time_limit: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_minutes: float | None = None,
        resume: bool = False,
        callbacks: Sequence[Callable[[EpochReport], Any]] = (),
    ) -> Self:
        """Fit the factors to a table of who interacted with what.

        Parameters
        ----------
        user_items : sparse matrix of shape (n_users, n_items), Interactions or Partitions
            What is stored and not zero counts as an interaction. A cluster also takes the path or
            URL of Partitions, and cuts other tables into parts first.
        show_progress : bool, default=True
            Show epoch, loss, validation metric, rate and time left on a terminal.
        callback : callable, optional
            Called after every epoch as ``callback(epoch, seconds, loss)``, as implicit does: epochs
            count from 0, the seconds are those of the epoch. If it returns True, training ends.
        user_features, item_features : Features, optional
            What is known of users and items, by their ids (by positions, for a matrix). Rows are
            pulled to what their features say, as far as features explain them; users and items
            without interactions are ranked by their features alone. Features of new ones make
            these part of the model; not all need have any, but some must.
        dislikes : sparse matrix or Interactions, optional
            What the same users took against: a thumb down, a return, a skip. Such an item is never
            an answer for them, and loses more in the sum of the loss than one that was not seen
            (`robirank.latent.factors.dislikes`). For solver "exact" on the CPU.
        validation : sparse matrix or Interactions, optional
            Held-out interactions of the same users and items. The metric is computed about 16
            times during the fit (every epoch with ``patience``), and the model of the best
            epoch is kept. A cluster also takes Partitions that are cut as the training set is.
        metric : str, optional
            What is watched: precision, recall, ndcg, map or hit_rate at some cut-off. Default:
            "ndcg@20".
        patience : int, optional
            End after so many epochs without a better value.
        time_limit : float, optional
            Seconds that the call may take, with the search for λ, which gets at most a third of
            them, and with validation. The number of epochs is cut so that the rate still falls to
            its end within the time, and ``n_iter_`` says how many there were. Where not even one
            epoch fits, it ends early; with a checkpoint, epochs are whole.
        checkpoint : path, optional
            Save everything here every ``checkpoint_minutes`` (default: 10) and at the end.
        resume : bool, default=False
            Go on from the checkpoint if there is one. The result is the same, bit for bit, as
            without the break. A checkpoint of other data or settings is an error. A fit that was
            complete, or that ``patience`` had ended, is not trained further. A `RayConfig` has
            its own checkpoints, in its ``run_dir``.
        callbacks : sequence of callables, optional
            Each is called after every epoch with an `EpochReport`; True ends the training.

        Returns
        -------
        self

        Raises
        ------
        DivergenceError
            If the loss explodes; it says what to change. The model stays as it was.

        Notes
        -----
        Ctrl-C ends the training after the present step (with ``checkpoint``, after the present
        epoch) with a warning, and what was learned so far can be used; a second one gives up at
        once.
        """
        options = FitOptions(
            show_progress=show_progress,
            callback=callback,
            callbacks=callbacks,
            user_features=user_features,
            item_features=item_features,
            dislikes=dislikes,
            validation=validation,
            metric=metric,
            patience=patience,
            time_limit=time_limit,
            checkpoint=checkpoint,
            checkpoint_minutes=checkpoint_minutes,
            resume=resume,
        )
        self._fit(self.request(), user_items, options)
        return self

    def partial_fit(
        self,
        user_items: Any,
        iterations: int = _PARTIAL_ITERATIONS,
        show_progress: bool = False,
        callback: Callable[[int, float, float], Any] | None = None,
        **options: Unpack[FitKeywords],
    ) -> Self:
        """Go on from the present factors with a table that may have new users and items.

        Rows and columns beyond the known ones are new. New users begin where `fold_in` puts them,
        new items near zero, or where their features say. Then come a few epochs over the given
        interactions at a reduced rate; a user without any in the table keeps their factors. A model
        without factors is fitted. Features that the model knows stay; those given here are added,
        or take their place.

        Parameters
        ----------
        user_items : sparse matrix or Interactions
            At least as many rows and columns as the model has users and items. Interactions must
            begin with the ids that the model knows, as `Interactions.extend` makes them; of a
            model with features they may be in any order.
        iterations : int, default=10
        show_progress : bool, default=False
        callback, options
            As in `fit`. A cluster cannot be used.

        Returns
        -------
        self
        """
        unknown = options.keys() - FitKeywords.__annotations__.keys()
        if unknown:
            raise TypeError(f"partial_fit got an unexpected keyword argument {min(unknown)!r}")
        request = self.request()
        if request.engine != "local":
            raise ArgumentError(
                "engine",
                f"must be 'local' in partial_fit; got {self.engine!r}. Call "
                "set_params(engine='local') to go on in this process",
            )
        if getattr(self, "item_factors", None) is None:
            return self.fit(user_items, show_progress, callback, **options)
        validation = options.get("validation")
        if getattr(validation, "shape", None) == getattr(user_items, "shape", None):
            options["validation"] = in_order_of(self.factors_, validation)
        fit_options = FitOptions(show_progress=show_progress, callback=callback, **options)
        width = taste_width(self.factors_.items)
        if request.counts_factors:
            request = replace(request, factors=width, counts_factors=False)
        if request.factors != width:
            raise ArgumentError(
                "factors", f"must be {width}, as the model has; got {request.factors}"
            )
        check_count("iterations", iterations)
        user_items = in_order_of(self.factors_, user_items)
        interactions = as_user_items(user_items, self.weighting)
        n_users, n_items = len(self.user_factors), len(self.item_factors)
        if interactions.n_users < n_users or interactions.n_items < n_items:
            raise ArgumentError(
                "user_items",
                f"must have at least the {n_users} users and {n_items} items that the model knows; "
                f"its shape is {interactions.shape}",
            )
        ids = (
            ids_that_go_on("users", user_items, self.user_ids_, interactions.n_users),
            ids_that_go_on("items", user_items, self.item_ids_, interactions.n_items),
        )
        request = replace(
            request,
            epochs=iterations,
            rate=_PARTIAL_RATE,
            regularization=self._penalty_of(request, interactions),
            content=self._content_weights(),
        )
        before = self.factors_.items.counts
        self._fit(request, user_items, fit_options, go_on=True)
        if self._has_features():
            return self
        counts = self.item_counts_
        if before is not None:  # the table may hold new interactions alone, or all of them
            counts[:n_items] = np.maximum(counts[:n_items], before)
        self.factors_ = self.factors_.named(*ids, counts)
        return self

    def fold_in(self, user_items: Any, user_features: Any = None) -> Floats32:
        """Find factors for users that the model has not seen, from what they have and are.

        The items stay as they are. `LatentRoBiRank` solves each user's own problem by L-BFGS
        until its gradient is 1e-4 of that at the start; `WARP` makes 50 passes over the user's
        items. A user without items gets what their features say, and without features zeros, which
        score every item alike.

        Parameters
        ----------
        user_items : sparse matrix or Interactions, one row a user
        user_features : Features, dict or list of dicts, optional
            What is known of these users, a row for each in the same order; for one user, values by
            column. The model must have been fitted with features of users.

        Returns
        -------
        float32 array of shape (n_users, factors)
        """
        self._check_fitted()
        items = self.factors_.items
        check_same_ids("user_items", user_items, "the model", self, ("items",))
        self._check_times("user_items", user_items)
        interactions = self._table(user_items)
        if interactions.n_items > len(items) or (
            interactions.n_items < len(items) and items.centres is None
        ):
            raise ArgumentError(
                "user_items",
                f"must have one column for each of the {len(items)} items; it has "
                f"{interactions.n_items}",
            )
        interactions = interactions.extended(interactions.n_users, len(items))
        centres = self._user_centres(user_features, interactions.n_users)
        d = taste_width(items)
        taste = self._taste_of(interactions, None if centres is None else centres[:, :d])
        if items.leads is None:
            return taste
        q = items.leads.next_rows(interactions)
        if centres is not None:
            without = interactions.user_counts() == 0
            q[without] = centres[without, d:]
        return np.hstack([taste, q])

    def _taste_of(self, interactions: UserItems, centres: Floats32 | None) -> Floats32:
        """The taste of new users, by what they have."""
        items = taste_of(self.factors_).items
        if items.centres is None or items.counts is None:
            return self._fold_in(items.rows, interactions, centres)
        # As in the fit, new items are nobody's losers but of those who have them.
        rows = np.zeros((interactions.n_users, items.rows.shape[1]), np.float32)
        is_old = items.counts > 0
        for users in _alike(interactions.take(~is_old[interactions.items])):
            part, is_there = interactions.rows(users), is_old.copy()
            is_there[part.items] = True
            chosen = np.flatnonzero(is_there)
            V = np.ascontiguousarray(items.rows[chosen])
            rows[users] = self._fold_in(
                V, part.of_items(chosen), None if centres is None else centres[users]
            )
        return rows

    def _table(self, user_items: Any) -> UserItems:
        """A table as the loss counts it: with the weights of its records."""
        table = as_user_items(user_items, self.weighting)
        ages = getattr(self, "ages_", None)
        return table if ages is None else Ages(*ages.tolist()).weigh(table)

    def _check_dates(self, argument: str, has_dates: bool) -> None:
        half_life = getattr(self, "half_life", None)
        if half_life is None or not hasattr(self, "ages_"):
            return
        if has_dates != isinstance(half_life, str):
            given, expected = ("dates", "numbers") if has_dates else ("numbers", "dates")
            raise ArgumentError(
                argument,
                f"must have {expected} as times, as the table of the fit had, because records "
                f"weigh by their age; it has {given}",
            )

    def _user_centres(self, user_features: Any, n: int) -> Floats32 | None:
        """What features say of n users; None without."""
        rows, known = self._described(user_features, "user_features"), self.factors_.users.centres
        if rows is None or known is None:
            return None
        if len(rows) != n:
            raise ArgumentError(
                "user_features", f"must have a row for each of the {n} users; it has {len(rows)}"
            )
        return known.of(rows)

    def _folded_in(self, user_items: Any, user_features: FeatureRows | None = None) -> Queries:
        """New users, by what they have and are, to search with."""
        rows = np.ascontiguousarray(self.fold_in(user_items, user_features), np.float32)
        content = self.factors_.users.content
        if content is None:
            return Queries.all_of(rows)
        taken = as_user_items(user_items).extended(len(rows), len(self.factors_.items))
        return Queries.all_of(rows, UserContent(content.weights, taken))

    def _has_features(self) -> bool:
        """Whether the model knows features of users or items."""
        sides = self.factors_.users, self.factors_.items
        return any(side.centres is not None for side in sides)

    def _content_weights(self) -> Content:
        """The weights of content scores; zeros where there are none."""
        content = self.factors_.users.content
        return Content() if content is None else content.weights

    def regularization_for(self, user_items: Any) -> float:
        """The λ that `fit` takes for a table where it does not search: given, or by the rule.

        Parameters
        ----------
        user_items : sparse matrix or Interactions

        Examples
        --------
        >>> from robirank import LatentRoBiRank, make_interactions
        >>> data = make_interactions(200, 100, 3000, random_state=0)
        >>> round(LatentRoBiRank(factors=8).regularization_for(data), 3)
        0.204
        """
        interactions, request = as_user_items(user_items, self.weighting), self.request()
        problem = widened(request, settle_by_table(request, interactions), interactions)
        return problem.penalty.regularization

    def estimate(self, user_items: Any) -> Estimate:
        """What `fit` will cost on this machine: epochs, seconds and memory, before it begins.

        Parameters
        ----------
        user_items : sparse matrix or Interactions

        Examples
        --------
        >>> from robirank import LatentRoBiRank, make_interactions
        >>> data = make_interactions(200, 100, 3000, random_state=0)
        >>> cost = LatentRoBiRank(factors=8).estimate(data)
        >>> cost.solver, cost.epochs, cost.search_epochs, cost.seconds < 60
        ('exact', 16, 0, True)
        """
        return estimate(self.request(), as_user_items(user_items, self.weighting))

    @classmethod
    def from_shards(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that a cluster left in many files; `robirank.load_model` calls it."""
        from robirank.latent.factors.shards import load_shards

        model: Self = load_shards(path, cls)
        return model

    def request(self) -> Request:
        """The parameters as solvers take them, with a seed drawn; an error names a wrong one."""
        thread_count(self.num_threads)
        if self.engine not in ("local", "ray") and not isinstance(self.engine, RayConfig):
            raise ArgumentError(
                "engine", f'must be "local", "ray" or a RayConfig; got {self.engine!r}'
            )
        check_choice("weighting", self.weighting, get_args(Weighting))
        return self._request(int(as_random_state(self.random_state).randint(2**31 - 1)))

    @abstractmethod
    def _request(self, seed: int) -> Request:
        """The parameters as a `Request`; an error names a wrong one."""

    @abstractmethod
    def _fold_in(
        self, V: Floats32, interactions: UserItems, centres: Floats32 | None = None
    ) -> Floats32:
        """Rows for the users of some interactions, pulled to centres, with V as it is."""

    def _penalty_of(self, request: Request, interactions: UserItems) -> float:
        """λ for a table that has grown: what was found keeps its ratio to the noise."""
        if request.regularization is not None:
            return request.regularization
        noise = settle_by_table(request, interactions).noise_level
        return self.regularization_ * (noise / self.noise_level_)

    def _fit(
        self, request: Request, user_items: Any, options: FitOptions, *, go_on: bool = False
    ) -> None:
        """Read the tables, settle what was left open, train, and take the result.

        Where it is to ``go_on``, the fit begins with the present factors.
        """
        known = self.factors_ if go_on else None
        before = None if known is None else taste_of(known)
        # A model in which the order weighs nothing goes on without.
        learns_order = request.order and (known is None or known.items.leads is not None)
        of_taste = options
        if learns_order:
            clear_checkpoint_of_order(options)
            of_taste = options.limited_to(TASTE_SHARE)
        if request.engine == "local":
            fit = LocalFit(request, user_items, of_taste, before)
            if before is not None:
                fit.start_from(grown(before, fit.interactions, request.seed, self._fold_in))
            opened: Any = nullcontext(fit)
        else:
            from robirank.latent.train.cluster import open_cluster_fit

            opened = open_cluster_fit(request, user_items, options)
        with opened as fit:
            result = fit.run(settle(request, fit, of_taste))
            ages = request.ages(user_items)
            if learns_order:
                request = replace(request, factors=result.problem.factors, counts_factors=False)
                sequences = Sequences(fit.interactions, ages, fit.validation)
                result = with_order(request, sequences, options, result, known)
            self._take(result, ages)

    def _take(self, result: FitResult, ages: Ages) -> None:
        """Become the model that a fit made of records that weigh by their ages."""
        progress, problem = result.progress, result.problem
        self.factors_ = result.factors
        self.n_iter_ = progress.epoch
        self.best_iter_ = progress.best_epoch or progress.epoch
        self.history_, self.stopped_ = progress.history, progress.stopped
        self.solver_ = problem.solver
        self.user_scale_ = problem.penalty.users.scale
        self.regularization_ = problem.penalty.regularization
        self.noise_level_ = problem.noise_level
        self.__dict__.pop("ages_", None)
        if ages.half_life is not None:
            self.ages_ = np.array([ages.half_life, ages.latest])


def _alike(interactions: UserItems) -> list[Ints64]:
    """The users in groups who have the same items."""
    groups: dict[bytes, list[int]] = {}
    for user, (begin, end) in enumerate(pairwise(interactions.indptr.tolist())):
        groups.setdefault(interactions.items[begin:end].tobytes(), []).append(user)
    return [np.array(users) for users in groups.values()]
