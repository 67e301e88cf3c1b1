"""How many factors? Default fits with 32 to 256 of them on published splits and ones of our own.

    python benchmarks/factors.py [--boards gowalla …] [--factors 32 64 auto …] [--device cuda]

Every fit looks for its own λ, as always; "auto" also counts how many factors the table can use.
Told are Recall@20 and NDCG@20 on the test part, seconds, megabytes of the model, and, for the
largest number given, what its strongest directions alone are worth: its rows are turned so that
columns are in the order of strength, and cut. Beside each figure stands its ratio to that of 64
factors. Boards are folders of ``$ROBIRANK_DATA/implicit``; Last.fm, LastFM and
Toys are split here, a fifth of each user's records at random. On two cores all of it takes an
hour. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import robirank as rr
from robirank.latent.factors.factor_model import FactorModel

DATA = Path(os.environ.get("ROBIRANK_DATA", "../shared/data"))
PUBLISHED = (
    *("ir-ml100k", "ir-health", "ir-yahoo-music", "ir-electronic"),
    *("gowalla", "yelp2018", "ir-gowalla"),
)
SEQUENCES = {"toys": "Toys_and_Games", "s3-lastfm": "LastFM"}
BOARDS = (*PUBLISHED, "lastfm", *SEQUENCES)
WIDTHS = ("32", "64", "128", "256", "auto")
USUAL = "64"


def parts(name: str) -> tuple[Any, Any]:
    """What is trained on, and the test."""
    if name in PUBLISHED:
        from boards import load

        board = load(DATA / "implicit" / name)
        return board.train, board.test
    if name in SEQUENCES:
        pairs: list[tuple[str, str]] = []
        path = DATA / "features" / "s3rec" / f"{SEQUENCES[name]}.txt.gz"
        with gzip.open(path, "rt") as lines:
            for line in lines:
                user, *items = line.split()
                pairs += [(user, item) for item in items]
        table = rr.Interactions.from_arrays(*zip(*pairs, strict=True))
    else:
        path = DATA / "implicit" / name / "interactions.tsv.gz"
        table = rr.load_interactions(path)
    train, test = rr.split_ratio(table, 0.2, random_state=0)
    return train.matrix, test.matrix


def in_order_of_strength(model: Any) -> tuple[Any, Any]:
    """The same scores from rows whose columns are the directions of U Vᵀ, the strongest first."""
    users, user_triangle = np.linalg.qr(model.user_factors.astype(np.float64))
    items, item_triangle = np.linalg.qr(model.item_factors.astype(np.float64))
    left, strength, right = np.linalg.svd(user_triangle @ item_triangle.T)
    root = np.sqrt(strength)
    return (
        (users @ left * root).astype(np.float32),
        (items @ right.T * root).astype(np.float32),
    )


def figures(model: Any, train: Any, test: Any) -> dict[str, float]:
    """Recall and NDCG of 20 places."""
    found = rr.evaluate(model, train=train, test=test, k=20)
    return {name: found[name] for name in ("recall@20", "ndcg@20")}


def measure(name: str, widths: list[str], seeds: int, device: str) -> dict[str, Any]:
    """All numbers of factors on one board; prints a line for each."""
    numbers = [int(width) for width in widths if width != "auto"]
    train, test = parts(name)
    print(f"{name}: {train.shape[0]:,} × {train.shape[1]:,}, {train.nnz:,} records", flush=True)
    found: dict[str, Any] = {}
    for width in widths:
        rows, began = [], time.perf_counter()
        for seed in range(seeds):
            factors: Any = width if width == "auto" else int(width)
            model = rr.LatentRoBiRank(factors, solver="exact", device=device, random_state=seed)
            rows.append(figures(model.fit(train, show_progress=False), train, test))
        seconds = (time.perf_counter() - began) / seeds
        means = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
        n = model.item_factors.shape[1]
        found[width] = means | {"factors": n, "seconds": seconds, "mb": 4e-6 * n * sum(train.shape)}
        found[width]["λ"] = model.regularization_
        if numbers and width == str(max(numbers)):
            largest = in_order_of_strength(model)
    usual = found.get(USUAL, next(iter(found.values())))
    for number in sorted(numbers)[:-1]:
        U, V = (rows[:, :number].copy() for rows in largest)
        cut = FactorModel.of(U, V, device=device)
        found[f"{max(numbers)} cut to {number}"] = figures(cut, train, test)
    for key, row in found.items():
        ratio = row["recall@20"] / usual["recall@20"]
        more = "".join(
            f"  {what} {row[what]:.4g}" for what in ("factors", "seconds", "mb", "λ") if what in row
        )
        print(
            f"  {key:>14}  recall@20 {row['recall@20']:.4f} ({ratio:.3f})  "
            f"ndcg@20 {row['ndcg@20']:.4f} ({row['ndcg@20'] / usual['ndcg@20']:.3f}){more}",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", nargs="*", default=list(BOARDS), choices=list(BOARDS))
    parser.add_argument("--factors", nargs="*", default=list(WIDTHS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    args = parser.parse_args()
    found = {b: measure(b, args.factors, args.seeds, args.device) for b in args.boards}
    figures = {
        f"{board}_{width.replace(' ', '_')}_{key.replace('@', '')}": value
        for board, rows in found.items()
        for width, row in rows.items()
        for key, value in row.items()
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
