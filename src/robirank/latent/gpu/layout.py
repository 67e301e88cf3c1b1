"""How the kernels cut users, items and factors; cuda/layout.cu says the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

#: Bins of a user's grid of scores, and straight lines of the table of derivatives.
KERNEL_BINS = 256
#: More factors than this do not fit into the registers of the kernels.
MOST_FACTORS = 256

_SPARE = 1024  # bytes of shared memory that are not in the dynamic part
_MOST_CELLS = 64 * 128  # numbers of a tile's users that registers hold
_ALIGNED = 64  # factors of a row of wgmma's tiles, 128 bytes, are a multiple


class KernelError(RuntimeError):
    """The kernels cannot be compiled or launched on this machine."""


class Blocks(NamedTuple):
    """How many warps a block of threads has, and what they do at a time.

    Attributes
    ----------
    count_warps, user_warps, item_warps : int
        Warps of a block of count_scores and collect_scores, gradient_of_users, gradient_of_items.
    user_items : int
        Items of a tile of gradient_of_users.
    item_tiles : int
        Tiles of items that a warp (with wgmma: four) of gradient_of_items has.
    step_users : int
        Users of a step of gradient_of_items.
    """

    count_warps: int
    user_warps: int
    item_warps: int
    user_items: int
    item_tiles: int
    step_users: int


# Of wgmma, by width: as many warps as registers and shared memory have room for.
_TOGETHER = {
    64: Blocks(32, 16, 16, 64, 2, 64),
    128: Blocks(24, 12, 16, 64, 1, 32),
    192: Blocks(16, 8, 12, 64, 1, 32),
    256: Blocks(12, 8, 8, 32, 1, 32),
}
_LARGE, _SMALL = Blocks(16, 16, 16, 16, 2, 32), Blocks(8, 8, 8, 16, 1, 16)


@dataclass(frozen=True)
class Layout:
    """Sizes that the kernels are compiled for.

    Attributes
    ----------
    width : int
        Factors of a row, a multiple of 16.
    rows : int
        Users of a tile: 16, 32 or 64.
    together : bool
        Whether four warps multiply together, by wgmma; with 64 users, and a width that is a
        multiple of 64.
    """

    width: int
    rows: int
    together: bool = False

    @classmethod
    def that_fits(cls, factors: int, shared_memory: int, *, together: bool = False) -> Layout:
        """The largest tiles whose kernels fit into a block's shared memory, in bytes.

        ``together``: whether the card has wgmma.
        """
        width = -(-factors // 16) * 16
        layouts = [cls(width, rows) for rows in (64, 32, 16)]
        if together and width >= _ALIGNED:
            layouts.insert(0, cls(-(-factors // _ALIGNED) * _ALIGNED, 64, together=True))
        for layout in layouts:
            most = max(layout.shared_memory().values()) + _SPARE
            cells = layout.rows * layout.width
            if most <= shared_memory and (layout.together or cells <= _MOST_CELLS):
                return layout
        raise KernelError(f"{factors} factors do not fit into {shared_memory} bytes a block")

    @cached_property
    def blocks(self) -> Blocks:
        """How the kernels use a block of threads."""
        if self.together:
            return _TOGETHER[self.width]
        return _LARGE if self.width <= 64 and self.rows > 16 else _SMALL

    @cached_property
    def groups(self) -> int:
        """The number of groups of warps in gradient_of_users; each leaves sums of its own."""
        tiles = 2 if self.rows > 16 and self.width <= 128 and not self.together else 1
        return self.blocks.user_warps * 16 * tiles // self.rows

    @cached_property
    def block_items(self) -> int:
        """The number of items of a block of gradient_of_items."""
        return 16 * self.blocks.item_warps * self.blocks.item_tiles

    def threads(self, kernel: str) -> int:
        """Threads of a block of a kernel that visits all scores."""
        blocks = self.blocks
        warps = {"gradient_of_users": blocks.user_warps, "gradient_of_items": blocks.item_warps}
        return 32 * warps.get(kernel, blocks.count_warps)

    def padded(self, rows: int) -> int:
        """Rows of V in half precision, and of users' tables: whole blocks, for wgmma."""
        return -(-rows // self.block_items) * self.block_items if self.together else rows

    def shared_memory(self) -> dict[str, int]:
        """Bytes that the kernels ask for when they are launched."""
        blocks, tables = self.blocks, 8 * self.rows * KERNEL_BINS
        if self.together:
            count = self._tiles(blocks.count_warps // 4, 32)
            to_items = self._users(1024) + self.block_items * self._row
        else:
            count, to_items = self._tiles(blocks.count_warps, 16), self._users(16)
        return {
            "count_scores": tables + count,
            "gradient_of_users": tables + self._tiles(self.groups, blocks.user_items),
            "gradient_of_items": to_items,
            "collect_scores": count,
        }

    @property
    def _row(self) -> int:
        return 2 * (self.width if self.together else self.width + 8)

    def _tiles(self, groups: int, items: int) -> int:
        """Two tiles of items for each group of warps, and a barrier for each."""
        return 2 * groups * (items * self._row + 8)

    def _users(self, unit: int) -> int:
        """Two steps of gradient_of_items: tables, rows twice, grids, units, and a barrier."""
        step = self.blocks.step_users * (4 * KERNEL_BINS + 2 * self._row + 8 + 2) + 8
        return 2 * -(-step // unit) * unit
