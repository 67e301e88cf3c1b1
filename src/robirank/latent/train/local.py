"""A fit in this process, on its threads or its graphics card."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from robirank._types import Floats32
from robirank._workers import Workers
from robirank.data.records import Records, as_records
from robirank.latent.factors.ids import ids_of
from robirank.latent.solvers import make_solver
from robirank.latent.solvers.problem import Problem, TableShape
from robirank.latent.solvers.start import random_start
from robirank.latent.train.fit import FitResult, check_validation, title
from robirank.latent.train.loop import Loop
from robirank.latent.train.options import FitOptions
from robirank.latent.train.progress import Progress
from robirank.latent.train.request import Request
from robirank.latent.train.store import MemoryStore, checksum, fingerprint
from robirank.storage.checkpoint_file import CheckpointFile
from robirank.storage.tensor_file import ModelFileError


class LocalTraining:
    """See `robirank.latent.train.fit.Training`.

    Parameters
    ----------
    request : Request
    data : sparse matrix or Interactions
    options : FitOptions
    start : (U, V), optional
        Where the factors begin; they are changed. Random rows by default.
    """

    def __init__(
        self,
        request: Request,
        data: Any,
        options: FitOptions,
        start: tuple[Floats32, Floats32] | None = None,
    ) -> None:
        self._request, self._options, self._start = request, options, start
        self._ids = ids_of(data, "users"), ids_of(data, "items")
        self.records = as_records(data, request.weighting)
        self.validation = _read_validation(options.validation, data)
        if not self.records.n_records:
            raise ValueError("user_items holds no interaction, so there is nothing to learn")
        self._checkpoint = _checkpoint(request, options, (self.records, self.validation), start)
        self.shape = TableShape.of_records(self.records)

    def saved_regularization(self) -> float | None:
        """What the search of a fit had found before its last checkpoint."""
        if self._checkpoint is None or not self._options.resume:
            return None
        progress = self._checkpoint.read_progress()
        if progress is None:
            return None
        try:
            return Progress.read(progress).regularization
        except ValueError as error:
            raise ModelFileError(f"the checkpoint cannot be used: {error}") from None

    def run(self, problem: Problem) -> FitResult:
        """Train to the end."""
        with Workers(problem.num_threads) as workers:
            start = self._start or random_start(problem, self.records)
            solver = make_solver(problem, self.records, start, workers)
            validated = self.validation is not None
            store = MemoryStore(
                solver,
                train=self.records.matrix() if validated else None,
                validation=self.validation.matrix() if self.validation is not None else None,
                checkpoint=self._checkpoint,
                resume=self._options.resume,
                num_threads=problem.num_threads,
                device=problem.device,
            )
            loop = Loop(problem, solver, store, self._options, title(self._request, problem))
            counts = self.records.item_counts().astype(np.int32)
            return FitResult(loop.run(), loop.progress, problem, *self._ids, counts)


def _read_validation(validation: Any, data: Any) -> Records | None:
    if validation is None:
        return None
    records = as_records(validation, name="validation")
    check_validation(validation, records.n_records, data)
    return records


def _checkpoint(
    request: Request,
    options: FitOptions,
    tables: tuple[Records, Records | None],
    start: tuple[Floats32, Floats32] | None,
) -> CheckpointFile | None:
    if options.checkpoint is None:
        if options.resume:
            raise ValueError("resume needs a checkpoint to go on from; give checkpoint=")
        if options.checkpoint_minutes is not None:
            raise ValueError("checkpoint_minutes needs a file to write to; give checkpoint=")
        return None
    if request.params.get("random_state") is None:
        raise ValueError("checkpoint needs a random_state: without one no fit is like another")
    data = [checksum(table) for table in tables]
    begins = None if start is None else [zlib.crc32(rows.tobytes()) for rows in start]
    fit = fingerprint(request, data, options.watched, start=begins)
    checkpoint = CheckpointFile(options.checkpoint, fit, minutes=options.checkpoint_minutes)
    if not options.resume:
        checkpoint.check_overwrite()
    return checkpoint
