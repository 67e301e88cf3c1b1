"""RoBiRank's loss of many lists at once, by the native kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank import _core
from robirank._checks import check_choice, check_vector
from robirank._queries import Queries, group_queries
from robirank._sparse import offsets
from robirank._threads import thread_count, threads_for_cells
from robirank._types import Floats32, Floats64, Ints32, Ints64
from robirank.errors import ArgumentError
from robirank.losses import RHOS, RhoName
from robirank.metrics._conventions import Gain
from robirank.metrics._gains import gains_not_negative, ideal_dcg

#: With more relevant items in a list, the grid takes over, whose cost does not grow with them.
_MOST_PAIRED = 64

Metric = Literal["ndcg", "dcg"]
Method = Literal["auto", "direct", "grid"]
HessianName = Literal["exact", "majorant"]
QueryWeight = Mapping[Any, float] | ArrayLike
BoosterGradients = Callable[[Floats64], tuple[Floats32, Floats32]]


@dataclass(frozen=True)
class Lists:
    """A ranking problem and its loss, as a function of scores (a `ScoreLoss`).

    List q owns the places ``offsets[q]:offsets[q + 1]`` of the grouped order of rows, and its
    relevant items are ``relevant[starts[q]:starts[q + 1]]`` (places within the list) with weights
    c_x v(W_xy) in ``weight``. ``rho``, ``method`` and ``num_threads`` are those of `listwise_loss`.
    """

    queries: Queries
    starts: Ints64
    relevant: Ints32
    weight: Floats64
    rho: RhoName = "log"
    method: Method = "auto"
    num_threads: int = 0

    def __post_init__(self) -> None:
        check_choice("rho", self.rho, RHOS)
        check_choice("method", self.method, get_args(Method))
        thread_count(self.num_threads)

    @classmethod
    def build(
        cls,
        y: NDArray[Any],
        queries: Queries,
        *,
        metric: Metric = "ndcg",
        gain: Gain = "exp",
        sample_weight: ArrayLike | None = None,
        query_weight: QueryWeight | None = None,
        **settings: Any,
    ) -> Lists:
        """Compile labels and weights; the loss is then the weighted mean over queries."""
        check_choice("metric", metric, ("ndcg", "dcg"))
        v = np.asarray(queries.sort(gains_not_negative(np.asarray(y, dtype=np.float64), gain)))
        codes = queries.codes()
        c = _query_factors(query_weight, queries, len(y))
        has_relevant = np.bincount(codes, weights=v, minlength=len(queries)) > 0
        total = float(c[has_relevant].sum())
        if metric == "ndcg":
            c = c / np.where(has_relevant, ideal_dcg(v, queries), 1.0)
        if total > 0:
            c = c / total
        if sample_weight is not None:
            v = v * np.asarray(queries.sort(check_sample_weight(sample_weight, len(y))))
        outer = np.flatnonzero((v > 0) & (c[codes] > 0))
        counts = np.bincount(codes[outer], minlength=len(queries))
        return cls(
            queries,
            offsets(counts),
            (outer - queries.offsets[codes[outer]]).astype(np.int32),
            v[outer] * c[codes[outer]],
            **settings,
        )

    def in_order(self) -> Lists:
        """The same problem for rows that have been brought into the grouped order."""
        return replace(self, queries=replace(self.queries, order=None))

    def __call__(self, scores: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        """Return the loss of the scores, one a row, and its derivative by each of them."""
        result = self.evaluate(scores)
        return result.loss, result.gradient

    def of_linear(self, X: NDArray[Any], w: Floats64) -> tuple[float, Floats64]:
        """Return the loss of the scores X w and its gradient by w, in one pass over a dense X."""
        return _core.linear(
            X,
            w,
            self._batch,
            rows=self.queries.order,
            rho=self.rho,
            method=self.method,
            num_threads=self.threads(X.size),
        )

    def evaluate(self, scores: NDArray[Any], hessian: HessianName | None = None) -> ListwiseLoss:
        """The loss and the gradient of scores, one a row; the diagonal Hessian on request."""
        by_query, by_score, diagonal, t = _core.listwise(
            np.ascontiguousarray(self.queries.sort(scores)),
            self._batch,
            rho=self.rho,
            method=self.method,
            hessian=hessian,
            gradient=True,
            num_threads=self.threads(),
        )
        assert by_score is not None
        if np.isnan(by_query).any():
            raise ArgumentError("scores", "must be finite; they contain NaN or infinity")
        return ListwiseLoss(
            float(by_query.sum()),
            by_query,
            self.queries.unsort(by_score),
            None if diagonal is None else self.queries.unsort(diagonal),
            t,
        )

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: their form for the native kernel cannot be pickled."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def threads(self, cells: int = 0) -> int:
        """The number of threads for these lists and ``cells`` features that are read with them."""
        relevant = np.minimum(np.diff(self.starts), _MOST_PAIRED)
        pairs = int(relevant @ self.queries.sizes)
        return threads_for_cells(cells + 2 * pairs, self.num_threads)

    def booster_gradients(self) -> BoosterGradients:
        """A function from scores to gradient and curvature, for rows that come query by query.

        It writes into the same two float32 arrays in each call. They are derivatives of the sum
        over queries, not of the mean: a booster's bounds on sums of second derivatives do not
        depend on how many queries there are.
        """
        if self.queries.order is not None:
            raise ValueError("the rows of each query must stand side by side")
        n_counted = np.count_nonzero(np.diff(self.starts))
        batch = replace(self, weight=self.weight * n_counted)._batch
        num_threads = self.threads()
        gradient: Floats32 = np.empty(self.queries.n_rows, dtype=np.float32)
        hessian: Floats32 = np.empty_like(gradient)

        def gradients(scores: Floats64) -> tuple[Floats32, Floats32]:
            _core.listwise_into(
                scores,
                batch,
                gradient_out=gradient,
                hessian_out=hessian,
                rho=self.rho,
                hessian="majorant",
                num_threads=num_threads,
            )
            return gradient, hessian

        return gradients

    @cached_property
    def _batch(self) -> _core.ListBatch:
        """The lists in the form of the native kernel, made and checked once."""
        return _core.ListBatch(
            offsets=self.queries.offsets,
            starts=self.starts,
            relevant=self.relevant,
            weight=self.weight,
        )


@dataclass(frozen=True)
class ListwiseLoss:
    """The loss of several lists.

    Attributes
    ----------
    loss : float
        The weighted mean over queries.
    by_query : array of shape (n_queries,)
        What each query adds to it.
    gradient, hessian : array of shape (n_rows,)
        Derivatives by the scores, in the order of the rows; the Hessian is None unless asked for.
    t : array
        The inner sums of the relevant items, query by query; ξ is 1 / (1 + t).
    """

    loss: float
    by_query: Floats64
    gradient: NDArray[Any]
    hessian: NDArray[Any] | None
    t: Floats64


def listwise_loss(
    scores: ArrayLike,
    y: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    rho: RhoName = "log",
    metric: Metric = "ndcg",
    gain: Gain = "exp",
    sample_weight: ArrayLike | None = None,
    query_weight: QueryWeight | None = None,
    method: Method = "auto",
    hessian: HessianName | None = None,
    num_threads: int = 0,
) -> ListwiseLoss:
    r"""RoBiRank's loss of given scores, with gradient and diagonal Hessian: what a booster needs.

    .. math::
        \frac{1}{\sum_x \omega_x} \sum_x \omega_x c_x \sum_y v(W_{xy}) \,
        \rho\Big(\sum_{y' \ne y} \log_2\big(1 + 2^{s_{xy'} - s_{xy}}\big)\Big)

    Parameters
    ----------
    scores, y, qid : array-like of shape (n_rows,)
        Scores and labels of the documents, and the query each belongs to.
    rho : {"log", "identity", "type2"}
        RoBiRank, the basic model, or the bound that is tight to DCG.
    metric : {"ndcg", "dcg"}
        c_x is one over the query's best DCG, or 1.
    gain : {"exp", "linear"} or callable
        v(·): 2^W − 1, W, or a function from an array of labels to an array of weights.
    sample_weight : array-like of shape (n_rows,), optional
        Factors for v(W_xy) of single documents.
    query_weight : mapping from query id to weight, or array-like of shape (n_rows,), optional
        ω_x; an array holds one weight a row, equal within each query.
    method : {"auto", "direct", "grid"}
        How to sum; "grid" is O(items) a list with relative error near 1e-5.
    hessian : {"exact", "majorant"}, optional
        The diagonal of the Hessian, or that of the convex bound at the same point: never negative,
        and what a booster should be given.
    num_threads : int, default=0
        0: every core; one for little work. The result does not depend on it.

    Returns
    -------
    ListwiseLoss

    References
    ----------
    Yun, Raman, Vishwanathan: Ranking via Robust Binary Classification. NeurIPS 2014, equation 11.

    Examples
    --------
    >>> one = listwise_loss([0.0, 0.0], [1, 0], hessian="majorant")
    >>> round(one.loss, 6), one.gradient.round(4).tolist(), one.hessian.round(4).tolist()
    (1.0, [-0.3607, 0.3607], [0.125, 0.125])
    """
    s = np.asarray(scores)
    if s.ndim != 1 or len(s) == 0:
        raise ArgumentError("scores", f"must be a non-empty vector; got shape {s.shape}")
    s = s if s.dtype == np.float32 else check_vector("scores", s)
    labels = np.asarray(y)
    if labels.shape != s.shape:
        raise ArgumentError("y", f"must have the shape of scores, {s.shape}; got {labels.shape}")
    lists = Lists.build(
        labels,
        group_queries(qid, len(s)),
        metric=metric,
        gain=gain,
        sample_weight=sample_weight,
        query_weight=query_weight,
        rho=rho,
        method=method,
        num_threads=num_threads,
    )
    return lists.evaluate(s, hessian)


def gradients_in_place(
    scores: Floats32,
    starts: Ints64,
    relevant: Ints32,
    weight: Floats64,
    *,
    rho: RhoName = "log",
    num_threads: int = 0,
) -> Floats64:
    """Put the gradients of the users' losses in the place of their scores; return the losses.

    ``scores`` has a line for each user of a batch and a column for each item. User x owns the
    interactions ``starts[x]:starts[x + 1]``, with the items ``relevant`` and their ``weight``.
    """
    losses, _ = _core.listwise_block(
        scores,
        starts=starts,
        relevant=relevant,
        weight=weight,
        rho=rho,
        num_threads=thread_count(num_threads),
    )
    return losses


def check_sample_weight(sample_weight: ArrayLike, n_rows: int) -> Floats64:
    """The weights of rows, from one value for each or one for all; an error names the argument."""
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ArgumentError(
            "sample_weight",
            f"must have one value for each of the {n_rows} rows; got shape {weight.shape}",
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ArgumentError("sample_weight", "must be finite and non-negative")
    if not weight.any():
        raise ArgumentError("sample_weight", "is zero everywhere, so nothing would count")
    return weight


def _query_factors(query_weight: QueryWeight | None, queries: Queries, n_rows: int) -> Floats64:
    """One weight a query, from a mapping or from one value a row."""
    if query_weight is None:
        return np.ones(len(queries))
    if isinstance(query_weight, Mapping):
        missing = [q for q in queries.ids.tolist() if q not in query_weight]
        if missing:
            raise ArgumentError(
                "query_weight", f"has no weight for {len(missing)} queries, such as {missing[0]!r}"
            )
        factors = np.array([query_weight[q] for q in queries.ids.tolist()], dtype=np.float64)
    else:
        rows = np.asarray(query_weight, dtype=np.float64)
        if rows.shape != (n_rows,):
            raise ArgumentError(
                "query_weight",
                "must be a mapping from query id to weight or hold one value for each of the "
                f"{n_rows} rows; got shape {rows.shape}",
            )
        rows = queries.sort(rows)
        factors = rows[queries.offsets[:-1]]
        if (rows != np.repeat(factors, queries.sizes)).any():
            raise ArgumentError("query_weight", "must be the same for all rows of a query")
    if not np.isfinite(factors).all() or (factors < 0).any():
        raise ArgumentError("query_weight", "must be finite and non-negative")
    return factors
