"""The checkpoint of a fit in one process: one file, which only the same fit can resume from."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from robirank._callers import warn
from robirank._checks import check_positive
from robirank.storage.files import remove_leftovers
from robirank.storage.tensor_file import (
    ArraySpec,
    ModelFile,
    ModelFileError,
    check_arrays,
    class_in_header,
    open_model,
    write_model,
)

_CLASS = "checkpoint"


class CheckpointFile:
    """A file that a fit is saved to every few minutes; ``fit`` identifies the fit.

    Reading the file of another fit is an error.
    """

    def __init__(
        self, path: str | os.PathLike[str], fit: str, *, minutes: float | None = None
    ) -> None:
        self._path, self._fit = Path(path), fit
        self._minutes = 10.0 if minutes is None else minutes
        check_positive("checkpoint_minutes", self._minutes)
        if not self._path.parent.is_dir():
            raise FileNotFoundError(
                f"checkpoint {path} cannot be written: no folder {self._path.parent}"
            )
        if self._path.is_dir():
            raise IsADirectoryError(f"checkpoint {path} must be a file; it is a folder")
        remove_leftovers(path)
        self._written = time.monotonic()
        self._failed = False

    def check_overwrite(self) -> None:
        """Raise an error if writing would replace a file that is no checkpoint."""
        path = self._path
        if path.is_file() and path.stat().st_size and class_in_header(path) != _CLASS:
            raise ModelFileError(
                f"checkpoint {path} must not overwrite a file that is no checkpoint, or a damaged "
                "one; remove it, or take another path"
            )

    def is_due(self) -> bool:
        """Whether enough time has passed since the last write."""
        return time.monotonic() - self._written >= 60.0 * self._minutes

    def write(self, progress: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the file; the old one stays until the new one is complete.

        If that fails, as on a full disk, a warning says so once, and training goes on.
        """
        header = {"class": _CLASS, "fit": self._fit, "progress": progress}
        try:
            write_model(self._path, header, arrays)
            self._failed = False
        except OSError as error:
            if not self._failed:
                kept = "the one before is kept" if self._path.exists() else "there is none yet"
                warn(
                    f"the checkpoint {self._path} could not be written "
                    f"({error.strerror or error}); {kept}, and training goes on. Make room, "
                    "for it is tried again",
                    RuntimeWarning,
                )
            self._failed = True
        self._written = time.monotonic()

    def read_progress(self) -> Any:
        """The progress in the file; None if there is no file."""
        with self._open() as file:
            return None if file is None else file.header.get("progress")

    def read(
        self, like: Mapping[str, NDArray[Any]], best: Mapping[str, NDArray[Any]]
    ) -> tuple[Any, dict[str, NDArray[Any]]] | None:
        """The progress and the arrays in the file; None if there is no file.

        Arrays of the types and shapes of ``like`` must be there, and those of ``best`` may be, all
        of them or none.
        """
        with self._open() as file:
            if file is None:
                return None
            arrays = dict(like) | (dict(best) if file.tensors.keys() & best.keys() else {})
            expected = {name: ArraySpec.of(array) for name, array in arrays.items()}
            check_arrays(file.tensors, expected)
            return file.header.get("progress"), {name: file.read(name) for name in expected}

    @contextmanager
    def _open(self) -> Iterator[ModelFile | None]:
        if not self._path.exists():
            yield None
            return
        with open_model(self._path) as file:
            if file.header.get("class") != _CLASS:
                raise ValueError("it is a model, not a checkpoint")
            if file.header.get("fit") != self._fit:
                raise ModelFileError(
                    f"checkpoint {self._path} belongs to another fit: settings, data or "
                    "version differ. Fit with the same ones to go on, or take another path"
                )
            yield file
