"""What a search holds out, of which users, and what it measures there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robirank._types import Floats32, Ints64
from robirank.data.records import Records
from robirank.data.splits import random_share
from robirank.latent.factors.evaluate import check_metric, evaluate
from robirank.latent.factors.recommend import FactorModel
from robirank.latent.solvers.problem import Problem

#: Held-out records that a search needs; below, the metric is mostly chance.
LEAST_HELD_OUT = 1000

_SPLIT = 3  # the stream of random numbers that decides which records are held out
_SAMPLE = 4  # the stream of random numbers that chooses users
_HELD_OUT = 0.1  # of the records of each user
_MOST_USERS = 5000  # whose held-out records are ranked


def hold_out(records: Records, seed: int, share: float = _HELD_OUT) -> tuple[Records, Records]:
    """Take a share of each user's records out of a table, at random."""
    taken = random_share(records.indptr, share, np.random.default_rng([seed, _SPLIT]))
    return records.take(~taken), records.take(taken)


def sample_users(users: Ints64, count: int, seed: int) -> Ints64 | None:
    """So many of the users, chosen at random; None where there are no more than that."""
    if len(users) <= count:
        return None
    rng = np.random.default_rng([seed, _SAMPLE])
    return np.sort(rng.choice(users, count, replace=False))


def metric_of_factors(
    problem: Problem, train: Records, held_out: Records, metric: str
) -> Callable[[tuple[Floats32, Floats32]], float]:
    """A function that ranks the held-out records with factors, and gives the metric."""
    users = np.flatnonzero(held_out.user_counts())
    if len(users) > _MOST_USERS:
        rng = np.random.default_rng([problem.seed, len(users)])
        users = np.sort(rng.choice(users, _MOST_USERS, replace=False))
    tables = {"train": train.matrix(), "test": held_out.matrix()}
    _, k = check_metric(metric)
    counts = train.item_counts().astype(np.int32)

    def value(factors: tuple[Floats32, Floats32]) -> float:
        model = FactorModel.of(*factors, problem.num_threads, problem.device, counts)
        return evaluate(model, **tables, k=k, users=users)[metric]

    return value
