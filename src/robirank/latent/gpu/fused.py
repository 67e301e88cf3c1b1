"""The steps of the exact solver by kernels that write no score to memory; see kernels.cu."""

from __future__ import annotations

import math

import torch

from robirank.latent.gpu import plain
from robirank.latent.gpu.block import (
    FAR,
    MOST_WIDTH,
    AdamState,
    AdamStep,
    BlockRecords,
    Gradients,
)
from robirank.latent.gpu.kernels import BINS, Kernels, kernels_for
from robirank.losses import RhoName

_FEW_ITEMS = 64  # so few are summed directly: their slopes cancel beyond half precision
_RHO_NUMBERS = {"identity": 0, "log": 1, "type2": 2}


def gradients(U: torch.Tensor, V: torch.Tensor, records: BlockRecords, rho: RhoName) -> Gradients:
    """As `robirank.latent.gpu.plain.gradients`, on a card."""
    if len(V) <= _FEW_ITEMS:
        return _direct(U, V, records, rho)
    run = FusedBlock(U, V, records, rho)
    if not run.wide.any():
        return run.gradients()
    return _with_wide(U, V, records, rho, run.wide)


def adam(V: torch.Tensor, slope: torch.Tensor, state: AdamState, step: AdamStep) -> None:
    """As `robirank.latent.gpu.plain.adam`."""
    rows, factors = V.shape
    kernels_for(factors, V.device.index or 0).launch(
        "adam",
        (-(-rows * factors // 256), 1),
        *(V, state.first, state.second, slope, state.decay, factors, rows),
        *(step.share, step.b1, step.b2, step.rate, step.correction),
        threads=256,
    )


def adagrad(
    U: torch.Tensor,
    slope: torch.Tensor,
    users: torch.Tensor,
    decay: torch.Tensor,
    sums: torch.Tensor,
    rate: float,
) -> None:
    """As `robirank.latent.gpu.plain.adagrad`."""
    n, factors = U.shape
    arguments = (U, slope, users, decay, sums, factors, n, rate)
    kernels = kernels_for(factors, U.device.index or 0)
    kernels.launch("adagrad", (-(-n // 8), 1), *arguments, threads=256)


class FusedBlock:
    """The kernels' steps for one block of users.

    Parameters
    ----------
    U : float32 tensor of shape (users, factors)
    V : float32 tensor of shape (items, factors)
    records : BlockRecords
    rho : str
    """

    def __init__(
        self, U: torch.Tensor, V: torch.Tensor, records: BlockRecords, rho: RhoName
    ) -> None:
        kernels = kernels_for(V.shape[1], V.device.index or 0)
        self._kernels, self._sizes = kernels, (len(U), len(V))
        self._U, self._V, self._records, self._rho = U, V, records, rho
        self._u, self._v = (as_halves(rows, kernels.layout.width) for rows in (U, V))
        self._points = torch.empty(len(records.items), device=V.device)
        self._scales = torch.empty((len(U), 2), device=V.device)
        longest = torch.linalg.vector_norm(V, dim=1).max()
        margin = math.log2(len(V)) + FAR
        kernels.launch(
            "user_grids",
            (len(U), 1),
            *(self._u, self._v, records.starts, records.items, longest, margin, MOST_WIDTH),
            *(self._points, self._scales),
            threads=128,
        )
        #: Users whose grid would be too coarse: it has no bins.
        self.wide = self._scales[:, 1] == 0

    def gradients(self) -> Gradients:
        """Losses, and the gradient by the block's users and by all items."""
        losses, own = self._tables()
        by_user, by_item = self._to_users(), self._to_items()
        rows, items = self._records.rows, self._records.items
        self._add(rows, items, own, self._V, by_user)
        items, order = torch.sort(items, stable=True)
        self._add(items, rows[order], own[order], self._U, by_item)
        return Gradients(losses, by_user, by_item)

    def _tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        (users, _), records = self._sizes, self._records
        counts, sums, excess, ranges = count_scores(
            self._kernels, self._u, self._v, self._scales, self._sizes
        )
        number = torch.empty_like(self._points)
        losses, own, first = number, torch.empty_like(number), torch.empty_like(number)
        self._tables_of = torch.empty((users, BINS), dtype=torch.int32, device=counts.device)
        self._unit = torch.empty(users, device=counts.device)
        self._kernels.launch(
            "user_tables",
            (users, 1),
            *(counts, sums, excess, ranges, self._scales, records.starts, self._points),
            *(records.weights, _RHO_NUMBERS[self._rho], users),
            *(losses, own, first, self._tables_of, self._unit),
            threads=128,
        )
        return losses, own

    def _to_users(self) -> torch.Tensor:
        (users, items), kernels = self._sizes, self._kernels
        tiles, ranges, size = kernels.ranges(users, items)
        shape = ranges * kernels.layout.item_warps, users, kernels.layout.width
        parts = torch.empty(shape, device=self._v.device)
        kernels.launch(
            "slopes_to_users",
            (tiles, ranges),
            *(self._u, self._v, self._scales, self._tables_of, users, items, size, parts),
        )
        return (parts.sum(0) * self._unit[:, None])[:, : self._V.shape[1]].contiguous()

    def _to_items(self) -> torch.Tensor:
        (users, items), kernels = self._sizes, self._kernels
        in_units = self._U * self._unit[:, None]
        # A power of two that brings the largest number to 2^13 or 2^14: small ones keep digits.
        power = torch.exp2(14 - torch.log2(in_units.abs().max().clamp_min(1e-30)).ceil())
        in_units = as_halves(in_units * power, kernels.layout.width)
        out = torch.empty((items, kernels.layout.width), device=self._v.device)
        kernels.launch(
            "slopes_to_items",
            (-(-items // kernels.layout.block_items), 1),
            *(self._u, in_units, self._v, self._scales, self._tables_of, users, items),
            *(1 / power, out),
        )
        return out[:, : self._V.shape[1]].contiguous()

    def _add(
        self,
        keys: torch.Tensor,
        rows: torch.Tensor,
        own: torch.Tensor,
        factors: torch.Tensor,
        out: torch.Tensor,
    ) -> None:
        n, d = len(keys), factors.shape[1]
        threads = min(256, -(-d // 32) * 32)
        arguments = (keys, rows, own, factors, n, d, out)
        self._kernels.launch("add_records", (n, 1), *arguments, threads=threads)


def count_scores(
    kernels: Kernels,
    u: torch.Tensor,
    v: torch.Tensor,
    scales: torch.Tensor,
    sizes: tuple[int, int],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    """Count scores into bins: how many, their offsets, what lies above, and the item ranges."""
    users, items = sizes
    tiles, ranges, size = kernels.ranges(users, items)
    counts, sums = torch.zeros((2, users, BINS), dtype=torch.int32, device=u.device)
    excess = torch.empty((ranges, users), device=u.device)
    kernels.launch(
        "count_scores",
        (tiles, ranges),
        *(u, v, scales, users, items, size, counts, sums, excess),
    )
    return counts, sums, excess, ranges


def as_halves(rows: torch.Tensor, width: int) -> torch.Tensor:
    """Rows in half precision, filled up with zeros to a width."""
    if rows.shape[1] < width:
        rows = torch.nn.functional.pad(rows, (0, width - rows.shape[1]))
    return rows.half()


def _with_wide(
    U: torch.Tensor, V: torch.Tensor, records: BlockRecords, rho: RhoName, wide: torch.Tensor
) -> Gradients:
    """Users whose scores spread too far are summed pair by pair, the others as usual."""
    losses = torch.empty(len(records.items), device=U.device)
    by_user, by_item = torch.zeros_like(U), torch.zeros_like(V)
    for rows, step in ((wide, _direct), (~wide, _fused)):
        chosen = rows.nonzero()[:, 0]
        if len(chosen):
            part = step(U[chosen], V, records.of_rows(chosen), rho)
            losses[rows[records.rows.long()]] = part.losses
            by_user[chosen] = part.users
            by_item += part.items
    return Gradients(losses, by_user, by_item)


def _direct(U: torch.Tensor, V: torch.Tensor, records: BlockRecords, rho: RhoName) -> Gradients:
    losses, slopes = plain.direct_slopes(U @ V.T, records, rho)
    return Gradients(losses, slopes @ V, slopes.T @ U)


def _fused(U: torch.Tensor, V: torch.Tensor, records: BlockRecords, rho: RhoName) -> Gradients:
    return FusedBlock(U, V, records, rho).gradients()
