"""The training loop, one for a process, its threads, a device and a cluster.

It adds to a solver what makes a long fit bearable: progress, callbacks, validation with the best
model kept, checkpoints with exact resume, a time limit, Ctrl-C, and an early end with advice where
training diverges.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Never, Protocol, Self

import msgspec
import numpy as np

from robirank._callers import warn
from robirank._errors import ToldError
from robirank._progress import FitProgress
from robirank._types import Floats32
from robirank.engine.interface import Figures, never
from robirank.latent.solvers import epoch_seconds
from robirank.latent.solvers.interface import Solver
from robirank.latent.solvers.problem import Problem
from robirank.latent.train.epochs import run_epochs
from robirank.latent.train.options import EpochReport, FitOptions
from robirank.latent.train.progress import Progress

log = logging.getLogger("robirank.latent")

_GROWN = 1.5  # a loss so many times that of a model that knows nothing means divergence
_VALIDATIONS = 16  # during a fit, about, where there is no patience


class DivergenceError(ToldError, RuntimeError):
    """Training diverged; the message says what to change. The model keeps what it had."""


class Store(Protocol):
    """Holds the factors of a fit: saves and restores them, ranks with them, hands them out."""

    #: Whether the factors are in this process; then the cost of an epoch can be told beforehand.
    is_local: bool

    #: Whether an epoch must not be cut short, because checkpoints hold whole epochs.
    whole_epochs: bool

    def restore(self) -> Progress | None:
        """Go back to the last checkpoint; None where there is none to go on from."""

    def save(self, progress: Progress, *, final: bool = False) -> None:
        """Note the progress before an epoch and at the end; write a checkpoint if one is due."""

    def is_finite(self) -> bool:
        """Whether all factors are finite."""

    def factors(self) -> tuple[Floats32, Floats32] | tuple[None, None]:
        """U and V as they stand; None where no process has them all."""

    def validate(self, metric: str) -> float:
        """The validation measure of the factors."""

    def keep(self, epoch: int) -> None:
        """Keep the factors as the best so far."""

    def result(self, progress: Progress) -> Any:
        """The best factors that were kept, or the last ones where none were."""

    def on_step(self, show: Any) -> None:
        """Let ``show(**figures)`` be called in the middle of epochs that take long."""


class Loop:
    """One run of a solver.

    Parameters
    ----------
    problem : Problem
    solver : Solver
    store : Store
    options : FitOptions
    title : str
        Of the progress line.
    """

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        store: Store,
        options: FitOptions,
        title: str,
    ) -> None:
        self._problem, self._options = problem, options
        self._solver, self._store, self._title = solver, store, title
        self.progress = Progress(problem.epochs, regularization=problem.penalty.regularization)

    def run(self) -> Any:
        """Train; returns the store's result."""
        self.progress = self._store.restore() or self.progress
        progress = self.progress
        self._begun, self._first = time.perf_counter(), progress.epoch
        self._log_begin()
        with (
            _Interrupt("epoch" if self._store.whole_epochs else "step") as interrupt,
            FitProgress(
                self._options.show_progress,
                total=progress.epochs,
                title=self._title,
                remaining=True,
            ) as bar,
        ):
            self._tell_cost(bar)
            self._store.on_step(lambda **figures: bar.update(progress.epoch, **figures))
            self._run_epochs(interrupt, bar)
            if not progress.best_epoch:
                self._check_finite()
            result = self._store.result(progress)
            self._store.save(_to_go_on_from(progress), final=True)
        self._log_end()
        if self._options.seconds_left() <= 0 and progress.epoch == self._first + 1:
            warn(
                f"time_limit={self._options.time_limit:g} was over in the first epoch, which took "
                f"{progress.seconds:.3g} s; the model has hardly learned anything yet",
                UserWarning,
            )
        if progress.stopped == "interrupted":
            warn(
                f"interrupted in epoch {progress.epoch} of {progress.epochs}; the "
                "model holds what was learned so far and can be used",
                UserWarning,
            )
        return result

    def _log_begin(self) -> None:
        sizes = self._problem.sizes
        log.info(
            "%s: %d users × %d items, %d interactions, %d factors, epochs %d to %d",
            self._title,
            sizes.n_users,
            sizes.n_items,
            sizes.n_records,
            self._problem.factors,
            self._first + 1,
            self.progress.epochs,
        )

    def _log_end(self) -> None:
        progress = self.progress
        last = progress.history[-1] if progress.history else {}
        log.info(
            "%s: ended after epoch %d%s, %.3g s of training, loss %.4g, best epoch %d",
            self._title,
            progress.epoch,
            f" ({progress.stopped})" if progress.stopped else "",
            progress.seconds,
            last.get("loss", float("nan")),
            progress.best_epoch or progress.epoch,
        )

    def _tell_cost(self, bar: FitProgress) -> None:
        seconds = epoch_seconds(self._problem) if self._store.is_local else None
        if seconds is not None:
            bar.update(self.progress.epoch, expected=f"{seconds:.2g} s an epoch")

    def _run_epochs(self, interrupt: _Interrupt, bar: FitProgress) -> None:
        progress = self.progress

        def should_stop() -> bool:
            return interrupt.is_set() or self._options.seconds_left() <= 0

        if self._is_going_on():
            self._store.save(progress)
            stop = never if self._store.whole_epochs else should_stop
            for figures, seconds in run_epochs(self._solver, progress, stop):
                self._after_epoch(figures, seconds, interrupt, bar)
                if not self._is_going_on():
                    break
                self._store.save(progress)

    def _is_going_on(self) -> bool:
        return self.progress.epoch < self.progress.epochs and not self.progress.stopped

    def _after_epoch(
        self, figures: Figures, seconds: float, interrupt: _Interrupt, bar: FitProgress
    ) -> None:
        progress, whole = self.progress, self._store.whole_epochs
        progress.seconds += seconds
        self._check(figures)
        self._plan_for_time()
        entry: dict[str, int | float] = {
            "epoch": progress.epoch,
            "seconds": progress.seconds,
            "loss": float(figures["loss"]),
        }
        if (whole or not interrupt.is_set()) and self._validation_is_due():
            entry[self._options.watched] = self._validate()
        progress.history.append(entry)
        bar.resize(progress.epochs)
        bar.update(progress.epoch, **self._shown(entry, seconds))
        self._call_back(entry, seconds)
        if interrupt.is_set():
            progress.stopped = "interrupted"

    def _check(self, figures: Figures) -> None:
        progress, loss, broken = self.progress, figures["loss"], figures.get("not_finite", 0)
        if not progress.history:
            known = max(self._problem.idle_loss, figures.get("start", 0.0))
            progress.first_loss = float(known or loss)
        if not np.isfinite(loss):
            self._give_up(f"the loss became {loss}")
        if loss > _GROWN * progress.first_loss + 1e-9:
            self._give_up(f"the loss grew from {progress.first_loss:.4g} to {loss:.4g}")
        if broken:
            self._give_up(f"{int(broken)} steps are not finite")

    def _check_finite(self) -> None:
        if not self._store.is_finite():
            self._give_up("factors are not finite")

    def _give_up(self, what: str) -> Never:
        raise DivergenceError(
            f"training diverged in epoch {self.progress.epoch}: {what}. Lower learning_rate (it is "
            f"{self._problem.learning_rate:g}; try a tenth), or raise regularization (it is "
            f"{self._problem.penalty.regularization:g})"
        )

    def _validation_is_due(self) -> bool:
        if self._options.validation is None:
            return False
        done, epochs = self.progress.epoch, self.progress.epochs
        every = max(1, epochs // _VALIDATIONS) if self._options.patience is None else 1
        return done % every == 0 or done >= epochs

    def _validate(self) -> float:
        self._check_finite()
        progress, patience = self.progress, self._options.patience
        value = self._store.validate(self._options.watched)
        if progress.best_value is None or value > progress.best_value:
            progress.best_value, progress.best_epoch = value, progress.epoch
            self._store.keep(progress.epoch)
        elif patience and progress.epoch - progress.best_epoch >= patience:
            progress.stopped = "no better"
        return value

    def _plan_for_time(self) -> None:
        """Shorten the plan so that the rate still falls to its end within the time."""
        if self._options.time_limit is None:
            return
        epoch_seconds = (time.perf_counter() - self._begun) / (self.progress.epoch - self._first)
        fitting = max(0, int(self._options.seconds_left() / max(epoch_seconds, 1e-9)))
        self.progress.epochs = min(self.progress.epochs, self.progress.epoch + fitting)

    def _shown(self, entry: dict[str, int | float], seconds: float) -> dict[str, float | str]:
        shown: dict[str, float | str] = {"loss": f"{entry['loss']:.4f}"}
        metric, best = self._options.watched, self.progress.best_value
        if best is not None:
            history = reversed(self.progress.history)
            last = next(e[metric] for e in history if metric in e)
            shown[metric] = f"{last:.4f} (best {best:.4f})"
        rate = self._problem.sizes.n_records / max(seconds, 1e-9)
        shown["records/s"] = f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate / 1e3:.0f} k"
        return shown

    def _call_back(self, entry: dict[str, int | float], seconds: float) -> None:
        options, progress, answers = self._options, self.progress, []
        if options.callback is not None:
            answers.append(options.callback(progress.epoch - 1, seconds, entry["loss"]))
        if options.callbacks:
            self._check_finite()
            report = EpochReport(
                progress.epoch,
                progress.epochs,
                progress.seconds,
                entry["loss"],
                entry.get(options.watched),
                *self._store.factors(),
            )
            answers += [tell(report) for tell in options.callbacks]
        if any(isinstance(answer, bool | np.bool_) and answer for answer in answers):
            progress.stopped = progress.stopped or "by callback"


def _to_go_on_from(progress: Progress) -> Progress:
    """What a checkpoint says at the end: only patience ends a fit for good."""
    stopped = progress.stopped if progress.stopped == "no better" else ""
    return msgspec.structs.replace(progress, stopped=stopped)


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
