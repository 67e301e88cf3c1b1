"""Several metrics of one ranking, by name, with one sort."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from robirank._types import Floats64
from robirank.errors import ArgumentError
from robirank.metrics._conventions import Convention, resolve_convention
from robirank.metrics._gains import dcg_metric, ndcg_metric
from robirank.metrics._lists import FULL_LIST, Metric, RankedLists, Values, summary
from robirank.metrics._relevant import average_precision_of, precision_of, recall_of, relevant
from robirank.metrics._stopping import err_metric, reciprocal_rank_metric

_METRICS: Mapping[str, Callable[[Floats64, Convention], Metric]] = {
    "dcg": dcg_metric,
    "ndcg": ndcg_metric,
    "mean_ndcg": partial(ndcg_metric, mean=True),
    "precision": lambda y, _: Metric(relevant(y), precision_of),
    "recall": lambda y, _: Metric(relevant(y), recall_of),
    "map": lambda y, _: Metric(relevant(y), average_precision_of),
    "mrr": lambda y, _: reciprocal_rank_metric(y),
    "err": lambda y, _: err_metric(y),
}
_ALIASES = {"p": "precision"}
_WITHOUT_CUTOFF = {"mean_ndcg"}


def evaluate_ranking(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    metrics: str | Sequence[str] = ("ndcg@1", "ndcg@5", "ndcg@10", "map", "mrr"),
    convention: str | Convention = "standard",
    per_query: bool = False,
) -> dict[str, Values]:
    """Evaluate several metrics at once.

    Parameters
    ----------
    y, scores, qid : array-like of shape (n_rows,)
        Labels, scores and query ids, as for :func:`ndcg`.
    metrics : str or sequence of str
        Names such as "ndcg@10", "ndcg" (full list), "mean_ndcg", "p@5" or "precision@5",
        "recall@20", "map", "map@100", "mrr", "mrr@10", "err@20", "dcg@3". Labels from 1 count as
        relevant, and the largest label in ``y`` is the top grade of ERR; call the function of that
        metric for anything else.
    convention : str or Convention
        As for :func:`ndcg`.
    per_query : bool
        Give arrays with one value a query, not means.

    Returns
    -------
    dict
        From each name, as it was given, to a float or to an array of shape (n_queries,).

    Examples
    --------
    >>> evaluate_ranking([1, 0, 2], [3.0, 2.0, 1.0], metrics=["p@2", "mrr", "dcg"])
    {'p@2': 0.5, 'mrr': 1.0, 'dcg': 2.5}
    """
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    parsed = {name: _parse(name) for name in names}
    rule = resolve_convention(convention)
    lists = RankedLists(y, scores, qid, rule)

    # The cut-offs of a metric go together, so that NDCG@1, @5 and @10 are one pass.
    cutoffs: dict[str, list[int]] = {}
    for metric, k in parsed.values():
        cutoffs.setdefault(metric, []).append(k)
    requests = [(_METRICS[m](lists.y, rule), np.array(ks)) for m, ks in cutoffs.items()]
    tables = dict(zip(cutoffs, lists.table(requests), strict=True))
    return {
        name: summary(tables[m][:, [cutoffs[m].index(k)]], single=True, per_query=per_query)
        for name, (m, k) in parsed.items()
    }


def _parse(name: str) -> tuple[str, int]:
    """Split "ndcg@10" into metric and cut-off."""
    match = re.fullmatch(r"([a-z_]+)(?:@([1-9][0-9]{0,17}))?", str(name).strip().lower())
    if match:
        metric = _ALIASES.get(match[1], match[1])
        if metric in _METRICS and not (match[2] and metric in _WITHOUT_CUTOFF):
            return metric, int(match[2] or FULL_LIST)
    allowed = ", ".join([*_METRICS, *_ALIASES])
    raise ArgumentError(
        "metrics",
        f"contains {name!r}; known are {allowed}, each alone (full list) or with a cut-off"
        f" from 1 as in 'ndcg@10' (not {', '.join(_WITHOUT_CUTOFF)})",
    )
