"""A folder on a disk or in a store such as S3: files that appear whole or not at all.

Every file has a `FileEntry` with its size and checksum, which a manifest keeps. What is read is
compared with its entry, and nothing outside the folder is ever opened.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, Annotated, Any, Never

import msgspec
from numpy.typing import NDArray

from robirank.storage.files import refuse_link, remove_leftover, target_of, write_whole
from robirank.storage.tensor_file import ArraySpec, decode_arrays, map_array, write_arrays

_CHUNK = 1 << 22


class DamagedFileError(ValueError):
    """A file is missing or does not hold what was written; the message names it."""


class FileEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a manifest says of a file: its name within the folder, its size and its checksum.

    ``rows`` is the number of rows of a table.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=200)]
    bytes: Annotated[int, msgspec.Meta(ge=0)]
    crc32: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    rows: Annotated[int, msgspec.Meta(ge=0)] | None = None


class Folder:
    """A folder by its path, or by a URL that the package fsspec understands.

    Objects are small and can be sent to other processes.

    Parameters
    ----------
    url : path or URL
    error : exception class
        Raised where a file is missing, damaged or not what it should be.

    Examples
    --------
    >>> import tempfile
    >>> folder = Folder(tempfile.mkdtemp())
    >>> entry = folder.write_bytes("a.txt", b"all or nothing")
    >>> folder.names(), folder.read_bytes(entry)
    (['a.txt'], b'all or nothing')
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
        """Whether files have a path on this machine."""
        return "://" not in self.url

    def refuse(self, reason: str) -> Never:
        """Raise an error that says why the folder cannot be used."""
        raise self.error(f"cannot load {self.url}: {reason}")

    def path(self, name: str) -> str:
        """The path or URL of a file."""
        return f"{self.url}/{name}"

    def sub(self, name: str, error: type[Exception] | None = None) -> Folder:
        """A folder within, perhaps with another class of errors."""
        return Folder(self.path(name), error or self.error)

    def make(self, *subs: str) -> None:
        """Make the folder and folders within, where there are folders; those must be no links."""
        for url in (self.url, *map(self.path, subs)):
            fs, root = _file_system(url)
            if url != self.url and self.is_local:
                refuse_link(url)
            fs.makedirs(root, exist_ok=True)

    def names(self) -> list[str]:
        """The files, in order; none where there is no such folder."""
        fs, root = _file_system(self.url)
        fs.invalidate_cache()
        if not fs.exists(root):
            return []
        return sorted(Path(path).name for path in fs.ls(root, detail=False))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there; a link or a folder stays."""
        fs, root = _file_system(self.url)
        with contextlib.suppress(FileNotFoundError):
            fs.rm_file(f"{root}/{name}")

    def remove_matching(self, pattern: str, keep: Container[str] = ()) -> None:
        r"""Remove the files whose whole names match a pattern, but for some.

        Temporary files of such names, which killed writers left, are removed too.

        Examples
        --------
        >>> import tempfile
        >>> folder = Folder(tempfile.mkdtemp())
        >>> for name in ("a-1", "a-2", "mine.txt"):
        ...     _ = folder.write_bytes(name, b"")
        >>> folder.remove_matching(r"a-\d", keep={"a-2"})
        >>> folder.names()
        ['a-2', 'mine.txt']
        """
        for name in self.names():
            if name not in keep and re.fullmatch(pattern, target_of(name) or name):
                self.remove(name)

    def size(self, name: str) -> int | None:
        """How many bytes a file has; None if it is missing."""
        fs, root = _file_system(self.url)
        try:
            return int(fs.size(f"{root}/{name}"))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, name: str) -> IO[bytes]:
        """Open a file of this folder for reading; a link to elsewhere or a device is refused."""
        fs, root = _file_system(self.url)
        try:
            opened: IO[bytes] = fs.open(f"{root}/{name}", "rb")
        except FileNotFoundError:
            raise self.error(f"{self.path(name)} is missing") from None
        except _NotAPlainFileError as error:
            raise self.error(f"{self.path(name)} {error}") from None
        return opened

    def write_bytes(self, name: str, content: bytes) -> FileEntry:
        """Write a file; returns its entry."""
        with self._writing(name) as file:
            file.write(content)
        return file.entry(name)

    def write_arrays(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> FileEntry:
        """Write arrays as a safetensors file; returns its entry."""
        with self._writing(name) as file:
            write_arrays(file, arrays)
        return file.entry(name)

    def read_bytes(self, entry: FileEntry) -> bytes:
        """Read a file, and compare it with its entry."""
        self._check_size(entry)
        with self.open(entry.name) as file:
            content = file.read(entry.bytes + 1)
        self._check(entry, len(content), zlib.crc32(content))
        return content

    def read_arrays(
        self, entry: FileEntry, expected: Mapping[str, ArraySpec], others: str | None = None
    ) -> dict[str, NDArray[Any]]:
        """Read a safetensors file and check its arrays; see `decode_arrays`."""
        content = self.read_bytes(entry)
        try:
            return decode_arrays(content, expected, others)
        except ValueError as error:
            raise self.error(f"{self.path(entry.name)}: {error}") from None

    def map_arrays(
        self, entry: FileEntry, expected: Mapping[str, ArraySpec]
    ) -> dict[str, NDArray[Any]]:
        """Arrays of a file as they lie on the disk; out of a store they are read as a whole."""
        if not self.is_local:
            return self.read_arrays(entry, expected)
        self._check_size(entry)
        with self.open(entry.name) as file:
            size, checksum = 0, 0
            while chunk := file.read(_CHUNK):
                size, checksum = size + len(chunk), zlib.crc32(chunk, checksum)
        self._check(entry, size, checksum)
        try:
            return {n: map_array(self.path(entry.name), n, spec) for n, spec in expected.items()}
        except ValueError as error:
            raise self.error(f"{self.path(entry.name)}: {error}") from None

    def check(self, entry: FileEntry) -> None:
        """Raise an error where a file is missing or has another size than was written."""
        if self.size(entry.name) is None:
            raise self.error(f"{self.path(entry.name)} is missing")
        self._check_size(entry)

    def _check_size(self, entry: FileEntry) -> None:
        """Before memory is taken for a file."""
        size = self.size(entry.name)
        if size is not None and size != entry.bytes:
            raise self.error(
                f"{self.path(entry.name)} is damaged: it has {size} bytes, "
                f"{entry.bytes} were written"
            )

    def _check(self, entry: FileEntry, size: int, checksum: int) -> None:
        if (size, checksum) != (entry.bytes, entry.crc32):
            raise self.error(f"{self.path(entry.name)} is damaged: its checksum is wrong")

    @contextlib.contextmanager
    def _writing(self, name: str) -> Iterator[_Checked]:
        fs, root = _file_system(self.url)
        with fs.open(f"{root}/{name}", "wb") as file:
            yield _Checked(file)


class _Checked:
    """Counts the bytes that are written to a file, and adds up their checksum."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._bytes, self._crc = file, 0, 0

    def write(self, content: Any) -> None:
        self._file.write(content)
        self._bytes += len(content)
        self._crc = zlib.crc32(content, self._crc)

    def entry(self, name: str) -> FileEntry:
        return FileEntry(name, self._bytes, self._crc)


class _NotAPlainFileError(Exception):
    pass


class _LocalFiles:
    """The methods of an fsspec file system that `Folder` calls, for plain paths.

    Unlike fsspec's own, it writes whole files or none, opens plain files alone, follows no link,
    and needs no package.
    """

    def open(self, path: str, mode: str) -> Any:
        if mode == "wb":
            refuse_link(path)
            return write_whole(path)
        if Path(path).is_symlink():
            raise _NotAPlainFileError("is a link, which is not followed")
        if Path(path).exists() and not Path(path).is_file():
            raise _NotAPlainFileError("is not a file")
        return Path(path).open(mode)

    def ls(self, root: str, detail: bool) -> list[str]:  # noqa: ARG002 (fsspec has it)
        return [os.fspath(path) for path in Path(root).iterdir()]

    def exists(self, path: str) -> bool:
        return Path(path).exists()

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
    """The file system of a URL, and what it calls the folder."""
    if "://" not in url:
        return _LocalFiles(), url
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(f"{url} needs the package fsspec: pip install 'robirank[ray]'") from None
    fs, root = url_to_fs(url)
    return fs, root
