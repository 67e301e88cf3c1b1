"""Features and new rows: RoBiRank with features of items or users, and its rivals.

Every setting is chosen on a part of the train set, which holds out whole items beside interactions
where the test has new items; the test part is used once for each line.

    python benchmarks/cold.py [--boards citeulike10 …] [--methods default cv …]
        [--folder runs/cold] [--device cuda] [--quick]

Published splits are citeulike-t (with the words of articles), Last.fm's new users (with their
friends) and the last items of S3-Rec's sequences (with attributes); splits of our own have a fifth
of the items new, and are measured with all items ranked, with the old ones and with the new ones
alone; two generated tables have features that explain nothing and that explain all. One
interaction a user (citeulike1) leaves nothing to hold out: there rivals take their first setting,
and RoBiRank has no search.

Every result is kept in the folder as it comes, and is not computed again. The last line is one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import robirank as rr
from _cold_data import BOARDS, PUBLISHED, SEED, Board
from _cold_rivals import RIVALS, Found, Ranked, Rival, Sides, Skipped, solved

Method = Callable[[Board], Found]
DEVICE = "cpu"  # of the exact solver
QUICK = False  # a few factors and epochs, and one setting of each rival
BATCH = 1_000  # users whose scores are in memory


class Watched:
    """A model, and which items it has ever recommended."""

    def __init__(self, model: Any, n_items: int) -> None:
        self.model, self.shown = model, np.zeros(n_items, bool)

    def recommend(
        self,
        userid: Any,
        user_items: Any,
        N: int = 10,
        recalculate_user: bool = False,
        items: Any = None,
    ) -> tuple[Any, Any]:
        """What the model recommends."""
        options: Found = {"recalculate_user": recalculate_user, "items": items}
        if isinstance(self.model, rr.FactorModel):
            options["unknown_users"] = "popular"
        ids, scores = self.model.recommend(userid, user_items, N=N, **options)
        self.shown[ids[:, :20][ids[:, :20] >= 0]] = True
        return ids, scores


def measured(model: Any, board: Board) -> Found:
    """The metrics of a board, old and new items apart, and the share of items ever shown."""
    found: Found = {}
    for part, items in board.parts().items():
        watched = Watched(model, board.train.shape[1])
        cutoffs = sorted({int(name.split("@")[1]) for name in board.metrics})
        tables = {"train": board.train, "test": board.test}
        values = rr.evaluate(watched, k=cutoffs, items=items, batch_size=BATCH, **tables)
        found |= {part + name.replace("@", ""): values[name] for name in board.metrics}
        if not part:
            found["shown"] = float(watched.shown[items].mean())
    return found


def timed(fit: Callable[[], Any]) -> tuple[Any, Found]:
    """What it gave, and the seconds that it took."""
    begin, cpu = time.perf_counter(), time.process_time()
    done = fit()
    return done, {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu}


# RoBiRank


def exact(factors: int = 64) -> Any:
    small: Found = {"iterations": 4} if QUICK else {}
    return rr.LatentRoBiRank(8 if QUICK else factors, random_state=SEED, device=DEVICE, **small)


def features_of(board: Board) -> Found:
    """Features as an argument of `fit`; the model encodes the counts itself."""
    side = "user" if board.of_users else "item"
    return {f"{side}_features": rr.Features.from_matrix(board.features)}


def default(board: Board) -> Found:
    model, took = timed(lambda: exact().fit(board.train, False, **features_of(board)))
    return measured(model, board) | took | {"regularization": model.regularization_}


def searched(board: Board, factors: int = 64) -> Found:
    """A search by the metric that rivals choose their settings by."""
    if board.train.getnnz(1).max() < 2:
        raise Skipped("each user has one interaction, and none can be held out")
    search = rr.LatentRoBiRankCV(exact(factors), metric=board.metrics[-1])
    search, took = timed(lambda: search.fit(board.train, False, **features_of(board)))
    chosen = {"params": search.best_params_, "valid": search.best_score_}
    return measured(search.best_estimator_, board) | took | chosen


def plain(board: Board) -> Found:
    model, took = timed(lambda: exact().fit(board.train, False))
    return measured(model, board) | took | {"regularization": model.regularization_}


def popular(board: Board) -> Found:
    model, took = timed(lambda: rr.Popularity().fit(board.train))
    return measured(model, board) | took


def prepare_afterwards(board: Board) -> tuple[Sides, Any]:
    """A model without features, fitted to the users and items that have interactions."""
    sides = Sides.of(board)
    return sides, exact().fit(sides.table, False)


def afterwards(prepared: tuple[Sides, Any], setting: Found) -> Ranked:
    """Regress the factors on the features; known rows go some of the way to what these say."""
    sides, model = prepared
    U, V = model.user_factors, model.item_factors
    rows = (U if sides.board.of_users else V).astype(np.float32)
    n = sides.table.getnnz(1 if sides.board.of_users else 0).astype(np.float64) ** 0.85
    weights = np.sqrt(n / n.mean()).astype(np.float32)
    constant = np.full((sides.features.shape[0], 1), 0.5, np.float32)
    F = sparse.hstack([sides.features, constant], format="csr")
    weighted = sparse.csr_matrix(sparse.diags(weights) @ F[sides.known])
    W = solved(weighted, setting["penalty"], weighted.T @ (weights[:, None] * rows))
    centres = F @ W
    moved = rows + np.float32(setting["share"]) * (centres[sides.known] - rows)
    if sides.board.of_users:
        return sides.whole(moved, V, centres)
    return sides.whole(U, moved, centres)


# Rivals


def rival(method: Rival) -> Method:
    """The best of a few settings on held-out data, then one fit."""

    def run(board: Board) -> Found:
        if method.package and find_spec(method.package) is None:
            raise Skipped(f"{method.package} is not installed")
        settings = method.settings[:1] if QUICK else method.settings
        held_out = board.held_out() if len(settings) > 1 else None
        tried: list[float] = []
        if held_out is not None:
            prepared = method.prepare(held_out)
            for setting in settings:
                tried.append(value_of(method.fit(prepared, setting), held_out))
                print(f"    {json.dumps(setting)}  {tried[-1]:.4f}", flush=True)
        chosen = settings[int(np.argmax(tried))] if tried else settings[0]
        model, took = timed(lambda: method.fit(method.prepare(board), chosen))
        return measured(model, board) | took | {"params": chosen, "tried": tried}

    return run


def value_of(model: Any, board: Board) -> float:
    """The mean of a board's last metric over its parts: all, old and new items."""
    last = board.metrics[-1].replace("@", "")
    found = measured(model, board)
    return float(np.mean([found[part + last] for part in board.parts()]))


