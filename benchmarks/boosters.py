"""RoBiRank's trees and nets beside the boosters and nets of others, on four data sets.

    python benchmarks/boosters.py [--data FOLDER] [--output FOLDER] [--quick]

Every method has the same number of settings to choose from, the same most trees, and the same rule
to stop. A setting is chosen for each fold on its validation part, with one seed; the test part is
then measured with five seeds. Every fit is written to the output folder as soon as it is there, and
a run that is stopped goes on where it was.

- OHSUMED, MQ2008: five folds, NDCG@10 (gain 2^r − 1, discount log2, 0 for a query without relevant
  documents).
- Yandex: setting and rounds are chosen by five folds of the queries of training and validation
  part, and fitted to both, as the published figures were fitted to the whole training file; a query
  without relevant documents counts 1, as there. Also: one ranking by the mean score of the five
  seeds' models.
- web: a million generated documents with relevance that no linear model can follow. Cut to what two
  cores do in an hour: two settings, 200 trees at most, three seeds; CatBoost, which takes eight
  times as long as lambdarank there, and the nets are left out.

Then the cost of a boosting round beside LightGBM's lambdarank, rounds of both in turn, on two
threads, and the seconds of 20 rounds on one list of a million documents. The last line is one JSON
object. ``--quick`` checks the script: one fold, few trees, little data.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats
from sklearn.model_selection import GroupKFold

from robirank import (
    RankingData,
    RoBiRankBooster,
    lightgbm_objective,
    load_dataset,
    make_ranking,
)
from robirank.data.folds import Fold
from robirank.metrics import Convention, ndcg
from robirank.storage.files import write_text
from robirank_lab.ltr import boosters


def trees(sizes: Any, draws: Any) -> tuple[dict[str, Any], ...]:
    """Settings of all pairs of a size (rate, leaves) and a draw (of features, of queries)."""
    return tuple(
        {"learning_rate": rate, "max_leaf_nodes": leaves, "max_features": share, "subsample": drawn}
        for share, drawn in draws
        for rate, leaves in sizes
    )


TREES = trees(((0.05, 7), (0.1, 7), (0.05, 15), (0.1, 15)), ((0.5, 0.5), (0.3, 0.8)))
SPARE_TREES = trees(((0.05, 7), (0.1, 7), (0.2, 7), (0.1, 15)), ((0.3, 0.5), (0.15, 0.5)))
BIG_TREES = tuple(
    {"learning_rate": rate, "max_leaf_nodes": 31, "max_features": 0.5, "subsample": 0.5}
    for rate in (0.1, 0.2)
)
NETS = tuple(
    {"learning_rate": rate, "alpha": decay} for rate in (1e-3, 3e-3) for decay in (0.01, 0.1)
)
SLOW = ("catboost", "net", "listnet_net", "lambdaloss_net")
PUBLISHED = "published on Yandex: CatBoost .7148, LightGBM .7100, XGBoost .7098"


@dataclass(frozen=True)
class Method:
    """A method, and the variants of its loss that share the settings of the trees among them."""

    make: Callable[..., Any]
    needs: str = "lightgbm"
    variants: tuple[dict[str, Any], ...] = ({},)

    def settings(self, data: Data) -> list[dict[str, Any]]:
        """What is chosen from; variants share the settings of trees, so all have as many."""
        n, k = len(data.trees), len(self.variants)
        return [setting | self.variants[i * k // n] for i, setting in enumerate(data.trees)]


class Net(Method):
    """A network; its rounds are epochs."""

    def settings(self, data: Data) -> list[dict[str, Any]]:
        """What is chosen from."""
        return list(NETS[: len(data.trees)])


def net(kind: str) -> Callable[..., Any]:
    """A network by the name of its class, made from the parameters of a booster."""

    def make(*, n_estimators: int, num_threads: int, **setting: Any) -> Any:  # noqa: ARG001
        import _net_losses
        from robirank import RoBiRankNet

        cls = RoBiRankNet if kind == "RoBiRankNet" else getattr(_net_losses, kind)
        return cls(max_iter=min(n_estimators, 100), **setting)

    return make


METHODS = {
    "booster": Method(RoBiRankBooster, variants=({"metric": "ndcg"}, {"metric": "dcg"})),
    "lambdarank": Method(boosters.LightGBMLambdaRank),
    "xendcg": Method(boosters.LightGBMXendcg),
    "xgboost": Method(boosters.XGBoostNDCG, needs="xgboost"),
    "net": Net(net("RoBiRankNet"), needs="torch"),
    "listnet_net": Net(net("ListNetNet"), needs="torch"),
    "lambdaloss_net": Net(net("LambdaLossNet"), needs="torch"),
    "catboost": Method(boosters.CatBoostYetiRank, needs="catboost"),
}


@dataclass(frozen=True)
class Data:
    """A data set of the comparison."""

    name: str
    folds: Callable[[], dict[str, Callable[[], Fold]]]
    trees: tuple[dict[str, Any], ...]
    n_estimators: int = 600
    empty: str = "zero"
    refit: bool = False
    threads: int = 1
    seeds: int = 5
    without: tuple[str, ...] = ()


def letor(path: Path, n_folds: int | None = None) -> Callable[[], dict[str, Callable[[], Fold]]]:
    """The folds of a folder, each read when it is wanted."""

    def folds() -> dict[str, Callable[[], Fold]]:
        found = load_dataset(path)
        names = found.names[:n_folds]
        return {name: cache(lambda i=i: found[i]) for i, name in enumerate(names)}

    return folds


def web(n_queries: int) -> Callable[[], dict[str, Callable[[], Fold]]]:
    """Generated documents: 100 a query, noisy grades, every second feature bent."""

    @cache
    def fold() -> Fold:
        data = make_ranking(
            round(n_queries * 1.3),
            n_docs=(60, 140),
            n_features=40,
            n_informative=20,
            noise=1.0,
            outliers=0.01,
            empty=0.1,
            nonlinear=True,
            random_state=0,
        )
        number = data.queries.codes() / n_queries
        return Fold(
            "made",
            data.take(number < 1),
            data.take((number >= 1) & (number < 1.1)),
            data.take(number >= 1.1),
        )

    return lambda: {"made": fold}


def plan(folder: Path, quick: bool) -> list[Data]:
    """The data sets."""
    if quick:
        small = TREES[:2]
        return [
            Data("ohsumed", letor(folder / "OHSUMED", 1), small, 3, seeds=2),
            Data("yandex", letor(folder / "Yandex"), small, 3, "one", refit=True, seeds=2),
            Data("web", web(20), BIG_TREES[:1], 3, seeds=2, without=SLOW),
        ]
    return [
        Data("ohsumed", letor(folder / "OHSUMED"), TREES),
        Data("yandex", letor(folder / "Yandex"), SPARE_TREES, empty="one", refit=True),
        Data("mq2008", letor(folder / "MQ2008"), TREES),
        Data("web", web(10_000), BIG_TREES, 200, threads=2, seeds=3, without=SLOW),
    ]


class Results:
    """JSON files in a folder, one a fit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Read a result, or make it and write it."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(make()) + "\n")
        return json.loads(path.read_text("utf-8"))


