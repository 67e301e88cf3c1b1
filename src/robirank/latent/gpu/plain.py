r"""The steps of the exact solver in plain PyTorch: the reference of the kernels, on any device.

With the scores s of a user's items, the loss and its gradient are

.. math::
    \sum_y w_y ρ(t_y), \quad t_y = \sum_{j ≠ y} \log_2(1 + 2^{s_j - s_y}), \qquad
    g_j = \sum_y w_y ρ'(t_y) h(s_j - s_y), \quad h(z) = 1 / (1 + 2^{-z})

and a relevant item y gets :math:`-w_y ρ'(t_y) \sum_j h(s_j - s_y)` beside it. Both sums are
functions of one number, a score. Scores are counted into bins, each with the mean of its scores;
sums over items become sums over bins, and :math:`g` becomes a straight line in every bin.
"""

from __future__ import annotations

import torch

from robirank.latent.gpu.batch import (
    PLAIN_BINS,
    AdamState,
    AdamStep,
    BatchInteractions,
    Gradients,
    Grid,
    score_bound,
    stacked,
)
from robirank.losses import RhoName

_LOG2_E = 1.4426950408889634
_CELLS = 1 << 24  # numbers of an interaction and a bin, or of an interaction and an item, at a time


def gradients(
    U: torch.Tensor, V: torch.Tensor, interactions: BatchInteractions, rho: RhoName
) -> Gradients:
    """Losses of a batch of users, and the gradient by their factors and by all items'."""
    scores = U @ V.T
    losses, by_score = score_gradients(scores, interactions, rho, reach=score_bound(U, V))
    return from_scores(losses, by_score, V)


def gradients_of_all(
    U: torch.Tensor, V: torch.Tensor, interactions: BatchInteractions, rho: RhoName
) -> Gradients:
    """The `gradients` of several models with the same interactions, models along the first axis."""
    return stacked([gradients(u, v, interactions, rho) for u, v in zip(U, V, strict=True)])


def from_scores(losses: torch.Tensor, by_score: torch.Tensor, V: torch.Tensor) -> Gradients:
    """Gradients by rows, from those by scores."""
    return Gradients(losses, by_score @ V, lambda rows: by_score.T @ rows)


