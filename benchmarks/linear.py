"""What a linear ranker loses by on raw web-search features: scaling, maps of features, the penalty.

    python benchmarks/linear.py [--data FOLDER] [--quick]

FOLDER holds train.txt.gz and test.txt.gz of the MSLR sample; $ROBIRANK_DATA/letor/MSLR-sample by
default. Each file is the training part once and the test part once, so that there are 86 test
queries. The penalty is chosen by five folds of the training queries, or, as a comparison of methods
without a validation file does, on a quarter of them. Nothing is chosen on the test part.
``--quick`` checks the script: two penalties a method. The last line is one JSON object: NDCG@10 on
test by map of the features and method.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats
from sklearn.model_selection import GroupKFold, GroupShuffleSplit
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from robirank import (
    RankingData,
    RankSVM,
    RoBiRank,
    load_letor,
    normalize_queries,
    signed_log,
)
from robirank.metrics import ndcg

Map = Callable[[RankingData, RankingData], tuple[Any, Any]]


def standard(a: Any, b: Any) -> tuple[Any, Any]:
    scaler = StandardScaler().fit(a)
    return scaler.transform(a), scaler.transform(b)


def quantile(a: Any, b: Any) -> tuple[Any, Any]:
    ranks = QuantileTransformer(n_quantiles=256, random_state=0).fit(a)
    return ranks.transform(a), ranks.transform(b)


MAPS: dict[str, Map] = {
    "raw": lambda a, b: (a.X, b.X),
    "standard": lambda a, b: standard(a.X, b.X),
    "query": lambda a, b: (normalize_queries(a.X, a.qid), normalize_queries(b.X, b.qid)),
    "log_standard": lambda a, b: standard(signed_log(a.X), signed_log(b.X)),
    "log_query": lambda a, b: tuple(normalize_queries(signed_log(d.X), d.qid) for d in (a, b)),
    "quantile": lambda a, b: quantile(a.X, b.X),
}
METHODS: dict[str, list[Any]] = {
    "RoBiRank": [RoBiRank(a, max_iter=200) for a in np.logspace(1, -3, 9)],
    "identity": [RoBiRank(a, rho="identity", max_iter=200) for a in np.logspace(1, -3, 9)],
    "RankSVM": [RankSVM(c) for c in np.logspace(-6, 0, 7)],
}


def by_query(model: Any, X: Any, data: RankingData) -> Any:
    return ndcg(data.y, model.predict(X), data.qid, k=10, per_query=True)


def choose(models: list[Any], train: RankingData, change: Map, splitter: Any) -> Any:
    """The model with the best mean over the held-out queries of all splits."""
    found = np.zeros(len(models))
    for inside, outside in splitter.split(train.X, train.y, train.qid):
        part, held_out = train.take(inside), train.take(outside)
        X, Z = change(part, held_out)
        for i, model in enumerate(models):
            model.fit(X, part.y, qid=part.qid)
            found[i] += by_query(model, Z, held_out).mean()
    return models[int(np.argmax(found))]


def run(parts: list[RankingData], method: str, change: Map, quarter: bool) -> np.ndarray:
    """NDCG@10 of every query of both parts, each ranked by a model of the other."""
    values = []
    for train, test in (parts, parts[::-1]):
        splits = GroupShuffleSplit(1, test_size=0.25, random_state=0) if quarter else GroupKFold(5)
        model = choose(METHODS[method], train, change, splits)
        X, Z = change(train, test)
        values.append(by_query(model.fit(X, train.y, qid=train.qid), Z, test))
    return np.concatenate(values)


def main() -> None:
    root = Path(__file__).resolve().parents[1]
    shared = Path(os.environ.get("ROBIRANK_DATA", root.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=shared / "letor" / "MSLR-sample")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    folder = arguments.data
    if arguments.quick:
        for models in METHODS.values():
            del models[2:]
    warnings.simplefilter("ignore")
    parts = [load_letor(folder / f"{n}.txt.gz", n_features=136) for n in ("train", "test")]
    table = Table(title="NDCG@10 of 86 queries of MSLR")
    for column in ("features", *METHODS, "RoBiRank, less that of query"):
        table.add_column(column)
    base = run(parts, "RoBiRank", MAPS["query"], quarter=False)
    found: dict[str, float] = {}
    for name, change in MAPS.items():
        values = {m: run(parts, m, change, quarter=False) for m in METHODS}
        found |= {f"{name}_{m.lower()}": round(float(v.mean()), 4) for m, v in values.items()}
        gap = values["RoBiRank"] - base
        half = 1.96 * stats.sem(gap)
        cells = [f"{v.mean():.4f}" for v in values.values()]
        table.add_row(name, *cells, f"{gap.mean():+.4f} ± {half:.4f}")
    for m in METHODS:
        value = run(parts, m, MAPS["query"], quarter=True).mean()
        found[f"query_{m.lower()}_quarter"] = round(float(value), 4)
    Console(width=120).print(table)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
