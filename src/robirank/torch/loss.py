"""RoBiRank's loss as a function that PyTorch can differentiate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from robirank._checks import check_choice
from robirank._queries import Queries, group_queries
from robirank._types import Ints64
from robirank.errors import ArgumentError
from robirank.losses import RHOS, RhoName
from robirank.metrics._conventions import Gain
from robirank.objectives.listwise import Lists, Metric

_CELLS = 1 << 24  # pairs of a relevant item and another that are held in memory at once


def robirank_loss(
    scores: torch.Tensor,
    labels: torch.Tensor,
    qid: Any = None,
    *,
    mask: torch.Tensor | None = None,
    rho: RhoName = "log",
    metric: Metric = "ndcg",
    gain: Gain = "exp",
    num_threads: int = 0,
) -> torch.Tensor:
    r"""RoBiRank's loss of scores, the mean over lists, for ``backward()``.

    .. math::
        \frac{1}{|\mathcal{X}|} \sum_x c_x \sum_y v(W_{xy}) \,
        \rho\Big(\sum_{y' \ne y} \log_2\big(1 + 2^{s_{xy'} - s_{xy}}\big)\Big)

    Lists without a relevant item count for nothing, and are not counted; without any item at all
    the loss and its gradient are 0. On the CPU the native kernel computes loss and gradient at
    once; on another device both are computed there, a bounded number of pairs at a time, so memory
    does not grow with the square of a list's length.

    Parameters
    ----------
    scores : tensor of shape (n_rows,) or (n_lists, length)
        One finite score an item, of a floating-point type: rows with ``qid``, or padded lists.
    labels : tensor of the same shape
        Relevance labels, 0 for irrelevant; no gradient flows to them.
    qid : tensor or array-like of shape (n_rows,), optional
        The list that each row belongs to; rows of a list need not stand side by side. Without it
        all rows are one list.
    mask : bool tensor of shape (n_lists, length), optional
        For padded lists: True where there is an item. Without it no item is padding.
    rho, metric, gain
        As in `robirank.listwise_loss`.
    num_threads : int, default=0
        For the CPU; 0: every core; one for little work. The result does not depend on it.

    Returns
    -------
    tensor of shape ()
        float64 for scores in float64, else float32.

    Examples
    --------
    >>> import torch
    >>> from robirank.torch import robirank_loss
    >>> scores = torch.zeros(2, requires_grad=True)
    >>> loss = robirank_loss(scores, torch.tensor([1.0, 0.0]))
    >>> loss.backward()
    >>> round(loss.item(), 4), [round(g, 4) for g in scores.grad.tolist()]
    (1.0, [-0.3607, 0.3607])
    """
    check_choice("rho", rho, RHOS)
    if not scores.is_floating_point():
        raise TypeError(
            f"scores must be of a floating-point type, for a gradient to flow; got {scores.dtype}"
        )
    rows, flat_labels, queries = _rows(scores, labels, qid, mask)
    flat = scores.reshape(-1) if rows is None else scores.reshape(-1)[rows]
    if not len(flat):
        return _wide(flat).sum()
    lists = Lists.build(
        flat_labels,
        queries,
        metric=metric,
        gain=gain,
        rho=rho,
        num_threads=num_threads,
    )
    return loss_of_lists(flat, lists)


def loss_of_lists(scores: torch.Tensor, lists: Lists) -> torch.Tensor:
    """The loss of scores, one a row, for lists that are compiled already."""
    loss: torch.Tensor = _ListLoss.apply(scores, lists)
    return loss


def _rows(
    scores: torch.Tensor, labels: torch.Tensor, qid: Any, mask: torch.Tensor | None
) -> tuple[torch.Tensor | None, Any, Queries]:
    """The entries of the flat scores that are items (None: all), their labels, and their lists."""
    if scores.shape != labels.shape:
        raise ArgumentError(
            "labels",
            f"must have the shape of scores, {tuple(scores.shape)}; got {tuple(labels.shape)}",
        )
    flat_labels = labels.detach().cpu().to(torch.float64).numpy().ravel()
    if scores.ndim == 1:
        if mask is not None:
            raise ArgumentError("mask", "is for padded lists; scores of shape (n_rows,) take qid")
        ids = qid.detach().cpu().numpy() if isinstance(qid, torch.Tensor) else qid
        return None, flat_labels, group_queries(ids, len(flat_labels))
    if scores.ndim != 2:
        raise ArgumentError(
            "scores",
            f"must have the shape (n_rows,) or (n_lists, length); got {tuple(scores.shape)}",
        )
    if qid is not None:
        raise ArgumentError("qid", "is for scores of shape (n_rows,); padded lists take mask")
    if mask is None:
        mask = torch.ones(scores.shape, dtype=torch.bool)
    if mask.shape != scores.shape or mask.dtype != torch.bool:
        raise ArgumentError(
            "mask",
            f"must be a bool tensor of the shape of scores, {tuple(scores.shape)}; "
            f"got {mask.dtype} of shape {tuple(mask.shape)}",
        )
    sizes = mask.sum(dim=1).cpu().numpy()
    not_empty = np.flatnonzero(sizes)
    offsets = np.concatenate(([0], np.cumsum(sizes[not_empty]))).astype(np.int64)
    rows = mask.reshape(-1).nonzero()[:, 0]
    queries = Queries(not_empty, offsets, None)
    return rows.to(scores.device), flat_labels[rows.cpu().numpy()], queries


class _ListLoss(torch.autograd.Function):
    """The loss of lists for autograd: forward computes the gradient too, and backward scales it."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, lists: Lists) -> torch.Tensor:
        """Compute the loss, and keep the gradient."""
        if scores.device.type == "cpu":
            loss, gradient = _native(scores, lists)
        else:
            loss, gradient = _on_device(scores, lists)
        ctx.save_for_backward(gradient)
        ctx.dtype = scores.dtype
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Scale the gradient."""
        (gradient,) = ctx.saved_tensors
        return (upstream * gradient).to(ctx.dtype), None


def _wide(scores: torch.Tensor) -> torch.Tensor:
    """Scores in float32 or float64, whose range sums of them do not leave."""
    return scores if scores.dtype == torch.float64 else scores.float()


def _native(scores: torch.Tensor, lists: Lists) -> tuple[torch.Tensor, torch.Tensor]:
    wide = _wide(scores.detach())
    loss, gradient = lists(np.ascontiguousarray(wide.numpy()))
    return torch.tensor(loss, dtype=wide.dtype), torch.from_numpy(gradient).to(wide.dtype)


def _on_device(scores: torch.Tensor, lists: Lists) -> tuple[torch.Tensor, torch.Tensor]:
    """The same by tensors on the device of the scores, a few lists at a time.

    Lists are sorted by length, so that those that are padded together are about as long.
    """
    wide = _wide(scores.detach())
    if not torch.isfinite(wide).all():
        raise ArgumentError("scores", "must be finite; they contain NaN or infinity")
    rows = torch.as_tensor(lists.queries.rows(), device=wide.device)
    gradient = torch.zeros_like(wide)
    total = torch.zeros((), dtype=wide.dtype, device=wide.device)
    for numbers in _chunks(lists):
        total += _add_chunk(wide, rows, gradient, lists, numbers)
    return total, gradient


def _chunks(lists: Lists) -> list[Ints64]:
    """The numbers of the lists with relevant items, in chunks of at most `_CELLS` pairs."""
    sizes, relevant = lists.queries.sizes, np.diff(lists.starts)
    todo = np.flatnonzero((relevant > 0) & (sizes > 1))
    todo = todo[np.argsort(sizes[todo], kind="stable")]
    chunks: list[Ints64] = []
    begin = 0
    while begin < len(todo):
        end = begin + 1
        most = relevant[todo[begin]]
        while end < len(todo):
            most = max(most, relevant[todo[end]])
            if (end + 1 - begin) * most * sizes[todo[end]] > _CELLS:
                break
            end += 1
        chunks.append(todo[begin:end])
        begin = end
    return chunks


def _add_chunk(
    scores: torch.Tensor,
    rows: torch.Tensor,
    gradient: torch.Tensor,
    lists: Lists,
    numbers: Ints64,
) -> torch.Tensor:
    """Add the gradient of a chunk of lists, by their numbers, and return its loss.

    Relevant items are taken so many at a time that a single long list fits, too.
    """
    device = scores.device
    starts, offsets = lists.starts[:-1][numbers], lists.queries.offsets[:-1][numbers]
    n_items, n_relevant = lists.queries.sizes[numbers], np.diff(lists.starts)[numbers]
    item = np.arange(n_items.max())
    is_item = item < n_items[:, None]
    places = torch.as_tensor(offsets[:, None] + item * is_item, device=device)
    mask = torch.as_tensor(is_item, device=device)
    s = scores[rows[places]]
    by_score = torch.zeros_like(s)
    total = torch.zeros((), dtype=s.dtype, device=device)
    step = max(1, _CELLS // (len(numbers) * len(item)))
    for first in range(0, int(n_relevant.max()), step):
        number = first + np.arange(min(step, n_relevant.max() - first))
        is_relevant = number < n_relevant[:, None]
        term = starts[:, None] + number * is_relevant
        relevant = torch.as_tensor(lists.relevant[term].astype(np.int64), device=device)
        weight = torch.as_tensor(lists.weight[term] * is_relevant, dtype=s.dtype, device=device)
        total += _add_pairs(s, mask, relevant, weight, lists.rho, by_score)
    gradient.index_add_(0, rows[places[mask]], by_score[mask])
    return total


def _add_pairs(
    s: torch.Tensor,
    mask: torch.Tensor,
    relevant: torch.Tensor,
    weight: torch.Tensor,
    rho: RhoName,
    gradient: torch.Tensor,
) -> torch.Tensor:
    """Add the gradient of padded lists by their scores s, and return their loss.

    ``relevant`` has the places of relevant items; h_yj = 1 / (1 + 2^(s_y − s_j)). By hand, because
    autograd would read and write the pairs of items more than twice as often.
    """
    gap = (s[:, None, :] - s.gather(1, relevant)[:, :, None]) * math.log(2)
    other = mask[:, None, :].expand(gap.shape).clone()
    other.scatter_(2, relevant[:, :, None], value=False)
    t = (torch.nn.functional.softplus(gap) * other).sum(dim=2) / math.log(2)
    value, derivative = _rho(t, rho)
    h = torch.sigmoid(gap) * other
    rho_weight = weight * derivative
    gradient += torch.einsum("qy,qyj->qj", rho_weight, h)
    gradient.scatter_add_(1, relevant, -rho_weight * h.sum(dim=2))
    return (weight * value).sum()


def _rho(t: torch.Tensor, rho: RhoName) -> tuple[torch.Tensor, torch.Tensor]:
    """ρ and its derivative; see `robirank.losses`."""
    if rho == "log":
        return torch.log2(1 + t), 1 / ((1 + t) * math.log(2))
    if rho == "type2":
        root = torch.log2(2 + t)
        return 1 - 1 / root, 1 / (root**2 * (2 + t) * math.log(2))
    return t, torch.ones_like(t)
