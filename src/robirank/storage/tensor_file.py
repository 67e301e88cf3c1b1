"""Arrays in safetensors files: one writer and one validating reader.

Model files and checkpoints of a fit also hold a header, one JSON object in the file's metadata. It
begins with the CRC32 of the whole file, in which the eight digits of the checksum count as zeros.
Shards of models and checkpoints of a cluster hold arrays alone; a manifest beside them says the
rest. This module knows files and arrays; `robirank.storage.estimators` knows what they mean.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, Never, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from robirank._callers import warn

FORMAT = "robirank-model"
FORMAT_VERSION = 2

_KEY = "robirank"  # the one entry of the safetensors metadata; one, so that files are reproducible

# What stands before the eight hexadecimal digits of the checksum, after the length of the table.
_BEFORE_CRC = b'{"__metadata__":{"robirank":"{\\"crc32\\": \\"'
_CRC_PLACE = slice(8 + len(_BEFORE_CRC), 16 + len(_BEFORE_CRC))
_NO_CRC = "0" * 8
_CHUNK = 1 << 22

#: What is said of files that were written before there were checksums.
NO_CHECKSUM = (
    "has no checksum, as files of an older robirank: damage to it cannot be seen. Write it anew to "
    "have one"
)


#: numpy's names of types, and those of safetensors.
TENSOR_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "int64": "I64",
    "int32": "I32",
    "uint8": "U8",
}


PathOrFile = str | os.PathLike[str] | IO[bytes]


class ModelFileError(ValueError):
    """A file that does not hold a model which this version can load; the message says why."""


def write_model(
    path: PathOrFile,
    header: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
) -> None:
    """Write header and arrays into one file, whole or not at all, or to an open binary file.

    The arrays go to the file one by one as they lie in memory: a model of any size is saved
    without a second copy of it.
    """
    from robirank import __version__
    from robirank.storage.files import write_whole

    stamp = {"crc32": _NO_CRC, "format": FORMAT, "format_version": FORMAT_VERSION}
    text = json.dumps(stamp | {"robirank": __version__} | dict(header), allow_nan=False)
    if is_open(path):
        _write_with_checksum(cast(_Writable, path), tensors, text)
        return
    with write_whole(cast("str | os.PathLike[str]", path)) as file:
        _write_with_checksum(file, tensors, text)


def _write_with_checksum(file: _Writable, arrays: Mapping[str, NDArray[Any]], text: str) -> None:
    """Go through the arrays twice: the checksum stands before them."""
    table = bytearray(_table(arrays, text))
    crc = zlib.crc32(table)
    for content in _contents(arrays):
        crc = zlib.crc32(content, crc)
    table[_CRC_PLACE] = b"%08x" % crc
    file.write(table)
    for content in _contents(arrays):
        file.write(content)


class _Writable(Protocol):
    def write(self, content: Any, /) -> Any: ...


def write_arrays(file: _Writable, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to an open file, one by one as they lie in memory."""
    file.write(_table(arrays))
    for content in _contents(arrays):
        file.write(content)


def _table(arrays: Mapping[str, NDArray[Any]], metadata: str | None = None) -> bytes:
    """The beginning of a safetensors file: names, types, shapes and places of its arrays."""
    entries: dict[str, Any] = {} if metadata is None else {"__metadata__": {_KEY: metadata}}
    end = 0
    for name in _in_order(arrays):
        begin, end = end, end + arrays[name].nbytes
        entries[name] = {
            "dtype": TENSOR_TYPES[arrays[name].dtype.name],
            "shape": arrays[name].shape,
            "data_offsets": (begin, end),
        }
    table = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    table += b" " * (-len(table) % 8)
    return struct.pack("<Q", len(table)) + table


def _contents(arrays: Mapping[str, NDArray[Any]]) -> Iterator[memoryview]:
    """The bytes of the arrays, in their order in the file."""
    for name in _in_order(arrays):
        little = arrays[name].dtype.newbyteorder("<")
        yield np.ascontiguousarray(arrays[name], dtype=little).reshape(-1).view(np.uint8).data


def _in_order(arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """Wide types first, as the safetensors library orders them: every array lies aligned."""
    return sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))


class ArraySpec(NamedTuple):
    """What an array must be: its type in safetensors' words, and its shape; None is any length."""

    dtype: str
    shape: tuple[int | None, ...]

    @classmethod
    def of(cls, array: NDArray[Any]) -> ArraySpec:
        """The type and shape of an array."""
        return cls(TENSOR_TYPES[array.dtype.name], array.shape)

    def check(self, name: str, found: ArraySpec | None) -> None:
        """Raise a ValueError unless an array is as it must be."""
        if (
            found is None
            or found.dtype != self.dtype
            or len(found.shape) != len(self.shape)
            or any(w not in (None, n) for n, w in zip(found.shape, self.shape, strict=True))
        ):
            raise ValueError(f"{name} must be {_spell(self)}; it is {_spell(found)}")


def _spell(spec: ArraySpec | None) -> str:
    if spec is None:
        return "missing"
    lengths = ", ".join("any" if n is None else str(n) for n in spec.shape)
    return f"{spec.dtype} of shape ({lengths})"


