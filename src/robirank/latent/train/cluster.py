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
from robirank.data.partitions import Partitions, PartitionsError, open_partitions, write_parts
from robirank.data.user_items import Weighting, as_user_items
from robirank.engine.config import RayConfig
from robirank.engine.ray.actors import ClusterError, connect, disconnect
from robirank.engine.ray.driver import ClusterEngine
from robirank.engine.ray.run_folder import check_run_folder
from robirank.engine.ray.worker import Job
from robirank.latent.factors.factors import Factors
from robirank.latent.factors.shards import ShardedManifest, open_shards
from robirank.latent.solvers import SOLVERS
from robirank.latent.solvers.problem import Problem, TableShape
from robirank.latent.solvers.strata import StartRows
from robirank.latent.train.cluster_features import ClusterFeatures
from robirank.latent.train.local import check_validation, checksum, fingerprint
from robirank.latent.train.loop import FitResult, Loop, Progress
from robirank.latent.train.request import FitOptions, Request
from robirank.latent.train.validation import finite_task, validate_on_engine
from robirank.storage.folder import FileEntry, Folder
from robirank.storage.manifest import MANIFEST, read_manifest, write_manifest

_SHARD = r"(users|items)-\d{5}-[0-9a-f]{8}-\d{6}\.safetensors"  # as workers name them


@contextlib.contextmanager
def open_cluster_fit(request: Request, data: Any, options: FitOptions) -> Iterator[ClusterFit]:
    """Open the tables of a fit on a cluster.

    Tables are cut into parts in the run directory first. With ``engine="ray"`` that directory is
    temporary, and the factors come into memory.
    """
    options.refuse(
        "on a cluster",
        checkpoint="a RayConfig keeps checkpoints in its run_dir",
        checkpoint_minutes="RayConfig has checkpoint_seconds",
        dislikes="engine='local' learns from them",
    )
    if options.has_features:
        options.refuse(
            "with features on a cluster",
            validation='set_params(engine="local") validates a fit with features',
        )
    with contextlib.ExitStack() as stack:
        temporary = request.engine == "ray"
        config = _temporary_config(request, options, stack) if temporary else request.engine
        check_run_folder(Folder(config.run_dir))
        features = None
        if options.has_features:
            features = ClusterFeatures(data, request, options)
            data = features.trained_interactions()
        partitions = _open(data, request, Folder(config.run_dir))
        validation = _open_validation(options.validation, data, partitions, config)
        yield ClusterFit(request, options, config, partitions, validation, features)


