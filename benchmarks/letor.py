"""RoBiRank on LETOR's OHSUMED and MQ2008, five folds, beside LightGBM and a pairwise model.

Every setting of every method is chosen on the validation file alone, by the mean of NDCG@1 … @10 in
LETOR's convention (a validation file of OHSUMED has 21 queries: one cut-off alone is a lottery);
the test file is used once. Figures are means over the test queries of each fold, then over folds.

    python benchmarks/letor.py [--data FOLDER]

FOLDER holds OHSUMED/Fold1/train.txt.gz and so on; $ROBIRANK_DATA/letor by default. The last line
is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from rich.console import Console
from rich.table import Table

from _pairwise import PairwiseLogistic
from robirank import RankingData, RoBiRank, RoBiRankCV, load_dataset
from robirank.metrics import evaluate_ranking, ndcg

MEASURES = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "mean_ndcg", "map")
ALPHAS = np.logspace(1, -4.5, 12)
CUTS = list(range(1, 11))

Scorer = Callable[[RankingData], Any]


def validation_ndcg(scorer: Scorer, vali: RankingData) -> float:
    return float(np.mean(ndcg(vali.y, scorer(vali), vali.qid, k=CUTS, convention="letor")))


def robirank(rho: str) -> Callable[[RankingData, RankingData], Scorer]:
    def fit(train: RankingData, vali: RankingData) -> Scorer:
        init = "zeros"
        if rho == "type2":  # its gradient vanishes far from an optimum: start at the convex one
            convex = RoBiRankCV(ALPHAS, rho="identity", k=CUTS, convention="letor")
            init = convex.fit(train.X, train.y, qid=train.qid, validation=vali).coef_
        model = RoBiRankCV(ALPHAS, rho=rho, k=CUTS, init=init, convention="letor", max_iter=2000)
        model.fit(train.X, train.y, qid=train.qid, validation=vali)
        return lambda data: model.predict(data.X)

    return fit


def best_of(models: list[Any], vali: RankingData) -> Scorer:
    scorers: list[Scorer] = [lambda data, m=m: m.predict(data.X) for m in models]
    return max(scorers, key=lambda scorer: validation_ndcg(scorer, vali))


def pairwise_logistic(train: RankingData, vali: RankingData) -> Scorer:
    models = [
        PairwiseLogistic(alpha, pairs_per_query=1000, random_state=0).fit(
            train.X, train.y, qid=train.qid
        )
        for alpha in ALPHAS
    ]
    return best_of(models, vali)


def lambdarank(train: RankingData, vali: RankingData) -> Scorer:
    models = []
    for leaves in (4, 10, 31):
        for rate in (0.03, 0.1):
            model = lightgbm.LGBMRanker(
                n_estimators=1000,
                num_leaves=leaves,
                learning_rate=rate,
                min_child_samples=20,
                random_state=0,
                deterministic=True,
                force_row_wise=True,
                verbose=-1,
            )
            model.fit(
                train.X,
                train.y.astype(int),
                group=train.queries.sizes,
                eval_set=[(vali.X, vali.y.astype(int))],
                eval_group=[vali.queries.sizes],
                eval_at=[10],
                callbacks=[lightgbm.early_stopping(100, verbose=False)],
            )
            models.append(model)
    return best_of(models, vali)


METHODS = {
    "RoBiRank": robirank("log"),
    "identity loss": robirank("identity"),
    "Type-II": robirank("type2"),
    "pairwise logistic (scikit-learn)": pairwise_logistic,
    "LambdaMART (LightGBM)": lambdarank,
}


def run(folder: Path, console: Console) -> dict[str, np.ndarray]:
    """Figures of every method: one row a fold, one column a measure."""
    folds = load_dataset(folder)
    figures: dict[str, list[list[float]]] = {name: [] for name in METHODS}
    seconds = dict.fromkeys(METHODS, 0.0)
    for fold in folds:
        for name, fit in METHODS.items():
            console.print(f"[dim]{folder.name} {fold.name}: {name} …", end="\r")
            begin = time.perf_counter()
            scorer = fit(fold.train, fold.vali)
            seconds[name] += time.perf_counter() - begin
            test = fold.test
            found = evaluate_ranking(
                test.y, scorer(test), test.qid, metrics=MEASURES, convention="letor"
            )
            figures[name].append([found[m] for m in MEASURES])
    table = Table(title=f"{folder.name}, {len(folds)} folds, LETOR's convention: mean ± spread")
    table.add_column("method")
    for measure in (*MEASURES, "seconds"):
        table.add_column(measure, justify="right")
    arrays = {name: np.array(rows) for name, rows in figures.items()}
    best = np.max([a.mean(axis=0) for a in arrays.values()], axis=0)
    for name, array in arrays.items():
        cells = []
        for mean, spread, top in zip(array.mean(axis=0), array.std(axis=0), best, strict=True):
            text = f"{mean:.4f}"
            cells.append(f"{'[bold]' + text + '[/bold]' if mean == top else text} ±{spread:.3f}")
        table.add_row(name, *cells, f"{seconds[name]:.1f}")
    console.print(table)
    return arrays


def sensitivity(folder: Path, console: Console) -> None:
    """How much RoBiRank's figures depend on the validation measure that chooses the penalty.

    For readers, not for choosing: the measure above was fixed beforehand.
    """
    choose = {"NDCG@1": [1], "NDCG@5": [5], "NDCG@10": [10], "mean of NDCG@1 … @10": CUTS}
    found = {name: [] for name in choose}
    at_one = []
    for fold in load_dataset(folder):
        train, vali, test = fold.train, fold.vali, fold.test
        model = RoBiRank(warm_start=True, max_iter=2000)
        path = []
        for alpha in ALPHAS:
            model.set_params(alpha=alpha).fit(train.X, train.y, qid=train.qid)
            by_cut = ndcg(vali.y, model.predict(vali.X), vali.qid, k=CUTS, convention="letor")
            result = ndcg(test.y, model.predict(test.X), test.qid, k=[1, 10], convention="letor")
            path.append((by_cut, result))
            if alpha == ALPHAS[6]:
                one = ndcg(
                    test.y, model.predict(test.X), test.qid, k=1, convention="letor", per_query=True
                )
                at_one.append(one)
        for name, cuts in choose.items():
            best = max(path, key=lambda point: np.mean([point[0][k - 1] for k in cuts]))
            found[name].append(best[1])
    console.print(f"{folder.name}: test NDCG@1 and @10 of RoBiRank when validation chooses by")
    for name, rows in found.items():
        one, ten = np.mean(rows, axis=0)
        console.print(f"  {name:22s} {one:.4f}  {ten:.4f}", highlight=False)
    queries = np.concatenate(at_one)
    error = queries.std(ddof=1) / np.sqrt(len(queries))
    console.print(f"  standard error of NDCG@1 over the {len(queries)} test queries: {error:.3f}")


def main() -> None:
    root = Path(__file__).resolve().parents[1]
    default = Path(os.environ.get("ROBIRANK_DATA", root.parent / "shared" / "data")) / "letor"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=default)
    folder = parser.parse_args().data
    console = Console(width=150)
    warnings.simplefilter("ignore")
    mean = {
        name: run(folder / name, console)["RoBiRank"].mean(axis=0) for name in ("OHSUMED", "MQ2008")
    }
    sensitivity(folder / "OHSUMED", console)
    at = MEASURES.index
    result = {
        "ohsumed_ndcg1": round(float(mean["OHSUMED"][at("ndcg@1")]), 4),
        "ohsumed_ndcg10": round(float(mean["OHSUMED"][at("ndcg@10")]), 4),
        "mq2008_mean_ndcg": round(float(mean["MQ2008"][at("mean_ndcg")]), 4),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
