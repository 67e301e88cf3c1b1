"""Sampled updates a second, against implicit's BPR and LightFM's WARP in the same run.

A triple (x, y, y') is one sampled item y' held against an interaction (x, y). BPR takes one for
each interaction. WARP samples until an item violates the margin; here LightFM's and ours may sample
one for each, so that their triples can be counted from outside. RoBiRank takes `--negatives` for
each, and what is timed is its (U,V)-step (the ξ-step has `benchmarks/xi.py`).

Part two repeats our rate at the shape of the Million Song data. The floor is what the memory
traffic alone costs: every row V_y' is read for its score, then read and written again.

    python benchmarks/sgd.py [--share 1]

`--share` takes that share of the users, items and interactions of both tables. Needs `pip install
robirank[peers]`. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from robirank import _core
from robirank._workers import Workers
from robirank.data.user_items import UserItems
from robirank.engine.interface import never
from robirank.latent.factors.factors import Factors, Side
from robirank.latent.solvers.in_memory import StrataInMemory
from robirank.latent.solvers.interface import Solver
from robirank.latent.solvers.sgd import SgdSolver
from robirank.latent.solvers.warp import WarpSolver
from robirank.latent.train.request import Request
from robirank.latent.tune.settle import settle_by_table

FACTORS = 64
TABLE = (200_000, 50_000, 5_000_000)  # users, items, interactions
MILLION_SONG = (1_129_318, 386_133, 49_824_519)


def make_table(n_users: int, n_items: int, n_interactions: int, seed: int = 0) -> UserItems:
    """Random interactions: users are active, and items popular, by a power law; none twice."""
    rng = np.random.default_rng(seed)
    activity = rng.pareto(1.5, n_users) + 0.5
    lengths = np.maximum(1, activity * (1.15 * n_interactions / activity.sum())).astype(np.int64)
    np.minimum(lengths, n_items // 10, out=lengths)
    popularity = np.cumsum((np.arange(n_items) + 10.0) ** -0.8)
    users = np.repeat(np.arange(n_users), lengths)
    items = np.searchsorted(popularity, rng.random(len(users)) * popularity[-1])
    interactions = np.unique(users * n_items + rng.permutation(n_items)[items])
    interactions = np.sort(
        rng.choice(interactions, min(n_interactions, len(interactions)), replace=False)
    )
    counts = np.bincount(interactions // n_items, minlength=n_users)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return UserItems(indptr, (interactions % n_items).astype(np.int32), None, n_items)


def start(interactions: UserItems) -> Factors:
    rng = np.random.default_rng(1)
    U = 0.1 * rng.standard_normal((interactions.n_users, FACTORS), dtype=np.float32)
    V = 0.1 * rng.standard_normal((interactions.n_items, FACTORS), dtype=np.float32)
    return Factors(Side(U), Side(V))


def make_solver(kind: type, interactions: UserItems, samples: int, workers: Workers) -> Solver:
    """A solver whose epoch is one pass: with the identity loss, without ξ-step."""
    request = Request(
        "benchmark",
        "sgd" if kind is SgdSolver else "warp",
        factors=FACTORS,
        epochs=100,
        seed=0,
        params={},
        rho="identity" if kind is SgdSolver else None,
        regularization=0.1,
        learning_rate=0.1,
        samples=samples,
    )
    problem = settle_by_table(request, interactions)
    return StrataInMemory(kind, problem, interactions, start(interactions), workers)


def our_solver(interactions: UserItems, negatives: int, workers: Workers) -> Solver:
    return make_solver(SgdSolver, interactions, negatives, workers)


def our_warp(interactions: UserItems, workers: Workers) -> Solver:
    return make_solver(WarpSolver, interactions, 1, workers)


def triples_per_second(solver: Solver) -> float:
    begin = time.perf_counter()
    report = solver.epoch(1, 100, never)
    return report["triples"] / (time.perf_counter() - begin)


def bpr_rate(matrix: sp.csr_matrix, n_threads: int) -> float:
    """Triples a second of implicit's BPR: 63 factors and a bias are 64 columns."""
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(factors=FACTORS - 1, iterations=2, num_threads=n_threads)
    ends: list[float] = []
    model.fit(matrix, show_progress=False, callback=lambda *_: ends.append(time.perf_counter()))
    return matrix.nnz / (ends[-1] - ends[-2])


