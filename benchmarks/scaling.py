"""The parallel algorithm: threads, workers, memory, traffic and a worker killed on the way.

- Two threads of the local engine against two independent runs on one thread each, side by side.
- Two Ray workers against the local engine, same data: the (U,V)-step, and with the ξ-step.
- Memory of a worker with 1, 2 and 4 of them: what its process holds for itself (RssAnon) beyond
  what one with hardly any data holds, against 1/p of the single worker's figure and two blocks.
- Bytes of V that tasks take in, against |V|·d·4 a sub-step.
- The time from the kill of a worker until its sub-step is done again, less that sub-step.

    python benchmarks/scaling.py [--share 0.25] [--factors 64] [--quick]

`--share` takes that share of the users, items and interactions of the Million Song data (1,129,318
× 386,133 × 49,824,519). ``--quick`` checks the script: a thousandth of both tables, two workers at
most. Needs `pip install robirank[ray]`. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import robirank as rr
from robirank._workers import Workers
from robirank.data.partitions import Partitions
from robirank.data.user_items import as_user_items
from robirank.engine.interface import never
from robirank.engine.ray.actors import connect, disconnect
from robirank.engine.ray.driver import ClusterEngine
from robirank.latent.solvers.in_memory import StrataInMemory
from robirank.latent.solvers.problem import TableShape
from robirank.latent.solvers.sgd import SgdSolver
from robirank.latent.solvers.starts import random_start
from robirank.latent.train.cluster import make_job
from robirank.latent.train.request import Request
from robirank.latent.tune.settle import settle_by_shape, settle_by_table

MILLION_SONG = (1_129_318, 386_133, 49_824_519)
THREADS_TABLE = (100_000, 50_000, 2_500_000)  # users, items, interactions
QUICK = 0.001  # of all these numbers
PARTS = 8


# ---------------------------------------------------------------------------------- threads


class Epochs:
    """A solver that does one epoch after the other, of a hundred."""

    def __init__(self, solver: SgdSolver) -> None:
        self._solver, self._done = solver, 0

    def epoch(self) -> dict[str, float]:
        """Do the next one."""
        self._done += 1
        return self._solver.epoch(self._done - 1, 100, never)


def make_request(factors: int, rho: str) -> Request:
    model = rr.LatentRoBiRank(
        factors,
        solver="sgd",
        rho=rho,
        regularization=0.2,
        iterations=100,
        negatives=32,
        parts=PARTS,
        random_state=0,
    )
    return model.request()


def local_solver(data: Any, factors: int, rho: str, workers: Workers) -> Epochs:
    interactions, request = as_user_items(data), make_request(factors, rho)
    problem = settle_by_table(request, interactions)
    start = random_start(problem, interactions)
    return Epochs(StrataInMemory(SgdSolver, problem, interactions, start, workers))


def run_epochs(threads: int, shape: tuple[int, ...], factors: int, pipe: Any) -> None:
    """A process of its own that does an epoch whenever it is asked to."""
    data = rr.make_interactions(*shape, random_state=0)
    with Workers(threads) as workers:
        solver = local_solver(data, factors, "identity", workers)
        solver.epoch()
        pipe.send("ready")
        while pipe.recv():
            begin = time.perf_counter()
            triples = solver.epoch()["triples"]
            pipe.send(triples / (time.perf_counter() - begin))


def threads_efficiency(shape: tuple[int, ...], factors: int, rounds: int) -> float:
    """Two threads against two runs on one thread each: the best of each, taken in turns."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for threads in (2, 1, 1):
        ours, theirs = context.Pipe()
        process = context.Process(target=run_epochs, args=(threads, shape, factors, theirs))
        process.start()
        pipes.append(ours)
        processes.append(process)
    for pipe in pipes:
        pipe.recv()
    duo, *pair = pipes
    together, apart = [], []
    for _ in range(rounds):
        duo.send(True)
        together.append(duo.recv())
        for pipe in pair:
            pipe.send(True)
        apart.append(sum(pipe.recv() for pipe in pair))
        print(f"  2 threads {together[-1] / 1e6:6.1f} M triples/s, 2 runs {apart[-1] / 1e6:6.1f}")
    for pipe in pipes:
        pipe.send(False)
    for process in processes:
        process.join()
    return max(together) / max(apart)


# ---------------------------------------------------------------------------------- the cluster


def on_cluster(
    partitions: Partitions, folder: Path, factors: int, workers: int, rho: str, **options: Any
) -> tuple[ClusterEngine, Epochs]:
    seconds = options.pop("checkpoint_seconds", 1e9)
    config = rr.RayConfig(folder, workers=workers, checkpoint_seconds=seconds, worker_timeout=120)
    request = make_request(factors, rho)
    shape = TableShape.of_partitions(partitions, request.weighting)
    problem = settle_by_shape(request, shape)
    job = make_job(problem, request.weighting, partitions)
    engine = ClusterEngine(config, job, problem.sizes, run="{}", **options)
    return engine, Epochs(SgdSolver(problem, engine))


def timed(solver: Epochs) -> float:
    begin = time.perf_counter()
    solver.epoch()
    return time.perf_counter() - begin


