"""The Ray cluster: workers as actors, blocks of V through its object store.

The only module that imports Ray.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from robirank import _core
from robirank._checks import check_count, check_positive
from robirank.data.partitions import Partitions
from robirank.engine.worker import Cargo, Job, PartWorker, private_memory

__all__ = ["ClusterError", "Crew", "RayEngine", "WorkersLostError", "connect"]


_MORE_TRIES = 10  # workers that died before they said a word


class ClusterError(RuntimeError):
    """The cluster cannot do what is asked; the message says what would help."""


class WorkersLostError(RuntimeError):
    """Workers, or what they held, are gone; going back to a checkpoint helps."""


@dataclass(frozen=True)
class RayEngine:
    """Train on a Ray cluster: give it to a latent model as ``engine=``.

    Parameters
    ----------
    run_dir : path or URL
        Checkpoints, logs and the finished model go here. All machines must see it.
    address : str, optional
        Of the cluster, such as ``"auto"`` or ``"10.0.0.5:6379"``. By default a small one is
        started on this machine.
    workers : int, default=2
        Processes that train, with one core each. Their number does not change the result.
    checkpoint_seconds : float, default=10
        Between two checkpoints.
    patience : float, default=30
        Seconds to wait for workers that find no place in the cluster; then the others take over
        their parts.

    Examples
    --------
    >>> engine = RayEngine("runs/plays", workers=4)
    >>> engine.workers, engine.checkpoint_seconds
    (4, 10.0)
    """

    run_dir: str | os.PathLike[str]
    address: str | None = None
    workers: int = 2
    checkpoint_seconds: float = 10.0
    patience: float = 30.0

    def __post_init__(self) -> None:
        check_count("workers", self.workers)
        check_positive("checkpoint_seconds", self.checkpoint_seconds)
        check_positive("patience", self.patience)


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


def _check_reachable(address: str, timeout: float = 5.0) -> None:
    """Ray itself waits for minutes where nobody answers."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # "auto" and the like: Ray knows at once
    try:
        socket.create_connection((host, int(port)), timeout).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster answers at {address!r} ({error}); start one with `ray start --head`, "
            "or leave address=None to start one on this machine"
        ) from None


class _Shell:
    """The actor: empty at first, so that it can say who it is before it reads any data."""

    _worker: PartWorker

    def hello(self) -> dict[str, Any]:
        import ray

        import robirank

        return {
            "pid": os.getpid(),
            "node": ray.get_runtime_context().get_node_id(),
            "robirank": robirank.__version__,
            "instruction_sets": _core.instruction_sets(),
            "memory": private_memory(),
        }

    def open(
        self, job: Job, partitions: Partitions, parts: Sequence[int], instruction_set: str
    ) -> None:
        self._worker = PartWorker(job, partitions, parts, instruction_set)

    def do(self, method: str, *arguments: Any) -> Any:
        return getattr(self._worker, method)(*arguments)

    def many(self, method: str, *arguments: Any) -> Any:
        found = self.do(method, *arguments)
        return found[0] if len(found) == 1 else found  # Ray takes a single return as it is

    def xi(self, refs: Sequence[tuple[int, Any]], *arguments: Any) -> Any:
        return self._worker.xi(_Fetched(refs), *arguments)


class _Fetched:
    """Blocks out of the object store, one at a time; nothing is copied."""

    def __init__(self, refs: Sequence[tuple[int, Any]]) -> None:
        self._refs = refs

    def __iter__(self) -> Iterator[tuple[int, Cargo]]:
        import ray

        for number, ref in self._refs:
            yield number, ray.get(ref)


