"""One way to fit: a request and a table become a problem, a solver and a store, and the loop runs.

A fit on a cluster differs from a local one in the engine that the request names and in nothing
else: `robirank.latent.cluster` makes the same `Setup`.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from robirank._workers import Workers
from robirank.data.records import Records, as_records
from robirank.latent.local import Start, make_solver, random_start
from robirank.latent.loop import Loop, Store
from robirank.latent.options import FitOptions
from robirank.latent.problem import Problem, Request
from robirank.latent.progress import Progress
from robirank.latent.retrieve.ids import check_same_ids, ids_of
from robirank.latent.search import search_penalty
from robirank.latent.solvers import SOLVERS, epoch_seconds, resolve_solver
from robirank.latent.solvers.interface import Solver
from robirank.latent.store import MemoryStore, checksum, fingerprint
from robirank.storage.checkpoint_file import CheckpointFile
from robirank.storage.tensor_file import ModelFileError


@dataclass(frozen=True)
class Setup:
    """What a fit is made of.

    Attributes
    ----------
    request : Request
        With what was left open settled.
    problem : Problem
    solver_name : str
    solver : Solver
    store : Store
    user_ids, item_ids : Ids or None
    title : str
        Of the progress line.
    epoch_seconds : float or None
        What an epoch is expected to take; None where nobody knows.
    """

    request: Request
    problem: Problem
    solver_name: str
    solver: Solver
    store: Store
    user_ids: Any
    item_ids: Any
    title: str
    epoch_seconds: float | None = None


@dataclass(frozen=True)
class FitResult:
    """What came of a fit.

    Attributes
    ----------
    factors : (U, V) or ShardedModel
    progress : Progress
    setup : Setup
    """

    factors: Any
    progress: Progress
    setup: Setup


def fit_table(
    request: Request, data: Any, options: FitOptions, start: Start | None = None
) -> FitResult:
    """Fit factors to a table; ``start`` is where they begin, random rows by default."""
    if request.engine == "local":
        making = local_setup(request, data, options, start)
    else:
        from robirank.latent.cluster import cluster_setup

        making = cluster_setup(request, data, options)
    with making as setup:
        parts = setup.request, setup.problem, setup.solver, setup.store
        loop = Loop(*parts, options, setup.title, setup.epoch_seconds)
        factors = loop.run()
    return FitResult(factors, loop.progress, setup)


@contextlib.contextmanager
def local_setup(
    request: Request, data: Any, options: FitOptions, start: Start | None = None
) -> Iterator[Setup]:
    """Set up a fit in this process."""
    records = as_records(data, request.weighting)
    held_out = read_validation(options.validation, data)
    if not records.n_records:
        raise ValueError("user_items holds no interaction, so there is nothing to learn")
    checkpoint = _checkpoint(request, options, (records, held_out), start)
    name = resolve_solver(request, records.n_users, records.n_items)
    request = replace(request, epochs=request.epochs or SOLVERS[name].epochs)
    with Workers(request.num_threads) as workers:
        if request.regularization is None and SOLVERS[name].searches:
            reg = _kept_penalty(checkpoint) if options.resume else None
            reg = reg or search_penalty(name, request, records, held_out, options, workers)
            request = replace(request, regularization=reg)
        problem = Problem.of_records(request, records)
        rows = start or random_start(request, records)
        solver, holder = make_solver(name, request, problem, records, rows, workers)
        store = MemoryStore(
            holder,
            train=None if held_out is None else records.matrix(),
            validation=None if held_out is None else held_out.matrix(),
            checkpoint=checkpoint,
            resume=options.resume,
            num_threads=request.num_threads,
            device=request.device,
        )
        ids = ids_of(data, "users"), ids_of(data, "items")
        shown = title(request, name, problem), epoch_seconds(name, request, problem.sizes)
        yield Setup(request, problem, name, solver, store, *ids, *shown)


def title(request: Request, solver: str, problem: Problem, more: str = "") -> str:
    """The title of the progress line."""
    return f"{request.model} ({solver}{more}, λ = {problem.penalty.regularization:.3g})"


def read_validation(validation: Any, user_items: Any) -> Records | None:
    """Read a validation set, which must have the users and items of the training set."""
    if validation is None:
        return None
    records = as_records(validation, name="validation")
    if validation.shape != user_items.shape:
        raise ValueError(
            f"validation must have the shape of user_items, {user_items.shape}; "
            f"it has {validation.shape}"
        )
    check_same_ids("validation", validation, "user_items", user_items, or_positions=False)
    if not records.n_records:
        raise ValueError("validation must hold at least one interaction; it has none")
    return records


def _kept_penalty(checkpoint: CheckpointFile | None) -> float | None:
    """What the search of a fit had found before its last checkpoint."""
    kept = None if checkpoint is None else checkpoint.read_progress()
    if kept is None:
        return None
    try:
        return Progress.read(kept).regularization
    except ValueError as error:
        raise ModelFileError(f"the checkpoint cannot be used: {error}") from None


def _checkpoint(
    request: Request,
    options: FitOptions,
    tables: tuple[Records, Records | None],
    start: Start | None,
) -> CheckpointFile | None:
    if options.checkpoint is None:
        if options.resume:
            raise ValueError("resume needs a checkpoint to go on from; give checkpoint=")
        if options.checkpoint_minutes is not None:
            raise ValueError("checkpoint_minutes needs a file to write to; give checkpoint=")
        return None
    if request.params.get("random_state") is None:
        raise ValueError("checkpoint needs a random_state: without one no fit is like another")
    data = [checksum(table) for table in tables]
    begins = None if start is None else [zlib.crc32(rows.tobytes()) for rows in start]
    fit = fingerprint(request, data, options.watched, start=begins)
    return CheckpointFile(options.checkpoint, fit, minutes=options.checkpoint_minutes)
