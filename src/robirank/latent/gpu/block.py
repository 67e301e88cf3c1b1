"""A block of users on a device: their records, and the grid on which their scores are counted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from robirank._types import Ints64
from robirank.data.records import Records
from robirank.latent.gpu.device import free_memory
from robirank.latent.gpu.kernels import Kernels

#: Bins of a user's grid of scores in plain PyTorch.
PLAIN_BINS = 512
#: Scores that spread over more than this are not counted but summed one by one.
MOST_WIDTH = 128.0

_RECORDS_SHARE = 0.25  # of the free memory, for records
_STRETCH = 1 << 22  # records that are taken and sorted at a time
FAR = 13.0  # beyond log2(items): so far below, all items together are nothing beside one
_LEAST_WIDTH = 2.0**-10


class BlockRecords(NamedTuple):
    """The records of a block of users on a device.

    Attributes
    ----------
    starts : int64 tensor
        The records of row r are ``starts[r]:starts[r + 1]``.
    rows, items : int32 tensors
        The row of the block and the item of each record; rows rise.
    weights : float32 tensor
    by_item : int64 tensor or None
        The records in the order of their items, and of their rows where these are the same.
    """

    starts: torch.Tensor
    rows: torch.Tensor
    items: torch.Tensor
    weights: torch.Tensor
    by_item: torch.Tensor | None = None

    @classmethod
    def of_users(cls, records: Records, users: Ints64, device: torch.device) -> BlockRecords:
        """Copy the records of some users to a device."""
        starts, items, weights = records.of_users(users)
        rows = np.repeat(np.arange(len(users), dtype=np.int32), np.diff(starts))
        to = [starts, rows, items, weights.astype(np.float32)]
        return cls(*(torch.from_numpy(array).to(device) for array in to))

    def of_rows(self, chosen: torch.Tensor) -> BlockRecords:
        """The records of some rows, which are counted anew."""
        place = torch.full((len(self.starts) - 1,), -1, dtype=torch.int32, device=chosen.device)
        place[chosen] = torch.arange(len(chosen), dtype=torch.int32, device=chosen.device)
        rows = place[self.rows.long()]
        kept = rows >= 0
        counts = torch.bincount(rows[kept], minlength=len(chosen))
        starts = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        return BlockRecords(starts, rows[kept], self.items[kept], self.weights[kept])


class Block(NamedTuple):
    """Users of a step: their numbers, the same on the device, and their records."""

    users: Ints64
    places: torch.Tensor
    records: BlockRecords


class DeviceRecords:
    """All records, on the card where they fit; blocks of them are taken there.

    Parameters
    ----------
    records : Records
    device : torch.device
    kernels : Kernels or None
        Without them, records stay on the host.
    """

    def __init__(self, records: Records, device: torch.device, kernels: Kernels | None) -> None:
        self._records, self._device, self._kernels = records, device, kernels
        self._fits = kernels is not None and (
            8 * records.n_records < _RECORDS_SHARE * free_memory(device)
        )
        if self._fits:
            self._begins = torch.from_numpy(records.indptr).to(device)
            self._items = torch.from_numpy(records.items).to(device)
            weight = records.weight
            self._weights = None if weight is None else torch.from_numpy(weight).to(device)

    def blocks(self, order: Ints64, size: int) -> Iterator[Block]:
        """Users in blocks of their order, and within a block in their own, with their records."""
        if not len(order):
            return
        cuts = range(0, len(order), size)
        users = np.concatenate([np.sort(order[cut : cut + size]) for cut in cuts])
        places = torch.from_numpy(users).to(self._device)
        counts = self._records.indptr[users + 1] - self._records.indptr[users]
        if self._kernels is None or not self._fits:
            for cut in cuts:
                some = slice(cut, cut + size)
                records = BlockRecords.of_users(self._records, users[some], self._device)
                yield Block(users[some], places[some], records)
            return
        for first, last in _stretches(np.add.reduceat(counts, cuts)):
            some = slice(first * size, last * size)
            taken = self._take(self._kernels, places[some], counts[some], size)
            for number, own in zip(range(first, last), taken, strict=True):
                at = slice(number * size, (number + 1) * size)
                yield Block(users[at], places[at], own)

    def _take(
        self, kernels: Kernels, places: torch.Tensor, counts: Ints64, size: int
    ) -> list[BlockRecords]:
        """The records of blocks of users, taken and sorted together."""
        cuts = range(0, len(counts), size)
        ends = np.concatenate([[0], np.cumsum(counts)])
        own = [ends[cut : cut + size + 1] for cut in cuts]
        begins = np.array([part[0] for part in own])
        n = int(ends[-1])
        starts = np.concatenate([ends, *(part - part[0] for part in own), begins])
        on_card = torch.from_numpy(starts).to(self._device)
        rows, items = torch.empty((2, n), dtype=torch.int32, device=self._device)
        weights = torch.empty(n, device=self._device)
        kernels.launch(
            "take_records",
            (len(places), 1, 1),
            *(places, on_card[: len(ends)], self._begins, self._items, self._weights, size),
            *(rows, items, weights),
            threads=64,
        )
        sizes = torch.from_numpy(np.diff([*begins, n])).to(self._device)
        number = torch.arange(len(cuts), device=self._device)
        block = torch.repeat_interleave(number, sizes, output_size=n)
        by_item = torch.sort(block * self._records.n_items + items, stable=True).indices
        by_item -= on_card[-len(cuts) :][block]
        taken, at = [], len(ends)
        for begin, part in zip(begins, own, strict=True):
            some = slice(int(begin), int(part[-1]))
            numbers = rows[some], items[some], weights[some], by_item[some]
            taken.append(BlockRecords(on_card[at : at + len(part)], *numbers))
            at += len(part)
        return taken


def _stretches(sizes: Ints64) -> Iterator[tuple[int, int]]:
    """Blocks with these numbers of records in stretches of at most about so many, first to last."""
    first, records = 0, 0
    for number, size in enumerate(sizes):
        if records and records + size > _STRETCH:
            yield first, number
            first, records = number, 0
        records += int(size)
    yield first, len(sizes)


@dataclass(frozen=True)
class Grid:
    """Where each user's scores are counted: a score s lies at the place s · bins + shift.

    Attributes
    ----------
    shift, bins : float32 tensors
        One number a user.
    wide : bool tensor
        Users whose grid would be too coarse.
    """

    shift: torch.Tensor
    bins: torch.Tensor
    wide: torch.Tensor

    @classmethod
    def around(
        cls, points: torch.Tensor, records: BlockRecords, reach: torch.Tensor, n_items: int
    ) -> Grid:
        """Cover the scores of the relevant items (points), and as far beyond as matters.

        ``reach`` is a bound of the size of each user's scores.
        """
        rows, users = records.rows.long(), len(reach)
        empty = torch.zeros(users, dtype=points.dtype, device=points.device)
        low = empty.scatter_reduce(0, rows, points, "amin", include_self=False)
        high = empty.scatter_reduce(0, rows, points, "amax", include_self=False)
        margin = math.log2(n_items) + FAR
        begin = torch.maximum(low - margin, -reach)
        return cls.between(begin, torch.minimum(high + margin, reach))

    @classmethod
    def between(cls, begin: torch.Tensor, end: torch.Tensor) -> Grid:
        """Cover a range of scores for each user."""
        width = (end - begin).clamp_min(_LEAST_WIDTH)
        bins = PLAIN_BINS / width
        return cls(-begin * bins, bins, ~(width <= MOST_WIDTH))

    def scales(self) -> torch.Tensor:
        """Shift and inverse width of places from 0 to 1, side by side, as the kernels read them."""
        return torch.stack([self.shift, self.bins], dim=1) / PLAIN_BINS


class Gradients(NamedTuple):
    """What a block of users gives.

    Attributes
    ----------
    losses : float32 tensor
        Of each record.
    users, items : float32 tensors
        The loss's gradient by the factors of the block's users, and of all items.
    """

    losses: torch.Tensor
    users: torch.Tensor
    items: torch.Tensor


def stacked(parts: Sequence[Gradients]) -> Gradients:
    """Those of several models, with an axis for the models first."""
    return Gradients(*(torch.stack(part) for part in zip(*parts, strict=True)))


class AdamState(NamedTuple):
    """What a step of Adam on V changes beside V, and the decay of each row."""

    first: torch.Tensor
    second: torch.Tensor
    decay: torch.Tensor


class AdamStep(NamedTuple):
    """Numbers of a step of Adam: how much decay, how the averages fade, the rate, a correction."""

    share: float
    b1: float
    b2: float
    rate: float
    correction: float


def score_bound(U: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """A bound of the size of each user's scores: |u| times the longest row of V."""
    longest = torch.linalg.vector_norm(V, dim=1).max()
    return 1.002 * longest * torch.linalg.vector_norm(U, dim=1)