AFTERWARDS = Rival(
    prepare_afterwards,
    afterwards,
    [{"penalty": p, "share": share} for share in (0.0, 0.5) for p in (1.0, 0.3, 3.0)],
)
METHODS: dict[str, Method] = {
    "default": default,
    "plain": plain,
    "popular": popular,
    **{name: rival(method) for name, method in RIVALS.items()},
    "afterwards": rival(AFTERWARDS),
    "cv": searched,
    "cv256": partial(searched, factors=256),
}


def table(board: str, found: dict[str, Found]) -> None:
    """The figures of a board, a line a method, and then what is published."""
    names = [name for name in next(iter(found.values()), {}) if "recall" in name or "ndcg" in name]
    print(f"\n{board:24s}" + "".join(f"{name:>15s}" for name in names) + f"{'shown':>8s}")
    for method, values in found.items():
        cells = "".join(f"{values[name]:15.4f}" for name in names)
        print(f"  {method:22s}{cells}{values['shown']:8.2f}{values['seconds']:8.0f} s")
    for method, known in PUBLISHED.get(board, {}).items():
        print(f"  {method:22s}" + "".join(f"{value:15.4f}" for value in known) + "  (known)")


def summary(done: dict[str, dict[str, Found]]) -> dict[str, float]:
    """The figures by board, method and metric."""
    return {
        f"{board}_{method}_{name}": round(value, 4)
        for board, found in done.items()
        for method, values in found.items()
        for name, value in values.items()
        if "recall" in name or "ndcg" in name
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", nargs="*", default=list(BOARDS), choices=list(BOARDS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--folder", type=Path, default=Path("runs/cold"))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--quick", action="store_true", help="a few factors, epochs and settings")
    args = parser.parse_args()
    global DEVICE, QUICK
    DEVICE, QUICK = args.device, args.quick
    args.folder.mkdir(parents=True, exist_ok=True)
    done: dict[str, dict[str, Found]] = {}
    for board in args.boards:
        found, data = done.setdefault(board, {}), None
        for name, method in METHODS.items():
            path = args.folder / f"{board}.{name}.json"
            if path.exists():
                found[name] = json.loads(path.read_text())
            elif name in args.methods:
                data = data or BOARDS[board](QUICK)
                try:
                    found[name] = method(data)
                except Skipped as reason:
                    print(f"{board} {name} skipped: {reason}", flush=True)
                    continue
                path.write_text(json.dumps(found[name], default=float))
                print(board, name, json.dumps(found[name], default=float), flush=True)
    for board, found in done.items():
        table(board, found)
    print(json.dumps(summary(done)))


if __name__ == "__main__":
    main()
