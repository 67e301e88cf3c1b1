"""The listwise kernel against the machine's floor, and the grid sum against the direct one.

Part one: one evaluation of loss and gradient on a problem of MSLR-WEB30K's shape, against the two
passes over X that any method needs (X·ω and Xᵀg, timed alone), and the memory of a whole fit.
Part two: one long list, grid against direct, on one thread each.

    python benchmarks/listwise.py [--rows 3770000] [--items 400000]

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from robirank import RoBiRank, _core, make_ranking
from robirank._queries import group_queries
from robirank.objectives.listwise import Lists


def seconds(call: Callable[[], object], repeats: int) -> float:
    """The best time of several: what the code costs when nobody else uses the machine."""
    best = np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def gigabytes_now() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e9


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def evaluation_against_floor(rows: int) -> dict[str, float]:
    data = make_ranking(n_queries=rows // 120, n_docs=120, n_features=136, random_state=0)
    X, w = data.X, np.random.default_rng(0).standard_normal(data.n_features) / 12
    size = X.nbytes / 1e9
    print(f"{data.n_rows:,} rows x {data.n_features}, {data.n_queries:,} queries, {size:.2f} GB")
    lists = Lists.build(data.y, group_queries(data.qid, data.n_rows))
    pairs = float(np.sum(np.diff(lists.starts) * lists.queries.sizes))
    print(f"relevant documents {len(lists.relevant):,}, pairs {pairs:,.0f}")

    w32 = w.astype(np.float32)
    g32 = np.random.default_rng(1).standard_normal(len(X)).astype(np.float32)
    score_pass = gradient_pass = evaluation = np.inf
    for _ in range(7):  # in turns, so that all see the same machine
        score_pass = min(score_pass, seconds(lambda: X @ w32, 1))
        gradient_pass = min(gradient_pass, seconds(lambda: g32 @ X, 1))
        evaluation = min(evaluation, seconds(lambda: lists.of_linear(X, w), 1))
    floor = score_pass + gradient_pass
    print(f"X·ω alone          {score_pass:7.3f} s   {size / score_pass:6.1f} GB/s")
    print(f"Xᵀg alone          {gradient_pass:7.3f} s   {size / gradient_pass:6.1f} GB/s")
    print(f"loss and gradient  {evaluation:7.3f} s   {evaluation / floor:6.2f} of the two passes")

    # The peak of a fit: everything above X that training allocates.
    before = gigabytes_now()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        RoBiRank(max_iter=3).fit(X, data.y, qid=data.qid)
    peak = peak_gigabytes()
    print(f"memory: {before:.2f} GB before the fit, {peak:.2f} GB at the peak of the whole run")
    return {
        "eval_over_floor": round(evaluation / floor, 3),
        "peak_memory_over_x": round(peak / size, 3),
    }


def grid_against_direct(items: int, relevant: int = 50) -> dict[str, float]:
    rng = np.random.default_rng(0)
    scores = (3 * rng.standard_normal(items)).astype(np.float32)
    y = np.zeros(items)
    y[rng.choice(items, relevant, replace=False)] = 1
    queries = group_queries(None, items)
    lists = {m: Lists.build(y, queries, method=m, num_threads=1) for m in ("direct", "grid")}
    print(f"\none list of {items:,} items, {relevant} relevant, one thread, loss and gradient")
    times, results = {"direct": np.inf, "grid": np.inf}, {}
    for _ in range(30):  # in turns, so that both see the same machine
        for method in times:
            once = seconds(lambda m=method: lists[m].evaluate(scores), 2)
            times[method] = min(times[method], once)
    for method in times:
        results[method] = lists[method].evaluate(scores)
        print(f"{method:6s} {1e3 * times[method]:8.3f} ms")
    direct, grid = results["direct"], results["grid"]
    error = max(
        abs(grid.loss / direct.loss - 1),
        float(np.linalg.norm(grid.gradient - direct.gradient) / np.linalg.norm(direct.gradient)),
    )
    print(f"grid is {times['direct'] / times['grid']:.1f} times faster, relative error {error:.1e}")
    return {
        "grid_speedup": round(times["direct"] / times["grid"], 1),
        "grid_rel_error": float(f"{error:.2e}"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_770_000)
    parser.add_argument("--items", type=int, default=400_000, help="of the long list")
    arguments = parser.parse_args()
    print(f"instruction set {_core.instruction_set()}")
    figures = evaluation_against_floor(arguments.rows)
    figures |= grid_against_direct(arguments.items)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
