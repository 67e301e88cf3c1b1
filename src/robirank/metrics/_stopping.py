"""Metrics of a reader who walks down the list and stops: reciprocal rank and ERR.

Both are the expectation of 1/(rank at which the reader stops). They differ in the chance to stop
at a row: 1 at a relevant row for the reciprocal rank, a probability by grade for ERR.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from robirank._types import Floats64, Ints64
from robirank.errors import Argument, ArgumentError
from robirank.metrics._conventions import Convention, Empty, Ties, resolve_convention
from robirank.metrics._lists import (
    Chunk,
    Cutoffs,
    Metric,
    RankedLists,
    TieGroups,
    Values,
    batches,
    pad,
)
from robirank.metrics._relevant import relevant


def reciprocal_rank(
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
    r"""One over the rank of the first relevant row; its mean over queries is MRR.

    .. math:: \mathrm{RR@}k = 1 / \min \{r : y_{(r)} \text{ relevant}\}

    or 0 if that rank is beyond ``k``. Under ``ties="average"`` this is the exact expectation [1]_:
    in a group of :math:`m` ties, :math:`c` of them relevant, a reader who has come to its
    :math:`j`-th place finds a relevant row there with the chance :math:`c / (m - j + 1)`.

    The arguments are those of :func:`precision`.

    References
    ----------
    .. [1] McSherry and Najork, "Computing information retrieval performance measures efficiently
       in the presence of tied scores", ECIR 2008.

    Examples
    --------
    >>> reciprocal_rank([0, 0, 2, 1], [9.0, 8.0, 7.0, 6.0])
    0.3333333333333333
    >>> reciprocal_rank([0, 1], [1.0, 1.0])  # rank 1 or rank 2
    0.75
    """
    rule = resolve_convention(convention, ties=ties, empty=empty)
    lists = RankedLists(y, scores, qid, rule, ids)
    return lists.report(reciprocal_rank_metric(lists.y, relevant_from), k, per_query=per_query)


def err(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: Cutoffs = None,
    max_grade: float | None = None,
    convention: str | Convention = "standard",
    ties: Ties | None = None,
    empty: Empty | None = None,
    ids: ArrayLike | None = None,
    per_query: bool = False,
) -> Values:
    r"""Expected reciprocal rank (ERR) [1]_.

    .. math:: \mathrm{ERR@}k = \sum_{r=1}^{k} \frac{R_r}{r} \prod_{i<r} (1 - R_i),
        \qquad R_i = \frac{2^{y_{(i)}} - 1}{2^{g}}

    where :math:`g` is the largest grade there is. Under ``ties="average"`` this is the exact
    expectation: if :math:`M_j` is the mean of :math:`\prod (1 - R_i)` over all subsets of
    :math:`j` rows of a tie group (an elementary symmetric mean), a reader who comes to the group
    stops at its :math:`j`-th place with the chance :math:`M_{j-1} - M_j`.

    Parameters
    ----------
    max_grade : float, optional
        The largest grade :math:`g` of the labels' scale. Default: the largest label in ``y``. Give
        it where ``y`` may lack the top grade, or else values from two samples do not compare.
    y, scores, qid, k, convention, ties, empty, ids, per_query
        As for :func:`ndcg`; of the convention, only ``ties`` and ``empty`` matter.

    References
    ----------
    .. [1] Chapelle, Metzler, Zhang and Grinspan, "Expected reciprocal rank for graded relevance",
       CIKM 2009.

    Examples
    --------
    Grades 1 and 2 stop a reader with the chances 1/4 and 3/4: 1/4 + 3/4 · 3/4 / 2.

    >>> err([1, 2], [2.0, 1.0])
    0.53125
    """
    rule = resolve_convention(convention, ties=ties, empty=empty)
    lists = RankedLists(y, scores, qid, rule, ids)
    return lists.report(err_metric(lists.y, max_grade), k, per_query=per_query)


def reciprocal_rank_metric(y: Floats64, relevant_from: float = 1) -> Metric:
    """Reciprocal rank as a metric of chunks."""

    def tied(stops: Floats64, groups: TieGroups, _: int) -> Floats64:
        count = groups.spread(groups.sums(stops))
        to_come = groups.spread(groups.sizes) - groups.within
        return np.minimum(count / to_come, 1)

    return _stopping_metric(relevant(y, relevant_from), tied)


def err_metric(y: Floats64, max_grade: float | None = None) -> Metric:
    """ERR as a metric of chunks."""
    largest = float(y.max())
    if y.min() < 0:
        bad = int(np.argmax(y < 0))
        raise ArgumentError("y", f"must not be negative for ERR; y[{bad}] is {y[bad]:g}")
    top = largest if max_grade is None else max_grade
    if not isinstance(top, Real) or not np.isfinite(top) or top < largest:
        raise ArgumentError(
            Argument("max_grade", max_grade),
            f"must be a finite number, not below the largest label in y, {largest:g}",
        )
    # Not (2**y - 1)/2**top, which may overflow.
    return _stopping_metric(pad(np.exp2(y - top) - np.exp2(-top)), _tied_stops)


def _stopping_metric(
    stop: Floats64, tied: Callable[[Floats64, TieGroups, int], Floats64]
) -> Metric:
    """The mean of 1/rank of the stop, from the padded chance to stop at each row.

    ``tied`` gives the chances at each place of a reader who has come that far, over all orders of
    tied rows.
    """

    def of(chunk: Chunk, values: Floats64, cutoffs: Ints64) -> Floats64:
        width, stops = chunk.width(cutoffs), values[chunk.rows]
        any_relevant = stops.any(axis=1, keepdims=True)
        if chunk.groups is not None:
            stops = tied(stops, chunk.groups, width)
        stops = stops[:, :width]
        reached = np.ones_like(stops)
        np.cumprod(1 - stops[:, :-1], axis=1, out=reached[:, 1:])
        terms = stops * reached / np.arange(1.0, width + 1)
        return np.where(any_relevant, chunk.at(np.cumsum(terms, axis=1), cutoffs), np.nan)

    return Metric(stop, of)


def _tied_stops(stops: Floats64, groups: TieGroups, width: int) -> Floats64:
    """The chance to stop at each of ``width`` places, if reached, over all orders of ties."""
    flat = stops.ravel()
    lowest = np.minimum.reduceat(flat, groups.starts)
    mixed = np.flatnonzero(
        (lowest < np.maximum.reduceat(flat, groups.starts))
        & (groups.starts % groups.shape[1] < width)
    )
    result = flat.copy()  # only groups of mixed grades differ
    for batch in batches(groups.sizes[mixed]):
        starts, sizes = groups.starts[mixed[batch]], groups.sizes[mixed[batch]]
        columns = np.arange(sizes.max())
        inside = columns < sizes[:, None]
        places = np.where(inside, starts[:, None] + columns, 0)
        chances = np.sort(np.where(inside, flat[places], np.inf), axis=1)
        means = _symmetric_means(chances, sizes, min(len(columns), width))
        with np.errstate(invalid="ignore"):  # 0/0: nobody comes that far
            tied = np.nan_to_num(1 - means[:, 1:] / means[:, :-1])
        inside, places = inside[:, : tied.shape[1]], places[:, : tied.shape[1]]
        result[places[inside]] = tied[inside]
    return result.reshape(stops.shape)


def _symmetric_means(stops: Floats64, sizes: Ints64, n: int) -> Floats64:
    """Means of the products of 1 - stop over all subsets of 0, 1, …, n elements of each line.

    The lines are sorted, and padded beyond their ``sizes``. With one element ``x`` more, the
    means of t elements become (t+1-j)/(t+1) M_j + j/(t+1) x M_{j-1}: sums of positive numbers, so
    nothing cancels. All equal elements have M_j = x^j, which is where each line starts: its lowest
    grade, as a rule by far the most frequent one.
    """
    equal = (stops == stops[:, :1]).sum(axis=1)
    by_steps = np.argsort(equal - sizes, kind="stable")  # most steps first
    stops, sizes, equal = stops[by_steps], sizes[by_steps], equal[by_steps]
    j = np.arange(n + 1)
    means = np.where(j <= equal[:, None], (1 - stops[:, :1]) ** j, 0.0)
    for step in range(int((sizes - equal).max())):
        active = slice(0, int(np.count_nonzero(sizes - equal > step)))
        t = equal[active] + step
        x = 1 - stops[active][np.arange(len(t)), t][:, None]
        total, now = t[:, None] + 1, means[active]
        now[:, 1:] = ((total - j[1:]) * now[:, 1:] + j[1:] * x * now[:, :-1]) / total
    result = np.empty_like(means)
    result[by_steps] = means
    return result
