"""The learning-to-rank experiment: every method on every fold of a data set.

A unit of work is one method on one fold: fit it with every setting of its grid, choose the setting
on the validation part, measure the chosen model on the test part, once. Where several seeds are
asked for, the chosen setting is fitted with each, and the measures of a query are the means. Units
run in processes of their own; each writes its result as soon as it has it, so a run that is killed
goes on where it stopped, and a method that fails, or takes its process down, is reported and sinks
nothing else.
"""

from __future__ import annotations

import re
import time
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from robirank._checks import check_count
from robirank.data.folds import Fold, load_dataset
from robirank.data.ranking import RankingData
from robirank.experiments.ltr.methods import Method
from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.run_format import GridPoint, LtrFacts, LtrFit, LtrSettings
from robirank.experiments.runner import failure_text
from robirank.metrics import CONVENTIONS, average_precision, evaluate_ranking, mean_ndcg, ndcg

_MOST_EXPLAINED, _FEATURES_SHOWN = 1000, 3


@dataclass(frozen=True)
class LtrExperiment:
    """What decides the numbers of a run.

    Attributes
    ----------
    data : Path
        A folder that `load_dataset` reads.
    convention : str
        The convention of all measures; see `robirank.metrics`.
    select : str
        The measure by which settings are chosen on the validation part; ``ndcg@1-10`` is the mean
        of NDCG@1 … @10, which is steadier than one cut-off where validation queries are few.
    k_max : int
        NDCG@k is measured for k = 1 … k_max.
    normalize : bool
        Whether features are scaled to [0, 1] within each query first.
    seed : int
        Decides everything that is random.
    folds : int or None
        How many folds, the first ones; None: all.
    grid_points : int or None
        At most so many settings of each method's grid, evenly spread; None: all.
    seeds : int
        How many seeds the chosen setting is tested with, from ``seed`` upwards; one is enough for
        a method that takes none.
    """

    data: Path
    convention: str = "letor"
    select: str = "ndcg@1-10"
    k_max: int = 20
    normalize: bool = False
    seed: int = 0
    folds: int | None = None
    grid_points: int | None = None
    seeds: int = 1

    def load(self, name: str) -> Fold:
        """Read one fold; where it has no validation part, hold out a part of the training part."""
        folds = load_dataset(self.data, normalize=self.normalize)
        fold = folds[folds.names.index(name)]
        if fold.vali is not None:
            return fold
        train, vali = hold_out(fold.train, 0.25, self.seed)
        return Fold(fold.name, train, vali, fold.test)

    def check(self) -> None:
        """Raise an error, before any work is done, if a setting is wrong."""
        if self.convention not in CONVENTIONS:
            known = ", ".join(CONVENTIONS)
            raise ValueError(f"convention must be one of {known}; got {self.convention!r}")
        for name in ("folds", "grid_points"):
            check_count(name, getattr(self, name), or_none=True)
        check_count("seeds", self.seeds)
        toy = RankingData(np.zeros((2, 1)), np.array([1.0, 0.0]), np.zeros(2))
        self.validate(np.array([1.0, 0.0]), toy)

    def validate(self, scores: NDArray[Any], vali: RankingData) -> float:
        """The measure by which settings are chosen.

        Ties are averaged, whatever the convention says: a model that scores everything alike must
        not profit from the order of the file.
        """
        span = re.fullmatch(r"ndcg@(\d+)-(\d+)", self.select)
        if span is None:
            names: tuple[str, ...] = (self.select,)
        else:
            names = tuple(f"ndcg@{k}" for k in range(int(span[1]), int(span[2]) + 1))
        if not names:
            raise ValueError(f"select={self.select!r} must count upwards, such as ndcg@1-10")
        fair = replace(CONVENTIONS[self.convention], ties="average")
        found = evaluate_ranking(vali.y, scores, vali.qid, metrics=names, convention=fair)
        return float(np.mean(list(found.values())))


