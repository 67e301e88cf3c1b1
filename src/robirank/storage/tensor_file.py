"""Arrays in safetensors files: one writer and one validating reader.

A safetensors file begins with the length of its table (8 bytes, little-endian); the table, a JSON
object, has the type, the shape and the byte range of each array; the arrays follow.

Model files and checkpoints of a fit also hold a header, one JSON object in the table's metadata. It
begins with the CRC32 of the whole file, computed with zeros in place of its eight digits. Shards of
models and checkpoints of a cluster have no header; a manifest describes them. The meaning of arrays
and headers is in `robirank.storage.estimators`.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple, TypeAlias, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from robirank._callers import warn
from robirank._checks import all_finite
from robirank.errors import RobirankError
from robirank.storage.files import write_whole

FORMAT = "robirank-model"
FORMAT_VERSION = 2

_KEY = "robirank"  # the only metadata entry

# The bytes between the length of the table and the eight hexadecimal digits of the checksum.
_BEFORE_CRC = b'{"__metadata__":{"robirank":"{\\"crc32\\": \\"'
_CRC_PLACE = slice(8 + len(_BEFORE_CRC), 16 + len(_BEFORE_CRC))
_NO_CRC = "0" * 8

#: The types that can be stored: numpy's names and those of safetensors.
TENSOR_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "int64": "I64",
    "int32": "I32",
    "uint8": "U8",
}
NUMPY_TYPES = {tensor: np.dtype(numpy).newbyteorder("<") for numpy, tensor in TENSOR_TYPES.items()}

PathOrFile = str | os.PathLike[str] | IO[bytes]
Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Buffer: TypeAlias = bytes | mmap


class ModelFileError(RobirankError, ValueError):
    """A file does not hold a model that this version can load; the message says why."""


def write_model(path: PathOrFile, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a header and arrays to a path, completely or not at all, or to an open binary file.

    The arrays are written one by one, without a copy of all of them.
    """
    from robirank import __version__

    stamp = {"crc32": _NO_CRC, "format": FORMAT, "format_version": FORMAT_VERSION}
    text = json.dumps(stamp | {"robirank": __version__} | dict(header), allow_nan=False)
    crc = 0
    for piece in file_pieces(arrays, text):
        crc = zlib.crc32(piece, crc)
    text = text.replace(_NO_CRC, f"{crc:08x}", 1)
    target: Any = contextlib.nullcontext(path) if is_open(path) else write_whole(cast(str, path))
    with target as file:
        for piece in file_pieces(arrays, text):
            file.write(piece)


def file_pieces(arrays: Arrays, header: str | None = None) -> Iterator[bytes | memoryview]:
    """Yield the content of a safetensors file: the table, then the bytes of each array."""
    # Wide types first, as the safetensors library orders them, so that every array is aligned.
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    table: dict[str, Any] = {} if header is None else {"__metadata__": {_KEY: header}}
    end = 0
    for name in names:
        begin, end = end, end + arrays[name].nbytes
        dtype, shape = ArraySpec.of(arrays[name])
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": (begin, end)}
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in names:
        little = arrays[name].dtype.newbyteorder("<")
        yield np.ascontiguousarray(arrays[name], dtype=little).reshape(-1).view(np.uint8).data


