"""The small parts of the engines: starts, penalties, orders, folders, checkpoints, workers."""

import json
import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load_file

import robirank as rr
from robirank import _core
from robirank.engine.checkpoints import Checkpoint, Checkpoints
from robirank.engine.decay import Decay
from robirank.engine.local import Wavefront
from robirank.engine.start import random_rows, some_random_rows
from robirank.engine.strata import DATA_ORDER, Plan, schedule, visiting_order, xi_turn, xi_waves
from robirank.engine.tasks import Report, Steps, XiReport, uv_task
from robirank.engine.ticks import from_json, to_json
from robirank.engine.worker import Job, PartWorker
from robirank.latent.penalty import row_weights
from robirank.storage.folder import DamagedFileError, Folder, load_tensors

# ------------------------------------------------------------------------------ start, decay


@given(st.integers(1, 60_000), st.integers(1, 5), st.integers(0, 99))
def test_some_rows_are_those_of_all(n, d, seed):
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(n)[: rng.integers(0, 30)].astype(np.int32) for _ in range(3)]
    whole = random_rows([seed, 1], n, d)
    for rows, found in zip(chosen, some_random_rows([seed, 1], n, d, chosen), strict=True):
        assert_array_equal(found, whole[rows])


def test_rows_have_length_about_one():
    assert_allclose(np.linalg.norm(random_rows([0, 0], 5000, 64), axis=1).mean(), 1.0, atol=0.01)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=50), st.floats(0.3, 1.0))
def test_decay_is_the_rows_weight_by_its_records(counts, exponent):
    counts = np.array(counts)
    expected = 0.3 * row_weights(counts, exponent) / np.maximum(counts, 1)
    found = Decay.of_counts(0.3, exponent, counts).of(counts)
    assert_allclose(found, expected, rtol=1e-5)


# ------------------------------------------------------------------------------ orders


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 99))
def test_threads_see_every_task_when_it_is_free(parts, n_threads, seed):
    order, lock, log = Wavefront(parts), threading.Lock(), []
    rng = np.random.default_rng(seed)
    pauses = rng.exponential(1e-4, (parts, parts))

    def work():
        while place := order.take():
            with order.doing(place[1]):
                with lock:
                    log.append(("begin", *place))
                threading.Event().wait(pauses[place[0], place[1]])
                with lock:
                    log.append(("end", *place))

    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    steps = list(schedule(parts))
    assert sorted(e[1:] for e in log if e[0] == "begin") == [
        (step, part, block) for step in range(parts) for part, block in sorted(steps[step])
    ]
    for kind in (2, 3):  # every part, and every block, sees its tasks one by one and in order
        for number in range(parts):
            own = [e for e in log if e[kind] == number]
            assert [e[1] for e in own] == [s for s in range(parts) for _ in range(2)]
            assert [e[0] for e in own] == ["begin", "end"] * parts


def test_a_task_that_fails_stops_the_others():
    order = Wavefront(3)
    _, part, _ = order.take()
    with pytest.raises(ZeroDivisionError), order.doing(part):
        raise ZeroDivisionError
    assert order.take() is None


def test_a_wish_to_stop_is_heard():
    order = Wavefront(3)
    assert order.take(lambda: True) is None
    assert order.take() is None


@given(st.integers(0, 5000), st.integers(1, 7))
def test_turns_and_waves_cover_every_user_once(n_users, of):
    seen = [u for turn in range(of) for w in xi_waves(n_users, turn, of) for u in range(n_users)[w]]
    assert seen == list(range(n_users))
    turns = [xi_turn(n_users, turn, of) for turn in range(of)]
    assert all(a.stop == b.start for a, b in pairwise(turns))


def test_visits_begin_with_the_own_block():
    assert [visiting_order(p, 3) for p in range(3)] == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]


def test_the_order_of_the_data():
    assert_array_equal(Plan(3, DATA_ORDER, 7, 2).order, np.arange(7))


# ------------------------------------------------------------------------------ folders


def test_a_folder_gives_back_what_was_written(tmp_path):
    folder = Folder(tmp_path)
    arrays = {"V": np.ones((3, 2), np.float32), "users": np.arange(4, dtype=np.int32)}
    entry = folder.write_tensors("a.safetensors", arrays)
    for found in (
        load_tensors(folder.read_bytes(entry)),
        load_file(tmp_path / "a.safetensors"),
    ):
        assert_array_equal(found["V"], arrays["V"])
        assert_array_equal(found["users"], arrays["users"])
    assert folder.names() == ["a.safetensors"]
    folder.remove("a.safetensors")
    folder.remove("a.safetensors")
    with pytest.raises(DamagedFileError, match="is missing"):
        folder.read_bytes(entry)


def test_a_folder_in_a_store(s3):
    folder = Folder(f"{s3}/things")
    assert folder.names() == []
    entry = folder.write_bytes("one", b"text")
    assert (folder.names(), folder.size("one"), folder.size("two")) == (["one"], 4, None)
    assert folder.read_bytes(entry) == b"text"
    folder.remove("one")
    assert folder.names() == []


