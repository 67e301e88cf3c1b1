"""The rates of the simulation, measured task by task on this machine.

Nothing of the runs that the simulation is compared with is used here. Times are processor time of
the task's thread, so that other programs on the machine disturb them little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import nnls

from robirank._types import Floats64
from robirank.data.interactions import Interactions
from robirank.data.make_interactions import make_interactions
from robirank.data.records import as_records
from robirank.engine.memory import StrataMemory
from robirank.engine.parts import Block, Part
from robirank.engine.strata import BATCH_USERS, Plan, task_key
from robirank.experiments.scaling.simulation import Rates, mean_rates
from robirank.latent.solvers.sgd import SgdSteps, XiSettings, sgd_task, xi_task
from robirank.latent.solvers.start import random_rows
from robirank.latent.solvers.strata import cell_size

_CUTS = (1, 32)  # into how many parts users are cut for the tasks that are timed,
_BLOCKS = (1, 32, 1024)  # and into how many blocks items are
_TASKS = 16  # timed for each pair of these, at most
_XI_SPREAD = 1.0  # the standard deviation of the scores of the ξ-step
_SEED = 0


def calibrate(data: Interactions, factors: int, negatives: int, repeats: int = 1) -> Rates:
    """Time tasks of several sizes and work out what a record, a task and so on cost.

    All users, and a small part of them, meet large and small blocks of V. The costs of a task come
    from a least-squares fit of relative errors with no cost below zero.

    Parameters
    ----------
    data : Interactions
    factors : int
    negatives : int
        Items sampled for a record.
    repeats : int, default=1
        How often everything is timed; the mean of each rate is returned.

    Returns
    -------
    Rates
    """
    records = as_records(data)
    U, V = (random_rows(_SEED, side, n, factors) for side, n in enumerate(data.shape))
    decay = [np.zeros(len(rows), np.float32) for rows in (U, V)]
    cuts = [StrataMemory(records, U, V, *decay, parts=parts, seed=_SEED) for parts in _CUTS]
    steps = SgdSteps(factors, negatives, 0.02, 0.01, cell_items=cell_size(factors))
    return mean_rates([_measure(cuts, steps, epoch) for epoch in range(1, repeats + 1)])


def _measure(cuts: Sequence[StrataMemory], steps: SgdSteps, epoch: int) -> Rates:
    whole = cuts[0]
    (record, scan, item, task), spread = _fit(
        [
            _task_times(cut.parts[0], _cut(whole.blocks()[0], n), whole.plan, steps)
            for cut in cuts
            for n in _BLOCKS
        ]
    )
    pair, visit = _xi_costs(whole)
    plan = _seconds(lambda: Plan(_SEED, epoch, whole.n_items, 1).position)
    turn = _seconds(lambda: whole.turn(epoch))
    return Rates(
        record=record,
        scan=scan,
        item=item,
        task=task,
        pair=pair,
        visit=visit,
        plan=plan / whole.n_items,
        row=max(0.0, turn - plan) / whole.n_items,
        spread=spread,
    )


def million_song_part(share: int = 32) -> Interactions:
    """One of so many parts of the users of the Million Song shape, with all of its items."""
    return make_interactions(1_129_318 // share, 386_133, 49_824_519 // share, random_state=_SEED)


def _cut(block: Block, n: int) -> list[Block]:
    """A block as n smaller ones."""
    n = min(n, len(block.V) // 2)
    of_items = (block.V, block.sums, block.decay, block.popularity)
    bounds = np.arange(n + 1) * len(block.V) // n
    return [
        Block(int(low), *(rows[low:high] for rows in of_items)) for low, high in pairwise(bounds)
    ]


def _task_times(
    part: Part, blocks: Sequence[Block], plan: Plan, steps: SgdSteps
) -> tuple[Floats64, Floats64]:
    """Records visited, records passed over, items, 1; and the seconds of tasks."""
    part.slope[:] = 1.0 / plan.n_items
    place = plan.position[part.items]
    work, seconds = [], []
    for number, block in enumerate(blocks[:_TASKS]):
        inside = (place >= block.first) & (place < block.first + len(block.V))
        work.append([np.count_nonzero(inside), len(place), len(block.V), 1.0])
        seconds.append(_seconds(partial(_one_task, part, block, plan, steps, number)))
    return np.array(work), np.array(seconds)


def _one_task(part: Part, block: Block, plan: Plan, steps: SgdSteps, number: int) -> None:
    sgd_task(part, block, plan.position, steps, task_key(_SEED, 0, 0, number))


def _fit(groups: Sequence[tuple[Floats64, Floats64]]) -> tuple[list[float], float]:
    """The costs, and the spread of the times of like tasks about what they explain."""
    work, seconds = (np.concatenate(arrays) for arrays in zip(*groups, strict=True))
    costs = _least_squares(work, seconds)
    residuals = [np.log(took / (done @ costs)) for done, took in groups]
    around = np.concatenate([r - np.median(r) for r in residuals if len(r) > 1])
    return costs.tolist(), float(np.sqrt(np.mean(np.square(around))))


def _least_squares(work: Floats64, seconds: Floats64) -> Floats64:
    """Costs, none below zero, with the least relative errors."""
    scale = work.max(axis=0)
    costs, _ = nnls(work / scale / seconds[:, None], np.ones(len(seconds)))
    return np.asarray(costs / scale)


def _xi_costs(memory: StrataMemory) -> tuple[float, float]:
    """Seconds a user and item, and a user and block, where scores are as far apart as learned ones.

    Those of random rows would fall into few cells of the grid.
    """
    part, position = memory.parts[0], memory.plan.position
    part = replace(part, U=part.U * np.float32(_XI_SPREAD * np.sqrt(part.U.shape[1])))
    n = min(BATCH_USERS, len(part.users))
    work, seconds = [], []
    for cut in _BLOCKS:
        blocks = _cut(memory.blocks()[0], cut)
        call = partial(xi_task, part, blocks, position, XiSettings(0, 1, 0, "log"))
        work.append([n * memory.n_items, n * len(blocks)])
        seconds.append(_seconds(call))
    pair, visit = _least_squares(np.array(work, dtype=float), np.array(seconds)).tolist()
    return pair, visit


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.thread_time()
    work()
    return max(time.thread_time() - begin, 1e-9)
