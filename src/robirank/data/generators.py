"""Made-up judged documents: a planted ranking model, with noise and outliers on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from robirank._checks import check_count, check_fraction, check_not_negative
from robirank._random import RandomStateLike, as_generator
from robirank._sparse import offsets
from robirank._types import Floats64, Ints64
from robirank.data.ranking import RankingData
from robirank.errors import Argument, ArgumentError

MSLR_GRADES = (0.52, 0.32, 0.13, 0.02, 0.01)
"""Shares of the grades 0 to 4 in MSLR-WEB30K, rounded."""

QUERY_SHARE = 0.5
"""The share of a feature's variance that all documents of a query have in common."""

_CHUNK_ROWS = 16_384
_STREAMS = ("model", "sizes", "queries", "documents", "noise", "grades", "outliers", "empty")


@overload
def make_ranking(
    *args: Any, return_coef: Literal[True], **kwargs: Any
) -> tuple[RankingData, Floats64]: ...
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
def make_ranking(  # type: ignore[misc]
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
        The number of queries.
    n_docs : int or (int, int), default=40
        Documents of each query; a pair draws each query's number evenly from low to high, both
        included.
    n_features : int, default=20
        The number of features.
    n_informative : int, optional
        The number of features with a coefficient other than 0, chosen at random; all by default.
    n_grades : int, default=5
        The number of grades; labels run from 0 to n_grades − 1.
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
    X is filled in place by chunks of queries, so that the peak of memory is little more than X.

    Examples
    --------
    >>> data, coef = make_ranking(3, n_docs=4, n_features=2, random_state=0, return_coef=True)
    >>> data
    RankingData(12 documents, 3 queries, 2 features, dense)
    >>> data.y.reshape(3, 4).astype(int).tolist()
    [[0, 0, 1, 2], [2, 0, 1, 0], [0, 0, 0, 1]]
    """
    low, high = n_docs if isinstance(n_docs, tuple | list) and len(n_docs) == 2 else (n_docs,) * 2
    n_informative = n_features if n_informative is None else n_informative
    for name, count in (("n_queries", n_queries), ("n_features", n_features)):
        check_count(name, count)
    check_count("n_docs", high)
    check_count("n_docs", low, at_most=high)
    check_count("n_informative", n_informative, at_most=n_features)
    check_not_negative("noise", noise)
    check_fraction("outliers", outliers, at_most=0.5)
    check_fraction("empty", empty)
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ArgumentError("dtype", f"must be float32 or float64; got {dtype!r}")
    shares = _shares_of_grades(n_grades, label_distribution)

    # A random stream for each quantity, so that changing one option does not change the others.
    seeds = as_generator(random_state).integers(2**63, size=len(_STREAMS)).tolist()
    rng = {name: np.random.default_rng(seed) for name, seed in zip(_STREAMS, seeds, strict=True)}
    coef = _draw_coef(n_features, n_informative, rng["model"])
    curved = np.flatnonzero(coef)[1::2] if nonlinear else np.empty(0, dtype=np.intp)
    sizes = rng["sizes"].integers(low, high, size=n_queries, endpoint=True)
    n_graded, n_outliers = _draw_counts(sizes, shares, outliers, empty, rng)

    X = np.empty((sizes.sum(), n_features), dtype=dtype)
    y = np.empty(len(X), dtype=np.float32)
    for queries, rows in _chunks(sizes):
        query = np.repeat(np.arange(len(sizes[queries])), sizes[queries])
        _fill_features(X[rows], query, rng)
        score = _hidden_score(X[rows], coef, curved, noise, rng["noise"])
        rank = _rank(-score, query, sizes[queries])
        y[rows] = (rank[:, None] < n_graded[queries][query]).sum(axis=1)
        if outliers:
            is_lower_half = rank >= (sizes - sizes // 2)[queries][query]
            lottery = np.where(is_lower_half, rng["outliers"].random(len(rank)), np.inf)
            is_outlier = _rank(lottery, query, sizes[queries]) < n_outliers[queries][query]
            y[rows][is_outlier] = len(shares)

    qid = np.repeat(np.arange(1, n_queries + 1), sizes)
    names = tuple(f"f{j}" for j in range(1, n_features + 1))
    data = RankingData(X, y, qid, feature_names=names)
    return (data, coef) if return_coef else data


def _shares_of_grades(n_grades: int, label_distribution: Sequence[float] | None) -> Floats64:
    """The fraction of a query's documents with grade ≥ 1, ≥ 2, …, ≥ n_grades − 1."""
    check_count("n_grades", n_grades, at_least=2)
    if label_distribution is None:
        shares = np.array(MSLR_GRADES) if n_grades == 5 else 3.0 ** -np.arange(n_grades)
    else:
        shares = np.asarray(label_distribution, dtype=np.float64)
    if shares.shape != (n_grades,) or not np.isfinite(shares).all() or (shares < 0).any():
        problem = f"must hold n_grades={n_grades} numbers ≥ 0; got {label_distribution!r}"
        raise ArgumentError("label_distribution", problem)
    if shares[1:].sum() == 0:
        raise ArgumentError(
            "label_distribution",
            f"must give a grade above 0 some share; got {label_distribution!r}. Use ",
            Argument("empty", 1.0),
            " for data without relevant documents",
        )
    return np.asarray(np.cumsum(shares[::-1])[::-1][1:] / shares.sum())


def _draw_coef(n_features: int, n_informative: int, rng: np.random.Generator) -> Floats64:
    coef = np.zeros(n_features)
    informative = np.sort(rng.permutation(n_features)[:n_informative])
    coef[informative] = rng.standard_normal(n_informative)
    return coef / np.linalg.norm(coef)


def _draw_counts(
    sizes: Ints64,
    shares: Floats64,
    outliers: float,
    empty: float,
    rng: dict[str, np.random.Generator],
) -> tuple[Ints64, Ints64]:
    """For each query, the numbers of documents of grade ≥ 1, ≥ 2, … and of outliers."""
    n_queries = len(sizes)
    rounding = rng["grades"].random((n_queries, 1))
    n_graded = np.floor(sizes[:, None] * shares + rounding).astype(np.int64)
    n_graded[:, 0] = np.maximum(n_graded[:, 0], 1)
    n_outliers = np.floor(sizes * outliers + rng["outliers"].random(n_queries)).astype(np.int64)
    n_outliers = np.minimum(n_outliers, sizes // 2)
    empty_queries = rng["empty"].permutation(n_queries)[: round(empty * n_queries)]
    n_graded[empty_queries], n_outliers[empty_queries] = 0, 0
    return n_graded, n_outliers


def _chunks(sizes: Ints64) -> Iterator[tuple[slice, slice]]:
    """Yield chunks of whole queries with about `_CHUNK_ROWS` documents, at least one query each.

    A chunk is a slice of the queries and the slice of their rows.
    """
    starts = offsets(sizes)
    first = 0
    while first < len(sizes):
        last = int(np.searchsorted(starts, starts[first] + _CHUNK_ROWS, side="right")) - 1
        last = max(last, first + 1)
        yield slice(first, last), slice(starts[first], starts[last])
        first = last


def _fill_features(chunk: NDArray[Any], query: Ints64, rng: dict[str, np.random.Generator]) -> None:
    rng["documents"].standard_normal(dtype=chunk.dtype, out=chunk)
    shape = (query[-1] + 1, chunk.shape[1])
    shared = rng["queries"].standard_normal(shape, dtype=chunk.dtype)
    chunk *= np.sqrt(1.0 - QUERY_SHARE, dtype=chunk.dtype)
    shared *= np.sqrt(QUERY_SHARE, dtype=chunk.dtype)
    chunk += shared[query]


def _hidden_score(
    chunk: NDArray[Any],
    coef: Floats64,
    curved: NDArray[np.intp],
    noise: float,
    rng: np.random.Generator,
) -> Floats64:
    """Hidden scores, with noise, of documents; the features ``curved`` act by (φ² − 1)/√2."""
    straight = coef.copy()
    straight[curved] = 0.0
    score = (chunk @ straight.astype(chunk.dtype)).astype(np.float64)
    score += ((chunk[:, curved] ** 2 - 1.0) / np.sqrt(2.0)) @ coef[curved]
    within = 1.0 - QUERY_SHARE
    # Variance within a query of (φ² − 1)/√2, where φ = √a z + √(1−a) u: a² + 2a(1−a).
    variance = within * (straight @ straight)
    variance += (within**2 + 2 * within * QUERY_SHARE) * (coef[curved] @ coef[curved])
    return score + noise * np.sqrt(variance) * rng.standard_normal(len(chunk))


def _rank(key: Floats64, query: Ints64, sizes: Ints64) -> Ints64:
    """The rank of each document within its query, from 0, in the order of rising keys."""
    rank = np.empty(len(key), dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    rank[np.lexsort((key, query))] = np.arange(len(key)) - starts[query]
    return rank
