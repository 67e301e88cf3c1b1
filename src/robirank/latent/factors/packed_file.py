"""Packed rows in a file, which processes map, so that they share its memory.

The file is an array of NumPy, a row for each tile of some items. How wide a tile is depends on the
processor, so that the file is for processes of one machine, and lasts as long as they do.
"""

from __future__ import annotations

import os

import numpy as np

from robirank import _core
from robirank._types import Floats32
from robirank.latent.factors.topk import PackedRows, prepare_rows
from robirank.storage.files import write_whole


def write_packed(path: str | os.PathLike[str], rows: Floats32) -> None:
    """Pack rows, and write them to a file."""
    with write_whole(path) as file:
        np.save(file, prepare_rows(rows, "cpu").packed.tiles)


def map_packed(path: str | os.PathLike[str], rows: Floats32) -> PackedRows:
    """The packed form of rows, mapped from the file that `write_packed` made of the same rows.

    Nobody may write to the file any more. Only its shape is checked.
    """
    tiles = np.load(path, mmap_mode="r", allow_pickle=False)
    return PackedRows(rows, _core.PackedItems(np.asarray(tiles), *rows.shape))
