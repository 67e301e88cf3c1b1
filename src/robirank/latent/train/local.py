"""A fit in this process, on its threads or its graphics card."""

from __future__ import annotations

import json
import zlib
from typing import Any

import msgspec
import numpy as np

from robirank._workers import Workers
from robirank.data.user_items import UserItems, as_user_items
from robirank.engine.state import Arrays
from robirank.errors import Argument, ArgumentError
from robirank.latent.factors.factors import ITEMS, USERS, Factors, Side, random_rows
from robirank.latent.factors.list_metrics import metric_of_factors
from robirank.latent.factors.questions import check_same_ids
from robirank.latent.solvers import make_solver
from robirank.latent.solvers.interface import InMemorySolver
from robirank.latent.solvers.problem import Problem, TableShape
from robirank.latent.train.loop import FitResult, Loop, Progress
from robirank.latent.train.request import FitOptions, Request
from robirank.storage.checkpoint_file import CheckpointFile
from robirank.storage.tensor_file import ModelFileError


class LocalFit:
    """See `robirank.latent.train.loop.Fit`.

    Parameters
    ----------
    request : Request
    data : sparse matrix or Interactions
    options : FitOptions
    start : Factors, optional
        Where the factors begin; its rows are changed. Random rows by default.
    """

    def __init__(
        self, request: Request, data: Any, options: FitOptions, start: Factors | None = None
    ) -> None:
        self._request, self._options, self._start = request, options, start
        self.interactions = as_user_items(data, request.weighting)
        self.validation = _read_validation(options.validation, data)
        if not self.interactions.n_interactions:
            raise ArgumentError("user_items", "holds no interaction, so there is nothing to learn")
        self._checkpoint = _checkpoint(
            request, options, (self.interactions, self.validation), start
        )
        self.whole_epochs = self._checkpoint is not None
        self.shape = TableShape.of_user_items(self.interactions)
        self._solver: InMemorySolver
        self._best: Factors | None = None

    def saved_regularization(self) -> float | None:
        """What the search of a fit had found before its last checkpoint."""
        if self._checkpoint is None or not self._options.resume:
            return None
        saved = self._checkpoint.read_progress()
        return None if saved is None else _read_progress(saved).regularization

    def run(self, problem: Problem) -> FitResult:
        """Train to the end."""
        with Workers(problem.num_threads) as workers:
            start = self._start or random_start(problem, self.interactions)
            table = self.interactions
            counts = table.item_counts().astype(np.int32)
            start = start.named(table.user_ids, table.item_ids, counts)
            self._solver = make_solver(problem, self.interactions, start, workers)
            loop = Loop(problem, self._solver, self, self._options, self._request.model)
            return loop.run()

    def restore(self) -> Progress | None:
        """Go back to the checkpoint, if there is one and it is wanted."""
        if self._checkpoint is None or not self._options.resume:
            return None
        best = _arrays_of(self._solver.factors())
        content = self._checkpoint.read(self._state(), best)
        if content is None:
            return None
        saved, arrays = content
        progress = _read_progress(saved)
        if bool(progress.best_epoch) != ("best.U" in arrays):
            raise ModelFileError(
                "the checkpoint cannot be used: the factors of the best epoch must be there if "
                "there is one"
            )
        prefix = "state."
        state = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        self._solver.restore(state)
        if "best.U" in arrays:
            self._best = self._solver.factors().with_rows(arrays["best.U"], arrays["best.V"])
        return progress

    def save(self, progress: Progress, *, final: bool = False) -> None:
        """Write a checkpoint if one is due."""
        if self._checkpoint is not None and (final or self._checkpoint.is_due()):
            arrays = self._state()
            if self._best is not None:
                arrays |= _arrays_of(self._best)
            self._checkpoint.write(msgspec.to_builtins(progress), arrays)

    def is_finite(self) -> bool:
        """Whether all factors are finite."""
        return self._solver.factors().is_finite()

    def factors(self) -> Factors:
        """The factors as they stand."""
        return self._solver.factors()

    def validate(self, metric: str) -> float:
        """The validation metric of the factors."""
        assert self.validation is not None
        return metric_of_factors(
            self._solver.factors(),
            self.interactions,
            self.validation,
            metric,
            num_threads=self._request.num_threads,
            device=self._request.device,
        )

    def keep(self, epoch: int) -> None:  # noqa: ARG002 (a cluster names files by it)
        """Keep the factors as the best so far."""
        self._best = self._solver.factors().on_host().copy()

    def result(self, progress: Progress) -> Factors:  # noqa: ARG002
        """The best factors that were kept, or the last ones."""
        return self._best or self._solver.factors().on_host()

    def on_step(self, show: Any) -> None:
        """Epochs in memory are short enough."""

    def _state(self) -> Arrays:
        return {f"state.{name}": array for name, array in self._solver.state().items()}


