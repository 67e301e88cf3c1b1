"""The latent experiment: what each method reaches on held-out items, and after how many seconds.

A unit of work is one method from one starting point. Its step size and penalty are chosen on the
validation part, by fits to the training part that are as long as the last one: what is best after
few epochs is not what is best after many. Then it is fitted once to both parts, and after some of
the epochs its factors are measured on the test part, while the clock stands still.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np
import polars as pl

import robirank as rr
from robirank_lab.latent.data import Parts
from robirank_lab.latent.methods import LatentMethod
from robirank_lab.run_format import Fit, GridPoint, LatentExperiment

METRICS = ("precision@1", "precision@10", "recall@20", "ndcg@20")
_CUTOFFS = (1, 10, 20)
_SELECTABLE = ("precision", "recall", "ndcg", "map", "hit_rate")
_SNAPSHOTS = 24
_MOST_STEPS = 4  # of the search, along the rates and along the penalties


def check_select(select: str) -> None:
    """Raise an error, before any work is done, unless the metric can be computed."""
    metric, _, k = select.partition("@")
    if metric not in _SELECTABLE or not k.isdigit() or int(k) < 1:
        names = ", ".join(f"{m}@k" for m in _SELECTABLE)
        raise rr.ArgumentError("select", f"must be one of {names}, such as ndcg@10; got {select!r}")


def options_of(experiment: LatentExperiment, seed: int) -> dict[str, Any]:
    """Parameters of a model that every method of the experiment has."""
    return {
        "factors": experiment.factors,
        "iterations": experiment.iterations,
        "random_state": seed,
        "num_threads": experiment.threads or 0,
    }


OnStep = Callable[[str], None]


def search(
    method: LatentMethod, parts: Parts, experiment: LatentExperiment, seed: int, on_step: OnStep
) -> list[GridPoint]:
    """Try settings on the validation part: what was tried, in that order."""
    tried: dict[Place, GridPoint] = {}

    def attempt(place: Place) -> None:
        params = method.setting(*place, factors=experiment.factors, train=parts.train)
        on_step(", ".join(f"{name} {value:g}" for name, value in params.items()))
        tried[place] = _attempt(method, params, parts, experiment, seed)

    attempt((0, 0))
    if not method.steps:
        return list(tried.values())
    for steps in (_RATES, _PENALTIES) if experiment.rates else (_PENALTIES,):
        most = len(tried) + _MOST_STEPS
        while len(tried) < most and (place := _neighbour(tried, steps)) is not None:
            attempt(place)
    return list(tried.values())


Place = tuple[int, int]  # steps of the rate and of the penalty, from the defaults
_RATES, _PENALTIES = ((-1, 0), (1, 0)), ((0, -1), (0, 1))


def _neighbour(tried: Mapping[Place, GridPoint], steps: tuple[Place, ...]) -> Place | None:
    """A place beside the best one so far that has not been tried."""
    rate, penalty = max(tried, key=lambda place: validation_value(tried[place]))
    beside = [(rate + r, penalty + p) for r, p in steps]
    return next((place for place in beside if place not in tried), None)


def validation_value(point: GridPoint | Fit) -> float:
    """The metric on the validation part; a setting that diverged is worse than any other."""
    return -1.0 if point.validation is None else point.validation


def _attempt(
    method: LatentMethod,
    params: dict[str, float],
    parts: Parts,
    experiment: LatentExperiment,
    seed: int,
) -> GridPoint:
    model = method.make(params, **options_of(experiment, seed))
    begin = time.perf_counter()
    value: float | None = None
    try:
        fit_model(model, parts.train)
    except rr.DivergenceError:
        pass  # a setting that diverges is a poor setting
    else:
        k = int(experiment.select.partition("@")[2])
        value = rr.evaluate(model, train=parts.train, test=parts.valid, k=k)[experiment.select]
    return GridPoint(params=params, validation=value, seconds=time.perf_counter() - begin)


def fit_model(model: Any, data: Any, callbacks: Sequence[Callable[..., Any]] = ()) -> None:
    """Fit a model without a word; Ctrl-C ends the experiment, not the fit alone.

    A model that has no epochs reports once.
    """
    if "callbacks" in signature(model.fit).parameters:
        model.fit(data, show_progress=False, callbacks=callbacks)
        if getattr(model, "stopped_", "") == "interrupted":
            raise KeyboardInterrupt
        return
    begin = time.perf_counter()
    model.fit(data, show_progress=False)
    seconds, rows = time.perf_counter() - begin, (model.user_factors, model.item_factors)
    for callback in callbacks:
        callback(rr.EpochReport(1, 1, seconds, 0.0, None, *rows))


Snapshot = tuple[int, float, rr.Evaluation]  # epoch, seconds of training, what was reached


class Snapshots:
    """Measures the factors on the test part after some of the epochs; a callback of `fit`.

    Parameters
    ----------
    evaluate : callable
        Takes a model of the factors as they stand and returns what they reach.
    on_step : callable
        Is called with what is being done.
    every_epoch : bool, default=False
        Whether to measure after every epoch, and not after those of `snapshot_epochs` alone.

    Attributes
    ----------
    taken : list of (epoch, seconds of training, what was reached)
    processor_seconds : float
        Of this process, since the snapshots were made, without those of measuring.
    """

    def __init__(
        self,
        evaluate: Callable[[rr.FactorModel], rr.Evaluation],
        on_step: OnStep,
        *,
        every_epoch: bool = False,
    ) -> None:
        self._evaluate, self._on_step, self._every_epoch = evaluate, on_step, every_epoch
        self.taken: list[Snapshot] = []
        self.processor_seconds, self._resumed = 0.0, time.process_time()

    def __call__(self, report: rr.EpochReport) -> None:
        """Take a snapshot if one is due."""
        self.processor_seconds += time.process_time() - self._resumed
        self._on_step(f"epoch {report.epoch} of {report.epochs}")
        if self._every_epoch or report.epoch in snapshot_epochs(report.epochs):
            U, V = report.user_factors, report.item_factors
            assert U is not None
            assert V is not None
            reached = self._evaluate(rr.FactorModel.of(U, V))
            self.taken.append((report.epoch, report.seconds, reached))
        self._resumed = time.process_time()


def snapshot_frame(
    method: str, case: str, taken: Iterable[Snapshot], metrics: Sequence[str]
) -> pl.DataFrame:
    """The results of a unit: a row a snapshot and metric."""
    rows = [
        (method, case, epoch, float(seconds), name, reached[name], reached.errors[name])
        for epoch, seconds, reached in taken
        for name in metrics
    ]
    names = ["method", "case", "epoch", "seconds", "metric", "value", "error"]
    return pl.DataFrame(rows, schema=names, orient="row").with_columns(
        pl.col("error").fill_nan(None)
    )


def snapshot_epochs(epochs: int) -> set[int]:
    """The epochs after which snapshots are taken: dense at the beginning, the last one always.

    Examples
    --------
    >>> sorted(snapshot_epochs(64))[:8], max(snapshot_epochs(64)), len(snapshot_epochs(64))
    ([1, 2, 3, 4, 5, 6, 7, 9], 64, 19)
    """
    return {round(e) for e in np.geomspace(1, epochs, _SNAPSHOTS)} | {epochs}


def run_unit(
    method: LatentMethod,
    parts: Parts,
    experiment: LatentExperiment,
    case: str,
    *,
    chosen: Fit | None = None,
    on_step: OnStep = lambda _: None,
) -> tuple[Fit, pl.DataFrame]:
    """One method from one starting point: what `RunDirectory.append_fit` takes.

    Parameters
    ----------
    case : str
        The starting point, such as "seed 3".
    chosen : Fit, optional
        A fit of this method from another start, whose setting is taken without a search.
    on_step : callable, optional
        Is called with what is being done.
    """
    seed = int(case.split()[1])
    begin = time.perf_counter()
    tried = [] if chosen else search(method, parts, experiment, seed, lambda s: on_step(f"try {s}"))
    best = chosen or max(tried, key=validation_value)
    if best.validation is None:
        raise rr.DivergenceError(f"{method.name} diverged with every setting that was tried")
    searched = time.perf_counter() - begin

    def evaluate(model: rr.FactorModel) -> rr.Evaluation:
        model.num_threads = experiment.threads or 0
        return rr.evaluate(model, train=parts.learned, test=parts.test, k=_CUTOFFS)

    model = method.make(best.params, **options_of(experiment, seed))
    snapshots = Snapshots(evaluate, lambda s: on_step(f"final fit, {s}"))
    fit_model(model, parts.learned, (snapshots,))
    fit = Fit(
        method=method.name,
        case=case,
        params=best.params,
        grid=tried,
        validation=best.validation,
        search_seconds=searched,
        final_seconds=snapshots.taken[-1][1],
    )
    return fit, snapshot_frame(method.name, case, snapshots.taken, METRICS)