def lightfm_rate(matrix: sp.coo_matrix, n_threads: int) -> float:
    """Interactions, hence triples, a second of an epoch of LightFM's WARP."""
    from lightfm import LightFM

    model = LightFM(no_components=FACTORS, loss="warp", max_sampled=1, random_state=0)
    tiny = sp.coo_matrix(([1.0], ([0], [0])), matrix.shape, dtype=np.float32)
    model.fit_partial(tiny, epochs=1, num_threads=n_threads)  # sets up its memory
    begin = time.perf_counter()
    model.fit_partial(matrix, epochs=1, num_threads=n_threads)
    return matrix.nnz / (time.perf_counter() - begin)


def floor_rate(n_threads: int) -> float:
    """Rows a second that can be read, then read and written, within a second-level cache."""
    V, u = np.zeros((2048, FACTORS), np.float32), np.zeros(FACTORS, np.float32)
    repeats = 300
    begin = time.perf_counter()
    for _ in range(repeats):
        V @ u
        np.add(V, 0.0, out=V)
    return n_threads * repeats * len(V) / (time.perf_counter() - begin)


def best(rates: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The best rate of each, taken in turns so that all see the same machine."""
    found = dict.fromkeys(rates, 0.0)
    for _ in range(rounds):
        for name, rate in rates.items():
            found[name] = max(found[name], rate())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the sizes of both tables")
    parser.add_argument("--negatives", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    n = arguments.threads
    print(f"instruction set {_core.instruction_set()}, {n} threads, {FACTORS} factors")
    with Workers(n) as workers:
        print(json.dumps(measure(arguments.negatives, arguments.share, workers)))


def measure(negatives: int, share: float, workers: Workers) -> dict[str, float]:
    n = workers.num_threads
    interactions, large = (
        make_table(*(int(share * size) for size in shape)) for shape in (TABLE, MILLION_SONG)
    )
    for one in (interactions, large):
        print(f"{one.n_users:,} users x {one.n_items:,} items, {one.n_interactions:,} interactions")
    ones = np.ones(interactions.n_interactions, np.float32)
    matrix = sp.csr_matrix((ones, interactions.items, interactions.indptr))
    ours, ours_large = (our_solver(one, negatives, workers) for one in (interactions, large))
    rates = best(
        {
            "RoBiRank": lambda: triples_per_second(ours),
            "at the Million Song shape": lambda: triples_per_second(ours_large),
            "our WARP": lambda: triples_per_second(our_warp(interactions, workers)),
            "implicit BPR": lambda: bpr_rate(matrix, n),
            "LightFM WARP": lambda: lightfm_rate(matrix.tocoo(), n),
            "floor": lambda: floor_rate(n),
        },
        rounds=3,
    )
    for name, rate in rates.items():
        print(f"{name:26s} {rate / 1e6:9.2f} million triples a second")
    return {
        "vs_implicit_bpr": round(rates["RoBiRank"] / rates["implicit BPR"], 1),
        "vs_lightfm_warp": round(rates["RoBiRank"] / rates["LightFM WARP"], 1),
        "warp_vs_lightfm_warp": round(rates["our WARP"] / rates["LightFM WARP"], 1),
        "msd_shape_fraction": round(rates["at the Million Song shape"] / rates["RoBiRank"], 3),
        "million_triples_per_second": round(rates["RoBiRank"] / 1e6, 1),
        "fraction_of_floor": round(rates["RoBiRank"] / rates["floor"], 3),
    }


if __name__ == "__main__":
    main()
