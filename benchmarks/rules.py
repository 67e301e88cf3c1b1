"""What rules cost: the best 10 of 386,133 items for 2,000 users, with rules and without.

    python benchmarks/rules.py [--users 2000] [--items 386133] [--factors 64] [--best 10]

Factors are random, and every user has 44 random items. A question with a rule is timed in turns
with the same question without one, and the ratio is that of the best times. First many users are
asked for in one call, then one user at a time, by one thread, of a model with its items laid out by
``prepare()``.
The rules:

- ``deny``: a tenth of the items, by a column of the table of items
- ``few``: all but a hundredth of them
- ``by user``: 1,000 random items of each user
- ``caps``: at most 2 items of each of 5,000 brands
- ``few groups``: at most 1 item of each of 3 categories, so that lists are short
- ``two caps``: both of these, with 2 items of a category
- ``all``: deny, caps, a minimum, two pinned items and an order of ties

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np
import polars as pl
from scipy.sparse import csr_matrix

import robirank as rr

BRANDS, CATEGORIES = 5_000, 3


def random_rows(rng: np.random.Generator, users: int, items: int, each: int) -> csr_matrix:
    columns = np.sort(rng.integers(0, items, (users, each), dtype=np.int32), axis=1)
    starts = np.arange(users + 1, dtype=np.int32) * each
    values = np.ones(columns.size, dtype=np.float32)
    return csr_matrix((values, columns.ravel(), starts), shape=(users, items))


def make_rules(rng: np.random.Generator, users: int, items: int) -> dict[str, rr.Rules]:
    table = pl.DataFrame(
        {
            "id": np.arange(items),
            "stock": rng.random(items),
            "brand": rng.integers(0, BRANDS, items),
            "category": rng.integers(0, CATEGORIES, items),
            "price": rng.integers(1, 100, items),
        }
    )
    has_stock = pl.col("stock") > 0.1
    by_user = random_rows(rng, users, items, min(1000, items // 4))
    return {
        "deny": rr.Rules(table, allow=has_stock),
        "few": rr.Rules(table, allow=pl.col("stock") > 0.99),
        "by user": rr.Rules(deny=by_user),
        "caps": rr.Rules(table, at_most={"brand": 2}),
        "few groups": rr.Rules(table, at_most={"category": 1}),
        "two caps": rr.Rules(table, at_most={"brand": 2, "category": 2}),
        "all": rr.Rules(
            table,
            deny=~has_stock,
            at_most={"brand": 2},
            at_least={"category:1": 3},
            pin={1: _first(table, has_stock), 4: _last(table, has_stock)},
            ties="price",
        ),
    }


def _first(table: pl.DataFrame, condition: pl.Expr) -> int:
    return int(table.filter(condition)["id"][0])


def _last(table: pl.DataFrame, condition: pl.Expr) -> int:
    return int(table.filter(condition)["id"][-1])


class Questions:
    """One question, with rules or without, and how long it takes."""

    def __init__(self, model: rr.FactorModel, user_items: csr_matrix, n_best: int) -> None:
        self.model, self.user_items, self.n_best = model, user_items, n_best

    def many(self, rules: rr.Rules | None) -> float:
        """Seconds for all users at once."""
        begin = time.perf_counter()
        users = np.arange(self.user_items.shape[0])
        self.model.recommend(users, self.user_items, N=self.n_best, rules=rules)
        return time.perf_counter() - begin

    def one(self, rules: rr.Rules | None) -> float:
        """The least seconds for one of twenty users who are asked for alone."""
        seconds = []
        for user in range(min(20, self.user_items.shape[0])):
            liked = self.user_items[user]
            begin = time.perf_counter()
            self.model.recommend(user, liked, N=self.n_best, rules=rules)
            seconds.append(time.perf_counter() - begin)
        return min(seconds)


def ratio(ask: Any, rules: rr.Rules, turns: int) -> tuple[float, float]:
    """Seconds without rules, and by how much rules multiply them."""
    ask(rules)  # finds the positions of the items, once
    seconds = np.array([(ask(None), ask(rules)) for _ in range(turns)]).min(axis=0)
    return float(seconds[0]), float(seconds[1] / seconds[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=2_000)
    parser.add_argument("--items", type=int, default=386_133)
    parser.add_argument("--factors", type=int, default=64)
    parser.add_argument("--best", type=int, default=10)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", rr.ShortAnswerWarning)
    rng = np.random.default_rng(0)
    U, V = (
        rng.standard_normal((n, arguments.factors), dtype=np.float32)
        for n in (arguments.users, arguments.items)
    )
    user_items = random_rows(rng, arguments.users, arguments.items, 44)
    model = rr.FactorModel.of(U, V, device=arguments.device)
    rules = make_rules(rng, arguments.users, arguments.items)
    questions = Questions(model, user_items, arguments.best)
    figures: dict[str, float] = {}
    print(f"{'':12s}{arguments.users:>8,} users at once         one user, one thread")
    many = {name: ratio(questions.many, one, arguments.turns) for name, one in rules.items()}
    model.prepare().num_threads = 1
    single = {name: ratio(questions.one, one, arguments.turns) for name, one in rules.items()}
    for name in rules:
        (seconds, times), (of_one, times_one) = many[name], single[name]
        print(
            f"{name:12s}{seconds:9.3f} s → {times:5.2f} times {1e3 * of_one:14.3f} ms → "
            f"{times_one:5.2f} times"
        )
        key = name.replace(" ", "_")
        figures |= {key: round(times, 3), f"{key}_one_user": round(times_one, 3)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