def score_gradients(
    scores: torch.Tensor, interactions: BatchInteractions, rho: RhoName, reach: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of each interaction, and the gradient by the scores of a batch."""
    rows, items = interactions.rows.long(), interactions.items.long()
    points = scores[rows, items]
    grid = Grid.around(points, interactions, reach, scores.shape[1])
    losses, by_score = _on_grid(scores, points, interactions, grid, rho)
    wide = grid.wide.nonzero()[:, 0]
    if len(wide):
        among = grid.wide[rows]
        losses[among], by_score[wide] = direct_score_gradients(
            scores[wide], interactions.of_rows(wide), rho
        )
    return losses, by_score


def adam(V: torch.Tensor, gradient: torch.Tensor, state: AdamState, step: AdamStep) -> None:
    """One step of Adam on V, in place; the gradient of the penalty is added."""
    gradient.addcmul_(state.penalty[..., None], V, value=step.share)
    state.first.lerp_(gradient, 1.0 - step.b1)
    state.second.mul_(step.b2).addcmul_(gradient, gradient, value=1.0 - step.b2)
    length = (state.second * step.correction).sqrt_().add_(1e-8)
    V.addcdiv_(state.first, length, value=-step.rate)


def rho_at(t: torch.Tensor, rho: RhoName) -> tuple[torch.Tensor, torch.Tensor]:
    """ρ(t) and ρ'(t)."""
    if rho == "identity":
        return t, torch.ones_like(t)
    if rho == "log":
        return torch.log2(1 + t), _LOG2_E / (1 + t)
    log = torch.log2(2 + t)
    return 1 - 1 / log, _LOG2_E / ((t + 2) * log**2)


def direct_score_gradients(
    scores: torch.Tensor, interactions: BatchInteractions, rho: RhoName
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same as `score_gradients`, a pair of a relevant item and another at a time."""
    by_score, losses = torch.zeros_like(scores), torch.empty_like(interactions.weights)
    rows, items = interactions.rows.long(), interactions.items.long()
    n, size = len(items), max(1, _CELLS // scores.shape[1])
    for first in range(0, n, size):
        chunk = slice(first, min(first + size, n))
        number = torch.arange(chunk.stop - first, device=scores.device)
        gaps = scores[rows[chunk]] - scores[rows[chunk], items[chunk]][:, None]
        gaps[number, items[chunk]] = -torch.inf
        value, prime = rho_at(_log2_sum(gaps).sum(1), rho)
        losses[chunk] = interactions.weights[chunk] * value
        of_pairs = (interactions.weights[chunk] * prime)[:, None] * _logistic(gaps)
        of_pairs[number, items[chunk]] = -of_pairs.sum(1)
        low, high = int(rows[first]), int(rows[chunk.stop - 1]) + 1
        ends = (interactions.starts[low : high + 1] - first).clamp(0, len(number))
        by_score[low:high] += torch.segment_reduce(of_pairs, "sum", offsets=ends, axis=0)
    return losses, by_score


def _on_grid(
    scores: torch.Tensor,
    points: torch.Tensor,
    interactions: BatchInteractions,
    grid: Grid,
    rho: RhoName,
) -> tuple[torch.Tensor, torch.Tensor]:
    rows = interactions.rows.long()
    place = scores * grid.bins[:, None] + grid.shift[:, None]
    excess = ((place - PLAIN_BINS).clamp_min(0).sum(1) / grid.bins)[rows]
    place = torch.nan_to_num(place.clamp(0, PLAIN_BINS - 2.0**-10))  # the loop reports divergence
    bins = place.floor()
    counts, middles = _count(place, bins.long(), grid)
    losses, of_relevant = torch.empty_like(points), torch.empty_like(points)
    nodes = torch.arange(PLAIN_BINS + 1, device=scores.device, dtype=scores.dtype)
    at = (nodes - grid.shift[:, None]) / grid.bins[:, None]
    table = torch.zeros_like(at)
    for chunk in torch.arange(len(points), device=points.device).split(_CELLS // PLAIN_BINS):
        gaps = middles[rows[chunk]] - points[chunk, None]
        amount = counts[rows[chunk]]
        t = ((amount * _log2_sum(gaps)).sum(1) - 1).clamp_min(0) + excess[chunk]
        value, prime = rho_at(t, rho)
        losses[chunk] = interactions.weights[chunk] * value
        first = interactions.weights[chunk] * prime
        of_relevant[chunk] = first * (amount * _logistic(gaps)).sum(1)
        from_point = _logistic(at[rows[chunk]] - points[chunk, None])
        table.index_add_(0, rows[chunk], first[:, None] * from_point)
    low = table.gather(1, bins.long())
    by_score = low + (place - bins) * (table.gather(1, bins.long() + 1) - low)
    by_score[rows, interactions.items.long()] -= of_relevant
    return losses, by_score


def _count(
    place: torch.Tensor, bins: torch.Tensor, grid: Grid
) -> tuple[torch.Tensor, torch.Tensor]:
    """How many scores each bin has, and their mean."""
    shape = len(place), PLAIN_BINS
    counts = torch.zeros(shape, dtype=place.dtype, device=place.device)
    sums = torch.zeros_like(counts)
    counts.scatter_add_(1, bins, torch.ones_like(place))
    sums.scatter_add_(1, bins, place)
    return counts, (sums / counts.clamp_min(1) - grid.shift[:, None]) / grid.bins[:, None]


def _log2_sum(z: torch.Tensor) -> torch.Tensor:
    """log2(1 + 2^z)."""
    return z.clamp_min(0) + torch.log1p(torch.exp2(-z.abs())) * _LOG2_E


def _logistic(z: torch.Tensor) -> torch.Tensor:
    """1 / (1 + 2^−z)."""
    return torch.sigmoid(z / _LOG2_E)
