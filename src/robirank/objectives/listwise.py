"""The listwise loss of whole data sets, by the native kernel.

A ranking problem is compiled once (`Lists`: which rows form a list, which of them are relevant,
with which weight) and then evaluated as often as an optimiser or a booster asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank import _core
from robirank._queries import Queries, group_queries
from robirank._threads import thread_count
from robirank._types import Floats64, Ints32, Ints64
from robirank.losses import RhoName

__all__ = ["Gain", "Lists", "ListwiseLoss", "Method", "Metric", "listwise_loss"]

Metric = Literal["ndcg", "dcg"]
Method = Literal["auto", "direct", "grid"]
HessianName = Literal["exact", "majorant"]
Gain = Literal["exp", "linear"] | Callable[[Floats64], ArrayLike]
QueryWeight = Mapping[Any, float] | ArrayLike

RHO_CODES: dict[str, int] = {"log": 0, "identity": 1, "type2": 2}
_METHOD_CODES: dict[str, int] = {"auto": 0, "direct": 1, "grid": 2}
_HESSIAN_CODES: dict[str | None, int] = {None: 0, "exact": 1, "majorant": 2}
_METRICS = ("ndcg", "dcg")


def check_choice(name: str, value: Any, allowed: Any) -> None:
    """Raise an error that names the argument, its value and what is allowed."""
    if value not in list(allowed):
        raise ValueError(f"{name} must be one of {list(allowed)}; got {value!r}")


def relevance_weights(y: NDArray[Any], gain: Gain) -> Floats64:
    """v(W) of every label: ``exp`` is 2^W − 1, ``linear`` is W, or any function of the labels."""
    labels = np.asarray(y, dtype=np.float64)
    if callable(gain):
        v = np.asarray(gain(labels), dtype=np.float64)
        if v.shape != labels.shape:
            raise ValueError(f"gain must return one value a label; got shape {v.shape}")
    else:
        check_choice("gain", gain, ("exp", "linear"))
        with np.errstate(over="ignore"):  # reported below, with the label
            v = np.exp2(labels) - 1.0 if gain == "exp" else labels.copy()
    if not np.isfinite(v).all() or (v < 0).any():
        bad = ~np.isfinite(v) | (v < 0)
        raise ValueError(
            "labels must be non-negative numbers whose gain is finite and >= 0; "
            f"label {labels[bad][0]:g} has gain {v[bad][0]:g}"
        )
    return v


@dataclass(frozen=True)
class Lists:
    """A ranking problem ready for the kernel.

    List q owns the places ``offsets[q]:offsets[q + 1]`` of the grouped order of rows, and its
    relevant items are ``relevant[starts[q]:starts[q + 1]]`` (places within the list) with weights
    c_x v(W_xy) in ``weight``.
    """

    queries: Queries
    starts: Ints64
    relevant: Ints32
    weight: Floats64

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
    ) -> Lists:
        """Compile labels and weights; the loss is then the weighted mean over queries."""
        check_choice("metric", metric, _METRICS)
        v = np.asarray(queries.sort(relevance_weights(y, gain)))
        codes = queries.codes()
        c = _query_factors(query_weight, queries, len(y))
        has_relevant = np.bincount(codes, weights=v, minlength=len(queries)) > 0
        total = float(c[has_relevant].sum())
        if metric == "ndcg":
            c = c / np.where(has_relevant, _ideal_dcg(v, queries, codes), 1.0)
        if total > 0:
            c = c / total
        if sample_weight is not None:
            v = v * np.asarray(queries.sort(_check_sample_weight(sample_weight, len(y))))
        outer = np.flatnonzero((v > 0) & (c[codes] > 0))
        counts = np.bincount(codes[outer], minlength=len(queries))
        return cls(
            queries,
            np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            (outer - queries.offsets[codes[outer]]).astype(np.int32),
            v[outer] * c[codes[outer]],
        )

    def in_order(self) -> Lists:
        """The same problem for rows that have been brought into the grouped order."""
        return replace(self, queries=replace(self.queries, order=None))

    def evaluate(
        self,
        scores: NDArray[Any],
        *,
        rho: RhoName = "log",
        method: Method = "auto",
        gradient: bool = True,
        hessian: HessianName | None = None,
        num_threads: int = 0,
    ) -> ListwiseLoss:
        """Loss of every list for the given scores (one a row), with what else is wanted."""
        check_choice("rho", rho, RHO_CODES)
        check_choice("method", method, _METHOD_CODES)
        check_choice("hessian", hessian, _HESSIAN_CODES)
        by_query, slope, bend, t = _core.listwise(
            np.ascontiguousarray(self.queries.sort(scores)),
            self.queries.offsets,
            self.starts,
            self.relevant,
            self.weight,
            RHO_CODES[rho],
            _METHOD_CODES[method],
            _HESSIAN_CODES[hessian],
            gradient,
            thread_count(num_threads),
        )
        if np.isnan(by_query).any():
            raise ValueError("scores must be finite; they contain NaN or infinity")
        return ListwiseLoss(
            float(by_query.sum()),
            by_query,
            None if slope is None else self.queries.unsort(slope),
            None if bend is None else self.queries.unsort(bend),
            t,
        )

    def evaluate_linear(
        self,
        X: NDArray[Any],
        w: Floats64,
        *,
        rho: RhoName = "log",
        method: Method = "auto",
        num_threads: int = 0,
    ) -> tuple[float, Floats64]:
        """Loss of the linear model s = X w and its gradient by w, in one pass over a dense X."""
        check_choice("rho", rho, RHO_CODES)
        check_choice("method", method, _METHOD_CODES)
        return _core.linear(
            X,
            self.queries.order,
            self.queries.offsets,
            self.starts,
            self.relevant,
            self.weight,
            w,
            RHO_CODES[rho],
            _METHOD_CODES[method],
            thread_count(num_threads),
        )


@dataclass(frozen=True)
class ListwiseLoss:
    """Loss of a batch of lists.

    Attributes
    ----------
    loss : float
        The weighted mean over queries.
    by_query : array of shape (n_queries,)
        What each query adds to it.
    gradient, hessian : array of shape (n_rows,), or None
        Derivatives by the scores, in the order of the rows.
    t : array
        The inner sums of the relevant items, query by query; ξ is 1 / (1 + t).
    """

    loss: float
    by_query: Floats64
    gradient: NDArray[Any] | None
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
        0: every core. The result does not depend on it.

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
    s = s if s.dtype == np.float32 else s.astype(np.float64)
    if s.ndim != 1 or len(s) == 0:
        raise ValueError(f"scores must be a non-empty vector; got shape {s.shape}")
    labels = np.asarray(y)
    if labels.shape != s.shape:
        raise ValueError(f"y must have the shape of scores, {s.shape}; got {labels.shape}")
    lists = Lists.build(
        labels,
        group_queries(qid, len(s)),
        metric=metric,
        gain=gain,
        sample_weight=sample_weight,
        query_weight=query_weight,
    )
    return lists.evaluate(s, rho=rho, method=method, hessian=hessian, num_threads=num_threads)


def _ideal_dcg(v: Floats64, queries: Queries, codes: Ints64) -> Floats64:
    """The best DCG each query can reach: its gains in decreasing order, discounted."""
    best = v[np.lexsort((-v, codes))]
    place = np.arange(len(v)) - queries.offsets[codes]
    sums = np.bincount(codes, weights=best / np.log2(place + 2.0), minlength=len(queries))
    return np.asarray(sums, dtype=np.float64)


def _check_sample_weight(sample_weight: ArrayLike, n_rows: int) -> Floats64:
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have one value for each of the {n_rows} rows; "
            f"got shape {weight.shape}"
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight must be finite and non-negative")
    if not weight.any():
        raise ValueError("sample_weight is zero everywhere, so nothing would count")
    return weight


def _query_factors(query_weight: QueryWeight | None, queries: Queries, n_rows: int) -> Floats64:
    """One weight a query, from a mapping or from one value a row."""
    if query_weight is None:
        return np.ones(len(queries))
    if isinstance(query_weight, Mapping):
        missing = [q for q in queries.ids.tolist() if q not in query_weight]
        if missing:
            raise ValueError(
                f"query_weight has no weight for {len(missing)} queries, such as {missing[0]!r}"
            )
        factors = np.array([query_weight[q] for q in queries.ids.tolist()], dtype=np.float64)
    else:
        rows = np.asarray(query_weight, dtype=np.float64)
        if rows.shape != (n_rows,):
            raise ValueError(
                "query_weight must be a mapping from query id to weight or hold one value for "
                f"each of the {n_rows} rows; got shape {rows.shape}"
            )
        rows = np.asarray(queries.sort(rows))
        factors = rows[queries.offsets[:-1]]
        if (rows != np.repeat(factors, queries.sizes)).any():
            raise ValueError("query_weight must be the same for all rows of a query")
    if not np.isfinite(factors).all() or (factors < 0).any():
        raise ValueError("query_weight must be finite and non-negative")
    return factors
