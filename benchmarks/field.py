"""The whole field on OHSUMED, and RankSVM's fast pair sum against the plain one.

    python benchmarks/field.py [--data FOLDER] [--run DIR] [--quick]

FOLDER holds OHSUMED/Fold1 … Fold5; $ROBIRANK_DATA/letor by default. The run directory is a
temporary one unless DIR is given; a finished run in DIR is read, not repeated. ``--quick`` checks
the script: one fold, two methods, two settings of each, a short list. The last line is one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markdown import Markdown

from robirank._queries import group_queries
from robirank.ltr.ranksvm import PairSum
from robirank_lab.ltr.methods import PAPER_FIELD
from robirank_lab.ltr.results import LtrResults
from robirank_lab.ltr.runner import run_ltr
from robirank_lab.run_format import LtrExperiment


def plain_pair_sum(scores: np.ndarray, y: np.ndarray, block: int = 500) -> float:
    """The sum over pairs with y_i > y_j and its gradient, pair by pair in NumPy."""
    loss, gradient = 0.0, np.zeros(len(y))
    for begin in range(0, len(y), block):
        rows = slice(begin, begin + block)
        d = np.maximum(0.0, 1.0 - scores[rows, None] + scores[None, :])
        d *= y[rows, None] > y[None, :]
        loss += float(np.einsum("ij,ij->", d, d))
        gradient[rows] -= 2 * d.sum(axis=1)
        gradient += 2 * d.sum(axis=0)
    return loss


def ranksvm_speedup(n: int, grades: int = 5) -> float:
    rng = np.random.default_rng(0)
    scores, y = rng.standard_normal(n), rng.integers(0, grades, n).astype(float)
    pairs = PairSum(y, group_queries(None, n))
    fast = np.inf
    for _ in range(5):
        begin = time.perf_counter()
        mean, _ = pairs(scores)
        fast = min(fast, time.perf_counter() - begin)
    begin = time.perf_counter()
    loss = plain_pair_sum(scores, y)
    plain = time.perf_counter() - begin
    error = abs(mean * pairs.count / loss - 1)
    print(f"one list of {n:,} documents, {grades} grades, {pairs.count:,} pairs")
    print(
        f"tree {1e3 * fast:9.1f} ms\npairs {1e3 * plain:8.1f} ms   relative difference {error:.0e}"
    )
    return plain / fast


def main() -> None:
    root = Path(__file__).resolve().parents[1]
    default = Path(os.environ.get("ROBIRANK_DATA", root.parent / "shared" / "data")) / "letor"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    folder = arguments.run or Path(tempfile.mkdtemp()) / "OHSUMED"
    few = {"folds": 1, "grid_points": 2} if arguments.quick else {}
    methods = PAPER_FIELD[:2] if arguments.quick else PAPER_FIELD
    command = "robirank experiment ltr OHSUMED"
    run = run_ltr(
        arguments.data / "OHSUMED", LtrExperiment(**few), folder, methods, command=command
    )
    # Units share the cores, so a fold takes the seconds of its units over the cores.
    seconds = sum(fit.search_seconds for fit in run.fits())
    minutes = seconds / len(run.data.folds) / run.settings.cores / 60
    Console(width=140).print(Markdown((folder / "table.md").read_text("utf-8")))
    figures = {
        "ohsumed_fold_minutes": round(minutes, 2),
        "ranksvm_speedup": round(ranksvm_speedup(1_000 if arguments.quick else 100_000), 1),
    }
    results = LtrResults(run)
    for k in (1, 10):
        for method in run.complete_methods():
            figures[f"{method}_ndcg{k}"] = round(results.means(method)[f"ndcg@{k}"], 4)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
