"""RoBiRank's loss as the objective of LightGBM or XGBoost, for training code of your own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._callers import warn
from robirank._queries import MANY_ROWS, MissingQidWarning, Queries
from robirank._types import Floats32
from robirank.losses import RhoName
from robirank.metrics._arguments import check_vector
from robirank.metrics._conventions import Gain
from robirank.objectives.listwise import BoosterGradients, Lists, Metric

Facts = tuple[Any, ...]
Objective = Callable[[NDArray[Any], Any], tuple[Floats32, Floats32]]


def lightgbm_objective(
    *, rho: RhoName = "log", metric: Metric = "ndcg", gain: Gain = "exp", num_threads: int = 0
) -> Objective:
    """RoBiRank's loss for LightGBM: ``lightgbm.train({"objective": …}, dataset)``.

    Labels, groups and weights are taken from the ``Dataset``; a weight is a factor of its
    document's gain. The loss is that of `listwise_loss`, times the number of queries, with the
    curvature of its convex bound. Gradient and curvature are written natively into two arrays that
    LightGBM reads without a copy.

    Parameters
    ----------
    rho, metric, gain
        As in `listwise_loss`.
    num_threads : int, default=0
        0: every core; one for little work. The result does not depend on it.

    Returns
    -------
    callable
        ``objective(scores, dataset)`` gives gradient and curvature, in arrays that its next call
        overwrites.

    Examples
    --------
    >>> import lightgbm
    >>> from robirank import lightgbm_objective, make_ranking
    >>> data = make_ranking(n_queries=50, n_docs=20, random_state=0)
    >>> train = lightgbm.Dataset(data.X, data.y, group=data.queries.sizes)
    >>> params = {"objective": lightgbm_objective(metric="dcg"), "verbosity": -1}
    >>> lightgbm.train(params, train, num_boost_round=5).num_trees()
    5
    """

    def read(dataset: Any) -> Facts:
        return dataset.get_label(), dataset.get_group(), dataset.get_weight()

    def lists(label: Any, sizes: Any, weight: Any) -> Lists:
        y = np.asarray(label, dtype=np.float64)
        return Lists.build(
            y,
            _groups(sizes, len(y)),
            sample_weight=weight,
            metric=metric,
            gain=gain,
            rho=rho,
            num_threads=num_threads,
        )

    return _objective(read, lists)


def xgboost_objective(
    *, rho: RhoName = "log", metric: Metric = "ndcg", gain: Gain = "exp", num_threads: int = 0
) -> Objective:
    """RoBiRank's loss for XGBoost: ``xgboost.train(params, matrix, obj=…)``.

    Labels, groups and weights are taken from the ``DMatrix``; XGBoost has one weight a group. The
    loss is that of `listwise_loss`, times the number of queries, with the curvature of its convex
    bound. A second derivative is far below 1, so set ``min_child_weight`` to 1e-3 or so: XGBoost's
    default of 1 leaves few splits.

    Parameters
    ----------
    rho, metric, gain
        As in `listwise_loss`.
    num_threads : int, default=0
        0: every core; one for little work. The result does not depend on it.

    Returns
    -------
    callable
        ``objective(scores, matrix)`` gives gradient and curvature, in arrays that its next call
        overwrites.

    Examples
    --------
    A stand-in for an ``xgboost.DMatrix``, with two documents in one group:

    >>> class Matrix:
    ...     def get_label(self): return np.array([1.0, 0.0])
    ...     def get_weight(self): return np.array([])
    ...     def get_uint_info(self, name): return np.array([0, 2])
    >>> gradient, hessian = xgboost_objective()(np.zeros(2), Matrix())
    >>> gradient.astype(float).round(4).tolist()
    [-0.3607, 0.3607]
    """

    def read(matrix: Any) -> Facts:
        return matrix.get_label(), matrix.get_uint_info("group_ptr"), matrix.get_weight()

    def lists(label: Any, bounds: Any, weight: Any) -> Lists:
        y = np.asarray(label, dtype=np.float64)
        queries = _groups(np.diff(bounds), len(y))
        weight = np.asarray(weight, dtype=np.float64)
        if len(weight) not in (0, len(queries)):
            raise ValueError(
                f"weight must have one value for each of the {len(queries)} groups; "
                f"got {len(weight)}"
            )
        by_row = np.repeat(weight, queries.sizes) if len(weight) else None
        return Lists.build(
            y,
            queries,
            query_weight=by_row,
            metric=metric,
            gain=gain,
            rho=rho,
            num_threads=num_threads,
        )

    return _objective(read, lists)


def _objective(read: Callable[[Any], Facts], lists: Callable[..., Lists]) -> Objective:
    """An objective that compiles labels, groups and weights, and again where they have changed."""
    known: list[tuple[Facts, BoosterGradients]] = []

    def objective(scores: NDArray[Any], data: Any) -> tuple[Floats32, Floats32]:
        facts = read(data)
        if not known or not all(map(_equal, facts, known[0][0])):
            kept = tuple(None if fact is None else np.array(fact) for fact in facts)
            known[:] = [(kept, lists(*kept).booster_gradients())]
        return known[0][1](np.ascontiguousarray(check_vector("scores", scores)))

    return objective


def _equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _groups(sizes: Any, n_rows: int) -> Queries:
    """Queries of rows that come group by group; without groups all rows are one."""
    given = [n_rows] if sizes is None or len(sizes) == 0 else sizes
    if given is not sizes and n_rows > MANY_ROWS:
        warn(
            f"{n_rows} rows came without groups, so all of them count as one query; pass group=, "
            "the number of rows of each query",
            MissingQidWarning,
        )
    offsets = np.concatenate(([0], np.cumsum(given))).astype(np.int64)
    if offsets[-1] != n_rows:
        raise ValueError(f"the groups must hold the {n_rows} rows; they hold {offsets[-1]}")
    return Queries(np.arange(len(given)), offsets, None)