def decode_arrays(
    content: bytes, expected: Mapping[str, ArraySpec], others: str | None = None
) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file: those that are expected and no others, all finite.

    Arrays whose names begin with ``others`` may be there too; the caller checks them.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays: dict[str, NDArray[Any]] = load(content)
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"it is not a safetensors file, or it is damaged ({error})") from None
    found = {name: _found(array) for name, array in arrays.items()}
    check_arrays(found, expected, others)
    for name, array in arrays.items():
        if not all_finite(array):
            raise ValueError(f"{name} holds NaN or infinity")
    return arrays


def check_arrays(
    found: Mapping[str, ArraySpec], expected: Mapping[str, ArraySpec], others: str | None = None
) -> None:
    """Raise a ValueError unless the arrays of a file are those that are expected."""
    for name, spec in expected.items():
        spec.check(name, found.get(name))
    for name in found:
        if name not in expected and not (others and name.startswith(others)):
            raise ValueError(f"it has an array {name!r:.80}, which does not belong there")


def _found(array: NDArray[Any]) -> ArraySpec:
    return ArraySpec(TENSOR_TYPES.get(array.dtype.name, array.dtype.name), array.shape)


def map_array(path: str, name: str, spec: ArraySpec) -> NDArray[Any]:
    """One array of a safetensors file, as it lies on the disk."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as handle:  # checks the head against the file
            view = handle.get_slice(name) if name in handle.keys() else None  # noqa: SIM118
            found = None
            if view is not None:
                found = ArraySpec(str(view.get_dtype()), tuple(view.get_shape()))
    except SafetensorError as error:
        raise ValueError(f"it is not a safetensors file, or it is damaged ({error})") from None
    spec.check(name, found)
    assert view is not None
    shape: tuple[int, ...] = tuple(view.get_shape())
    dtype = {v: k for k, v in TENSOR_TYPES.items()}[spec.dtype]
    if 0 in shape:
        return np.empty(shape, dtype)
    with Path(path).open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        begin = json.loads(file.read(length))[name]["data_offsets"][0]
    array = np.memmap(path, dtype, "r", 8 + length + begin, shape)
    if not all_finite(array):
        raise ValueError(f"{name} holds NaN or infinity")
    return array


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
        header.pop("crc32", None)
        return header

    def _check_version(self, header: dict[str, Any]) -> None:
        version = header.get("format_version")
        if type(version) is not int or version < 1:
            self.refuse(f"format_version must be a positive integer; it is {version!r}")
        if version != FORMAT_VERSION:
            advice = "Upgrade robirank to load it" if version > FORMAT_VERSION else "Fit it anew"
            self.refuse(
                f"it has format version {version}, written by robirank {header.get('robirank')!r}; "
                f"this robirank reads version {FORMAT_VERSION}. {advice}"
            )


def is_open(path: PathOrFile) -> bool:
    """Whether it is an open file rather than a path; it must be a binary one."""
    if isinstance(path, str | os.PathLike):
        return False
    if isinstance(path, io.TextIOBase) or not (hasattr(path, "read") or hasattr(path, "write")):
        raise TypeError(f"path must be a path or a file that is open in binary mode; got {path!r}")
    return True


@contextlib.contextmanager
def open_model(path: PathOrFile) -> Iterator[ModelFile]:
    """Open a model file for reading; nothing in it is run, whatever it holds.

    What is left in an open file is copied to a temporary one first.
    """
    from safetensors import SafetensorError, safe_open

    if is_open(path):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, "model.safetensors")
            with copy.open("wb") as file:
                shutil.copyfileobj(cast(IO[bytes], path), file)
            with open_model(copy) as model:
                yield model
        return
    path = cast("str | os.PathLike[str]", path)
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no model file {path}")
    if not Path(path).is_file():
        _refuse(path, "it is not a file")
    try:
        with safe_open(path, framework="numpy") as handle:
            has_checksum = _check_crc(path)
            opened = ModelFile(path, handle)
            if not has_checksum:
                warn(f"{os.fspath(path)} {NO_CHECKSUM}")
            yield opened
    except SafetensorError as error:
        _refuse(path, f"it is not a safetensors file, or it is damaged ({error})")


def class_in_header(path: str | os.PathLike[str]) -> Any:
    """What a file says that it holds, even if its arrays are damaged; None for other files."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as handle:
            return json.loads((handle.metadata() or {})[_KEY])["class"]
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _check_crc(path: str | os.PathLike[str]) -> bool:
    """Refuse a file whose checksum is wrong; returns whether it has one."""
    with Path(path).open("rb") as file:
        head = bytearray(file.read(_CRC_PLACE.stop))
        if head[8 : _CRC_PLACE.start] != _BEFORE_CRC:
            return False
        written, head[_CRC_PLACE] = head[_CRC_PLACE], _NO_CRC.encode()
        crc = zlib.crc32(head)
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    if written != b"%08x" % crc:
        _refuse(path, "it is damaged: its checksum is wrong")
    return True


def all_finite(array: NDArray[Any]) -> bool:
    """Whether no value is NaN or infinite, found without an array of answers."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def _refuse(path: str | os.PathLike[str], reason: str) -> Never:
    raise ModelFileError(f"cannot load {os.fspath(path)}: {reason}")


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")
