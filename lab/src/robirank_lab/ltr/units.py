"""The learning-to-rank experiment: every method on every fold of a data set.

A unit of work is one method on one fold: fit it with every setting of its grid, choose the setting
on the validation part, measure the chosen model on the test part, once. Where several seeds are
asked for, the chosen setting is fitted with each, and the metrics of a query are the means. Units
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

import robirank as rr
from robirank.metrics import CONVENTIONS, average_precision, evaluate_ranking, mean_ndcg, ndcg
from robirank_lab.ltr.methods import Method
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import Fit, GridPoint, JudgedData, LtrExperiment
from robirank_lab.runner import failure_text

_MOST_EXPLAINED, _FEATURES_SHOWN = 1000, 3
_HELD_OUT = 0.25  # of the training queries, where a fold has no validation part


@dataclass(frozen=True)
class Fold:
    """A split of a data set; the validation part chooses settings."""

    name: str
    train: rr.RankingData
    vali: rr.RankingData
    test: rr.RankingData


def load_fold(data: Path, name: str, experiment: LtrExperiment) -> Fold:
    """Read one fold; where it has no validation part, hold out a part of the training part."""
    folds = rr.load_dataset(data, normalize=experiment.normalize)
    fold = folds[folds.names.index(name)]
    if fold.vali is not None:
        return Fold(name, fold.train, fold.vali, fold.test)
    return Fold(name, *hold_out(fold.train, _HELD_OUT, experiment.seed), fold.test)


def hold_out(
    data: rr.RankingData, share: float, seed: int
) -> tuple[rr.RankingData, rr.RankingData]:
    """Split queries at random into those that stay and a share that is held out."""
    queries = data.queries.ids
    n = min(max(round(share * len(queries)), 1), len(queries) - 1)
    chosen = np.random.default_rng(seed).permutation(len(queries))[:n]
    held_out = np.isin(data.qid, queries[chosen])
    return data.take(~held_out), data.take(held_out)


def check_select(experiment: LtrExperiment) -> None:
    """Raise an error, before any work is done, if no such metric can be computed."""
    toy = rr.RankingData(np.zeros((2, 1)), np.array([1.0, 0.0]), np.zeros(2))
    validate(np.array([1.0, 0.0]), toy, experiment)


def validate(scores: NDArray[Any], vali: rr.RankingData, experiment: LtrExperiment) -> float:
    """The metric by which settings are chosen.

    Ties are averaged, whatever the convention says: a model that scores everything alike must
    not profit from the order of the file.
    """
    span = re.fullmatch(r"ndcg@(\d+)-(\d+)", experiment.select)
    names = [experiment.select]
    if span is not None:
        names = [f"ndcg@{k}" for k in range(int(span[1]), int(span[2]) + 1)]
    if not names:
        raise rr.ArgumentError(
            "select", f"must count upwards, such as ndcg@1-10; got {experiment.select!r}"
        )
    fair = replace(CONVENTIONS[experiment.convention], ties="average")
    means = evaluate_ranking(vali.y, scores, vali.qid, metrics=names, convention=fair)
    return float(np.mean(list(means.values())))


def spread_out(grid: Sequence[dict[str, Any]], most: int | None) -> Sequence[dict[str, Any]]:
    """At most so many settings of a grid, evenly spread from its first to its last.

    Examples
    --------
    >>> [setting["alpha"] for setting in spread_out([{"alpha": a} for a in range(7)], 3)]
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
    for params in spread_out(method.grid, experiment.grid_points):
        begin = time.perf_counter()
        model = fit_setting(method, params, fold, experiment.seed)
        seconds = time.perf_counter() - begin
        value = validate(model.predict(fold.vali.X), fold.vali, experiment)
        grid.append(GridPoint(params=params, validation=value, seconds=seconds))
        if best is None or value > best[0]:
            best = value, model, grid[-1]
    assert best is not None
    return best[1], best[2], grid


def query_metrics(
    scores: NDArray[Any], test: rr.RankingData, experiment: LtrExperiment
) -> pl.DataFrame:
    """NDCG@k, MeanNDCG and MAP of every query, one a row."""
    cuts = list(range(1, experiment.k_max + 1))
    options: Any = {"qid": test.qid, "convention": experiment.convention, "per_query": True}
    by_cut: Any = ndcg(test.y, scores, k=cuts, **options)
    columns: list[Any] = [("ndcg", k, by_cut[:, i]) for i, k in enumerate(cuts)]
    columns.append(("mean_ndcg", 0, mean_ndcg(test.y, scores, **options)))
    columns.append(("map", 0, average_precision(test.y, scores, **options)))
    ids = test.queries.ids.astype(str)
    return pl.concat(
        pl.DataFrame({"qid": ids, "value": values}).with_columns(
            metric=pl.lit(name), k=pl.lit(k, pl.Int32)
        )
        for name, k, values in columns
    )


