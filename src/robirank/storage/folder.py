"""Folders on a disk or in a store such as S3, whose files appear complete or not at all.

The size and the checksum of every file are in a `FileEntry`, which is stored in a manifest. They
are compared when the file is read. Files outside the folder are never opened.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar

import msgspec
from numpy.typing import NDArray

from robirank.errors import RobirankError
from robirank.storage.files import refuse_link, remove_leftover, target_of, write_whole
from robirank.storage.tensor_file import (
    ArraySpec,
    Buffer,
    check_arrays,
    check_finite,
    file_pieces,
    map_file,
    parse_arrays,
)

_Content = TypeVar("_Content", bound=Buffer)


class DamagedFileError(RobirankError, ValueError):
    """A file is missing, or its content is not what was written."""


class FileEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The entry of a file in a manifest: its name within the folder, its size and its checksum.

    ``rows`` is the number of rows if the file is a table.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=200)]
    bytes: Annotated[int, msgspec.Meta(ge=0)]
    crc32: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    rows: Annotated[int, msgspec.Meta(ge=0)] | None = None


class Folder:
    """A folder, given by a path or by a URL that the package fsspec understands.

    Files that are missing or damaged raise the class ``error``. Objects can be pickled.
    """

    def __init__(
        self, url: str | os.PathLike[str], error: type[Exception] = DamagedFileError
    ) -> None:
        self.url = os.fspath(url).removeprefix("file://").rstrip("/")
        self.error = error
        if self.is_local:
            self.url = os.path.abspath(self.url or "/")  # noqa: PTH100 (others are elsewhere)

    def __repr__(self) -> str:
        return self.url

    @property
    def is_local(self) -> bool:
        """Whether the folder is given by a path, and not by a URL."""
        return "://" not in self.url

    def path(self, name: str) -> str:
        """The path or URL of a file."""
        return f"{self.url}/{name}"

    def sub(self, name: str, error: type[Exception] | None = None) -> Folder:
        """A folder within this one, with the same class of errors or another one."""
        return Folder(self.path(name), error or self.error)

    def make(self, *subs: str) -> None:
        """Create the folder and folders within it; an error if one within it is a link."""
        for url in (self.url, *map(self.path, subs)):
            fs, root = _file_system(url)
            if url != self.url and self.is_local:
                refuse_link(url)
            fs.makedirs(root, exist_ok=True)

    def names(self) -> list[str]:
        """The sorted names of all files; an empty list if the folder does not exist."""
        fs, root = _file_system(self.url)
        fs.invalidate_cache()
        try:
            return sorted(Path(path).name for path in fs.ls(root, detail=False))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def remove(self, name: str) -> None:
        """Remove a file if it exists; links and folders are not removed."""
        fs, root = _file_system(self.url)
        with contextlib.suppress(FileNotFoundError):
            fs.rm_file(f"{root}/{name}")

    def remove_matching(self, pattern: str, keep: Container[str] = ()) -> None:
        """Remove the files whose names match a pattern, except those in ``keep``.

        Temporary files that killed processes left behind are removed too.
        """
        for name in self.names():
            if name not in keep and re.fullmatch(pattern, target_of(name) or name):
                self.remove(name)

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""
        fs, root = _file_system(self.url)
        try:
            return int(fs.size(f"{root}/{name}"))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading; links and devices are an error."""
        fs, root = _file_system(self.url)
        try:
            opened: IO[bytes] = fs.open(f"{root}/{name}", "rb")
        except FileNotFoundError:
            raise self.error(f"{self.path(name)} is missing") from None
        except ValueError as error:
            raise self.error(f"{self.path(name)} {error}") from None
        return opened

    def write_bytes(self, name: str, content: bytes) -> FileEntry:
        """Write a file and return its entry."""
        return self._write(name, [content])

    def write_arrays(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> FileEntry:
        """Write arrays to a safetensors file and return its entry."""
        return self._write(name, file_pieces(arrays))

    def _write(self, name: str, pieces: Iterable[bytes | memoryview]) -> FileEntry:
        fs, root = _file_system(self.url)
        size = checksum = 0
        with fs.open(f"{root}/{name}", "wb") as file:
            for piece in pieces:
                file.write(piece)
                size, checksum = size + len(piece), zlib.crc32(piece, checksum)
        return FileEntry(name, size, checksum)

    def read_bytes(self, entry: FileEntry) -> bytes:
        """Read a file and compare it with its entry."""
        return self._content(entry, lambda file: file.read(entry.bytes + 1))

    def read_arrays(
        self,
        entry: FileEntry,
        expected: Mapping[str, ArraySpec],
        others: str | None = None,
        *,
        mapped: bool = False,
    ) -> dict[str, NDArray[Any]]:
        """Read the arrays of a safetensors file and check them; see `check_arrays`.

        Where ``mapped``, the arrays of a file on a disk are read-only views of the file.
        """
        is_view = mapped and self.is_local
        content = self._content(entry, map_file) if is_view else self.read_bytes(entry)
        try:
            arrays, _ = parse_arrays(content)
            check_arrays({n: ArraySpec.of(array) for n, array in arrays.items()}, expected, others)
            for name, array in arrays.items():
                check_finite(name, array)
        except ValueError as error:
            raise self.error(f"{self.path(entry.name)}: {error}") from None
        return arrays if is_view else {name: array.copy() for name, array in arrays.items()}

    def check(self, entry: FileEntry) -> None:
        """Raise an error if a file is missing or does not have the size of its entry.

        This is done before memory is allocated for a file.
        """
        size = self.size(entry.name)
        if size is None:
            raise self.error(f"{self.path(entry.name)} is missing")
        if size != entry.bytes:
            raise self.error(
                f"{self.path(entry.name)} is damaged: it has {size} bytes, "
                f"{entry.bytes} were written"
            )

    def _content(self, entry: FileEntry, read: Callable[[IO[bytes]], _Content]) -> _Content:
        """What ``read`` gives of a file, compared with the entry of the file."""
        self.check(entry)
        with self.open(entry.name) as file:
            content = read(file)
        if (len(content), zlib.crc32(content)) != (entry.bytes, entry.crc32):
            raise self.error(f"{self.path(entry.name)} is damaged: its checksum is wrong")
        return content


class _LocalFiles:
    """The methods of an fsspec file system that `Folder` calls, for paths.

    Unlike fsspec's own, it writes complete files or none, opens plain files only, and follows no
    links.
    """

    def open(self, path: str, mode: str) -> Any:
        if mode == "wb":
            refuse_link(path)
            return write_whole(path)
        if Path(path).is_symlink():
            raise ValueError("is a link, which is not followed")
        if Path(path).exists() and not Path(path).is_file():
            raise ValueError("is not a file")
        return Path(path).open(mode)

    def ls(self, root: str, detail: bool) -> list[str]:  # noqa: ARG002 (fsspec has it)
        return [os.fspath(path) for path in Path(root).iterdir()]

    def size(self, path: str) -> int:
        return Path(path).stat().st_size

    def rm_file(self, path: str) -> None:
        file = Path(path)
        if target_of(file.name):
            remove_leftover(file)
        elif file.is_file() and not file.is_symlink():
            file.unlink()

    def makedirs(self, path: str, exist_ok: bool) -> None:
        Path(path).mkdir(parents=True, exist_ok=exist_ok)

    def invalidate_cache(self) -> None:
        pass


@lru_cache(maxsize=64)
def _file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path of the folder in it."""
    if "://" not in url:
        return _LocalFiles(), url
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(f"{url} needs the package fsspec: pip install 'robirank[ray]'") from None
    fs, root = url_to_fs(url)
    return fs, root