def against_local(
    data: Any, partitions: Partitions, folder: Path, factors: int, rho: str, rounds: int
) -> float:
    """The local engine's time over that of two Ray workers: the best of epochs taken in turns."""
    engine, there = on_cluster(partitions, folder, factors, 2, rho)
    with Workers(2) as workers:
        here = local_solver(data, factors, rho, workers)
        times = []
        for _ in range(rounds + 1):
            times.append((timed(here), timed(there)))
            print(f"  {rho}: local {times[-1][0]:6.2f} s, Ray {times[-1][1]:6.2f} s an epoch")
    engine.close()
    local, ray = np.min(times[1:], axis=0)
    return float(local / ray)


def memory_of_workers(
    partitions: Partitions, folder: Path, factors: int, workers: int
) -> tuple[float, float, float]:
    """Bytes of the largest worker, and bytes over theory: taken in, and moved between workers."""
    engine, solver = on_cluster(partitions, folder, factors, workers, "log")
    solver.epoch()
    largest = max(engine.log.memory.values())
    theory = 4 * factors * partitions.shape[1] * partitions.parts
    taken, moved = engine.log.bytes_in / theory, engine.log.bytes_moved / theory
    engine.close()
    return largest, taken, moved


def recovery(partitions: Partitions, folder: Path, factors: int) -> float:
    """Kill a worker late in the third pass; seconds until the sub-step just begun is done, less it.

    The sub-step before may be under way too, and what was done since the last checkpoint is done
    again: all that is part of the figure.
    """
    killed: list[tuple[int, float]] = []
    begun: list[str] = []

    def kill(what: str, engine: ClusterEngine) -> None:
        begun.append(what)
        if begun.count("sweep") == 3 * partitions.parts - 2 and not killed:
            killed.append((engine._done + len(engine._in_flight), time.time()))
            os.kill(engine.workers.members[0]["pid"], signal.SIGKILL)

    engine, solver = on_cluster(
        partitions, folder, factors, 2, "identity", on_event=kill, checkpoint_seconds=10.0
    )
    for _ in range(4):
        engine.begin_epoch({})
        solver.epoch()
    engine.close()
    lines = [json.loads(line) for line in (folder / "workers.jsonl").open()]
    number, when = killed[0]
    steps = [line for line in lines if line["what"] == "sweep"]
    again = max(line["time"] for line in steps if line["step"] == number)
    step = float(np.median([line["seconds"] for line in steps]))
    saves = [line["seconds"] for line in lines if line["what"] == "checkpoint"]
    back = next(line for line in lines if line["what"] == "recovered")
    print(f"  killed in step {number}: new workers after {back['seconds']:.1f} s, back at", end=" ")
    print(f"step {back['step']}; a sub-step takes {step:.2f} s, checkpoints {saves} s")
    return again - when - step


def scaled(shape: tuple[int, ...], share: float) -> tuple[int, ...]:
    return tuple(int(share * n) for n in shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=0.25, help="of the Million Song shape")
    parser.add_argument("--factors", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    factors, rounds = arguments.factors, arguments.rounds
    ladder = (1, 2) if arguments.quick else (1, 2, 4)  # numbers of workers

    table = scaled(THREADS_TABLE, QUICK if arguments.quick else 1.0)
    print("threads: {:,} users x {:,} items, {:,} interactions".format(*table))
    threads2 = threads_efficiency(table, factors, rounds)

    share = QUICK if arguments.quick else arguments.share
    shape = scaled(MILLION_SONG, share)
    data = rr.make_interactions(*shape, random_state=0)
    print(f"cluster: {data} ({share:g} of the Million Song shape)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        partitions = rr.partition(data, folder / "data", parts=PARTS, random_state=0)
        connect(None, ladder[-1])
        uv = against_local(data, partitions, folder / "uv", factors, "identity", rounds)
        both = against_local(data, partitions, folder / "both", factors, "log", 1)
        print(f"Ray with 2 workers: {uv:.2f} of the local (U,V)-step, {both:.2f} with the ξ-step")
        block = 4 * factors * shape[1] // PARTS
        small = rr.make_interactions(1000, 500, 10_000, random_state=0)
        nothing = rr.partition(small, folder / "nothing", parts=PARTS, random_state=0)
        empty, _, _ = memory_of_workers(nothing, folder / "empty", factors, 1)
        held = {}
        for p in ladder:
            held[p] = memory_of_workers(partitions, folder / f"p{p}", factors, p)[0] - empty
            print(f"  {p} workers: {held[p] / 1e6:.0f} MB each, without {empty / 1e6:.0f} MB")
        few = rr.partition(data, folder / "few", parts=ladder[-1], random_state=0)
        _, taken, moved = memory_of_workers(few, folder / "bytes", factors, ladder[-1])
        print(f"bytes of V over theory: {taken:.3f} taken in, {moved:.3f} from another worker")
        ratios = {p: held[p] / ((held[1] - 2 * block) / p + 2 * block) for p in ladder[1:]}
        recovered = recovery(partitions, folder / "kill", factors)
        disconnect()
    print(
        json.dumps(
            {
                "threads2_efficiency": round(threads2, 3),
                "ray2_vs_local": round(uv, 3),
                "ray2_vs_local_with_xi": round(both, 3),
                **{f"memory_ratio_p{p}": round(ratio, 3) for p, ratio in ratios.items()},
                "bytes_over_theory": round(taken, 3),
                "recovery_seconds": round(recovered, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
