"""What the latent models share: the door, the start, the loop around a solver."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from robirank._checks import check_count
from robirank._workers import Workers
from robirank.engine.interface import Engine
from robirank.engine.local import LocalEngine
from robirank.engine.start import random_rows
from robirank.latent.checkpoint import Checkpoint, fingerprint
from robirank.latent.checks import check_ids, read_validation
from robirank.latent.cluster import fit_on_cluster
from robirank.latent.records import Records, as_records
from robirank.latent.retrieve.factor_model import FactorModel
from robirank.latent.solvers.products import Floats
from robirank.latent.solvers.stratified import StratifiedSolver, local_engine
from robirank.latent.training import EpochReport, Solver, Training

__all__ = ["Histogram", "LatentModel"]

Histogram = tuple[list[int], list[int]]  # lengths, and how many rows have each

_PARTIAL_ITERATIONS = 10
_PARTIAL_RATE = 0.25  # of the rate that a fit starts with


class LatentModel(FactorModel):
    """A factor model that is trained by a solver, epoch after epoch."""

    fitted_parts = FactorModel.fitted_parts.plus(numbers={"n_iter_": int, "best_iter_": int})

    factors: int
    parts: int
    num_threads: int
    random_state: Any
    weighting: Any = "binary"
    engine: Any = "local"

    user_ids_: Any = None
    item_ids_: Any = None

    def fit(
        self,
        user_items: Any,
        show_progress: bool = True,
        callback: Callable[[int, float, float], Any] | None = None,
        *,
        validation: Any = None,
        metric: str = "ndcg@20",
        patience: int | None = None,
        time_limit: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_minutes: float = 10.0,
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
            epoch is kept.
        metric : str, default="ndcg@20"
            What is watched: precision, recall, ndcg, map or hit_rate at some cut-off.
        patience : int, optional
            End after so many epochs without a better value.
        time_limit : float, optional
            Seconds of training, without validation. The number of epochs is cut so that the rate
            still falls to its end within the time; at least one is done, and ``n_iter_`` says how
            many there were.
        checkpoint : path, optional
            Save everything here every ``checkpoint_minutes`` and at the end.
        resume : bool, default=False
            Go on from the checkpoint if there is one. The result is the same, bit for bit, as
            without the break. A checkpoint of other data or settings is an error. A fit that was
            complete, or that ``patience`` had ended, is not trained further. A `RayEngine` has
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
        if self.engine != "local":
            self._check()
            refused = {
                "validation": validation,
                "patience": patience,
                "checkpoint": checkpoint,
                "callbacks": callbacks or None,
            }
            fit_on_cluster(
                self,
                user_items,
                refused,
                resume=resume,
                show_progress=show_progress,
                callback=callback,
                time_limit=time_limit,
            )
            return self
        records = self._read(user_items)
        held_out = read_validation(validation, user_items)
        seed = self._seed()
        saved = self._checkpoint(
            checkpoint, checkpoint_minutes, resume, (records, held_out), seed, metric
        )
        U, V = self._start(records, seed)
        self._train(
            user_items,
            records,
            U,
            V,
            seed,
            epochs=self._epochs(),
            rate=1.0,
            ids=(getattr(user_items, "users", None), getattr(user_items, "items", None)),
            show_progress=show_progress,
            callback=callback,
            callbacks=callbacks,
            validation=validation,
            metric=metric,
            patience=patience,
            time_limit=time_limit,
            checkpoint=saved,
        )
        return self

    def partial_fit(
        self, user_items: Any, iterations: int = _PARTIAL_ITERATIONS, show_progress: bool = False
    ) -> Self:
        """Go on from the present factors with a table that may have new users and items.

        Rows and columns beyond the known ones are new. New users begin where `fold_in` puts them,
        new items near zero. Then come a few epochs over the given records at a reduced rate; a
        user without a record in the table keeps their factors.

        Parameters
        ----------
        user_items : sparse matrix or Interactions
            At least as many rows and columns as the model has users and items. Interactions must
            begin with the ids that the model knows.
        iterations : int, default=10
        show_progress : bool, default=False

        Returns
        -------
        self
        """
        if getattr(self, "item_factors", None) is None:
            return self.fit(user_items, show_progress=show_progress)
        check_count("iterations", iterations)
        records = self._read(user_items)
        n_users, n_items = len(self.user_factors), len(self.item_factors)
        if records.n_users < n_users or records.n_items < n_items:
            raise ValueError(
                f"user_items must have at least the {n_users} users and {n_items} items that the "
                f"model knows; its shape is {(records.n_users, records.n_items)}"
            )
        ids = (
            check_ids("users", user_items, self.user_ids_, records.n_users),
            check_ids("items", user_items, self.item_ids_, records.n_items),
        )
        seed = self._seed()
        self._train(
            user_items,
            records,
            self._grown_users(records),
            self._grown_items(records.n_items, seed),
            seed,
            epochs=iterations,
            rate=_PARTIAL_RATE,
            ids=ids,
            show_progress=show_progress,
        )
        return self

    def fold_in(self, user_items: Any) -> Floats:
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
        records = as_records(user_items, self.weighting)
        if records.n_items != len(self.item_factors):
            raise ValueError(
                f"user_items must have one column for each of the {len(self.item_factors)} items; "
                f"it has {records.n_items}"
            )
        return self._fold_in(records)

    def _grown_users(self, records: Records) -> Floats:
        known, n_items = len(self.user_factors), len(self.item_factors)
        U = np.zeros((records.n_users, self.user_factors.shape[1]), np.float32)
        U[:known] = self.user_factors
        if records.n_users > known:
            U[known:] = self._fold_in(records.part(known, n_items))
        return U

    def _grown_items(self, n_items: int, seed: int) -> Floats:
        known, d = self.item_factors.shape
        V = np.empty((n_items, d), np.float32)
        V[:known] = self.item_factors
        V[known:] = 0.1 * random_rows([seed, 2], n_items - known, d)
        return V

    def _train(
        self,
        user_items: Any,
        records: Records,
        U: Floats,
        V: Floats,
        seed: int,
        *,
        epochs: int,
        rate: float,
        ids: tuple[Any, Any],
        **comfort: Any,
    ) -> None:
        if not records.n_records:
            raise ValueError("user_items holds no interaction, so there is nothing to learn")
        with Workers(self.num_threads or None) as workers:
            solver = self._solver(records, U, V, seed, epochs, rate, workers)
            training = Training(
                _Snapshot(self),
                solver,
                title=f"{type(self).__name__} ({self._solver_name(records)})",
                advice=self._advice(),
                records=records.n_records,
                idle_loss=self._idle_loss(records.n_items, records.mean_weight()),
                train=user_items,
                **comfort,
            )
            U, V = training.run()
        self.user_factors, self.item_factors = U, V
        self.n_iter_ = solver.epoch_number
        self.history_ = training.history
        self.stopped_ = training.stopped
        self.best_iter_ = training.best_epoch or solver.epoch_number
        self.user_ids_, self.item_ids_ = ids
        lengths, times = np.unique(records.user_counts(), return_counts=True)
        self._learned(self._solver_name(records), (lengths.tolist(), times.tolist()))

    def _read(self, user_items: Any) -> Records:
        self._check()
        return as_records(user_items, self.weighting)

    def _check(self) -> None:
        check_count("factors", self.factors)
        threads = self.num_threads
        if not isinstance(threads, Integral) or isinstance(threads, bool) or threads < 0:
            raise ValueError(f"num_threads must be 0 (all cores) or more; got {threads!r}")
        self._check_params()

    def _start(self, records: Records, seed: int) -> tuple[Floats, Floats]:
        """Rows of length about one, in random directions; zeros for users without records."""
        U = random_rows([seed, 0], records.n_users, self.factors)
        U[records.user_counts() == 0] = 0.0
        return U, random_rows([seed, 1], records.n_items, self.factors)

    def _checkpoint(
        self,
        path: str | os.PathLike[str] | None,
        minutes: float,
        resume: bool,
        tables: tuple[Records, Records | None],
        seed: int,
        metric: str,
    ) -> Checkpoint | None:
        if path is None:
            if resume:
                raise ValueError("resume needs a checkpoint to go on from; give checkpoint=")
            return None
        if self.random_state is None:
            raise ValueError("checkpoint needs a random_state: without one no fit is like another")
        settings = self.get_params() | {"class": type(self).__name__, "metric": metric}
        settings |= {"random_state": seed, "num_threads": None}
        fit = fingerprint(settings, *tables)
        return Checkpoint(path, minutes=minutes, resume=resume, fit=fit)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    # What a subclass says.

    def _check_params(self) -> None:
        raise NotImplementedError

    def _epochs(self) -> int:
        raise NotImplementedError

    def _solver_name(self, records: Records) -> str:
        raise NotImplementedError

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
        """By default strata on this machine."""
        return self._on_engine(self._strata(records, U, V, seed, workers), epochs, rate)

    def _strata(
        self, records: Records, U: Floats, V: Floats, seed: int, workers: Workers
    ) -> LocalEngine:
        return local_engine(
            records,
            U,
            V,
            reg=self._reg(records.n_items),
            parts=self.parts,
            seed=seed,
            workers=workers,
        )

    def _advice(self) -> str:
        raise NotImplementedError

    def _fold_in(self, records: Records) -> Floats:
        raise NotImplementedError

    def _idle_loss(self, n_items: int, mean_weight: float) -> float:  # noqa: ARG002
        """The mean loss of a record where all items score alike; 0 where the solver knows best."""
        return 0.0

    def _learned(self, solver: str, lengths: Histogram) -> None:
        """Keep what later calls need to know: the solver, how many users have so many records."""

    def _on_engine(self, engine: Engine, epochs: int, rate: float) -> StratifiedSolver:
        raise NotImplementedError

    def _reg(self, n_items: int) -> float:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        # Factors that were trained on a cluster are read when they are first asked for.
        if name in ("user_factors", "item_factors") and "sharded_" in self.__dict__:
            whole = self.sharded_.factors()
            self.user_factors, self.item_factors = whole
            return whole[name == "item_factors"]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def n_threads(self) -> int | None:
        """Threads for recommending; None for all cores."""
        return self.num_threads or None


class _Snapshot(FactorModel):
    """Factors in the middle of a fit, for validation; the model itself changes only at the end."""

    def __init__(self, model: LatentModel) -> None:
        self.n_threads = model.n_threads