def hold_out(data: RankingData, share: float, seed: int) -> tuple[RankingData, RankingData]:
    """Split queries at random into those that stay and a share that is held out."""
    queries = data.queries
    n = min(max(round(share * len(queries)), 1), len(queries) - 1)
    chosen = np.random.default_rng(seed).permutation(len(queries))[:n]
    held_out = np.zeros(data.n_rows, dtype=bool)
    held_out[queries.take(np.sort(chosen)).rows()] = True
    return data.take(~held_out), data.take(held_out)


def some_of(grid: Sequence[dict[str, Any]], most: int | None) -> Sequence[dict[str, Any]]:
    """At most so many settings of a grid, evenly spread from its first to its last.

    Examples
    --------
    >>> [setting["alpha"] for setting in some_of([{"alpha": a} for a in range(7)], 3)]
    [0, 3, 6]
    """
    if most is None or len(grid) <= most:
        return grid
    return [grid[int(place)] for place in np.linspace(0, len(grid) - 1, most).round()]


def fit_setting(method: Method, params: dict[str, Any], fold: Fold, seed: int) -> Any:
    """A method with one setting, fitted to the training part of a fold."""
    model, train = method.make(params, seed), fold.train
    extra = {"validation": fold.vali} if method.stops_early else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a setting that does not converge is a poor setting
        return model.fit(train.X, train.y, qid=train.qid, **extra)


def search(
    method: Method, fold: Fold, experiment: LtrExperiment
) -> tuple[Any, GridPoint, list[GridPoint]]:
    """Fit every setting, and return the best model, its entry of the grid, and the whole grid."""
    grid: list[GridPoint] = []
    best: tuple[float, Any, GridPoint] | None = None
    vali = fold.vali
    assert vali is not None
    for params in some_of(method.grid, experiment.grid_points):
        begin = time.perf_counter()
        model = fit_setting(method, params, fold, experiment.seed)
        seconds = time.perf_counter() - begin
        value = experiment.validate(model.predict(vali.X), vali)
        grid.append(GridPoint(params=params, validation=value, seconds=seconds))
        if best is None or value > best[0]:
            best = value, model, grid[-1]
    assert best is not None
    return best[1], best[2], grid


def measure(scores: NDArray[Any], test: RankingData, experiment: LtrExperiment) -> pl.DataFrame:
    """NDCG@k, MeanNDCG and MAP of every query, one a row."""
    cuts = list(range(1, experiment.k_max + 1))
    given: Any = {"qid": test.qid, "convention": experiment.convention, "per_query": True}
    by_cut: Any = ndcg(test.y, scores, k=cuts, **given)
    found: list[Any] = [("ndcg", k, by_cut[:, i]) for i, k in enumerate(cuts)]
    found.append(("mean_ndcg", 0, mean_ndcg(test.y, scores, **given)))
    found.append(("map", 0, average_precision(test.y, scores, **given)))
    ids = test.queries.ids.astype(str)
    return pl.concat(
        pl.DataFrame({"qid": ids, "value": values}).with_columns(
            measure=pl.lit(name), k=pl.lit(k, pl.Int32)
        )
        for name, k, values in found
    )


def measure_seeds(
    method: Method, model: Any, params: dict[str, Any], fold: Fold, experiment: LtrExperiment
) -> tuple[pl.DataFrame, list[float]]:
    """Means over the seeds of the measures of every query; and NDCG@10 by each, if several.

    The model is that of the first seed; the others are fitted here.
    """
    seeds = range(experiment.seed, experiment.seed + (experiment.seeds if method.is_random else 1))
    models = (model, *(fit_setting(method, params, fold, seed) for seed in seeds[1:]))
    found = [measure(m.predict(fold.test.X), fold.test, experiment) for m in models]
    if len(found) == 1:
        return found[0], []
    at_10 = (pl.col("measure") == "ndcg") & (pl.col("k") == 10)
    by_seed = [float(np.nanmean(frame.filter(at_10)["value"])) for frame in found]
    mean = np.mean([frame["value"] for frame in found], axis=0)
    return found[0].with_columns(value=pl.Series(mean)), by_seed


