"""Variety and damping on Gowalla: what they cost, and what lists show for how much accuracy.

    python benchmarks/variety.py [--users 2000] [--plot FOLDER]

A model with the default settings is fitted to train + valid. First, the best 20 items of some users
are asked for in one call, plain, with ``variety`` and with ``popularity``, and by what one would
write without: the best 1,000 of each user, and the same greedy choice among them by NumPy. The
rivals are timed in turns, and ratios are those of the least seconds. How many of its lists differ
from the exact ones is told too. Then both knobs are swept over and evaluated on the test part. The
last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import robirank as rr
from gowalla import load

N, CANDIDATES = 20, 1000
VARIETIES = (0.1, 0.2, 0.3, 0.4, 0.5)
SHOWN = ("recall", "ndcg", "item_coverage", "gini", "novelty", "distance", "tail")


class NumpyHandler:
    """The best candidates of each user, and a greedy choice among them."""

    def __init__(self, model: Any, user_items: Any) -> None:
        self.model, self.user_items = model, user_items
        V = model.item_factors
        self.unit = V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-12)
        self.covariance = np.cov(V.T, bias=True)

    def lists(self, users: np.ndarray, variety: float) -> np.ndarray:
        """A varied list for each user."""
        found, scores = self.model.recommend(users, self.user_items, N=CANDIDATES)
        U = self.model.user_factors[users]
        spread = np.sqrt(np.einsum("ij,ij->i", U @ self.covariance, U))
        lists = np.empty((len(users), N), np.int32)
        for x, (items, of_user) in enumerate(zip(found, scores, strict=True)):
            left, similarity = items >= 0, np.zeros(len(items))
            relevance = (1 - variety) * of_user / (4 * spread[x])
            vectors = self.unit[items]
            for place in range(N):
                best = int(np.argmax(np.where(left, relevance - variety * similarity, -np.inf)))
                lists[x, place], left[best] = items[best], False
                np.maximum(similarity, vectors @ vectors[best], out=similarity)
        return lists


def least_seconds(rivals: dict[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """The least seconds of each rival, asked in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(turns):
        for name, ask in rivals.items():
            begin = time.perf_counter()
            ask()
            seconds[name].append(time.perf_counter() - begin)
    return {name: min(each) for name, each in seconds.items()}


def cost(model: Any, user_items: Any, n_users: int, turns: int) -> dict[str, float]:
    """Ratios to the plain call, and how many lists of the handler are others than the exact."""
    users = np.flatnonzero(np.diff(user_items.indptr))[:n_users]
    rows = user_items[users]
    handler = NumpyHandler(model, rows)

    def ask(**options: float) -> Callable[[], Any]:
        return lambda: model.recommend(users, rows, N=N, **options)

    rivals = {"plain": ask(), "popularity 1": ask(popularity=1.0)}
    rivals |= {f"variety {v}": ask(variety=v) for v in VARIETIES}
    rivals |= {f"handler {v}": lambda v=v: handler.lists(users, v) for v in VARIETIES[1::2]}
    seconds = least_seconds(rivals, turns)
    figures = {"plain_seconds": round(seconds["plain"], 4)}
    print(f"\nthe best {N} items of {len(users):,} users: {seconds['plain']:.3f} s, and times")
    for name in [*rivals][1:]:
        ratio = seconds[name] / seconds["plain"]
        figures[f"{name.replace(' ', '_')}_ratio"] = round(ratio, 2)
        other = ""
        if name.startswith("handler"):
            variety = float(name.split()[1])
            exact = model.recommend(users, rows, N=N, variety=variety)[0]
            differ = float((handler.lists(users, variety) != exact).any(axis=1).mean())
            figures[f"handler_{variety}_other_lists"] = round(differ, 4)
            other = f"   {differ:.1%} of its lists are others than the exact ones"
        print(f"  {name:14s} {ratio:7.2f}{other}")
    return figures


def curves(model: Any, train: Any, test: Any, folder: Path | None) -> dict[str, float]:
    """Sweeps over both knobs."""
    figures = {}
    for knob in ("variety", "popularity"):
        result = rr.sweep(model, train=train, test=test, knob=knob)
        print(f"\n{result}")
        for row in result.frame.iter_rows(named=True):
            value = f"{row[knob]:g}"
            figures |= {f"{knob}_{value}_{m}20": round(row[f"{m}@20"], 4) for m in SHOWN}
        if folder is not None:
            result.plot("recall").savefig(folder / f"{knob}.png", dpi=150)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=2_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--factors", type=int, default=64)
    parser.add_argument("--model", type=Path, help="load this model, or save it there")
    parser.add_argument("--plot", type=Path, help="folder for two plots")
    arguments = parser.parse_args()
    root = Path(os.environ.get("ROBIRANK_DATA", "../shared/data"))
    train, valid, test = load(root / "implicit" / "gowalla")
    both = (train + valid).tocsr()
    if arguments.model is not None and arguments.model.exists():
        model = rr.load_model(arguments.model)
    else:
        model = rr.LatentRoBiRank(factors=arguments.factors, random_state=0)
        model.fit(both, show_progress=False)
        if arguments.model is not None:
            model.save(arguments.model)
    model.prepare()
    figures = cost(model, both, arguments.users, arguments.turns)
    print(json.dumps(figures | curves(model, both, test, arguments.plot)))


if __name__ == "__main__":
    main()
