"""Judged documents made to order: a planted ranking model, with noise and outliers on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from robirank._random import RandomStateLike, as_generator
from robirank._types import Floats64, Ints64
from robirank.data.ranking import RankingData

MSLR_GRADES = (0.52, 0.32, 0.13, 0.02, 0.01)
"""Shares of the grades 0 to 4 in MSLR-WEB30K, rounded."""

QUERY_SHARE = 0.5
"""The share of a feature's variance that all documents of a query have in common."""

_BLOCK_ROWS = 16_384


@overload
def make_ranking(
    n_queries: int = ...,
    n_docs: int | tuple[int, int] = ...,
    n_features: int = ...,
    *,
    n_informative: int | None = ...,
    n_grades: int = ...,
    label_distribution: Sequence[float] | None = ...,
    noise: float = ...,
    outliers: float = ...,
    empty: float = ...,
    nonlinear: bool = ...,
    dtype: DTypeLike = ...,
    random_state: RandomStateLike = ...,
    return_coef: Literal[False] = ...,
) -> RankingData: ...


@overload
def make_ranking(
    n_queries: int = ...,
    n_docs: int | tuple[int, int] = ...,
    n_features: int = ...,
    *,
    n_informative: int | None = ...,
    n_grades: int = ...,
    label_distribution: Sequence[float] | None = ...,
    noise: float = ...,
    outliers: float = ...,
    empty: float = ...,
    nonlinear: bool = ...,
    dtype: DTypeLike = ...,
    random_state: RandomStateLike = ...,
    return_coef: Literal[True],
) -> tuple[RankingData, Floats64]: ...


def make_ranking(
    n_queries: int = 100,
    n_docs: int | tuple[int, int] = 40,
    n_features: int = 20,
    *,
    n_informative: int | None = None,
    n_grades: int = 5,
    label_distribution: Sequence[float] | None = None,
    noise: float = 0.5,
    outliers: float = 0.0,
    empty: float = 0.0,
    nonlinear: bool = False,
    dtype: DTypeLike = np.float32,
    random_state: RandomStateLike = None,
    return_coef: bool = False,
) -> RankingData | tuple[RankingData, Floats64]:
    r"""Make judged documents whose right ranking is known.

    Document y of query x has standard normal features, half of whose variance all documents of
    the query share, and a hidden score:

    .. math::
        \phi(x, y) = \sqrt{1/2}\, u_x + \sqrt{1/2}\, z_{xy}, \qquad
        s(x, y) = \langle \phi(x, y), \omega \rangle + \text{noise} \cdot \tau \, \varepsilon_{xy}

    with u, z, ε independent and standard normal, :math:`\lVert \omega \rVert = 1`, and τ the
    standard deviation of :math:`\langle \phi, \omega \rangle` within a query. Within each query
    the documents with the highest hidden scores get the top grade, the next ones the next grade,
    and so on, each grade its share of the list. Because of :math:`u_x`, scores compare only
    within a query: a model that forgets the queries sees an easy document of one query above a
    good document of another.

    Parameters
    ----------
    n_queries : int, default=100
        How many queries.
    n_docs : int or (int, int), default=40
        Documents of each query; a pair draws each query's number evenly from low to high, both
        included.
    n_features : int, default=20
        How many features.
    n_informative : int, optional
        How many features, at random places, have a coefficient other than 0; all by default.
    n_grades : int, default=5
        How many grades: labels run from 0 to n_grades − 1.
    label_distribution : sequence of n_grades numbers, optional
        How much of a list each grade gets, from grade 0 up, in any unit. By default 52, 32, 13,
        2, 1 % as in MSLR-WEB30K where there are five grades, else each grade a third of the one
        below. Fractions of a document are rounded up or down at random, and every query that is
        not `empty` has at least one relevant document.
    noise : float, default=0.5
        Standard deviation of the noise on the hidden score, relative to the signal's.
    outliers : float, default=0.0
        Fraction of the documents, up to 0.5, whose grade is replaced by the top grade although
        they stand in the lower half of their query's hidden ranking. No good ranking can put them
        on top: robust losses give up on them, others bend the model to them. A top grade weighs
        2^(n_grades − 1) − 1, so that 5 % already carry almost half of all gain at the default
        grades; far above, the planted labels are the majority and no loss resists. All else stays
        the same: the call with ``outliers=0`` and the same seed tells the right labels.
    empty : float, default=0.0
        Fraction of the queries in which every label is 0.
    nonlinear : bool, default=False
        Whether every second informative feature acts by :math:`(\phi_f^2 - 1) / \sqrt 2` in place
        of :math:`\phi_f`, which no linear model can follow.
    dtype : float32 or float64, default=float32
        Of the features.
    random_state : int, Generator, RandomState or None, default=None
        Decides everything; None makes new data at each call.
    return_coef : bool, default=False
        Whether to return ω as well.

    Returns
    -------
    data : RankingData
        Documents of a query side by side, ``qid`` from 1 on, features named f1, f2, …
    coef : float64 array of shape (n_features,)
        ω; only with ``return_coef=True``.

    Notes
    -----
    X is filled in place by blocks of queries, so that the peak of memory is little more than X.

    Examples
    --------
    >>> data, coef = make_ranking(3, n_docs=4, n_features=2, random_state=0, return_coef=True)
    >>> data
    RankingData(12 documents, 3 queries, 2 features, dense)
    >>> data.y.reshape(3, 4).astype(int).tolist()
    [[0, 0, 1, 2], [2, 0, 1, 0], [0, 0, 0, 1]]
    """
    plan = _Plan(
        n_queries=_count("n_queries", n_queries),
        n_docs=_doc_range(n_docs),
        n_features=_count("n_features", n_features),
        n_informative=_informative(n_informative, n_features),
        tails=_tails(n_grades, label_distribution),
        noise=_real("noise", noise, np.inf),
        outliers=_real("outliers", outliers, 0.5),
        empty=_real("empty", empty, 1.0),
        nonlinear=bool(nonlinear),
        dtype=_float_type(dtype),
    )
    data, coef = _make(plan, _streams(random_state))
    return (data, coef) if return_coef else data


