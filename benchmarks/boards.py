"""Published splits of implicit feedback: RoBiRank, its peers, and the best published figures.

Every setting is chosen on a part of the train set; the test part is used once for each line. Only
the twelve fits of a "grid" are measured on test one by one: they say, for the record, what the
best λ would have given, and choose nothing.

    python benchmarks/boards.py [--boards gowalla …] [--methods default64 …] [--folder runs/boards]
        [--device cuda]

Where a split comes with a validation part, searches hold that out, else a tenth of the train set.

Every result is kept in the folder as it comes, and is not computed again: the whole takes about
half a day on two cores and can be stopped at any time; RoBiRank's part takes minutes on a card.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import robirank as rr
from robirank.data.user_items import as_user_items
from robirank.latent.factors.factor_model import FactorModel
from robirank.latent.factors.factors import Factors
from robirank.latent.solvers import SOLVERS
from robirank.latent.solvers.starts import singular_start
from robirank.latent.tune.settle import settle_by_table

Found = dict[str, Any]

#: Best published Recall@20 and NDCG@20, and by what. Most chose their settings on the test users.
PUBLISHED: dict[str, tuple[float, float, str]] = {
    "ir-ml100k": (0.3580, 0.3677, "SL@20"),
    "ir-health": (0.1823, 0.1390, "SL@20"),
    "ir-yahoo-music": (float("nan"), float("nan"), "none"),
    "ir-electronic": (0.0903, 0.0591, "SL@20 on LightGCN"),
    "gowalla": (0.1941, 0.1617, "ChebyCF, NESCL"),
    "yelp2018": (0.0744, 0.0617, "BSL on LightGCN"),
    "ir-gowalla": (0.2128, 0.1729, "SL@20 on LightGCN"),
}
LONG = [16, 32]  # epochs of a longer search, which chooses them too
TRIALS = 6  # of a peer, at least, however short the search of RoBiRank was
MOST_EASE_ITEMS = 15_000  # a dense matrix of items × items is inverted
SEED = 0
MODEL = rr.LatentRoBiRank  # imported before anything is timed
DEVICE = "cpu"  # of the exact solver


class Board(NamedTuple):
    """A published split."""

    train: Any
    test: Any
    valid: Any = None  # a part of train


def load(folder: Path) -> Board:
    """Train (with the published validation part, where there is one) and test."""
    columns = {"user": 0, "item": 1, "header": False}
    tables = {p.name.split(".")[0]: rr.load_interactions(p, **columns) for p in folder.glob("*.gz")}
    train = tables["train"]
    users, items = train.users, train.items
    if "valid" in tables:
        users, items = users.extend(tables["valid"].users), items.extend(tables["valid"].items)
    items = items.extend(tables["test"].items)
    parts = {
        name: rr.load_interactions(p, **columns, users=users, items=items).matrix
        for p in folder.glob("*.gz")
        for name in [p.name.split(".")[0]]
    }
    train = parts["train"] + parts["valid"] if "valid" in parts else parts["train"]
    train.data[:] = 1.0
    return Board(train.tocsr().astype(np.float32), parts["test"], parts.get("valid"))


def measured(model: Any, train: Any, test: Any) -> Found:
    found = rr.evaluate(model, train=train, test=test, k=20)
    return {"recall": found["recall@20"], "ndcg": found["ndcg@20"]}


def timed(fit: Callable[[], Any]) -> tuple[Any, Found]:
    """What it gave, the seconds, and those of the processor, which others do not slow down."""
    begin, cpu = time.perf_counter(), time.process_time()
    done = fit()
    seconds, spent = time.perf_counter() - begin, time.process_time() - cpu
    return done, {"seconds": seconds, "cpu": spent, "device": DEVICE}


# RoBiRank


def exact(**params: Any) -> Any:
    return MODEL(random_state=SEED, device=DEVICE, **params)


def sgd(**params: Any) -> Any:
    return MODEL(solver="sgd", random_state=SEED, **params)


def warp(**params: Any) -> Any:
    return rr.WARP(random_state=SEED, **params)


def default(make: Callable[..., Any]) -> Callable[[Board, Found], Found]:
    def run(board: Board, _: Found) -> Found:
        train, test, _ = board
        model, took = timed(lambda: make().fit(train, False))
        return measured(model, train, test) | took | {"regularization": model.regularization_}

    return run


def grid(make: Callable[..., Any]) -> Callable[[Board, Found], Found]:
    """Twelve λs around the rule."""

    def run(board: Board, _: Found) -> Found:
        train, test, _ = board
        rule, rule_took = timed(lambda: rule_of(make(), train))
        regs = (rule * np.geomspace(0.6, 1.8, 12)).tolist()
        rows = []
        for model, took in under_each(make, regs, train):
            reg = regs[len(rows)]
            rows.append(measured(model, train, test) | took | {"regularization": reg})
            print(f"    λ {reg:.4f}  recall@20 {rows[-1]['recall']:.4f}", flush=True)
        best = max(rows, key=_recall)
        cpu = float(np.median([row["cpu"] for row in rows]))
        return best | {"grid": rows, "cpu": cpu, "rule_cpu": rule_took["cpu"]}

    return run


def under_each(
    make: Callable[..., Any], regs: list[float], train: Any
) -> Iterator[tuple[Any, Found]]:
    """A fit under each λ; on a card they run side by side."""
    if make is not exact or DEVICE == "cpu":
        for reg in regs:
            model = make(regularization=reg)
            yield timed(lambda model=model: model.fit(train, False))
        return
    interactions = as_user_items(train)
    problems = [settle_by_table(make(regularization=reg).request(), interactions) for reg in regs]
    start = singular_start(problems[0], interactions)
    epochs = SOLVERS["exact"].epochs
    for fits in SOLVERS["exact"].side_by_side(problems, interactions, start):
        _, took = timed(lambda fits=fits: [fits.epoch(n, epochs) for n in range(epochs)])
        found = fits.factors()
        each = took | {name: took[name] / len(found) for name in ("seconds", "cpu")}
        for factors in map(Factors.on_host, found):
            U, V = factors.users.rows, factors.items.rows
            yield FactorModel.of(U, V, device=DEVICE), each


def rule_of(model: Any, train: Any) -> float:
    return settle_by_table(model.request(), as_user_items(train)).penalty.regularization


def tuned(factors: int, **others: Any) -> Callable[[Board, Found], Found]:
    def run(board: Board, _: Found) -> Found:
        train, test, valid = board
        held_out = 1 if valid is None else valid
        search = rr.LatentRoBiRankCV(exact(factors=factors), cv=held_out, grid=others or None)
        search, took = timed(lambda: search.fit(train, False))
        chosen = {"params": search.best_params_, "valid": search.best_score_}
        return measured(search.best_estimator_, train, test) | took | chosen

    return run


# Peers, with the search time that RoBiRank had


def implicit_model(name: str, **params: Any) -> Any:
    import implicit

    if name == "als":
        return implicit.als.AlternatingLeastSquares(random_state=SEED, **params)
    return implicit.bpr.BayesianPersonalizedRanking(random_state=SEED, **params)


def peer(name: str, draw: Callable[[np.random.Generator], Found]) -> Callable[..., Found]:
    """Random search on held-out data, for as long as RoBiRank's search took, then one fit."""

    def run(board: Board, done: Found) -> Found:
        train, test, _ = board
        budget = done["cv64"]["cpu"]
        kept, held_out = parts_of(board)
        rng, begin, tried = np.random.default_rng(SEED), time.process_time(), []
        while len(tried) < TRIALS or time.process_time() - begin < budget:
            params = draw(rng)
            value = measured(factors_of(name, kept, params), kept, held_out)["ndcg"]
            tried.append((value, params))
        _, params = max(tried, key=lambda entry: entry[0])
        model, took = timed(lambda: factors_of(name, train, params))
        return measured(model, train, test) | took | {"params": params, "tried": len(tried)}

    return run


