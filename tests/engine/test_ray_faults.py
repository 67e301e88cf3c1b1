"""Whatever is lost on the way, the model is the undisturbed one."""

import contextlib
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from engine.clusters import PARTS, SETTINGS, Disturbance, kill_worker, on_ray, same_factors
from robirank import LatentRoBiRank, RayConfig
from robirank._workers import Workers
from robirank.data.user_items import as_user_items
from robirank.engine.interface import Sizes, task
from robirank.engine.memory import StrataMemory
from robirank.engine.ray.driver import ClusterEngine
from robirank.engine.ray.worker import Job
from robirank.engine.state import FromCounts, StateArray, weights, zeros
from robirank.engine.threads import ThreadEngine
from robirank.storage.tensor_file import ArraySpec

pytestmark = pytest.mark.ray


def lines_of(folder, what):
    lines = [json.loads(line) for line in (folder / "workers.jsonl").open()]
    return [line for line in lines if line["what"] == what]


@pytest.mark.parametrize(
    ("what", "times", "seconds"),
    [
        pytest.param("sweep", [6], 1e-6, id="in a (U,V)-step"),
        pytest.param("sweep", [6], 1000, id="before any checkpoint"),
        pytest.param("scan", [2], 1e-6, id="in a ξ-step"),
        pytest.param("checkpoint", [3], 1e-6, id="during a checkpoint"),
        pytest.param("sweep", [2, 9], 0.05, id="twice"),
    ],
)
def test_a_worker_is_killed(
    ray_cluster, partitions, undisturbed, tmp_path, monkeypatch, what, times, seconds
):
    disturbance = Disturbance(monkeypatch, what, times, kill_worker)
    with pytest.warns(RuntimeWarning, match="workers were lost"):
        model = on_ray(tmp_path, checkpoint_seconds=seconds).fit(partitions, show_progress=False)
    assert not disturbance.left
    same_factors(model, undisturbed)
    assert len(lines_of(tmp_path, "recovered")) == len(times)


def test_a_worker_is_killed_while_the_model_is_written(
    ray_cluster, partitions, undisturbed, tmp_path, monkeypatch
):
    disturbance = Disturbance(monkeypatch, "model", [1], kill_worker)
    with pytest.warns(RuntimeWarning, match="workers were lost"):
        model = on_ray(tmp_path).fit(partitions, show_progress=False)
    assert not disturbance.left
    same_factors(model, undisturbed)


def test_a_worker_is_killed_while_the_best_model_is_written(
    ray_cluster, data, validation, tmp_path, monkeypatch
):
    options = {"validation": validation, "metric": "recall@5", "show_progress": False}
    here = LatentRoBiRank(parts=PARTS, **SETTINGS).fit(data, **options)
    disturbance = Disturbance(monkeypatch, "model", [1], kill_worker)
    model = on_ray(tmp_path).set_params(parts=PARTS)
    with pytest.warns(RuntimeWarning, match="workers were lost"):
        model.fit(data, **options)
    assert not disturbance.left
    same_factors(model, here)
    assert model.history_[-1]["recall@5"] == here.history_[-1]["recall@5"]


def halve(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        pytest.param("V-*", halve, id="torn block"),
        pytest.param("U-*", flip, id="flipped bit"),
        pytest.param("checkpoint-*", halve, id="torn manifest"),
        pytest.param("rho_weight-*", lambda path: path.unlink(), id="missing ρ-weights"),
    ],
)
def test_a_torn_checkpoint(
    ray_cluster, partitions, undisturbed, tmp_path, monkeypatch, kind, damage
):
    """The one before is used."""

    def tear(engine):
        damage(sorted((tmp_path / "checkpoints").glob(kind))[-1])
        kill_worker(engine)

    disturbance = Disturbance(monkeypatch, "sweep", [8], tear)
    with pytest.warns(RuntimeWarning, match="the one before is tried"):
        model = on_ray(tmp_path).fit(partitions, show_progress=False)
    assert not disturbance.left
    same_factors(model, undisturbed)


@contextlib.contextmanager
def mounted(folder, options):
    """A small disk of its own; only root can do that."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize(
    ("options", "killed"),
    [
        pytest.param("size=16k", True, id="full, and a worker killed"),
        pytest.param("ro", False, id="read-only"),
    ],
)
def test_checkpoints_cannot_be_written(
    ray_cluster, partitions, undisturbed, tmp_path, monkeypatch, options, killed
):
    """Training goes on; a worker that is lost then costs all the time, and nothing else."""
    disturbance = Disturbance(monkeypatch, "sweep", [8] if killed else [], kill_worker)
    with (
        mounted(tmp_path / "checkpoints", options),
        pytest.warns(RuntimeWarning, match="a checkpoint could not be written"),
    ):
        model = on_ray(tmp_path).fit(partitions, show_progress=False)
    assert not disturbance.left
    same_factors(model, undisturbed)


DRIVER = """
    import os, signal, sys
    from functools import partial
    import ray
    from engine.clusters import on_ray
    from robirank.engine.ray.driver import ClusterEngine
    import robirank.latent.train.cluster as home

    seen = []
    def events(what, engine):
        seen.append(what)
        if seen.count("sweep") == 7:
            os.kill(os.getpid(), signal.SIGKILL)

    home.ClusterEngine = partial(ClusterEngine, on_event=events)
    ray.init(address={address!r}, logging_level="error", log_to_driver=False)
    on_ray({run!r}).fit({data!r}, show_progress=False)
