"""RoBiRank's loss as the objective of LightGBM or XGBoost, for training code of your own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robirank._callers import warn
from robirank._checks import check_vector
from robirank._queries import MANY_ROWS, MissingQidWarning, Queries
from robirank._types import Floats32
from robirank.errors import ArgumentError
from robirank.losses import RhoName
from robirank.metrics._conventions import Gain
from robirank.objectives.listwise import Lists, Metric

#: Labels, sizes of groups, and weights of rows and of groups (both may be missing).
Facts = tuple[Any, Any, Any, Any]
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
        return dataset.get_label(), dataset.get_group(), dataset.get_weight(), None

    return _objective(read, rho=rho, metric=metric, gain=gain, num_threads=num_threads)


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
    rho, metric, gain, num_threads
        As in `lightgbm_objective`.

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
        sizes, weight = np.diff(matrix.get_uint_info("group_ptr")), matrix.get_weight()
        if not len(weight):
            return matrix.get_label(), sizes, None, None
        if len(weight) != len(sizes):
            raise ArgumentError(
                "weight",
                f"must have one value for each of the {len(sizes)} groups; got {len(weight)}",
            )
        return matrix.get_label(), sizes, None, np.repeat(weight, sizes)

    return _objective(read, rho=rho, metric=metric, gain=gain, num_threads=num_threads)


def _objective(read: Callable[[Any], Facts], **settings: Any) -> Objective:
    """An objective that compiles labels, groups and weights, and again where they have changed."""
    compiled: list[Any] = [None, None]  # the facts, and what was made of them

    def objective(scores: NDArray[Any], data: Any) -> tuple[Floats32, Floats32]:
        facts = read(data)
        if compiled[0] is None or not all(map(np.array_equal, facts, compiled[0])):
            copies = [None if fact is None else np.array(fact) for fact in facts]
            compiled[:] = copies, _lists(*copies, **settings).booster_gradients()
        return compiled[1](np.ascontiguousarray(check_vector("scores", scores)))

    return objective


def _lists(label: Any, sizes: Any, weight: Any, group_weight: Any, **settings: Any) -> Lists:
    """The lists of rows that come group by group; without groups all rows are one."""
    y = np.asarray(label, dtype=np.float64)
    if sizes is None or len(sizes) == 0:
        sizes = [len(y)]
        if len(y) > MANY_ROWS:
            warn(
                f"{len(y)} rows came without groups, so all of them count as one query; pass "
                "group=, the number of rows of each query",
                MissingQidWarning,
            )
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    if offsets[-1] != len(y):
        raise ValueError(f"the groups must hold the {len(y)} rows; they hold {offsets[-1]}")
    queries = Queries(np.arange(len(sizes)), offsets, None)
    return Lists.build(y, queries, sample_weight=weight, query_weight=group_weight, **settings)