def fit(
    data: Data, method: Method, setting: dict[str, Any], fold: Fold, seed: int, rounds: int | None
) -> tuple[Any, dict[str, Any]]:
    """Fit a method; with ``rounds``, to training and validation part, without stopping early."""
    begin = time.perf_counter()
    model = method.make(
        n_estimators=rounds or data.n_estimators,
        random_state=seed,
        num_threads=data.threads,
        **setting,
    )
    train, vali = fold.train, fold.vali
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if rounds is None:
            model.fit(train.X, train.y, qid=train.qid, validation=vali)
        else:
            both = whole(fold)
            model.fit(both.X, both.y, qid=both.qid)
    seconds = round(time.perf_counter() - begin, 2)
    return model, {"rounds": int(model.best_iter_), "seconds": seconds}


def measure(scores: np.ndarray, part: RankingData, empty: str) -> np.ndarray:
    """NDCG@10 of every query."""
    rule = Convention(empty=empty)
    return ndcg(part.y, scores, part.qid, k=10, convention=rule, per_query=True)


def whole(fold: Fold) -> RankingData:
    """Training and validation part together."""
    train, vali = fold.train, fold.vali
    return RankingData(
        np.vstack([train.X, vali.X]),
        np.concatenate([train.y, vali.y]),
        np.concatenate([train.queries.codes(), vali.queries.codes() + train.n_queries]),
    )


