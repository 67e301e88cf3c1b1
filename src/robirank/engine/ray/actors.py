"""Workers as Ray actors; blocks go through Ray's object store.

The only module that imports Ray.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from typing import Any

from robirank import _core
from robirank._callers import warn
from robirank.engine.config import RayConfig
from robirank.engine.ray.worker import Job, PartWorker, Payload, private_memory
from robirank.errors import RobirankError

_MORE_TRIES = 10  # workers that died before they answered


class ClusterError(RobirankError, RuntimeError):
    """The cluster cannot do what is asked; the message says what would help."""


class WorkersLostError(RuntimeError):
    """Workers, or what they held, are gone; going back to a checkpoint helps."""


def connect(address: str | None, workers: int) -> bool:
    """Connect to a cluster, or start one here; whether it was started here.

    A process that is connected already stays so.
    """
    ray = _ray()
    if ray.is_initialized():
        return False
    quiet: dict[str, Any] = {"logging_level": "warning", "log_to_driver": False}
    if address is None:
        try:
            ray.init(address="local", num_cpus=workers, **quiet)
        except Exception as error:  # Ray has no class for it
            ray.shutdown()
            raise ClusterError(f"Ray could not be started on this machine: {error}") from None
        return True
    _check_reachable(address)
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ClusterError(f"cannot join the Ray cluster at {address!r}: {error}") from None
    return False


def disconnect() -> None:
    """Leave the cluster; one that was started here ends."""
    _ray().shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ImportError(
            "training on a cluster needs the package ray: pip install 'robirank[ray]'"
        ) from None
    return ray


def _check_reachable(address: str) -> None:
    """Raise an error where nobody answers at an address; Ray itself waits for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # "auto" and the like: Ray knows at once
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster answers at {address!r} ({error}); start one with `ray start --head`, "
            "or leave address=None to start one on this machine"
        ) from None


class _Actor:
    """A worker as Ray sees it: empty at first, so that it answers before it reads any data."""

    _worker: PartWorker

    def describe(self) -> dict[str, Any]:
        import ray

        import robirank

        return {
            "pid": os.getpid(),
            "node": ray.get_runtime_context().get_node_id(),
            "robirank": robirank.__version__,
            "instruction_sets": _core.instruction_sets(),
            "memory": private_memory(),
        }

    def open(self, job: Job, parts: Sequence[int], instruction_set: str) -> None:
        self._worker = PartWorker(job, parts, instruction_set)

    def call(self, method: str, returns: int | None, *arguments: Any) -> Any:
        results = getattr(self._worker, method)(*arguments)
        return results[0] if returns == 1 else results  # Ray takes a single return as it is


def fetch(ref: Any) -> Payload:
    """A block out of the object store; nothing is copied."""
    return _ray().get(ref)


