"""The exact solver's epoch: how much of it is matrix products, and how far it is from their floor.

    python benchmarks/exact.py [--users 30000] [--items 41000] [--factors 64]

Three products of users × items × factors are the floor; the rest is the listwise kernel over all
items, Adam, and Python. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from typing import Any

import numpy as np

import robirank as rr
from _floor import flops_per_second
from robirank._workers import Workers
from robirank.data.user_items import as_user_items
from robirank.engine.interface import never
from robirank.latent.solvers import make_solver
from robirank.latent.solvers.starts import singular_start
from robirank.latent.tune.settle import settle_by_table


def time_products(solver: Any) -> list[float]:
    """Have the seconds of every product written down, on whichever thread it is done."""
    seconds: list[float] = []
    product = solver.products.product

    def timed(*arguments: Any) -> Any:
        begin = time.perf_counter()
        result = product(*arguments)
        seconds.append(time.perf_counter() - begin)
        return result

    solver.products.product = timed
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=30_000)
    parser.add_argument("--items", type=int, default=41_000)
    parser.add_argument("--factors", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    data = rr.make_interactions(args.users, args.items, 27 * args.users, random_state=0)
    rate = flops_per_second(args.items)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = rr.LatentRoBiRank(args.factors, solver="exact", regularization=0.21, random_state=0)
    interactions = as_user_items(data)
    problem = settle_by_table(model.request(), interactions)
    with Workers() as workers:
        solver = make_solver(problem, interactions, singular_start(problem, interactions), workers)
        seconds, shares = [], []
        in_products = time_products(solver)
        for number in range(args.epochs):
            in_products.clear()
            begin = time.perf_counter()
            solver.epoch(number, 64, never)
            seconds.append(time.perf_counter() - begin)
            shares.append(sum(in_products) / seconds[-1] / os.cpu_count())
        factors = solver.factors()
    U, V = factors.users.rows, factors.items.rows
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    held = (U.nbytes + 3 * V.nbytes + 4 * len(U)) / 1e9  # factors and optimiser
    floor = 6.0 * args.users * args.items * args.factors / rate
    best = int(np.argmin(seconds))
    print(f"{args.users:,} users × {args.items:,} items, {args.factors} factors")
    print(f"an epoch              {seconds[best]:8.2f} s")
    print(f"  floor of 3 products {floor:8.2f} s at {rate / 1e9:.0f} Gflop/s")
    print(f"  in products         {100 * shares[best]:8.0f} % of the threads' time")
    print(f"memory beyond factors, optimiser and data {grown - held:6.2f} GB")
    figures = {
        "exact_gemm_share": round(shares[best], 3),
        "epoch_seconds": round(seconds[best], 2),
        "over_floor": round(seconds[best] / floor, 2),
        "extra_memory_gb": round(grown - held, 3),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
