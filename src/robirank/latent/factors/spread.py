"""How much the scores of a user differ from item to item, the unit of relevance for `variety`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from robirank import _core
from robirank._threads import thread_count
from robirank._types import Floats32, Floats64

if TYPE_CHECKING:
    from robirank.latent.factors.factors import Queries, Side

#: Standard deviations that relevance is measured in: by so much the best scores of a user exceed
#: the mean, roughly, so that relevance and similarity both range to about 1.
UNIT = 4.0


@dataclass(frozen=True, eq=False)
class Spread:
    r"""The covariance matrix C of the rows of items.

    The scores of a row q with all items have the variance qᵀ C q.

    Examples
    --------
    >>> rows = np.array([[1, 0], [3, 0]], np.float32)
    >>> query = np.array([[2, 5]], np.float32)
    >>> Spread.of([rows]).of_scores(query, np.array([0], np.int32)).tolist()
    [2.0]
    """

    covariance: Floats64

    @classmethod
    def of(cls, blocks: Iterable[Floats32]) -> Self:
        """The covariance of the rows of some blocks."""
        moments = []
        for block in blocks:
            rows = np.column_stack([np.ones(len(block)), block])
            moments.append(rows.T @ rows)
        total = np.sum(moments, axis=0)
        mean = total[0, 1:] / total[0, 0]
        return cls(total[1:, 1:] / total[0, 0] - np.multiply.outer(mean, mean))

    def of_scores(self, rows: Floats32, asked: np.ndarray, num_threads: int = 0) -> Floats64:
        """The standard deviation of the scores of each of some rows over all items."""
        variances = _core.quadratic_forms(
            rows=rows, asked=asked, matrix=self.covariance, num_threads=thread_count(num_threads)
        )
        return np.sqrt(np.maximum(variances, 0))


def spread_with_content(items: Side, queries: Queries) -> Floats64:
    """The same where content scores count too, from the scores themselves."""
    content, centres = queries.content, items.centres
    assert content is not None
    assert centres is not None
    scales, weights = content.weights.of_items(items.counts)
    V, spread = items.rows * scales[:, None], np.empty(len(queries.asked))
    for batch in content.batches(centres.features):
        likeness = content.take(batch).likeness(centres.features)
        scores = queries.rows[queries.asked[batch]] @ V.T + weights * likeness
        spread[batch] = scores.std(axis=1, dtype=np.float64)
    return spread