def to_validate(data: Data, fold: Fold) -> list[Fold]:
    """The pairs of a training and a validation part that settings are chosen on."""
    if not data.refit:
        return [fold]
    everything = whole(fold)
    splitter = GroupKFold(2 if len(data.trees) < 4 else 5, shuffle=True, random_state=0)
    parts = splitter.split(everything.X, everything.y, everything.qid)
    return [Fold("", everything.take(a), everything.take(b), fold.test) for a, b in parts]


def search(
    results: Results, data: Data, fold: str, load: Any, method: str
) -> tuple[dict[str, Any], int | None]:
    """The setting that is best on the validation part, and its rounds where it is fitted anew."""
    settings = METHODS[method].settings(data)

    def one(number: int) -> dict[str, Any]:
        points = []
        for part in to_validate(data, load()):
            model, facts = fit(data, METHODS[method], settings[number], part, 0, None)
            values = measure(model.predict(part.vali.X), part.vali, data.empty)
            points.append({"validation": float(values.mean()), **facts})
        means = {name: float(np.mean([p[name] for p in points])) for name in points[0]}
        return {"setting": settings[number], **means}

    found = [
        results.get(f"{data.name}/{fold}/{method}-setting{i}", lambda i=i: one(i))
        for i in range(len(settings))
    ]
    best = int(np.argmax([point["validation"] for point in found]))
    if not data.refit:
        return settings[best], None
    return settings[best], max(1, round(found[best]["rounds"] * 1.25))  # a quarter more queries


def by_query(results: Results, data: Data, method: str, console: Console) -> np.ndarray:
    """NDCG@10 of a method: one row a seed, one column a test query of any fold."""
    parts = []
    for fold, load in data.folds().items():
        console.print(f"[dim]{data.name} {fold}: {method} …")
        setting, rounds = search(results, data, fold, load, method)

        def one(seed: int, load=load, setting=setting, rounds=rounds) -> dict[str, Any]:
            fold = load()
            model, facts = fit(data, METHODS[method], setting, fold, seed, rounds)
            values = measure(model.predict(fold.test.X), fold.test, data.empty)
            return {"ndcg10": values.round(6).tolist(), **facts}

        rows = [
            results.get(f"{data.name}/{fold}/{method}-seed{s}", lambda s=s: one(s))["ndcg10"]
            for s in range(data.seeds)
        ]
        parts.append(np.array(rows))
    return np.concatenate(parts, axis=1)


def averaged(results: Results, data: Data, method: str) -> float:
    """NDCG@10 of one ranking by the mean score of the models of all seeds."""
    ((name, load),) = data.folds().items()
    setting, rounds = search(results, data, name, load, method)

    def one() -> dict[str, Any]:
        fold = load()
        fits = (fit(data, METHODS[method], setting, fold, s, rounds) for s in range(data.seeds))
        scores = np.mean([model.predict(fold.test.X) for model, _ in fits], axis=0)
        return {"ndcg10": float(measure(scores, fold.test, data.empty).mean())}

    return results.get(f"{data.name}/{name}/{method}-averaged", one)["ndcg10"]


def compare(data: Data, results: Results, console: Console) -> dict[str, float]:
    """All methods on a data set: trees beside RoBiRankBooster, nets beside RoBiRankNet."""
    values = {
        name: by_query(results, data, name, console)
        for name, method in METHODS.items()
        if find_spec(method.needs) is not None and name not in data.without
    }
    table = Table(title=f"{data.name}: NDCG@10, {data.seeds} seeds, {len(data.trees)} settings")
    for column in ("method", "mean", "sd of seeds", "RoBiRank − method, 95 %", "p"):
        table.add_column(column, justify="left" if column == "method" else "right")
    found: dict[str, float] = {}
    for name, array in values.items():
        ours = values["net" if isinstance(METHODS[name], Net) else "booster"]
        difference = ours.mean(axis=0) - array.mean(axis=0)
        half = 1.96 * stats.sem(difference)
        p = float(stats.ttest_1samp(difference, 0).pvalue) if difference.any() else 1.0
        spread = array.mean(axis=1).std(ddof=1)
        interval = f"{difference.mean():+.4f} ± {half:.4f}"
        table.add_row(name, f"{array.mean():.4f}", f"{spread:.4f}", interval, f"{p:.3f}")
        found[f"{data.name}_{name}_ndcg10"] = round(float(array.mean()), 4)
        if data.refit:
            together = round(averaged(results, data, name), 4)
            found[f"{data.name}_{name}_averaged_ndcg10"] = together
            console.print(f"{data.name} {name}: {together:.4f} by the mean score of the seeds")
        if name == "lambdarank":
            found[f"{data.name}_p"] = round(p, 4)
    console.print(table)
    others = [
        array.mean()
        for name, array in values.items()
        if name != "booster" and not isinstance(METHODS[name], Net)
    ]
    found[f"{data.name}_best_other_ndcg10"] = round(float(max(others)), 4)
    return found


