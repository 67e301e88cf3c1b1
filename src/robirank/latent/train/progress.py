"""How far a fit has come."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

_Number = Annotated[float, msgspec.Meta(ge=0)]
_Epoch = Annotated[int, msgspec.Meta(ge=0)]


class Progress(msgspec.Struct):
    """How far a fit has come; a checkpoint keeps it.

    Attributes
    ----------
    epochs : int
        Planned.
    epoch : int
        Done.
    seconds : float
        Of training.
    history : list of dict
        Epoch, seconds, loss and perhaps the validation measure of each epoch.
    first_loss : float
        What the losses are compared with to see whether training diverges.
    best_epoch : int
        0 without validation.
    best_value : float or None
        Of the validation measure.
    regularization : float or None
        The λ of the penalty; None in a fit that began before it was known.
    stopped : str
        Why training ended before its last epoch; empty if it did not.
    """

    epochs: Annotated[int, msgspec.Meta(ge=1)]
    epoch: _Epoch = 0
    seconds: _Number = 0.0
    history: list[dict[str, int | float]] = []
    first_loss: _Number = 0.0
    best_epoch: _Epoch = 0
    best_value: float | None = None
    regularization: Annotated[float, msgspec.Meta(gt=0)] | None = None
    stopped: Literal["", "no better", "by callback", "interrupted"] = ""

    @classmethod
    def read(cls, kept: Any) -> Progress:
        """Take up what a checkpoint says; a ValueError tells what cannot be."""
        progress = msgspec.convert(kept, cls)
        if not progress.best_epoch <= progress.epoch <= progress.epochs:
            raise ValueError("best_epoch, epoch and epochs must not fall")
        if [entry.get("epoch") for entry in progress.history] != [*range(1, progress.epoch + 1)]:
            raise ValueError("history must have an entry for each epoch")
        if (progress.best_value is None) != (progress.best_epoch == 0):
            raise ValueError("best_epoch and best_value must be given together")
        return progress
