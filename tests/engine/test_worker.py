"""A worker of a cluster, without a cluster."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import robirank as rr
from robirank import _core
from robirank.engine.ray.worker import Job, PartWorker
from robirank.engine.strata import DATA_ORDER, Plan
from robirank.latent.solvers.penalty import RowWeights
from robirank.latent.solvers.sgd import SgdSteps, sgd_task
from robirank.latent.solvers.start import random_rows, some_random_rows
from robirank.storage.folder import Folder


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    data = rr.make_interactions(60, 37, 400, random_state=0)
    cut = rr.partition(data, tmp_path_factory.mktemp("data"), parts=4, random_state=0)
    decay = RowWeights(0.5, 1.0).per_record
    job = Job(5, 7, "binary", decay, decay, some_random_rows, cut)
    return PartWorker(job, range(4), _core.instruction_set())


def rows_in(payloads, epoch):
    """V in the order of the data."""
    plan = Plan(7, epoch, 37, 4)
    return np.concatenate([V for V, _ in payloads])[plan.position]


def test_blocks_begin_with_the_rows_of_all(worker):
    blocks = worker.start(range(4))
    assert_array_equal(rows_in(blocks, 0), random_rows(7, 1, 37, 5))
    U = random_rows(7, 0, 60, 5)
    for part in worker.parts.values():
        idle = np.diff(part.indptr) == 0
        assert_array_equal(part.U[~idle, :5], U[part.users[~idle]])
        assert not part.U[idle].any()


@pytest.mark.parametrize("next_epoch", [1, 2, DATA_ORDER])
def test_blocks_in_pieces_are_the_blocks_of_the_next_epoch(worker, tmp_path, next_epoch):
    blocks = worker.start(range(4))
    V = rows_in(blocks, 0)
    pieces = [worker.split(b, 0, next_epoch, blocks[b]) for b in range(4)]
    plan = Plan(7, next_epoch, 37, 4)
    for block in range(4):
        items = plan.items(block)
        rows, sums = np.empty((len(items), 5), np.float32), np.empty(len(items), np.float32)
        worker._join(items, 0, [pieces[old][block] for old in range(4)], rows, sums)
        assert_array_equal(rows, V[plan.order[plan.bounds[block] : plan.bounds[block + 1]]])


def test_what_is_saved_is_restored(worker, tmp_path):
    folder = Folder(tmp_path)
    (block, *_) = worker.start(range(4))
    steps = SgdSteps(5, 4, 0.2, 0.1, 64)
    (figures, cost), after = worker.sweep(0, 0, 0, 0, sgd_task, steps, [True], block)
    assert figures["done"] > 0
    assert cost.bytes_in == cost.bytes_moved == cost.bytes_out == 4 * 6 * len(block[0])
    entries = worker.save(folder, 0, "u", "s")
    (saved,) = worker.save_block(folder, "b", after)
    U = worker.parts[0].U.copy()
    worker.start([])
    assert (worker.parts[0].U != U).any()
    worker.restore(folder, 0, *entries)
    assert_array_equal(worker.parts[0].U, U)
    _, again = worker.restore_block(folder, saved, 0, 0)
    assert_array_equal(again[0], after[0])
    assert_array_equal(again[1], after[1])
