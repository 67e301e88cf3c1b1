"""Metrics of binary relevance that count the relevant rows at the top."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from robirank._types import Floats64, Ints64
from robirank.errors import Argument, ArgumentError
from robirank.metrics._conventions import Convention, Empty, Ties, resolve_convention
from robirank.metrics._lists import (
    FULL_LIST,
    Chunk,
    Cutoffs,
    Metric,
    RankedLists,
    TieGroups,
    Values,
    pad,
)


def precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: Cutoffs = None,
    relevant_from: float = 1,
    convention: str | Convention = "standard",
    ties: Ties | None = None,
    empty: Empty | None = None,
    ids: ArrayLike | None = None,
    per_query: bool = False,
) -> Values:
    r"""Share of relevant rows among the first ``k``.

    .. math:: \mathrm{P@}k = \frac{1}{k} \, |\{r \le k : y_{(r)} \text{ relevant}\}|

    The divisor is always ``k``, also for a list shorter than that: what is not there is not
    relevant, as in trec_eval and LETOR. With ``k=None`` it is the length of the list.

    Parameters
    ----------
    relevant_from : float
        Labels of at least this count as relevant.
    y, scores, qid, k, convention, ties, empty, ids, per_query
        As for :func:`ndcg`; of the convention, only ``ties`` and ``empty`` matter. ``empty`` is
        what a query without relevant rows scores, here as everywhere; "zero" is what the formula
        says.

    Examples
    --------
    >>> precision([1, 0, 2], [3.0, 2.0, 1.0], k=2)
    0.5
    >>> precision([1, 0, 2], [3.0, 2.0, 1.0], k=[1, 3, 10], relevant_from=2).tolist()
    [0.0, 0.3333333333333333, 0.1]
    """
    rule = resolve_convention(convention, ties=ties, empty=empty)
    lists = RankedLists(y, scores, qid, rule, ids)
    metric = Metric(relevant(lists.y, relevant_from), precision_of)
    return lists.report(metric, k, per_query=per_query)


def recall(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: Cutoffs = None,
    relevant_from: float = 1,
    convention: str | Convention = "standard",
    ties: Ties | None = None,
    empty: Empty | None = None,
    ids: ArrayLike | None = None,
    per_query: bool = False,
) -> Values:
    r"""Share of the relevant rows that are among the first ``k``.

    .. math:: \mathrm{R@}k = \frac{|\{r \le k : y_{(r)} \text{ relevant}\}|}
        {|\{r : y_{(r)} \text{ relevant}\}|}

    The arguments are those of :func:`precision`.

    Examples
    --------
    >>> recall([1, 0, 2], [3.0, 2.0, 1.0], k=2)
    0.5
    """
    rule = resolve_convention(convention, ties=ties, empty=empty)
    lists = RankedLists(y, scores, qid, rule, ids)
    metric = Metric(relevant(lists.y, relevant_from), recall_of)
    return lists.report(metric, k, per_query=per_query)


def average_precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: Cutoffs = None,
    relevant_from: float = 1,
    convention: str | Convention = "standard",
    ties: Ties | None = None,
    empty: Empty | None = None,
    ids: ArrayLike | None = None,
    per_query: bool = False,
) -> Values:
    r"""Average precision; its mean over queries is MAP.

    .. math:: \mathrm{AP@}k = \frac{1}{R} \sum_{r \le k,\; y_{(r)} \text{ relevant}} \mathrm{P@}r

    where :math:`R` counts the relevant rows of the *full* list, also with a cut-off (as
    trec_eval's ``map_cut``; some programs divide by ``min(R, k)``). Under ``ties="average"`` this
    is the exact expectation [1]_: in a group of :math:`m` ties, :math:`c` of them relevant, with
    :math:`s` rows and :math:`b` relevant rows before it, the :math:`j`-th place adds

    .. math:: \frac{c}{m} \cdot \frac{b + 1 + (j-1) \frac{c-1}{m-1}}{s + j}

    The arguments are those of :func:`precision`.

    References
    ----------
    .. [1] McSherry and Najork, "Computing information retrieval performance measures efficiently
       in the presence of tied scores", ECIR 2008.

    Examples
    --------
    Relevant at the ranks 1 and 3, where the precision is 1 and 2/3.

    >>> average_precision([1, 0, 2], [3.0, 2.0, 1.0])
    0.8333333333333333

    Tied, the one relevant row is at rank 1 or at rank 2: (1 + 1/2) / 2.

    >>> average_precision([0, 1], [1.0, 1.0])
    0.75
    """
    rule = resolve_convention(convention, ties=ties, empty=empty)
    lists = RankedLists(y, scores, qid, rule, ids)
    metric = Metric(relevant(lists.y, relevant_from), average_precision_of)
    return lists.report(metric, k, per_query=per_query)


def precision_of(chunk: Chunk, is_relevant: Floats64, cutoffs: Ints64) -> Floats64:
    """Precision of a chunk of lists, from 1 for relevant rows and 0 for others."""
    divisors = np.where(cutoffs == FULL_LIST, chunk.sizes[:, None], cutoffs)
    values = _hits(chunk, is_relevant, cutoffs) / divisors
    return np.where(_totals(chunk, is_relevant) > 0, values, np.nan)


def recall_of(chunk: Chunk, is_relevant: Floats64, cutoffs: Ints64) -> Floats64:
    """Recall of a chunk of lists."""
    with np.errstate(invalid="ignore"):
        return _hits(chunk, is_relevant, cutoffs) / _totals(chunk, is_relevant)


def average_precision_of(chunk: Chunk, is_relevant: Floats64, cutoffs: Ints64) -> Floats64:
    """Average precision of a chunk of lists."""
    width = chunk.width(cutoffs)
    if chunk.groups is None:
        hits = is_relevant[chunk.rows[:, :width]]
        terms = hits * np.cumsum(hits, axis=1)
    else:
        terms = _tied_hits_and_ranks(is_relevant[chunk.rows], chunk.groups)[:, :width]
    sums = chunk.at(np.cumsum(terms / np.arange(1.0, width + 1), axis=1), cutoffs)
    with np.errstate(invalid="ignore"):
        return sums / _totals(chunk, is_relevant)


def relevant(y: Floats64, relevant_from: float = 1) -> Floats64:
    """1 for relevant rows, 0 for others, padded."""
    if not isinstance(relevant_from, Real) or not np.isfinite(relevant_from):
        raise ArgumentError(
            Argument("relevant_from", relevant_from), "must be a finite number, such as 1"
        )
    return pad((y >= relevant_from).astype(np.float64))


def _hits(chunk: Chunk, is_relevant: Floats64, cutoffs: Ints64) -> Floats64:
    """The expected number of relevant rows up to each cut-off."""
    hits = chunk.expected(is_relevant, chunk.width(cutoffs))
    return chunk.at(np.cumsum(hits, axis=1), cutoffs)


def _totals(chunk: Chunk, is_relevant: Floats64) -> Floats64:
    """The number of relevant rows of each list, as a column."""
    return is_relevant[chunk.rows].sum(axis=1, keepdims=True)


def _tied_hits_and_ranks(hits: Floats64, groups: TieGroups) -> Floats64:
    """The expectation of "relevant here" times "relevant up to here" at each place."""
    count = groups.spread(groups.sums(hits))
    size = groups.spread(groups.sizes)
    before = groups.spread((np.cumsum(hits, axis=1) - hits).ravel()[groups.starts])
    others = groups.within * (count - 1) / np.maximum(size - 1, 1)
    return count / size * (before + 1 + others)
