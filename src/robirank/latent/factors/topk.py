"""The best items of each user: exact, in blocks, without a matrix of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robirank import _core
from robirank._sparse import check_sparse, rows_are_sorted, sound_csr
from robirank._threads import thread_count
from robirank._types import Floats32, Ints32
from robirank.data.records import SparseRows

#: The score beside item −1, where a user has fewer items left than were asked for.
NOTHING = float(np.finfo(np.float32).min)


def liked_items(user_items: Any, n_users: int, n_items: int) -> SparseRows:
    """The items of users, out of a CSR matrix or `Interactions`; stored zeros count too."""
    if user_items is None:
        raise ValueError(
            "user_items is missing: give what the users have already, a CSR matrix or "
            "Interactions, or leave nothing out with filter_already_liked_items=False"
        )
    matrix: Any = getattr(user_items, "matrix", user_items)
    if getattr(matrix, "format", "") != "csr":
        raise ValueError(
            "user_items must be a CSR matrix or Interactions, one row for each user asked for; "
            f"got {type(user_items).__name__}"
        )
    if matrix.shape != (n_users, n_items):
        raise ValueError(
            f"user_items must have one row for each of the {n_users} users asked for and one "
            f"column for each of the {n_items} items; its shape is {matrix.shape}"
        )
    matrix = check_sparse("user_items", matrix)
    if not rows_are_sorted(matrix.indptr, matrix.indices):
        matrix = sound_csr("user_items", matrix).sorted_indices()
    return SparseRows(
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices[: matrix.indptr[-1]].astype(np.int32, copy=False),
        None,
    )


def top_rows(
    queries: Floats32,
    asked: Ints32,
    factors: Floats32,
    n_best: int,
    *,
    rows: Ints32 | None = None,
    scale: Floats32 | None = None,
    liked: SparseRows | None = None,
    num_threads: int = 0,
    device: str = "cpu",
) -> tuple[Ints32, Floats32]:
    r"""Find the rows of ``factors`` with the largest inner products with each query.

    Scores are made in tiles that stay in the processor's registers. A tile is compared with the
    n-th best score that its users have so far, and nearly always dropped; what is above goes to
    a buffer of about 2n entries a user. Memory beside the answer is a few megabytes a thread.

    A score is summed over the factors in order and in float32, so neither the number of threads
    nor the other queries of a call change its bits. Of equal scores the lower row wins.

    Parameters
    ----------
    queries : float32 array of shape (n, d)
    asked : int32 array
        Rows of ``queries`` to answer.
    factors : float32 array of shape (m, d)
    n_best : int
    rows : int32 array, optional
        Choose among these rows of ``factors`` only; in rising order.
    scale : float32 array of shape (m,), optional
        Multiply each row of ``factors`` first.
    liked : SparseRows, optional
        Rows that each query must not get.
    num_threads : int, default=0
        0: every core.
    device : "cpu" or "cuda"
        On a card scores have other roundings.

    Returns
    -------
    rows : int32 array of shape (len(asked), n_best)
        Best first; −1 where nothing is left.
    scores : float32 array of the same shape
        `NOTHING` where nothing is left.

    Examples
    --------
    >>> factors = np.array([[1, 0], [0, 1], [1, 1]], dtype=np.float32)
    >>> asked = np.array([1], dtype=np.int32)
    >>> rows, scores = top_rows(factors, asked, factors, 2)
    >>> rows.tolist(), scores.tolist()
    ([[1, 2]], [[1.0, 1.0]])
    """
    if n_best == 0:
        empty = (len(asked), 0)
        return np.empty(empty, np.int32), np.empty(empty, np.float32)
    if device != "cpu":
        from robirank.latent.factors import topk_on_card

        return topk_on_card.top_rows(
            queries, asked, factors, n_best, rows=rows, scale=scale, liked=liked
        )
    return _core.topk(
        users=queries,
        user_rows=asked,
        items=factors,
        item_rows=rows,
        item_scale=scale,
        excluded=None if liked is None else (liked.indptr, liked.items),
        wanted=n_best,
        n_threads=thread_count(num_threads),
    )


def merge_best(
    one: tuple[Ints32, Floats32], other: tuple[Ints32, Floats32]
) -> tuple[Ints32, Floats32]:
    """The best of two answers for the same queries; of equal scores the lower row wins."""
    n = one[0].shape[1]
    ids = np.concatenate([one[0], other[0]], axis=1)
    scores = np.concatenate([one[1], other[1]], axis=1)
    order = np.lexsort((np.where(ids < 0, np.iinfo(np.int32).max, ids), -scores), axis=1)[:, :n]
    ids, scores = np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1)
    return ids.astype(np.int32), scores


def no_rows(n_queries: int, n_best: int) -> tuple[Ints32, Floats32]:
    """The answer where nothing was found yet."""
    shape = (n_queries, n_best)
    return np.full(shape, -1, np.int32), np.full(shape, NOTHING, np.float32)


def inverse_norms(factors: Floats32) -> Floats32:
    """1 / |row| of each row; 0 for a row of zeros, which is then similar to nothing."""
    norms = np.sqrt(np.einsum("ij,ij->i", factors, factors))
    return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)


def rows_of(name: str, ids: ArrayLike, count: int, kind: str) -> Ints32:
    """Check an array of row numbers, such as item ids."""
    rows: NDArray[Any] = np.asarray(ids)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise IndexError(
            f"{name} must be a list of integers; got {rows.dtype} of shape {rows.shape}"
        )
    wrong = np.flatnonzero((rows < 0) | (rows >= count)) if rows.size else rows
    if wrong.size:
        raise IndexError(
            f"{name} must be {kind} of the model, 0 to {count - 1}; got {rows[wrong[0]]}"
        )
    return np.ascontiguousarray(rows, dtype=np.int32)
