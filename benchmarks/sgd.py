"""Sampled updates a second, against implicit's BPR and LightFM's WARP in the same run.

A triple (x, y, y') is one sampled item y' held against a record (x, y). BPR takes one a record.
LightFM's WARP samples until an item violates the margin; in its first epoch all scores are near 0,
so the first item does, and one record is one triple: that epoch is what is timed. RoBiRank takes
`--negatives` a record, and what is timed is its (U,V)-step (the ξ-step has `benchmarks/xi.py`).

Part two repeats our rate at the shape of the Million Song data. The floor is what the memory
traffic alone costs: every row V_y' is read for its score, then read and written again.

    python benchmarks/sgd.py [--quick]

Needs `pip install robirank[peers]`. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from robirank import _core
from robirank.latent.sgd import SgdSolver, WarpSolver

FACTORS = 64
MILLION_SONG = (1_129_318, 386_133, 49_824_519)


@dataclass
class Table:
    """Records in CSR form."""

    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    n_users: int
    n_items: int
    weight: None = None

    def __len__(self) -> int:
        return len(self.items)


def make_table(n_users: int, n_items: int, n_records: int, seed: int = 0) -> Table:
    """Random records: users are active, and items popular, by a power law; no record twice."""
    rng = np.random.default_rng(seed)
    activity = rng.pareto(1.5, n_users) + 0.5
    lengths = np.maximum(1, activity * (1.15 * n_records / activity.sum())).astype(np.int64)
    np.minimum(lengths, n_items // 10, out=lengths)
    popularity = np.cumsum((np.arange(n_items) + 10.0) ** -0.8)
    users = np.repeat(np.arange(n_users), lengths)
    items = np.searchsorted(popularity, rng.random(len(users)) * popularity[-1])
    records = np.unique(users * n_items + rng.permutation(n_items)[items])
    records = np.sort(rng.choice(records, min(n_records, len(records)), replace=False))
    counts = np.bincount(records // n_items, minlength=n_users)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return Table(indptr, (records % n_items).astype(np.int32), n_users, n_items)


def start(table: Table) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rng = np.random.default_rng(1)
    U = 0.1 * rng.standard_normal((table.n_users, FACTORS), dtype=np.float32)
    V = 0.1 * rng.standard_normal((table.n_items, FACTORS), dtype=np.float32)
    return U, V


def epoch_seconds(solver: SgdSolver | WarpSolver) -> tuple[float, float]:
    begin = time.perf_counter()
    report = solver.epoch()
    return report["triples"], time.perf_counter() - begin


class OurRate:
    """The (U,V)-step alone: with the identity loss there is no ξ-step."""

    def __init__(self, table: Table, negatives: int, n_threads: int) -> None:
        self.solver = SgdSolver(
            table,
            *start(table),
            rho="identity",
            negatives=negatives,
            epochs=100,
            n_threads=n_threads,
        )

    def __call__(self) -> float:
        triples, seconds = epoch_seconds(self.solver)
        return triples / seconds


class BprRate:
    """Triples a second of implicit's BPR: 63 factors and a bias are 64 columns."""

    def __init__(self, matrix: sp.csr_matrix, n_threads: int) -> None:
        from implicit.cpu.bpr import BayesianPersonalizedRanking

        self.matrix, self.n_threads = matrix, n_threads
        self.kind = BayesianPersonalizedRanking

    def __call__(self) -> float:
        model = self.kind(factors=FACTORS - 1, iterations=2, num_threads=self.n_threads)
        ends: list[float] = []
        model.fit(
            self.matrix,
            show_progress=False,
            callback=lambda *_: ends.append(time.perf_counter()),
        )
        return self.matrix.nnz / (ends[-1] - ends[-2])


class LightfmRate:
    """Records, hence triples, a second of the first epoch of LightFM's WARP."""

    def __init__(self, matrix: sp.csr_matrix, n_threads: int) -> None:
        self.matrix, self.n_threads = matrix.tocoo(), n_threads

    def __call__(self) -> float:
        from lightfm import LightFM

        model = LightFM(no_components=FACTORS, loss="warp", random_state=0)
        tiny = sp.coo_matrix(([1.0], ([0], [0])), self.matrix.shape, dtype=np.float32)
        model.fit_partial(tiny, epochs=1, num_threads=self.n_threads)  # sets up its memory
        begin = time.perf_counter()
        model.fit_partial(self.matrix, epochs=1, num_threads=self.n_threads)
        return self.matrix.nnz / (time.perf_counter() - begin)


class FloorRate:
    """Rows a second that one core can read, then read and write, within its second-level cache."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self.V = np.zeros((2048, FACTORS), np.float32)
        self.u = np.zeros(FACTORS, np.float32)

    def __call__(self) -> float:
        repeats = 300
        begin = time.perf_counter()
        for _ in range(repeats):
            self.V @ self.u
            np.add(self.V, 0.0, out=self.V)
        return self.n_threads * repeats * len(self.V) / (time.perf_counter() - begin)


def best(
    rates: dict[str, OurRate | BprRate | LightfmRate | FloorRate], rounds: int
) -> dict[str, float]:
    """The best rate of each, taken in turns so that all see the same machine."""
    found = dict.fromkeys(rates, 0.0)
    for _ in range(rounds):
        for name, rate in rates.items():
            found[name] = max(found[name], rate())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the Million Song records")
    parser.add_argument("--negatives", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    n = arguments.threads
    print(f"instruction set {_core.instruction_set()}, {n} threads, {FACTORS} factors")

    table = make_table(200_000, 50_000, 5_000_000)
    ones = np.ones(len(table), np.float32)
    matrix = sp.csr_matrix((ones, table.items, table.indptr), (table.n_users, table.n_items))
    print(f"{table.n_users:,} users x {table.n_items:,} items, {len(table):,} records")
    rates = best(
        {
            "RoBiRank": OurRate(table, arguments.negatives, n),
            "implicit BPR": BprRate(matrix, n),
            "LightFM WARP": LightfmRate(matrix, n),
            "floor": FloorRate(n),
        },
        rounds=3,
    )
    warp = max(
        epoch_seconds(WarpSolver(table, *start(table), n_threads=n))[1] ** -1 for _ in range(2)
    )
    for name, rate in rates.items():
        print(f"{name:14s} {rate / 1e6:9.2f} million triples a second")
    print(f"our WARP       {warp * len(table) / 1e6:9.2f} million records a second, first epoch")

    n_users, n_items, n_records = MILLION_SONG
    large = make_table(n_users, n_items, n_records // (5 if arguments.quick else 1))
    ours = OurRate(large, arguments.negatives, n)
    msd = max(ours() for _ in range(2))
    print(f"{n_users:,} users x {n_items:,} items, {len(large):,} records")
    print(f"RoBiRank       {msd / 1e6:9.2f} million triples a second")
    print(
        json.dumps(
            {
                "vs_implicit_bpr": round(rates["RoBiRank"] / rates["implicit BPR"], 1),
                "vs_lightfm_warp": round(rates["RoBiRank"] / rates["LightFM WARP"], 1),
                "warp_vs_lightfm_warp": round(warp * len(table) / rates["LightFM WARP"], 1),
                "msd_shape_fraction": round(msd / rates["RoBiRank"], 3),
                "million_triples_per_second": round(rates["RoBiRank"] / 1e6, 1),
                "fraction_of_floor": round(rates["RoBiRank"] / rates["floor"], 3),
            }
        )
    )


if __name__ == "__main__":
    main()