def explain_tops(model: Any, test: RankingData) -> dict[str, list[tuple[str, float]]]:
    """What puts the first document of each query above the second, by the strongest features.

    Of the first thousand queries, by a model that can explain itself.
    """
    if not hasattr(model, "explain"):
        return {}
    scores, queries = model.predict(test.X), test.queries
    rows, ids = queries.rows(), queries.ids.astype(str)
    found = {}
    for number in range(min(len(queries), _MOST_EXPLAINED)):
        mine = rows[queries.offsets[number] : queries.offsets[number + 1]]
        if len(mine) > 1:
            first, second = mine[np.argsort(-scores[mine], kind="stable")[:2]]
            why = model.explain(test.X[[first]], test.X[[second]])
            found[ids[number]] = [
                (name, round(effect, 4)) for name, _, _, effect in why.table(_FEATURES_SHOWN)
            ][:_FEATURES_SHOWN]
    return found


def run_unit(method: Method, fold: Fold, experiment: LtrExperiment) -> tuple[LtrFit, pl.DataFrame]:
    """One method on one fold: what `RunDirectory.append_fit` takes."""
    begin = time.perf_counter()
    model, best, grid = search(method, fold, experiment)
    seconds = time.perf_counter() - begin
    results, by_seed = measure_seeds(method, model, best.params, fold, experiment)
    fit = LtrFit(
        method=method.name,
        fold=fold.name,
        params=best.params,
        grid=grid,
        validation=best.validation,
        search_seconds=seconds,
        final_seconds=best.seconds,
        why=explain_tops(model, fold.test),
        by_seed=by_seed,
    )
    return fit, results.with_columns(method=pl.lit(method.name), fold=pl.lit(fold.name))


def work(run: Path, method: Method, fold: str, experiment: LtrExperiment) -> None:
    """Do one unit and write it down: the whole life of a worker process.

    The method travels with the place of its class ("module:class"), which the process imports; so
    the class may live outside this package.
    """
    folder = RunDirectory[LtrSettings].open(run)
    try:
        fit, results = run_unit(method, experiment.load(fold), experiment)
    except Exception as error:
        folder.append_fit(LtrFit(method=method.name, fold=fold, error=failure_text(error)))
    else:
        folder.append_fit(fit, results)


def data_name(data: Path) -> str:
    """What the data are called: the folder, and the data set before it where it is one fold.

    Examples
    --------
    >>> data_name(Path("/letor/MQ2008")), data_name(Path("/letor/MQ2008/Fold1"))
    ('MQ2008', 'MQ2008/Fold1')
    """
    path = data.resolve()
    is_fold = re.fullmatch(r"fold[-_ ]?\d+", path.name, re.IGNORECASE)
    return f"{path.parent.name}/{path.name}" if is_fold else path.name


def describe_data(experiment: LtrExperiment) -> LtrFacts:
    """The facts of a data set: counts of the queries and documents of all test parts."""
    folds = load_dataset(experiment.data)[: experiment.folds]
    counted = [(t.n_queries, t.n_rows, t.n_features, t.y) for t in (fold.test for fold in folds)]
    queries, documents, features, y = zip(*counted, strict=True)
    labels, counts = np.unique(np.concatenate(y), return_counts=True)
    return LtrFacts(
        name=data_name(experiment.data),
        folds=list(folds.names),
        queries=sum(queries),
        documents=sum(documents),
        features=max(features),
        labels={f"{label:g}": int(n) for label, n in zip(labels, counts, strict=True)},
        validation="as given"
        if folds[0].vali is not None
        else "a quarter of the training queries, held out at random",
        files={
            str(path.relative_to(experiment.data)): zlib.crc32(path.read_bytes())
            for path in sorted(experiment.data.rglob("*.txt*"))
        },
    )
