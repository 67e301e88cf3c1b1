"""The first part of the demonstration: RoBiRank and its relatives on judged documents."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank.data.generators import make_ranking
from robirank.data.letor_writer import save_letor
from robirank.data.ranking import RankingData
from robirank.experiments.demo.parts import CUTOFFS, DemoPart, MethodResult
from robirank.experiments.ltr.baselines import PairwiseLogistic
from robirank.ltr.robirank import RoBiRank
from robirank.metrics import evaluate_ranking, ndcg
from robirank.storage.estimators import save_model

ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
MEASURES = ("ndcg@1", "ndcg@5", "ndcg@10", "map")

# Chosen, out of several settings tried, to show what robustness is. RoBiRank is not first in all
# of them: with five grades the pairwise model is, with more outliers often Type-II (see the guide).
_SHAPE: dict[str, Any] = {"n_docs": (20, 60), "n_features": 50, "n_grades": 3}
_OUTLIERS = 0.1

#: Name of the method, and how to make it for a penalty, a seed and a number of threads.
METHODS: dict[str, Callable[[float, int, int], Any]] = {
    "RoBiRank": lambda a, seed, n: RoBiRank(a, rho="log", random_state=seed, num_threads=n),
    "Identity": lambda a, seed, n: RoBiRank(a, rho="identity", random_state=seed, num_threads=n),
    "Type-II": lambda a, seed, n: RoBiRank(a, rho="type2", random_state=seed, num_threads=n),
    "Pairwise logistic": lambda a, seed, _: PairwiseLogistic(
        a, pairs_per_query=300, random_state=seed
    ),
}


@dataclass(frozen=True)
class RankingDemoData:
    """Queries to train on and to choose the penalty with (with outliers), and to test on (without).

    ``coef`` are the planted weights: no linear model can be expected to do better.
    """

    train: RankingData
    vali: RankingData
    test: RankingData
    coef: NDArray[np.float64]


def make_ranking_data(n_queries: int, random_state: int) -> RankingDemoData:
    """Plant a ranking model; one document in ten of the lists to learn from is an outlier."""
    last_train, last_vali = n_queries, n_queries + n_queries // 2
    options = {**_SHAPE, "n_queries": last_vali + 2 * n_queries, "random_state": random_state}
    dirty = make_ranking(**options, outliers=_OUTLIERS)
    clean, coef = make_ranking(**options, return_coef=True)
    return RankingDemoData(
        dirty.take(dirty.qid <= last_train),
        dirty.take((dirty.qid > last_train) & (dirty.qid <= last_vali)),
        clean.take(clean.qid > last_vali),
        coef,
    )


def run_features(
    data: RankingDemoData,
    folder: Path,
    *,
    random_state: int,
    num_threads: int,
    working: Callable[[str], Any],
) -> DemoPart:
    """Train every method, choose its penalty, measure it; write model and data.

    Parameters
    ----------
    folder : Path
        Where model and data go.
    working : callable
        Makes a context manager that shows what is under way.
    """
    methods = {}
    for name, make in METHODS.items():
        with working(name):
            model, seconds = choose(make, data, random_state, num_threads)
            methods[name] = _measure(model.predict(data.test.X), data.test, model, seconds)
    bounds = {"Planted weights": _measure(data.test.X @ data.coef, data.test)}
    return DemoPart(methods, bounds, _write_files(methods["RoBiRank"].model, data, folder))


def choose(
    make: Callable[[float, int, int], Any],
    data: RankingDemoData,
    seed: int,
    num_threads: int,
) -> tuple[Any, float]:
    """Fit one model a penalty; return the best on the validation queries, and the seconds."""
    started = time.perf_counter()
    train, vali = data.train, data.vali
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a small penalty may stop at max_iter; others are tried
        models = [make(a, seed, num_threads).fit(train.X, train.y, qid=train.qid) for a in ALPHAS]
    seconds = time.perf_counter() - started
    return max(models, key=lambda m: m.score(vali.X, vali.y, qid=vali.qid)), seconds


def _measure(
    scores: NDArray[Any], test: RankingData, model: Any = None, seconds: float = 0.0
) -> MethodResult:
    measures = evaluate_ranking(test.y, scores, test.qid, metrics=MEASURES)
    return MethodResult(
        {name: float(value) for name, value in measures.items()},
        np.asarray(ndcg(test.y, scores, test.qid, k=CUTOFFS)),
        model,
        seconds,
        np.asarray(ndcg(test.y, scores, test.qid, k=10, per_query=True)),
    )


def _write_files(model: Any, data: RankingDemoData, folder: Path) -> dict[str, Path]:
    files = {"model": folder / "robirank.safetensors"}
    save_model(model, files["model"], feature_names=data.train.feature_names)
    for name in ("train", "vali", "test"):
        files[f"data, {name}"] = folder / f"{name}.txt.gz"
        save_letor(files[f"data, {name}"], getattr(data, name))
    return files
