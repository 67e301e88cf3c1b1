"""The rows with the largest inner products: exact, in batches, without a matrix of scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robirank import _core
from robirank._threads import thread_count
from robirank._types import Floats32, Ints32
from robirank.data.user_items import UserItems

#: The score beside position −1, where fewer rows are left than were asked for.
NOTHING = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class PackedRows:
    """Rows, and a copy of them as the native kernels read them."""

    rows: Floats32
    packed: _core.PackedItems


def prepare_rows(rows: Any, device: str) -> Any:
    """Rows laid out for many searches: packed in memory, or uploaded to a card.

    The searches have the same bits, and may come from many threads.
    """
    if device != "cpu":
        from robirank.latent.factors.topk_on_card import CardRows

        return CardRows.of(rows)
    rows = np.ascontiguousarray(rows, np.float32)
    return PackedRows(rows, _core.PackedItems(rows))


def top_rows(
    queries: Any,
    asked: Ints32,
    rows: Any,
    n_best: int,
    *,
    candidates: Ints32 | None = None,
    scale: Floats32 | None = None,
    excluded: UserItems | None = None,
    added: Floats32 | None = None,
    num_threads: int = 0,
    device: str = "cpu",
) -> tuple[Ints32, Floats32]:
    r"""Find the rows with the largest inner products with each query.

    Scores are made in tiles that stay in the processor's registers. A tile is compared with the
    n-th best score that its queries have so far, and nearly always dropped; what is above goes to
    a buffer of about 2n entries a query. Memory beside the answer is a few megabytes a thread.

    A score is summed over the factors in order and in float32, so neither the number of threads
    nor the other queries of a call change its bits. Of equal scores the lower position wins.

    Parameters
    ----------
    queries : float32 array of shape (n, d)
    asked : int32 array
        The queries to answer, as positions in ``queries``.
    rows : float32 array of shape (m, d), or what `prepare_rows` made of one
    n_best : int
    candidates : int32 array, optional
        Choose among these positions only; in rising order.
    scale : float32 array of shape (m,), optional
        Multiply each row by this number first.
    excluded : UserItems, optional
        The positions that each query must not get.
    added : float32 array of shape (len(asked), m), optional
        What is added to the inner products.
    num_threads : int, default=0
        0: every core.
    device : "cpu" or "cuda"
        On a card scores are rounded otherwise.

    Returns
    -------
    positions : int32 array of shape (len(asked), n_best)
        Best first; −1 where nothing is left.
    scores : float32 array of the same shape
        `NOTHING` where nothing is left.

    Examples
    --------
    >>> rows = np.array([[1, 0], [0, 1], [1, 1]], dtype=np.float32)
    >>> positions, scores = top_rows(rows, np.array([1], dtype=np.int32), rows, 2)
    >>> positions.tolist(), scores.tolist()
    ([[1, 2]], [[1.0, 1.0]])
    """
    if n_best == 0:
        return no_rows(len(asked), 0)
    if device != "cpu":
        from robirank.latent.factors import topk_on_card

        return topk_on_card.top_rows(
            queries,
            asked,
            rows,
            n_best,
            candidates=candidates,
            scale=scale,
            excluded=excluded,
            added=added,
        )
    packed = rows.packed if isinstance(rows, PackedRows) else None
    return _core.topk(
        users=queries,
        user_rows=asked,
        items=rows if packed is None else rows.rows,
        item_rows=candidates,
        item_scale=scale,
        excluded=None if excluded is None else (excluded.indptr, excluded.items),
        added=added,
        packed=packed,
        wanted=n_best,
        num_threads=thread_count(num_threads),
    )


def merge_best(
    first: tuple[Ints32, Floats32], second: tuple[Ints32, Floats32]
) -> tuple[Ints32, Floats32]:
    """The best of two answers for the same queries; of equal scores the lower position wins."""
    n = first[0].shape[1]
    positions = np.concatenate([first[0], second[0]], axis=1)
    scores = np.concatenate([first[1], second[1]], axis=1)
    last = np.where(positions < 0, np.iinfo(np.int32).max, positions)
    order = np.lexsort((last, -scores), axis=1)[:, :n]
    best = np.take_along_axis(positions, order, 1).astype(np.int32)
    return best, np.take_along_axis(scores, order, 1)


def no_rows(n_queries: int, n_best: int) -> tuple[Ints32, Floats32]:
    """The answer where nothing was found yet."""
    shape = (n_queries, n_best)
    return np.full(shape, -1, np.int32), np.full(shape, NOTHING, np.float32)


def inverse_norms(rows: Floats32) -> Floats32:
    """1 / |row| of each row; 0 for a row of zeros, which is then similar to nothing."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
