"""The options of a fit that say how it runs, not what is learned."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from robirank._checks import check_count, check_positive
from robirank._types import Floats32
from robirank.latent.factors.evaluate import check_metric

DEFAULT_METRIC = "ndcg@20"


@dataclass(frozen=True)
class EpochReport:
    """What a callback is given after every epoch.

    Attributes
    ----------
    epoch, epochs : int
        How many are done, of how many planned.
    seconds : float
        Of training, without validation and callbacks.
    loss : float
        The solver's mean loss of a record in this epoch.
    validation : float or None
        The validation measure, where it was computed after this epoch.
    user_factors, item_factors : arrays, or None
        As they stand; copy them to keep them. None on a cluster, where no process has them all.
    """

    epoch: int
    epochs: int
    seconds: float
    loss: float
    validation: float | None
    user_factors: Floats32 | None = field(repr=False)
    item_factors: Floats32 | None = field(repr=False)


class FitKeywords(TypedDict, total=False):
    """The keyword arguments that `fit` and `partial_fit` share."""

    validation: Any
    metric: str | None
    patience: int | None
    time_limit: float | None
    checkpoint: str | os.PathLike[str] | None
    checkpoint_minutes: float | None
    resume: bool
    callbacks: Sequence[Callable[[EpochReport], Any]]


@dataclass(frozen=True)
class FitOptions:
    """See `robirank.LatentRoBiRank.fit`; everything that needs no data is checked here."""

    show_progress: bool = True
    callback: Callable[[int, float, float], Any] | None = None
    callbacks: Sequence[Callable[[EpochReport], Any]] = ()
    validation: Any = None
    metric: str | None = None
    patience: int | None = None
    time_limit: float | None = None
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_minutes: float | None = None
    resume: bool = False
    _begun: float = field(default_factory=time.perf_counter, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.time_limit is not None:
            check_positive("time_limit", self.time_limit)
        if self.patience is not None:
            check_count("patience", self.patience)
        if self.metric is not None:
            check_metric(self.metric)
        for name in ("patience", "metric"):
            if getattr(self, name) is not None and self.validation is None:
                raise ValueError(f"{name} needs a validation set to watch; give validation=")
        if self.checkpoint_minutes is not None:
            check_positive("checkpoint_minutes", self.checkpoint_minutes)
        _check_callable("callback", self.callback)
        if callable(self.callbacks):
            raise ValueError(f"callbacks must be a list of functions; got {self.callbacks!r}")
        for tell in self.callbacks:
            _check_callable("callbacks", tell)

    def seconds_left(self) -> float:
        """Seconds until the time limit is reached; infinity without one."""
        if self.time_limit is None:
            return float("inf")
        return self.time_limit - (time.perf_counter() - self._begun)

    @property
    def watched(self) -> str:
        """The metric that is watched on validation data."""
        return self.metric or DEFAULT_METRIC

    def refuse(self, where: str, **advice: str) -> None:
        """Raise an error for an option that is set and cannot be honoured, with advice for it."""
        for name, instead in advice.items():
            if getattr(self, name) not in (None, False):
                raise ValueError(f"{name} must be left out {where}; {instead}")


def _check_callable(name: str, value: Any) -> None:
    if value is not None and not callable(value):
        raise ValueError(f"{name} must be a function; got {value!r}")
