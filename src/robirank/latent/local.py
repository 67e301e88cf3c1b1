"""Solvers in this process: where factors start, and what a solver is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from robirank._types import Floats32
from robirank._workers import Workers
from robirank.data.records import Records
from robirank.engine.memory import StrataMemory
from robirank.engine.threads import TaskTime, ThreadEngine
from robirank.latent.penalty import Penalty
from robirank.latent.problem import Problem, Request
from robirank.latent.solvers import SOLVERS
from robirank.latent.solvers.interface import Solver
from robirank.latent.start import random_rows

Start = tuple[Floats32, Floats32]


def random_start(request: Request, records: Records) -> Start:
    """Rows of length about one, in random directions; zeros for users without records."""
    U = random_rows(request.seed, 0, records.n_users, request.factors)
    U[records.user_counts() == 0] = 0.0
    return U, random_rows(request.seed, 1, records.n_items, request.factors)


def make_solver(
    name: str,
    request: Request,
    problem: Problem,
    records: Records,
    start: Start,
    workers: Workers,
) -> tuple[Solver, Any]:
    """A solver by its name, and what holds its factors and state: itself, or the strata."""
    entry = SOLVERS[name]
    if request.device != "cpu":
        solver = entry.on_device(request, problem, records, start, workers)
        return solver, solver
    if not entry.in_strata:
        solver = entry.make(request, problem, records, start, workers)
        return solver, solver
    engine = strata_engine(request, problem, records, start, workers)
    return entry.make(request, problem, engine), engine.memory


def penalize(holder: Any, penalty: Penalty, records: Records) -> None:
    """Go on under another penalty; what `make_solver` gave holds the factors."""
    if isinstance(holder, StrataMemory):
        users, items = records.user_counts(), records.item_counts()
        holder.decay_by(penalty.user_decay(users), penalty.item_decay(items))
    else:
        holder.penalize(penalty)


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
