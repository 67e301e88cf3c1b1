"""How the kernels cut users, items and factors; cuda/layout.cu says the same."""

from __future__ import annotations

from dataclasses import dataclass

#: Bins of a user's grid of scores, and straight lines of the table of derivatives.
KERNEL_BINS = 256
#: More factors than this do not fit into the registers of the kernels.
MOST_FACTORS = 256

_SPARE = 1024  # bytes of shared memory that are not in the dynamic part
_MOST_CELLS = 64 * 128  # numbers of a tile's users that registers hold


class KernelError(RuntimeError):
    """The kernels cannot be compiled or launched on this machine."""


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
        Whether four warps multiply together, by wgmma; with 64 factors and 64 users.
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
        for rows in (64, 32, 16):
            layout = cls(width, rows, together and width == rows == 64)
            most = max(layout.shared_memory().values()) + _SPARE
            if most <= shared_memory and rows * width <= _MOST_CELLS:
                return layout
        raise KernelError(f"{factors} factors do not fit into {shared_memory} bytes a block")

    @property
    def warps(self) -> int:
        """Of a block of threads."""
        return 16 if self._is_large else 8

    @property
    def count_warps(self) -> int:
        """Of a block of threads of count_scores and collect_scores."""
        return 32 if self.together else self.warps

    @property
    def groups(self) -> int:
        """The number of groups of warps in gradient_of_users; each leaves sums of its own."""
        tiles = 2 if self.rows > 16 and self.width <= 128 and not self.together else 1
        return self.warps * 16 * tiles // self.rows

    @property
    def block_items(self) -> int:
        """The number of items of a block of gradient_of_items."""
        return 16 * self.warps * (2 if self._is_large else 1)

    def padded(self, rows: int) -> int:
        """Rows of V in half precision, and of users' tables: whole blocks, for wgmma."""
        return -(-rows // self.block_items) * self.block_items if self.together else rows

    def shared_memory(self) -> dict[str, int]:
        """Bytes that the kernels ask for when they are launched."""
        tables = 8 * self.rows * KERNEL_BINS
        if self.together:
            count, to_users = self._tiles(self.count_warps // 4, 32), self._tiles(self.groups, 64)
            to_items = self._users(64, 1024) + self.block_items * self._row
        else:
            count, to_users = self._tiles(self.warps, 16), self._tiles(self.groups, 16)
            to_items = self._users(32 if self._is_large else 16, 16)
        return {
            "count_scores": tables + count,
            "gradient_of_users": tables + to_users,
            "gradient_of_items": to_items,
            "collect_scores": count,
        }

    @property
    def _is_large(self) -> bool:
        return self.width <= 64 and self.rows > 16

    @property
    def _row(self) -> int:
        return 2 * (self.width if self.together else self.width + 8)

    def _tiles(self, groups: int, items: int) -> int:
        """Two tiles of items for each group of warps, and a barrier for each."""
        return 2 * groups * (items * self._row + 8)

    def _users(self, users: int, unit: int) -> int:
        """Two steps of gradient_of_items: tables, rows, grids, units of users, and a barrier."""
        step = users * (4 * KERNEL_BINS + self._row + 8 + 2) + 8
        return 2 * -(-step // unit) * unit