def parts_of(board: Board) -> tuple[Any, Any]:
    """What a search fits to, and what it holds out."""
    train, _, valid = board
    if valid is not None:
        kept = (train - valid.astype(bool).astype(train.dtype)).tocsr()
        kept.eliminate_zeros()
        return kept, valid
    kept, held_out = rr.split_ratio(rr.Interactions.from_matrix(train), 0.1)
    return kept.matrix, held_out.matrix


def factors_of(name: str, train: Any, params: Found) -> Any:
    """Fit one of implicit's models; its factors as a model of ours, which ranks the same way."""
    model = implicit_model(name, **params)
    with threadpool_limits(1, "blas"):  # as implicit advises: it has threads of its own
        model.fit(train, show_progress=False)
    U, V = (np.asarray(rows, np.float32) for rows in (model.user_factors, model.item_factors))
    return FactorModel.of(np.ascontiguousarray(U), np.ascontiguousarray(V))


def als_default(board: Board, _: Found) -> Found:
    train, test, _ = board
    model, took = timed(lambda: factors_of("als", train, {}))
    return measured(model, train, test) | took


def draw_als(rng: np.random.Generator) -> Found:
    return {
        "factors": int(rng.choice([64, 128, 256])),
        "regularization": float(10 ** rng.uniform(-2, 1.5)),
        "alpha": float(10 ** rng.uniform(0, 1.7)),
        "iterations": int(rng.choice([10, 15, 20])),
    }


