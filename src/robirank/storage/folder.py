"""A folder on a disk or in a store such as S3: files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from robirank.storage.files import write_whole
from robirank.storage.tensor_file import safetensors_head

__all__ = ["DamagedFileError", "Folder", "load_tensors"]

Entry = dict[str, Any]


class DamagedFileError(ValueError):
    """A file is missing or does not hold what was written; the message names it."""


class Folder:
    """A folder by its path, or by a URL that the package fsspec understands.

    Objects are small and can be sent to other processes.

    Examples
    --------
    >>> import tempfile
    >>> folder = Folder(tempfile.mkdtemp())
    >>> entry = folder.write_bytes("a.txt", b"all or nothing")
    >>> folder.names(), folder.read_bytes(entry)
    (['a.txt'], b'all or nothing')
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.url = os.fspath(url).removeprefix("file://").rstrip("/")
        if self.is_local:
            self.url = os.path.abspath(self.url or "/")  # noqa: PTH100 (others are elsewhere)

    def __repr__(self) -> str:
        return self.url

    @property
    def is_local(self) -> bool:
        """Whether files have a path on this machine."""
        return "://" not in self.url

    def path(self, name: str) -> str:
        """The path or URL of a file."""
        return f"{self.url}/{name}"

    def sub(self, name: str) -> Folder:
        """A folder within."""
        return Folder(self.path(name))

    def make(self) -> None:
        """Make the folder, where there are folders."""
        if self.is_local:
            Path(self.url).mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """The files, in order; none where there is no such folder."""
        if self.is_local:
            folder = Path(self.url)
            return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
        fs, root = self._remote()
        fs.invalidate_cache()
        if not fs.exists(root):
            return []
        return sorted(os.path.basename(p) for p in fs.ls(root, detail=False))  # noqa: PTH119

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self.is_local:
            Path(self.path(name)).unlink(missing_ok=True)
        else:
            fs, root = self._remote()
            with contextlib.suppress(FileNotFoundError):
                fs.rm_file(f"{root}/{name}")

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading; a missing one is a `DamagedFileError`."""
        try:
            if self.is_local:
                return Path(self.path(name)).open("rb")
            fs, root = self._remote()
            return cast(IO[bytes], fs.open(f"{root}/{name}", "rb"))
        except FileNotFoundError:
            raise DamagedFileError(f"{self.path(name)} is missing") from None

    def write_bytes(self, name: str, content: bytes) -> Entry:
        """Write a file; returns its entry: name, size and checksum."""
        with self._writing(name) as file:
            file.write(content)
        return file.entry(name)

    def write_tensors(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> Entry:
        """Write arrays as a safetensors file; returns its entry: name, size and checksum."""
        head, order = safetensors_head(arrays)
        with self._writing(name) as file:
            file.write(head)
            for key in order:
                array = np.ascontiguousarray(arrays[key])
                file.write(array.reshape(-1).view(np.uint8).data)
        return file.entry(name)

    def read_bytes(self, entry: Entry) -> bytes:
        """Read a file, and compare it with its entry."""
        with self.open(entry["name"]) as file:
            content = file.read()
        if len(content) != entry["bytes"]:
            raise DamagedFileError(
                f"{self.path(entry['name'])} is damaged: it has {len(content)} bytes, "
                f"{entry['bytes']} were written"
            )
        if zlib.crc32(content) != entry["crc32"]:
            raise DamagedFileError(f"{self.path(entry['name'])} is damaged: its checksum is wrong")
        return content

    def size(self, name: str) -> int | None:
        """How many bytes a file has; None if it is missing."""
        try:
            if self.is_local:
                return Path(self.path(name)).stat().st_size
            fs, root = self._remote()
            return int(fs.size(f"{root}/{name}"))
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def _writing(self, name: str) -> Iterator[_Counted]:
        if self.is_local:
            with write_whole(self.path(name)) as file:
                yield _Counted(file)
        else:
            fs, root = self._remote()
            with fs.open(f"{root}/{name}", "wb") as file:  # a store shows it when it is closed
                yield _Counted(file)

    def _remote(self) -> tuple[Any, str]:
        try:
            import fsspec
        except ImportError:
            raise ImportError(
                f"{self.url} needs the package fsspec: pip install 'robirank[ray]'"
            ) from None
        fs, root = fsspec.core.url_to_fs(self.url)
        return fs, root


class _Counted:
    """Counts and checks what is written to a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._bytes, self._crc = file, 0, 0

    def write(self, content: Any) -> None:
        self._file.write(content)
        self._bytes += len(content)
        self._crc = zlib.crc32(content, self._crc)

    def entry(self, name: str) -> Entry:
        return {"name": name, "bytes": self._bytes, "crc32": self._crc}


def load_tensors(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file."""
    from safetensors.numpy import load

    arrays: dict[str, NDArray[Any]] = load(content)
    return arrays
