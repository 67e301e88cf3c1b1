"""The training loop that all latent models share: what makes a long fit bearable.

Progress, callbacks, validation with the best model kept, checkpoints with exact resume, a time
limit, Ctrl-C, and an early end with advice where training diverges.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, Never, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from robirank._checks import check_count, check_positive
from robirank._progress import FitProgress
from robirank.latent.checkpoint import Checkpoint
from robirank.latent.retrieve.evaluate import MEASURES, evaluate
from robirank.latent.solvers.products import Floats
from robirank.storage.tensor_file import all_finite

__all__ = ["DivergenceError", "EpochReport", "Solver", "Training"]

_GROWN = 1.5  # a loss so many times that of a model that knows nothing means divergence


class DivergenceError(RuntimeError):
    """Training went astray; the message says what to change. The model keeps what it had."""


class Solver(Protocol):
    """What the loop asks of a solver."""

    epochs: int
    epoch_number: int

    def epoch(self, should_stop: Callable[[], bool]) -> Mapping[str, float]:
        """Do one pass; returns at least the mean loss of a record.

        "start" may say what it was before the first step, "not_finite" how many steps failed.
        """

    def factors(self) -> tuple[Floats, Floats]:
        """Return U and V as they stand."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that changes."""

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""


@dataclass(frozen=True)
class EpochReport:
    """What a callback is told after every epoch.

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
    user_factors, item_factors : arrays
        As they stand; copy them to keep them.
    """

    epoch: int
    epochs: int
    seconds: float
    loss: float
    validation: float | None
    user_factors: Floats = field(repr=False)
    item_factors: Floats = field(repr=False)


