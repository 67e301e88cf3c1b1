"""A run directory as the experiments write it, of documents and methods that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from robirank.metrics import average_precision, mean_ndcg, ndcg
from robirank_lab.run_dir import RunDirectory
from robirank_lab.run_format import (
    Fit,
    GridPoint,
    JudgedData,
    LtrExperiment,
    Settings,
    Significance,
)
from robirank_lab.statistics import compare

# How well each method's scores follow the labels, and the seconds that one fit takes.
METHODS: dict[str, tuple[float, float]] = {
    "RoBiRank": (0.62, 0.4),
    "Identity": (0.55, 0.3),
    "RankSVM": (0.59, 0.05),
    "LSRank": (0.52, 8.0),
    "InfNormPush": (0.40, 2.1),
    "IRPush": (0.43, 1.4),
    "LambdaMART": (0.58, 14.0),
    "MART": (0.57, 11.0),
    "Random forests": (0.56, 31.0),
    "RankNet": (0.50, 22.0),
    "AdaRank": (0.48, 3.0),
    "Coordinate ascent": (0.63, 140.0),
}
# As many as a page must hold, some with names that are hard to show.
MANY = {
    **METHODS,
    "RankBoost": (0.5, 7.0),
    "ListNet": (0.53, 90.0),
    "Type-II": (0.45, 0.6),
    "LambdaRank with a name that is much too long for any label": (0.56, 64.0),
    "ListMLE": (0.57, 33.0),
    "XE-NDCG": (0.58, 12.0),
    "a < b & c": (0.49, 0.02),
    "Regression": (0.47, 0.001),
}
# A name that tries to be markup.
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
K_MAX = 20
ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def facts(**changes: Any) -> JudgedData:
    """Return what run.json says about the data."""
    given: dict[str, Any] = {
        "name": "OHSUMED (LETOR 3.0)",
        "folds": [f"Fold{i}" for i in range(1, 6)],
        "queries": 106,
        "documents": 16140,
        "features": 45,
        "labels": {"0": 11303, "1": 2585, "2": 2252},
        "files": {},
    }
    return JudgedData(**given | changes)


def settings(methods: Sequence[str] = tuple(METHODS), **changes: Any) -> Settings:
    """Return what run.json holds; changes are of its fields, or of those of the experiment."""
    experiment: dict[str, Any] = {"convention": "letor", "select": "ndcg@10", "k_max": K_MAX}
    for name in LtrExperiment.__struct_fields__:
        if name in changes:
            experiment[name] = changes.pop(name)
    given: dict[str, Any] = {
        "title": "OHSUMED",
        "data": facts(),
        "experiment": LtrExperiment(**experiment),
        "methods": list(methods),
        "versions": {"robirank": "0.1.0", "python": "3.12.4", "numpy": "2.1.0"},
        "cores": 2,
        "command": "robirank experiment ltr letor/OHSUMED --methods all --seed 0 --output ohsumed",
        "created": "2025-03-14T09:26:53+00:00",
    }
    return Settings(**given | changes)


def fit(method: str, fold: str, **changes: Any) -> Fit:
    """Return what the JSON file of a unit holds."""
    given: dict[str, Any] = {
        "method": method,
        "case": fold,
        "params": {"alpha": 0.01},
        "validation": 0.45,
        "search_seconds": 2.0,
        "final_seconds": 0.5,
    }
    return Fit(**given | changes)


def failed(method: str, fold: str, error: str) -> Fit:
    """Return the fit of a method that has failed."""
    return Fit(method=method, case=fold, error=error)


def frame(method: str, fold: str, values: dict[str, Sequence[float]], k_max: int) -> pl.DataFrame:
    """Make the results of a unit from the NDCG@k, MeanNDCG and MAP of each query, in a row."""
    names = [("ndcg", k) for k in range(1, k_max + 1)] + [("mean_ndcg", 0), ("map", 0)]
    rows = [
        (method, fold, qid, metric, k, float(value))
        for qid, row in values.items()
        for (metric, k), value in zip(names, row, strict=True)
    ]
    columns = ["method", "case", "qid", "metric", "k", "value"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def make_run(
    folder: Path,
    *,
    methods: dict[str, tuple[float, float]] | None = None,
    n_folds: int = 5,
    n_queries: int = 106,
    k_max: int = K_MAX,
    failures: dict[tuple[str, str], str] | None = None,
    seed: int = 0,
    query_name: str = "{}",
    significance: Sequence[str] = ("ndcg@10", "map"),
    **changes: Any,
) -> RunDirectory:
    """Write a complete run: documents with labels, methods that score them more or less well."""
    methods = METHODS if methods is None else methods
    rng = np.random.default_rng(seed)
    data = facts(folds=[f"Fold{i + 1}" for i in range(n_folds)], queries=n_queries)
    run = RunDirectory.create(folder, settings(list(methods), data=data, k_max=k_max, **changes))
    for fold, queries in enumerate(np.array_split(np.arange(1, n_queries + 1), n_folds), start=1):
        y, qid, noise = _documents(rng, queries)
        for method, (skill, seconds) in methods.items():
            name = f"Fold{fold}"
            error = (failures or {}).get((method, name))
            if error:
                run.append_fit(failed(method, name, error))
                continue
            # Methods see the same features, so their mistakes are alike.
            scores = skill * y + 0.8 * noise + 0.6 * rng.normal(size=len(y))
            values = _metrics(y, scores, qid, query_name, k_max)
            searched = _searched(rng, method, skill, seconds)
            run.append_fit(fit(method, name, **searched), frame(method, name, values, k_max))
    run.finish()
    if significance:
        write_significance(run, significance)
    return run


def write_significance(run: RunDirectory, metrics: Sequence[str]) -> None:
    """Compare all methods that did not fail with the first one."""
    ok, comparisons = run.complete_methods(), []
    for metric in metrics:
        name, _, k = metric.partition("@")
        part = run.results().filter(pl.col("metric") == name, pl.col("k") == int(k or 0))
        values = {m: part.filter(pl.col("method") == m)["value"].to_numpy() for m in ok}
        comparisons += compare(values, ok[0], metric=metric)
    run.write_significance(Significance(comparisons=comparisons))


def _documents(rng: np.random.Generator, queries: Any) -> tuple[Any, Any, Any]:
    sizes = rng.integers(40, 120, size=len(queries))
    qid = np.repeat(queries, sizes)
    # Some queries have many relevant documents and some have next to none.
    share = np.repeat(rng.beta(1.2, 4, size=len(queries)), sizes)
    y = (rng.random(len(qid)) < share) * rng.integers(1, 3, size=len(qid))
    return y.astype(float), qid, rng.normal(size=len(qid))


def _metrics(
    y: Any, scores: Any, qid: Any, query_name: str, k_max: int
) -> dict[str, Sequence[float]]:
    convention: dict[str, Any] = {"convention": "letor", "per_query": True}
    columns = np.column_stack(
        [
            ndcg(y, scores, qid, k=range(1, k_max + 1), **convention),
            mean_ndcg(y, scores, qid, **convention),
            average_precision(y, scores, qid, **convention),
        ]
    )
    return {
        query_name.format(q): row.tolist() for q, row in zip(np.unique(qid), columns, strict=True)
    }


def _searched(
    rng: np.random.Generator, method: str, skill: float, seconds: float
) -> dict[str, Any]:
    """Make up the search for the best setting: one parameter, or two for the trees."""
    if "MART" in method or "forest" in method:
        points = [{"n_trees": n, "learning_rate": r} for n in (100, 300, 1000) for r in (0.03, 0.1)]
    elif method == "RankSVM":
        points = [{"C": c} for c in (0.01, 0.1, 1.0, 10.0)]
    else:
        points = [{"alpha": a} for a in ALPHAS]
    best = rng.normal(len(points) / 2, 0.6)
    grid = [
        GridPoint(
            params=point,
            validation=float(skill - 0.12 - 0.01 * (i - best) ** 2 + rng.normal(0, 0.004)),
            seconds=seconds * float(rng.uniform(0.7, 1.3)),
        )
        for i, point in enumerate(points)
    ]
    chosen = max(grid, key=lambda point: point.validation or 0.0)
    return {
        "params": chosen.params,
        "grid": grid,
        "validation": chosen.validation,
        "search_seconds": sum(point.seconds for point in grid),
        "final_seconds": chosen.seconds,
    }
