"""The exact ξ-step against the direct sum, and against the machine's floor.

Part one: the sums of rows of given scores, for the points of each row. Part two: the whole step
with the product U·Vᵀ. Everything on one thread, rivals in turns, processor time.

    python benchmarks/xi.py [--users 256] [--items 386133]

Two rivals, both native and vectorised. The *listwise kernel's* direct sum takes the logarithm of a
product of mantissas, and finds slopes on the way. The *bare* direct sum does nothing that the
inner sum does not need: one fused multiply-add and one multiplication a pair. `speedup` and
`step_speedup` are over the first, `speedup_bare` and `step_speedup_bare` over the second. The last
line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from robirank import _core
from robirank.latent.solvers.objective import inner_sums

POINTS, FACTORS = 44, 64


def in_turns(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Seconds of each, the best of several turns: all see the same machine."""
    best = dict.fromkeys(calls, np.inf)
    for _ in range(repeats):
        for name, call in calls.items():
            begin = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - begin)
    return best


def rel_error(t: NDArray[np.float64], exact: NDArray[np.float64]) -> float:
    """The largest relative error of ξ = 1 / (1 + t)."""
    return float(np.max(np.abs((1 + exact) / (1 + t) - 1)))


def floor_of_a_row(n_items: int) -> tuple[float, float]:
    """Seconds to read the scores of one user from memory, and to compute them."""
    rows = np.ones((64, n_items), dtype=np.float32)  # more than a cache holds
    square = np.ones((2048, 2048), dtype=np.float32)
    best = in_turns({"read": rows.max, "product": lambda: square @ square}, 5)
    flops_a_second = 2 * 2048**3 / best["product"]
    bytes_a_second = rows.nbytes / best["read"]
    read, product = n_items * 4 / bytes_a_second, 2 * FACTORS * n_items / flops_a_second
    print(
        f"reading {n_items * 4 / 1e6:.2f} MB of scores at {bytes_a_second / 1e9:.0f} GB/s:", end=" "
    )
    print(f"{1e6 * read:.0f} µs;", end=" ")
    print(
        f"{2 * FACTORS * n_items / 1e6:.0f} Mflop at {flops_a_second / 1e9:.0f} Gflop/s:", end=" "
    )
    print(f"{1e6 * product:.0f} µs a user")
    return read, product


def given_scores(n_items: int, read: float) -> tuple[dict[str, float], dict[str, float]]:
    """The sums alone, one row at a time."""
    offsets, whole = np.array([0, POINTS]), np.array([0, n_items])
    weight, best, error = np.ones(POINTS), {}, 0.0
    for spread in (0.5, 8.0, 2.0):  # the last one is what a trained model looks like
        rng = np.random.default_rng(0)
        scores = (spread * rng.standard_normal((1, n_items))).astype(np.float32)
        places = np.sort(rng.choice(n_items, POINTS, replace=False)).astype(np.int32)
        points = scores[0, places]

        def sums(method: str, scores=scores, points=points) -> NDArray[np.float64]:
            t = np.zeros(POINTS)
            _core.point_sums(scores, offsets, points, t, method=method)
            return t

        def listwise(scores=scores, places=places) -> object:
            lists = _core.ListBatch(offsets=whole, starts=offsets, relevant=places, weight=weight)
            how = {"rho": "log", "method": "direct", "hessian": None}
            return _core.listwise(scores[0], lists, **how, gradient=False, num_threads=1)

        calls = {"listwise": listwise, "bare": lambda: sums("direct"), "grid": lambda: sums("grid")}
        best = in_turns(calls, 150)  # a second: longer than most disturbances
        exact = np.logaddexp2(0.0, scores.astype(np.float64) - points[:, None].astype(np.float64))
        error = max(error, rel_error(sums("grid"), exact.sum(axis=1)))
        print(f"\nscores with spread {spread}: {n_items:,} items, {POINTS} points")
        for name, label in (("listwise", "direct, listwise kernel"), ("bare", "direct, bare")):
            pair = 1e9 * best[name] / n_items / POINTS
            print(f"{label:24s} {1e6 * best[name]:8.0f} µs   {pair:.3f} ns a pair")
        item = 1e9 * best["grid"] / n_items
        print(f"{'grid':24s} {1e6 * best['grid']:8.0f} µs   {item:.3f} ns an item, ", end="")
        print(f"{best['grid'] / read:.1f} times the reading alone, error of ξ {error:.1e}")
    figures = {
        "speedup": round(best["listwise"] / best["grid"], 1),
        "speedup_bare": round(best["bare"] / best["grid"], 1),
        "ns_an_item": round(1e9 * best["grid"] / n_items, 3),
        "rel_error": error,
    }
    return best, figures


