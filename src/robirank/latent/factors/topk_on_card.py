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
from robirank.data.user_items import UserItems
from robirank.latent.factors.plain_search import best_by, masked
from robirank.latent.factors.topk import NOTHING, no_rows
from robirank.latent.gpu.batch import Grid
from robirank.latent.gpu.device import cuda_device, device_errors, has_kernels
from robirank.latent.gpu.fused import count_scores
from robirank.latent.gpu.kernels import kernels_for
from robirank.latent.gpu.layout import KERNEL_BINS

_MOST_USERS = 1 << 14  # at a time
_CANDIDATES = 1 << 24  # at a time
_CELLS = 1 << 26  # scores at a time without kernels


@dataclass(frozen=True)
class CardRows:
    """Rows on a card, with what every search by the kernels needs of them.

    Attributes
    ----------
    rows : float32 tensor of shape (n, d)
    halves : tensor or None
        The rows in half precision, none longer than one, as the kernels read them; None where
        there are no kernels.
    """

    rows: torch.Tensor
    halves: torch.Tensor | None

    @classmethod
    def of(cls, rows: Any, device: torch.device | None = None) -> CardRows:
        """Upload rows once; a tensor that is there already is not copied."""
        device = device or cuda_device()
        with device_errors("the factors were copied to it"):
            return cls.of_tensor(_tensor(rows, device))

    @classmethod
    def of_tensor(cls, rows: torch.Tensor) -> CardRows:
        """Prepare rows that are on the card."""
        if not has_kernels(rows.shape[1], rows.device) or not len(rows):
            return cls(rows, None)
        kernels = kernels_for(rows.shape[1], rows.device.index or 0)
        return cls(rows, kernels.halves(_at_most_one(rows)[None], of_items=True))

    def chosen(self, candidates: Ints32 | None, scale: Floats32 | None) -> CardRows:
        """Some of the rows, scaled."""
        if candidates is None and scale is None:
            return self
        rows = self.rows
        if scale is not None:
            rows = rows * _tensor(scale, rows.device)[:, None]
        if candidates is not None:
            rows = rows[torch.tensor(candidates, device=rows.device).long()]
        return CardRows.of_tensor(rows)


def _tensor(array: Any, device: torch.device) -> torch.Tensor:
    """A float32 tensor on a device; rows that are there already are shared."""
    if isinstance(array, torch.Tensor):
        return array.to(device, torch.float32)
    return torch.tensor(np.ascontiguousarray(array, np.float32), device=device)


def _taken(matrix: Any, positions: Ints32) -> Any:
    if isinstance(matrix, torch.Tensor):
        return matrix[torch.from_numpy(positions).long().to(matrix.device)]
    return matrix[positions]


def top_rows(
    queries: Any,
    asked: Ints32,
    rows: Any,
    n_best: int,
    *,
    candidates: Ints32 | None = None,
    scale: Floats32 | None = None,
    excluded: UserItems | None = None,
    only: UserItems | None = None,
    added: Floats32 | None = None,
    ranks: Ints32 | None = None,
    device: torch.device | None = None,
) -> tuple[Ints32, Floats32]:
    """As `robirank.latent.factors.topk.top_rows`, on the current card."""
    device = device or cuda_device()
    prepared = rows if isinstance(rows, CardRows) else CardRows.of(rows, device)
    if only is None and ranks is None:
        return _top_rows(
            queries, asked, prepared, n_best, candidates, scale, excluded, added, device
        )

    def search(places: Any, n: int) -> tuple[Ints32, Floats32]:
        without = None if excluded is None else excluded.rows(places)
        sums = masked(added, only, places)
        return _top_rows(
            queries, asked[places], prepared, n, candidates, scale, without, sums, device
        )

    return best_by(search, len(asked), n_best, len(prepared.rows), ranks)