class ArraySpec(NamedTuple):
    """The type (its safetensors name) and the shape of an array."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: NDArray[Any]) -> ArraySpec:
        """The type and shape of an array."""
        return cls(TENSOR_TYPES[array.dtype.name], array.shape)

    def __str__(self) -> str:
        return f"{self.dtype} of shape ({', '.join(map(str, self.shape))})"


def check_arrays(
    specs: Mapping[str, ArraySpec], expected: Mapping[str, ArraySpec], others: str | None = None
) -> None:
    """Raise a ValueError unless the arrays of a file are the expected ones.

    Other arrays are allowed if their names begin with ``others``.
    """
    for name, spec in expected.items():
        if specs.get(name) != spec:
            raise ValueError(f"{name} must be {spec}; it is {specs.get(name, 'missing')}")
    for name in specs:
        if name not in expected and (others is None or not name.startswith(others)):
            raise ValueError(f"it has an array {name!r:.80}, which does not belong there")


_Size = Annotated[int, msgspec.Meta(ge=0)]


class _Entry(msgspec.Struct):
    """The entry of an array in the table of a file."""

    dtype: Literal["F64", "F32", "I64", "I32", "U8"]
    shape: tuple[_Size, ...]
    data_offsets: tuple[_Size, _Size]


def parse_arrays(content: Buffer) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays of a safetensors file, as views of its content, and its metadata."""
    try:
        start = 8 + int.from_bytes(content[:8], "little")
        table = msgspec.json.decode(content[8:start], type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(table.pop("__metadata__", b"{}"), type=dict[str, str])
        entries = {name: msgspec.json.decode(raw, type=_Entry) for name, raw in table.items()}
        return {name: _array(content, start, e) for name, e in entries.items()}, metadata
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ValueError(f"it is not a safetensors file, or it is damaged ({error})") from None


def _array(content: Buffer, start: int, entry: _Entry) -> NDArray[Any]:
    dtype, size = NUMPY_TYPES[entry.dtype], math.prod(entry.shape)
    begin, end = entry.data_offsets
    if end - begin != size * dtype.itemsize or start + end > len(content):
        raise ValueError(f"bytes {begin} to {end} do not hold {entry.shape} {entry.dtype}")
    return np.frombuffer(content, dtype, size, start + begin).reshape(entry.shape)


def map_file(file: IO[bytes]) -> Buffer:
    """Map an open file into memory."""
    empty = os.fstat(file.fileno()).st_size == 0  # mmap raises an error for an empty file
    return b"" if empty else mmap(file.fileno(), 0, access=ACCESS_READ)


class ModelFile:
    """An open model file: its header, types and shapes of its arrays, and these on demand."""

    def __init__(self, name: str, content: Buffer, *, mapped: bool = False) -> None:
        self._arrays, metadata = parse_arrays(content)
        self._mapped = mapped
        self.tensors = {part: ArraySpec.of(array) for part, array in self._arrays.items()}
        has_checksum = _check_crc(content)
        self.header = _read_header(metadata)
        if not has_checksum:
            warn(
                f"{name} has no checksum, as files of an older robirank: damage to it cannot be "
                "seen. Write it anew to have one"
            )

    def read(self, name: str) -> NDArray[Any]:
        """Read one array, or map it; its values must be finite."""
        array = self._arrays[name]
        check_finite(name, array)
        return array.astype(array.dtype.newbyteorder("="), copy=not self._mapped)


def _check_crc(content: Buffer) -> bool:
    """Whether a file has a checksum; an error if it is wrong."""
    head = bytearray(content[: _CRC_PLACE.stop])
    if head[8 : _CRC_PLACE.start] != _BEFORE_CRC:
        return False
    written, head[_CRC_PLACE] = head[_CRC_PLACE], _NO_CRC.encode()
    rest = memoryview(content)[_CRC_PLACE.stop :]
    if written != b"%08x" % zlib.crc32(rest, zlib.crc32(head)):
        raise ValueError("it is damaged: its checksum is wrong")
    return True


def _read_header(metadata: dict[str, str]) -> dict[str, Any]:
    if _KEY not in metadata:
        raise ValueError("it is a safetensors file, but robirank did not write it")
    try:
        header = json.loads(metadata[_KEY], parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its header is not valid JSON ({error})") from None
    if not isinstance(header, dict) or header.pop("format", None) != FORMAT:
        raise ValueError(f"its header does not say format={FORMAT!r}")
    version = header.pop("format_version", None)
    if type(version) is not int or version < 1:
        raise ValueError(f"format_version must be a positive integer; it is {version!r}")
    if version != FORMAT_VERSION:
        advice = "Upgrade robirank to load it" if version > FORMAT_VERSION else "Fit it anew"
        raise ValueError(
            f"it has format version {version}, written by robirank {header.get('robirank')!r}; "
            f"this robirank reads version {FORMAT_VERSION}. {advice}"
        )
    header.pop("crc32", None)
    return header


def is_open(path: PathOrFile) -> bool:
    """Whether the argument is an open binary file, and not a path."""
    if isinstance(path, str | os.PathLike):
        return False
    if isinstance(path, io.TextIOBase) or not (hasattr(path, "read") or hasattr(path, "write")):
        raise TypeError(f"path must be a path or a file that is open in binary mode; got {path!r}")
    return True


@contextlib.contextmanager
def open_model(path: PathOrFile, *, mapped: bool = False) -> Iterator[ModelFile]:
    """Open a model file for reading; no code in it is run.

    The rest of an open file is copied to a temporary file first. A ValueError while the file is
    open becomes a `ModelFileError` that names it. Where arrays are ``mapped``, they are pages of
    the file, which must not be written to any more.
    """
    with contextlib.ExitStack() as stack:
        if is_open(path):
            file: Any = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(cast(IO[bytes], path), file)
            file.flush()
            name = str(getattr(path, "name", "the open file"))
        else:
            name = os.fspath(cast(str, path))
            if not Path(name).exists():
                raise FileNotFoundError(f"there is no model file {name}")
            if not Path(name).is_file():
                raise ModelFileError(f"cannot load {name}: it is not a file")
            file = stack.enter_context(Path(name).open("rb"))
        with loading(name):
            yield ModelFile(name, map_file(file), mapped=mapped)


@contextlib.contextmanager
def loading(name: str) -> Iterator[None]:
    """Turn errors about the content of a file into a ModelFileError that names the file."""
    try:
        yield
    except ModelFileError:
        raise
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise ModelFileError(f"cannot load {name}: {error}") from None


def class_in_header(path: str | os.PathLike[str]) -> Any:
    """The class in the header of a model file or checkpoint; None for other files.

    Values of arrays are not checked.
    """
    try:
        with Path(path).open("rb") as file:
            _, metadata = parse_arrays(map_file(file))
            return json.loads(metadata[_KEY])["class"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def written_checksum(path: str | os.PathLike[str]) -> str | None:
    """The CRC32 that a model file says it has, as hexadecimal digits; None for other files."""
    with Path(path).open("rb") as file:
        head = file.read(_CRC_PLACE.stop)
    if head[8 : _CRC_PLACE.start] != _BEFORE_CRC:
        return None
    return head[_CRC_PLACE].decode("ascii", "replace")


def check_finite(name: str, array: NDArray[Any]) -> None:
    """Raise a ValueError if an array holds NaN or infinity."""
    if not all_finite(array):
        raise ValueError(f"{name} holds NaN or infinity")


def _finite(text: str) -> float:
    """Parse a number of JSON; NaN, Infinity and 1e999 are an error."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return number