class Crew:
    """The workers of a run.

    Attributes
    ----------
    members : list of dict
        What each worker says of itself: pid, node, ….
    owner : list of int
        The worker of each part; neighbours stay together, because a block goes from a part to the
        one before it.
    """

    def __init__(self, engine: RayEngine, job: Job, partitions: Partitions) -> None:
        self._engine, self._job, self._partitions = engine, job, partitions
        self._actors: list[Any] = []
        self.members: list[dict[str, Any]] = []
        self.owner: list[int] = []

    def start(self) -> None:
        """Start as many workers as are wanted and find a place, and give them their parts."""
        ray = _ray()
        self._check_store()
        parts = self._partitions.parts
        wanted = min(self._engine.workers, parts)
        shell = ray.remote(_Shell).options(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")
        self._actors, self.members = _ready(shell, wanted, self._engine.patience)
        if not self._actors:
            self.stop()
            raise ClusterError(
                f"no worker could be started within {self._engine.patience:g} s; each needs one "
                f"free CPU, and the cluster has {ray.available_resources().get('CPU', 0):g} free"
            )
        if len(self._actors) < wanted:
            warnings.warn(
                f"{len(self._actors)} of {wanted} workers found a place; they train all parts",
                RuntimeWarning,
                stacklevel=2,
            )
        self._check_versions()
        n = len(self._actors)
        self.owner = [part * n // parts for part in range(parts)]
        instruction_set = self._common_instruction_set()
        self.get(
            [
                actor.open.remote(
                    self._job,
                    self._partitions,
                    [part for part in range(parts) if self.owner[part] == number],
                    instruction_set,
                )
                for number, actor in enumerate(self._actors)
            ]
        )

    def stop(self) -> None:
        """End all workers."""
        for actor in self._actors:
            _ray().kill(actor)
        self._actors, self.members = [], []

    def call(self, worker: int, method: str, *arguments: Any, returns: int = 1) -> Any:
        """Ask a worker for something; what comes back are references."""
        return self._actors[worker].do.options(num_returns=returns).remote(method, *arguments)

    def call_many(self, worker: int, method: str, *arguments: Any, returns: int) -> list[Any]:
        """Ask a worker for several things in one call; each gets its reference."""
        call = self._actors[worker].many.options(num_returns=returns)
        refs = call.remote(method, *arguments)
        return [refs] if returns == 1 else list(refs)

    def call_xi(self, worker: int, refs: Sequence[tuple[int, Any]], *arguments: Any) -> Any:
        """Ask for a ξ-step; the worker gets the blocks itself, one at a time."""
        return self._actors[worker].xi.remote(refs, *arguments)

    def get(self, refs: Sequence[Any]) -> list[Any]:
        """Wait for answers; an error of a worker is raised here, a lost one is a loss."""
        with _losses():
            return list(_ray().get(list(refs)))

    def _check_store(self) -> None:
        """V must fit thrice: as it was, as it becomes, and in pieces."""
        needed = 3 * 4 * (self._job.factors + 1) * self._partitions.shape[1]
        there = _ray().cluster_resources().get("object_store_memory", 0)
        if needed > there:
            raise ClusterError(
                f"the cluster's object stores have {there / 1e9:.1f} GB; the blocks of V need "
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
        """The best one that all workers have: sums must be the same bits everywhere."""
        sets = [member["instruction_sets"] for member in self.members]
        return [name for name in sets[0] if all(name in other for other in sets)][-1]


@contextlib.contextmanager
def _losses() -> Iterator[None]:
    exceptions = _ray().exceptions
    lost = (
        exceptions.RayActorError,
        exceptions.ObjectLostError,
        exceptions.WorkerCrashedError,
        exceptions.NodeDiedError,
        exceptions.OutOfMemoryError,
        exceptions.RaySystemError,
    )
    try:
        yield
    except exceptions.RayTaskError as error:
        if isinstance(error.cause, lost):
            raise WorkersLostError(_first_line(error.cause)) from None
        raise error.cause from None
    except lost as error:
        raise WorkersLostError(_first_line(error)) from None


def _ready(shell: Any, wanted: int, patience: float) -> tuple[list[Any], list[dict[str, Any]]]:
    """Workers that answer in time, and what they say; one on a dying node is tried elsewhere."""
    ray = _ray()
    waiting = {actor.hello.remote(): actor for actor in [shell.remote() for _ in range(wanted)]}
    actors, members, trouble, tries = [], [], "", wanted + _MORE_TRIES
    end = time.monotonic() + patience
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
                    again = shell.remote()
                    waiting[again.hello.remote()] = again
    for actor in waiting.values():
        ray.kill(actor)
    if not actors and trouble:
        raise ClusterError(f"no worker could be started: {trouble}")
    return actors, members


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
