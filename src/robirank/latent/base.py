"""What the latent models share: the door, the start, the loop around a solver."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from robirank._checks import check_count, check_positive
from robirank._workers import Workers
from robirank.engine.start import random_rows
from robirank.latent.checkpoint import Checkpoint, fingerprint
from robirank.latent.factors import FactorModel
from robirank.latent.products import Floats
from robirank.latent.records import Records, as_records
from robirank.latent.training import EpochReport, Solver, Training

__all__ = ["LatentModel"]

_PARTIAL_ITERATIONS = 10
_PARTIAL_RATE = 0.25  # of the rate that a fit starts with


class LatentModel(FactorModel):
    """A factor model that is trained by a solver, epoch after epoch."""

    factors: int
    num_threads: int
    random_state: Any
    weighting: Any = "binary"

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
        user_items : sparse matrix of shape (n_users, n_items), or Interactions
            What is stored and not zero counts as an interaction.
        show_progress : bool, default=True
            Show epoch, loss, validation measure, rate and time left on a terminal.
        callback : callable, optional
            Called after every epoch as ``callback(epoch, seconds, loss)``, as implicit does; if
            it returns True, training ends.
        validation : sparse matrix or Interactions, optional
            Held-out interactions of the same users and items. The measure is computed about 16
            times during the fit (every epoch with ``patience``), and the model of the best
            epoch is kept.
        metric : str, default="ndcg@20"
            What is watched: precision, recall, ndcg, map or hit_rate at some cut-off.
        patience : int, optional
            End after so many epochs without a better value.
        time_limit : float, optional
            Seconds of training. The number of epochs is cut so that the rate still falls to its
            end within the time; ``n_iter_`` says how many there were.
        checkpoint : path, optional
            Save everything here every ``checkpoint_minutes`` and at the end.
        resume : bool, default=False
            Go on from the checkpoint if there is one. The result is the same, bit for bit, as
            without the break. A checkpoint of other data or settings is an error.
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
        Ctrl-C ends the training after the present step with a warning, and what was learned so
        far can be used; a second one gives up at once.
        """
        records = self._read(user_items)
        seed = _seed(self.random_state)
        U, V = self._start(records.n_users, records.n_items, seed)
        self._train(
            user_items,
            records,
            U,
            V,
            seed,
            epochs=self._epochs(),
            rate=1.0,
            show_progress=show_progress,
            callback=callback,
            callbacks=callbacks,
            validation=validation,
            metric=metric,
            patience=patience,
            time_limit=time_limit,
            checkpoint=self._checkpoint(checkpoint, checkpoint_minutes, resume, records, seed),
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
            At least as many rows and columns as the model has users and items.
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
        seed = _seed(self.random_state)
        self._train(
            user_items,
            records,
            self._grown_users(records),
            self._grown_items(records.n_items, seed),
            seed,
            epochs=iterations,
            rate=_PARTIAL_RATE,
            show_progress=show_progress,
        )
        return self

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
                train=user_items,
                **comfort,
            )
            U, V = training.run()
        self.user_factors, self.item_factors = U, V
        self.n_iter_ = solver.epoch_number
        self.history_ = training.history
        self.best_iter_ = training.best_epoch or solver.epoch_number
        self.user_ids_ = getattr(user_items, "users", None)
        self.item_ids_ = getattr(user_items, "items", None)
        self._learned(records)

    def _read(self, user_items: Any) -> Records:
        check_count("factors", self.factors)
        if isinstance(self.num_threads, bool) or int(self.num_threads) != self.num_threads:
            raise ValueError(f"num_threads must be an integer; got {self.num_threads!r}")
        if self.num_threads < 0:
            raise ValueError(f"num_threads must be 0 (all cores) or more; got {self.num_threads!r}")
        self._check_params()
        return as_records(user_items, self.weighting)

    def _start(self, n_users: int, n_items: int, seed: int) -> tuple[Floats, Floats]:
        """Rows of length about one, in random directions."""
        d = self.factors
        return random_rows([seed, 0], n_users, d), random_rows([seed, 1], n_items, d)

    def _checkpoint(
        self,
        path: str | os.PathLike[str] | None,
        minutes: float,
        resume: bool,
        records: Records,
        seed: int,
    ) -> Checkpoint | None:
        if path is None:
            if resume:
                raise ValueError("resume needs a checkpoint to go on from; give checkpoint=")
            return None
        if self.random_state is None:
            raise ValueError("checkpoint needs a random_state: without one no fit is like another")
        settings = {k: v for k, v in self.get_params().items() if k != "num_threads"}
        fit = fingerprint(settings | {"class": type(self).__name__, "seed": seed}, records)
        return Checkpoint(path, minutes=minutes, resume=resume, fit=fit)

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
        raise NotImplementedError

    def _advice(self) -> str:
        raise NotImplementedError

    def _fold_in(self, records: Records) -> Floats:
        raise NotImplementedError

    def _learned(self, records: Records) -> None:
        """Keep what later calls need to know of the data."""

    @property
    def n_threads(self) -> int | None:
        """Threads for recommending; None for all cores."""
        return self.num_threads or None


class _Snapshot(FactorModel):
    """Factors in the middle of a fit, for validation; the model itself changes only at the end."""

    def __init__(self, model: LatentModel) -> None:
        self.n_threads = model.n_threads


def _seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def check_rate(name: str, value: Any) -> None:
    """Raise an error unless the parameter is None or a positive number."""
    if value is not None:
        check_positive(name, value)