# The cost of a round.


def rounds_in_turn(data: RankingData, kinds: list[Any], n: int) -> list[float]:
    """The median seconds of a round of each objective; rounds are done in turn.

    An objective is a dict of LightGBM's parameters, or a function for its gradients.
    """
    shared = {"num_leaves": 31, "verbosity": -1, "num_threads": 2, "metric": "none"}
    labels = data.y.astype(int)
    train = lightgbm.Dataset(data.X, labels, group=data.queries.sizes, params=shared).construct()
    own = [{"objective": "custom"} if callable(kind) else kind for kind in kinds]
    made = [lightgbm.Booster({**shared, **params}, train) for params in own]
    seconds: list[list[float]] = [[] for _ in kinds]
    for _ in range(n):
        for booster, kind, times in zip(made, kinds, seconds, strict=True):
            begin = time.perf_counter()
            booster.update(fobj=kind if callable(kind) else None)
            times.append(time.perf_counter() - begin)
    return [float(np.median(times)) for times in seconds]


def costs(quick: bool) -> dict[str, Any]:
    """Rounds of RoBiRank's loss beside lambdarank's."""
    theirs = {"objective": "lambdarank"}
    n_queries, n = (20, 3) if quick else (10_000, 15)
    ((_, load),) = web(n_queries)().items()
    ours = lightgbm_objective(num_threads=2)
    robirank, lambdarank = rounds_in_turn(load().train, [ours, theirs], n)
    length = 1_000 if quick else 10_000
    long = make_ranking(5 if quick else 100, n_docs=length, n_features=20, random_state=0)
    every_pair = {**theirs, "lambdarank_truncation_level": length}
    beside_whole, whole = rounds_in_turn(long, [ours, every_pair], 3)
    beside_top, top = rounds_in_turn(long, [ours, theirs], n)
    return {
        "round_seconds": robirank,
        "round_cost": robirank / lambdarank,
        "long_list_cost": beside_whole / whole,
        "long_list_cost_top30": beside_top / top,
    }


def million_list(quick: bool) -> dict[str, Any]:
    """Seconds of 20 rounds on one list of a million documents."""
    n = 2_000 if quick else 1_000_000
    data = make_ranking(1, n_docs=n, n_features=20, nonlinear=True, random_state=0)
    begin = time.perf_counter()
    model = RoBiRankBooster(20, num_threads=2).fit(data.X, data.y, qid=data.qid)
    return {"seconds": time.perf_counter() - begin, "trees": model.best_iter_}


def main() -> None:
    root = Path(__file__).resolve().parents[1]
    default = Path(os.environ.get("ROBIRANK_DATA", root.parent / "shared" / "data")) / "letor"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--output", type=Path, default=Path("runs") / "boosters")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    console = Console(width=120)
    results = Results(given.output / "quick" if given.quick else given.output)
    found: dict[str, Any] = {}
    cost = results.get("cost", lambda: costs(given.quick))
    million = results.get("million-list", lambda: million_list(given.quick))
    for data in plan(given.data, given.quick):
        found |= compare(data, results, console)
    for name, method in METHODS.items():
        if find_spec(method.needs) is None:
            console.print(f"{name} is left out: it needs the package {method.needs}")
    console.print(PUBLISHED, highlight=False)
    found |= {name: round(value, 4) for name, value in cost.items()}
    found["million_list_seconds"] = round(million["seconds"], 2)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