def draw_bpr(rng: np.random.Generator) -> Found:
    return {
        "factors": int(rng.choice([64, 128])),
        "regularization": float(10 ** rng.uniform(-3, -1)),
        "learning_rate": float(10 ** rng.uniform(-2, -0.7)),
        "iterations": int(rng.choice([100, 200, 300])),
    }


def ease(board: Board, _: Found) -> Found:
    """EASE: B = −P / diag(P) with P = (XᵀX + λI)⁻¹ (Steck, WWW 2019)."""
    train, test, _ = board
    if train.shape[1] > MOST_EASE_ITEMS:
        return {}
    kept, held_out = parts_of(board)
    regs = [30.0, 100.0, 300.0, 1000.0, 3000.0]
    values = [ranked(kept, held_out, ease_weights(kept, reg))["ndcg"] for reg in regs]
    reg = regs[int(np.argmax(values))]
    weights, took = timed(lambda: ease_weights(train, reg))
    return ranked(train, test, weights) | took | {"params": {"regularization": reg}}


def ease_weights(train: Any, reg: float) -> Any:
    gram = (train.T @ train).toarray().astype(np.float64)
    gram[np.diag_indices_from(gram)] += reg
    inverse = np.linalg.inv(gram)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights.astype(np.float32)


def popular(board: Board, _: Found) -> Found:
    train, test, _ = board
    model, took = timed(lambda: rr.Popularity().fit(train))
    return measured(model, train, test) | took


def ranked(train: Any, test: Any, weights: Any) -> Found:
    """Recall and NDCG of full score rows, 1,000 users at a time."""
    users = np.flatnonzero(np.diff(test.indptr))
    discounts = 1.0 / np.log2(np.arange(2, 22))
    recall = ndcg = 0.0
    for first in range(0, len(users), 1000):
        block = users[first : first + 1000]
        rows = np.array(train[block] @ weights)
        rows[train[block].nonzero()] = -np.inf
        top = np.argpartition(-rows, 20, axis=1)[:, :20]
        order = np.argsort(-np.take_along_axis(rows, top, 1), axis=1, kind="stable")
        top = np.take_along_axis(top, order, 1)
        hits = np.take_along_axis(test[block].toarray() > 0, top, 1)
        n = np.diff(test.indptr)[block]
        recall += (hits.sum(1) / n).sum()
        ndcg += ((hits @ discounts) / np.cumsum(discounts)[np.minimum(n, 20) - 1]).sum()
    return {"recall": recall / len(users), "ndcg": ndcg / len(users)}


