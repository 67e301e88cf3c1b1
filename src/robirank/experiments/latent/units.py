"""The latent experiment: what each method reaches on held-out items, and after how many seconds.

A unit of work is one method from one starting point. Its step size and penalty are chosen on the
validation part, by fits to the training part that are as long as the last one: what is best after
few epochs is not what is best after many. Then it is fitted once to both parts, and after some of
the epochs its factors are measured on the test part, while the clock stands still.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from robirank._checks import check_count
from robirank.data.interaction_files import load_interactions
from robirank.data.interactions import Interactions
from robirank.data.records import as_records
from robirank.data.splits import split_ratio
from robirank.experiments.latent.methods import LatentMethod
from robirank.experiments.run_format import GridPoint, LatentFacts, LatentFit
from robirank.latent.factors.evaluate import MEASURES as KNOWN_MEASURES
from robirank.latent.factors.evaluate import Evaluation, evaluate
from robirank.latent.factors.recommend import FactorModel
from robirank.latent.train.loop import DivergenceError
from robirank.latent.train.options import EpochReport

MEASURES = ("precision@1", "precision@10", "recall@20", "ndcg@20")
_CUTOFFS = (1, 10, 20)
_SNAPSHOTS = 24
_MOST_STEPS = 4  # of the search, along the rates and along the penalties
_TEST, _VALIDATION = 0.2, 0.1  # shares of each user's items where there is but one file
_SUFFIXES = ("tsv", "csv", "txt", "tsv.gz", "csv.gz", "txt.gz", "parquet")
_PARTS = {"train": ("train",), "valid": ("valid", "vali", "validation"), "test": ("test",)}


@dataclass(frozen=True)
class LatentExperiment:
    """What decides the numbers of a run.

    Attributes
    ----------
    data : Path
        A folder with train, valid and test files, or one file that is split here.
    columns : dict
        Arguments of `load_interactions`.
    factors : int
    iterations : int
        Epochs of every fit, in the search and at the end.
    select : str
        The measure that chooses settings on the validation part.
    rates : bool
        Whether step sizes are searched too, not penalties alone.
    seed : int
        The first seed; it also splits a single file.
    seeds : int
        How many starting points.
    threads : int or None
    """

    data: Path
    columns: Mapping[str, Any] = field(default_factory=dict)
    factors: int = 64
    iterations: int = 32
    select: str = "ndcg@10"
    rates: bool = True
    seed: int = 0
    seeds: int = 1
    threads: int | None = None

    def check(self) -> None:
        """Raise an error, before any work is done, if a setting is wrong."""
        for name in ("factors", "iterations", "seeds"):
            check_count(name, getattr(self, name))
        measure, _, k = self.select.partition("@")
        if measure not in KNOWN_MEASURES or not k.isdigit() or int(k) < 1:
            known = ", ".join(f"{m}@k" for m in KNOWN_MEASURES)
            raise ValueError(f"select must be one of {known}, such as ndcg@10; got {self.select!r}")

    def options(self, seed: int) -> dict[str, Any]:
        """Parameters of a model that every method of the experiment has."""
        return {
            "factors": self.factors,
            "iterations": self.iterations,
            "random_state": seed,
            "num_threads": self.threads or 0,
        }


@dataclass(frozen=True)
class Parts:
    """The data, all parts with the same users and items.

    Attributes
    ----------
    train, valid, test : Interactions
    left_out : int
        Test interactions of users or items that are in neither of the other parts.
    split : str
        Where the parts come from, in words.
    """

    train: Interactions
    valid: Interactions
    test: Interactions
    left_out: int
    split: str

    @cached_property
    def learned(self) -> Interactions:
        """Training and validation part together, what the final model is fitted to."""
        both: Any = self.train.binarize().matrix + self.valid.binarize().matrix
        return Interactions.from_matrix(both, self.train.users, self.train.items).binarize()


def load_parts(experiment: LatentExperiment) -> Parts:
    """Read the data: three files of a folder, or one that is cut in three."""
    path, columns = experiment.data, experiment.columns
    if not path.is_dir():
        whole = load_interactions(path, **columns).binarize()
        rest, test = split_ratio(whole, _TEST, random_state=experiment.seed)
        train, valid = split_ratio(rest, _VALIDATION, random_state=experiment.seed)
        words = "of each user's items 20 % for the test and 10 % of the rest for validation"
        return Parts(train, valid, test, 0, words)
    files = part_files(path)
    train, valid, test = (load_interactions(f, **columns).binarize() for f in files.values())
    whole = _union(train, valid)
    known = test.align(whole, unseen="drop")
    return Parts(train.align(whole), valid.align(whole), known, len(test) - len(known), "as given")


def part_files(folder: Path) -> dict[str, Path]:
    """The files of a folder that hold the three parts."""
    found = {}
    for part, names in _PARTS.items():
        wanted = [folder / f"{name}.{suffix}" for name in names for suffix in _SUFFIXES]
        there = [path for path in wanted if path.is_file()]
        if len(there) != 1:
            what = "several" if there else "no"
            raise ValueError(
                f"{folder} must hold one file for each of train, valid and test, such as "
                f"{part}.tsv.gz; it has {what} {part} file"
            )
        found[part] = there[0]
    return found


def _union(train: Interactions, valid: Interactions) -> Interactions:
    """Nothing but the users and items of both."""
    users, items = train.users.extend(valid.users[:]), train.items.extend(valid.items[:])
    return Interactions(users, items, np.zeros(len(users) + 1, np.int64), np.zeros(0, np.int32))


def data_name(data: Path) -> str:
    """What the data are called: the folder, or the file after its folder.

    Examples
    --------
    >>> data_name(Path("/data/lastfm/plays.tsv.gz"))
    'lastfm/plays'
    """
    path = data.resolve()
    return path.name if path.is_dir() else f"{path.parent.name}/{path.name.partition('.')[0]}"


def describe_parts(experiment: LatentExperiment, parts: Parts) -> LatentFacts:
    """The facts of a data set."""
    data = experiment.data
    files = sorted(part_files(data).values()) if data.is_dir() else [data]
    return LatentFacts(
        name=data_name(data),
        users=parts.train.n_users,
        items=parts.train.n_items,
        train=len(parts.train),
        valid=len(parts.valid),
        test=len(parts.test),
        test_users=int(np.count_nonzero(parts.test.lengths)),
        left_out=parts.left_out,
        split=parts.split,
        files={path.name: zlib.crc32(path.read_bytes()) for path in files},
    )


OnStep = Callable[[str], None]


def search(
    method: LatentMethod, parts: Parts, experiment: LatentExperiment, seed: int, on_step: OnStep
) -> list[GridPoint]:
    """Try settings on the validation part: what was tried, in that order."""
    tried: dict[Place, GridPoint] = {}
    records = as_records(parts.train)

    def attempt(place: Place) -> None:
        params = method.setting(*place, factors=experiment.factors, records=records)
        on_step(", ".join(f"{name} {value:g}" for name, value in params.items()))
        tried[place] = _attempt(method, params, parts, experiment, seed)

    attempt((0, 0))
    if not tried[0, 0].params:
        return list(tried.values())  # there is nothing to search
    for steps in (_RATES, _PENALTIES) if experiment.rates else (_PENALTIES,):
        most = len(tried) + _MOST_STEPS
        while len(tried) < most and (place := _neighbour(tried, steps)) is not None:
            attempt(place)
    return list(tried.values())


Place = tuple[int, int]  # steps of the rate and of the penalty, from the defaults
_RATES, _PENALTIES = ((-1, 0), (1, 0)), ((0, -1), (0, 1))


def _neighbour(tried: Mapping[Place, GridPoint], steps: tuple[Place, ...]) -> Place | None:
    """A place beside the best one so far that has not been tried."""
    rate, penalty = max(tried, key=lambda place: _value(tried[place]))
    beside = [(rate + r, penalty + p) for r, p in steps]
    return next((place for place in beside if place not in tried), None)


def _value(point: GridPoint) -> float:
    """The validation measure; one that diverged is worse than any other."""
    return -1.0 if point.validation is None else point.validation


def _attempt(
    method: LatentMethod,
    params: dict[str, float],
    parts: Parts,
    experiment: LatentExperiment,
    seed: int,
) -> GridPoint:
    model = method.make(params, **experiment.options(seed))
    begin = time.perf_counter()
    value: float | None = None
    try:
        _fit(model, parts.train, ())
    except DivergenceError:
        pass  # a setting that diverges is a poor setting
    else:
        k = int(experiment.select.partition("@")[2])
        value = evaluate(model, train=parts.train, test=parts.valid, k=k)[experiment.select]
    return GridPoint(params=params, validation=value, seconds=time.perf_counter() - begin)


def _fit(model: Any, data: Interactions, callbacks: tuple[Callable[..., Any], ...]) -> None:
    model.fit(data, show_progress=False, callbacks=callbacks)
    if model.stopped_ == "interrupted":
        raise KeyboardInterrupt


class Snapshots:
    """Measures the factors on the test part after some of the epochs."""

    def __init__(self, parts: Parts, threads: int | None, on_step: OnStep) -> None:
        self._parts, self._on_step, self._threads = parts, on_step, threads or 0
        self.taken: list[tuple[int, float, Evaluation]] = []

    def __call__(self, report: EpochReport) -> None:
        """Take a snapshot if one is due."""
        self._on_step(f"epoch {report.epoch} of {report.epochs}")
        if report.epoch not in snapshot_epochs(report.epochs):
            return
        assert report.user_factors is not None
        assert report.item_factors is not None
        model = FactorModel.of(report.user_factors, report.item_factors, self._threads)
        parts = self._parts
        result = evaluate(model, train=parts.learned, test=parts.test, k=_CUTOFFS)
        self.taken.append((report.epoch, report.seconds, result))

    def frame(self, method: str, seed: int) -> pl.DataFrame:
        """All snapshots, a row a measure."""
        frame = snapshot_frame(method, self.taken, MEASURES)
        return frame.with_columns(seed=pl.lit(seed))


def snapshot_frame(
    method: str, taken: Iterable[tuple[int, float, Evaluation]], measures: Sequence[str]
) -> pl.DataFrame:
    """Measures after some epochs, given as (epoch, seconds, evaluation): a row a measure."""
    rows = [
        (method, epoch, float(seconds), name, result[name], result.errors[name])
        for epoch, seconds, result in taken
        for name in measures
    ]
    names = ["method", "epoch", "seconds", "measure", "value", "error"]
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
    seed: int,
    *,
    chosen: LatentFit | None = None,
    on_step: OnStep = lambda _: None,
) -> tuple[LatentFit, pl.DataFrame]:
    """One method from one starting point: what `RunDirectory.append_fit` takes.

    Parameters
    ----------
    chosen : LatentFit, optional
        A fit of this method from another start, whose setting is taken without a search.
    on_step : callable, optional
        Is called with what is being done.
    """
    begin = time.perf_counter()
    tried = [] if chosen else search(method, parts, experiment, seed, lambda s: on_step(f"try {s}"))
    best = chosen or max(tried, key=_value)
    if best.validation is None:
        raise DivergenceError(f"{method.name} diverged with every setting that was tried")
    searched = time.perf_counter() - begin
    model = method.make(best.params, **experiment.options(seed))
    snapshots = Snapshots(parts, experiment.threads, lambda s: on_step(f"final fit, {s}"))
    _fit(model, parts.learned, (snapshots,))
    fit = LatentFit(
        method=method.name,
        seed=seed,
        params=best.params,
        grid=tried,
        validation=best.validation,
        search_seconds=searched,
        final_seconds=model.history_[-1]["seconds"],
    )
    return fit, snapshots.frame(method.name, seed)