def _top_rows(
    queries: Any,
    asked: Ints32,
    prepared: CardRows,
    n_best: int,
    candidates: Ints32 | None,
    scale: Floats32 | None,
    excluded: UserItems | None,
    added: Floats32 | None,
    device: torch.device,
) -> tuple[Ints32, Floats32]:
    """The best rows, of equal scores the lower position first."""
    best, scores = no_rows(len(asked), n_best)
    n_rows = len(prepared.rows)
    n = min(n_best, n_rows if candidates is None else len(candidates))
    if not n:
        return best, scores
    with device_errors("it looked for the best items"):
        V = prepared.chosen(candidates, scale)
        Q = _tensor(_taken(queries, asked), device)
        pairs = _Pairs.of(excluded, len(asked), candidates, device)
        sums = None if added is None else _tensor(added, device)
        if sums is not None and candidates is not None:
            sums = sums[:, torch.from_numpy(candidates).long().to(device)]
        for begin in range(0, len(Q), _MOST_USERS):
            batch = slice(begin, min(begin + _MOST_USERS, len(Q)))
            without = pairs.of_queries(batch.start, batch.stop)
            if sums is not None:
                positions, values = _sorted(Q[batch], V, n, without, sums[batch])
            elif V.halves is None:
                positions, values = _sorted(Q[batch], V, n, without)
            else:
                positions, values = _collected(Q[batch], V, n, without)
            best[batch, :n] = positions.cpu().numpy()
            scores[batch, :n] = values.cpu().numpy()
    if candidates is not None:
        best = np.where(best < 0, -1, candidates[best])
    return best, scores


@dataclass(frozen=True)
class _Pairs:
    """Pairs of a query and a row of V that must not come back: query · 2³² + row, rising."""

    keys: torch.Tensor
    counts: torch.Tensor

    @classmethod
    def of(
        cls, excluded: UserItems | None, n: int, candidates: Ints32 | None, device: torch.device
    ) -> _Pairs:
        if excluded is None:
            nothing = torch.empty(0, dtype=torch.int64, device=device)
            return cls(nothing, torch.zeros(n, dtype=torch.int64, device=device))
        query = np.repeat(np.arange(n), excluded.user_counts())
        items: Any = excluded.items
        if candidates is not None:
            place = np.minimum(np.searchsorted(candidates, items), len(candidates) - 1)
            is_candidate = candidates[place] == items
            query, items = query[is_candidate], place[is_candidate]
        keys = torch.from_numpy((query.astype(np.int64) << 32) + items).to(device)
        return cls(keys, torch.bincount(keys >> 32, minlength=n))

    def of_queries(self, begin: int, end: int) -> _Pairs:
        """The pairs of the queries begin:end, counted from the first of them."""
        edges = torch.tensor([begin << 32, end << 32], device=self.keys.device)
        first, last = torch.searchsorted(self.keys, edges).tolist()
        return _Pairs(self.keys[first:last] - (begin << 32), self.counts[begin:end])

    def of_chosen(self, queries: torch.Tensor) -> _Pairs:
        """The pairs of some queries, in rising order, which are numbered anew."""
        number = torch.full_like(self.counts, -1)
        number[queries] = torch.arange(len(queries), device=queries.device)
        numbers = number[self.keys >> 32]
        keys = (numbers << 32) + (self.keys & 0xFFFFFFFF)
        return _Pairs(keys[numbers >= 0], self.counts[queries])

    def contain(self, keys: torch.Tensor) -> torch.Tensor:
        """Which of some keys are among the pairs."""
        if not len(self.keys):
            return torch.zeros(len(keys), dtype=torch.bool, device=keys.device)
        place = torch.searchsorted(self.keys, keys).clamp_max(len(self.keys) - 1)
        return self.keys[place] == keys


