"""Checkpoints of a fit: written whole or not at all, and only taken up by the same fit."""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from robirank._checks import check_positive
from robirank.latent.records import Records
from robirank.storage.parts import section
from robirank.storage.tensor_file import TENSOR_TYPES, ModelFileError, open_model, write_model

__all__ = ["Checkpoint", "fingerprint"]


def fingerprint(params: Mapping[str, Any], *tables: Records | None) -> str:
    """A line that tells one fit from another: its settings, its data, and this version."""
    from robirank import __version__

    data = [None if table is None else _checksum(table) for table in tables]
    return json.dumps([__version__, dict(params), data], sort_keys=True, default=str)


def _checksum(records: Records) -> list[int]:
    value = zlib.crc32(records.items.data, zlib.crc32(records.indptr.data))
    if records.weight is not None:
        value = zlib.crc32(records.weight.data, value)
    return [records.n_users, records.n_items, records.n_records, value]


class Checkpoint:
    """A file that a fit is saved to every few minutes.

    Parameters
    ----------
    path : path-like
    minutes : float
        Between two writes.
    resume : bool
        Whether to go on from the file if it is there.
    fit : str
        What `fingerprint` says of this fit; a file of another one is refused.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, minutes: float, resume: bool, fit: str
    ) -> None:
        check_positive("checkpoint_minutes", minutes)
        self._path, self._minutes, self._resume, self._fit = Path(path), minutes, resume, fit
        if not self._path.parent.is_dir():
            raise FileNotFoundError(
                f"checkpoint {path} cannot be written: no folder {self._path.parent}"
            )
        if self._path.is_dir():
            raise IsADirectoryError(f"checkpoint {path} must be a file; it is a folder")
        self._written = time.monotonic()

    def is_due(self) -> bool:
        """Whether enough time has passed since the last write."""
        return time.monotonic() - self._written >= 60.0 * self._minutes

    def write(self, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write the file anew; an older one stays until the new one is complete."""
        write_model(self._path, {"class": "checkpoint", "fit": self._fit, "said": said}, arrays)
        self._written = time.monotonic()

    def read(
        self, like: Mapping[str, NDArray[Any]]
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """What the last run of this fit wrote; None where there is nothing to go on from.

        Parameters
        ----------
        like : mapping from str to array
            Arrays that must be there, as they must be in type and shape.
        """
        if not self._resume or not self._path.exists():
            return None
        with open_model(self._path) as file:
            if file.header.get("class") != "checkpoint":
                file.refuse("it is a model, not a checkpoint")
            if file.header.get("fit") != self._fit:
                raise ModelFileError(
                    f"checkpoint {self._path} belongs to another fit: settings, data or "
                    "version differ. Fit with the same ones to go on, or take another path"
                )
            for name, array in like.items():
                wanted = (TENSOR_TYPES[array.dtype.name], array.shape)
                if file.tensors.get(name) != wanted:
                    file.refuse(f"{name} must be {wanted}; it is {file.tensors.get(name)}")
            return section(file, "said"), {name: file.read(name) for name in file.tensors}