@dataclass(frozen=True)
class _Plan:
    """The arguments, checked."""

    n_queries: int
    n_docs: tuple[int, int]
    n_features: int
    n_informative: int
    tails: Floats64  # tails[g - 1] is the share of documents of grade g or more
    noise: float
    outliers: float
    empty: float
    nonlinear: bool
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class _Streams:
    """One random stream for each thing that is drawn, so that one option leaves the rest alone."""

    model: np.random.Generator
    sizes: np.random.Generator
    queries: np.random.Generator
    documents: np.random.Generator
    noise: np.random.Generator
    grades: np.random.Generator
    outliers: np.random.Generator
    empty: np.random.Generator


def _streams(random_state: RandomStateLike) -> _Streams:
    seeds = as_generator(random_state).integers(2**63, size=8)
    return _Streams(*(np.random.default_rng(int(seed)) for seed in seeds))


def _make(plan: _Plan, streams: _Streams) -> tuple[RankingData, Floats64]:
    coef = _draw_coef(plan, streams.model)
    sizes = streams.sizes.integers(*plan.n_docs, size=plan.n_queries, endpoint=True)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    counts, hopeless = _counts(plan, streams, sizes)

    X = np.empty((offsets[-1], plan.n_features), dtype=plan.dtype)
    y = np.empty(offsets[-1], dtype=np.float32)
    for first, last in _blocks(offsets):
        rows = slice(offsets[first], offsets[last])
        query = np.repeat(np.arange(last - first), sizes[first:last])
        _fill_features(X[rows], query, last - first, streams)
        score = _hidden_score(X[rows], coef, plan, streams.noise)
        rank = _rank(-score, query, sizes[first:last])
        y[rows] = _grade(rank, query, counts[first:last])
        if plan.outliers:
            chosen = _outliers(rank, query, sizes[first:last], hopeless[first:last], streams)
            y[rows][chosen] = len(plan.tails)

    qid = np.repeat(np.arange(1, plan.n_queries + 1), sizes)
    names = tuple(f"f{j}" for j in range(1, plan.n_features + 1))
    return RankingData(X, y, qid, feature_names=names), coef


def _draw_coef(plan: _Plan, rng: np.random.Generator) -> Floats64:
    coef = np.zeros(plan.n_features)
    places = np.sort(rng.permutation(plan.n_features)[: plan.n_informative])
    coef[places] = rng.standard_normal(plan.n_informative)
    return coef / np.linalg.norm(coef)


def _blocks(offsets: Ints64) -> Iterator[tuple[int, int]]:
    """Ranges of whole queries of about `_BLOCK_ROWS` documents, at least one query each."""
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + _BLOCK_ROWS, side="right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last


def _fill_features(block: NDArray[Any], query: Ints64, n_queries: int, streams: _Streams) -> None:
    streams.documents.standard_normal(dtype=block.dtype, out=block)
    shared = streams.queries.standard_normal((n_queries, block.shape[1]), dtype=block.dtype)
    block *= np.sqrt(1.0 - QUERY_SHARE, dtype=block.dtype)
    shared *= np.sqrt(QUERY_SHARE, dtype=block.dtype)
    block += shared[query]