def test_slices_of_wider_arrays_are_written_as_they_look(tmp_path):
    wide = np.arange(12, dtype=np.float32).reshape(3, 4)
    entry = Folder(tmp_path).write_tensors("a", {"V": wide[:, :2]})
    assert_array_equal(load_tensors(Folder(tmp_path).read_bytes(entry))["V"], wide[:, :2])


@pytest.mark.parametrize(
    ("change", "message"), [(b"", "has 0 bytes, 4 were written"), (b"texT", "checksum is wrong")]
)
def test_damage_is_found(tmp_path, change, message):
    entry = Folder(tmp_path).write_bytes("a", b"text")
    (tmp_path / "a").write_bytes(change)
    with pytest.raises(DamagedFileError, match=message):
        Folder(tmp_path).read_bytes(entry)


# ------------------------------------------------------------------------------ checkpoints


def make_checkpoint(folder, tick):
    entries = [folder.write_bytes(f"{kind}-{tick:09d}-0", b"x") for kind in "abc"]
    return Checkpoint(tick, 1, *[[e] for e in entries], 0, [None, ["Report", 1, 0.1, 0]], {"a": 1})


def test_the_newest_whole_checkpoint_comes_first(tmp_path):
    folder = Folder(tmp_path)
    checkpoints = Checkpoints(folder, "run")
    made = [make_checkpoint(folder, tick) for tick in (3, 5, 12)]
    for checkpoint in made:
        checkpoints.write(checkpoint)
    assert list(checkpoints.newest_first()) == made[:0:-1]  # two are kept
    assert not [name for name in folder.names() if "-000000003" in name]
    path = tmp_path / "checkpoint-000000012.json"
    path.write_bytes(path.read_bytes().replace(b"Report", b"report"))
    with pytest.warns(RuntimeWarning, match="the one before is tried"):
        assert list(checkpoints.newest_first()) == [made[1]]


def test_checkpoints_of_another_run_are_refused(tmp_path):
    folder = Folder(tmp_path)
    Checkpoints(folder, "one").write(make_checkpoint(folder, 3))
    with pytest.raises(ValueError, match="belongs to another run"):
        list(Checkpoints(folder, "other").newest_first())


@pytest.mark.parametrize(
    "result", [None, Report(3, 0.1, 2), XiReport(5, 1 / 3, -0.7), (0.1, 2.0**-1060)]
)
def test_results_go_through_json_to_the_last_bit(result):
    assert from_json(json.loads(json.dumps(to_json(result)))) == result


# ------------------------------------------------------------------------------ workers


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    data = rr.make_interactions(60, 37, 400, random_state=0)
    cut = rr.partition(data, tmp_path_factory.mktemp("data"), parts=4, random_state=0)
    decay = Decay(0.1, 0.5, 1.0)
    worker = PartWorker(Job(5, 7, "binary", decay, decay), cut, range(4), _core.instruction_set())
    return worker


def rows_in(worker, cargo, epoch):
    """V in the order of the data."""
    plan = Plan(7, epoch, 37, 4)
    return np.concatenate([V for V, _ in cargo])[plan.position]


def test_blocks_begin_with_the_rows_of_all(worker):
    blocks = worker.start(range(4))
    assert_array_equal(rows_in(worker, blocks, 0), random_rows([7, 1], 37, 5))
    U = random_rows([7, 0], 60, 5)
    for part in worker.parts.values():
        idle = np.diff(part.indptr) == 0
        assert_array_equal(part.U[~idle, :5], U[part.users[~idle]])
        assert not part.U[idle].any()


@pytest.mark.parametrize("next_epoch", [1, 2, DATA_ORDER])
def test_blocks_in_pieces_are_the_blocks_of_the_next_epoch(worker, tmp_path, next_epoch):
    blocks = worker.start(range(4))
    V = rows_in(worker, blocks, 0)
    pieces = [worker.split(b, 0, next_epoch, blocks[b]) for b in range(4)]
    plan = Plan(7, next_epoch, 37, 4)
    for block in range(4):
        items = worker._items(next_epoch, block)
        rows, sums = np.empty((len(items), 5), np.float32), np.empty(len(items), np.float32)
        worker._join(items, 0, [pieces[old][block] for old in range(4)], rows, sums)
        assert_array_equal(rows, V[plan.order[plan.bounds[block] : plan.bounds[block + 1]]])


def test_what_is_saved_is_restored(worker, tmp_path):
    folder = Folder(tmp_path)
    (block, *_) = worker.start(range(4))
    steps = Steps(5, 4, 0.2, 0.1, 64)
    (report, receipt), after = worker.uv(0, 0, 0, 0, uv_task, steps, 1.0, [True], block)
    assert report.draws > 0
    assert receipt.bytes_in == receipt.bytes_moved == receipt.bytes_out == 4 * 6 * len(block[0])
    entries = worker.save(folder, {0: ("u", "s")})
    (saved,) = worker.save_block(folder, "b", after)
    U = worker.parts[0].U.copy()
    worker.start([])
    assert (worker.parts[0].U != U).any()
    worker.restore(folder, {0: tuple(entries)})
    assert_array_equal(worker.parts[0].U, U)
    _, again = worker.restore_block(folder, saved)
    assert_array_equal(again[0], after[0])
    assert_array_equal(again[1], after[1])
