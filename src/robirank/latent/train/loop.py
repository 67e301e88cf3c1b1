"""The training loop, one for a process, its threads, a device and a cluster.

It adds to a solver what makes a long fit bearable: progress, callbacks, validation with the best
model kept, checkpoints with exact resume, a time limit, Ctrl-C, and an early end with advice where
training diverges.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Never, Protocol

import msgspec
import numpy as np

from robirank._callers import warn
from robirank._interrupt import Interrupt
from robirank._progress import FitProgress
from robirank.data.user_items import UserItems
from robirank.engine.interface import Figures, never
from robirank.errors import RobirankError
from robirank.latent.factors.content import NO_CONTENT, Content
from robirank.latent.factors.factors import Factors
from robirank.latent.solvers import epoch_seconds
from robirank.latent.solvers.interface import Solver
from robirank.latent.solvers.problem import Problem, TableShape
from robirank.latent.train.request import EpochReport, FitOptions

log = logging.getLogger("robirank.latent")

_GROWN = 1.5  # a loss so many times that of a model that knows nothing means divergence
_VALIDATIONS = 16  # during a fit, about, where there is no patience
_Number = Annotated[float, msgspec.Meta(ge=0)]
_Epoch = Annotated[int, msgspec.Meta(ge=0)]


class Progress(msgspec.Struct):
    """How far a fit has come; a checkpoint keeps it.

    Attributes
    ----------
    epochs : int
        How many are planned.
    epoch : int
        How many are done.
    seconds : float
        The time of training, without validation.
    history : list of dict
        Epoch, seconds, loss and perhaps the validation metric of each epoch.
    first_loss : float
        What the losses are compared with to see whether training diverges.
    best_epoch : int
        0 without validation.
    best_value : float or None
        The value of the validation metric in that epoch.
    regularization : float or None
        The λ of the penalty; None in a fit that began before it was known.
    content : Content
        The weights of content scores in the model.
    factors : int or None
        How many there are; None in a fit of an earlier version.
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
    content: Content = NO_CONTENT
    factors: Annotated[int, msgspec.Meta(ge=1)] | None = None
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


class Plan(Protocol):
    """How many epochs are planned, and how many are done."""

    epochs: int
    epoch: int


@dataclass
class Epochs:
    """A plan of so many epochs, from the first one on."""

    epochs: int
    epoch: int = 0


def run_epochs(
    solver: Any, plan: Plan, should_stop: Callable[[], bool] = never
) -> Iterator[tuple[Any, float]]:
    """Run the epochs of a plan; yields what each epoch reported, and its seconds.

    The plan may change between two epochs, and the caller may leave the loop.

    Examples
    --------
    >>> class Counts:
    ...     def epoch(self, number, epochs, should_stop):
    ...         return {"loss": epochs - number}
    >>> [figures["loss"] for figures, _ in run_epochs(Counts(), Epochs(3))]
    [3, 2, 1]
    """
    while plan.epoch < plan.epochs:
        begin = time.perf_counter()
        figures = solver.epoch(plan.epoch, plan.epochs, should_stop)
        plan.epoch += 1
        yield figures, time.perf_counter() - begin


class DivergenceError(RobirankError, RuntimeError):
    """Training diverged; the message says what to change. The model keeps what it had."""


class Fit(Protocol):
    """A fit on tables that are read and checked: here, or on a cluster.

    It holds the factors while the loop runs: saves and restores them, ranks with them, hands them
    out.

    Attributes
    ----------
    shape : TableShape
        The numbers of interactions of users and items.
    whole_epochs : bool
        Whether an epoch must not be cut short, because checkpoints hold whole epochs.
    """

    shape: TableShape
    whole_epochs: bool

    @property
    def interactions(self) -> UserItems | None:
        """The table, where it is in the memory of this process."""

    @property
    def validation(self) -> UserItems | None:
        """The validation part, where there is one in the memory of this process."""

    def saved_search(self) -> Settled | None:
        """What a search had found for the checkpoint that the fit goes on from; or None."""

    def run(self, problem: Problem) -> FitResult:
        """Train to the end."""

    def restore(self) -> Progress | None:
        """Go back to the last checkpoint; None where there is none to go on from."""

    def save(self, progress: Progress, *, final: bool = False) -> None:
        """Note the progress before an epoch and at the end; write a checkpoint if one is due."""

    def is_finite(self) -> bool:
        """Whether all factors are finite."""

    def factors(self) -> Factors | None:
        """The factors as they stand; None where no process has them all."""

    def validate(self, metric: str) -> float:
        """The validation metric of the factors."""

    def keep(self, epoch: int) -> None:
        """Keep the factors as the best so far."""

    def result(self, progress: Progress) -> Factors:
        """The best factors that were kept, or the last ones where none were."""

    def on_step(self, show: Any) -> None:
        """Let ``show(**figures)`` be called in the middle of epochs that take long."""


class Settled(NamedTuple):
    """What a search settles: λ, the weights of content scores, the number of factors."""

    regularization: float
    content: Content
    factors: int | None


@dataclass(frozen=True)
class FitResult:
    """What came of a fit."""

    factors: Factors
    progress: Progress
    problem: Problem


