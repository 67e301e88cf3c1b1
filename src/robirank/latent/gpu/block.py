"""A block of users on a device: their records, and the grid on which their scores are counted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from robirank._types import Ints64
from robirank.data.records import Records

#: Bins of a user's grid.
BINS = 512
#: Scores that spread over more than this are not counted but summed one by one.
MOST_WIDTH = 128.0

_RECORDS_SHARE = 0.25  # of the free memory, for records
_FAR = 10.0  # beyond log2(items): so far below, all items together are nothing beside one
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
    """

    starts: torch.Tensor
    rows: torch.Tensor
    items: torch.Tensor
    weights: torch.Tensor

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


class DeviceRecords:
    """All records, on the device where they fit; blocks of them are taken there.

    Parameters
    ----------
    records : Records
    device : torch.device
    """

    def __init__(self, records: Records, device: torch.device) -> None:
        self._records, self._device = records, device
        self._fits = device.type == "cpu" or (
            8 * records.n_records < _RECORDS_SHARE * torch.cuda.mem_get_info(device)[0]
        )
        if self._fits:
            self._begins = torch.from_numpy(records.indptr[:-1]).to(device)
            self._counts = torch.from_numpy(records.user_counts()).to(device)
            self._items = torch.from_numpy(records.items).to(device)
            if records.weight is not None:
                self._weights = torch.from_numpy(records.weight).to(device)

    def of_users(self, users: Ints64) -> BlockRecords:
        """The records of some users."""
        if not self._fits:
            return BlockRecords.of_users(self._records, users, self._device)
        indptr = self._records.indptr
        n = int((indptr[users + 1] - indptr[users]).sum())
        here = torch.from_numpy(users).to(self._device)
        counts = self._counts[here]
        starts = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        rows = torch.repeat_interleave(
            torch.arange(len(users), device=self._device, dtype=torch.int32), counts, output_size=n
        )
        shift = self._begins[here] - starts[:-1]
        where = torch.arange(n, device=self._device) + shift[rows.long()]
        weights = torch.ones(n, device=self._device)
        if self._records.weight is not None:
            weights = self._weights[where]
        return BlockRecords(starts, rows, self._items[where], weights)


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
        margin = math.log2(n_items) + _FAR
        begin = torch.maximum(low - margin, -reach)
        return cls.between(begin, torch.minimum(high + margin, reach))

    @classmethod
    def between(cls, begin: torch.Tensor, end: torch.Tensor) -> Grid:
        """Cover a range of scores for each user."""
        width = (end - begin).clamp_min(_LEAST_WIDTH)
        bins = BINS / width
        return cls(-begin * bins, bins, ~(width <= MOST_WIDTH))

    def scales(self) -> torch.Tensor:
        """Shift and bins side by side, as the kernels read them."""
        return torch.stack([self.shift, self.bins], dim=1).contiguous()


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


def score_bound(U: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """A bound of the size of each user's scores: |u| times the longest row of V."""
    longest = torch.linalg.vector_norm(V, dim=1).max()
    return 1.002 * longest * torch.linalg.vector_norm(U, dim=1)