def _hidden_score(
    block: NDArray[Any], coef: Floats64, plan: _Plan, rng: np.random.Generator
) -> Floats64:
    curved = np.flatnonzero(coef)[1::2] if plan.nonlinear else np.empty(0, dtype=np.intp)
    straight = coef.copy()
    straight[curved] = 0.0
    score = (block @ straight.astype(block.dtype)).astype(np.float64)
    score += ((block[:, curved] ** 2 - 1.0) / np.sqrt(2.0)) @ coef[curved]
    within = 1.0 - QUERY_SHARE
    # Variance within a query of (φ² − 1)/√2, where φ = √a z + √(1−a) u: a² + 2a(1−a).
    variance = within * (straight @ straight)
    variance += (within**2 + 2 * within * QUERY_SHARE) * (coef[curved] @ coef[curved])
    return score + plan.noise * np.sqrt(variance) * rng.standard_normal(len(block))


def _counts(plan: _Plan, streams: _Streams, sizes: Ints64) -> tuple[Ints64, Ints64]:
    """Count, for each query, the documents of grade ≥ 1, ≥ 2, …, and the outliers."""
    draw = streams.grades.random((plan.n_queries, 1))
    counts = np.floor(sizes[:, None] * plan.tails + draw).astype(np.int64)
    counts[:, 0] = np.maximum(counts[:, 0], 1)
    wanted = np.floor(sizes * plan.outliers + streams.outliers.random(plan.n_queries))
    hopeless = np.minimum(wanted.astype(np.int64), sizes // 2)
    n_empty = round(plan.empty * plan.n_queries)
    empty = streams.empty.permutation(plan.n_queries)[:n_empty]
    counts[empty] = 0
    hopeless[empty] = 0
    return counts, hopeless


def _rank(key: Floats64, query: Ints64, sizes: Ints64) -> Ints64:
    """Return the place of each document in its query, from 0, by rising key."""
    rank = np.empty(len(key), dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    rank[np.lexsort((key, query))] = np.arange(len(key)) - starts[query]
    return rank


def _grade(rank: Ints64, query: Ints64, counts: Ints64) -> Ints64:
    return np.asarray((rank[:, None] < counts[query]).sum(axis=1))


def _outliers(
    rank: Ints64,
    query: Ints64,
    sizes: Ints64,
    hopeless: Ints64,
    streams: _Streams,
) -> NDArray[np.bool_]:
    """Choose the given number of documents in the lower half of each query."""
    lower = rank >= (sizes - sizes // 2)[query]
    lottery = np.where(lower, streams.outliers.random(len(rank)), np.inf)
    return np.asarray(_rank(lottery, query, sizes) < hopeless[query])


def _count(name: str, value: Any, low: int = 1) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name} must be an integer ≥ {low}; got {value!r}")
    return int(value)


def _real(name: str, value: Any, high: float) -> float:
    if not isinstance(value, Real) or not 0 <= float(value) <= high or value == np.inf:
        right = "a finite number ≥ 0" if high == np.inf else f"a fraction from 0 to {high:g}"
        raise ValueError(f"{name} must be {right}; got {value!r}")
    return float(value)


def _doc_range(n_docs: Any) -> tuple[int, int]:
    pair = n_docs if isinstance(n_docs, list | tuple) else (n_docs, n_docs)
    if len(pair) != 2:
        raise ValueError(f"n_docs must be an integer or a pair (low, high); got {n_docs!r}")
    low, high = _count("n_docs", pair[0]), _count("n_docs", pair[1])
    if low > high:
        raise ValueError(f"n_docs=(low, high) must have low ≤ high; got {n_docs!r}")
    return low, high


def _informative(n_informative: int | None, n_features: int) -> int:
    if n_informative is None:
        return n_features
    if _count("n_informative", n_informative) > n_features:
        raise ValueError(
            f"n_informative must be at most n_features={n_features}; got {n_informative}"
        )
    return int(n_informative)


def _tails(n_grades: Any, label_distribution: Sequence[float] | None) -> Floats64:
    n_grades = _count("n_grades", n_grades, low=2)
    if label_distribution is None:
        shares = np.array(MSLR_GRADES) if n_grades == 5 else 3.0 ** -np.arange(n_grades)
    else:
        shares = np.asarray(label_distribution, dtype=np.float64)
    if shares.shape != (n_grades,) or not np.isfinite(shares).all() or (shares < 0).any():
        raise ValueError(
            f"label_distribution must hold n_grades={n_grades} numbers ≥ 0; "
            f"got {label_distribution!r}"
        )
    if shares[1:].sum() == 0:
        raise ValueError(
            "label_distribution must give a grade above 0 some share; "
            f"got {label_distribution!r}. Use empty=1.0 for data without relevant documents"
        )
    return np.asarray(np.cumsum(shares[::-1])[::-1][1:] / shares.sum())


def _float_type(dtype: DTypeLike) -> np.dtype[Any]:
    kind = np.dtype(dtype)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float32 or float64; got {dtype!r}")
    return kind