class Loop:
    """One run of a solver.

    Parameters
    ----------
    problem : Problem
    solver : Solver
    fit : Fit
    options : FitOptions
    model : str
        The name of the model's class, for the progress line.
    where : str
        Where the fit runs, for the progress line; empty for this process.
    """

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        fit: Fit,
        options: FitOptions,
        model: str,
        where: str = "",
    ) -> None:
        self._problem, self._options, self._solver, self._fit = problem, options, solver, fit
        self._is_here = not where
        regularization = problem.penalty.regularization
        self._title = f"{model} ({problem.solver}{where}, λ = {regularization:.3g})"
        self.progress = Progress(
            problem.epochs,
            regularization=regularization,
            content=problem.content,
            factors=problem.factors,
        )

    def run(self) -> FitResult:
        """Train to the end."""
        self.progress = self._fit.restore() or self.progress
        progress = self.progress
        self._begun, self._first = time.perf_counter(), progress.epoch
        self._log_begin()
        with (
            Interrupt("epoch" if self._fit.whole_epochs else "step") as interrupt,
            FitProgress(
                self._options.show_progress,
                total=progress.epochs,
                title=self._title,
                remaining=True,
            ) as bar,
        ):
            self._tell_cost(bar)
            self._fit.on_step(lambda **figures: bar.update(progress.epoch, **figures))
            self._run_epochs(interrupt, bar)
            if not progress.best_epoch:
                self._check_finite()
            result = self._fit.result(progress)
            self._fit.save(_to_go_on_from(progress), final=True)
        self._log_end()
        if self._options.seconds_left() <= 0 and progress.epoch == self._first + 1:
            warn(
                f"time_limit={self._options.time_limit:g} was over in the first epoch, which took "
                f"{progress.seconds:.3g} s; the model has hardly learned anything yet",
            )
        if progress.stopped == "interrupted":
            warn(
                f"interrupted in epoch {progress.epoch} of {progress.epochs}; the "
                "model holds what was learned so far and can be used",
            )
        return FitResult(result, progress, self._problem)

    def _log_begin(self) -> None:
        sizes = self._problem.sizes
        log.info(
            "%s: %d users × %d items, %d interactions, %d factors, epochs %d to %d",
            self._title,
            sizes.n_users,
            sizes.n_items,
            sizes.n_interactions,
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
        seconds = epoch_seconds(self._problem) if self._is_here else None
        if seconds is not None:
            epochs = self.progress.epochs
            bar.update(self.progress.epoch, expected=f"{epochs} epochs of about {seconds:.2g} s")

    def _run_epochs(self, interrupt: Interrupt, bar: FitProgress) -> None:
        progress = self.progress

        def should_stop() -> bool:
            return interrupt.is_set() or self._options.seconds_left() <= 0

        if self._is_going_on():
            self._fit.save(progress)
            stop = never if self._fit.whole_epochs else should_stop
            for figures, seconds in run_epochs(self._solver, progress, stop):
                self._after_epoch(figures, seconds, interrupt, bar)
                if not self._is_going_on():
                    break
                self._fit.save(progress)

    def _is_going_on(self) -> bool:
        return self.progress.epoch < self.progress.epochs and not self.progress.stopped

    def _after_epoch(
        self, figures: Figures, seconds: float, interrupt: Interrupt, bar: FitProgress
    ) -> None:
        progress, whole = self.progress, self._fit.whole_epochs
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
            before = max(self._problem.idle_loss, figures.get("start", 0.0))
            progress.first_loss = float(before or loss)
        if not np.isfinite(loss):
            self._give_up(f"the loss became {loss}")
        if loss > _GROWN * progress.first_loss + 1e-9:
            self._give_up(f"the loss grew from {progress.first_loss:.4g} to {loss:.4g}")
        if broken:
            self._give_up(f"{int(broken)} steps are not finite")

    def _check_finite(self) -> None:
        if not self._fit.is_finite():
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
        value = self._fit.validate(self._options.watched)
        if progress.best_value is None or value > progress.best_value:
            progress.best_value, progress.best_epoch = value, progress.epoch
            self._fit.keep(progress.epoch)
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
        rate = self._problem.sizes.n_interactions / max(seconds, 1e-9)
        shown["interactions/s"] = f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate / 1e3:.0f} k"
        return shown

    def _call_back(self, entry: dict[str, int | float], seconds: float) -> None:
        options, progress, answers = self._options, self.progress, []
        if options.callback is not None:
            answers.append(options.callback(progress.epoch - 1, seconds, entry["loss"]))
        if options.callbacks:
            self._check_finite()
            factors = self._fit.factors()
            host = None if factors is None else factors.on_host()
            report = EpochReport(
                progress.epoch,
                progress.epochs,
                progress.seconds,
                entry["loss"],
                entry.get(options.watched),
                None if host is None else host.users.rows,
                None if host is None else host.items.rows,
            )
            answers += [tell(report) for tell in options.callbacks]
        if any(isinstance(answer, bool | np.bool_) and answer for answer in answers):
            progress.stopped = progress.stopped or "by callback"


def _to_go_on_from(progress: Progress) -> Progress:
    """What a checkpoint says at the end: only patience ends a fit for good."""
    stopped = progress.stopped if progress.stopped == "no better" else ""
    return msgspec.structs.replace(progress, stopped=stopped)