class ClusterFit:
    """See `robirank.latent.train.loop.Fit`; the tables stay in their files.

    The best factors so far are written as a sharded model, ``model`` in the run directory, which is
    whole at any time.
    """

    interactions: None = None
    validation: None = None
    whole_epochs = False  # checkpoints hold steps

    def __init__(
        self,
        request: Request,
        options: FitOptions,
        config: RayConfig,
        partitions: Partitions,
        validation: Partitions | None,
        features: ClusterFeatures | None = None,
    ) -> None:
        self._request, self._options, self._config = request, options, config
        self._partitions, self._held_out, self._features = partitions, validation, features
        if features is None:
            self.shape = TableShape.of_partitions(partitions, request.weighting)
        else:
            self.shape = TableShape.of_user_items(features.table)
        self._engine: ClusterEngine
        self._problem: Problem
        self._model_files: tuple[Folder, dict[str, list[FileEntry]]] | None = None

    def saved_search(self) -> None:
        """A cluster takes λ from the table's shape, so a checkpoint need not say it."""

    def run(self, problem: Problem) -> FitResult:
        """Train to the end, on the workers of the cluster."""
        self._problem, config, request = problem, self._config, self._request
        with contextlib.ExitStack() as stack:
            if connect(config.address, config.workers):
                stack.callback(disconnect)
            start = None if self._features is None else self._features.start(problem)
            self._engine = ClusterEngine(
                config,
                make_job(problem, request.weighting, self._partitions, self._held_out, start),
                problem.sizes,
                run=self._run_name(),
                resume=self._options.resume,
                temporary=request.engine == "ray",
            )
            stack.callback(self._engine.close)
            solver = SOLVERS[problem.solver].make(problem, self._engine)
            if self._features is not None:
                folder = Folder(config.run_dir).sub("centres")
                solver = self._features.solver(solver, self._engine, folder)
            workers = f", {len(self._engine.workers.members)} workers"
            return Loop(problem, solver, self, self._options, request.model, workers).run()

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
        return not self._engine.scan(finite_task, [None])["not_finite"]

    def factors(self) -> None:
        """No process has all factors."""

    def validate(self, metric: str) -> float:
        """The validation metric of the factors."""
        return validate_on_engine(self._engine, metric, self._problem.factors)

    def keep(self, epoch: int) -> None:
        """Write the factors as the model."""
        self._write(*self._engine.write_model(epoch), epoch, epoch)

    def result(self, progress: Progress) -> Factors:
        """The model that was written last: the best one, or now the last one.

        With features it is in the memory of this process alone.
        """
        if self._features is not None:
            return self._features.factors(self._engine)
        if progress.best_epoch:
            folder, files = self._best(progress)
        else:
            folder, files = self._engine.write_model(progress.epoch)
        self._write(folder, files, progress.epoch, progress.best_epoch or progress.epoch)
        _, factors = open_shards(folder.url)
        if self._request.engine == "ray":  # the folder is temporary
            return factors.with_rows(factors.users.rows, factors.items.rows)
        return factors

    def on_step(self, show: Any) -> None:
        """Show what the workers do."""
        self._engine.log.on_step = show

    def _best(self, progress: Progress) -> tuple[Folder, dict[str, list[FileEntry]]]:
        """The files of the best model, which this run or the one before it wrote.

        A run that was killed may have found a better one after its last checkpoint.
        """
        if self._model_files is None:
            folder = Folder(self._config.run_dir).sub("model")
            manifest = read_manifest(folder, MANIFEST, ShardedManifest)
            self._model_files = folder, {"users": manifest.users, "items": manifest.items}
            progress.best_epoch = int(manifest.numbers["best_iter_"])
        return self._model_files

    def _write(
        self, folder: Folder, files: dict[str, list[FileEntry]], n_iter: int, best_iter: int
    ) -> None:
        """Write what makes the files of a folder one model; it is written last."""
        self._model_files = folder, files
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

    def _run_name(self) -> str:
        tables = (self._partitions, self._held_out)
        data: list[Any] = [None if table is None else table.fingerprint() for table in tables]
        if self._features is not None:
            data.append(checksum(self._features.table))
        return fingerprint(self._request, data, self._options.watched, engine=None, parts=None)


def make_job(
    problem: Problem,
    weighting: Weighting,
    partitions: Partitions,
    validation: Partitions | None = None,
    start: StartRows | None = None,
) -> Job:
    """What the workers must know to train; they start from random rows by default."""
    start = start or StartRows.random(problem)
    declared = SOLVERS[problem.solver].make.arrays(problem, start)
    return Job(declared, problem.seed, weighting, partitions, validation)


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
    return write_parts(folder, data, request.parts, request.seed)


def _open_validation(
    validation: Any, data: Any, partitions: Partitions, config: RayConfig
) -> Partitions | None:
    """Held-out interactions of the same users, in the same parts."""
    if validation is None:
        return None
    if isinstance(validation, str | os.PathLike):
        validation = open_partitions(validation)
    table = data if isinstance(data, Interactions) or issparse(data) else partitions
    in_files = isinstance(validation, Partitions)
    read = validation if in_files else as_user_items(validation, name="validation")
    check_validation(validation, read.n_interactions, table)
    if in_files and validation.cut == partitions.cut:
        return validation
    if issparse(validation):
        validation = Interactions.from_matrix(validation)
    elif in_files:
        validation = validation.interactions()
    run_dir = Folder(config.run_dir)
    run_dir.make("validation")
    folder = run_dir.sub("validation", PartitionsError)
    return write_parts(folder, validation, *partitions.cut)


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters that a manifest can hold, as JSON has them."""
    values = {n: v.item() if isinstance(v, np.generic) else v for n, v in params.items()}
    kinds = (bool, int, float, str, type(None))
    return {name: value for name, value in values.items() if type(value) in kinds}
