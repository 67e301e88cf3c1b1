"""The best 100 of 386,133 items for 10,000 users, against the implicit package.

    python benchmarks/recommend.py [--users 10000] [--items 386133] [--factors 64] [--best 100]

Factors are random and the same for both; what is left out are 44 random items a user. The two take
turns, so that both see the same machine, and each counts with its best time. The floor is the
product U·Vᵀ alone, at the rate that one large square product reaches on all cores. The last line
is one JSON object.

Then one user at a time is asked for ten items, as in a server: of a model as it was fitted, and of
one that has its items laid out by ``prepare()``.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from implicit.cpu.bpr import BayesianPersonalizedRanking
from scipy.sparse import csr_matrix

from _floor import flops_per_second
from robirank import _core
from robirank.latent.factors.factor_model import FactorModel


def make_problem(users: int, items: int, factors: int) -> tuple[Any, Any, csr_matrix]:
    rng = np.random.default_rng(0)
    U = rng.standard_normal((users, factors), dtype=np.float32)
    V = rng.standard_normal((items, factors), dtype=np.float32)
    liked = np.sort(rng.integers(0, items, (users, 44), dtype=np.int32), axis=1)
    values = np.ones(liked.size, dtype=np.float32)
    starts = np.arange(users + 1, dtype=np.int32) * 44
    return U, V, csr_matrix((values, liked.ravel(), starts), shape=(users, items))


def agreement(ours: Any, theirs: Any) -> float:
    """The share of places with the same item, or with a score that is equal but for rounding."""
    same = (ours[0] == theirs[0]) | np.isclose(ours[1], theirs[1], rtol=1e-5)
    return float(same.mean())


def one_user_ms(model: FactorModel, user_items: csr_matrix, questions: int = 200) -> float:
    """The median time of a question for one user, in milliseconds."""
    seconds = []
    for user in range(min(questions, user_items.shape[0])):
        liked = user_items[user]
        begin = time.perf_counter()
        model.recommend(user, liked, N=10)
        seconds.append(time.perf_counter() - begin)
    return 1e3 * float(np.median(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=386_133)
    parser.add_argument("--factors", type=int, default=64)
    parser.add_argument("--best", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    U, V, user_items = make_problem(arguments.users, arguments.items, arguments.factors)
    flops = 2.0 * arguments.users * arguments.items * arguments.factors
    rate = 0.0

    peer = BayesianPersonalizedRanking(factors=arguments.factors)
    peer.user_factors, peer.item_factors = U, V
    models = {"robirank": FactorModel.of(U, V), "implicit": peer}
    userids = np.arange(arguments.users)
    seconds, cpu = dict.fromkeys(models, np.inf), dict.fromkeys(models, np.inf)
    answers = {}
    for _ in range(arguments.turns):
        rate = max(rate, flops_per_second(arguments.items))
        for name, model in models.items():
            begin, used = time.perf_counter(), time.process_time()
            answers[name] = model.recommend(userids, user_items, N=arguments.best)
            seconds[name] = min(seconds[name], time.perf_counter() - begin)
            cpu[name] = min(cpu[name], time.process_time() - used)
    print(f"instruction set {_core.instruction_set()}")
    print(f"{flops:.2e} operations; the floor at {rate / 1e9:.0f} GFlop/s is {flops / rate:.2f} s")
    for name, wall in seconds.items():
        print(
            f"{name:10s} {wall:7.2f} s   {wall * rate / flops:5.2f} of the floor, "
            f"{cpu[name]:.2f} s of all processors together"
        )
    same = agreement(answers["robirank"], answers["implicit"])
    if same < 1:
        raise SystemExit(f"the two disagree in {1 - same:.2%} of the places")
    one = {}
    for prepared in (False, True):
        model = FactorModel.of(U, V)
        one[prepared] = one_user_ms(model.prepare() if prepared else model, user_items)
    print(f"one user: {one[False]:.2f} ms, prepared {one[True]:.2f} ms")
    figures = {
        "vs_implicit": round(seconds["implicit"] / seconds["robirank"], 2),
        "vs_implicit_cpu": round(cpu["implicit"] / cpu["robirank"], 2),
        "robirank_seconds": round(seconds["robirank"], 2),
        "implicit_seconds": round(seconds["implicit"], 2),
        "over_floor": round(seconds["robirank"] * rate / flops, 2),
        "same_items": same,
        "one_user_ms": round(one[False], 3),
        "one_user_prepared_ms": round(one[True], 3),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
