"""The container of saved models: a safetensors file whose metadata is one JSON object.

This module knows files and arrays; `robirank.storage.estimators` knows what they mean.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Never

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "ModelFile",
    "ModelFileError",
    "all_finite",
    "open_model",
    "safetensors_head",
    "write_model",
]

FORMAT = "robirank-model"
FORMAT_VERSION = 1

_KEY = "robirank"  # the one entry of the safetensors metadata; one, so that files are reproducible


#: numpy's names of types, and those of safetensors.
TENSOR_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "int64": "I64",
    "int32": "I32",
    "uint8": "U8",
}


class ModelFileError(ValueError):
    """A file that does not hold a model which this version can load; the message says why."""


def write_model(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
) -> None:
    """Write header and arrays into one file, whole or not at all.

    The arrays go to the file one by one as they lie in memory: a model of any size is saved
    without a second copy of it.
    """
    from robirank import __version__
    from robirank.storage.files import write_whole

    stamp = {"format": FORMAT, "format_version": FORMAT_VERSION, "robirank": __version__}
    text = json.dumps(stamp | dict(header), allow_nan=False)
    head, names = safetensors_head(tensors, text)
    with write_whole(path) as file:
        file.write(head)
        for name in names:
            little = tensors[name].dtype.newbyteorder("<")
            file.write(np.ascontiguousarray(tensors[name], dtype=little).data)


def safetensors_head(
    tensors: Mapping[str, NDArray[Any]], metadata: str | None = None
) -> tuple[bytes, list[str]]:
    """What a safetensors file begins with, and the order in which its arrays follow."""
    # Wide types first, as the safetensors library orders them: every array lies aligned.
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    entries: dict[str, Any] = {} if metadata is None else {"__metadata__": {_KEY: metadata}}
    end = 0
    for name in names:
        array = tensors[name]
        begin, end = end, end + array.nbytes
        entries[name] = {
            "dtype": TENSOR_TYPES[array.dtype.name],
            "shape": array.shape,
            "data_offsets": (begin, end),
        }
    table = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    table += b" " * (-len(table) % 8)
    return struct.pack("<Q", len(table)) + table, names


class ModelFile:
    """An open model file: its header, and arrays that are read when they are asked for.

    Attributes
    ----------
    header : dict
        The JSON object.
    tensors : dict from str to (str, tuple of int)
        Type (in safetensors' words, such as "F64") and shape of every array.
    """

    def __init__(self, path: str | os.PathLike[str], handle: Any) -> None:
        self._path = path
        self._handle = handle
        self.header = self._read_header()
        self.tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
        for name in handle.keys():  # noqa: SIM118 (the handle is not a mapping)
            view = handle.get_slice(name)
            self.tensors[name] = (str(view.get_dtype()), tuple(view.get_shape()))

    def refuse(self, reason: str) -> Never:
        """Say why this file cannot be loaded."""
        _refuse(self._path, reason)

    def read(self, name: str) -> NDArray[Any]:
        """Read one array; its values must be finite."""
        array: NDArray[Any] = self._handle.get_tensor(name)
        if not array.flags.writeable:
            array = array.copy()
        if not all_finite(array):
            self.refuse(f"{name} holds NaN or infinity")
        return array

    def _read_header(self) -> dict[str, Any]:
        text = (self._handle.metadata() or {}).get(_KEY)
        if text is None:
            self.refuse("it is a safetensors file, but robirank did not write it")
        try:
            header = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            self.refuse(f"its header is not valid JSON ({error})")
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            self.refuse(f"its header does not say format={FORMAT!r}")
        self._check_version(header)
        return header

    def _check_version(self, header: dict[str, Any]) -> None:
        version = header.get("format_version")
        if type(version) is not int or version < 1:
            self.refuse(f"format_version must be a positive integer; it is {version!r}")
        if version > FORMAT_VERSION:
            self.refuse(
                f"it has format version {version}, written by robirank {header.get('robirank')!r}; "
                f"this robirank reads versions up to {FORMAT_VERSION}. Upgrade robirank to load it"
            )


@contextlib.contextmanager
def open_model(path: str | os.PathLike[str]) -> Iterator[ModelFile]:
    """Open a model file for reading; nothing in it is run, whatever it holds."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).exists():
        raise FileNotFoundError(f"there is no model file {path}")
    if not Path(path).is_file():
        _refuse(path, "it is not a file")
    try:
        with safe_open(path, framework="numpy") as handle:
            yield ModelFile(path, handle)
    except SafetensorError as error:
        _refuse(path, f"it is not a safetensors file, or it is damaged ({error})")


def all_finite(array: NDArray[Any]) -> bool:
    """Whether no value is NaN or infinite, found without an array of answers."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def _refuse(path: str | os.PathLike[str], reason: str) -> Never:
    raise ModelFileError(f"cannot load {os.fspath(path)}: {reason}")


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")
