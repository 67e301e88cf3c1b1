"""RoBiRank's loss as a function that PyTorch can differentiate."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from robirank._checks import check_choice
from robirank._queries import group_queries
from robirank.errors import ArgumentError
from robirank.losses import RHOS, RhoName
from robirank.metrics._conventions import Gain
from robirank.objectives.listwise import Lists, Metric


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
    the loss and its gradient are 0. The native kernel computes loss and gradient at once, on the
    CPU: the scores of another device are copied there, one number an item, and the gradient back.

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
        0: every core; one for little work. The result does not depend on it.

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
    if scores.shape != labels.shape:
        raise ArgumentError(
            "labels",
            f"must have the shape of scores, {tuple(scores.shape)}; got {tuple(labels.shape)}",
        )
    if scores.ndim != 1:
        scores, labels, qid = _rows(scores, labels, qid, mask)
    elif mask is not None:
        raise ArgumentError("mask", "is for padded lists; scores of shape (n_rows,) take qid")
    ids = qid.detach().cpu().numpy() if isinstance(qid, torch.Tensor) else qid
    queries = group_queries(ids, len(scores))
    if not len(scores):
        return _wide(scores).sum()
    lists = Lists.build(
        labels.detach().cpu().to(torch.float64).numpy(),
        queries,
        metric=metric,
        gain=gain,
        rho=rho,
        num_threads=num_threads,
    )
    return loss_of_lists(scores, lists)


def loss_of_lists(scores: torch.Tensor, lists: Lists) -> torch.Tensor:
    """The loss of scores, one a row, for lists that are compiled already."""
    loss: torch.Tensor = _ListLoss.apply(scores, lists)
    return loss


def _rows(
    scores: torch.Tensor, labels: torch.Tensor, qid: Any, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The scores and labels of the items of padded lists, and the list of each."""
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
    lists, places = mask.cpu().nonzero(as_tuple=True)
    return scores[lists, places], labels[lists, places], lists


class _ListLoss(torch.autograd.Function):
    """The loss of lists for autograd: forward computes the gradient too, and backward scales it."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, lists: Lists) -> torch.Tensor:
        """Compute the loss by the native kernel, and keep the gradient."""
        wide = _wide(scores.detach())
        loss, gradient = lists(np.ascontiguousarray(wide.cpu().numpy()))
        ctx.save_for_backward(torch.from_numpy(gradient).to(wide))
        ctx.dtype = scores.dtype
        return torch.tensor(loss, dtype=wide.dtype, device=wide.device)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Scale the gradient."""
        (gradient,) = ctx.saved_tensors
        return (upstream * gradient).to(ctx.dtype), None


def _wide(scores: torch.Tensor) -> torch.Tensor:
    """Convert half-precision scores to float32, because their sums could overflow."""
    return scores if scores.dtype == torch.float64 else scores.float()
