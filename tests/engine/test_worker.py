"""A worker of a cluster, without a cluster."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import robirank as rr
from robirank import _core
from robirank.engine.ray.worker import Job, PartWorker, Step, _joined
from robirank.engine.state import FromCounts, StateArray, weights, zeros
from robirank.engine.strata import DATA_ORDER, Plan
from robirank.latent.factors.factors import ITEMS, USERS, RandomRows, random_rows
from robirank.latent.solvers.problem import Penalty, RowWeights
from robirank.latent.solvers.sgd import SgdSteps, sgd_task
from robirank.latent.solvers.strata import _as_floats, penalty_arrays
from robirank.storage.folder import Folder

PENALTY = Penalty(1.0, RowWeights(0.5, 1.0), RowWeights(0.5, 1.0))
ARRAYS = {
    array.name: array
    for array in (
        StateArray("U", "user", RandomRows(7, USERS, 60, 5), columns=5, saved_as="user_factors"),
        StateArray("user_sums", "user", zeros),
        StateArray("V", "item", RandomRows(7, ITEMS, 37, 5), columns=5, saved_as="item_factors"),
        StateArray("item_sums", "item", zeros),
        StateArray("item_counts", "item", FromCounts(_as_floats), is_constant=True),
        StateArray("rho_weight", "interaction", weights),
        *penalty_arrays(PENALTY),
    )
}


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    data = rr.make_interactions(60, 37, 400, random_state=0)
    cut = rr.partition(data, tmp_path_factory.mktemp("data"), parts=4, random_state=0)
    job = Job(list(ARRAYS.values()), 7, "binary", cut)
    return PartWorker(job, range(4), _core.instruction_set())


def rows_in(payloads, epoch):
    """V in the order of the data."""
    plan = Plan(7, epoch, 37, 4)
    return np.concatenate([payload["V"] for payload in payloads])[plan.position]


def test_blocks_begin_with_the_rows_of_all(worker):
    blocks = worker.start(range(4))
    assert_array_equal(rows_in(blocks, 0), random_rows(7, ITEMS, 37, 5))
    U = random_rows(7, USERS, 60, 5)
    for part in worker.parts.values():
        idle = part.interactions.user_counts() == 0
        assert_array_equal(part["U"][~idle, :5], U[part.users[~idle]])
        assert not part["U"][idle].any()


@pytest.mark.parametrize("next_epoch", [1, 2, DATA_ORDER])
def test_blocks_in_pieces_are_the_blocks_of_the_next_epoch(worker, next_epoch):
    blocks = worker.start(range(4))
    V = rows_in(blocks, 0)
    pieces = [worker.split(b, 0, next_epoch, blocks[b]) for b in range(4)]
    plan = Plan(7, next_epoch, 37, 4)
    for block in range(4):
        order = worker._order_of_pieces(plan.items(block), 0)
        rows = _joined(ARRAYS["V"], [pieces[old][block] for old in range(4)], order)
        assert_array_equal(rows[:, :5], V[plan.items(block)])
        assert not rows[:, 5:].any()


def test_what_is_saved_is_restored(worker, tmp_path):
    folder = Folder(tmp_path)
    (block, *_) = worker.start(range(4))
    step = Step(0, sgd_task, SgdSteps(5, 4, 0.2, 0.1, 64), epoch=0)
    (figures, cost), after = worker.sweep(0, 0, step, 0, [True], block)
    assert figures["done"] > 0
    sizes = {cost[name] for name in ("bytes_in", "bytes_moved", "bytes_out")}
    assert sizes == {4 * 6 * len(block["V"])}
    files = {name: f"{name}.file" for name in ("U", "user_sums", "rho_weight")}
    entries = dict(zip(files, worker.save(folder, 0, files), strict=True))
    block_files = {name: f"{name}.file" for name in ("V", "item_sums")}
    saved = dict(zip(block_files, worker.save_block(folder, block_files, after), strict=True))
    before = {name: array.copy() for name, array in worker.parts[0].arrays.items()}
    worker.start([])
    assert (worker.parts[0]["U"] != before["U"]).any()
    worker.restore(folder, 0, entries)
    for name in files:
        assert_array_equal(worker.parts[0][name], before[name])
    _, again = worker.restore_block(folder, 0, 0, saved)
    for name, values in again.items():
        assert_array_equal(values, after[name])
