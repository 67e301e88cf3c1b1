"""The rows with the largest inner products: exact, in batches, without a matrix of scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robirank import _core
from robirank._threads import thread_count
from robirank._types import Floats32, Ints32
from robirank.data.user_items import Mask, UserItems

#: The score beside position −1, where fewer rows are left than were asked for.
NOTHING = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class PackedRows:
    """Rows, and a copy of them as the native kernels read them."""

    rows: Floats32
    packed: _core.PackedItems


@dataclass(frozen=True)
class Groups:
    """Groups of rows, of each of which the best few are enough.

    Attributes
    ----------
    of_row : int32 array of shape (m,)
        The group of each row; −1 for none.
    enough : int32 array
        For each group, a positive number. A row that has so many better rows of its group before
        it may be left out of an answer.
    """

    of_row: Ints32
    enough: Ints32

    def between(self, first: int, last: int) -> Groups:
        """The groups of the rows first:last."""
        return Groups(self.of_row[first:last], self.enough)


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
    allowed: Mask | None = None,
    scale: Floats32 | None = None,
    excluded: UserItems | None = None,
    only: UserItems | None = None,
    added: Floats32 | None = None,
    ranks: Ints32 | None = None,
    groups: Groups | None = None,
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
    allowed : bool array of shape (m,), optional
        The same as a mask; not together with ``candidates``.
    scale : float32 array of shape (m,), optional
        Multiply each row by this number first.
    excluded : UserItems, optional
        The positions that each query must not get.
    only : UserItems, optional
        The positions that each query may get, and no others; not together with ``candidates``.
    added : float32 array of shape (len(asked), m), optional
        What is added to the inner products.
    ranks : int32 array of shape (m,), optional
        Of equal scores the lower rank wins. Ranks differ.
    groups : Groups, optional
        What may be left out. A card leaves nothing out.
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
    if allowed is not None and (
        device != "cpu" or (only is None and _are_few(allowed, len(asked)))
    ):
        candidates, allowed = np.flatnonzero(allowed).astype(np.int32), None
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
            only=only,
            added=added,
            ranks=ranks,
        )
    packed = rows.packed if isinstance(rows, PackedRows) else None
    return _core.topk(
        users=queries,
        user_rows=asked,
        items=rows if packed is None else rows.rows,
        item_rows=candidates,
        item_scale=scale,
        allowed=None if allowed is None else np.packbits(allowed, bitorder="little"),
        excluded=None if excluded is None else (excluded.indptr, excluded.items),
        only=None if only is None else (only.indptr, only.items),
        added=added,
        ranks=ranks,
        groups=None if groups is None else (groups.of_row, groups.enough),
        packed=packed,
        wanted=n_best,
        num_threads=thread_count(num_threads),
    )


def _are_few(allowed: Mask, n_queries: int) -> bool:
    """Whether gathering the allowed rows costs less than multiplying all and dropping scores.

    Rows are gathered for each batch of queries, which has 512 at most. For one query it pays below
    a tenth of the rows, for a whole batch below three quarters; both were measured with 386,133
    rows of 64 columns.
    """
    n = min(n_queries, 512)
    return int(np.count_nonzero(allowed)) * (n + 160) < len(allowed) * (n + 16)


def merge_best(
    first: tuple[Ints32, Floats32],
    second: tuple[Ints32, Floats32],
    ranks: Ints32 | None = None,
) -> tuple[Ints32, Floats32]:
    """The best of two answers for the same queries; of equal scores the lower position wins.

    Or the lower rank, where positions have ``ranks``.
    """
    n = first[0].shape[1]
    positions = np.concatenate([first[0], second[0]], axis=1)
    scores = np.concatenate([first[1], second[1]], axis=1)
    best, scores = in_order(positions, scores, ranks)
    return best[:, :n], scores[:, :n]


def in_order(
    positions: Ints32, scores: Floats32, ranks: Ints32 | None = None
) -> tuple[Ints32, Floats32]:
    """Sort each row: the best score first, of equal ones the lower position or rank; −1 is last."""
    last = positions if ranks is None else ranks[positions]
    last = np.where(positions < 0, np.iinfo(np.int32).max, last)
    order = np.lexsort((last, -scores), axis=1)
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
