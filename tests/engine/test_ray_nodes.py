"""Whole machines come and go; each is a process of its own on this one."""

import json
import os
import time
import warnings
from dataclasses import replace

import pytest

from engine.clusters import Disturbance, on_ray, same_factors
from robirank.engine.ray.actors import ClusterError

pytestmark = pytest.mark.ray


@pytest.fixture
def nodes(ray):
    """A head without workers, and two nodes with a place for one each."""
    from ray.cluster_utils import Cluster

    ray.shutdown()
    small = {"object_store_memory": 80_000_000}
    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "_system_config": quick, **small},
        )
        two = [cluster.add_node(num_cpus=1, **small) for _ in range(2)]
        cluster.wait_for_nodes()
        cluster.connect()
    yield cluster, two
    ray.shutdown()
    cluster.shutdown()


def members(folder):
    lines = [json.loads(line) for line in (folder / "workers.jsonl").open()]
    return [len(line["members"]) for line in lines if line["what"] == "workers"]


def wait_until_gone(pid):
    for _ in range(600):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError(f"process {pid} is still there")


@pytest.mark.parametrize("replaced", [True, False])
def test_a_node_is_lost(nodes, partitions, undisturbed, tmp_path, monkeypatch, replaced):
    cluster, (_, lost) = nodes

    def lose(engine):
        (worker,) = [m["pid"] for m in engine.workers.members if m["node"] == lost.node_id]
        cluster.remove_node(lost, allow_graceful=False)
        wait_until_gone(worker)  # it outlives its node by a moment, and the run is short
        if replaced:
            cluster.add_node(num_cpus=1, object_store_memory=80_000_000)

    disturbance = Disturbance(monkeypatch, "sweep", [6], lose)
    with pytest.warns(RuntimeWarning, match="workers were lost"):
        model = on_ray(tmp_path, worker_timeout=30.0 if replaced else 8.0).fit(
            partitions, show_progress=False
        )
    assert not disturbance.left
    same_factors(model, undisturbed)
    assert members(tmp_path) == [2, 2 if replaced else 1]


def test_the_last_node_is_lost(nodes, partitions, undisturbed, tmp_path, monkeypatch):
    cluster, two = nodes

    def lose(engine):
        pids = [member["pid"] for member in engine.workers.members]
        # No worker can start from here on, so that there is nothing to be patient for.
        impatient = replace(engine.workers._config, worker_timeout=8.0)
        monkeypatch.setattr(engine.workers, "_config", impatient)
        for node in two:
            cluster.remove_node(node, allow_graceful=False)
        for pid in pids:
            wait_until_gone(pid)

    Disturbance(monkeypatch, "sweep", [6], lose)
    model = on_ray(tmp_path)
    kept = rf"The run is kept in {tmp_path}.*, up to step \d+: .* resume=True to go on"
    with (
        pytest.warns(RuntimeWarning, match="workers were lost"),
        pytest.raises(ClusterError, match=rf"no node is left in the cluster .*\. {kept}"),
    ):
        model.fit(partitions, show_progress=False)
    monkeypatch.undo()
    for _ in two:
        cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    cluster.wait_for_nodes()
    same_factors(model.fit(partitions, show_progress=False, resume=True), undisturbed)
