"""The factors of a fit in this process: kept, saved to a checkpoint, restored from it."""

from __future__ import annotations

import json
import zlib
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from robirank._types import Floats32, Ints32
from robirank.data.records import Records
from robirank.latent.factors.evaluate import check_metric, evaluate
from robirank.latent.factors.recommend import FactorModel
from robirank.latent.solvers.interface import InMemorySolver
from robirank.latent.train.progress import Progress
from robirank.latent.train.request import Request
from robirank.storage.checkpoint_file import CheckpointFile
from robirank.storage.tensor_file import ModelFileError, all_finite


def fingerprint(request: Request, data: Any, metric: str, **more: Any) -> str:
    """A line that tells one fit from another: its settings, its data, and this version."""
    from robirank import __version__

    settings = request.params | {"random_state": request.seed, "num_threads": None} | more
    settings |= {"class": request.model, "epochs": request.epochs, "rate": request.rate}
    settings |= {"device": request.device}
    return json.dumps([__version__, settings, data, metric], sort_keys=True, default=str)


def checksum(records: Records | None) -> list[int] | None:
    """Tells one table from another."""
    if records is None:
        return None
    value = zlib.crc32(records.items.data, zlib.crc32(records.indptr.data))
    if records.weight is not None:
        value = zlib.crc32(records.weight.data, value)
    return [records.n_users, records.n_items, records.n_records, value]


class MemoryStore:
    """See `robirank.latent.train.loop.Store`.

    Parameters
    ----------
    solver : InMemorySolver
    train, validation : CSR matrix, optional
        For `validate`.
    checkpoint : CheckpointFile, optional
    resume : bool
        Whether to go on from the checkpoint.
    num_threads : int
    device : "cpu" or "cuda"
        Where validation ranks.
    """

    is_local = True

    def __init__(
        self,
        solver: InMemorySolver,
        *,
        train: Any = None,
        validation: Any = None,
        checkpoint: CheckpointFile | None = None,
        resume: bool = False,
        num_threads: int = 0,
        device: str = "cpu",
    ) -> None:
        self._solver, self._train, self._validation = solver, train, validation
        self._checkpoint, self._resume = checkpoint, resume
        self._threads, self._on_device = num_threads, device
        self._item_counts: Ints32 | None = None
        if train is not None:
            counts = np.bincount(train.indices, minlength=train.shape[1])
            self._item_counts = counts.astype(np.int32)
        self._best: tuple[Floats32, Floats32] | None = None
        self.whole_epochs = checkpoint is not None

    def restore(self) -> Progress | None:
        """Go back to the checkpoint, if there is one and it is wanted."""
        if self._checkpoint is None or not self._resume:
            return None
        best = dict(zip(("best.U", "best.V"), self._solver.factors(), strict=True))
        found = self._checkpoint.read(self._state(), best)
        if found is None:
            return None
        kept, arrays = found
        try:
            progress = Progress.read(kept)
            if bool(progress.best_epoch) != ("best.U" in arrays):
                raise ValueError("the factors of the best epoch must be there if there is one")
        except ValueError as error:
            raise ModelFileError(f"the checkpoint cannot be used: {error}") from None
        own = {k.removeprefix("state."): v for k, v in arrays.items() if k.startswith("state.")}
        self._solver.restore(own)
        if "best.U" in arrays:
            self._best = arrays["best.U"], arrays["best.V"]
        return progress

    def save(self, progress: Progress, *, final: bool = False) -> None:
        """Write a checkpoint if one is due."""
        if self._checkpoint is None or not (final or self._checkpoint.is_due()):
            return
        arrays = self._state()
        if self._best is not None:
            arrays |= {"best.U": self._best[0], "best.V": self._best[1]}
        self._checkpoint.write(msgspec.to_builtins(progress), arrays)

    def is_finite(self) -> bool:
        """Whether all factors are finite."""
        return all(map(all_finite, self._solver.factors()))

    def factors(self) -> tuple[Floats32, Floats32]:
        """U and V as they stand."""
        return self._solver.factors()

    def validate(self, metric: str) -> float:
        """The validation measure of the factors."""
        factors = self._solver.factors()
        model = FactorModel.of(*factors, self._threads, self._on_device, self._item_counts)
        _, k = check_metric(metric)
        return evaluate(model, train=self._train, test=self._validation, k=k)[metric]

    def keep(self, epoch: int) -> None:  # noqa: ARG002 (a cluster names files by it)
        """Keep the factors as the best so far."""
        U, V = self._solver.factors()
        self._best = U.copy(), V.copy()

    def result(self, progress: Progress) -> tuple[Floats32, Floats32]:  # noqa: ARG002
        """The best factors that were kept, or the last ones."""
        return self._best or self._solver.factors()

    def on_step(self, show: Any) -> None:
        """Epochs in memory are short enough."""

    def _state(self) -> dict[str, NDArray[Any]]:
        return {f"state.{name}": array for name, array in self._solver.state().items()}
