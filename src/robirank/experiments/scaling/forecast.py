"""What many machines would need: the simulation at two shapes, beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import msgspec
import numpy as np

from robirank._threads import thread_count
from robirank.data.interactions import Interactions
from robirank.engine.interface import Sizes
from robirank.experiments.run_format import Count, Positive, Record, Seconds
from robirank.experiments.scaling.runs import NEGATIVES, Result, ScalingExperiment
from robirank.experiments.scaling.simulation import (
    EpochTime,
    Network,
    Rates,
    Shape,
    epoch_time,
    million_song,
    stops_paying,
)
from robirank.latent.solvers.sgd import xi_turns

MACHINES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_BEYOND = 2048  # machines, to see whether the last of these still pay
SONG_FACTORS = 64
_HAND_OUT = 5e-4  # seconds that a driver takes for a task, where Ray is not there to be measured


class Check(Record):
    """Seconds of an epoch that were measured on some workers, and what the simulation says.

    Attributes
    ----------
    busy : float
        Processor seconds of a worker.
    path : float
        With a core for each worker.
    """

    workers: Count
    elapsed: Seconds
    path: Positive
    busy: Positive
    predicted_elapsed: Seconds
    predicted_path: Seconds
    predicted_busy: Seconds


class ShapeForecast(Record):
    """Epochs on more and more machines, for data of one shape.

    Attributes
    ----------
    epochs : dict from number of machines to EpochTime
        Where one driver hands out every task.
    stops, stops_driver : int
        Twice as many machines do not pay: where machines hand blocks on to each other, and where a
        driver hands out every task.
    """

    name: str
    users: Count
    items: Count
    records: Count
    factors: Count
    xi_turns: Count
    rates: Rates
    epochs: dict[Count, EpochTime]
    stops: Count
    stops_driver: Count

    def __post_init__(self) -> None:
        if 1 not in self.epochs:
            raise ValueError(f"epochs must have one for 1 machine; got {list(self.epochs)}")


class Forecast(Record):
    """What ``simulation.json`` holds.

    Attributes
    ----------
    core_share : float
        How much of a core one thread got, where there was but one.
    """

    cores: Count
    core_share: Seconds
    network: Network
    hand_out_measured: bool
    checks: Annotated[list[Check], msgspec.Meta(min_length=1)]
    shapes: Annotated[list[ShapeForecast], msgspec.Meta(min_length=1)]


def forecast(
    experiment: ScalingExperiment,
    train: Interactions,
    results: Sequence[Result],
    rates: tuple[Rates, Rates],
    hand_out: float | None,
) -> Forecast:
    """Simulate many machines, and compare the simulation with the measured runs.

    Parameters
    ----------
    rates : pair of Rates
        At the shape of the data, and at that of the Million Song data.
    hand_out : float or None
        Seconds that a driver takes for a task; None where that was not measured.
    """
    cores = thread_count()
    driver = Network(
        experiment.bandwidth, experiment.latency, _HAND_OUT if hand_out is None else hand_out
    )
    of_items = np.bincount(train.matrix.indices, minlength=train.n_items).astype(float)
    here = _with_xi_share(Shape(train.lengths.astype(float), of_items, experiment.factors))
    song = _with_xi_share(million_song(SONG_FACTORS))
    return Forecast(
        cores=cores,
        core_share=_core_share(results),
        network=driver,
        hand_out_measured=hand_out is not None,
        checks=[_check(r, here, rates[0], cores) for r in results if _is_compared(r)],
        shapes=[
            _at_shape("These data", here, rates[0], driver),
            _at_shape("Million Song shape", song, rates[1], driver),
        ],
    )


def _with_xi_share(shape: Shape) -> Shape:
    """The shape with the share of users whose ξ an epoch of the solver renews."""
    active = int(np.count_nonzero(shape.user_counts))
    sizes = Sizes(len(shape.user_counts), active, shape.n_items, round(shape.n_records))
    return replace(shape, xi_share=1 / xi_turns(sizes, shape.factors, NEGATIVES))


def _is_compared(result: Result) -> bool:
    """Whether this is RoBiRank with as many parts as threads."""
    who = result.run
    return who.engine == "local" and who.method != "WARP" and who.workers == who.parts


def _core_share(results: Sequence[Result]) -> float:
    local = [r for r in results if r.run.engine == "local"]
    alone = [c for r in local if r.run.workers == 1 for c in r.clocks]
    busy = sum(float(clock.busy.sum()) + clock.serial for clock in alone)
    return busy / sum(clock.elapsed for clock in alone)


def _check(result: Result, shape: Shape, rates: Rates, cores: int) -> Check:
    p, n = result.run.workers, len(result.clocks)
    predicted = epoch_time(shape, rates, None, p, cores=min(p, cores))
    return Check(
        workers=p,
        elapsed=sum(clock.elapsed for clock in result.clocks) / n,
        path=sum(clock.path for clock in result.clocks) / n,
        busy=sum(float(clock.busy.sum()) for clock in result.clocks) / n / p,
        predicted_elapsed=predicted.total,
        predicted_path=predicted.path,
        predicted_busy=predicted.compute,
    )


def _at_shape(name: str, shape: Shape, rates: Rates, driver: Network) -> ShapeForecast:
    most = min(len(shape.user_counts), shape.n_items // 2)
    looked_at = [p for p in (*MACHINES, _BEYOND) if p <= most]
    times = {p: epoch_time(shape, rates, driver, p) for p in looked_at}
    return ShapeForecast(
        name=name,
        users=len(shape.user_counts),
        items=shape.n_items,
        records=round(shape.n_records),
        factors=shape.factors,
        xi_turns=round(1 / shape.xi_share),
        rates=rates,
        epochs={p: time for p, time in times.items() if p < _BEYOND},
        stops=stops_paying([(p, time.without_driver) for p, time in times.items()]),
        stops_driver=stops_paying([(p, time.total) for p, time in times.items()]),
    )
