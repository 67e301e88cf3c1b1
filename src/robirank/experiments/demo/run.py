"""The demonstration: RoBiRank against its relatives, on judged documents and on plays of songs."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robirank.data.generators import make_ranking
from robirank.data.ranking import RankingData
from robirank.experiments.demo.latent import N_USERS, LatentResult, run_latent_demo
from robirank.experiments.ltr.baselines import PairwiseLogistic
from robirank.experiments.statistics import bootstrap_interval
from robirank.ltr.robirank import RoBiRank
from robirank.metrics import evaluate_ranking, ndcg

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["ALPHAS", "CUTOFFS", "MEASURES", "METHODS", "DemoData", "DemoResult", "run_demo"]

ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
MEASURES = ("ndcg@1", "ndcg@5", "ndcg@10", "map")
CUTOFFS = tuple(range(1, 21))

# Chosen, out of several settings tried, to show what robustness is. RoBiRank is not first in all
# of them: with five grades the pairwise model is, with more outliers often Type-II (see the guide).
N_GRADES = 3
N_FEATURES = 50
N_DOCS = (20, 60)
OUTLIERS = 0.1

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
class DemoData:
    """Queries to train on and to choose the penalty with (with outliers), and to test on (without).

    ``coef`` are the planted weights: no linear model can be expected to do better.
    """

    train: RankingData
    vali: RankingData
    test: RankingData
    coef: NDArray[np.float64]


@dataclass(frozen=True)
class MethodResult:
    """What one method reached.

    Attributes
    ----------
    alpha : float
        The penalty that was best on the validation queries; NaN for the planted weights.
    seconds : float
        Of all fits along the penalties together.
    measures : dict
        Means over the test queries.
    curve : array
        NDCG@k on the test queries for k in `CUTOFFS`.
    by_query : array
        NDCG@10 of every test query.
    difference : tuple of three floats
        NDCG@10 less RoBiRank's, and its 95 % bootstrap interval.
    """

    alpha: float
    seconds: float
    measures: dict[str, float]
    curve: NDArray[np.float64]
    by_query: NDArray[np.float64]
    difference: tuple[float, float, float]
    model: Any = field(repr=False)


@dataclass(frozen=True)
class DemoResult:
    """All that the demonstration found out.

    Attributes
    ----------
    methods : dict from name to MethodResult
    ceiling : MethodResult
        The planted weights.
    latent : LatentResult
        The second half, on interactions.
    files : dict from what it is to Path
    seconds : float
    """

    methods: dict[str, MethodResult]
    ceiling: MethodResult
    latent: LatentResult
    files: dict[str, Path]
    seconds: float

    def summary(self) -> dict[str, Any]:
        """Everything as numbers and strings, for JSON."""
        rows = {}
        for name, result in self.methods.items():
            change, low, high = result.difference
            rows[name] = {
                "measures": result.measures,
                "alpha": result.alpha,
                "fit_seconds": round(result.seconds, 3),
                "ndcg@10_less_robirank": {"value": change, "low": low, "high": high},
            }
        return {
            "methods": rows,
            "planted_weights": {"measures": self.ceiling.measures},
            "latent": self.latent.summary(),
            "files": {what: str(path) for what, path in self.files.items()},
            "seconds": round(self.seconds, 3),
        }


def run_demo(
    output: str | os.PathLike[str] = "demo-output",
    *,
    n_queries: int = 200,
    random_state: int = 0,
    n_threads: int | None = None,
    console: Console | None = None,
) -> DemoResult:
    """Train RoBiRank and its relatives on generated data, compare them, draw the results.

    First on judged documents with features, then on users and what they played.

    Parameters
    ----------
    output : str or path-like, default="demo-output"
        A folder for plots, model and data; made if it is missing.
    n_queries : int, default=200
        Queries to train on, at least 10; half as many choose the penalty, twice as many test.
        There are ten users a query in the second part, 400 to 2,000.
    random_state : int, default=0
        Decides the data and everything else.
    n_threads : int, optional
        All cores by default; the result does not depend on it.
    console : rich.console.Console, optional
        Where to report; standard output by default.

    Returns
    -------
    DemoResult
    """
    from robirank.experiments import plotting
    from robirank.experiments.demo import plots
    from robirank.experiments.demo.report import Report

    started = time.perf_counter()
    if n_queries < 10:
        raise ValueError(f"n_queries must be an integer ≥ 10; got {n_queries!r}")
    plotting.require_matplotlib()
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)

    report = Report(console)
    data = make_demo_data(n_queries, random_state)
    report.introduce(data)
    fitted: dict[str, tuple[Any, float]] = {}
    for name, make in METHODS.items():
        with report.working(name):
            fitted[name] = _choose(make, data, random_state, n_threads or 0)
    methods, ceiling = _evaluate(fitted, data, random_state)
    latent = run_latent_demo(
        folder,
        n_users=min(max(10 * n_queries, 400), N_USERS),
        random_state=random_state,
        n_threads=n_threads,
        working=report.working,
    )
    result = DemoResult(methods, ceiling, latent, {}, 0.0)
    with report.working("plots, models and data"):
        files = plots.draw_all(result, folder) | _write_files(result, data, folder)
    result = replace(result, files=files | latent.files, seconds=time.perf_counter() - started)
    report.conclude(result, data)
    return result


def make_demo_data(n_queries: int, random_state: int) -> DemoData:
    """Plant a ranking model; one document in ten of the lists to learn from is an outlier."""
    last_train, last_vali = n_queries, n_queries + n_queries // 2
    options: dict[str, Any] = {
        "n_queries": last_vali + 2 * n_queries,
        "n_docs": N_DOCS,
        "n_features": N_FEATURES,
        "n_grades": N_GRADES,
        "random_state": random_state,
    }
    dirty = make_ranking(**options, outliers=OUTLIERS)
    clean, coef = make_ranking(**options, return_coef=True)
    return DemoData(
        dirty.take(dirty.qid <= last_train),
        dirty.take((dirty.qid > last_train) & (dirty.qid <= last_vali)),
        clean.take(clean.qid > last_vali),
        coef,
    )


def _choose(
    make: Callable[[float, int, int], Any], data: DemoData, seed: int, num_threads: int
) -> tuple[Any, float]:
    """Fit one model a penalty; return the best on the validation queries, and the seconds."""
    started = time.perf_counter()
    train, vali = data.train, data.vali
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a small penalty may stop at max_iter; others are tried
        models = [make(a, seed, num_threads).fit(train.X, train.y, qid=train.qid) for a in ALPHAS]
    seconds = time.perf_counter() - started
    return max(models, key=lambda m: m.score(vali.X, vali.y, qid=vali.qid)), seconds


def _evaluate(
    fitted: dict[str, tuple[Any, float]], data: DemoData, seed: int
) -> tuple[dict[str, MethodResult], MethodResult]:
    test = data.test
    scores = {name: model.predict(test.X) for name, (model, _) in fitted.items()}
    reference = ndcg(test.y, scores["RoBiRank"], test.qid, k=10, per_query=True)
    methods = {
        name: _measure(scores[name], test, model, model.alpha, seconds, reference, seed)
        for name, (model, seconds) in fitted.items()
    }
    planted = test.X @ data.coef
    ceiling = _measure(planted, test, None, float("nan"), 0.0, reference, seed)
    return methods, ceiling


def _measure(
    scores: NDArray[Any],
    test: RankingData,
    model: Any,
    alpha: float,
    seconds: float,
    reference: Any,
    seed: int,
) -> MethodResult:
    measures = evaluate_ranking(test.y, scores, test.qid, metrics=MEASURES)
    by_query = np.asarray(ndcg(test.y, scores, test.qid, k=10, per_query=True))
    return MethodResult(
        alpha=alpha,
        seconds=seconds,
        measures={name: float(value) for name, value in measures.items()},
        curve=np.asarray(ndcg(test.y, scores, test.qid, k=CUTOFFS)),
        by_query=by_query,
        difference=_difference(by_query - reference, seed),
        model=model,
    )


def _difference(by_query: NDArray[np.float64], seed: int) -> tuple[float, float, float]:
    """Return the mean of paired differences and its 95 % interval."""
    low, high = bootstrap_interval(by_query, random_state=seed)
    return float(by_query.mean()), low, high


def _write_files(result: DemoResult, data: DemoData, folder: Path) -> dict[str, Path]:
    from robirank.data.letor import save_letor
    from robirank.storage.estimators import save_model

    files = {"model": folder / "robirank.safetensors"}
    model = result.methods["RoBiRank"].model
    save_model(model, files["model"], feature_names=data.train.feature_names)
    parts = {"train": data.train, "vali": data.vali, "test": data.test}
    for name, part in parts.items():
        files[f"data, {name}"] = folder / f"{name}.txt.gz"
        save_letor(files[f"data, {name}"], part)
    return files
