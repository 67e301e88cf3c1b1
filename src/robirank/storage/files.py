"""Files that are either written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def write_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name only once it is complete.

    The bytes go to a temporary file in the same folder, which is flushed to disk and then takes
    the place of ``path`` in one step. If anything fails on the way, what stood at ``path`` is
    untouched and the temporary file is gone. A link is followed; a device or a pipe such as
    ``/dev/stdout`` is written to as it is.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with write_whole(folder / "a.txt") as file:
    ...     _ = file.write(b"all or nothing")
    >>> [p.name for p in folder.iterdir()]
    ['a.txt']
    """
    target = Path(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        with _naming(path), target.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(target))
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {target.parent}")
    temporary = target.with_name(f".{target.name[:64]}.{secrets.token_hex(4)}.tmp")
    with _naming(path, temporary):
        opened = temporary.open("xb")
        try:
            with opened as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, temporary)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    _sync_folder(target.parent)


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str], temporary: Path | None = None) -> Iterator[None]:
    """Let errors of the system say which file was meant: not none, not the temporary one."""
    try:
        yield
    except OSError as error:
        names = (None, os.fspath(temporary) if temporary else None)
        if error.errno is None or error.filename not in names:
            raise
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, UTF-8, whole or not at all."""
    with write_whole(path) as file:
        file.write(text.encode("utf-8", "surrogateescape"))


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
