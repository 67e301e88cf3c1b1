"""A fit on a Ray cluster: the same solvers and the same loop, on the workers of a cluster."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from scipy.sparse import issparse

from robirank.data.interactions import Interactions
from robirank.data.partition_sources import InMemory
from robirank.data.partitions import Partitions, PartitionsError, open_partitions, write_parts
from robirank.engine.config import RayConfig
from robirank.engine.ray.actors import ClusterError, connect, disconnect
from robirank.engine.ray.driver import ClusterEngine
from robirank.engine.ray.worker import Job
from robirank.latent.fit import Setup, read_validation, title
from robirank.latent.options import FitOptions
from robirank.latent.problem import Problem, Request
from robirank.latent.progress import Progress
from robirank.latent.retrieve.sharded import ShardedManifest, ShardedModel
from robirank.latent.solvers import SOLVERS, resolve_solver
from robirank.latent.start import some_random_rows
from robirank.latent.store import fingerprint
from robirank.latent.validation import finite_task, validate_on_engine
from robirank.storage.folder import FileEntry, Folder
from robirank.storage.manifest import MANIFEST, read_manifest, write_manifest


@contextlib.contextmanager
def cluster_setup(request: Request, data: Any, options: FitOptions) -> Iterator[Setup]:
    """Set up a fit on a cluster.

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
        partitions = _open(data, request, Folder(config.run_dir))
        validation = _open_validation(options.validation, data, partitions, config)
        problem = Problem.of_partitions(request, partitions)
        name = resolve_solver(request, *partitions.shape)
        settled = replace(request, epochs=request.epochs or SOLVERS[name].epochs)
        run = _run_name(request, options, partitions, validation)
        if connect(config.address, config.workers):
            stack.callback(disconnect)
        job = make_job(request, problem, partitions, validation)
        engine = ClusterEngine(
            config, job, problem.sizes, run=run, resume=options.resume, temporary=temporary
        )
        stack.callback(engine.close)
        solver = SOLVERS[name].make(request, problem, engine)
        store = ClusterStore(engine, request, problem, partitions, name, in_memory=temporary)
        yield Setup(
            settled,
            problem,
            name,
            solver,
            store,
            partitions.user_ids(),
            partitions.item_ids(),
            title(request, name, problem, f", {len(engine.workers.members)} workers"),
        )


def make_job(
    request: Request,
    problem: Problem,
    partitions: Partitions,
    validation: Partitions | None = None,
) -> Job:
    """What the workers must know to train."""
    return Job(
        request.factors,
        request.seed,
        request.weighting,
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
    folder = Folder(run_dir.sub("data").url, PartitionsError)
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
    read_validation(validation, known)
    if isinstance(validation, Partitions) and validation.cut == partitions.cut:
        return validation
    if issparse(validation):
        validation = Interactions.from_matrix(validation)
    elif isinstance(validation, Partitions):
        validation = validation.interactions()
    folder = Folder(Folder(config.run_dir).sub("validation").url, PartitionsError)
    return write_parts(folder, InMemory(validation), *partitions.cut)


def _run_name(
    request: Request, options: FitOptions, partitions: Partitions, validation: Partitions | None
) -> str:
    data = [None if p is None else p.fingerprint() for p in (partitions, validation)]
    return fingerprint(request, data, options.watched, engine=None, parts=None)


class ClusterStore:
    """The factors of a fit on the workers of a cluster; see `robirank.latent.loop.Store`.

    The best factors so far are written as a sharded model, ``model`` in the run directory, which is
    whole at any time.
    """

    whole_epochs = False  # checkpoints hold steps

    def __init__(
        self,
        engine: ClusterEngine,
        request: Request,
        problem: Problem,
        partitions: Partitions,
        solver: str,
        *,
        in_memory: bool,
    ) -> None:
        self._engine, self._request, self._problem = engine, request, problem
        self._partitions, self._solver, self._in_memory = partitions, solver, in_memory
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
        numbers: dict[str, int | float | str] = {
            "n_iter_": n_iter,
            "best_iter_": best_iter,
            "solver_": self._solver,
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
            users=files["users"],
            items=files["items"],
        )
        write_manifest(folder, MANIFEST, manifest)
        named = {entry.name for entries in files.values() for entry in entries}
        for name in folder.names():
            if re.match(r"(users|items)-\d{5}-", name) and name not in named:
                folder.remove(name)


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters that a manifest can hold, as JSON has them."""
    found = {n: v.item() if isinstance(v, np.generic) else v for n, v in params.items()}
    kinds = (bool, int, float, str, type(None))
    return {name: value for name, value in found.items() if type(value) in kinds}
