"""One fit of the experiment on noise: spoil, search, measure on clean data."""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import robirank as rr
from robirank.metrics import ndcg
from robirank_lab.latent import units as latent
from robirank_lab.latent.data import Parts
from robirank_lab.latent.methods import LatentMethod
from robirank_lab.ltr import units as ltr
from robirank_lab.ltr.methods import Method
from robirank_lab.noise.data import Lists, NoiseData, Table, joined, spoiled_fold
from robirank_lab.noise.kinds import LIST_KINDS, TABLE_KINDS
from robirank_lab.noise.results import PUSHED, PUSHED_ABOVE
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import (
    Fit,
    LatentExperiment,
    LtrExperiment,
    NoiseCell,
    NoiseExperiment,
)
from robirank_lab.runner import failure_text

_VALIDATION = 0.1  # of each user's records
_BLOCK = 1024  # users
Values = dict[str, float]


def work(run: Path, data: NoiseData, method: Any, case: str, experiment: NoiseExperiment) -> None:
    """Do one unit and write it down: the whole life of a worker process."""
    folder = RunDirectory.open(run)
    cell = next(cell for cell in experiment.cells(folder.data) if cell.name == case)
    try:
        if isinstance(data, Lists):
            fit, values = run_lists(data, method, cell, experiment)
        else:
            fit, values = run_table(data, method, cell, experiment)
    except Exception as error:
        folder.append_fit(Fit(method=method.name, case=case, error=failure_text(error)))
    else:
        folder.append_fit(fit, _frame(method.name, cell, values))


def generator(kind: str, seed: int) -> np.random.Generator:
    """What draws the noise of a kind: the same for all shares and methods."""
    return np.random.default_rng([seed, zlib.crc32(kind.encode())])


def run_lists(
    data: Lists, method: Method, cell: NoiseCell, experiment: NoiseExperiment
) -> tuple[Fit, Values]:
    """A ranker on one spoiled training set."""
    asked = LtrExperiment(
        convention="standard",
        select=f"ndcg@{experiment.k}",
        seed=cell.seed,
        grid_points=experiment.grid_points,
    )
    fold = data.fold(cell.fold)
    if cell.share:
        whole = joined(fold.train, fold.vali)
        spoil = LIST_KINDS[cell.kind].spoil
        fold = spoiled_fold(fold, spoil(whole, cell.share, generator(cell.kind, cell.seed)))
    begin = time.perf_counter()
    model, best, grid = ltr.search(method, fold, asked)
    fit = Fit(
        method=method.name,
        case=cell.name,
        params=best.params | ({"t": model.t_} if hasattr(model, "t_") else {}),
        grid=grid,
        validation=best.validation,
        search_seconds=time.perf_counter() - begin,
        final_seconds=best.seconds,
    )
    test = fold.test
    quality = ndcg(test.y, model.predict(test.X), test.qid, k=experiment.k)
    return fit, {f"ndcg@{experiment.k}": float(quality)}


def run_table(
    data: Table, method: LatentMethod, cell: NoiseCell, experiment: NoiseExperiment
) -> tuple[Fit, Values]:
    """A latent model on one spoiled table."""
    asked = LatentExperiment(
        factors=experiment.factors,
        iterations=experiment.iterations,
        select=f"ndcg@{experiment.k}",
        threads=1,
    )
    clean, test = data.matrices()
    table, pushed = clean, None
    for kind in experiment.kinds:  # who has no noise is asked about the pushed item too
        if kind == cell.kind or not cell.kind:
            spoiled = TABLE_KINDS[kind].spoil(clean, cell.share, generator(kind, cell.seed))
            table, pushed = spoiled.table, pushed if spoiled.pushed is None else spoiled.pushed
    learned = rr.Interactions.from_matrix(table)
    train, valid = rr.split_ratio(learned, _VALIDATION, random_state=cell.seed)
    parts = Parts(train, valid, valid, learned, 0, "")
    begin = time.perf_counter()
    tried = latent.search(method, parts, asked, cell.seed, lambda _: None)
    best = max(tried, key=latent.validation_value)
    searched = time.perf_counter() - begin
    begin = time.perf_counter()
    model = method.make(best.params, **latent.options_of(asked, cell.seed))
    latent.fit_model(model, learned)
    fit = Fit(
        method=method.name,
        case=cell.name,
        params=best.params,
        grid=tried,
        validation=best.validation,
        search_seconds=searched,
        final_seconds=time.perf_counter() - begin,
    )
    return fit, honest_values(model, clean, test, experiment.k, pushed)


def honest_values(model: Any, clean: Any, test: Any, k: int, pushed: int | None) -> Values:
    """What honest users get: NDCG@k, and how far the pushed item has risen.

    `PUSHED` is the share of users among whose first k items it is, `PUSHED_ABOVE` the mean share of
    the other items that it stands above; users who have it already do not count.
    """
    n = clean.shape[0]
    U, V = np.asarray(model.user_factors)[:n], np.asarray(model.item_factors)
    honest = rr.FactorModel.of(np.ascontiguousarray(U), V)
    honest.num_threads = 1
    reached = rr.evaluate(honest, train=clean, test=test, k=k)
    values = {f"ndcg@{k}": reached[f"ndcg@{k}"]}
    if pushed is not None:
        above, others = _items_above(U, V, clean, pushed)
        values[PUSHED] = float(np.mean(above < k))
        values[PUSHED_ABOVE] = float(np.mean(1 - above / np.maximum(others, 1)))
    return values


def _items_above(U: Any, V: Any, clean: Any, item: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """How many items stand above one, ties by half, and of how many; those users have are left out.

    Of each user who does not have the item.
    """
    users = np.flatnonzero(clean[:, [item]].toarray().ravel() == 0)
    above = np.empty(len(users))
    for begin in range(0, len(users), _BLOCK):
        block = users[begin : begin + _BLOCK]
        scores = U[block] @ V.T
        of_item = scores[:, [item]]
        rows = clean[block]
        scores[np.repeat(np.arange(len(block)), np.diff(rows.indptr)), rows.indices] = -np.inf
        greater, equal = (scores > of_item).sum(axis=1), (scores == of_item).sum(axis=1) - 1
        above[begin : begin + _BLOCK] = greater + equal / 2
    return above, clean.shape[1] - 1 - np.diff(clean.indptr)[users]


def _frame(method: str, cell: NoiseCell, values: Values) -> pl.DataFrame:
    """The rows of a unit, one a metric."""
    return pl.DataFrame({"metric": list(values), "value": list(values.values())}).with_columns(
        method=pl.lit(method),
        case=pl.lit(cell.name),
        kind=pl.lit(cell.kind),
        share=pl.lit(cell.share),
        seed=pl.lit(cell.seed),
    )
