"""Fit a latent model on a cluster: what `LatentModel.fit` does with Ray as its engine."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from scipy.sparse import issparse

from robirank.data.interactions import Interactions
from robirank.data.partitions import Partitions, open_partitions, partition
from robirank.engine.cluster import ClusterEngine
from robirank.engine.decay import Decay
from robirank.engine.ray import RayEngine, connect, disconnect
from robirank.engine.worker import Job
from robirank.latent.penalty import ITEM_EXPONENT, USER_EXPONENT
from robirank.latent.retrieve.sharded import ShardedModel, write_manifest
from robirank.latent.solvers.stratified import StratifiedSolver
from robirank.latent.training import Training
from robirank.storage.folder import Folder

if TYPE_CHECKING:
    from robirank.latent.base import LatentModel

__all__ = ["fit_on_cluster", "make_job"]


def fit_on_cluster(
    model: LatentModel,
    data: Any,
    refused: Mapping[str, Any],
    *,
    resume: bool,
    time_limit: float | None,
    **comfort: Any,
) -> None:
    """Train where the records are, and leave the factors there: in files, a part each.

    With the engine "ray" there is no such place: the files are temporary, and the factors come
    into memory.

    Parameters
    ----------
    model : LatentModel
        With the engine "ray" or a `RayEngine`.
    data : Partitions, path or URL; or a table, which is cut into parts first
    refused : mapping
        Options that need the factors in one place; any that is set is an error.
    resume, time_limit, comfort
        See `LatentModel.fit`.
    """
    for name, value in refused.items():
        if value is not None:
            raise ValueError(f"{name} must be left out on a cluster, where no process has all of U")
    comfort |= {"time_limit": time_limit}
    if model.engine != "ray":
        _fit(model, model.engine, data, resume, comfort)
        return
    if resume:
        raise ValueError('resume must be left out with engine="ray"; a RayEngine keeps checkpoints')
    with tempfile.TemporaryDirectory(prefix="robirank-") as folder:
        workers = min(model.parts, os.cpu_count() or 1)
        settings = RayEngine(folder, address=os.environ.get("RAY_ADDRESS"), workers=workers)
        _fit(model, settings, data, resume, comfort)
        model.user_factors, model.item_factors = model.sharded_.factors()
        del model.sharded_


def _fit(
    model: LatentModel, settings: RayEngine, data: Any, resume: bool, comfort: Mapping[str, Any]
) -> None:
    partitions = _open(data, model, settings)
    job = make_job(model, partitions)
    run = _run_name(model, job, partitions)
    started = connect(settings.address, settings.workers)
    engine = None
    try:
        engine = ClusterEngine(settings, job, partitions, run=run, resume=resume)
        training, solver = _training(model, engine, partitions, comfort)
        sharded = training.run()
    finally:
        if engine is not None:
            engine.close()
        if started:
            disconnect()
    _take(model, sharded, training, solver, partitions)


def _open(data: Any, model: LatentModel, settings: RayEngine) -> Partitions:
    if isinstance(data, Partitions):
        return open_partitions(data.folder.url)  # whole still
    if isinstance(data, str) or hasattr(data, "__fspath__"):
        return open_partitions(data)
    if issparse(data):
        data = Interactions.from_matrix(data)
    if not isinstance(data, Interactions):
        raise TypeError(
            "a cluster trains on Partitions, the path or URL of some, Interactions or a sparse "
            f"matrix; got {type(data).__name__}"
        )
    folder = Folder(settings.run_dir).sub("data").url
    return partition(data, folder, parts=model.parts, random_state=model.random_state)


def make_job(model: LatentModel, partitions: Partitions) -> Job:
    """What the workers must know to train a model."""
    reg = model._reg(partitions.shape[1])
    lengths = partitions.manifest["lengths"]
    return Job(
        model.factors,
        model._seed(),
        model.weighting,
        Decay.scaled(reg, USER_EXPONENT, *lengths),
        Decay.of_counts(reg, ITEM_EXPONENT, partitions.item_counts()),
    )


def _run_name(model: LatentModel, job: Job, partitions: Partitions) -> str:
    settings = model.get_params(deep=False) | {"class": type(model).__name__}
    settings |= {"random_state": job.seed, "num_threads": None, "engine": None, "parts": None}
    return json.dumps([settings, partitions.fingerprint()], sort_keys=True, default=str)


def _training(
    model: LatentModel,
    engine: ClusterEngine,
    partitions: Partitions,
    comfort: Mapping[str, Any],
) -> tuple[Training, StratifiedSolver]:
    solver = model._on_engine(engine, model._epochs(), 1.0)
    mean_weight = partitions.manifest["mean_weight"][model.weighting]

    def write() -> ShardedModel:
        folder, files = engine.write_model()
        write_manifest(folder, model, partitions, files, solver.epoch_number)
        return ShardedModel(folder.url)

    def begin_epoch() -> None:
        done = {"epoch": solver.epoch_number, "epochs": solver.epochs}
        engine.begin_epoch(done | training.progress())

    def watch(show: Callable[..., None]) -> None:
        engine.watch.on_tick = show

    training = Training(
        model,
        solver,
        title=f"{type(model).__name__} (sgd, {len(engine.crew.members)} workers)",
        advice=model._advice(),
        records=partitions.n_records,
        idle_loss=model._idle_loss(partitions.shape[1], mean_weight),
        result=write,
        before_epoch=begin_epoch,
        watch=watch,
        **comfort,
    )
    if engine.said:  # a checkpoint tells of the epochs before
        solver.epoch_number, solver.epochs = engine.said["epoch"], engine.said["epochs"]
        training.go_on(engine.said)
    return training, solver


def _take(
    model: LatentModel,
    sharded: ShardedModel,
    training: Training,
    solver: StratifiedSolver,
    partitions: Partitions,
) -> None:
    for name in ("user_factors", "item_factors"):
        model.__dict__.pop(name, None)
    model.sharded_ = sharded
    model.n_iter_ = model.best_iter_ = solver.epoch_number
    model.history_, model.stopped_ = training.history, training.stopped
    model.user_ids_ = partitions.user_ids() if partitions.manifest["user_ids"] else None
    model.item_ids_ = partitions.item_ids() if partitions.manifest["item_ids"] else None
    lengths: Any = partitions.manifest["lengths"]
    model._learned("sgd", tuple(lengths))
