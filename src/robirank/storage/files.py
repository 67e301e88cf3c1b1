"""Writing of files that appear complete or not at all, and checks of paths."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: no locks, and temporary files of killed processes stay
    fcntl = None  # type: ignore[assignment]

_NAME_LENGTH = 64  # characters of the target's name in the name of its temporary file
_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{8}\.tmp")


@contextlib.contextmanager
def write_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name only when it is complete.

    The bytes go to a temporary file in the same folder, which is flushed to disk and then replaces
    ``path`` atomically. If anything fails, ``path`` is unchanged and the temporary file is removed;
    that of a killed process is removed by the next write. A link is followed; a device or a pipe
    such as ``/dev/stdout`` is written to directly.
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
    remove_leftovers(target)
    with _naming(path), contextlib.ExitStack() as stack:
        temporary, opened = _open_temporary(target, stack)
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
    sync_folder(target.parent)


def _open_temporary(target: Path, stack: contextlib.ExitStack) -> tuple[Path, IO[bytes]]:
    """Open a temporary file and lock it until the stack is closed."""
    while True:
        temporary = target.with_name(f".{target.name[:_NAME_LENGTH]}.{secrets.token_hex(4)}.tmp")
        opened = temporary.open("xb")
        if fcntl is None:
            return temporary, opened
        lock = os.dup(opened.fileno())
        stack.callback(os.close, lock)
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        # 0 if another process removed it as a leftover before it was locked
        if os.fstat(lock).st_nlink:
            return temporary, opened
        opened.close()


def refuse_device(path: str | os.PathLike[str], *, pipes: bool = False) -> None:
    """Raise an error if the path is a device, which may have no end.

    Also if it is a pipe, unless ``pipes`` is true: it may have no writer, and cannot be read twice.
    """
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return  # opening it raises the error
    is_pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or (is_pipe and not pipes):
        kind = "pipe" if is_pipe else "device"
        raise ValueError(f"{os.fspath(path)} must be a file on a disk; it is a {kind}")


def refuse_link(path: str | os.PathLike[str]) -> None:
    """Raise an error if the path of a file or folder to be written is a symbolic link."""
    if Path(path).is_symlink():
        raise FileExistsError(
            f"{os.fspath(path)} is a link, which is not followed; remove it, or take another folder"
        )


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove temporary files of ``path`` that killed processes left behind.

    Files that are being written, in this process or in another, are locked and stay.
    """
    target = Path(os.path.realpath(path))
    with contextlib.suppress(OSError):
        for file in target.parent.iterdir():
            if target_of(file.name) == target.name[:_NAME_LENGTH]:
                remove_leftover(file)


def target_of(name: str) -> str | None:
    """The target's name (its first 64 characters) of a temporary file; None for other files."""
    match = _TEMPORARY.fullmatch(name)
    return match[1] if match else None


def remove_leftover(temporary: Path) -> None:
    """Remove a temporary file unless it is being written."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                temporary.unlink()
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the name of the target into system errors that name the temporary file or none."""
    try:
        yield
    except OSError as error:
        name = None if error.filename is None else Path(os.fsdecode(error.filename)).name
        if error.errno is None or not (name is None or target_of(name)):
            raise
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8; it appears complete or not at all."""
    with write_whole(path) as file:
        file.write(text.encode("utf-8", "surrogateescape"))


def sync_folder(folder: Path) -> None:
    """Write the folder's entries to disk, so that the new name survives a power failure."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