def metrics_over_seeds(
    method: Method, model: Any, params: dict[str, Any], fold: Fold, experiment: LtrExperiment
) -> tuple[pl.DataFrame, list[float]]:
    """Means over the seeds of the metrics of every query; and NDCG@10 by each, if several.

    The model is that of the first seed; the others are fitted here.
    """
    seeds = range(experiment.seed, experiment.seed + (experiment.seeds if method.is_random else 1))
    models = (model, *(fit_setting(method, params, fold, seed) for seed in seeds[1:]))
    frames = [query_metrics(m.predict(fold.test.X), fold.test, experiment) for m in models]
    if len(frames) == 1:
        return frames[0], []
    at_10 = (pl.col("metric") == "ndcg") & (pl.col("k") == 10)
    by_seed = [float(np.nanmean(frame.filter(at_10)["value"])) for frame in frames]
    mean = np.mean([frame["value"] for frame in frames], axis=0)
    return frames[0].with_columns(value=pl.Series(mean)), by_seed


def explain_tops(model: Any, test: rr.RankingData) -> dict[str, list[tuple[str, float]]]:
    """What puts the first document of each query above the second, by the strongest features.

    Of the first thousand queries, by a model that can explain itself.
    """
    if not hasattr(model, "explain"):
        return {}
    scores, queries = model.predict(test.X), test.queries
    rows, ids = queries.rows(), queries.ids.astype(str)
    effects = {}
    for number in range(min(len(queries), _MOST_EXPLAINED)):
        documents = rows[queries.offsets[number] : queries.offsets[number + 1]]
        if len(documents) > 1:
            first, second = documents[np.argsort(-scores[documents], kind="stable")[:2]]
            why = model.explain(test.X[[first]], test.X[[second]])
            effects[ids[number]] = [
                (name, round(effect, 4)) for name, _, _, effect in why.table(_FEATURES_SHOWN)
            ][:_FEATURES_SHOWN]
    return effects


def run_unit(method: Method, fold: Fold, experiment: LtrExperiment) -> tuple[Fit, pl.DataFrame]:
    """One method on one fold: what `RunDirectory.append_fit` takes."""
    begin = time.perf_counter()
    model, best, grid = search(method, fold, experiment)
    seconds = time.perf_counter() - begin
    results, by_seed = metrics_over_seeds(method, model, best.params, fold, experiment)
    fit = Fit(
        method=method.name,
        case=fold.name,
        params=best.params,
        grid=grid,
        validation=best.validation,
        search_seconds=seconds,
        final_seconds=best.seconds,
        why=explain_tops(model, fold.test),
        by_seed=by_seed,
    )
    return fit, results.with_columns(method=pl.lit(method.name), case=pl.lit(fold.name))


def work(run: Path, data: Path, method: Method, fold: str, experiment: LtrExperiment) -> None:
    """Do one unit and write it down: the whole life of a worker process."""
    folder = RunDirectory.open(run)
    try:
        fit, results = run_unit(method, load_fold(data, fold, experiment), experiment)
    except Exception as error:
        folder.append_fit(Fit(method=method.name, case=fold, error=failure_text(error)))
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


def describe_data(data: Path, experiment: LtrExperiment) -> JudgedData:
    """The facts of a data set: counts of the queries and documents of all test parts."""
    folds = rr.load_dataset(data)[: experiment.folds]
    counts = [(t.n_queries, t.n_rows, t.n_features, t.y) for t in (fold.test for fold in folds)]
    queries, documents, features, y = zip(*counts, strict=True)
    labels, frequencies = np.unique(np.concatenate(y), return_counts=True)
    return JudgedData(
        name=data_name(data),
        folds=list(folds.names),
        queries=sum(queries),
        documents=sum(documents),
        features=max(features),
        labels={f"{label:g}": int(n) for label, n in zip(labels, frequencies, strict=True)},
        files={
            str(path.relative_to(data)): zlib.crc32(path.read_bytes())
            for path in sorted(data.rglob("*.txt*"))
        },
    )