def whole_step(
    n_items: int, users: int, alone: dict[str, float], product: float
) -> dict[str, float]:
    """The step with the product, for a block of users; the direct sums get BLAS's product."""
    rng = np.random.default_rng(1)
    U = (0.5 * rng.standard_normal((users, FACTORS))).astype(np.float32)
    V = (0.5 * rng.standard_normal((n_items, FACTORS))).astype(np.float32)
    indptr = np.arange(users + 1) * POINTS
    liked = rng.integers(0, n_items, users * POINTS).astype(np.int32)
    width = 1 << 15
    memory = np.empty((users, width + 16), dtype=np.float32)  # no power of two apart

    def scores_only() -> None:
        for begin in range(0, n_items, width):
            block = V[begin : begin + width]
            np.matmul(U, block.T, out=memory[:, : len(block)])

    def step() -> NDArray[np.float64]:
        return inner_sums(U, V, indptr, liked, num_threads=1)

    best = {name: s / users for name, s in in_turns({"U·Vᵀ": scores_only, "step": step}, 5).items()}
    listwise, bare = alone["listwise"] + best["U·Vᵀ"], alone["bare"] + best["U·Vᵀ"]
    t, some = step(), range(0, users, max(1, users // 8))
    error = 0.0
    for x in some:
        own = slice(indptr[x], indptr[x + 1])
        scores = V.astype(np.float64) @ U[x].astype(np.float64)
        exact = np.logaddexp2(0.0, scores - scores[liked[own], None]).sum(axis=1) - 1.0
        error = max(error, rel_error(t[own], exact))
    print(f"\nthe whole step, {users} users, {FACTORS} factors, a user:")
    print(f"U·Vᵀ alone               {1e6 * best['U·Vᵀ']:8.0f} µs   ", end="")
    print(f"{best['U·Vᵀ'] / product:.2f} of what BLAS needs at its best")
    print(f"with the listwise direct {1e6 * listwise:8.0f} µs")
    print(f"with the bare direct     {1e6 * bare:8.0f} µs")
    print(f"with the grid            {1e6 * best['step']:8.0f} µs   ", end="")
    print(f"{best['step'] / product:.2f} of what BLAS needs at its best, error of ξ {error:.1e}")
    return {
        "step_speedup": round(listwise / best["step"], 1),
        "step_speedup_bare": round(bare / best["step"], 1),
        "step_over_product": round(best["step"] / best["U·Vᵀ"], 2),
        "step_over_floor": round(best["step"] / product, 2),
        "rel_error": error,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=256)
    parser.add_argument("--items", type=int, default=386_133)
    arguments = parser.parse_args()
    print(f"instruction set {_core.instruction_set()}")
    with threadpool_limits(1, user_api="blas"):
        read, product = floor_of_a_row(arguments.items)
        alone, figures = given_scores(arguments.items, read)
        step = whole_step(arguments.items, arguments.users, alone, product)
    error = max(figures.pop("rel_error"), step.pop("rel_error"))
    print(json.dumps(figures | step | {"rel_error": float(f"{error:.2e}")}))


if __name__ == "__main__":
    main()
