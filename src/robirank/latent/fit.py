"""One way to fit: a request and a table become a problem, a solver and a store, and the loop runs.

A fit on a cluster differs from a local one in the engine that the request names and in nothing
else: `robirank.latent.cluster` makes the same `Setup`.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from robirank._types import Floats32
from robirank._workers import Workers
from robirank.data.records import Records, as_records
from robirank.engine.memory import StrataMemory
from robirank.engine.threads import TaskTime, ThreadEngine
from robirank.latent.loop import Loop, Store
from robirank.latent.options import FitOptions
from robirank.latent.problem import Problem, Request
from robirank.latent.progress import Progress
from robirank.latent.solvers import SOLVERS, resolve_solver
from robirank.latent.solvers.interface import Solver
from robirank.latent.start import random_rows
from robirank.latent.store import MemoryStore, checksum, fingerprint
from robirank.storage.checkpoint_file import CheckpointFile

Start = tuple[Floats32, Floats32]
_SIDES: tuple[Literal["users", "items"], ...] = ("users", "items")


@dataclass(frozen=True)
class Setup:
    """What a fit is made of.

    Attributes
    ----------
    problem : Problem
    solver_name : str
    solver : Solver
    store : Store
    user_ids, item_ids : Ids or None
    title : str
        Of the progress line.
    """

    problem: Problem
    solver_name: str
    solver: Solver
    store: Store
    user_ids: Any
    item_ids: Any
    title: str


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
        loop = Loop(request, setup.problem, setup.solver, setup.store, options, setup.title)
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
    problem = Problem.of_records(request, records)
    name = resolve_solver(request, records.n_users, records.n_items)
    rows = start or random_start(request, records)
    with Workers(request.num_threads) as workers:
        make = SOLVERS[name].make
        if SOLVERS[name].in_strata:
            engine = strata_engine(request, problem, records, rows, workers)
            solver, holder = make(request, problem, engine), engine.memory
        else:
            solver = holder = make(request, problem, records, rows, workers)
        store = MemoryStore(
            holder,
            train=None if held_out is None else records.matrix(),
            validation=None if held_out is None else held_out.matrix(),
            checkpoint=checkpoint,
            resume=options.resume,
            num_threads=request.num_threads,
        )
        ids = ids_of(data, "users"), ids_of(data, "items")
        yield Setup(problem, name, solver, store, *ids, f"{request.model} ({name})")


def strata_engine(
    request: Request,
    problem: Problem,
    records: Records,
    start: Start,
    workers: Workers,
    on_task: Callable[[TaskTime], None] | None = None,
) -> ThreadEngine:
    """Strata of a table in the memory of this process."""
    memory = StrataMemory(
        records,
        *start,
        problem.penalty.user_decay(records.user_counts()),
        problem.penalty.item_decay(records.item_counts()),
        parts=request.parts,
        seed=request.seed,
    )
    return ThreadEngine(memory, problem.sizes, workers, on_task)


def random_start(request: Request, records: Records) -> Start:
    """Rows of length about one, in random directions; zeros for users without records."""
    U = random_rows(request.seed, 0, records.n_users, request.factors)
    U[records.user_counts() == 0] = 0.0
    return U, random_rows(request.seed, 1, records.n_items, request.factors)


def ids_of(data: Any, side: Literal["users", "items"]) -> Any:
    """The outside ids of a table's users or items; None where it has none."""
    read = getattr(data, "user_ids" if side == "users" else "item_ids", None)
    return getattr(data, side, None) if read is None else read()


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
    for side in _SIDES:
        ids, known = ids_of(validation, side), ids_of(user_items, side)
        if ids is not None and known is not None and ids != known:
            raise ValueError(
                f"validation must have the {side} of user_items, in their order; "
                "validation.align(user_items) sees to it"
            )
    if not records.n_records:
        raise ValueError("validation must hold at least one interaction; it has none")
    return records


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