"""


def test_the_driver_is_killed_and_started_again(ray_cluster, partitions, undisturbed, tmp_path):
    address = ray_cluster.get_runtime_context().gcs_address
    script = DRIVER.format(address=address, run=str(tmp_path), data=partitions.folder.url)
    here = os.path.join(os.path.dirname(__file__), "..")  # noqa: PTH118, PTH120
    died = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": here},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert died.returncode == -9, died.stderr
    before = len(lines_of(tmp_path, "sweep"))
    assert before > 0
    model = on_ray(tmp_path).fit(partitions, show_progress=False, resume=True)
    same_factors(model, undisturbed)
    assert [h["epoch"] for h in model.history_] == [h["epoch"] for h in undisturbed.history_]
    assert [h["loss"] for h in model.history_] == [h["loss"] for h in undisturbed.history_]
    done = {line["step"] for line in lines_of(tmp_path, "sweep")[before:]}
    assert min(done) > 3  # it did not start from the beginning


def test_a_worker_that_always_dies_is_not_tried_for_ever(
    ray_cluster, partitions, tmp_path, monkeypatch
):
    monkeypatch.setattr("robirank.engine.ray.driver._MOST_LOSSES", 2)
    Disturbance(monkeypatch, "sweep", range(1, 100), kill_worker)
    with (
        pytest.warns(RuntimeWarning, match="workers were lost"),
        pytest.raises(RuntimeError, match="times without progress"),
    ):
        on_ray(tmp_path, checkpoint_seconds=1000).fit(partitions, show_progress=False)


# ------------------------------------------------------------------------------ any task


@task(reads=["V"], changes=["U", "seen"])
def add_items_task(part, blocks, position, settings):
    """Add the mean of all items to each user, and a number to each interaction."""
    for block in blocks:
        part["U"][:] += block["V"].mean(0)
    part["seen"][:] += settings
    return {"done": len(part.users)}


@task(changes=["U", "V"])
def meet_task(part, block, position, settings, key):
    """Move both, differently in each meeting."""
    part["U"][:] += np.float32(key % 97)
    block["V"][:] += part["U"].mean(0)
    return {"done": len(block)}


ANY_ARRAYS = [
    StateArray("U", "user", zeros, saved_as="user_factors"),
    StateArray("V", "item", FromCounts(np.float32), saved_as="item_factors"),
    StateArray("seen", "interaction", weights),
]


def run_any_tasks(engine):
    """Sweeps and scans in turns; the arrays of users and interactions change in both."""
    for epoch in range(3):
        engine.sweep(epoch, meet_task, [None] * engine.n_parts, lambda: False)
        engine.scan(add_items_task, [epoch + 1.0])


@pytest.mark.parametrize(("what", "times"), [("sweep", [5]), ("sweep", [11]), ("scan", [2])])
def test_what_a_scan_changes_survives_the_loss_of_a_worker(
    ray_cluster, data, partitions, tmp_path, what, times
):
    """Also arrays of users, of which a checkpoint after a scan once knew nothing."""
    ray_cluster.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # for the workers
    sizes = Sizes(*partitions.shape, partitions.shape[1], partitions.n_interactions)
    memory = StrataMemory(as_user_items(data), ANY_ARRAYS, parts=PARTS, seed=partitions.seed)
    with Workers(2) as workers:
        run_any_tasks(ThreadEngine(memory, sizes, workers))
    expected = memory.model()
    seen = []

    def disturb(event, engine):
        seen.append(event)
        if event == what and seen.count(what) in times:
            kill_worker(engine)

    config = RayConfig(tmp_path, workers=2, checkpoint_seconds=1e-6, worker_timeout=60.0)
    job = Job(ANY_ARRAYS, partitions.seed, "binary", partitions)
    engine = ClusterEngine(config, job, sizes, run="any", on_event=disturb)
    try:
        with pytest.warns(RuntimeWarning, match="workers were lost"):
            run_any_tasks(engine)
        folder, files = engine.write_model(0)
    finally:
        engine.close()
    for entry, users in zip(files["users"], partitions.part_users, strict=True):
        spec = {
            "user_factors": ArraySpec("F32", (len(users),)),
            "users": ArraySpec("I32", (len(users),)),
        }
        arrays = folder.read_arrays(entry, spec, "ids.")
        assert_array_equal(arrays["user_factors"], expected["user_factors"][users])
    assert len(lines_of(tmp_path, "recovered")) == 1
