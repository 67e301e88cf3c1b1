"""The best items of each user on a device: exact, and without a matrix of scores.

A first visit to all scores, in half precision, counts them into bins, and says from which bin on
the best of each user lie. A second visit collects the items from one bin lower on, which is more
than rounding can move a score. Their scores are then computed in full precision and sorted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from robirank._types import Floats32, Ints32
from robirank.data.records import SparseRows
from robirank.latent.factors.topk import NOTHING, no_rows
from robirank.latent.gpu.block import Grid
from robirank.latent.gpu.device import cuda_device, device_errors, has_kernels
from robirank.latent.gpu.fused import count_scores
from robirank.latent.gpu.kernels import kernels_for
from robirank.latent.gpu.layout import KERNEL_BINS

_MOST_USERS = 1 << 14  # at a time
_CANDIDATES = 1 << 24  # at a time
_CELLS = 1 << 26  # scores at a time without kernels


def top_rows(
    queries: Floats32,
    asked: Ints32,
    factors: Floats32,
    n_best: int,
    *,
    rows: Ints32 | None = None,
    scale: Floats32 | None = None,
    liked: SparseRows | None = None,
    device: torch.device | None = None,
) -> tuple[Ints32, Floats32]:
    """As `robirank.latent.factors.topk.top_rows`, on the current card."""
    device = device or cuda_device()
    found, scores = no_rows(len(asked), n_best)
    n = min(n_best, len(factors) if rows is None else len(rows))
    if not n:
        return found, scores
    with device_errors("it looked for the best items"):
        V = torch.tensor(np.ascontiguousarray(factors, np.float32), device=device)
        if scale is not None:
            V *= torch.tensor(np.ascontiguousarray(scale, np.float32), device=device)[:, None]
        if rows is not None:
            V = V[torch.tensor(rows, device=device).long()]
        Q = torch.tensor(np.ascontiguousarray(queries[asked], np.float32), device=device)
        owned = _Owned.of(liked, len(asked), rows, device)
        size = _MOST_USERS
        best = _collected if has_kernels(V.shape[1], device) else _sorted
        for begin in range(0, len(Q), size):
            own = owned.of_queries(begin, min(begin + size, len(Q)))
            items, values = best(Q[begin : begin + size], V, n, own)
            found[begin : begin + size, :n] = items.cpu().numpy()
            scores[begin : begin + size, :n] = values.cpu().numpy()
    if rows is not None:
        found = np.where(found < 0, -1, rows[found])
    return found, scores


@dataclass(frozen=True)
class _Owned:
    """Pairs of a query and a row of V that must not come back: query · 2³² + row, rising."""

    keys: torch.Tensor
    counts: torch.Tensor

    @classmethod
    def of(
        cls, liked: SparseRows | None, n: int, rows: Ints32 | None, device: torch.device
    ) -> _Owned:
        if liked is None:
            nothing = torch.empty(0, dtype=torch.int64, device=device)
            return cls(nothing, torch.zeros(n, dtype=torch.int64, device=device))
        query = np.repeat(np.arange(n), liked.user_counts())
        items: Any = liked.items
        if rows is not None:
            place = np.minimum(np.searchsorted(rows, items), len(rows) - 1)
            there = rows[place] == items
            query, items = query[there], place[there]
        keys = torch.from_numpy((query.astype(np.int64) << 32) + items).to(device)
        return cls(keys, torch.bincount(keys >> 32, minlength=n))

    def of_queries(self, begin: int, end: int) -> _Owned:
        """Those of some queries, counted from the first."""
        edges = torch.tensor([begin << 32, end << 32], device=self.keys.device)
        first, last = torch.searchsorted(self.keys, edges).tolist()
        return _Owned(self.keys[first:last] - (begin << 32), self.counts[begin:end])

    def of_rows(self, chosen: torch.Tensor) -> _Owned:
        """Those of some queries, in rising order, which are counted anew."""
        place = torch.full_like(self.counts, -1)
        place[chosen] = torch.arange(len(chosen), device=chosen.device)
        rows = place[self.keys >> 32]
        keys = (rows << 32) + (self.keys & 0xFFFFFFFF)
        return _Owned(keys[rows >= 0], self.counts[chosen])

    def has(self, keys: torch.Tensor) -> torch.Tensor:
        """Which keys are among them."""
        if not len(self.keys):
            return torch.zeros(len(keys), dtype=torch.bool, device=keys.device)
        place = torch.searchsorted(self.keys, keys).clamp_max(len(self.keys) - 1)
        return self.keys[place] == keys


def _sorted(
    Q: torch.Tensor, V: torch.Tensor, n: int, owned: _Owned
) -> tuple[torch.Tensor, torch.Tensor]:
    """In plain PyTorch: all scores of a few queries, sorted."""
    size = max(1, _CELLS // len(V))
    parts = []
    for begin in range(0, len(Q), size):
        own = owned.of_queries(begin, min(begin + size, len(Q)))
        scores = Q[begin : begin + size] @ V.T
        scores[own.keys >> 32, own.keys & 0xFFFFFFFF] = -torch.inf
        values, items = torch.sort(scores, dim=1, descending=True, stable=True)
        parts.append(_or_nothing(items[:, :n].int(), values[:, :n]))
    items, values = (torch.cat(part) for part in zip(*parts, strict=True))
    return items, values


def _collected(
    Q: torch.Tensor, V: torch.Tensor, n: int, owned: _Owned
) -> tuple[torch.Tensor, torch.Tensor]:
    """By the kernels."""
    kernels = kernels_for(V.shape[1], V.device.index or 0)
    u = kernels.halves(_unit_rows(Q)[None])
    v = kernels.halves(_at_most_one(V)[None], of_items=True)
    ones = torch.full((len(Q),), 1.002, device=Q.device)
    scales = Grid.between(-ones, ones).scales()
    counts = count_scores(kernels, u, v, (1, len(Q), len(V)), scales)[0][0]
    above = counts.flip(1).cumsum(1).flip(1)  # items of a bin and all above it
    needed = (owned.counts + n).clamp_max(len(V))
    least = ((above >= needed[:, None]).sum(1) - 2).clamp_min(0)
    totals = above.gather(1, least[:, None])[:, 0]
    bound = least.int()
    many = (totals > max(len(V) // 4, 4 * n)).nonzero()[:, 0]  # such as a query of zeros
    totals[many], bound[many] = 0, KERNEL_BINS
    ends = totals.cumsum(0)
    items = torch.empty((len(Q), n), dtype=torch.int32, device=Q.device)
    values = torch.empty((len(Q), n), device=Q.device)
    for first, last in _stretches(ends):
        some = slice(first, last)
        cursor = (ends - totals)[some]
        cursor = (cursor - cursor[0]).int()
        found = torch.empty(int(totals[some].sum()), dtype=torch.int32, device=Q.device)
        rows = torch.repeat_interleave(
            torch.arange(last - first, device=Q.device), totals[some], output_size=len(found)
        )
        tiles, ranges, size = kernels.ranges(last - first, len(V))
        kernels.launch(
            "collect_scores",
            (tiles, ranges, 1),
            *(u[0, some], v, scales[some], bound[some], last - first, len(V), size, cursor, found),
        )
        own = owned.of_queries(first, last)
        items[some], values[some] = _best_of(Q[some], V, rows, found, n, own)
    if len(many):
        items[many], values[many] = _sorted(Q[many], V, n, owned.of_rows(many))
    return items, values


def _best_of(
    Q: torch.Tensor, V: torch.Tensor, rows: torch.Tensor, found: torch.Tensor, n: int, owned: _Owned
) -> tuple[torch.Tensor, torch.Tensor]:
    """The best n of each query's candidates; of equal scores the lower row wins."""
    keys = torch.sort((rows << 32) + found).values
    keys = keys[~owned.has(keys)]
    rows, found = keys >> 32, (keys & 0xFFFFFFFF).int()
    scores = torch.empty(len(keys), device=Q.device)
    kernels = kernels_for(V.shape[1], V.device.index or 0)
    if len(keys):
        pairs = (rows, found, len(keys), V.shape[1], scores)
        kernels.launch("score_pairs", (-(-len(keys) // 8), 1, 1), Q, V, *pairs, threads=256)
    order = torch.sort((rows << 32) + _falling(scores), stable=True).indices
    starts = torch.searchsorted(rows, torch.arange(len(Q), device=Q.device))
    place = torch.arange(len(rows), device=Q.device) - starts[rows]
    kept = place < n
    items = torch.full((len(Q), n), -1, dtype=torch.int32, device=Q.device)
    values = torch.full((len(Q), n), -torch.inf, device=Q.device)
    items[rows[kept], place[kept]] = found[order[kept]]
    values[rows[kept], place[kept]] = scores[order[kept]]
    return _or_nothing(items, values)


def _falling(scores: torch.Tensor) -> torch.Tensor:
    """Numbers from 0 to 2³² − 1 that fall as scores rise."""
    bits = (scores + 0.0).view(torch.int32).long()  # −0 becomes 0
    rising = torch.where(bits >= 0, bits + 2**31, -1 - bits)
    return 2**32 - 1 - rising


def _or_nothing(items: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    missing = values == -torch.inf
    return items.masked_fill(missing, -1), values.masked_fill(missing, NOTHING)


def _unit_rows(rows: torch.Tensor) -> torch.Tensor:
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / torch.where(length > 0, length, 1.0)


def _at_most_one(rows: torch.Tensor) -> torch.Tensor:
    longest = torch.linalg.vector_norm(rows, dim=1).max()
    return rows / torch.where(longest > 0, longest, 1.0)


def _stretches(ends: torch.Tensor) -> list[tuple[int, int]]:
    """Queries cut into stretches with at most about so many candidates each."""
    totals = ends.cpu().numpy()
    stretches, first = [], 0
    while first < len(totals):
        before = totals[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(totals, before + _CANDIDATES, side="right")))
        stretches.append((first, last))
        first = last
    return stretches
