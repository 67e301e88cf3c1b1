"""A fit on a Ray cluster: the same solvers and the same loop, on the workers of a cluster."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from scipy.sparse import issparse

from robirank.data.interactions import Interactions
from robirank.data.partition_sources import InMemory
from robirank.data.partitions import Partitions, PartitionsError, open_partitions, write_parts
from robirank.data.records import Weighting, as_records
from robirank.engine.config import RayConfig
from robirank.engine.ray.actors import ClusterError, connect, disconnect
from robirank.engine.ray.driver import ClusterEngine
from robirank.engine.ray.run_folder import check_run_folder
from robirank.engine.ray.worker import Job
from robirank.latent.factors.sharded import ShardedManifest, ShardedModel
from robirank.latent.solvers import SOLVERS
from robirank.latent.solvers.problem import Problem, TableShape
from robirank.latent.solvers.start import some_random_rows
from robirank.latent.train.fit import FitResult, check_validation, title
from robirank.latent.train.loop import Loop
from robirank.latent.train.options import FitOptions
from robirank.latent.train.progress import Progress
from robirank.latent.train.request import Request
from robirank.latent.train.store import fingerprint
from robirank.latent.train.validation import finite_task, validate_on_engine
from robirank.storage.folder import FileEntry, Folder
from robirank.storage.manifest import MANIFEST, read_manifest, write_manifest

_SHARD = r"(users|items)-\d{5}-[0-9a-f]{8}-\d{6}\.safetensors"  # as workers name them


@contextlib.contextmanager
def open_cluster(request: Request, data: Any, options: FitOptions) -> Iterator[ClusterTraining]:
    """Open the tables of a fit on a cluster.

    Tables are cut into parts in the run directory first. With ``engine="ray"`` that directory is
    temporary, and the factors come into memory.
    """
    options.refuse(
        "on a cluster",
        checkpoint="a RayConfig keeps checkpoints in its run_dir",
        checkpoint_minutes="RayConfig has checkpoint_seconds",
    )
    with contextlib.ExitStack() as stack:
        temporary = request.engine == "ray"
        config = _temporary_config(request, options, stack) if temporary else request.engine
        check_run_folder(Folder(config.run_dir))
        partitions = _open(data, request, Folder(config.run_dir))
        validation = _open_validation(options.validation, data, partitions, config)
        yield ClusterTraining(request, options, config, partitions, validation)


class ClusterTraining:
    """See `robirank.latent.train.fit.Training`; the tables stay in their files."""

    records: None = None
    validation: None = None

    def __init__(
        self,
        request: Request,
        options: FitOptions,
        config: RayConfig,
        partitions: Partitions,
        validation: Partitions | None,
    ) -> None:
        self._request, self._options, self._config = request, options, config
        self._partitions, self._held_out = partitions, validation
        self.shape = TableShape.of_partitions(partitions, request.weighting)

    def saved_regularization(self) -> None:
        """A cluster takes λ from the table's shape, so a checkpoint need not say it."""

    def run(self, problem: Problem) -> FitResult:
        """Train to the end, on the workers of the cluster."""
        request, options, config = self._request, self._options, self._config
        temporary = request.engine == "ray"
        with contextlib.ExitStack() as stack:
            if connect(config.address, config.workers):
                stack.callback(disconnect)
            engine = ClusterEngine(
                config,
                make_job(problem, request.weighting, self._partitions, self._held_out),
                problem.sizes,
                run=_run_name(request, options, self._partitions, self._held_out),
                resume=options.resume,
                temporary=temporary,
            )
            stack.callback(engine.close)
            solver = SOLVERS[problem.solver].make(problem, engine)
            store = ClusterStore(engine, request, problem, self._partitions, in_memory=temporary)
            workers = f", {len(engine.workers.members)} workers"
            loop = Loop(problem, solver, store, options, title(request, problem, workers))
            factors = loop.run()
        ids = self._partitions.user_ids(), self._partitions.item_ids()
        counts = self._partitions.item_counts().astype(np.int32)
        return FitResult(factors, loop.progress, problem, *ids, counts)


def make_job(
    problem: Problem,
    weighting: Weighting,
    partitions: Partitions,
    validation: Partitions | None = None,
) -> Job:
    """What the workers must know to train."""
    return Job(
        problem.factors,
        problem.seed,
        weighting,
        problem.penalty.user_decay,
        problem.penalty.item_decay,
        some_random_rows,
        partitions,
        validation,
    )


def _temporary_config(
    request: Request, options: FitOptions, stack: contextlib.ExitStack
) -> RayConfig:
    options.refuse('with engine="ray"', resume="a RayConfig keeps checkpoints")
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="robirank-"))
    workers = min(request.parts, os.cpu_count() or 1)
    return RayConfig(folder, address=os.environ.get("RAY_ADDRESS"), workers=workers)


def _open(data: Any, request: Request, run_dir: Folder) -> Partitions:
    if isinstance(data, Partitions):
        return open_partitions(data.folder.url)  # are they still whole?
    if isinstance(data, str | os.PathLike):
        return open_partitions(data)
    if issparse(data):
        data = Interactions.from_matrix(data)
    if not isinstance(data, Interactions):
        raise TypeError(
            "a cluster trains on Partitions, the path or URL of some, Interactions or a sparse "
            f"matrix; got {type(data).__name__}"
        )
    run_dir.make("data")
    folder = run_dir.sub("data", PartitionsError)
    return write_parts(folder, InMemory(data), request.parts, request.seed)


