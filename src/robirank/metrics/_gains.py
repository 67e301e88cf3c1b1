"""Metrics of graded relevance: discounted cumulative gain and its normalised forms."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from robirank._queries import Queries
from robirank._types import Floats64, Ints64
from robirank.errors import ArgumentError
from robirank.metrics._conventions import (
    Convention,
    Discount,
    Empty,
    Gain,
    Ties,
    discounts,
    gains,
    resolve_convention,
)
from robirank.metrics._lists import Chunk, Cutoffs, Metric, RankedLists, Values, pad


def dcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: Cutoffs = None,
    convention: str | Convention = "standard",
    gain: Gain | None = None,
    discount: Discount | None = None,
    ties: Ties | None = None,
    ids: ArrayLike | None = None,
    per_query: bool = False,
) -> Values:
    r"""Discounted cumulative gain.

    .. math:: \mathrm{DCG@}k = \sum_{r=1}^{k} \mathrm{gain}(y_{(r)}) \, \mathrm{discount}(r)

    where :math:`y_{(r)}` is the label at rank :math:`r` [1]_. The arguments are those of
    :func:`ndcg`; a query without relevant rows has a DCG of 0 under every convention.

    References
    ----------
    .. [1] Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", ACM
       TOIS 20(4), 2002.

    Examples
    --------
    Labels 1, 0, 2 in ranked order: gains 1, 0, 3 and discounts 1, 0.63, 0.5.

    >>> dcg([1, 0, 2], [3.0, 2.0, 1.0])
    2.5
    >>> dcg([1, 0, 2], [3.0, 2.0, 1.0], gain="linear")
    2.0
    """
    rule = resolve_convention(convention, gain=gain, discount=discount, ties=ties)
    lists = RankedLists(y, scores, qid, rule, ids)
    return lists.report(dcg_metric(lists.y, rule), k, per_query=per_query)


def ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: Cutoffs = None,
    convention: str | Convention = "standard",
    gain: Gain | None = None,
    discount: Discount | None = None,
    ties: Ties | None = None,
    empty: Empty | None = None,
    ids: ArrayLike | None = None,
    per_query: bool = False,
) -> Values:
    r"""Normalised discounted cumulative gain: DCG over that of the best order of the same rows.

    .. math:: \mathrm{NDCG@}k = \mathrm{DCG@}k \, / \, \max_\text{orders} \mathrm{DCG@}k

    [1]_; with gain ``exp`` as in [2]_. A list shorter than ``k`` is taken as it is.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Relevance labels, finite; 0 is irrelevant. Not negative with gain ``exp``.
    scores : array-like of shape (n_rows,)
        Finite scores; higher ranks first. Two scores tie if they are equal as numbers, so float32
        and float64 scores of one model may differ in their ties.
    qid : array-like of shape (n_rows,), optional
        Query ids, not necessarily sorted or contiguous. None: all rows are one query.
    k : int, sequence of int, or None
        Cut-off; None is the full list. A sequence gives one value for each of its cut-offs.
    convention : str or Convention
        "standard", "letor", "trec" or "lightgbm" (see :data:`CONVENTIONS`), or one of your own.
    gain, discount, ties, empty : optional
        Take the place of the convention's field of that name; see :class:`Convention`.
    ids : array-like of shape (n_rows,), optional
        Document ids, for ``ties="first"`` and ``"last"`` only: ties are broken by ascending or
        descending id in place of the order of the rows. Ids are compared as strings.
        ``convention="trec", ids=docno`` is the rule of trec_eval.
    per_query : bool
        Give one value a query, in the order of the queries' first appearance, not the mean.

    Returns
    -------
    float or array
        The mean over queries; shape (n_k,) if ``k`` is a sequence. With ``per_query``, shape
        (n_queries,) or (n_queries, n_k). With ``empty="skip"``, queries without relevant rows are
        NaN and left out of the mean, which is NaN if there is no other.

    References
    ----------
    .. [1] Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", ACM
       TOIS 20(4), 2002.
    .. [2] Burges et al., "Learning to rank using gradient descent", ICML 2005.

    Examples
    --------
    Labels 1, 0, 2 in ranked order: DCG = 1 + 0 + 3/2. The best order is 2, 1, 0, which has
    3 + 1/log2(3) + 0 = 3.6309.

    >>> round(ndcg([1, 0, 2], [3.0, 2.0, 1.0]), 4)
    0.6885

    Two queries, cut off at 1: "a" has 1/3; in "b" two rows tie, so each is first in half of all
    orders: 1/2.

    >>> y, scores, qid = [1, 0, 2, 0, 1], [3.0, 2.0, 1.0, 7.0, 7.0], ["a", "a", "a", "b", "b"]
    >>> ndcg(y, scores, qid, k=1, per_query=True)
    array([0.33333333, 0.5       ])
    >>> round(ndcg(y, scores, qid, k=1), 4)
    0.4167
    """
    rule = resolve_convention(convention, gain=gain, discount=discount, ties=ties, empty=empty)
    lists = RankedLists(y, scores, qid, rule, ids)
    return lists.report(ndcg_metric(lists.y, rule), k, per_query=per_query)


def mean_ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    convention: str | Convention = "standard",
    gain: Gain | None = None,
    discount: Discount | None = None,
    ties: Ties | None = None,
    empty: Empty | None = None,
    ids: ArrayLike | None = None,
    per_query: bool = False,
) -> Values:
    r"""LETOR's MeanNDCG: the mean of NDCG@k over all cut-offs of a list.

    .. math:: \frac{1}{n} \sum_{k=1}^{n} \mathrm{NDCG@}k

    for a query of :math:`n` rows [1]_. Use ``convention="letor"`` for the figures that LETOR's own
    script prints. The arguments are those of :func:`ndcg`.

    References
    ----------
    .. [1] Qin, Liu, Xu and Li, "LETOR: A benchmark collection for research on learning to rank
       for information retrieval", Information Retrieval 13, 2010.

    Examples
    --------
    Labels 0, 1 in ranked order, LETOR's discounts 1, 1: NDCG@1 = 0, NDCG@2 = 1.

    >>> mean_ndcg([0, 1], [2.0, 1.0], convention="letor")
    0.5
    """
    rule = resolve_convention(convention, gain=gain, discount=discount, ties=ties, empty=empty)
    lists = RankedLists(y, scores, qid, rule, ids)
    return lists.report(ndcg_metric(lists.y, rule, mean=True), None, per_query=per_query)


def dcg_metric(y: Floats64, rule: Convention) -> Metric:
    """DCG as a metric of chunks."""

    def of(chunk: Chunk, gain: Floats64, cutoffs: Ints64) -> Floats64:
        return chunk.at(_dcg(chunk, gain, rule, chunk.width(cutoffs)), cutoffs)

    return Metric(pad(gains(y, rule.gain)), of)


def ndcg_metric(y: Floats64, rule: Convention, *, mean: bool = False) -> Metric:
    """NDCG as a metric of chunks; with ``mean``, its mean over all cut-offs up to those given."""

    def of(chunk: Chunk, gain: Floats64, cutoffs: Ints64) -> Floats64:
        width = chunk.width(cutoffs)
        descending = -np.sort(-gain[chunk.rows], axis=1)[:, :width]
        ideal = np.cumsum(descending * discounts(width, rule.discount), axis=1)
        with np.errstate(invalid="ignore"):  # 0/0 where nothing is relevant: NaN
            ratios = np.minimum(_dcg(chunk, gain, rule, width) / ideal, 1.0)  # rounding
        if mean:
            return chunk.at(np.cumsum(ratios, axis=1), cutoffs) / chunk.sizes[:, None]
        return chunk.at(ratios, cutoffs)

    return Metric(pad(gains_not_negative(y, rule.gain)), of)


def _dcg(chunk: Chunk, gain: Floats64, rule: Convention, width: int) -> Floats64:
    """DCG at the cut-offs 1 to ``width``."""
    return np.cumsum(chunk.expected(gain, width) * discounts(width, rule.discount), axis=1)


def gains_not_negative(y: Floats64, gain: Gain) -> Floats64:
    """The gains of the labels, which must not be negative, as in NDCG."""
    values = gains(y, gain)
    if values.min() < 0:
        bad = int(np.argmin(values))
        raise ArgumentError(
            "gain",
            f"must not be negative for NDCG; it is {values[bad]:g} for the label y[{bad}] ="
            f" {y[bad]:g} (clip the labels at 0, as trec_eval does)",
        )
    return values


def ideal_dcg(values: Floats64, queries: Queries) -> Floats64:
    """The best DCG of each query, with discount "log2", from gains in the grouped order."""
    codes = queries.codes()
    descending = values[np.lexsort((-values, codes))]
    rank = np.arange(1, len(values) + 1) - queries.offsets[codes]
    terms = descending / np.log2(rank + 1.0)
    return np.bincount(codes, weights=terms, minlength=len(queries)).astype(np.float64, copy=False)