def _sorted(
    Q: torch.Tensor, V: CardRows, n: int, excluded: _Pairs, added: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The best rows by plain PyTorch: all scores of a few queries, sorted."""
    size = max(1, _CELLS // len(V.rows))
    answers = []
    for begin in range(0, len(Q), size):
        pairs = excluded.of_queries(begin, min(begin + size, len(Q)))
        scores = Q[begin : begin + size] @ V.rows.T
        if added is not None:
            scores += added[begin : begin + size]
        scores[pairs.keys >> 32, pairs.keys & 0xFFFFFFFF] = -torch.inf
        values, positions = torch.sort(scores, dim=1, descending=True, stable=True)
        answers.append(_or_nothing(positions[:, :n].int(), values[:, :n]))
    positions, values = (torch.cat(part) for part in zip(*answers, strict=True))
    return positions, values


def _collected(
    Q: torch.Tensor, V: CardRows, n: int, excluded: _Pairs
) -> tuple[torch.Tensor, torch.Tensor]:
    """The best rows by the kernels."""
    n_rows = len(V.rows)
    kernels = kernels_for(V.rows.shape[1], V.rows.device.index or 0)
    u, v = kernels.halves(_unit_rows(Q)[None]), V.halves
    ones = torch.full((len(Q),), 1.002, device=Q.device)  # products of half precision round up
    scales = Grid.between(-ones, ones).scales()
    counts = count_scores(kernels, u, v, (1, len(Q), n_rows), scales)[0][0]
    above = counts.flip(1).cumsum(1).flip(1)  # rows of a bin and all above it
    needed = (excluded.counts + n).clamp_max(n_rows)
    lowest = ((above >= needed[:, None]).sum(1) - 2).clamp_min(0)
    totals = above.gather(1, lowest[:, None])[:, 0]
    bound = lowest.int()
    many = (totals > max(n_rows // 4, 4 * n)).nonzero()[:, 0]  # such as a query of zeros
    totals[many], bound[many] = 0, KERNEL_BINS
    ends = totals.cumsum(0)
    best = torch.empty((len(Q), n), dtype=torch.int32, device=Q.device)
    values = torch.empty((len(Q), n), device=Q.device)
    for first, last in _batches(ends):
        batch = slice(first, last)
        cursor = (ends - totals)[batch]
        cursor = (cursor - cursor[0]).int()
        collected = torch.empty(int(totals[batch].sum()), dtype=torch.int32, device=Q.device)
        query = torch.repeat_interleave(
            torch.arange(last - first, device=Q.device), totals[batch], output_size=len(collected)
        )
        tiles, ranges, size = kernels.ranges(last - first, n_rows)
        kernels.launch(
            "collect_scores",
            (tiles, ranges, 1),
            *(u[0, batch], v, scales[batch], bound[batch]),
            *(last - first, n_rows, size, cursor, collected),
        )
        keys = torch.sort((query << 32) + collected).values
        keys = keys[~excluded.of_queries(first, last).contain(keys)]
        best[batch], values[batch] = _best_of(Q[batch], V.rows, keys, n)
    if len(many):
        best[many], values[many] = _sorted(Q[many], V, n, excluded.of_chosen(many))
    return best, values


def _best_of(
    Q: torch.Tensor, V: torch.Tensor, keys: torch.Tensor, n: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The best n of the rows collected for each query; of equal scores the lower position wins.

    ``keys`` are pairs of a query and a row, as in `_Pairs`.
    """
    query, row = keys >> 32, (keys & 0xFFFFFFFF).int()
    scores = torch.empty(len(keys), device=Q.device)
    if len(keys):
        kernels = kernels_for(V.shape[1], V.device.index or 0)
        pairs = (query, row, len(keys), V.shape[1], scores)
        kernels.launch("score_pairs", (-(-len(keys) // 8), 1, 1), Q, V, *pairs, threads=256)
    order = torch.sort((query << 32) + _falling(scores), stable=True).indices
    starts = torch.searchsorted(query, torch.arange(len(Q), device=Q.device))
    rank = torch.arange(len(query), device=Q.device) - starts[query]
    is_top = rank < n
    best = torch.full((len(Q), n), -1, dtype=torch.int32, device=Q.device)
    values = torch.full((len(Q), n), -torch.inf, device=Q.device)
    best[query[is_top], rank[is_top]] = row[order[is_top]]
    values[query[is_top], rank[is_top]] = scores[order[is_top]]
    return _or_nothing(best, values)


def _falling(scores: torch.Tensor) -> torch.Tensor:
    """Numbers from 0 to 2³² − 1 that fall as scores rise."""
    bits = (scores + 0.0).view(torch.int32).long()  # −0 becomes 0
    rising = torch.where(bits >= 0, bits + 2**31, -1 - bits)
    return 2**32 - 1 - rising


def _or_nothing(positions: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    missing = values == -torch.inf
    return positions.masked_fill(missing, -1), values.masked_fill(missing, NOTHING)


def _unit_rows(rows: torch.Tensor) -> torch.Tensor:
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / torch.where(length > 0, length, 1.0)


def _at_most_one(rows: torch.Tensor) -> torch.Tensor:
    longest = torch.linalg.vector_norm(rows, dim=1).max()
    return rows / torch.where(longest > 0, longest, 1.0)


def _batches(ends: torch.Tensor) -> list[tuple[int, int]]:
    """Queries cut into batches of at most about `_CANDIDATES` collected rows each.

    ``ends`` are the running totals of the rows that are collected for the queries.
    """
    totals = ends.cpu().numpy()
    batches, first = [], 0
    while first < len(totals):
        before = totals[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(totals, before + _CANDIDATES, side="right")))
        batches.append((first, last))
        first = last
    return batches