METHODS: dict[str, Callable[[Board, Found], Found]] = {
    "default64": default(exact),
    "cv64": tuned(64),
    "als_default": als_default,
    "popular": popular,
    "ease": ease,
    "als": peer("als", draw_als),
    "bpr": peer("bpr", draw_bpr),
    "cv256": tuned(256),
    "long64": tuned(64, iterations=LONG),
    "long256": tuned(256, iterations=LONG),
    "grid64": grid(exact),
    "sgd64": default(sgd),
    "sgd_grid64": grid(sgd),
    "warp64": default(warp),
    "warp_grid64": grid(warp),
}
#: Recall@20 of these methods in the JSON object.
RECALLS = {
    "default64": "default",
    "cv64": "cv64",
    "grid64": "best",
    "sgd64": "sgd_default",
    "sgd_grid64": "sgd_best",
    "warp64": "warp_default",
    "warp_grid64": "warp_best",
}


def table(done: dict[str, Found]) -> None:
    print(f"\n{'':15s}" + "".join(f"{name:>17s}" for name in (*METHODS, "published")))
    for board, found in done.items():
        cells = [found.get(name) for name in METHODS]
        texts = [f"{c['recall']:.4f} / {c['ndcg']:.4f}" if c else "–" for c in cells]
        recall, ndcg, _ = PUBLISHED[board]
        texts.append("–" if np.isnan(recall) else f"{recall:.4f} / {ndcg:.4f}")
        print(f"{board:15s}" + "".join(f"{text:>17s}" for text in texts))


def summary(done: dict[str, Found]) -> dict[str, float]:
    figures: dict[str, float] = {}
    costs: list[list[float]] = []
    rules: list[float] = []
    for board, found in done.items():
        name = board.replace("-", "_")
        searched = [found[m] for m in ("cv64", "cv256", "long64", "long256") if m in found]
        searched = [one for one in searched if "valid" in one]  # not of an earlier version
        if searched:
            best = max(searched, key=lambda one: one["valid"])
            figures |= {f"{name}_recall20": best["recall"], f"{name}_ndcg20": best["ndcg"]}
        for method, key in RECALLS.items():
            if method in found:
                figures[f"{name}_{key}_recall20"] = found[method]["recall"]
        on_cpu = found.get("grid64", {}).get("device", "cpu") == "cpu"
        if {"default64", "cv64", "grid64"} <= found.keys() and on_cpu:
            one = found["grid64"]["cpu"]
            costs.append([found["cv64"]["cpu"] / one, found["default64"]["cpu"] / one])
            rules.append(found["grid64"]["rule_cpu"])
    if costs:
        figures["tune_cost"], figures["default_cost"] = np.max(costs, axis=0).tolist()
        figures["rule_seconds"] = max(rules)
    return {name: round(value, 4) for name, value in figures.items()}


def _recall(found: Found) -> float:
    return float(found["recall"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", nargs="*", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--folder", type=Path, default=Path("runs/boards"))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    args = parser.parse_args()
    global DEVICE
    DEVICE = args.device
    root = Path(os.environ.get("ROBIRANK_DATA", "../shared/data")) / "implicit"
    args.folder.mkdir(parents=True, exist_ok=True)
    done: dict[str, Found] = {}
    for board in args.boards:
        found = done.setdefault(board, {})
        data = None
        for name, method in METHODS.items():
            path = args.folder / f"{board}.{name}.json"
            if path.exists():
                found[name] = json.loads(path.read_text())
            elif name in args.methods:
                data = data or load(root / board)
                found[name] = method(data, found)
                path.write_text(json.dumps(found[name], default=float))
                shown = {k: v for k, v in found[name].items() if k != "grid"}
                print(board, name, json.dumps(shown, default=float), flush=True)
    table(done)
    print(json.dumps(summary(done)))


if __name__ == "__main__":
    main()