def _open_validation(
    validation: Any, data: Any, partitions: Partitions, config: RayConfig
) -> Partitions | None:
    """Held-out records of the same users, in the same parts."""
    if validation is None:
        return None
    if isinstance(validation, str | os.PathLike):
        validation = open_partitions(validation)
    known = data if isinstance(data, Interactions) or issparse(data) else partitions
    in_files = isinstance(validation, Partitions)
    n_records = (
        validation.n_records if in_files else as_records(validation, name="validation").n_records
    )
    check_validation(validation, n_records, known)
    if in_files and validation.cut == partitions.cut:
        return validation
    if issparse(validation):
        validation = Interactions.from_matrix(validation)
    elif in_files:
        validation = validation.interactions()
    run_dir = Folder(config.run_dir)
    run_dir.make("validation")
    folder = run_dir.sub("validation", PartitionsError)
    return write_parts(folder, InMemory(validation), *partitions.cut)


def _run_name(
    request: Request, options: FitOptions, partitions: Partitions, validation: Partitions | None
) -> str:
    data = [None if p is None else p.fingerprint() for p in (partitions, validation)]
    return fingerprint(request, data, options.watched, engine=None, parts=None)


class ClusterStore:
    """The factors of a fit on the workers of a cluster; see `robirank.latent.train.loop.Store`.

    The best factors so far are written as a sharded model, ``model`` in the run directory, which is
    whole at any time.
    """

    is_local = False
    whole_epochs = False  # checkpoints hold steps

    def __init__(
        self,
        engine: ClusterEngine,
        request: Request,
        problem: Problem,
        partitions: Partitions,
        *,
        in_memory: bool,
    ) -> None:
        self._engine, self._request, self._problem = engine, request, problem
        self._partitions, self._in_memory = partitions, in_memory
        self._kept: tuple[Folder, dict[str, list[FileEntry]]] | None = None

    def restore(self) -> Progress | None:
        """The progress that the engine's checkpoint had kept."""
        if not self._engine.progress:
            return None
        try:
            return Progress.read(self._engine.progress)
        except ValueError as error:
            raise ClusterError(f"the checkpoint cannot be used: {error}") from None

    def save(self, progress: Progress, *, final: bool = False) -> None:
        """Note the progress; the engine writes checkpoints between steps."""
        if not final:
            self._engine.begin_epoch(msgspec.to_builtins(progress))

    def is_finite(self) -> bool:
        """Whether all factors are finite."""
        return not self._engine.measure(finite_task, [None])["not_finite"]

    def factors(self) -> tuple[None, None]:
        """No process has all of them."""
        return None, None

    def validate(self, metric: str) -> float:
        """The validation measure of the factors."""
        return validate_on_engine(self._engine, metric)

    def keep(self, epoch: int) -> None:
        """Write the factors as the model."""
        self._write(*self._engine.write_model(epoch), epoch, epoch)

    def result(self, progress: Progress) -> Any:
        """The model that was written last: the best one, or now the last one."""
        if progress.best_epoch:
            folder, files = self._best(progress)
        else:
            folder, files = self._engine.write_model(progress.epoch)
        self._write(folder, files, progress.epoch, progress.best_epoch or progress.epoch)
        sharded = ShardedModel(folder.url, num_threads=self._request.num_threads)
        return sharded.factors() if self._in_memory else sharded

    def on_step(self, show: Any) -> None:
        """Show what the workers do."""
        self._engine.log.on_step = show

    def _best(self, progress: Progress) -> tuple[Folder, dict[str, list[FileEntry]]]:
        """The files of the best model, which this run or the one before it wrote.

        A run that was killed may have found a better one after its last checkpoint.
        """
        if self._kept is None:
            folder = Folder(self._request.engine.run_dir).sub("model")
            found = read_manifest(folder, MANIFEST, ShardedManifest)
            self._kept = folder, {"users": found.users, "items": found.items}
            progress.best_epoch = int(found.numbers["best_iter_"])
        return self._kept

    def _write(
        self, folder: Folder, files: dict[str, list[FileEntry]], n_iter: int, best_iter: int
    ) -> None:
        """Write what makes the files of a folder one model; it is written last."""
        self._kept = folder, files
        cut, item_ids = self._partitions, None
        ids = cut.item_ids()
        if ids is not None:
            item_ids = folder.write_arrays("item_ids.safetensors", ids.to_tensors("ids"))
        counts = {"item_counts": cut.item_counts().astype(np.int32)}
        numbers: dict[str, int | float | str] = {
            "n_iter_": n_iter,
            "best_iter_": best_iter,
            "solver_": self._problem.solver,
            "user_scale_": self._problem.penalty.users.scale,
            "regularization_": self._problem.penalty.regularization,
            "noise_level_": self._problem.noise_level,
        }
        manifest = ShardedManifest(
            model=self._request.model,
            params=_plain(self._request.params) | {"engine": "local"},
            numbers=numbers,
            shape=cut.shape,
            factors=self._request.factors,
            parts=cut.parts,
            part_seed=cut.seed,
            user_ids=cut.manifest.user_ids,
            item_ids=item_ids,
            item_counts=folder.write_arrays("item_counts.safetensors", counts),
            users=files["users"],
            items=files["items"],
        )
        write_manifest(folder, MANIFEST, manifest)
        named = {entry.name for entries in files.values() for entry in entries}
        folder.remove_matching(_SHARD, keep=named)


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters that a manifest can hold, as JSON has them."""
    found = {n: v.item() if isinstance(v, np.generic) else v for n, v in params.items()}
    kinds = (bool, int, float, str, type(None))
    return {name: value for name, value in found.items() if type(value) in kinds}
