"""Other listwise losses for the network of RoBiRankNet, for ``benchmarks/boosters.py``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from robirank import RoBiRankNet


def padded(values: torch.Tensor, sizes: np.ndarray, fill: float) -> torch.Tensor:
    """Rows that come list by list, as a matrix with one list a row."""
    width = int(sizes.max())
    there = torch.as_tensor(np.arange(width) < sizes[:, None])
    out = values.new_full(there.shape, fill)
    return out.masked_scatter(there, values)


class ListNetNet(RoBiRankNet):
    """The cross entropy of the first place: softmax of labels against softmax of scores."""

    def _batch_loss(self, y: Any, queries: Any) -> Any:
        def loss(scores: torch.Tensor, chosen: np.ndarray) -> torch.Tensor:
            some = queries.take(chosen)
            labels = torch.as_tensor(y[some.rows()], dtype=scores.dtype)
            target = torch.softmax(padded(labels, some.sizes, -math.inf), dim=1)
            found = torch.log_softmax(padded(scores, some.sizes, -1e30), dim=1)
            return -(target * found).sum(dim=1).mean()

        return loss


class LambdaLossNet(RoBiRankNet):
    """LambdaLoss: NDCG-Loss2, logistic losses of pairs, weighted by gains and present ranks."""

    def _batch_loss(self, y: Any, queries: Any) -> Any:
        def loss(scores: torch.Tensor, chosen: np.ndarray) -> torch.Tensor:
            some = queries.take(chosen)
            labels = torch.as_tensor(y[some.rows()], dtype=scores.dtype)
            return lambda_loss(padded(scores, some.sizes, -1e30), padded(labels, some.sizes, -1.0))

        return loss


def lambda_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """NDCG-Loss2 of padded lists, where the label of padding is −1."""
    rank = scores.detach().argsort(dim=1, descending=True).argsort(dim=1) + 1
    gain = torch.where(labels > 0, 2**labels - 1, 0)
    best = gain.sort(dim=1, descending=True).values
    places = torch.arange(1, scores.shape[1] + 1)
    ideal = (best / torch.log2(1 + places)).sum(dim=1).clamp(min=1e-9)
    distance = (rank[:, :, None] - rank[:, None, :]).abs()
    inside = distance.clamp(min=1)
    drop = 1 / torch.log2(1 + inside) - 1 / torch.log2(2 + inside)
    weight = drop * (gain[:, :, None] - gain[:, None, :]).abs() / ideal[:, None, None]
    better = (labels[:, :, None] > labels[:, None, :]) & (labels[:, None, :] >= 0)
    gap = torch.where(better, scores[:, :, None] - scores[:, None, :], 0)
    pair = torch.nn.functional.softplus(-gap) / math.log(2)
    return (weight * pair * better).sum(dim=(1, 2)).mean()
