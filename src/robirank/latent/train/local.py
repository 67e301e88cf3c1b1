"""A fit in this process, on its threads or its graphics card."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from robirank._types import Ints32
from robirank._workers import Workers
from robirank.data.feature_rows import align_features
from robirank.data.user_items import UserItems, as_user_items
from robirank.engine.state import Arrays
from robirank.errors import Argument, ArgumentError
from robirank.latent.factors.factors import Factors
from robirank.latent.factors.list_metrics import metric_of_factors
from robirank.latent.factors.questions import check_same_ids
from robirank.latent.solvers import make_solver, start_of
from robirank.latent.solvers.centred import with_centres
from robirank.latent.solvers.interface import InMemorySolver
from robirank.latent.solvers.problem import Problem, TableShape
from robirank.latent.train.loop import FitResult, Loop, Progress, Settled
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
    before : Factors, optional
        The model that the fit goes on from; `start_from` then says where its rows begin.
    """

    def __init__(
        self, request: Request, data: Any, options: FitOptions, before: Factors | None = None
    ) -> None:
        self._request, self._options, self._before = request, options, before
        self._start: Factors | None = None
        features = options.user_features, options.item_features
        table = request.table(data)
        table = with_features(table, *features, before)
        self.interactions = with_dislikes(table, options.dislikes, data, before)
        self.validation = _read_validation(options.validation, data, self.interactions)
        if not self.interactions.n_interactions:
            raise ArgumentError("user_items", "holds no interaction, so there is nothing to learn")
        self._checkpoint = _checkpoint(
            request, options, (self.interactions, self.validation), before
        )
        self.whole_epochs = self._checkpoint is not None
        self.shape = TableShape.of_user_items(self.interactions)
        if before is not None and self.interactions.item_features is not None:
            counts, _ = _all_counts(self.interactions, before)
            sizes = replace(self.shape.sizes, n_items=int(np.count_nonzero(counts)))
            self.shape = replace(self.shape, sizes=sizes)
        self._solver: InMemorySolver
        self._best: Factors | None = None

    def start_from(self, start: Factors) -> None:
        """Begin with these factors, whose rows are changed, in place of random ones."""
        self._start = start

    def saved_search(self) -> Settled | None:
        """What the search of a fit had found before its last checkpoint."""
        if self._checkpoint is None or not self._options.resume:
            return None
        saved = self._checkpoint.read_progress()
        if saved is None:
            return None
        progress = _read_progress(saved)
        if progress.regularization is None:
            return None
        return Settled(progress.regularization, progress.content, progress.factors)

    def run(self, problem: Problem) -> FitResult:
        """Train to the end."""
        with Workers(problem.num_threads) as workers:
            table = self.interactions
            start = named_start(problem, table, self._start, self._before)
            self._solver = make_solver(problem, table, start, workers)
            loop = Loop(problem, self._solver, self, self._options, self._request.model)
            result = loop.run()
        return replace(result, factors=finished(result.factors, table, problem, self._before))

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


def with_features(
    table: UserItems, user_features: Any, item_features: Any, before: Factors | None = None
) -> UserItems:
    """A table with the features that a fit was given, and those that a model knew before."""
    if user_features is None and item_features is None and before is None:
        return table
    users = items = None
    if before is not None:
        users, items = (
            None if side.centres is None else side.centres.features
            for side in (before.users, before.items)
        )
    return table.with_features(
        align_features("user_features", user_features, table.user_ids, table.n_users, users),
        align_features("item_features", item_features, table.item_ids, table.n_items, items),
    )


def with_dislikes(
    table: UserItems, dislikes: Any, data: Any, before: Factors | None = None
) -> UserItems:
    """A table with what its users dislike, here or before; what they take now they like."""
    known = None if before is None else before.users.disliked
    if dislikes is None:
        disliked = None
    else:
        against = as_user_items(dislikes, name="dislikes")
        if against.shape != data.shape:
            raise ArgumentError(
                "dislikes",
                f"must have the shape of user_items, {data.shape}; it has {against.shape}",
            )
        check_same_ids("dislikes", dislikes, "user_items", data, or_positions=False)
        disliked = replace(against, user_ids=None, item_ids=None, times=None)
        disliked = disliked.extended(*table.shape)
        n_both = disliked.n_interactions - disliked.without(table).n_interactions
        if n_both:
            raise ArgumentError(
                "dislikes",
                f"must hold nothing that user_items holds; {n_both} of its "
                f"{disliked.n_interactions} records are in both. Take them out of one of them",
            )
    if known is not None:
        before_now = known.table.extended(*table.shape).without(table)
        disliked = before_now if disliked is None else disliked.joined(before_now)
    return table if disliked is None else replace(table, disliked=disliked)


def named_start(
    problem: Problem,
    table: UserItems,
    start: Factors | None = None,
    before: Factors | None = None,
) -> Factors:
    """Rows to start with, by default those of the solver, with the ids and counts of a table."""
    start = start or start_of(problem, table)
    if table.has_features:
        item_counts, user_counts = _all_counts(table, before)
        return start.named(table.user_ids, table.item_ids, item_counts, user_counts)
    return start.named(table.user_ids, table.item_ids, table.item_counts().astype(np.int32))


def finished(
    factors: Factors, table: UserItems, problem: Problem, before: Factors | None = None
) -> Factors:
    """The factors of a fit, with what users dislike, and with centres and content scores."""
    factors = factors.with_dislikes(table.disliked)
    if not table.has_features:
        return factors
    factors = with_centres(factors, table, problem, is_final=True)
    known = None if before is None else before.users.content
    taken = table if known is None else table.joined(known.taken)
    return factors.with_content(problem.content, taken)


def _all_counts(table: UserItems, before: Factors | None) -> tuple[Ints32, Ints32]:
    """The interactions of items and of users, here or before; a table may hold new ones alone."""
    counts = table.item_counts().astype(np.int32), table.user_counts().astype(np.int32)
    if before is not None:
        for total, side in zip(counts, (before.items, before.users), strict=True):
            known: Any = side.counts
            if known is None:  # nobody counted: those who have a row had an interaction
                known = np.asarray(side.rows).any(axis=1)
            total[: len(known)] = np.maximum(total[: len(known)], known)
    return counts


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
    for part in (interactions.weight, interactions.times):
        if part is not None:
            value = zlib.crc32(part.data, value)
    if interactions.disliked is not None:
        value = zlib.crc32(interactions.disliked.items.data, value)
        value = zlib.crc32(interactions.disliked.indptr.data, value)
    for features in (interactions.user_features, interactions.item_features):
        for array in [] if features is None else features.to_tensors("").values():
            value = zlib.crc32(np.ascontiguousarray(array).tobytes(), value)
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


def _read_validation(validation: Any, data: Any, table: UserItems) -> UserItems | None:
    if validation is None:
        return None
    interactions = as_user_items(validation, name="validation")
    check_validation(validation, interactions.n_interactions, data)
    return interactions.extended(*table.shape)


def _checkpoint(
    request: Request,
    options: FitOptions,
    tables: tuple[UserItems, UserItems | None],
    before: Factors | None,
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
    if before is not None:
        begins = [zlib.crc32(side.rows.tobytes()) for side in (before.users, before.items)]
    data = [checksum(table) for table in tables]
    fit = fingerprint(request, data, options.watched, start=begins)
    checkpoint = CheckpointFile(options.checkpoint, fit, minutes=options.checkpoint_minutes)
    if not options.resume:
        checkpoint.check_overwrite()
    return checkpoint
