"""What the latent models share: `fit`, `partial_fit` and `fold_in`."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self, Unpack, get_args

import numpy as np

from robirank._checks import check_choice, check_count
from robirank._random import as_random_state
from robirank._threads import thread_count
from robirank._types import Floats32
from robirank.data.records import Records, Weighting, as_records
from robirank.engine.config import RayConfig
from robirank.latent.factors.ids import check_same_ids
from robirank.latent.factors.recommend import FactorModel
from robirank.latent.solvers.start import random_rows
from robirank.latent.train.fit import FitResult, open_training
from robirank.latent.train.options import EpochReport, FitKeywords, FitOptions
from robirank.latent.train.request import Request
from robirank.latent.tune.settle import settle, settle_by_records

_PARTIAL_ITERATIONS = 10
_PARTIAL_RATE = 0.25  # of the rate that a fit starts with
_MOST_FACTORS = 65_536  # more would only fill the memory
_NEW_ITEMS = 2  # the stream of random numbers for items that `partial_fit` adds


class LatentModel(FactorModel):
    """A factor model that is trained by a solver, epoch after epoch.

    A subclass gives its parameters as a `Request` and solves for single users (`_fold_in`).
    """

    fitted_parts = FactorModel.fitted_parts.plus(
        numbers={
            "n_iter_": int,
            "best_iter_": int,
            "solver_": str,
            "user_scale_": float,
            "regularization_": float,
            "noise_level_": float,
        }
    )

    factors: int
    regularization: float | None
    weighting: Any
    engine: Any
    random_state: Any

    user_ids_: Any = None
    item_ids_: Any = None
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
            Show epoch, loss, validation measure, rate and time left on a terminal.
        callback : callable, optional
            Called after every epoch as ``callback(epoch, seconds, loss)``, as implicit does: epochs
            count from 0, the seconds are those of the epoch. If it returns True, training ends.
        validation : sparse matrix or Interactions, optional
            Held-out interactions of the same users and items. The measure is computed about 16
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
        new items near zero. Then come a few epochs over the given records at a reduced rate; a
        user without a record in the table keeps their factors. A model without factors is fitted.

        Parameters
        ----------
        user_items : sparse matrix or Interactions
            At least as many rows and columns as the model has users and items. Interactions must
            begin with the ids that the model knows, as `Interactions.extend` makes them.
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
            raise ValueError(
                f"engine must be 'local' in partial_fit; got {self.engine!r}. Call "
                "set_params(engine='local') to go on in this process"
            )
        if getattr(self, "item_factors", None) is None:
            return self.fit(user_items, show_progress, callback, **options)
        wanted = FitOptions(show_progress=show_progress, callback=callback, **options)
        width = self.item_factors.shape[1]
        if request.factors != width:
            raise ValueError(f"factors must be {width}, as the model has; got {request.factors}")
        check_count("iterations", iterations)
        records = as_records(user_items, self.weighting)
        n_users, n_items = len(self.user_factors), len(self.item_factors)
        if records.n_users < n_users or records.n_items < n_items:
            raise ValueError(
                f"user_items must have at least the {n_users} users and {n_items} items that the "
                f"model knows; its shape is {(records.n_users, records.n_items)}"
            )
        ids = (
            _ids_that_go_on("users", user_items, self.user_ids_, records.n_users),
            _ids_that_go_on("items", user_items, self.item_ids_, records.n_items),
        )
        request = replace(
            request,
            epochs=iterations,
            rate=_PARTIAL_RATE,
            regularization=self._penalty_of(request, records),
        )
        known = self._item_counts()
        self._fit(request, user_items, wanted, self._grown(records, request.seed))
        self.user_ids_, self.item_ids_ = ids
        if known is not None:  # the table may hold new records alone, or all of them
            self.item_counts_[: len(known)] = np.maximum(self.item_counts_[: len(known)], known)
        return self

    def fold_in(self, user_items: Any) -> Floats32:
        """Find factors for users that the model has not seen, from what they have.

        The items stay as they are. `LatentRoBiRank` solves each user's own problem by L-BFGS
        until its gradient is 1e-4 of that at the start; `WARP` makes 50 passes over the user's
        items. A user without items gets zeros, which score every item alike.

        Parameters
        ----------
        user_items : sparse matrix or Interactions, one row a user

        Returns
        -------
        float32 array of shape (n_users, factors)
        """
        self._check_fitted()
        check_same_ids("user_items", user_items, "the model", self, ("items",))
        records = as_records(user_items, self.weighting)
        if records.n_items != len(self.item_factors):
            raise ValueError(
                f"user_items must have one column for each of the {len(self.item_factors)} items; "
                f"it has {records.n_items}"
            )
        return self._fold_in(self.item_factors, records)

    @classmethod
    def from_shards(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that a cluster left in many files; `robirank.load_model` calls it."""
        from robirank.latent.factors.sharded import load_sharded

        model: Self = load_sharded(path, cls)
        return model

    @cached_property
    def user_factors(self) -> Floats32:  # type: ignore[override]
        """U; where a cluster left it in shards, it is read when it is first asked for."""
        return self._read_shards()[0]

    @cached_property
    def item_factors(self) -> Floats32:  # type: ignore[override]
        """V; where a cluster left it in shards, it is read when it is first asked for."""
        return self._read_shards()[1]

    def _read_shards(self) -> tuple[Floats32, Floats32]:
        if not hasattr(self, "sharded_"):
            raise AttributeError(f"this {type(self).__name__} has no factors yet; call fit first")
        self.user_factors, self.item_factors = self.sharded_.factors()
        return self.user_factors, self.item_factors

    def request(self) -> Request:
        """The parameters as solvers take them, with a seed drawn; an error names a wrong one."""
        check_count("factors", self.factors, at_most=_MOST_FACTORS)
        thread_count(self.num_threads)
        if self.engine not in ("local", "ray") and not isinstance(self.engine, RayConfig):
            raise ValueError(f'engine must be "local", "ray" or a RayConfig; got {self.engine!r}')
        check_choice("weighting", self.weighting, get_args(Weighting))
        return self._request(int(as_random_state(self.random_state).randint(2**31 - 1)))

    @abstractmethod
    def _request(self, seed: int) -> Request:
        """The parameters as a `Request`; an error names a wrong one."""

    @abstractmethod
    def _fold_in(self, V: Floats32, records: Records) -> Floats32:
        """Factors for the users of some records, with V as it is."""

    def _grown(self, records: Records, seed: int) -> tuple[Floats32, Floats32]:
        """The factors of all users and items of a table; those that are known stay."""
        (n_users, d), n_items = self.user_factors.shape, len(self.item_factors)
        U = np.zeros((records.n_users, d), np.float32)
        U[:n_users] = self.user_factors
        if records.n_users > n_users:
            U[n_users:] = self._fold_in(self.item_factors, records.part(n_users, n_items))
        V = np.empty((records.n_items, d), np.float32)
        V[:n_items] = self.item_factors
        V[n_items:] = 0.1 * random_rows(seed, _NEW_ITEMS, records.n_items - n_items, d)
        return U, V

    def _penalty_of(self, request: Request, records: Records) -> float:
        """λ for a table that has grown: what was found keeps its ratio to the noise."""
        if request.regularization is not None:
            return request.regularization
        noise = settle_by_records(request, records).noise_level
        return self.regularization_ * (noise / self.noise_level_)

    def _fit(
        self,
        request: Request,
        user_items: Any,
        options: FitOptions,
        start: tuple[Floats32, Floats32] | None = None,
    ) -> None:
        """Read the tables, settle what was left open, train, and take the result."""
        with open_training(request, user_items, options, start) as training:
            self._take(training.run(settle(request, training, options)))

    def _take(self, result: FitResult) -> None:
        """Become the model that a fit found."""
        progress, problem = result.progress, result.problem
        for name in ("user_factors", "item_factors", "sharded_"):
            self.__dict__.pop(name, None)
        if isinstance(result.factors, tuple):
            self.user_factors, self.item_factors = result.factors
        else:
            self.sharded_ = result.factors
        self.n_iter_ = progress.epoch
        self.best_iter_ = progress.best_epoch or progress.epoch
        self.history_, self.stopped_ = progress.history, progress.stopped
        self.solver_ = problem.solver
        self.user_scale_ = problem.penalty.users.scale
        self.regularization_ = problem.penalty.regularization
        self.noise_level_ = problem.noise_level
        self.user_ids_, self.item_ids_ = result.user_ids, result.item_ids
        self.item_counts_ = result.item_counts


def _ids_that_go_on(kind: str, user_items: Any, known: Any, count: int) -> Any:
    """The outside ids of a table, which must begin with the known ones."""
    ids = getattr(user_items, kind, None)
    if known is None:
        return ids
    if ids is None:
        if count == len(known):
            return known
        raise ValueError(
            f"user_items has {count} {kind} and the model has ids of {len(known)}; give "
            "Interactions, so that the new ones have ids too"
        )
    if not np.array_equal(ids[: len(known)], known[:]):
        raise ValueError(
            f"user_items must begin with the {kind} of the model, in their order; "
            "Interactions.extend makes such a table"
        )
    return ids