def random_start(problem: Problem, interactions: UserItems) -> Factors:
    """Rows of length about one in random directions; zeros for users without interactions."""
    U = random_rows(problem.seed, USERS, interactions.n_users, problem.factors)
    U[interactions.user_counts() == 0] = 0.0
    V = random_rows(problem.seed, ITEMS, interactions.n_items, problem.factors)
    return Factors(Side(U), Side(V)).named(None, None, interactions.item_counts().astype(np.int32))


def fingerprint(request: Request, data: Any, metric: str, **more: Any) -> str:
    """A line that tells one fit from another: its settings, its data, and this version."""
    from robirank import __version__

    settings = request.params | {"random_state": request.seed, "num_threads": None} | more
    settings |= {"class": request.model, "epochs": request.epochs, "rate": request.rate}
    settings |= {"device": request.device}
    return json.dumps([__version__, settings, data, metric], sort_keys=True, default=str)


def checksum(interactions: UserItems | None) -> list[int] | None:
    """Numbers that tell one table from another."""
    if interactions is None:
        return None
    value = zlib.crc32(interactions.items.data, zlib.crc32(interactions.indptr.data))
    if interactions.weight is not None:
        value = zlib.crc32(interactions.weight.data, value)
    return [*interactions.shape, interactions.n_interactions, value]


def check_validation(validation: Any, n_interactions: int, user_items: Any) -> None:
    """Raise an error unless held-out interactions are of the training set's users and items."""
    if validation.shape != user_items.shape:
        raise ArgumentError(
            "validation",
            f"must have the shape of user_items, {user_items.shape}; it has {validation.shape}",
        )
    check_same_ids("validation", validation, "user_items", user_items, or_positions=False)
    if not n_interactions:
        raise ArgumentError("validation", "must hold at least one interaction; it has none")


def _arrays_of(factors: Factors) -> Arrays:
    host = factors.on_host()
    return {"best.U": host.users.rows, "best.V": host.items.rows}


def _read_progress(saved: Any) -> Progress:
    try:
        return Progress.read(saved)
    except ValueError as error:
        raise ModelFileError(f"the checkpoint cannot be used: {error}") from None


def _read_validation(validation: Any, data: Any) -> UserItems | None:
    if validation is None:
        return None
    interactions = as_user_items(validation, name="validation")
    check_validation(validation, interactions.n_interactions, data)
    return interactions


def _checkpoint(
    request: Request,
    options: FitOptions,
    tables: tuple[UserItems, UserItems | None],
    start: Factors | None,
) -> CheckpointFile | None:
    file = Argument("checkpoint")
    if options.checkpoint is None:
        if options.resume:
            raise ArgumentError("resume", "needs a checkpoint to go on from; give ", file)
        if options.checkpoint_minutes is not None:
            raise ArgumentError("checkpoint_minutes", "needs a file to write to; give ", file)
        return None
    if request.params.get("random_state") is None:
        raise ArgumentError(
            "checkpoint", "needs a random_state: without one no fit is like another"
        )
    begins = None
    if start is not None:
        begins = [zlib.crc32(side.rows.tobytes()) for side in (start.users, start.items)]
    data = [checksum(table) for table in tables]
    fit = fingerprint(request, data, options.watched, start=begins)
    checkpoint = CheckpointFile(options.checkpoint, fit, minutes=options.checkpoint_minutes)
    if not options.resume:
        checkpoint.check_overwrite()
    return checkpoint