class WorkerGroup:
    """The workers of a run.

    ``members`` has process id, node, version and the like of each worker, and ``owner`` the worker
    of each part; neighbours stay together, because a block goes from a part to the one before it.
    """

    def __init__(self, config: RayConfig, job: Job) -> None:
        self._config, self._job = config, job
        self._actors: list[Any] = []
        self.members: list[dict[str, Any]] = []
        self.owner: list[int] = []

    def start(self) -> None:
        """Start as many workers as are wanted and find a place, and give them their parts."""
        ray = _ray()
        self._wait_for_a_node()
        self._check_store()
        parts, timeout = self._job.data.parts, self._config.worker_timeout
        n_wanted = min(self._config.workers, parts)
        options = {"num_cpus": 1, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        actor = ray.remote(_Actor).options(**options)
        try:
            self._actors, self.members = _ready(actor, n_wanted, timeout)
        except ClusterError:
            self._wait_for_a_node()  # which says so where none is left
            raise
        if not self._actors:
            self.stop()
            self._wait_for_a_node()
            raise ClusterError(
                f"no worker could be started within {timeout:g} s; each needs one "
                f"free CPU, and the cluster has {ray.available_resources().get('CPU', 0):g} free"
            )
        if len(self._actors) < n_wanted:
            warn(
                f"{len(self._actors)} of {n_wanted} workers found a place; they train all parts",
                RuntimeWarning,
            )
        self._check_versions()
        n = len(self._actors)
        self.owner = [part * n // parts for part in range(parts)]
        instruction_set = self._common_instruction_set()
        owned = [[part for part in range(parts) if self.owner[part] == w] for w in range(n)]
        opened = [
            actor.open.remote(self._job, owned[worker], instruction_set)
            for worker, actor in enumerate(self._actors)
        ]
        self.get(opened)

    def stop(self) -> None:
        """End all workers."""
        for actor in self._actors:
            _ray().kill(actor)
        self._actors, self.members = [], []

    def call(self, worker: int, method: str, *arguments: Any, returns: int | None = None) -> Any:
        """Ask a worker for something: a reference, or a list of as many as it ``returns``."""
        call = self._actors[worker].call.options(num_returns=returns or 1)
        refs = call.remote(method, returns, *arguments)
        return [refs] if returns == 1 else refs

    def get(self, refs: Sequence[Any]) -> list[Any]:
        """Wait for answers.

        The error of a worker is raised here; a worker that is gone raises `WorkersLostError`.
        """
        ray, exceptions = _ray(), _ray().exceptions
        lost = (
            exceptions.RayActorError,
            exceptions.ObjectLostError,
            exceptions.WorkerCrashedError,
            exceptions.NodeDiedError,
            exceptions.OutOfMemoryError,
            exceptions.RaySystemError,
        )
        try:
            return list(ray.get(list(refs)))
        except exceptions.RayTaskError as error:
            if isinstance(error.cause, lost):
                raise WorkersLostError(_first_line(error.cause)) from None
            raise error.cause from None
        except lost as error:
            raise WorkersLostError(_first_line(error)) from None

    def _wait_for_a_node(self) -> None:
        """Wait for a node that could train: lost ones may be replaced in a while."""
        patience = time.monotonic() + self._config.worker_timeout
        while not _ray().cluster_resources().get("CPU", 0):
            if time.monotonic() > patience:
                raise ClusterError("no node is left in the cluster that could train")
            time.sleep(0.2)

    def _check_store(self) -> None:
        """Raise an error unless the object stores can hold the items three times.

        Between two epochs there are the blocks of the first, those of the second, and the pieces
        that the second are made of.
        """
        needed = 3 * self._job.bytes_of_item * self._job.data.n_items
        room = _ray().cluster_resources().get("object_store_memory", 0)
        if needed > room:
            raise ClusterError(
                f"the cluster's object stores have {room / 1e9:.1f} GB; the blocks of items need "
                f"{needed / 1e9:.1f} GB. Add nodes, or start them with more --object-store-memory"
            )

    def _check_versions(self) -> None:
        from robirank import __version__

        for member in self.members:
            if member["robirank"] != __version__:
                self.stop()
                raise ClusterError(
                    f"the worker on node {member['node'][:8]} has robirank {member['robirank']}, "
                    f"this process has {__version__}; install the same version everywhere"
                )

    def _common_instruction_set(self) -> str:
        """The best instruction set that all workers have: bits must be the same everywhere."""
        sets = [member["instruction_sets"] for member in self.members]
        return [name for name in sets[0] if all(name in names for names in sets)][-1]


def _ready(actor_class: Any, wanted: int, timeout: float) -> tuple[list[Any], list[dict[str, Any]]]:
    """Workers that answer in time, and what they say; one on a dying node is tried elsewhere."""
    ray = _ray()
    fresh = [actor_class.remote() for _ in range(wanted)]
    waiting = {actor.describe.remote(): actor for actor in fresh}
    actors, members, trouble, tries = [], [], "", wanted + _MORE_TRIES
    end = time.monotonic() + timeout
    while waiting and (left := end - time.monotonic()) > 0:
        done, _ = ray.wait(list(waiting), timeout=left)
        for ref in done:
            actor = waiting.pop(ref)
            try:
                members.append(ray.get(ref))
                actors.append(actor)
            except ray.exceptions.RayError as error:
                trouble = str(error)
                if "creation task" not in trouble and tries > wanted:
                    tries -= 1
                    time.sleep(1.0)
                    again = actor_class.remote()
                    waiting[again.describe.remote()] = again
    for actor in waiting.values():
        ray.kill(actor)
    if not actors and trouble:
        raise ClusterError(f"no worker could be started: {trouble}")
    return actors, members


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