@dataclass
class Training:
    """One run of a solver under the eyes of the user.

    Attributes
    ----------
    model : FactorModel
        Gets the factors; used for validation.
    solver : Solver
    title : str
        Of the progress line.
    advice : str
        What to change where training diverges.
    records : int
        Seen in an epoch, for the rate shown.
    idle_loss : float
        The mean loss of a record of a model that scores all items alike.
    show_progress, callback, callbacks, train, validation, metric, patience, time_limit
        See `LatentRoBiRank.fit`.
    checkpoint : Checkpoint or None
    result : callable, optional
        Gives what `run` returns, where the solver has no factors to give.
    before_epoch : callable, optional
        Called before every epoch.
    watch : callable, optional
        Is given a function that shows figures by name in the middle of an epoch.
    """

    model: Any
    solver: Solver
    title: str
    advice: str
    records: int
    idle_loss: float = 0.0
    show_progress: bool = True
    callback: Callable[[int, float, float], Any] | None = None
    callbacks: Sequence[Callable[[EpochReport], Any]] = ()
    train: Any = None
    validation: Any = None
    metric: str = "ndcg@20"
    patience: int | None = None
    time_limit: float | None = None
    checkpoint: Checkpoint | None = None
    result: Callable[[], Any] | None = None
    before_epoch: Callable[[], None] | None = None
    watch: Callable[[Callable[..., None]], None] | None = None

    history: list[dict[str, float]] = field(default_factory=list, init=False)
    best_epoch: int = field(default=0, init=False)
    best_value: float = field(default=-np.inf, init=False)
    stopped: str = field(default="", init=False)
    _best: tuple[Floats, Floats] | None = field(default=None, init=False)
    _first_loss: float = field(default=0.0, init=False)
    _seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if self.time_limit is not None:
            check_positive("time_limit", self.time_limit)
        if self.patience is not None:
            check_count("patience", self.patience)
            if self.validation is None:
                raise ValueError("patience needs a validation set to watch; give validation=")
        self._cutoff = _cutoff(self.metric)
        _check_callable("callback", self.callback)
        if callable(self.callbacks):
            raise ValueError(f"callbacks must be a list of functions; got {self.callbacks!r}")
        for tell in self.callbacks:
            _check_callable("callbacks", tell)

    def run(self) -> Any:
        """Train; returns the factors, the best ones where there is a validation set."""
        self._resume()
        with (
            _Interrupt("step" if self.checkpoint is None else "epoch") as interrupt,
            FitProgress(
                self.show_progress, total=self.solver.epochs, title=self.title, remaining=True
            ) as progress,
        ):
            if self.watch is not None:
                self.watch(lambda **figures: progress.update(self.solver.epoch_number, **figures))
            while self.solver.epoch_number < self.solver.epochs and not self.stopped:
                self._one_epoch(interrupt, progress)
            factors = self.result() if self.result is not None else self._best or self._factors()
            if self.checkpoint is not None:
                self._save()
        if self.stopped == "interrupted":
            warnings.warn(
                f"interrupted in epoch {self.solver.epoch_number} of {self.solver.epochs}; the "
                "model holds what was learned so far and can be used",
                UserWarning,
                stacklevel=4,
            )
        return factors

    def _one_epoch(self, interrupt: _Interrupt, progress: FitProgress) -> None:
        if self.before_epoch is not None:
            self.before_epoch()
        start = time.perf_counter()
        # Only whole epochs go into a checkpoint: a fit that goes on then has the same bits.
        figures = self.solver.epoch(interrupt.is_set if self.checkpoint is None else lambda: False)
        whole = self.checkpoint is not None or not interrupt.is_set()
        taken = time.perf_counter() - start
        self._seconds += taken
        self._check(figures)
        self._plan_for_time(taken)
        entry = {
            "epoch": self.solver.epoch_number,
            "seconds": self._seconds,
            "loss": float(figures["loss"]),
        }
        if whole and self._validation_is_due():
            entry[self.metric] = self._validate()
        self.history.append(entry)
        progress.resize(self.solver.epochs)
        progress.update(self.solver.epoch_number, **self._shown(entry, taken))
        self._tell(entry, taken)
        if interrupt.is_set():
            self.stopped = "interrupted"
        if self.checkpoint is not None and self.checkpoint.is_due():
            self._save()

    def _check(self, figures: Mapping[str, float]) -> None:
        loss, broken = figures["loss"], figures.get("not_finite", 0)
        if not self.history:
            self._first_loss = max(self.idle_loss, figures.get("start", 0.0)) or loss
        if not np.isfinite(loss):
            what = f"the loss became {loss}"
        elif loss > _GROWN * self._first_loss + 1e-9:
            what = f"the loss grew from {self._first_loss:.4g} to {loss:.4g}"
        elif broken:
            what = f"{int(broken)} steps are not finite"
        else:
            return
        self._give_up(what)

    def _give_up(self, what: str) -> Never:
        raise DivergenceError(
            f"training diverged in epoch {self.solver.epoch_number}: {what}. {self.advice}"
        )

    def _factors(self) -> tuple[Floats, Floats]:
        """What the solver has, which must be finite to be handed out."""
        U, V = self.solver.factors()
        if not (all_finite(U) and all_finite(V)):
            self._give_up("factors are not finite")
        return U, V

    def _validation_is_due(self) -> bool:
        if self.validation is None:
            return False
        every = max(1, self.solver.epochs // 16) if self.patience is None else 1
        done = self.solver.epoch_number
        return done % every == 0 or done >= self.solver.epochs

    def _validate(self) -> float:
        U, V = self._factors()
        self.model.user_factors, self.model.item_factors = U, V
        result = evaluate(self.model, train=self.train, test=self.validation, k=self._cutoff)
        value = result[self.metric]
        if value > self.best_value:
            self.best_value, self.best_epoch = value, self.solver.epoch_number
            self._best = (U.copy(), V.copy())
        elif self.patience and self.solver.epoch_number - self.best_epoch >= self.patience:
            self.stopped = "no better"
        return value

    def _plan_for_time(self, epoch_seconds: float) -> None:
        """Shorten the plan so that the rate still falls to its end within the time."""
        if self.time_limit is None:
            return
        left = self.time_limit - self._seconds
        fitting = self.solver.epoch_number + max(0, int(left / max(epoch_seconds, 1e-9)))
        self.solver.epochs = min(self.solver.epochs, fitting)

    def _shown(self, entry: Mapping[str, float], taken: float) -> dict[str, float | str]:
        shown: dict[str, float | str] = {"loss": f"{entry['loss']:.4f}"}
        if np.isfinite(self.best_value):
            last = next((e[self.metric] for e in self.history[::-1] if self.metric in e), None)
            shown[self.metric] = f"{last:.4f} (best {self.best_value:.4f})"
        rate = self.records / max(taken, 1e-9)
        shown["records/s"] = f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate / 1e3:.0f} k"
        return shown

    def _tell(self, entry: Mapping[str, float], taken: float) -> None:
        if self.callback is not None:
            stop = self.callback(int(entry["epoch"]) - 1, taken, entry["loss"])
            self.stopped = self.stopped or ("by callback" if stop is True else "")
        if not self.callbacks:
            return
        U, V = self._factors()
        report = EpochReport(
            int(entry["epoch"]),
            self.solver.epochs,
            self._seconds,
            entry["loss"],
            entry.get(self.metric),
            U,
            V,
        )
        for tell in self.callbacks:
            if tell(report) is True:
                self.stopped = self.stopped or "by callback"

    def _save(self) -> None:
        assert self.checkpoint is not None
        arrays = self._state()
        if self._best is not None:
            arrays |= {"best.U": self._best[0], "best.V": self._best[1]}
        self.checkpoint.write(
            self.progress()
            | {
                "epochs": self.solver.epochs,
                "stopped": self.stopped if self.stopped == "no better" else "",
                "best_epoch": self.best_epoch,
                "best_value": self.best_value if self._best is not None else None,
            },
            arrays,
        )

    def progress(self) -> dict[str, Any]:
        """What the loop itself must know to go on later."""
        return {
            "seconds": self._seconds,
            "history": list(self.history),
            "first_loss": self._first_loss,
        }

    def go_on(self, said: Mapping[str, Any]) -> None:
        """Go on from what `progress` said."""
        self._seconds, self._first_loss = said["seconds"], said["first_loss"]
        self.history = list(said["history"])

    def _state(self) -> dict[str, NDArray[Any]]:
        return {f"solver.{k}": np.asarray(v) for k, v in self.solver.state().items()}

    def _resume(self) -> None:
        found = self.checkpoint.read(self._state()) if self.checkpoint is not None else None
        if found is None:
            return
        said, arrays = found
        self.solver.restore(
            {k.removeprefix("solver."): v for k, v in arrays.items() if k.startswith("solver.")}
        )
        self.solver.epochs = said["epochs"]
        self.go_on(said)
        self.stopped = said["stopped"]
        self.best_epoch = said["best_epoch"]
        if said["best_value"] is not None:
            self.best_value = said["best_value"]
            self._best = (arrays["best.U"], arrays["best.V"])


def _check_callable(name: str, value: Any) -> None:
    if value is not None and not callable(value):
        raise ValueError(f"{name} must be a function; got {value!r}")


def _cutoff(metric: str) -> int:
    measure, _, k = str(metric).partition("@")
    if measure not in MEASURES or not k.isdigit() or int(k) < 1:
        raise ValueError(
            f"metric must be one of {', '.join(f'{m}@k' for m in MEASURES)}, such as 'ndcg@20'; "
            f"got {metric!r}"
        )
    return int(k)


class _Interrupt:
    """Turns the first Ctrl-C into a wish to stop; the second one raises as usual."""

    def __init__(self, after: str) -> None:
        self._after = after
        self._asked = False
        self._before: Any = None

    def is_set(self) -> bool:
        return self._asked

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if self._before is signal.default_int_handler:
                signal.signal(signal.SIGINT, self._ask)
            else:
                self._before = None
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            signal.default_int_handler(number, frame)
        self._asked = True
        os.write(
            2, f"\nstopping after this {self._after}; press Ctrl-C again to give up\n".encode()
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
